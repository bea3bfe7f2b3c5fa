"""Promotion of every pair of dtypes, and of Python numbers, as in Keras 3."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.core.dtypes import as_dtype, result_type

SHORT = {
    "b": "bool",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "f16": "float16",
    "bf": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "c64": "complex64",
    "c128": "complex128",
}
PYTHON = {"int": 2, "float": 2.0, "cplx": 2j}

# The dtype of the row with that of the column; the last rows are Python's numbers.
TABLE = """
        b   u8  u16  u32  u64   i8  i16  i32  i64  f16   bf  f32  f64  c64 c128
   b    b   u8  u16  u32  u64   i8  i16  i32  i64  f16   bf  f32  f64  c64 c128
  u8   u8   u8  u16  u32  u64  i16  i16  i32  i64  f16   bf  f32  f64  c64 c128
 u16  u16  u16  u16  u32  u64  i32  i32  i32  i64  f16   bf  f32  f64  c64 c128
 u32  u32  u32  u32  u32  u64  i64  i64  i64  i64  f16   bf  f32  f64  c64 c128
 u64  u64  u64  u64  u64  u64  f32  f32  f32  f32  f16   bf  f32  f64  c64 c128
  i8   i8  i16  i32  i64  f32   i8  i16  i32  i64  f16   bf  f32  f64  c64 c128
 i16  i16  i16  i32  i64  f32  i16  i16  i32  i64  f16   bf  f32  f64  c64 c128
 i32  i32  i32  i32  i64  f32  i32  i32  i32  i64  f16   bf  f32  f64  c64 c128
 i64  i64  i64  i64  i64  f32  i64  i64  i64  i64  f16   bf  f32  f64  c64 c128
 f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f32  f32  f64  c64 c128
  bf   bf   bf   bf   bf   bf   bf   bf   bf   bf  f32   bf  f32  f64  c64 c128
 f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f64  c64 c128
 f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64 c128 c128
 c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64 c128  c64 c128
c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128
 int  i32   u8  u16  u32  u64   i8  i16  i32  i64  f16   bf  f32  f64  c64 c128
float  f32  f32  f32  f32  f32  f32  f32  f32  f32  f16   bf  f32  f64  c64 c128
cplx  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64 c128  c64 c128"""


def pairs():
    header, *rows = TABLE.strip("\n").splitlines()
    for row in rows:
        left, *results = row.split()
        yield from (
            (left, right, result) for right, result in zip(header.split(), results, strict=True)
        )


PAIRS = list(pairs())


def operand(name):
    """A value of the dtype with this short name, or a Python number."""
    if name in PYTHON:
        return PYTHON[name]
    return ops.cast([1, 1], SHORT[name])


def test_table_is_whole():
    assert len(PAIRS) == (len(SHORT) + len(PYTHON)) * len(SHORT)


@pytest.mark.parametrize(("left", "right", "result"), PAIRS)
def test_pair_promotes(left, right, result):
    values = [PYTHON.get(left, SHORT.get(left)), SHORT[right]]
    assert result_type(*values) == SHORT[result]
    assert result_type(*reversed(values)) == SHORT[result]


@pytest.mark.parametrize(("left", "right", "result"), PAIRS)
def test_operations_follow_the_table(left, right, result):
    a, b = operand(left), operand(right)
    assert ops.add(a, b).dtype == SHORT[result]
    assert ops.multiply(b, a).dtype == SHORT[result]
    assert ops.where([True, False], a, b).dtype == SHORT[result]


@pytest.mark.parametrize(("left", "right", "result"), PAIRS)
def test_quotients_are_floats(left, right, result):
    wanted = as_dtype(SHORT[result])
    if not (wanted.is_floating or wanted.is_complex):
        wanted = as_dtype("float32")
    quotient = ops.divide(operand(left), operand(right))
    assert quotient.dtype == wanted
    assert np.all(np.isfinite(ops.cast(ops.abs(quotient), "float64").numpy()))


def test_three_operands_promote_together():
    assert result_type("int8", "uint8", "float16") == "float16"
    assert result_type("bool", 1, 2.0) == "float32"


BESIDE_FLOATS = {
    "operator": lambda x, a: x * a,
    "reflected operator": lambda x, a: a - x,
    "comparison's operand": lambda x, a: tk.maximum(x, a),
    "number": lambda x, a: x / np.sqrt(2.0),
    "reflected number": lambda x, a: np.sqrt(2.0) / x,
    "choice": lambda x, a: tk.where(x > 1.0, x, a),
    "limits": lambda x, a: tk.clip_by_value(x, np.float64(0), np.float64(1)),
    "joined": lambda x, a: tk.concat([x, a], 0),
    "product": lambda x, a: tk.expand_dims(x, 0) @ np.ones((2, 3)),
    "traced": lambda x, a: tk.function(lambda x: x + a)(x),
    "variable": lambda x, a: tk.Variable(x) * a,
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("case", BESIDE_FLOATS)
def test_floats_of_numpy_take_the_dtype_of_a_tensor_of_floats(case, dtype):
    x = tk.cast([1.0, 2.0], dtype)
    result = BESIDE_FLOATS[case](x, np.array([0.1, 0.2]))
    assert result.dtype == dtype


def test_floats_of_numpy_keep_their_dtype_beside_integers():
    assert (tk.constant([1, 2]) * np.array([0.5, 0.25])).dtype == tk.float64
    assert (tk.constant([1, 2]) * np.float64(0.5)).dtype == tk.float64


def test_a_weight_takes_its_product_with_a_mask_of_numpy():
    weight = tk.Variable([[1.0, 2.0], [3.0, 4.0]])
    weight.assign(weight * np.tril(np.ones((2, 2))))
    np.testing.assert_array_equal(weight.numpy(), np.array([[1, 0], [3, 4]], "float32"))
