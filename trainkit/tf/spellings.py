"""Operations whose arguments TensorFlow calls otherwise than Keras; `name` is not kept."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.tensor import Tensor
from trainkit.ops.complex_parts import complex_from
from trainkit.ops.solving import expm as _expm


def angle(input: Any, name: Any = None) -> Tensor:
    """The angle of complex numbers in the plane, in radians."""
    return ops.angle(input)


def conj(x: Any, name: Any = None) -> Tensor:
    """Complex numbers with the other sign of the imaginary part."""
    return ops.conj(x)


def imag(input: Any, name: Any = None) -> Tensor:
    """The imaginary part."""
    return ops.imag(input)


def real(input: Any, name: Any = None) -> Tensor:
    """The real part."""
    return ops.real(input)


def complex(real: Any, imag: Any, name: Any = None) -> Tensor:
    """Complex numbers of two float tensors, their parts."""
    return complex_from(real, imag)


def atan2(y: Any, x: Any, name: Any = None) -> Tensor:
    """The angle of the point (x, y), in radians."""
    return ops.arctan2(y, x)


def round(x: Any, name: Any = None) -> Tensor:
    """The nearest whole number; halves go to the even one."""
    return ops.round(x)


def saturate_cast(value: Any, dtype: Any, name: Any = None) -> Tensor:
    """Another element type, with values beyond its range at its ends."""
    return ops.saturate_cast(value, dtype)


def unravel_index(indices: Any, dims: Any, name: Any = None) -> Any:
    """The positions along each axis of positions in a flat array of sizes `dims`."""
    return ops.unravel_index(indices, dims)


def pow(x: Any, y: Any, name: Any = None) -> Tensor:
    """X to the power of y."""
    return ops.power(x, y)


def eig(tensor: Any, name: Any = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of square matrices, complex."""
    return ops.eig(tensor)


def cholesky(input: Any, name: Any = None) -> Tensor:
    """The lower triangle whose product with its adjoint is the matrix."""
    return ops.cholesky(input)


def cross(a: Any, b: Any, name: Any = None) -> Tensor:
    """The cross product of vectors of three elements, along the last axis."""
    return ops.cross(a, b)


def det(input: Any, name: Any = None) -> Tensor:
    """The determinant of square matrices."""
    return ops.det(input)


def expm(input: Any, name: Any = None) -> Tensor:
    """The exponential of square matrices."""
    return _expm(input)


def logdet(matrix: Any, name: Any = None) -> Tensor:
    """The logarithm of the determinant of positive definite matrices."""
    return ops.logdet(matrix)


def slogdet(input: Any, name: Any = None) -> Any:
    """Sign, and logarithm of the absolute value, of the determinant of square matrices."""
    return ops.slogdet(input)


def relu(features: Any, name: Any = None) -> Tensor:
    """max(x, 0)."""
    return ops.relu(features)


def relu6(features: Any, name: Any = None) -> Tensor:
    """min(max(x, 0), 6)."""
    return ops.relu6(features)


def elu(features: Any, name: Any = None) -> Tensor:
    """The features above 0, exp(x) - 1 below."""
    return ops.elu(features)


def selu(features: Any, name: Any = None) -> Tensor:
    """A scaled `elu`, which keeps mean 0 and variance 1 through layers."""
    return ops.selu(features)


def softplus(features: Any, name: Any = None) -> Tensor:
    """log(1 + exp(x))."""
    return ops.softplus(features)


def softsign(features: Any, name: Any = None) -> Tensor:
    """X / (1 + |x|)."""
    return ops.softsign(features)


def silu(features: Any, beta: Any = 1.0) -> Tensor:
    """X * sigmoid(beta x)."""
    if isinstance(beta, float | int) and beta == 1:
        return ops.silu(features)
    return ops.multiply(features, ops.sigmoid(ops.multiply(beta, features)))


swish = silu
