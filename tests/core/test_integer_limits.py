"""Python integers beside tensors of integers: in range they are weak, out of range they raise."""

import numpy as np
import pytest

import trainkit as tk

DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
WAYS = [lambda f: f(), lambda f: tk.function(f)()]
MIXING = {
    "add": lambda x, k: x + k,
    "subtract": lambda x, k: x - k,
    "multiply from the right": lambda x, k: k * x,
    "floor_divide": lambda x, k: x // k,
    "divide": lambda x, k: x / k,
    "mod": lambda x, k: x % k,
    "maximum": tk.maximum,
    "first": lambda x, k: tk.add(k, x),
    "bitwise": lambda x, k: x | k,
    "where": lambda x, k: tk.where([True, False], x, k),
    "clip": lambda x, k: tk.clip_by_value(x, k, k),
}
JOINING = {
    "concat": lambda x, k: tk.concat([x, k], 0),
    "concat first": lambda x, k: tk.concat([k, x], 0),
    "stack": lambda x, k: tk.stack([x, k]),
    "assign": lambda x, k: tk.Variable(x).assign(k),
    "assign_add": lambda x, k: tk.Variable(x).assign_add(k),
}


def _one_too_much(dtype):
    return [int(np.iinfo(dtype).max) + 1, int(np.iinfo(dtype).min) - 1]


@pytest.mark.parametrize("way", WAYS, ids=["eager", "function"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_integers_out_of_range_raise_and_say_what_to_do(dtype, way):
    x = tk.constant([1, 2], dtype)
    variables = {name: tk.Variable(x) for name in ("assign", "assign_add")}
    for value in _one_too_much(dtype):
        for name, op in {**MIXING, **JOINING}.items():
            for operand in ([value, 1], value):
                if operand is value and name in JOINING:
                    continue
                target = variables.get(name)

                def call(op=op, operand=operand, target=target, name=name):
                    return getattr(target, name)(operand) if target is not None else op(x, operand)

                with pytest.raises(tk.errors.InvalidArgumentError, match=f"fit {dtype}, which"):
                    way(call)
    np.testing.assert_array_equal(variables["assign_add"], [1, 2])


def test_the_error_shows_a_way_out():
    x = tk.constant([1, 2], tk.int8)
    with pytest.raises(ValueError, match=r"from 1 to 300 don't fit int8.*tk\.cast\(x, tk\.int64\)"):
        tk.add(x, [300, 1])
    with pytest.raises(ValueError, match=r"300 doesn't fit int8.*tk\.cast\(x, tk\.int64\)"):
        x + 300
    assert tk.add(tk.cast(x, tk.int64), [300, 1]).tolist() == [301, 3]


@pytest.mark.parametrize("way", WAYS, ids=["eager", "function"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_integers_in_range_leave_the_dtype(dtype, way):
    x = tk.constant([1, 2], dtype)
    for name, op in {**MIXING, **JOINING}.items():
        y = way(lambda op=op: op(x, [1, 2])) if "assign" not in name else op(x, [1, 2])
        float_dtype = "float32" if x.dtype.size < 4 else "float64"
        assert y.dtype == (float_dtype if name == "divide" else dtype), name


@pytest.mark.parametrize("way", WAYS, ids=["eager", "function"])
def test_comparisons_and_searches_take_any_integer(way):
    x = tk.constant([1, 2], tk.int8)
    assert way(lambda: x < [300, 1]).tolist() == [True, False]
    assert way(lambda: x == 300).tolist() == [False, False]
    assert way(lambda: tk.ops.isin(x, [300, 1])).tolist() == [True, False]
    assert way(lambda: tk.searchsorted(x, [300, 1])).tolist() == [2, 0]


def test_integers_beside_typed_values_and_floats_promote():
    x = tk.constant([1, 2], tk.int8)
    assert (x + np.array([300, 1])).dtype == tk.int64
    assert tk.add(x, [tk.constant(300), 1]).dtype == tk.int32
    assert tk.add(x, [1.5, 2.0]).dtype == tk.float32
    assert tk.where([True, False], x, [1.5, 2.0]).dtype == tk.float32


def test_lists_of_floats_take_the_dtype_beside_them():
    x = tk.constant([1.0, 2.0], tk.float16)
    assert tk.where([True, False], x, [1.5, 2.0]).dtype == tk.float16
    assert (x / [1.5, 2.0]).dtype == tk.float16
    assert tk.clip_by_value(x, [1.5, 2.0], 3.0).dtype == tk.float16
