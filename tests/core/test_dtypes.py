"""Element types by all their names."""

import ml_dtypes
import numpy as np
import pytest

import trainkit as tk
from trainkit.core import dtypes

SPELLINGS = [
    ("float32", tk.float32),
    (np.float64, tk.float64),
    (np.dtype("int8"), tk.int8),
    (float, tk.float32),
    (int, tk.int32),
    (bool, tk.bool),
    (complex, tk.complex64),
    ("half", tk.float16),
    ("double", tk.float64),
    (ml_dtypes.bfloat16, tk.bfloat16),
    (tk.uint16, tk.uint16),
    (str, tk.string),
]


@pytest.mark.parametrize(("spelling", "dtype"), SPELLINGS)
def test_all_spellings(spelling, dtype):
    assert tk.as_dtype(spelling) is dtype


@pytest.mark.parametrize("spelling", ["float33", list, 11])
def test_what_is_no_dtype_lists_those_there_are(spelling):
    with pytest.raises(TypeError, match="is not an element type; there are bool, uint8"):
        tk.as_dtype(spelling)


def test_texts_are_tensorflows():
    assert (repr(tk.float32), str(tk.float32)) == ("tf.float32", "<dtype: 'float32'>")


def test_a_dtype_equals_its_names():
    assert tk.float32 == "float32"
    assert tk.float32 == np.float32
    assert tk.float32 == np.dtype("float32")
    assert tk.float32 != tk.float64
    assert tk.float32 != "float64"
    assert tk.float32 != 3
    assert tk.float32 != dict()
    assert len({tk.float32, tk.as_dtype("float32"), tk.int32}) == 2
    assert np.dtype(tk.int16) == np.int16
    assert np.zeros(2, tk.float16).dtype == np.float16


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: d.name)
def test_kinds(dtype):
    kinds = [dtype.is_floating, dtype.is_integer, dtype.is_bool, dtype.is_complex]
    assert sum(kinds) == (dtype.name != "string")
    assert dtype.is_differentiable == (dtype.is_floating or dtype.is_complex)
    assert dtype.is_unsigned == dtype.name.startswith("uint")
    assert dtype.is_numpy_compatible


def test_limits():
    assert (tk.int8.min, tk.int8.max, tk.bool.limits) == (-128, 127, (False, True))
    assert tk.float32.max == np.finfo(np.float32).max
    assert tk.bfloat16.max == pytest.approx(3.3895e38, rel=1e-4)
    assert (tk.float64.size, tk.bfloat16.size) == (8, 2)
    with pytest.raises(TypeError, match="complex64 has no least or greatest value"):
        _ = tk.complex64.max


def test_real_dtype():
    assert tk.complex64.real_dtype is tk.float32
    assert tk.complex128.real_dtype is tk.float64
    assert tk.int32.real_dtype is tk.int32


def test_floatx_can_be_changed():
    try:
        dtypes.set_floatx("float64")
        assert tk.keras.config.floatx() == "float64"
        assert tk.ops.mean(tk.constant([1, 2])).dtype == tk.float64
    finally:
        dtypes.set_floatx("float32")
    with pytest.raises(ValueError, match="'int32' is not a floating type"):
        dtypes.set_floatx("int32")


def test_numbers_of_tensorflows_list_of_types_are_types():
    names = "float32 float64 int32 uint8 int16 int8 string complex64 int64 bool".split()
    assert [tk.as_dtype(n).name for n in range(1, 11)] == names
    others = {14: "bfloat16", 17: "uint16", 18: "complex128", 19: "float16", 22: "uint32"}
    assert {n: tk.as_dtype(n).name for n in others} == others
    assert tk.as_dtype(23) == "uint64"
    assert tk.zeros(1, 1).dtype == "float32"
    for n in (0, 11, 99, True):
        with pytest.raises(TypeError, match="is not an element type"):
            tk.as_dtype(n)
