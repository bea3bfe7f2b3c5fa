"""Arrays of other libraries: DLPack, the namespace of a tensor, NumPy's functions."""

import inspect

import array_api_strict as strict
import numpy as np
import pytest

import trainkit as tk
import trainkit.array_api as xp
from trainkit.core.errors import DeviceError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.variable import Variable
from trainkit.ops.arrays.dlpack import from_dlpack


class OnVulkan:
    """An array on a device that nobody here can read."""

    def __dlpack__(self, **kwargs):
        raise AssertionError("never asked for")

    def __dlpack_device__(self):
        return (7, 0)


def test_numpy_arrays_come_without_a_copy():
    array = np.arange(6.0).reshape(2, 3)
    tensor = from_dlpack(array)
    assert type(tensor) is Tensor
    assert np.shares_memory(np.asarray(tensor), array)
    assert from_dlpack(tensor) is tensor


@pytest.mark.usefixtures("on_cpu")
def test_tensors_go_without_a_copy():
    tensor = convert_to_tensor([[1.0, 2.0]])
    assert np.shares_memory(np.from_dlpack(tensor), np.asarray(tensor))
    assert np.from_dlpack(Variable([3.0])).tolist() == [3.0]
    assert tensor.__dlpack_device__() == (1, 0)


@pytest.mark.usefixtures("on_cpu")
def test_scalars_go_too():
    assert np.from_dlpack(convert_to_tensor(2.5)).tolist() == 2.5
    assert np.from_dlpack(convert_to_tensor([1.0, 2.0])[0]).tolist() == 1.0


def test_arrays_of_another_library_come_and_go():
    theirs = strict.asarray(np.arange(3))
    ours = xp.from_dlpack(theirs)
    assert ours.tolist() == [0, 1, 2]
    assert bool(strict.all(strict.from_dlpack(ours) == theirs))


def test_a_copy_is_made_where_it_is_asked_for():
    array = np.arange(3.0)
    assert not np.shares_memory(np.asarray(xp.from_dlpack(array, copy=True)), array)
    assert np.shares_memory(np.asarray(xp.from_dlpack(array, copy=False)), array)


def test_what_speaks_no_dlpack_is_refused():
    with pytest.raises(TypeError, match="list has no __dlpack__"):
        from_dlpack([1.0])
    with pytest.raises(DeviceError, match="of DLPack's kind 7; copy it to the CPU"):
        from_dlpack(OnVulkan())


def test_a_tensor_names_its_namespace():
    for x in (convert_to_tensor([1.0]), Variable([1.0])):
        assert x.__array_namespace__() is xp
        assert x.__array_namespace__(api_version="2024.12") is xp
        assert x.__array_namespace__(api_version="2025.12") is xp
    with pytest.raises(ValueError, match=r"'1999\.01' is none of"):
        convert_to_tensor([1.0]).__array_namespace__(api_version="1999.01")


@pytest.mark.usefixtures("on_cpu")
def test_members_of_the_standard():
    x = convert_to_tensor([[1.0, 2.0, 3.0]])
    assert (x.T.shape, x.mT.shape, x.ndim, x.size) == ((3, 1), (3, 1), 2, 3)
    assert x.to_device(x.device) is x
    assert x.to_device("/cpu:0") is x
    with pytest.raises(ValueError, match=r"x\.T needs a matrix"):
        _ = convert_to_tensor([1.0]).T
    with pytest.raises(ValueError, match="streams"):
        x.to_device(x.device, stream=1)


def test_asarray_keeps_copies_to_what_is_needed():
    x = xp.asarray([1.0])
    assert xp.asarray(x, copy=False) is x
    assert xp.asarray([1, 2]).dtype == xp.int32
    assert xp.asarray(1j).dtype == xp.complex64
    assert xp.asarray(0.1, dtype=xp.float64).item() == 0.1
    with pytest.raises(ValueError, match="copy=False"):
        xp.asarray([1.0], copy=False)
    with pytest.raises(ValueError, match="copy=False"):
        xp.asarray(x, dtype=xp.float64, copy=False)


def test_axes_out_of_range_are_index_errors():
    with pytest.raises(IndexError, match="axis 3 is out of range"):
        xp.expand_dims(xp.asarray([1.0]), axis=3)


