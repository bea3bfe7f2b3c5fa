"""Frames of signals, their weights, and short-time Fourier transforms with complex results.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import DTypeLike, TensorLike
from trainkit.ops.arrays.creation import ones
from trainkit.ops.arrays.pad_and_roll import pad
from trainkit.ops.arrays.shaping import reshape
from trainkit.ops.arrays.tile_and_repeat import tile
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.core.dynamic_shapes import needs_values, unknown
from trainkit.ops.indexing.gathering import take
from trainkit.ops.math.elementwise import cast, divide_no_nan, multiply, square
from trainkit.ops.math.reductions import sum as sum_
from trainkit.ops.signal.fourier import complex_irfft, complex_rfft, fitted
from trainkit.ops.signal.stft import enclosing_power, extract_sequences, overlap_add, raised_cosine

# ---------------------------------------------------------------------- windows


def _window(low: float, length: Any, periodic: bool, dtype: Any) -> Tensor:
    size = int(plain(length))
    window_dtype = dtypes.as_dtype(dtype)
    if not window_dtype.is_floating:
        raise ValueError(f"a window needs a floating dtype, got {window_dtype.name}")
    if size == 1:
        return ones((1,), window_dtype)
    shapes.bounded("window", size)
    steps = size if periodic and size % 2 == 0 else size - 1
    return cast(convert_to_tensor(raised_cosine(low, size, steps)), window_dtype)


def hann_window(
    window_length: int, periodic: bool = True, dtype: DTypeLike = "float32", name: str | None = None
) -> Tensor:
    """Weights 0.5 - 0.5 cos(2 pi i / n); n is the length, one less if odd or not `periodic`.

    Args:
        window_length: how many weights.
        periodic: one period of a longer signal, rather than symmetric.
        dtype: of the result.

    Example:
        >>> tk.signal.hann_window(4).numpy().round(2)
        array([0. , 0.5, 1. , 0.5], dtype=float32)
    """
    return _window(0.5, window_length, periodic, dtype)


def hamming_window(
    window_length: int, periodic: bool = True, dtype: DTypeLike = "float32", name: str | None = None
) -> Tensor:
    """Weights 0.54 - 0.46 cos(2 pi i / n); n is the length, one less if odd or not `periodic`.

    Args:
        window_length: how many weights.
        periodic: one period of a longer signal, rather than symmetric.
        dtype: of the result.

    Example:
        >>> tk.signal.hamming_window(4).numpy().round(2)
        array([0.08, 0.54, 1.  , 0.54], dtype=float32)
    """
    return _window(0.54, window_length, periodic, dtype)


def kaiser_window(
    window_length: int, beta: float = 12.0, dtype: DTypeLike = "float32", name: str | None = None
) -> Tensor:
    """Weights I0(beta sqrt(1 - t**2)) / I0(beta), t from -1 to 1.

    Args:
        window_length: how many weights.
        beta: how steep it is.
        dtype: of the result.

    Example:
        >>> tk.signal.kaiser_window(3, beta=0.0).numpy()
        array([1., 1., 1.], dtype=float32)
    """
    return cast(convert_to_tensor(np.kaiser(int(plain(window_length)), float(beta))), dtype)


def vorbis_window(
    window_length: int, dtype: DTypeLike = "float32", name: str | None = None
) -> Tensor:
    """Weights sin(pi / 2 sin(pi (i + 1/2) / n)**2).

    Args:
        window_length: how many weights.
        dtype: of the result.

    Example:
        >>> tk.signal.vorbis_window(4).numpy().round(2)
        array([0.23, 0.97, 0.97, 0.23], dtype=float32)
    """
    n = int(plain(window_length))
    slow = np.sin(np.pi * (np.arange(n) + 0.5) / n) ** 2
    return cast(convert_to_tensor(np.sin(np.pi / 2 * slow)), dtype)


# ---------------------------------------------------------------------- frames


@needs_values("frame_length", "frame_step", gives=lambda a: unknown(a["signal"], more=1))
def frame(
    signal: TensorLike,
    frame_length: int,
    frame_step: int,
    pad_end: bool = False,
    pad_value: Any = 0,
    axis: int = -1,
    name: str | None = None,
) -> Tensor:
    """Windows of a signal: (..., n) to (..., frames, frame_length).

    Args:
        signal: tensor.
        frame_length: elements of a window.
        frame_step: elements from one window to the next.
        pad_end: fill up at the end, so that every element begins or is in a window.
        pad_value: for that.
        axis: the axis along which to go.

    Raises:
        InvalidArgumentError: a length is not above 0.

    Example:
        >>> tk.signal.frame([1, 2, 3, 4], frame_length=2, frame_step=1).numpy()
        array([[1, 2],
               [2, 3],
               [3, 4]], dtype=int32)
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
        return extract_sequences(x, length, step)
    count = -(-n // step) if pad_end else max((n - length) // step + 1, 0)
    short = max((count - 1) * step + length - n, 0) if count else 0
    if pad_end and short:
        ends = [(0, 0)] * len(x.shape)
        ends[axis] = (0, short)
        x = pad(x, tuple(ends), constant_values=pad_value)
    positions = np.arange(count)[:, None] * step + np.arange(length)[None, :]
    return take(x, positions, axis=axis)


def overlap_and_add(signal: TensorLike, frame_step: int, name: str | None = None) -> Tensor:
    """Windows (..., frames, frame_length), each `frame_step` behind the other, added up.

    Args:
        signal: (..., frames, frame_length).
        frame_step: elements from one window to the next.

    Example:
        >>> tk.signal.overlap_and_add([[1.0, 1.0], [1.0, 1.0]], frame_step=1).numpy()
        array([1., 2., 1.], dtype=float32)
    """
    return overlap_add(signal, int(plain(frame_step)))


def _find_enclosing(frame_length: int, fft_length: Any) -> int:
    length = int(plain(frame_length))
    return enclosing_power(length) if fft_length is None else int(plain(fft_length))


WindowFunction = Callable[..., Any]


def stft(
    signals: TensorLike,
    frame_length: int,
    frame_step: int,
    fft_length: int | None = None,
    window_fn: WindowFunction | None = hann_window,
    pad_end: bool = False,
    name: str | None = None,
) -> Tensor:
    """Short-time Fourier transform: `rfft` of weighted windows.

    Args:
        signals: real (..., n).
        frame_length: elements of a window.
        frame_step: elements from one window to the next.
        fft_length: length of each transform; by default the next power of 2.
        window_fn: called with the length and `dtype=`, gives weights; `None` for equal ones.
        pad_end: see `frame`.

    Returns:
        complex (..., frames, fft_length // 2 + 1).

    Example:
        >>> tk.signal.stft(tk.ones((64,)), frame_length=16, frame_step=8).shape
        TensorShape([7, 9])
    """
    frames = frame(signals, frame_length, frame_step, pad_end=pad_end)
    if window_fn is not None:
        frames = multiply(frames, window_fn(int(plain(frame_length)), dtype=frames.dtype))
    return complex_rfft(frames, _find_enclosing(frame_length, fft_length))


def inverse_stft(
    stfts: Any,
    frame_length: int,
    frame_step: int,
    fft_length: int | None = None,
    window_fn: WindowFunction | None = hann_window,
    name: str | None = None,
) -> Tensor:
    """Weighted windows added up; exact with `window_fn=inverse_stft_window_fn(frame_step)`.

    Args:
        stfts: complex (..., frames, fft_length // 2 + 1).
        frame_length: as for `stft`.
        frame_step: as for `stft`.
        fft_length: as for `stft`.
        window_fn: weights for putting frames together.

    Example:
        >>> x = tk.sin(tk.range(64.0))
        >>> tk.signal.inverse_stft(tk.signal.stft(x, 16, 8), 16, 8).shape
        TensorShape([64])
    """
    length = int(plain(frame_length))
    frames = complex_irfft(stfts, _find_enclosing(frame_length, fft_length))
    frames = fitted(frames, length)
    if window_fn is not None:
        frames = multiply(frames, window_fn(length, dtype=frames.dtype))
    return overlap_and_add(frames, frame_step)


def inverse_stft_window_fn(
    frame_step: int, forward_window_fn: WindowFunction = hann_window, name: str | None = None
) -> WindowFunction:
    """The weights with which `inverse_stft` undoes `stft` with `forward_window_fn`.

    Source: Griffin and Lim 1984, "Signal estimation from modified short-time Fourier transform".

    Args:
        frame_step: elements from one window to the next.
        forward_window_fn: called with the length and `dtype=`, gives weights.

    Example:
        >>> window = tk.signal.inverse_stft_window_fn(8)
        >>> window(16, tk.float32).shape
        TensorShape([16])
    """
    step = int(plain(frame_step))

    def window(frame_length: int, dtype: Any = "float32") -> Tensor:
        weights = convert_to_tensor(forward_window_fn(frame_length, dtype=dtype))
        length = int(plain(frame_length))
        overlaps = -(-length // step)
        squares = pad(square(weights), ((0, overlaps * step - length),))
        total = sum_(reshape(squares, (overlaps, step)), axis=0)
        # Weights that are 0 in all windows, as Hann's first without an overlap, bring nothing back.
        return divide_no_nan(weights, tile(total, (overlaps,))[:length])

    return window
