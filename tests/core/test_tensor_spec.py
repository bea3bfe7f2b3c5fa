import numpy as np
import pytest

import trainkit as tk

ROWS = [
    (tk.constant([1.0, 2.0]), tk.TensorSpec((2,), "float32")),
    (np.ones((2, 3)), tk.TensorSpec((2, 3), "float64")),
    (1, tk.TensorSpec((), "int32")),
    (2.5, tk.TensorSpec((), "float32")),
    (True, tk.TensorSpec((), "bool")),
    ("a", tk.TensorSpec((), "string")),
    ((1, 2), tk.TensorSpec((2,), "int32")),
    (np.float32(1), tk.TensorSpec((), "float32")),
    (tk.Variable([1.0]), tk.TensorSpec((1,), "float32")),
]


@pytest.mark.parametrize(("value", "spec"), ROWS, ids=[str(spec) for _, spec in ROWS])
def test_specs_are_tensorflows(value, spec):
    assert tk.type_spec_from_value(value) == spec


def test_specs_are_signatures():
    x = tk.constant([[1.0, 2.0]])
    total = tk.function(tk.reduce_sum, input_signature=[tk.type_spec_from_value(x)])
    assert float(total(x)) == 3.0


def test_symbols_have_the_spec_of_the_signature():
    specs = []
    signature = tk.TensorSpec((None, 2), "int64")
    tk.function(lambda x: specs.append(tk.type_spec_from_value(x))).get_concrete_function(signature)
    assert specs[0] == signature


@pytest.mark.parametrize("value", [{"a": 1}, object(), tk.TensorSpec((1,)), None])
def test_what_is_no_tensor(value):
    with pytest.raises(TypeError, match="does not convert to one"):
        tk.type_spec_from_value(value)
