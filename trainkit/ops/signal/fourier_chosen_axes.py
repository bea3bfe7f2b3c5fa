"""Fourier transforms over any axes, scaled as is asked for.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

import math
from typing import Any

from trainkit.core import shapes
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import Axis, Shape, TensorLike
from trainkit.ops.arrays.axes import moveaxis
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.math.elementwise import multiply
from trainkit.ops.signal.fourier import complex_fft, complex_ifft, fitted
from trainkit.ops.signal.fourier_axes import irfft_of_last_axes, lengths_of_axes, rfft_of_last_axes

# By norm, the power of the number of elements that forward transforms are multiplied by, and what
# inverse ones are, which are divided by that number anyway.
_POWERS = {None: (0.0, 0.0), "backward": (0.0, 0.0), "ortho": (-0.5, 0.5), "forward": (-1.0, 1.0)}


def _canonical_axes(x: Tensor, axes: Any, op: str) -> tuple[int, ...]:
    rank = len(x.shape)
    axis_numbers = plain(axes)
    numbers = shapes.canonical_axes(range(rank) if axis_numbers is None else axis_numbers, rank, op)
    if not numbers:
        raise ShapeError(f"{op}: needs one axis at least, got shape {tuple(x.shape)}, axes {axes}")
    return tuple(numbers)


def _scale(y: Tensor, sizes: Any, norm: Any, op: str, inverse: bool) -> Tensor:
    if norm not in _POWERS:
        raise InvalidArgumentError(
            f"{op}: norm {norm!r} is none of 'backward', 'ortho', 'forward' and None"
        )
    power = _POWERS[norm][inverse]
    if power == 0.0:
        return y
    if None in sizes:
        raise ShapeError(
            f"{op}: norm {norm!r} needs to know the sizes of the axes, give fft_length"
        )
    return multiply(y, float(math.prod(sizes)) ** power)


def _transform(
    x: Tensor, fft_length: Any, axes: Any, norm: Any, op: str, inverse: bool = False
) -> Tensor:
    numbers = _canonical_axes(x, axes, op)
    last = tuple(range(-len(numbers), 0))
    y = moveaxis(x, numbers, last)
    for axis, length in zip(last, lengths_of_axes(fft_length, len(numbers)), strict=True):
        y = y if length is None else fitted(y, length, axis)
    y = (complex_ifft if inverse else complex_fft)(y, rank=len(numbers))
    return _scale(moveaxis(y, last, numbers), y.shape[-len(numbers) :], norm, op, inverse)


def fftnd(
    input_tensor: TensorLike,
    fft_length: Shape | None = None,
    axes: Axis | None = None,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """The Fourier transform of complex numbers over `axes`.

    Args:
        input_tensor: complex, of any shape but a scalar's.
        fft_length: lengths to which `axes` are cut or filled up with zeros first, one for each.
        axes: ints; by default all.
        norm: `"backward"` or `None` leaves it unscaled, `"forward"` divides it by the number of
            elements that are transformed, `"ortho"` by the root of that number.

    Returns:
        complex, with `fft_length` at `axes`.

    Raises:
        ShapeError: an axis is out of range or named twice, there is none, or there are not as many
            lengths as axes.
        InvalidArgumentError: `norm` is none of those above.

    Example:
        >>> tk.signal.fftnd(tk.ones((2, 3), tk.complex64), axes=[0]).numpy().real
        array([[2., 2., 2.],
               [0., 0., 0.]], dtype=float32)
    """
    return _transform(convert_to_tensor(input_tensor), fft_length, axes, norm, "fftnd")


def ifftnd(
    input_tensor: TensorLike,
    fft_length: Shape | None = None,
    axes: Axis | None = None,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """The inverse of `fftnd` with the same `axes` and `norm`.

    Args:
        input_tensor: complex, of any shape but a scalar's.
        fft_length: lengths to which `axes` are cut or filled up with zeros first, one for each.
        axes: ints; by default all.
        norm: as for `fftnd`.

    Returns:
        complex, with `fft_length` at `axes`.

    Raises:
        ShapeError: as for `fftnd`.
        InvalidArgumentError: as for `fftnd`.

    Example:
        >>> x = tk.constant([[1.0, 2.0]], tk.complex64)
        >>> tk.signal.ifftnd(tk.signal.fftnd(x)).numpy().real
        array([[1., 2.]], dtype=float32)
    """
    return _transform(convert_to_tensor(input_tensor), fft_length, axes, norm, "ifftnd", True)


def rfftnd(
    input_tensor: TensorLike,
    fft_length: Shape | None = None,
    axes: Axis | None = None,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """`rfft` over the last of `axes`, then the transform over the others.

    Args:
        input_tensor: real, of any shape but a scalar's.
        fft_length: lengths to which `axes` are cut or filled up with zeros first, one for each.
        axes: ints; by default all.
        norm: as for `fftnd`.

    Returns:
        complex, n // 2 + 1 at the last of `axes`, which had length n.

    Raises:
        ShapeError: as for `fftnd`.
        InvalidArgumentError: as for `fftnd`, or the input is complex.

    Example:
        >>> tk.signal.rfftnd(tk.ones((4, 6)), axes=[1, 0]).shape
        TensorShape([3, 6])
    """
    x = convert_to_tensor(input_tensor)
    numbers = _canonical_axes(x, axes, "rfftnd")
    last = tuple(range(-len(numbers), 0))
    lengths = lengths_of_axes(fft_length, len(numbers))
    sizes = [length or x.shape[axis] for axis, length in zip(numbers, lengths, strict=True)]
    y = rfft_of_last_axes(moveaxis(x, numbers, last), fft_length, len(numbers))
    return _scale(moveaxis(y, last, numbers), sizes, norm, "rfftnd", False)


def irfftnd(
    input_tensor: TensorLike,
    fft_length: Shape | None = None,
    axes: Axis | None = None,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """The inverse of `rfftnd` with the same `axes` and `norm`.

    Args:
        input_tensor: complex, of any shape but a scalar's.
        fft_length: lengths of the result at `axes`; by default that of the input, and 2 (k - 1) at
            the last of `axes`, where the input has k.
        axes: ints; by default all.
        norm: as for `fftnd`.

    Returns:
        real, with `fft_length` at `axes`.

    Raises:
        ShapeError: as for `fftnd`.
        InvalidArgumentError: as for `fftnd`.

    Example:
        >>> x = tk.constant([[1.0, 2.0, 3.0, 4.0]])
        >>> tk.signal.irfftnd(tk.signal.rfftnd(x)).numpy().round(4)
        array([[1., 2., 3., 4.]], dtype=float32)
    """
    x = convert_to_tensor(input_tensor)
    numbers = _canonical_axes(x, axes, "irfftnd")
    last = tuple(range(-len(numbers), 0))
    y = irfft_of_last_axes(moveaxis(x, numbers, last), fft_length, len(numbers))
    return _scale(moveaxis(y, last, numbers), y.shape[-len(numbers) :], norm, "irfftnd", True)
