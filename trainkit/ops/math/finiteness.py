"""Infinities, NaN and closeness of floats."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import XP_OF, Array, ArrayModule
from trainkit.core.dispatch.facets import (
    COMMON,
    ELEMENTWISE,
    INTEGERS,
    LONG_FORMULA,
    NO_REDUCTION,
    REDUCTION,
)
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.elementwise import elementwise_reference, elementwise_tuned
from trainkit.ops.core.vmap import stacked
from trainkit.ops.math.comparisons import isfinite, isnan, logical_and
from trainkit.ops.math.elementwise import keep_where
from trainkit.ops.math.elementwise import where as choose
from trainkit.ops.math.predicates import all as all_true

finite_cuda = DeferredModule("trainkit.kernels.reductions.finite_cuda")

# ------------------------------------------------------------------ infinities


@primitive(shapes.unchanged_bool, semantics=ELEMENTWISE)
def isposinf(xp: ArrayModule, x: Array) -> Array:
    """Whether x is plus infinity.

    Example:
        >>> tk.ops.isposinf([1.0, float("inf")]).numpy()
        array([False,  True])
    """
    return xp.equal(x, np.inf)


@primitive(shapes.unchanged_bool, semantics=ELEMENTWISE)
def isneginf(xp: ArrayModule, x: Array) -> Array:
    """Whether x is minus infinity.

    Example:
        >>> tk.ops.isneginf([1.0, -float("inf")]).numpy()
        array([False,  True])
    """
    return xp.equal(x, -np.inf)


@primitive(
    lambda *xs: Spec((), dtypes.bool_),
    semantics=REDUCTION,
    memory="fresh",
    lowering=NO_REDUCTION,
    no_gradient=INTEGERS,
)
def all_finite(xp: ArrayModule, *xs: Array) -> Any:
    """Whether all elements of all tensors are finite, in one pass; those of none are."""
    host_arrays = [x for x in xs if XP_OF[type(x)] is np]
    host_finite = all(bool(np.isfinite(x).all()) for x in host_arrays)
    if len(host_arrays) == len(xs):
        return np.bool_(host_finite)
    device_arrays = [x for x in xs if XP_OF[type(x)] is not np]
    xp = XP_OF[type(device_arrays[0])]  # what is given is that of the first array
    device_finite = finite_cuda.all_finite(xp, device_arrays)
    if device_finite is None:
        device_finite = functools.reduce(
            xp.logical_and, [xp.isfinite(x).all() for x in device_arrays]
        )
    return device_finite if host_finite else xp.zeros_like(device_finite)


@all_finite.batch_by
def _all_finite_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """Of each item by itself."""
    stacks = [stacked(x, count) for x in inputs]
    each = [all_true(isfinite(x), axis=tuple(range(1, len(x.shape)))) for x in stacks]
    return functools.reduce(logical_and, each)


@primitive(
    shapes.floating,
    name="nan_to_num",
    semantics=ELEMENTWISE,
    tuned=elementwise_tuned.nan_to_num.facet(
        lambda x, *, nan, posinf, neginf: elementwise_tuned.nan_to_num(x, nan, posinf, neginf)
    ),
)
def _nan_to_num(xp: ArrayModule, x: Array, *, nan: float, posinf: float, neginf: float) -> Array:
    """`x` with numbers for NaN and infinities."""
    return elementwise_reference.nan_to_num(xp, x, nan=nan, posinf=posinf, neginf=neginf)


_nan_to_num.gradients(lambda g, y, x, **numbers: keep_where(g, isfinite(x)))


def nan_to_num(x: TensorLike, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Tensor:
    """Replace NaN and infinities by numbers; no gradient passes where one was replaced.

    Args:
        x: tensor of any shape; integers come back as they are.
        nan: what NaN becomes.
        posinf: what plus infinity becomes; by default the greatest number of the dtype.
        neginf: what minus infinity becomes; by default the least number of the dtype.

    Returns:
        A tensor of the shape and dtype of `x`.

    Example:
        >>> tk.ops.nan_to_num([1.0, float("nan")]).numpy()
        array([1., 0.], dtype=float32)
    """
    x = tensor = x if isinstance(x, Tensor) else convert_to_tensor(x)
    if not tensor.dtype.is_floating:
        return tensor
    low, high = x.dtype.limits
    numbers = [nan, high if posinf is None else posinf, low if neginf is None else neginf]
    if _NUMBERS.issuperset(map(type, numbers)):
        # what is too large for the dtype is infinite in it, which NumPy would warn of
        nan, posinf, neginf = (
            math.copysign(math.inf, number) if abs(number) > high else float(number)
            for number in numbers
        )
        replaced: Tensor = _nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)
        return replaced
    result = choose(isnan(x), numbers[0], x)
    result = choose(isposinf(x), numbers[1], result)
    return choose(isneginf(x), numbers[2], result)


_NUMBERS = frozenset((int, float))


# ------------------------------------------------------------------ closeness


@primitive(
    lambda x1, x2, **settings: shapes.broadcast_bool(x1, x2),
    name="isclose",
    promotion=COMMON,
    semantics=ELEMENTWISE,
    lowering=LONG_FORMULA,
    no_gradient=INTEGERS,
)
def _isclose(
    xp: ArrayModule, x1: Array, x2: Array, *, rtol: float, atol: float, equal_nan: bool
) -> Array:
    """Whether |x1 - x2| <= atol + rtol * |x2|."""
    if x1.dtype.kind in "iub":
        x1, x2 = x1.astype(xp.float64), x2.astype(xp.float64)
    close = xp.abs(x1 - x2) <= atol + rtol * xp.abs(x2)
    close = xp.where(xp.isfinite(x1) & xp.isfinite(x2), close, x1 == x2)
    return close | (xp.isnan(x1) & xp.isnan(x2)) if equal_nan else close


def isclose(
    x1: TensorLike, x2: TensorLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether |x1 - x2| <= atol + rtol * |x2|; infinities are close to themselves only.

    Args:
        x1: tensor.
        x2: tensor that is compared with it; the shapes broadcast.
        rtol: allowed difference relative to `x2`.
        atol: allowed difference on top.
        equal_nan: whether NaN is close to NaN.

    Returns:
        A bool tensor.

    Example:
        >>> tk.ops.isclose([1.0, 2.0], [1.0, 2.1]).numpy()
        array([ True, False])
    """
    return _isclose(x1, x2, rtol=float(rtol), atol=float(atol), equal_nan=bool(equal_nan))


def allclose(
    x1: TensorLike, x2: TensorLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether all elements are close in the sense of `isclose`.

    Args:
        x1: tensor.
        x2: tensor that is compared with it; the shapes broadcast.
        rtol: allowed difference relative to `x2`.
        atol: allowed difference on top.
        equal_nan: whether NaN is close to NaN.

    Returns:
        A bool tensor without axes.

    Example:
        >>> bool(tk.ops.allclose([1.0], [1.0 + 1e-9]))
        True
    """
    return all_true(isclose(x1, x2, rtol, atol, equal_nan))
