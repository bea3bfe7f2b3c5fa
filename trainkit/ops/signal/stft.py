"""Sliding windows over signals: extract_sequences, overlap_add, stft, istft.

The short-time Fourier transform and its inverse by overlapping and adding; source: Griffin and Lim
1984, IEEE Trans. ASSP 32(2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import LAST_AXES, SHAPE
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.conversion import ensure_shape
from trainkit.ops.arrays.pad_and_roll import pad
from trainkit.ops.arrays.shaping import as_tensor, reshape
from trainkit.ops.arrays.tile_and_repeat import tile
from trainkit.ops.core.dynamic_shapes import Bound, is_later, needs_values
from trainkit.ops.core.one_node import one_node
from trainkit.ops.indexing.get_item import get_item
from trainkit.ops.math.comparisons import greater
from trainkit.ops.math.elementwise import cast, divide, multiply, square, where
from trainkit.ops.math.reductions import sum as reduce_sum
from trainkit.ops.signal.fourier import Pair, irfft, rfft
from trainkit.ops.signal.fourier import _real as real_signal

# ------------------------------------------------------------------ windows


def _count(n: int | None, length: int, stride: int) -> int | None:
    return None if n is None else max(0, 1 + (n - length) // stride)


def _sequences_rule(x: Spec, *, length: int, stride: int) -> Spec:
    if len(x.shape) == 0:
        raise ShapeError("extract_sequences: needs one axis at least, got a scalar")
    return Spec((*x.shape[:-1], _count(x.shape[-1], length, stride), length), x.dtype)


@primitive(_sequences_rule, name="extract_sequences", semantics=LAST_AXES)
def _sequences(xp: ArrayModule, x: Array, *, length: int, stride: int) -> Array:
    """Windows over the last axis, as a view."""
    if x.shape[-1] < length:
        return xp.zeros((*x.shape[:-1], 0, length), x.dtype)
    views = xp.lib.stride_tricks.sliding_window_view(x, length, axis=-1)
    return views[..., ::stride, :]


def _sum(xp: ArrayModule, g: Array, stride: int, size: int | None) -> Array:
    """Windows (..., count, length) added up where they overlap, to a signal of `size`."""
    *lead, count, length = g.shape
    steps = -(-length // stride)
    chunks = xp.zeros((*lead, count, steps * stride), g.dtype)
    chunks[..., :length] = g
    chunks = chunks.reshape((*lead, count, steps, stride))
    out = xp.zeros((*lead, count + steps - 1 if count else 0, stride), g.dtype)
    for k in range(steps if count else 0):
        out[..., k : k + count, :] += chunks[..., :, k, :]
    natural = (count - 1) * stride + length if count else 0
    flat = out.reshape((*lead, out.shape[-2] * stride))[..., :natural]
    if size is None or size == natural:
        return flat
    signal = xp.zeros((*lead, size), g.dtype)
    signal[..., :natural] = flat
    return signal


@primitive(lambda g, x, *, stride: Spec(x.shape, g.dtype), semantics=LAST_AXES, reads={1: SHAPE})
def sequences_sum(xp: ArrayModule, g: Array, x: Array, *, stride: int) -> Array:
    """`extract_sequences` transposed; of `x` only the shape counts."""
    return _sum(xp, g, stride, x.shape[-1])


def _overlap_rule(x: Spec, *, stride: int) -> Spec:
    count, length = x.shape[-2:]
    sizes_known = None not in (count, length)
    natural = ((count - 1) * stride + length if count else 0) if sizes_known else None  # type: ignore[operator]
    return Spec((*x.shape[:-2], natural), x.dtype)


@primitive(_overlap_rule, name="overlap_add", semantics=LAST_AXES)
def _overlap_add(xp: ArrayModule, x: Array, *, stride: int) -> Array:
    """Windows added up where they overlap."""
    return _sum(xp, x, stride, None)


_sequences.gradients(lambda g, y, x, *, length, stride: sequences_sum(g, x, stride=stride))
_sequences.declare(stackable=True)
sequences_sum.gradients(
    lambda gg, y, g, x, *, stride: _sequences(gg, length=g.shape[-1], stride=stride), None
)
_overlap_add.gradients(lambda g, y, x, *, stride: _sequences(g, length=x.shape[-1], stride=stride))


def _positive(op: str, **numbers: Any) -> None:
    for name, value in numbers.items():
        if value is None or int(value) != value or value < 1:
            raise InvalidArgumentError(
                f"{op}: {name} must be a whole number above 0, got {value!r}"
            )


def _windows_spec(a: Bound) -> Spec:
    x = as_tensor(a["x"])
    return Spec((*x.shape[:-1], None, None), x.dtype)


@needs_values("sequence_length", "sequence_stride", gives=_windows_spec)
def extract_sequences(x: TensorLike, sequence_length: int, sequence_stride: int) -> Tensor:
    """Windows over the last axis of `x`.

    Args:
        x: tensor (..., n).
        sequence_length: elements of a window.
        sequence_stride: elements from the start of one window to that of the next.

    Returns:
        A tensor (..., 1 + (n - sequence_length) // sequence_stride, sequence_length).

    Raises:
        InvalidArgumentError: length or stride is less than 1.
        ShapeError: `x` is a scalar.

    Example:
        >>> tk.ops.extract_sequences([1, 2, 3, 4], 2, 1).numpy()
        array([[1, 2],
               [2, 3],
               [3, 4]], dtype=int32)
    """
    _positive("extract_sequences", sequence_length=sequence_length, sequence_stride=sequence_stride)
    result: Tensor = _sequences(x, length=int(sequence_length), stride=int(sequence_stride))
    return result


def overlap_add(x: TensorLike, stride: int) -> Tensor:
    """Windows (..., count, length), `stride` apart, added up: (..., (count - 1) stride + length).

    Raises:
        InvalidArgumentError: `stride` is less than 1.
        ShapeError: `x` has fewer than two axes.
    """
    _positive("overlap_add", stride=stride)
    tensor = as_tensor(x)
    if len(tensor.shape) < 2:
        raise ShapeError(
            f"overlap_add: needs windows (..., count, length), got {tuple(tensor.shape)}"
        )
    result: Tensor = _overlap_add(tensor, stride=int(stride))
    return result


# ------------------------------------------------------------------ short-time Fourier transform


def raised_cosine(low: float, length: int, steps: int) -> Any:
    """The weights low - (1 - low) cos(2 pi i / steps) for i from 0 to length - 1.

    `low` is 0.5 in Hann's window, 0.54 in Hamming's.
    """
    return low - (1 - low) * np.cos(2 * np.pi * np.arange(length) / steps)


def enclosing_power(length: int) -> int:
    """The least power of 2 that is not below `length`."""
    return 1 << (length - 1).bit_length()


def _window(window: Any, length: int, fft_length: int, like: Tensor, op: str) -> Tensor | None:
    """The window in the middle of `fft_length` zeros.

    Raises:
        ValueError: it is unknown or of another length.
    """
    if window is None:
        return None
    if isinstance(window, str):
        if window not in ("hann", "hamming"):
            raise ValueError(
                f"{op}: window {window!r} is none of 'hann', 'hamming', a tensor or None"
            )
        shapes.bounded(op, length)
        low = 0.5 if window == "hann" else 0.54
        weights = raised_cosine(low, length, length) if length > 1 else np.ones(1)
        values = convert_to_tensor(weights.astype(like.dtype.name))
    else:
        values = cast(as_tensor(window), like.dtype)
        if tuple(values.shape) != (length,):
            raise ValueError(
                f"{op}: the window must have shape ({length},), that of sequence_length; got "
                f"{tuple(values.shape)}"
            )
    before = (fft_length - length) // 2
    return pad(values, ((before, fft_length - length - before),))


def _lengths(op: str, length: int, stride: int, fft_length: int | None) -> int:
    _positive(op, sequence_length=length, sequence_stride=stride)
    if fft_length is None:
        return enclosing_power(int(length))
    _positive(op, fft_length=fft_length)
    if fft_length < length:
        raise ValueError(f"{op}: fft_length {fft_length} is less than sequence_length {length}")
    return int(fft_length)


@one_node("stft")
def stft(
    x: TensorLike,
    sequence_length: int,
    sequence_stride: int,
    fft_length: int | None,
    window: Any = "hann",
    center: bool = True,
) -> Pair:
    """Short-time Fourier transform: `rfft` of windows over the last axis.

    Args:
        x: real tensor (..., n).
        sequence_length: elements of a window.
        sequence_stride: elements from one window to the next.
        fft_length: length of each transform, at least `sequence_length`; `None` for the next power
            of 2.
        window: `"hann"`, `"hamming"`, a vector of `sequence_length` weights, or `None` for equal
            ones.
        center: mirror the signal at its ends, so that window t is around element t *
            sequence_stride.

    Returns:
        A pair of real and imaginary parts (..., count, fft_length // 2 + 1).

    Raises:
        TypeError: the signal is of another type than float32 and float64.
        ValueError: the window is unknown, or the lengths do not fit.
        ShapeError: the signal is too short to be mirrored.

    Example:
        >>> real, imaginary = tk.ops.stft(tk.ones((64,)), 16, 8, 16)
        >>> real.shape
        TensorShape([9, 9])
    """
    n = _lengths("stft", sequence_length, sequence_stride, fft_length)
    kind = as_tensor(x).dtype
    if kind not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"stft: the signal must be float32 or float64, got {kind.name}; cast it")
    signal = real_signal(x, "stft")
    weights = _window(window, int(sequence_length), n, signal, "stft")
    if center:
        ends = ((0, 0),) * (len(signal.shape) - 1) + ((n // 2, n // 2),)
        signal = pad(signal, ends, mode="reflect")
    frames = extract_sequences(signal, n, sequence_stride)
    if weights is not None:
        frames = multiply(frames, weights)
    return rfft(frames, n)


@one_node("istft")
def istft(
    x: Any,
    sequence_length: int,
    sequence_stride: int,
    fft_length: int | None,
    length: int | None = None,
    window: Any = "hann",
    center: bool = True,
) -> Tensor:
    """The inverse of `stft`, called with the same settings: exact where all windows reach.

    Windows are weighted by w / (the sum of w**2 over windows `sequence_stride` apart) and added
    up. Nearer than a window to an end of all that they cover, fewer windows overlap: there the
    result fades out. Elements to which all windows give the weight 0 are 0.

    Args:
        x: pair of real and imaginary parts (..., count, fft_length // 2 + 1).
        sequence_length: elements of a window.
        sequence_stride: elements from one window to the next.
        fft_length: length of each transform; `None` for the next power of 2.
        length: elements of the result, of which none are made up; by default all that the windows
            reach.
        window: as for `stft`; `None` adds up the windows as they are, so that the result is the
            signal times the number of windows that overlap.
        center: as for `stft`; the mirrored ends are cut off.

    Returns:
        A real tensor (..., length).

    Raises:
        ValueError: `x` is no pair of floats, the window is unknown, or the lengths do not fit.

    Example:
        >>> x = tk.sin(tk.range(64.0))
        >>> tk.ops.istft(tk.ops.stft(x, 16, 8, 16), 16, 8, 16).shape
        TensorShape([64])
    """
    n = _lengths("istft", sequence_length, sequence_stride, fft_length)
    frames = irfft(x, n)
    weights = _window(window, int(sequence_length), n, frames, "istft")
    if weights is not None:
        frames = multiply(frames, _inverse_weights(weights, n, int(sequence_stride)))
    signal = overlap_add(frames, sequence_stride)
    start = n // 2 if center else 0
    if length is None:
        return get_item(signal, (..., slice(start, -start or None)))
    if is_later(length):
        return get_item(signal, (..., slice(start, start + length)))
    cut = get_item(signal, (..., slice(start, start + int(length))))
    return cut if signal.shape[-1] is not None else ensure_shape(cut, (*cut.shape[:-1], length))


def _inverse_weights(weights: Tensor, n: int, stride: int) -> Tensor:
    """`weights` over the sum of squares of all that meet at an element, in an endless signal."""
    overlaps = -(-n // stride)
    squares = pad(square(weights), ((0, overlaps * stride - n),))
    total = reduce_sum(reshape(squares, (overlaps, stride)), axis=0)
    total = get_item(tile(total, (overlaps,)), slice(0, n))
    some = greater(total, float(np.finfo(np.float32).tiny))
    return where(some, divide(weights, where(some, total, 1.0)), 0.0)
