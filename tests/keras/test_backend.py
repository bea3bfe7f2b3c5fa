"""`keras.backend` and `keras.KerasTensor`."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.keras import KerasTensor, backend


def test_result_type_of_none_and_of_nothing_is_the_default_float():
    assert backend.result_type() == "float32"
    assert backend.result_type(None) == "float32"
    assert backend.result_type(None, "float16") == "float32"
    assert backend.result_type("int32", float) == "float32"
    assert backend.result_type(bool, int) == "int32"
    assert backend.result_type("uint32", "int16") == "int64"
    with pytest.raises(ValueError, match="float9"):
        backend.result_type("float9", "int32")


def test_a_symbol_has_keras_attributes_and_no_value():
    x = KerasTensor((None, 3), "int32", name="x")
    assert (x.shape, x.dtype, x.name, x.sparse, x.ragged) == ((None, 3), "int32", "x", False, False)
    for asked in (np.array, np.sum, float, int):
        with pytest.raises(ValueError, match="KerasTensor"):
            asked(x)
    with pytest.raises(TypeError):
        bool(x)
    for name in ("shape", "dtype", "sparse", "ragged"):
        with pytest.raises(AttributeError):
            setattr(x, name, None)
    with pytest.raises(NotImplementedError, match="sparse"):
        KerasTensor((2,), sparse=True)


@pytest.mark.parametrize("shape", [3, None, "34", (2, 1.5), (2, -1), (2, "3")])
def test_a_symbol_refuses_what_is_no_shape(shape):
    with pytest.raises(ValueError, match="shape"):
        KerasTensor(shape)


def test_sizes_of_a_symbol_are_ints():
    shape = KerasTensor((np.int32(4), tk.constant(5), None)).shape
    assert [type(n) for n in shape] == [int, int, type(None)]


def test_numbers_of_names():
    backend.clear_session()
    assert [backend.get_uid("part"), backend.get_uid("part"), backend.get_uid()] == [1, 2, 1]
    assert tk.layers.Dense(1).name == "dense"
    assert backend.get_uid("dense") == 2
    backend.clear_session(free_memory=False)
    assert backend.get_uid("part") == 1
