"""What TensorFlow 2.21 says of its element types, graphs and variables."""

import numpy as np
import pytest

import trainkit as tk

NUMBERS = {
    "float32": 1,
    "float64": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 5,
    "int8": 6,
    "string": 7,
    "complex64": 8,
    "int64": 9,
    "bool": 10,
    "bfloat16": 14,
    "uint16": 17,
    "complex128": 18,
    "float16": 19,
    "uint32": 22,
    "uint64": 23,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_facts_of_element_types(name):
    dtype = tk.as_dtype(name)
    assert dtype.as_datatype_enum == NUMBERS[name]
    assert dtype.base_dtype is dtype
    assert dtype.is_numeric is (name not in ("bool", "string"))
    assert dtype.is_quantized is False
    assert dtype.is_compatible_with(tk.float32) is (name == "float32")


def test_types_are_compatible_by_any_of_their_names():
    assert tk.float32.is_compatible_with("float32")
    assert tk.float32.is_compatible_with(np.float32)
    with pytest.raises(TypeError, match="'nope' is not an element type"):
        tk.float32.is_compatible_with("nope")


def test_variables_are_initialized():
    assert bool(tk.Variable(1.0).is_initialized(name="asked"))
    assert bool(tk.function(tk.Variable(1.0).is_initialized)())


def test_a_graph_tells_its_operations_and_variables():
    v, w = tk.Variable(1.0, name="v"), tk.Variable(2.0, trainable=False, name="w")
    concrete = tk.function(lambda x: x * w + v).get_concrete_function(tk.TensorSpec([]))
    graph = concrete.graph
    assert graph.operations == graph.get_operations()
    assert [x is y for x, y in zip(graph.variables, (w, v), strict=True)] == [True, True]
    assert [x is v for x in graph.trainable_variables] == [True]
    assert [x is y for x, y in zip(concrete.captured_inputs, (w, v), strict=True)] == [True, True]


def test_a_graph_opens_scopes_of_names():
    seen = []

    @tk.function
    def scoped(x):
        graph = tk.compat.v1.get_default_graph()
        with graph.name_scope("outer"), graph.name_scope("inner"):
            seen.append(graph.get_name_scope())
        return x

    scoped(tk.constant(1.0))
    assert seen == ["outer/inner"]
