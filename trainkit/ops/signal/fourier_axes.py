"""Fourier transforms of complex and real numbers over the last axes.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit.core.errors import ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import Axis, TensorLike
from trainkit.ops.arrays.axes import swapaxes
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.math.scaled_fourier import shifted
from trainkit.ops.signal.fourier import (
    complex_fft,
    complex_ifft,
    complex_irfft,
    complex_rfft,
    fitted,
)

# ---------------------------------------------------------------------- Fourier transforms


def fft(input: TensorLike, name: str | None = None) -> Tensor:
    """The Fourier transform of complex numbers over the last axis.

    Args:
        input: complex (..., n).

    Example:
        >>> tk.signal.fft(tk.constant([1.0, 0.0, 0.0, 0.0], tk.complex64)).numpy()
        array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return complex_fft(input)


def ifft(input: TensorLike, name: str | None = None) -> Tensor:
    """The inverse of `fft`, divided by the length.

    Args:
        input: complex (..., n).

    Example:
        >>> tk.signal.ifft(tk.constant([4.0, 0.0, 0.0, 0.0], tk.complex64)).numpy().real
        array([1., 1., 1., 1.], dtype=float32)
    """
    return complex_ifft(input)


def fft2d(input: TensorLike, name: str | None = None) -> Tensor:
    """The Fourier transform of complex numbers over the last two axes.

    Args:
        input: complex (..., m, n).

    Example:
        >>> tk.signal.fft2d(tk.ones((2, 2), tk.complex64)).numpy().real
        array([[4., 0.],
               [0., 0.]], dtype=float32)
    """
    return complex_fft(input, rank=2)


def ifft2d(input: TensorLike, name: str | None = None) -> Tensor:
    """The inverse of `fft2d`.

    Args:
        input: complex (..., m, n).

    Example:
        >>> tk.signal.ifft2d(tk.constant([[4.0, 0.0], [0.0, 0.0]], tk.complex64)).numpy().real
        array([[1., 1.],
               [1., 1.]], dtype=float32)
    """
    return complex_ifft(input, rank=2)


def fft3d(input: TensorLike, name: str | None = None) -> Tensor:
    """The Fourier transform of complex numbers over the last three axes.

    Args:
        input: complex (..., l, m, n).

    Example:
        >>> tk.signal.fft3d(tk.ones((2, 2, 2), tk.complex64)).shape
        TensorShape([2, 2, 2])
    """
    return complex_fft(input, rank=3)


def ifft3d(input: TensorLike, name: str | None = None) -> Tensor:
    """The inverse of `fft3d`.

    Args:
        input: complex (..., l, m, n).

    Example:
        >>> tk.signal.ifft3d(tk.ones((2, 2, 2), tk.complex64)).shape
        TensorShape([2, 2, 2])
    """
    return complex_ifft(input, rank=3)


def lengths_of_axes(fft_length: Any, axes: int) -> tuple[int | None, ...]:
    """One length for each of so many axes, `None` for all where none are said."""
    if fft_length is None:
        return (None,) * axes
    value = plain(fft_length)
    sizes = (value,) if isinstance(value, int) else tuple(value)
    if len(sizes) != axes:
        raise ShapeError(f"fft_length {sizes} must have {axes} numbers, one for each axis")
    return sizes


def _transform_along(x: Tensor, axis: int, transform: Callable[[Tensor], Tensor]) -> Tensor:
    return swapaxes(transform(swapaxes(x, axis, -1)), axis, -1)


