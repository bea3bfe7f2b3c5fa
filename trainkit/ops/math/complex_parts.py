"""Parts of complex numbers, and complex numbers from their parts.

The gradient of a real loss by z = a + ib is (dL/da) + i (dL/db), as in TensorFlow.
"""

from __future__ import annotations

import math
from typing import Any

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import ELEMENTWISE, LAST_AXES, NO_COMPLEX
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.core.one_node import one_node
from trainkit.ops.math.comparisons import equal
from trainkit.ops.math.elementwise import (
    absolute,
    cast,
    divide,
    magnitude_rule,
    multiply,
    promoted,
    square,
)
from trainkit.ops.math.trigonometry import cos, sin

_COMPLEX_OF = {"float64": dtypes.complex128, "complex128": dtypes.complex128}


def complex_dtype(dtype: dtypes.DType) -> dtypes.DType:
    """The complex type with parts of `dtype`; complex64 for all that float32 holds."""
    return _COMPLEX_OF.get(dtype.name, dtypes.complex64)


# ------------------------------------------------------------------ parts


@primitive(magnitude_rule, name="real", semantics=ELEMENTWISE, lowering=NO_COMPLEX, memory="view")
def real(xp: ArrayModule, x: Array) -> Array:
    """Real part; real values as they are.

    Example:
        >>> tk.ops.real(tk.constant([1.0 + 2.0j])).numpy()
        array([1.])
    """
    return xp.real(x)


real.gradients(lambda g, y, x: cast(g, x.dtype))


@primitive(magnitude_rule, name="imag", semantics=ELEMENTWISE, lowering=NO_COMPLEX, memory="view")
def imag(xp: ArrayModule, x: Array) -> Array:
    """Imaginary part; 0 for real values.

    Example:
        >>> tk.ops.imag(tk.constant([1.0 + 2.0j])).numpy()
        array([2.])
    """
    return xp.imag(x) if x.dtype.kind == "c" else xp.zeros_like(x)


imag.gradients(lambda g, y, x: multiply(cast(g, x.dtype), 1j) if x.dtype.is_complex else None)


@primitive(shapes.unchanged, semantics=ELEMENTWISE, lowering=NO_COMPLEX, memory="view")
def conj(xp: ArrayModule, x: Array) -> Array:
    """Complex conjugate a - ib; real values as they are.

    Example:
        >>> tk.ops.conj(tk.constant([1.0 + 2.0j])).numpy()
        array([1.-2.j])
    """
    return xp.conjugate(x) if x.dtype.kind == "c" else x


conj.gradients(lambda g, y, x: conj(g))


def _angle_rule(x: Spec) -> Spec:
    return Spec(x.shape, shapes.float_dtype(x.dtype).real_dtype)


@primitive(_angle_rule, name="angle", semantics=ELEMENTWISE)
def phase(xp: ArrayModule, x: Array) -> Array:
    """Angle in the complex plane, from -pi to pi; 0 or pi for real values, 0 for -0."""
    if x.dtype.kind == "c":
        return xp.arctan2(x.imag, x.real)
    angle_dtype = shapes.float_dtype(dtypes.as_dtype(x.dtype)).dtype
    # a half turn where the sign is -1; NaN stays
    turns = xp.abs(xp.minimum(xp.sign(x.astype(angle_dtype, copy=False)), 0)) * math.pi
    return turns.astype(angle_dtype, copy=False)


def _angle_gradient(g: Tensor, y: Tensor, x: Tensor) -> Tensor | None:
    if not x.dtype.is_complex:
        return multiply(g, 0) if x.dtype.is_floating else None
    # Turning z by a small angle moves it along i z; the angle grows by the move over |z|.
    return multiply(cast(divide(g, square(absolute(x))), x.dtype), multiply(x, 1j))


phase.gradients(_angle_gradient)


def angle(x: TensorLike) -> Tensor:
    """Angle in the complex plane, from -pi to pi; 0 or pi for real values, 0 for -0.

    Args:
        x: tensor of numbers; complex128 ones are taken as complex64, as in Keras.

    Returns:
        A tensor of the dtype of real parts of `x`, float32 for complex numbers.

    Example:
        >>> tk.ops.angle(tk.constant([1.0j])).numpy().round(4)
        array([1.5708], dtype=float32)
    """
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    return phase(cast(x, "complex64") if x.dtype.is_complex else x)


def isreal(x: TensorLike) -> Tensor:
    """Whether the imaginary part is 0; true for all real values.

    Args:
        x: tensor of any shape.

    Returns:
        A bool tensor of the shape of `x`.

    Example:
        >>> tk.ops.isreal([1.0, 2.0]).numpy()
        array([ True,  True])
    """
    return equal(imag(x), 0)


# ------------------------------------------------------------------ from parts


