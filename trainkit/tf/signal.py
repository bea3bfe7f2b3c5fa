"""`tk.signal`: Fourier and cosine transforms, frames, windows and spectrograms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core import dtypes, shapes
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.ops import extract_sequences as _sequences
from trainkit.ops import overlap_add as _overlap_add
from trainkit.ops.fourier import complex_fft, complex_ifft, complex_irfft, complex_rfft
from trainkit.tf.arrays import plain

# ---------------------------------------------------------------------- Fourier transforms


def fft(input: Any, name: Any = None) -> Tensor:
    """The Fourier transform of complex numbers over the last axis."""
    return complex_fft(input)


def ifft(input: Any, name: Any = None) -> Tensor:
    """The inverse of `fft`, divided by the length."""
    return complex_ifft(input)


def fft2d(input: Any, name: Any = None) -> Tensor:
    """The Fourier transform of complex numbers over the last two axes."""
    return complex_fft(input, rank=2)


def ifft2d(input: Any, name: Any = None) -> Tensor:
    """The inverse of `fft2d`."""
    return complex_ifft(input, rank=2)


def fft3d(input: Any, name: Any = None) -> Tensor:
    """The Fourier transform of complex numbers over the last three axes."""
    return complex_fft(input, rank=3)


def ifft3d(input: Any, name: Any = None) -> Tensor:
    """The inverse of `fft3d`."""
    return complex_ifft(input, rank=3)


def _length(fft_length: Any, axes: int) -> tuple[int | None, ...]:
    if fft_length is None:
        return (None,) * axes
    value = plain(fft_length)
    sizes = (value,) if isinstance(value, int) else tuple(value)
    if len(sizes) != axes:
        raise ShapeError(f"fft_length {sizes} must have {axes} numbers, one for each axis")
    return sizes


def _fitted(x: Tensor, axis: int, size: int | None) -> Tensor:
    """`x` cut or filled up with zeros along one of its last axes."""
    have = x.shape[axis]
    if size is None or size == have:
        return x
    axis = axis % len(x.shape)
    if size < have:
        part: Tensor = x[(slice(None),) * axis + (slice(0, size),)]
        return part
    ends = [(0, 0)] * len(x.shape)
    ends[axis] = (0, size - have)
    return ops.pad(x, tuple(ends))


def _along(x: Tensor, axis: int, transform: Callable[[Tensor], Tensor]) -> Tensor:
    return ops.swapaxes(transform(ops.swapaxes(x, axis, -1)), axis, -1)


def rfft(input_tensor: Any, fft_length: Any = None, name: Any = None) -> Tensor:
    """The Fourier transform of real numbers over the last axis: n // 2 + 1 complex ones.

    Args:
        input_tensor: real (..., n).
        fft_length: length to which it is cut or filled up with zeros first.
        name: not kept.
    """
    return complex_rfft(input_tensor, _length(fft_length, 1)[0])


def irfft(input_tensor: Any, fft_length: Any = None, name: Any = None) -> Tensor:
    """The inverse of `rfft`; `fft_length` elements, 2 (k - 1) by default."""
    return complex_irfft(input_tensor, _length(fft_length, 1)[0])


def _rfft_nd(x: Any, fft_length: Any, axes: int) -> Tensor:
    sizes = _length(fft_length, axes)
    y = convert_to_tensor(x)
    for k in range(axes - 1):
        y = _fitted(y, k - axes, sizes[k])
    y = complex_rfft(y, sizes[-1])
    for k in range(axes - 1):
        y = _along(y, k - axes, complex_fft)
    return y


def _irfft_nd(x: Any, fft_length: Any, axes: int) -> Tensor:
    sizes = _length(fft_length, axes)
    y = convert_to_tensor(x)
    for k in range(axes - 1):
        y = _along(_fitted(y, k - axes, sizes[k]), k - axes, complex_ifft)
    return complex_irfft(y, sizes[-1])


def rfft2d(input_tensor: Any, fft_length: Any = None, name: Any = None) -> Tensor:
    """`rfft` over the last axis, then `fft` over the one before it."""
    return _rfft_nd(input_tensor, fft_length, 2)


def irfft2d(input_tensor: Any, fft_length: Any = None, name: Any = None) -> Tensor:
    """The inverse of `rfft2d`."""
    return _irfft_nd(input_tensor, fft_length, 2)


def rfft3d(input_tensor: Any, fft_length: Any = None, name: Any = None) -> Tensor:
    """`rfft` over the last axis, then `fft` over the two before it."""
    return _rfft_nd(input_tensor, fft_length, 3)


def irfft3d(input_tensor: Any, fft_length: Any = None, name: Any = None) -> Tensor:
    """The inverse of `rfft3d`."""
    return _irfft_nd(input_tensor, fft_length, 3)


def _axes_of(x: Tensor, axes: Any) -> list[int]:
    if axes is None:
        return list(range(len(x.shape)))
    numbers = plain(axes)
    return [k % len(x.shape) for k in ((numbers,) if isinstance(numbers, int) else numbers)]


def fftshift(x: Any, axes: Any = None, name: Any = None) -> Tensor:
    """The zero frequency moved into the middle of each axis."""
    x = convert_to_tensor(x)
    chosen = _axes_of(x, axes)
    return ops.roll(x, tuple(x.shape[k] // 2 for k in chosen), tuple(chosen))


def ifftshift(x: Any, axes: Any = None, name: Any = None) -> Tensor:
    """The inverse of `fftshift`."""
    x = convert_to_tensor(x)
    chosen = _axes_of(x, axes)
    return ops.roll(x, tuple(-(x.shape[k] // 2) for k in chosen), tuple(chosen))


# ---------------------------------------------------------------------- cosine transforms


def _cosines(n: int, type: int) -> Any:
    """The matrix (inputs, outputs) of a cosine transform without norm, in float64.

    Source: Ahmed, Natarajan and Rao 1974, "Discrete cosine transform", and its variants.
    """
    i, k = np.arange(n)[:, None], np.arange(n)[None, :]
    if type == 1:
        weights = np.where((i == 0) | (i == n - 1), 1.0, 2.0)
        return weights * np.cos(np.pi * i * k / (n - 1))
    if type == 2:
        return 2 * np.cos(np.pi * (2 * i + 1) * k / (2 * n))
    if type == 3:
        return np.where(i == 0, 1.0, 2.0) * np.cos(np.pi * i * (2 * k + 1) / (2 * n))
    return 2 * np.cos(np.pi * (2 * i + 1) * (2 * k + 1) / (4 * n))


def _normed(matrix: Any, type: int) -> Any:
    """With orthonormal rows; types 2, 3 and 4."""
    n = len(matrix)
    scaled = matrix * np.sqrt(1 / (2 * n))
    if type == 2:
        scaled[:, 0] *= np.sqrt(0.5)
    if type == 3:
        scaled[0] *= np.sqrt(2)
    return scaled


def _check_dct(op: str, type: int, axis: int, norm: str | None, n: int | None) -> None:
    if type not in (1, 2, 3, 4) or axis != -1 or norm not in (None, "ortho"):
        raise ValueError(
            f"{op}: type {type} must be 1 to 4, axis {axis} must be -1, norm {norm!r} None or "
            "'ortho'"
        )
    if type == 1 and norm is not None:
        raise ValueError(f"{op}: there is no orthonormal transform of type 1")
    if n is not None and n < 1:
        raise InvalidArgumentError(f"{op}: n must be above 0, got {n}")


def dct(
    input: Any,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    name: Any = None,
) -> Tensor:
    """The discrete cosine transform over the last axis, as a product with a matrix.

    Args:
        input: real (..., length).
        type: 1 to 4.
        n: length to which the input is cut or filled up with zeros first.
        axis: only -1.
        norm: `None`, or `"ortho"` for an orthonormal transform.
        name: not kept.

    Raises:
        ValueError: a setting is none of those above.
    """
    _check_dct("dct", type, axis, norm, n)
    x = convert_to_tensor(input)
    x = _fitted(x, -1, n)
    matrix = _cosines(x.shape[-1], type)
    matrix = _normed(matrix, type) if norm else matrix
    return ops.matmul(x, convert_to_tensor(matrix.astype(x.dtype.as_numpy_dtype)))


def idct(
    input: Any,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    name: Any = None,
) -> Tensor:
    """The transform of the inverse type: `idct(dct(x))` is x times 2 n without `norm`.

    The inverse of type 2 is 3, that of 3 is 2; 1 and 4 are their own (2 (n - 1) times for 1).
    Arguments are those of `dct`; `n` is only `None`.

    Raises:
        ValueError: a setting is none of those above.
    """
    if n is not None:
        raise ValueError("idct: n is not supported; cut or pad the input")
    return dct(input, {1: 1, 2: 3, 3: 2, 4: 4}.get(type, type), None, axis, norm)


# ---------------------------------------------------------------------- windows


def _window(high: float, length: Any, periodic: bool, dtype: Any) -> Tensor:
    size = int(plain(length))
    wanted = dtypes.as_dtype(dtype)
    if not wanted.is_floating:
        raise ValueError(f"a window needs a floating dtype, got {wanted.name}")
    if size == 1:
        return ops.ones((1,), wanted)
    shapes.bounded("window", size)
    steps = size if periodic and size % 2 == 0 else size - 1
    values = high - (1 - high) * np.cos(2 * np.pi * np.arange(size) / steps)
    return ops.cast(convert_to_tensor(values), wanted)


def hann_window(
    window_length: int, periodic: bool = True, dtype: Any = "float32", name: Any = None
) -> Tensor:
    """Weights 0.5 - 0.5 cos(2 pi i / n); n is the length, one less if odd or not `periodic`."""
    return _window(0.5, window_length, periodic, dtype)


def hamming_window(
    window_length: int, periodic: bool = True, dtype: Any = "float32", name: Any = None
) -> Tensor:
    """Weights 0.54 - 0.46 cos(2 pi i / n); n is the length, one less if odd or not `periodic`."""
    return _window(0.54, window_length, periodic, dtype)


def kaiser_window(
    window_length: int, beta: float = 12.0, dtype: Any = "float32", name: Any = None
) -> Tensor:
    """Weights I0(beta sqrt(1 - t**2)) / I0(beta), t from -1 to 1."""
    return ops.cast(convert_to_tensor(np.kaiser(int(plain(window_length)), float(beta))), dtype)


def vorbis_window(window_length: int, dtype: Any = "float32", name: Any = None) -> Tensor:
    """Weights sin(pi / 2 sin(pi (i + 1/2) / n)**2)."""
    n = int(plain(window_length))
    slow = np.sin(np.pi * (np.arange(n) + 0.5) / n) ** 2
    return ops.cast(convert_to_tensor(np.sin(np.pi / 2 * slow)), dtype)


# ---------------------------------------------------------------------- frames


def frame(
    signal: Any,
    frame_length: int,
    frame_step: int,
    pad_end: bool = False,
    pad_value: Any = 0,
    axis: int = -1,
    name: Any = None,
) -> Tensor:
    """Windows of a signal: (..., n) to (..., frames, frame_length).

    Args:
        signal: tensor.
        frame_length: elements of a window.
        frame_step: elements from one window to the next.
        pad_end: fill up at the end, so that every element begins or is in a window.
        pad_value: for that.
        axis: the axis along which to go.
        name: not kept.

    Raises:
        InvalidArgumentError: a length is not above 0.
    """
    length, step = int(plain(frame_length)), int(plain(frame_step))
    if length < 1 or step < 1:
        raise InvalidArgumentError(
            f"frame: frame_length {length} and frame_step {step} must be above 0"
        )
    x = convert_to_tensor(signal)
    axis = axis % len(x.shape)
    n = x.shape[axis]
    if n is None:
        if pad_end or axis != len(x.shape) - 1:
            raise ShapeError(
                f"frame: the length of axis {axis} must be known, the shape is {tuple(x.shape)}"
            )
        return _sequences(x, length, step)
    count = -(-n // step) if pad_end else max((n - length) // step + 1, 0)
    short = max((count - 1) * step + length - n, 0) if count else 0
    if pad_end and short:
        ends = [(0, 0)] * len(x.shape)
        ends[axis] = (0, short)
        x = ops.pad(x, tuple(ends), constant_values=pad_value)
    places = np.arange(count)[:, None] * step + np.arange(length)[None, :]
    return ops.take(x, places, axis=axis)


def overlap_and_add(signal: Any, frame_step: int, name: Any = None) -> Tensor:
    """Windows (..., frames, frame_length), each `frame_step` behind the other, added up."""
    return _overlap_add(signal, int(plain(frame_step)))


def _enclosing(frame_length: int, fft_length: Any) -> int:
    length = int(plain(frame_length))
    return 1 << (length - 1).bit_length() if fft_length is None else int(plain(fft_length))


WindowFunction = Callable[..., Any]


def stft(
    signals: Any,
    frame_length: int,
    frame_step: int,
    fft_length: int | None = None,
    window_fn: WindowFunction | None = hann_window,
    pad_end: bool = False,
    name: Any = None,
) -> Tensor:
    """Short-time Fourier transform: `rfft` of weighted windows.

    Args:
        signals: real (..., n).
        frame_length: elements of a window.
        frame_step: elements from one window to the next.
        fft_length: length of each transform; by default the next power of 2.
        window_fn: called with the length and `dtype=`, gives weights; `None` for equal ones.
        pad_end: see `frame`.
        name: not kept.

    Returns:
        complex (..., frames, fft_length // 2 + 1).
    """
    frames = frame(signals, frame_length, frame_step, pad_end=pad_end)
    if window_fn is not None:
        frames = ops.multiply(frames, window_fn(int(plain(frame_length)), dtype=frames.dtype))
    return complex_rfft(frames, _enclosing(frame_length, fft_length))


def inverse_stft(
    stfts: Any,
    frame_length: int,
    frame_step: int,
    fft_length: int | None = None,
    window_fn: WindowFunction | None = hann_window,
    name: Any = None,
) -> Tensor:
    """Weighted windows added up; exact with `window_fn=inverse_stft_window_fn(frame_step)`.

    Args:
        stfts: complex (..., frames, fft_length // 2 + 1).
        frame_length: as for `stft`.
        frame_step: as for `stft`.
        fft_length: as for `stft`.
        window_fn: weights for the way back.
        name: not kept.
    """
    length = int(plain(frame_length))
    frames = complex_irfft(stfts, _enclosing(frame_length, fft_length))
    frames = _fitted(frames, -1, length)
    if window_fn is not None:
        frames = ops.multiply(frames, window_fn(length, dtype=frames.dtype))
    return overlap_and_add(frames, frame_step)


def inverse_stft_window_fn(
    frame_step: int, forward_window_fn: WindowFunction = hann_window, name: Any = None
) -> WindowFunction:
    """The weights with which `inverse_stft` undoes `stft` with `forward_window_fn`.

    Source: Griffin and Lim 1984, "Signal estimation from modified short-time Fourier transform".
    """
    step = int(plain(frame_step))

    def window(frame_length: int, dtype: Any = "float32") -> Tensor:
        weights = convert_to_tensor(forward_window_fn(frame_length, dtype=dtype))
        length = int(plain(frame_length))
        overlaps = -(-length // step)
        squares = ops.pad(ops.square(weights), ((0, overlaps * step - length),))
        total = ops.sum(ops.reshape(squares, (overlaps, step)), axis=0)
        return ops.divide(weights, ops.tile(total, (overlaps,))[:length])

    return window


# ---------------------------------------------------------------------- mel


def linear_to_mel_weight_matrix(
    num_mel_bins: int = 20,
    num_spectrogram_bins: int = 129,
    sample_rate: float = 8000,
    lower_edge_hertz: float = 125.0,
    upper_edge_hertz: float = 3800.0,
    dtype: Any = "float32",
    name: Any = None,
) -> Tensor:
    """Triangles over frequencies, equally wide in mel: (num_spectrogram_bins, num_mel_bins).

    mel = 1127 log(1 + hertz / 700). Source: the HTK book (Young et al.), section 5.4.

    Args:
        num_mel_bins: how many triangles.
        num_spectrogram_bins: how many frequencies, from 0 to half the sample rate.
        sample_rate: samples per second.
        lower_edge_hertz: where the first triangle begins, in hertz.
        upper_edge_hertz: where the last one ends, in hertz.
        dtype: of the result.
        name: not kept.

    Raises:
        ValueError: not 0 <= lower < upper <= sample_rate / 2, or a count is not above 0.
    """
    rate = float(plain(sample_rate))
    if min(num_mel_bins, num_spectrogram_bins) < 1:
        raise ValueError("linear_to_mel_weight_matrix: counts of bins must be above 0")
    if not 0 <= lower_edge_hertz < upper_edge_hertz <= rate / 2:
        raise ValueError(
            f"linear_to_mel_weight_matrix: needs 0 <= {lower_edge_hertz} < {upper_edge_hertz} <= "
            f"sample_rate / 2 = {rate / 2}"
        )

    def mel(hertz: Any) -> Any:
        return 1127.0 * np.log1p(np.asarray(hertz) / 700.0)

    places = mel(np.linspace(0.0, rate / 2, num_spectrogram_bins)[1:])[:, None]
    edges = np.linspace(mel(lower_edge_hertz), mel(upper_edge_hertz), num_mel_bins + 2)
    left, middle, right = edges[:-2], edges[1:-1], edges[2:]
    rising = (places - left) / (middle - left)
    falling = (right - places) / (right - middle)
    weights = np.maximum(0.0, np.minimum(rising, falling))
    return ops.cast(convert_to_tensor(np.pad(weights, ((1, 0), (0, 0)))), dtype)


def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: Any, name: Any = None) -> Tensor:
    """The cosine transform of type 2 of the last axis, divided by sqrt(2 n)."""
    x = convert_to_tensor(log_mel_spectrograms)
    return ops.multiply(dct(x), float((2 * x.shape[-1]) ** -0.5))
