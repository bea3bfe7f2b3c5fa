import numpy as np
import pytest

from tests.ops.numpy_compare import assert_same
from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.ops.fourier import complex_fft, complex_ifft

RE, IM = np.random.default_rng(0).normal(size=(2, 2, 3, 5))


def parts(z):
    return np.stack([z.real, z.imag])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pairs_agree_with_numpy(dtype):
    re, im = RE.astype(dtype), IM.astype(dtype)
    for ours, numpys in ((ops.fft, np.fft.fft), (ops.fft2, np.fft.fft2), (ops.ifft2, np.fft.ifft2)):
        found = ours((re, im))
        assert found[0].dtype == dtype
        np.testing.assert_allclose(np.stack(found), parts(numpys(RE + 1j * IM)), atol=1e-5)


@pytest.mark.parametrize("n", [None, 3, 5, 8])
def test_real_transforms_agree_with_numpy(n):
    np.testing.assert_allclose(np.stack(ops.rfft(RE, n)), parts(np.fft.rfft(RE, n)), atol=1e-12)
    assert_same(ops.irfft((RE, IM), n), np.fft.irfft(RE + 1j * IM, n))


def test_complex_tensors_go_there_and_back():
    z = RE + 1j * IM
    for rank in (1, 2, 3):
        back = complex_ifft(complex_fft(z, rank), rank)
        np.testing.assert_allclose(back.numpy(), z, atol=1e-12)
    assert complex_fft(RE.astype("float32")).dtype == "complex64"


def test_integers_become_floats():
    assert ops.rfft([1, 2, 3])[0].dtype == "float32"


ERRORS = [
    (lambda: ops.fft(RE), ValueError, "takes a pair of tensors"),
    (lambda: ops.fft(([1], [2])), ValueError, "both parts must be floats, got int32"),
    (lambda: ops.fft((RE, IM[..., :2])), ShapeError, "both parts must have one shape"),
    (lambda: ops.fft2(([1.0], [1.0])), ShapeError, "needs 2 axes at least"),
    (lambda: ops.rfft([1 + 2j]), InvalidArgumentError, "takes real numbers"),
    (lambda: ops.rfft(1.0), ShapeError, "got a scalar"),
    (lambda: ops.rfft([1.0], 0), InvalidArgumentError, "fft_length must be 1 or more"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors_say_what_is_wrong(call, error, message):
    with pytest.raises(error, match=message):
        call()
