"""`keras.Function`: what lies between symbolic tensors."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.keras import Function, Input, KerasTensor, Model, layers

ONES = np.ones((2, 3), "float32")


@pytest.fixture
def parts():
    one, two = KerasTensor((2, 3)), KerasTensor((2, 3))
    both = one - two
    return one, two, both * 3, both**2


def test_it_runs_on_values_and_on_symbols(parts):
    one, two, y, z = parts
    function = Function([one, two], [y, z], name="pair")
    assert function.name == "pair"
    found = function([ONES * 3, ONES])
    assert [x.numpy()[0, 0] for x in found] == [6, 4]
    compiled = tk.function(lambda a, b: function([a, b]))(tk.constant(ONES * 3), tk.constant(ONES))
    assert [x.numpy()[0, 0] for x in compiled] == [6, 4]
    a, b = KerasTensor((2, 3)), KerasTensor((2, 3))
    symbols = function([a, b])
    assert [(type(s), tuple(s.shape)) for s in symbols] == [(KerasTensor, (2, 3))] * 2
    assert Function([a, b], symbols)([ONES * 3, ONES])[1].numpy()[0, 0] == 4


def test_inputs_and_outputs_may_be_dicts_in_any_order(parts):
    one, two, y, z = parts
    function = Function({"b": one, "a": two}, {"z": y, "y": [z]})
    found = function({"a": ONES, "b": ONES * 3})
    assert found["z"].numpy()[0, 0] == 6
    assert found["y"][0].numpy()[0, 0] == 4


def test_shapes_follow_the_inputs():
    x = KerasTensor((None, 3))
    function = Function(x, x**2)
    assert function.compute_output_spec(KerasTensor((4, 3))).shape == (4, 3)
    assert function.compute_output_shape((None, 3)) == (None, 3)


def test_it_begins_where_it_is_told_to():
    x = Input((3,))
    middle = layers.Dense(2, name="before")(x)
    layer = layers.Dense(4, name="behind")
    function = Function(middle, layer(middle))
    names = [op.name for op in function.operations]
    assert "behind" in names
    assert "before" not in names
    assert np.allclose(function(np.ones((5, 2), "float32")), layer(np.ones((5, 2), "float32")))


def test_a_model_may_begin_at_a_bare_symbol():
    x = KerasTensor((None, 3))
    assert np.allclose(Model(x, x * 2)(ONES), ONES * 2)


@pytest.mark.parametrize(
    "given",
    [
        ONES,
        [ONES],
        [ONES, [ONES]],
        [np.ones((2, 3, 3)), ONES],
        [np.ones((4, 3)), ONES],
        {"a": ONES},
    ],
)
def test_inputs_that_do_not_fit_are_refused(parts, given):
    one, two, y, _ = parts
    with pytest.raises(ValueError, match="Function 'f'"):
        Function([one, two], y, name="f")(given)


def test_a_function_needs_inputs_and_outputs(parts):
    one, _, y, _ = parts
    for inputs, outputs in (([], y), (one, []), ({}, y)):
        with pytest.raises(ValueError, match="Function"):
            Function(inputs, outputs)
    with pytest.raises(ValueError, match="keras_tensor"):
        Function(one, y)


@pytest.mark.parametrize("way", [lambda f: f, tk.function], ids=["eager", "function"])
@pytest.mark.parametrize("symbol_dtype", ["float32", "float64", "float16", "int32"])
def test_inputs_keep_their_dtypes_where_a_model_casts_them(symbol_dtype, way):
    x = tk.keras.Input((2,), dtype=symbol_dtype)
    function, model = tk.keras.Function(x, x + x), tk.keras.Model(x, x + x)
    for dtype in ("float16", "bfloat16", "float32", "float64", "int32", "int64", "uint8"):
        data = tk.cast([[1.0, 2.0]], dtype)
        assert way(lambda data=data: function(data))().dtype == dtype
        assert way(lambda data=data: model(data))().dtype == symbol_dtype
    assert function(np.ones((1, 2))).dtype == "float64"