def rfft(input_tensor: TensorLike, fft_length: Any = None, name: str | None = None) -> Tensor:
    """The Fourier transform of real numbers over the last axis: n // 2 + 1 complex ones.

    Args:
        input_tensor: real (..., n).
        fft_length: length to which it is cut or filled up with zeros first.

    Example:
        >>> tk.signal.rfft([1.0, 0.0, 0.0, 0.0]).numpy()
        array([1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return complex_rfft(input_tensor, lengths_of_axes(fft_length, 1)[0])


def irfft(input_tensor: TensorLike, fft_length: Any = None, name: str | None = None) -> Tensor:
    """The inverse of `rfft`; `fft_length` elements, 2 (k - 1) by default.

    Args:
        input_tensor: complex (..., k).
        fft_length: elements of the result.

    Example:
        >>> tk.signal.irfft(tk.constant([4.0, 0.0, 0.0], tk.complex64)).numpy()
        array([1., 1., 1., 1.], dtype=float32)
    """
    return complex_irfft(input_tensor, lengths_of_axes(fft_length, 1)[0])


def rfft_of_last_axes(x: Any, fft_length: Any, axes: int) -> Tensor:
    """`rfft` over the last axis, then `fft` over `axes` - 1 ones before it."""
    sizes = lengths_of_axes(fft_length, axes)
    y = convert_to_tensor(x)
    for k in range(axes - 1):
        if (size := sizes[k]) is not None:
            y = fitted(y, size, k - axes)
    y = complex_rfft(y, sizes[-1])
    for k in range(axes - 1):
        y = _transform_along(y, k - axes, complex_fft)
    return y


def irfft_of_last_axes(x: Any, fft_length: Any, axes: int) -> Tensor:
    """The inverse of `rfft_of_last_axes`."""
    sizes = lengths_of_axes(fft_length, axes)
    y = convert_to_tensor(x)
    for k in range(axes - 1):
        if (size := sizes[k]) is not None:
            y = fitted(y, size, k - axes)
        y = _transform_along(y, k - axes, complex_ifft)
    return complex_irfft(y, sizes[-1])


def rfft2d(input_tensor: TensorLike, fft_length: Any = None, name: str | None = None) -> Tensor:
    """`rfft` over the last axis, then `fft` over the one before it.

    Args:
        input_tensor: real (..., m, n).
        fft_length: lengths to which the axes are cut or filled up with zeros first.

    Example:
        >>> tk.signal.rfft2d(tk.ones((4, 4))).shape
        TensorShape([4, 3])
    """
    return rfft_of_last_axes(input_tensor, fft_length, 2)


def irfft2d(input_tensor: TensorLike, fft_length: Any = None, name: str | None = None) -> Tensor:
    """The inverse of `rfft2d`.

    Args:
        input_tensor: complex (..., m, k).
        fft_length: lengths to which the axes are cut or filled up with zeros first.

    Example:
        >>> tk.signal.irfft2d(tk.ones((4, 3), tk.complex64)).shape
        TensorShape([4, 4])
    """
    return irfft_of_last_axes(input_tensor, fft_length, 2)


def rfft3d(input_tensor: TensorLike, fft_length: Any = None, name: str | None = None) -> Tensor:
    """`rfft` over the last axis, then `fft` over the two before it.

    Args:
        input_tensor: real (..., l, m, n).
        fft_length: lengths to which the axes are cut or filled up with zeros first.

    Example:
        >>> tk.signal.rfft3d(tk.ones((2, 4, 4))).shape
        TensorShape([2, 4, 3])
    """
    return rfft_of_last_axes(input_tensor, fft_length, 3)


def irfft3d(input_tensor: TensorLike, fft_length: Any = None, name: str | None = None) -> Tensor:
    """The inverse of `rfft3d`.

    Args:
        input_tensor: complex (..., l, m, k).
        fft_length: lengths to which the axes are cut or filled up with zeros first.

    Example:
        >>> tk.signal.irfft3d(tk.ones((2, 4, 3), tk.complex64)).shape
        TensorShape([2, 4, 4])
    """
    return irfft_of_last_axes(input_tensor, fft_length, 3)


def fftshift(x: TensorLike, axes: Axis | None = None, name: str | None = None) -> Tensor:
    """The zero frequency moved into the middle of each axis.

    Args:
        x: tensor.
        axes: int or ints; by default all.

    Example:
        >>> tk.signal.fftshift([0, 1, 2, 3]).numpy()
        array([2, 3, 0, 1], dtype=int32)
    """
    return shifted(x, plain(axes), False)


def ifftshift(x: TensorLike, axes: Axis | None = None, name: str | None = None) -> Tensor:
    """The inverse of `fftshift`.

    Args:
        x: tensor.
        axes: int or ints; by default all.

    Example:
        >>> tk.signal.ifftshift([2, 3, 0, 1]).numpy()
        array([0, 1, 2, 3], dtype=int32)
    """
    return shifted(x, plain(axes), True)
