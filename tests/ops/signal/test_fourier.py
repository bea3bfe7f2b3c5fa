import numpy as np
import pytest

import trainkit as tk
from tests.ops.numpy_compare import assert_same
from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.ops.signal.fourier import complex_fft, complex_ifft

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


def test_transforms_of_an_axis_whose_length_is_not_known_yet():
    def both(x):
        y = tk.ops.irfft(tk.ops.rfft(x))
        return y, tk.ops.irfft(tk.ops.rfft(x), 3), *tk.ops.rfft(x, 6)

    traced = tk.function(both, input_signature=[tk.TensorSpec((2, None), "float64")])
    for n in (4, 2, 8):
        x = tk.constant(np.random.default_rng(n).normal(size=(2, n)))
        for ours, plain in zip(traced(x), both(x), strict=True):
            np.testing.assert_allclose(ours, plain, atol=1e-12)
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = traced(x)[0]
        np.testing.assert_allclose(tape.gradient(y, x), np.ones((2, n)), atol=1e-12)
    symbol = tk.keras.KerasTensor((4, None))
    assert tuple(ops.irfft((symbol, symbol)).shape) == (4, None)
    assert tuple(ops.rfft(symbol, 6)[0].shape) == (4, 4)


@pytest.mark.parametrize(("op", "shape"), [(ops.fft, (None,)), (ops.fft2, (None, 3))])
def test_a_symbol_of_a_model_tells_the_sizes_that_are_transformed(op, shape):
    symbol = tk.keras.KerasTensor((2, *shape))
    with pytest.raises(ShapeError, match="must tell the size of its last"):
        op((symbol, symbol))
    lead = tk.keras.KerasTensor((None, 4, 3))
    assert tuple(op((lead, lead))[0].shape) == (None, 4, 3)
