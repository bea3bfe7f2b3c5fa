"""Discrete Fourier transforms, of complex tensors and of pairs of real and imaginary parts.

Forward transforms are not scaled, inverse ones are divided by the number of elements. Each is
linear, so its gradient is the transposed transform.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import LAST_AXES, SHAPE, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.cuda.constants import on_device
from trainkit.kernels.fourier import fft_tuned
from trainkit.ops.arrays.conversion import ensure_shape
from trainkit.ops.arrays.pad_and_roll import pad
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.core.one_node import one_node
from trainkit.ops.indexing.get_item import get_item
from trainkit.ops.linear_algebra.matrices import unknown_sizes_fit
from trainkit.ops.math.complex_parts import complex_dtype, complex_from, imag, real
from trainkit.ops.math.elementwise import cast

Pair = tuple[Tensor, Tensor]

# ------------------------------------------------------------------ complex to complex


def _axes(rank: int) -> tuple[int, ...]:
    return tuple(range(-rank, 0))


def _kernels(is_inverse: bool, is_divided: bool) -> Tuned:
    def transform_axes(x: Array, *, rank: int) -> Array | None:
        return fft_tuned.transform_axes(x, rank, is_inverse, is_divided)

    return Tuned(transform_axes, fewest=fft_tuned.FEWEST)


def _same_rule(x: Spec, *, rank: int) -> Spec:
    if len(x.shape) < rank:
        raise ShapeError(f"fft: needs {rank} axes at least, got shape {tuple(x.shape)}")
    return Spec(x.shape, x.dtype)


@primitive(_same_rule, name="fft", semantics=LAST_AXES, tuned=_kernels(False, False))
def _fft(xp: ArrayModule, x: Array, *, rank: int) -> Array:
    """The transform over the last `rank` axes of a complex tensor."""
    if rank == 1:  # what transforms over several axes do besides takes as long as a short one
        return xp.fft.fft(x).astype(x.dtype, copy=False)
    return xp.fft.fftn(x, axes=_axes(rank)).astype(x.dtype, copy=False)


@primitive(_same_rule, name="ifft", semantics=LAST_AXES, tuned=_kernels(True, True))
def _ifft(xp: ArrayModule, x: Array, *, rank: int) -> Array:
    """The inverse transform over the last `rank` axes of a complex tensor."""
    if rank == 1:
        return xp.fft.ifft(x).astype(x.dtype, copy=False)
    return xp.fft.ifftn(x, axes=_axes(rank)).astype(x.dtype, copy=False)


@primitive(_same_rule, semantics=LAST_AXES, tuned=_kernels(True, False))
def fft_transposed(xp: ArrayModule, x: Array, *, rank: int) -> Array:
    """The inverse transform without its division."""
    if rank == 1:
        return xp.fft.ifft(x, norm="forward").astype(x.dtype, copy=False)
    return xp.fft.ifftn(x, axes=_axes(rank), norm="forward").astype(x.dtype, copy=False)


@primitive(_same_rule, semantics=LAST_AXES, tuned=_kernels(False, True))
def ifft_transposed(xp: ArrayModule, x: Array, *, rank: int) -> Array:
    """The transform, divided by the number of elements."""
    if rank == 1:
        return xp.fft.fft(x, norm="forward").astype(x.dtype, copy=False)
    return xp.fft.fftn(x, axes=_axes(rank), norm="forward").astype(x.dtype, copy=False)


_fft.gradients(lambda g, y, x, *, rank: fft_transposed(g, rank=rank))
_ifft.gradients(lambda g, y, x, *, rank: ifft_transposed(g, rank=rank))
fft_transposed.gradients(lambda g, y, x, *, rank: _fft(g, rank=rank))
ifft_transposed.gradients(lambda g, y, x, *, rank: _ifft(g, rank=rank))


# ------------------------------------------------------------------ real to complex and back


def _half(n: int | None) -> int | None:
    return None if n is None else n // 2 + 1


def _half_weights(n: int, middle: float, dtype: Any) -> Any:
    """`middle` for the elements that stand for two of the whole spectrum, 1 for the others."""
    weights = np.full(n // 2 + 1, middle, dtype)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    return weights


def _weights_on(xp: ArrayModule, n: int, middle: float, dtype: Any) -> Array:
    key = ("half weights", n, middle, np.dtype(dtype))
    return on_device(xp, key, lambda: _half_weights(n, middle, dtype))


@primitive(
    lambda x: Spec((*x.shape[:-1], _half(x.shape[-1])), complex_dtype(x.dtype)),
    name="rfft",
    semantics=LAST_AXES,
    tuned=Tuned(lambda x: fft_tuned.real_transform(x, 1.0), fewest=fft_tuned.FEWEST),
)
def _rfft(xp: ArrayModule, x: Array) -> Array:
    """The transform over the last axis of a real tensor, without the half that repeats."""
    return xp.fft.rfft(x).astype(np.result_type(x.dtype, np.complex64), copy=False)


def _whole(n: int | None) -> int | None:
    return None if n is None else 2 * (n - 1)


def _compiled_irfft(x: Array, *, n: int | None) -> Array | None:
    n = _whole(x.shape[-1]) if n is None else n
    return fft_tuned.inverse_real_transform(x, n, 2 / n) if n else None


@primitive(
    lambda x, *, n: Spec(
        (*x.shape[:-1], _whole(x.shape[-1]) if n is None else n), x.dtype.real_dtype
    ),
    name="irfft",
    semantics=LAST_AXES,
    tuned=Tuned(_compiled_irfft, fewest=fft_tuned.FEWEST),
)
def _irfft(xp: ArrayModule, x: Array, *, n: int | None) -> Array:
    """The inverse of `rfft` for real tensors of length `n`, by default an even one."""
    return xp.fft.irfft(x, n).astype(x.real.dtype, copy=False)


def _compiled_rfft_transposed(g: Array, x: Array) -> Array | None:
    n = x.shape[-1]
    if g.dtype != np.complex64 or n % 2:
        return None
    return fft_tuned.inverse_real_transform(g * _weights_on(np, n, 0.5, g.real.dtype), n, 2.0)


@primitive(
    lambda g, x: Spec(x.shape, g.dtype.real_dtype),
    semantics=LAST_AXES,
    reads={1: SHAPE},
    tuned=Tuned(_compiled_rfft_transposed, fewest=fft_tuned.FEWEST),
)
def rfft_transposed(xp: ArrayModule, g: Array, x: Array) -> Array:
    """`rfft` transposed; of `x` only the length counts."""
    n = x.shape[-1]
    weights = _weights_on(xp, n, 0.5, g.real.dtype)
    return xp.fft.irfft(g * weights, n, norm="forward").astype(g.real.dtype, copy=False)


def _compiled_irfft_transposed(g: Array, *, n: int | None) -> Array | None:
    spectrum = fft_tuned.real_transform(g, 1 / g.shape[-1])
    if spectrum is not None:
        spectrum *= _weights_on(np, g.shape[-1], 2.0, g.dtype)
    return spectrum


@primitive(
    lambda g, *, n: Spec((*g.shape[:-1], _half(n or g.shape[-1])), complex_dtype(g.dtype)),
    semantics=LAST_AXES,
    tuned=Tuned(_compiled_irfft_transposed, fewest=fft_tuned.FEWEST),
)
def irfft_transposed(xp: ArrayModule, g: Array, *, n: int | None) -> Array:
    """`irfft` transposed."""
    weights = _weights_on(xp, g.shape[-1], 2.0, g.dtype)
    spectrum = xp.fft.rfft(g, norm="forward") * weights
    return spectrum.astype(np.result_type(g.dtype, np.complex64), copy=False)


_rfft.gradients(lambda g, y, x: rfft_transposed(g, x))
_irfft.gradients(lambda g, y, x, *, n: irfft_transposed(g, n=n))
rfft_transposed.gradients(lambda gg, y, g, x: _rfft(gg), None)
irfft_transposed.gradients(lambda gg, y, g, *, n: _irfft(gg, n=n))


# ------------------------------------------------------------------ complex tensors


def as_complex(x: Any) -> Tensor:
    """A tensor of complex numbers; real ones get the imaginary part 0."""
    tensor = as_tensor(x)
    return tensor if tensor.dtype.is_complex else cast(tensor, complex_dtype(tensor.dtype))


def complex_fft(x: Any, rank: int = 1) -> Tensor:
    """The Fourier transform of complex `x` over its last `rank` axes.

    Raises:
        ShapeError: `x` has fewer axes.
    """
    result: Tensor = _fft(as_complex(x), rank=rank)
    return result


def complex_ifft(x: Any, rank: int = 1) -> Tensor:
    """The inverse Fourier transform of complex `x` over its last `rank` axes.

    Raises:
        ShapeError: `x` has fewer axes.
    """
    result: Tensor = _ifft(as_complex(x), rank=rank)
    return result


def fitted(x: Tensor, n: int, axis: int = -1) -> Tensor:
    """`x` cut, or filled up with zeros, to length `n` along one axis."""
    rank = len(x.shape)
    axis_index = axis % rank
    size = x.shape[axis_index]
    if size == n:
        return x
    missing = n if size is None else n - size
    if missing > 0:
        ends = [(0, 0)] * rank
        ends[axis_index] = (0, missing)
        x = pad(x, tuple(ends))
    if size is None or size > n:
        x = get_item(x, (*(slice(None),) * axis_index, slice(0, n)))
    if size is not None:
        return x
    return ensure_shape(x, (*x.shape[:axis_index], n, *x.shape[axis_index + 1 :]))


def complex_rfft(x: Any, fft_length: int | None = None) -> Tensor:
    """The Fourier transform of real `x` over its last axis: the first n // 2 + 1 elements.

    Args:
        x: real tensor (..., n); integers become the default float.
        fft_length: length to which `x` is cut or filled up with zeros before.

    Returns:
        A complex tensor (..., n // 2 + 1).

    Raises:
        ShapeError: `x` is a scalar.
        InvalidArgumentError: `x` is complex, or `fft_length` is less than 1.
    """
    tensor = _real(x, "rfft")
    _check_length(fft_length, "rfft")
    result: Tensor = _rfft(tensor if fft_length is None else fitted(tensor, int(fft_length)))
    return result


def complex_irfft(x: Any, fft_length: int | None = None) -> Tensor:
    """The inverse of `complex_rfft`.

    Args:
        x: complex tensor (..., k).
        fft_length: length of the result, 2 (k - 1) by default; `x` is cut or filled up to fit.

    Returns:
        A real tensor (..., fft_length).

    Raises:
        ShapeError: `x` is a scalar.
        InvalidArgumentError: `fft_length` is less than 1.
    """
    tensor = as_complex(x)
    if len(tensor.shape) == 0:
        raise ShapeError("irfft: needs one axis at least, got a scalar")
    _check_length(fft_length, "irfft")
    n = _whole(tensor.shape[-1]) if fft_length is None else int(fft_length)
    result: Tensor = _irfft(tensor if n is None else fitted(tensor, n // 2 + 1), n=n)
    return result


def _check_length(n: int | None, op: str) -> None:
    if n is not None and n < 1:
        raise InvalidArgumentError(f"{op}: fft_length must be 1 or more, got {n}")


def _real(x: Any, op: str) -> Tensor:
    tensor = as_tensor(x)
    if tensor.dtype.is_complex:
        raise InvalidArgumentError(f"{op}: takes real numbers, got {tensor.dtype.name}")
    if len(tensor.shape) == 0:
        raise ShapeError(f"{op}: needs one axis at least, got a scalar")
    real_dtype = shapes.float_dtype(tensor.dtype)
    if real_dtype.size < 4:
        real_dtype = dtypes.float32
    return tensor if tensor.dtype == real_dtype else cast(tensor, real_dtype)


# ------------------------------------------------------------------ pairs


def _join(x: Any, op: str) -> Tensor:
    """A pair of real and imaginary parts as a complex tensor.

    Raises:
        ValueError: it is no pair, the parts are no floats, or differ in shape.
    """
    if not isinstance(x, list | tuple) or len(x) != 2:
        raise ValueError(
            f"{op}: takes a pair of tensors, real and imaginary parts; got {type(x).__name__}"
        )
    re, im = (as_tensor(part) for part in x)
    if not (re.dtype.is_floating and im.dtype.is_floating):
        raise ValueError(
            f"{op}: both parts must be floats, got {re.dtype.name} and {im.dtype.name}"
        )
    if len(re.shape) != len(im.shape) or not re.shape.is_compatible_with(im.shape):
        raise ShapeError(
            f"{op}: both parts must have one shape, got {tuple(re.shape)} and {tuple(im.shape)}"
        )
    return complex_from(re, im)


def _give_sizes(x: Any, op: str, rank: int) -> Tensor:
    """A pair as `_join` makes it; a symbol of a model must tell the sizes of the `rank` axes.

    Raises:
        ShapeError: it does not.
    """
    z = _join(x, op)
    if None in z.shape[-rank:] and not unknown_sizes_fit(z):
        axes = "last axis" if rank == 1 else f"last {rank} axes"
        raise ShapeError(
            f"{op}: the symbol of shape {tuple(z.shape)} must tell the size of its {axes}; give "
            "Input a shape with that size"
        )
    return z


def _check_sizes(op: str, rank: int) -> Callable[..., None]:
    """What looks at the sizes of a symbol before the call is one operation of its model."""

    def check(x: Any) -> None:
        _give_sizes(x, op, rank)

    return check


def _parts(x: Tensor) -> Pair:
    return real(x), imag(x)


@one_node("fft", check=_check_sizes("fft", 1))
def fft(x: TensorLike) -> Pair:
    """The Fourier transform over the last axis.

    y[k] = sum over n of x[n] exp(-2 pi i k n / N)

    Args:
        x: pair of real and imaginary parts, float tensors (..., N).

    Returns:
        A pair of tensors of the same shape.

    Raises:
        ValueError: `x` is no pair of floats of one shape.

    Example:
        >>> real, imaginary = tk.ops.fft(([1.0, 0.0], [0.0, 0.0]))
        >>> real.numpy()
        array([1., 1.], dtype=float32)
    """
    return _parts(complex_fft(_give_sizes(x, "fft", 1)))


@one_node("fft2", check=_check_sizes("fft2", 2))
def fft2(x: TensorLike) -> Pair:
    """The Fourier transform over the last two axes, of a pair of float tensors; see `fft`.

    Raises:
        ValueError: `x` is no pair of floats of one shape.

    Example:
        >>> real, imaginary = tk.ops.fft2((tk.ones((2, 2)), tk.zeros((2, 2))))
        >>> real.numpy()
        array([[4., 0.],
               [0., 0.]], dtype=float32)
    """
    return _parts(complex_fft(_give_sizes(x, "fft2", 2), rank=2))


@one_node("ifft2", check=_check_sizes("ifft2", 2))
def ifft2(x: TensorLike) -> Pair:
    """The inverse Fourier transform over the last two axes, of a pair of float tensors.

    Raises:
        ValueError: `x` is no pair of floats of one shape.

    Example:
        >>> real, imaginary = tk.ops.ifft2((tk.ones((2, 2)), tk.zeros((2, 2))))
        >>> real.numpy()
        array([[1., 0.],
               [0., 0.]], dtype=float32)
    """
    return _parts(complex_ifft(_give_sizes(x, "ifft2", 2), rank=2))


@one_node("rfft")
def rfft(x: TensorLike, fft_length: int | None = None) -> Pair:
    """The Fourier transform of real `x` over its last axis: the first n // 2 + 1 elements.

    Args:
        x: real tensor (..., n); integers become the default float.
        fft_length: length to which `x` is cut or filled up with zeros before.

    Returns:
        A pair of real and imaginary parts (..., n // 2 + 1).

    Raises:
        ShapeError: `x` is a scalar.
        InvalidArgumentError: `x` is complex, or `fft_length` is less than 1.

    Example:
        >>> real, imaginary = tk.ops.rfft([1.0, 0.0, 0.0, 0.0])
        >>> real.numpy()
        array([1., 1., 1.], dtype=float32)
    """
    return _parts(complex_rfft(x, fft_length))


@one_node("irfft")
def irfft(x: TensorLike, fft_length: int | None = None) -> Tensor:
    """The inverse of `rfft`.

    Args:
        x: pair of real and imaginary parts, float tensors (..., k).
        fft_length: length of the result, 2 (k - 1) by default; `x` is cut or filled up to fit.

    Returns:
        A real tensor (..., fft_length).

    Raises:
        ValueError: `x` is no pair of floats of one shape.
        InvalidArgumentError: `fft_length` is less than 1.

    Example:
        >>> tk.ops.irfft(([2.0, 0.0], [0.0, 0.0])).numpy()
        array([1., 1.], dtype=float32)
    """
    return complex_irfft(_join(x, "irfft"), fft_length)
