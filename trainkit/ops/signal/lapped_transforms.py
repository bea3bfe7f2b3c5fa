"""Modified cosine transforms, of frames half of which lies over the next, and their window.

The arguments are TensorFlow's; `name` is not kept.
Source: Princen, Johnson and Bradley 1987, "Subband/transform coding using filter bank designs
based on time domain aliasing cancellation".
"""

from __future__ import annotations

import numpy as np

from trainkit.core import dtypes
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import DTypeLike, TensorLike
from trainkit.ops.arrays.concat_and_split import concatenate
from trainkit.ops.arrays.pad_and_roll import flip
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.math.elementwise import cast, multiply, negative, subtract
from trainkit.ops.signal.cosine_transforms import dct
from trainkit.ops.signal.frames import WindowFunction, frame, overlap_and_add, vorbis_window


def kaiser_bessel_derived_window(
    window_length: int, beta: float = 12.0, dtype: DTypeLike = "float32", name: str | None = None
) -> Tensor:
    """Square roots of the running sums of a Kaiser window, there and back.

    The squares of weights half a window apart add up to 1, which `mdct` needs to be undone.
    Lengths are halved first, so 7 gives the 6 weights of 6.

    Args:
        window_length: how many weights, an even number.
        beta: how steep the Kaiser window is.
        dtype: of the result, a floating type.

    Returns:
        (window_length,).

    Raises:
        ValueError: `dtype` is no floating type.

    Example:
        >>> tk.signal.kaiser_bessel_derived_window(4, beta=0.0).numpy().round(4)
        array([0.5774, 0.8165, 0.8165, 0.5774], dtype=float32)
    """
    window_dtype = dtypes.as_dtype(dtype)
    if not window_dtype.is_floating:
        raise ValueError(f"a window needs a floating dtype, got {window_dtype.name}")
    sums = np.cumsum(np.kaiser(int(plain(window_length)) // 2 + 1, float(beta)))
    half = np.sqrt(sums[:-1] / sums[-1])
    return cast(convert_to_tensor(np.concatenate([half, half[::-1]])), window_dtype)


def _weigh(frames: Tensor, frame_length: int, window_fn: WindowFunction | None) -> Tensor:
    """Frames times their window; without one, times equal weights whose squares add up to 1."""
    if window_fn is None:
        return multiply(frames, 0.5**0.5)
    return multiply(frames, window_fn(frame_length, dtype=frames.dtype))


def mdct(
    signals: TensorLike,
    frame_length: int,
    window_fn: WindowFunction | None = vorbis_window,
    pad_end: bool = False,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Modified discrete cosine transform: half as many numbers as a frame has, none lost.

    A frame of quarters (a, b, c, d) is folded to (-c reversed - d, a - b reversed), of which `dct`
    of type 4 is taken; the next frame begins half a frame behind.

    Args:
        signals: real (..., n).
        frame_length: elements of a frame, a multiple of 4.
        window_fn: called with the length and `dtype=`, gives weights; `None` for equal ones. The
            inverse is exact where squares of weights half a frame apart add up to 1.
        pad_end: see `frame`.
        norm: `None`, or `"ortho"` for an orthonormal transform.

    Returns:
        real (..., frames, frame_length // 2).

    Raises:
        InvalidArgumentError: `frame_length` is no multiple of 4, or not above 0.
        ShapeError: `signals` is a scalar.
        ValueError: `norm` is none of those above.

    Example:
        >>> tk.signal.mdct(tk.ones((64,)), frame_length=16).shape
        TensorShape([7, 8])
    """
    length = int(plain(frame_length))
    if length % 4:
        raise InvalidArgumentError(f"mdct: frame_length must be a multiple of 4, got {length}")
    x = convert_to_tensor(signals)
    if len(x.shape) == 0:
        raise ShapeError("mdct: needs one axis at least, got a scalar")
    frames = _weigh(frame(x, length, length // 2, pad_end=pad_end), length, window_fn)
    quarter = length // 4
    a, b, c, d = (frames[..., k * quarter : (k + 1) * quarter] for k in range(4))
    first = subtract(negative(flip(c, axis=-1)), d)
    second = subtract(a, flip(b, axis=-1))
    return dct(concatenate([first, second], axis=-1), type=4, norm=norm)


def inverse_mdct(
    mdcts: TensorLike,
    window_fn: WindowFunction | None = vorbis_window,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """The inverse of `mdct` with the same settings, but for the first and last half frame.

    Args:
        mdcts: real (..., frames, frame_length // 2).
        window_fn: as for `mdct`.
        norm: as for `mdct`.

    Returns:
        real (..., (frames + 1) * frame_length // 2).

    Raises:
        ShapeError: there are fewer than two axes, or the last one cannot be halved.
        ValueError: `norm` is neither `None` nor `"ortho"`.

    Example:
        >>> x = tk.sin(tk.range(64.0))
        >>> y = tk.signal.inverse_mdct(tk.signal.mdct(x, 16))
        >>> bool(tk.reduce_max(tk.abs(y - x)[8:56]) < 1e-5)
        True
    """
    x = convert_to_tensor(mdcts)
    if len(x.shape) < 2 or x.shape[-1] is None or x.shape[-1] % 2:
        raise ShapeError(
            f"inverse_mdct: needs (..., frames, an even number), got shape {tuple(x.shape)}"
        )
    half = x.shape[-1]
    folded = dct(x, type=4, norm=norm)
    if norm is None:
        folded = multiply(folded, 0.5 / half)
    first, second = folded[..., : half // 2], folded[..., half // 2 :]
    parts = [second, negative(flip(second, axis=-1)), negative(flip(first, axis=-1))]
    frames = concatenate([*parts, negative(first)], axis=-1)
    return overlap_and_add(_weigh(frames, 2 * half, window_fn), half)
