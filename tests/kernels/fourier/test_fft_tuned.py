"""Compiled Fourier transforms against NumPy's of float64, and by their enemies."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.kernels.fourier import fft_tuned

LENGTHS = [8, 9, 10, 16, 25, 27, 30, 64, 75, 100, 128, 360, 1024]


def complex_floats(rng, *shape):
    parts = rng.normal(size=(2, *shape)).astype("float32")
    return parts[0] + 1j * parts[1]


def close(y, expected):
    error = np.abs(y - expected).max() / np.abs(expected).max()
    assert error < 4e-7, error


def exact(x, axis, is_inverse, factor):
    transform = np.fft.ifft if is_inverse else np.fft.fft
    norm = "forward" if is_inverse else "backward"  # neither divides
    return transform(x.astype("complex128"), axis=axis, norm=norm) * factor


@pytest.mark.parametrize("is_inverse", [False, True])
@pytest.mark.parametrize("n", LENGTHS)
def test_lines_of_any_number(eager, rng, n, is_inverse):
    for lines in (1, 7, 16, 83):
        x = complex_floats(rng, 5, lines, n)
        y = fft_tuned.transform(x, -1, is_inverse, 0.5)
        if y is None:  # a few numbers are NumPy's
            assert x.size < fft_tuned.FEWEST
            continue
        assert y.dtype == np.complex64
        close(y, exact(x, -1, is_inverse, 0.5))


@pytest.mark.parametrize("is_inverse", [False, True])
@pytest.mark.parametrize("n", LENGTHS)
def test_other_axes(eager, rng, n, is_inverse):
    for inner in ((3,), (16,), (7, 5), (4, 17)):
        x = complex_floats(rng, 4, n, *inner)
        axis = -1 - len(inner)
        y = fft_tuned.transform(x, axis, is_inverse, 1.0)
        if y is None:
            assert x.size < fft_tuned.FEWEST
            continue
        close(y, exact(x, axis, is_inverse, 1.0))


@pytest.mark.parametrize("n", [16, 18, 20, 50, 64, 150, 256, 400])
def test_real_lines(eager, rng, n):
    for lines in (5, 32, 41):
        x = rng.normal(size=(13, lines, n)).astype("float32")
        close(fft_tuned.real_transform(x, 2.0), 2 * np.fft.rfft(x.astype("float64")))
        z = complex_floats(rng, 13, lines, n // 2 + 1)
        y = fft_tuned.inverse_real_transform(z, n, 2 / n)
        assert y.dtype == np.float32
        close(y, np.fft.irfft(z.astype("complex128"), n))


def test_what_no_kernel_serves_is_left_to_numpy(eager, rng):
    x = complex_floats(rng, 64, 32)
    transform = fft_tuned.transform
    assert transform(x, -1, False, 1.0) is not None
    assert transform(x.astype("complex128"), -1, False, 1.0) is None
    assert transform(x[:, :31], -1, False, 1.0) is None  # a prime
    assert transform(x[:, :7], -1, False, 1.0) is None
    assert transform(x[:0], -1, False, 1.0) is None
    assert transform(x[:2], -1, False, 1.0) is None
    assert transform(complex_floats(rng, 1 << 16), -1, False, 1.0) is None  # one long line
    assert fft_tuned.real_transform(x.real.copy()[:, :25], 1.0) is None
    assert fft_tuned.inverse_real_transform(x[:, :17], 31, 1.0) is None
    assert fft_tuned.inverse_real_transform(x[:, :17], 64, 1.0) is None
    assert fft_tuned.transform_axes(x, 3, False, False) is None
    assert fft_tuned.transform_axes(complex_floats(rng, 8, 31, 32), 2, False, False) is None


@pytest.mark.parametrize("axis", [-1, -2])
def test_no_line_changes_another(eager, rng, axis):
    x = complex_floats(rng, *((37, 40) if axis == -1 else (40, 37)))
    whole = fft_tuned.transform(x, axis, False, 1.0)
    worse = x.copy()
    line = (5,) if axis == -1 else (slice(None), 5)
    worse[line] = [np.nan, *[np.inf] * (len(worse[line]) - 1)]
    y = fft_tuned.transform(worse, axis, False, 1.0)
    assert np.isnan(y[line]).all()
    others = np.ones(x.shape, bool)
    others[line] = False
    assert y[others].tobytes() == whole[others].tobytes()
    part = x[20:] if axis == -1 else x[:, 20:]
    alone = fft_tuned.transform(np.ascontiguousarray(part), axis, False, 1.0)
    assert alone.tobytes() == (whole[20:] if axis == -1 else whole[:, 20:]).tobytes()


def test_no_real_line_changes_another(eager, rng):
    x = rng.normal(size=(37, 40)).astype("float32")
    whole = fft_tuned.real_transform(x, 1.0)
    back = fft_tuned.inverse_real_transform(whole, 40, 1.0)
    x[5] = np.nan
    y = fft_tuned.real_transform(x, 1.0)
    assert np.delete(y, 5, 0).tobytes() == np.delete(whole, 5, 0).tobytes()
    z = fft_tuned.inverse_real_transform(y, 40, 1.0)
    assert np.isnan(z[5]).all()
    assert np.delete(z, 5, 0).tobytes() == np.delete(back, 5, 0).tobytes()


def test_arrays_in_other_orders(eager, rng):
    x = complex_floats(rng, 24, 30, 20).transpose(2, 0, 1)[::-1]
    close(fft_tuned.transform(x, -1, False, 1.0), exact(x, -1, False, 1.0))
    x = np.broadcast_to(complex_floats(rng, 30), (24, 30))
    close(fft_tuned.transform(x, -1, False, 1.0), exact(x, -1, False, 1.0))
    x.flags.writeable = False
    close(fft_tuned.transform(x, -2, False, 1.0), exact(x, -2, False, 1.0))


OPS = {
    "fft2d": (lambda x: tk.signal.fft2d(x), lambda x: np.fft.fft2(x)),
    "ifft2d": (lambda x: tk.signal.ifft2d(x), lambda x: np.fft.ifft2(x)),
    "fft3d": (lambda x: tk.signal.fft3d(x), lambda x: np.fft.fftn(x, axes=(-3, -2, -1))),
    "rfft": (lambda x: tk.signal.rfft(tk.math.real(x)), lambda x: np.fft.rfft(x.real)),
    "irfft": (lambda x: tk.signal.irfft(x), lambda x: np.fft.irfft(x)),
}


@pytest.mark.parametrize("name", OPS)
def test_operations_and_their_gradients(eager, rng, name):
    op, expected = OPS[name]
    x = complex_floats(rng, 3, 12, 33 if name == "irfft" else 32)
    tensor = tk.constant(x)
    close(op(tensor).numpy(), expected(x.astype("complex128")))

    def gradient(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = op(x)
            loss = tk.reduce_sum(tk.abs(y) ** 2)
        return tape.gradient(loss, x)

    double = gradient(tk.constant(x.astype("complex128"))).numpy()
    close(gradient(tensor).numpy(), double)
    compiled = tk.function(
        gradient, input_signature=[tk.TensorSpec((None, 12, x.shape[-1]), x.dtype)]
    )
    assert compiled(tensor).numpy().tobytes() == gradient(tensor).numpy().tobytes()
