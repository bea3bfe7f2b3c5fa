"""Whether all or any elements along axes are true."""

from __future__ import annotations

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import INTEGERS, NO_REDUCTION, REDUCTION, Direct
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.math.reductions import Axis, axis_setting, check_axes


def _logic_rule(x: Spec, *, axis: Axis, keepdims: bool) -> Spec:
    return Spec(shapes.reduced_dims(x.shape, axis, keepdims), dtypes.bool_)


@primitive(
    _logic_rule,
    name="all",
    semantics=REDUCTION,
    lowering=NO_REDUCTION,
    no_gradient=INTEGERS,
    direct=Direct("reduction", (np.logical_and,)),
)
def _all(xp: ArrayModule, x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """Whether all elements along axes are true."""
    check_axes(x, axis, "all")
    return xp.all(x, axis=axis, keepdims=keepdims)


_all.declare(stackable=True)


@primitive(
    _logic_rule,
    name="any",
    semantics=REDUCTION,
    lowering=NO_REDUCTION,
    no_gradient=INTEGERS,
    direct=Direct("reduction", (np.logical_or,)),
)
def _any(xp: ArrayModule, x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """Whether one element along axes is true."""
    check_axes(x, axis, "any")
    return xp.any(x, axis=axis, keepdims=keepdims)


_any.declare(stackable=True)


def all(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether all elements along `axis` are true; all but 0 count as true.

    Args:
        x: tensor of any shape.
        axis: int, sequence of ints, or `None` for all axes.
        keepdims: keep the reduced axes with size 1.

    Returns:
        A bool tensor.

    Example:
        >>> tk.ops.all([[True, True], [True, False]], axis=1).numpy()
        array([ True, False])
    """
    return _all(x, axis=axis_setting(axis), keepdims=keepdims)


def any(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether at least one element along `axis` is true; all but 0 count as true.

    Args:
        x: tensor of any shape.
        axis: int, sequence of ints, or `None` for all axes.
        keepdims: keep the reduced axes with size 1.

    Returns:
        A bool tensor.

    Example:
        >>> tk.ops.any([[False, False], [True, False]], axis=1).numpy()
        array([False,  True])
    """
    return _any(x, axis=axis_setting(axis), keepdims=keepdims)