@pytest.mark.parametrize(
    ("shape", "key"),
    [
        ((), np.array([False])),
        ((0,), np.array([False])),
        ((2, 3), np.ones((3,), bool)),
        ((2, 3), np.array([0, 2])),
        ((2,), 2),
        ((2,), (0, 0)),
        ((), 0),
    ],
)
def test_what_lies_outside_of_a_tensor_is_an_index_error(shape, key):
    x = xp.ones(shape)
    key = convert_to_tensor(key) if isinstance(key, np.ndarray) else key
    with pytest.raises(IndexError, match=r"get_item|out of bounds"):
        _ = x[key]


def test_reshape_refuses_a_copy():
    x = xp.permute_dims(xp.asarray([[1.0, 2.0], [3.0, 4.0]]), (1, 0))
    with pytest.raises(ValueError, match="reshape"):
        xp.reshape(x, (4,), copy=False)
    assert xp.reshape(x, (4,)).tolist() == [1.0, 3.0, 2.0, 4.0]


def test_the_namespace_describes_itself():
    info = xp.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"] is True
    assert info.default_device() in info.devices()
    assert info.default_dtypes()["real floating"] == xp.float32
    assert set(info.dtypes(kind="signed integer")) == {"int8", "int16", "int32", "int64"}
    assert len(info.dtypes()) == 13
    assert xp.__array_api_version__ == "2025.12"
    assert isinstance(info.devices(), tuple)


def test_gradients_flow_through_the_namespace():
    from trainkit.autodiff.tape import GradientTape

    x = xp.asarray([1.0, 2.0, 3.0])
    with GradientTape() as tape:
        tape.watch(x)
        y = xp.sum(xp.square(xp.linalg.vector_norm(x)))
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), [2, 4, 6], rtol=1e-6)


def test_numpy_functions_take_tensors():
    x = convert_to_tensor([[1.0, 4.0], [9.0, 16.0]])
    assert np.sqrt(x).tolist() == [[1, 2], [3, 4]]
    assert np.concatenate([x, x]).shape == (4, 2)
    assert np.mean(x, axis=0).tolist() == [5, 10]
    assert isinstance(np.ones(2) + x, Tensor)


ERRORS = [
    (lambda: xp.linalg.cross(xp.ones(2), xp.ones(2)), "three components"),
    (lambda: xp.linalg.outer(xp.ones((2, 2)), xp.ones(2)), "two vectors"),
    (lambda: xp.linalg.matrix_rank(xp.ones(2)), "needs matrices"),
    (lambda: xp.vecdot(xp.ones(2), xp.ones(3)), "sizes 2 and 3"),
    (lambda: xp.take(xp.ones((2, 2)), xp.asarray([0])), "axis must be given"),
    (lambda: xp.cumulative_sum(xp.ones((2, 2))), "axis must be given"),
    (lambda: xp.isdtype(xp.int8, "whole"), "'whole' is none of"),
    (lambda: xp.result_type(1, 2.0), "at least one tensor or dtype"),
    (lambda: xp.fft.fft(xp.ones(2), norm="x"), "norm 'x' is none of"),
    (lambda: xp.fft.fftn(xp.ones((2, 2)), s=(2,), axes=(0, 1)), "1 sizes for 2 axes"),
    (lambda: xp.meshgrid(xp.ones(2), indexing="yx"), "'xy' or 'ij'"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors_are_value_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_limits_of_other_kinds_are_type_errors():
    with pytest.raises(TypeError, match="int8 is not floating"):
        xp.finfo(xp.int8)
    with pytest.raises(TypeError, match="float32 is no integer type"):
        xp.iinfo(xp.float32)


@pytest.mark.usefixtures("on_cpu")  # NumPy takes memory of the CPU alone
def test_dlpack_has_the_standard_s_arguments():
    names = list(inspect.signature(tk.Tensor.__dlpack__).parameters)
    assert names == ["self", "stream", "max_version", "dl_device", "copy"]
    x = tk.constant([1.0, 2.0])
    copied = np.from_dlpack(x, copy=True)
    copied[0] = 5.0
    assert x.numpy().tolist() == [1.0, 2.0]
    assert np.from_dlpack(x, device="cpu").tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match="streams"):
        x.__dlpack__(streams=None)