def _complex_rule(a: Spec, b: Spec) -> Spec:
    return Spec(shapes.broadcast_dims(a.shape, b.shape, op="complex"), complex_dtype(a.dtype))


@primitive(_complex_rule, name="complex", semantics=ELEMENTWISE, lowering=NO_COMPLEX)
def _complex(xp: ArrayModule, a: Array, b: Array) -> Array:
    """Complex number a + ib."""
    shape = xp.broadcast_shapes(a.shape, b.shape) if a.shape != b.shape else a.shape
    z = xp.empty(shape, complex_dtype(dtypes.as_dtype(a.dtype)).dtype)
    z.real = a
    z.imag = b
    return z


_complex.primitive.broadcasts = True
_complex.gradients(
    lambda g, y, a, b: cast(real(g), a.dtype), lambda g, y, a, b: cast(imag(g), b.dtype)
)


def complex_from(real_part: TensorLike, imaginary_part: Any) -> Tensor:
    """Complex numbers from their real and imaginary parts.

    Args:
        real_part: real tensor.
        imaginary_part: another, whose shape broadcasts with that of `real_part`.

    Returns:
        A complex128 tensor for float64 parts, else complex64.

    Raises:
        InvalidArgumentError: a part is complex.
    """
    one, two = promoted(real_part, imaginary_part)
    if one.dtype.is_complex:
        raise InvalidArgumentError("complex: both parts must be real")
    return _complex(one, two)


@one_node("polar")
def polar(abs_: Any, angle: Any) -> Tensor:
    """Complex numbers from their magnitude and angle.

    Args:
        abs_: magnitude, a real tensor.
        angle: in radians, a real tensor whose shape broadcasts with that of `abs_`.

    Returns:
        A complex tensor abs_ * (cos(angle) + i sin(angle)).

    Example:
        >>> tk.ops.polar([2.0], [0.0]).numpy()
        array([2.+0.j], dtype=complex64)
    """
    size, turn = promoted(abs_, angle)
    return complex_from(multiply(size, cos(turn)), multiply(size, sin(turn)))


@primitive(
    lambda x: Spec((*x.shape, 2), x.dtype.real_dtype), name="view_as_real", semantics=LAST_AXES
)
def _view_as_real(xp: ArrayModule, x: Array) -> Array:
    """Real and imaginary part side by side on a new last axis."""
    return xp.stack([xp.real(x), xp.imag(x)], axis=-1)


@primitive(
    lambda x: Spec(x.shape[:-1], complex_dtype(x.dtype)),
    name="view_as_complex",
    semantics=LAST_AXES,
)
def complex_of_pairs(xp: ArrayModule, x: Array) -> Array:
    """Complex numbers from pairs on the last axis."""
    z = xp.empty(x.shape[:-1], complex_dtype(dtypes.as_dtype(x.dtype)).dtype)
    z.real, z.imag = x[..., 0], x[..., 1]
    return z


def _first_parts(g: Tensor, x: Tensor) -> Tensor:
    return cast(real(complex_of_pairs(g)), x.dtype)


_view_as_real.gradients(
    lambda g, y, x: complex_of_pairs(g) if x.dtype.is_complex else _first_parts(g, x)
)
_view_as_real.declare(stackable=True)
complex_of_pairs.gradients(lambda g, y, x: cast(_view_as_real(g), x.dtype))
complex_of_pairs.declare(stackable=True)


def view_as_real(x: TensorLike) -> Tensor:
    """Real and imaginary parts of complex numbers, side by side on a new last axis of size 2.

    Args:
        x: complex tensor (...), or a real one, whose imaginary parts are 0.

    Returns:
        A real tensor (..., 2), of the dtype of a real `x`.

    Example:
        >>> tk.ops.view_as_real(tk.constant([1.0 + 2.0j])).numpy()
        array([[1., 2.]])
    """
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    return _view_as_real(x)


def view_as_complex(x: TensorLike) -> Tensor:
    """Complex numbers from pairs of a real and an imaginary part on the last axis.

    Args:
        x: real tensor (..., 2).

    Returns:
        A complex64 tensor (...), whatever the dtype of `x`, as in Keras. For complex128 of float64
        there is `tk.complex(x[..., 0], x[..., 1])`.

    Raises:
        ShapeError: the last axis has another size than 2.
        InvalidArgumentError: `x` is complex.

    Example:
        >>> tk.ops.view_as_complex([[1.0, 2.0]]).numpy()
        array([1.+2.j], dtype=complex64)
    """
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    if x.dtype.is_complex:
        raise InvalidArgumentError("view_as_complex: x is complex already")
    if len(x.shape) == 0 or x.shape[-1] not in (2, None):
        raise ShapeError(f"view_as_complex: the last axis must have size 2, x has shape {x.shape}")
    return complex_of_pairs(cast(x, "float32"))
