"""Constraints: functions that put a weight back into bounds after each optimizer step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from trainkit import ops
from trainkit.core.names import explain_unknown_names as _explain_unknown_names
from trainkit.core.registry import Registry, serialize_object
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.configurable import Configurable
from trainkit.ops.neural.normalization import EPSILON as _EPSILON

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")


CONSTRAINTS = Registry("constraints", "constraint")


class Constraint(Configurable, family=CONSTRAINTS):
    """Base of all constraints: a subclass has `__call__(w)`, which gives the new value.

    This one changes nothing.

    Example:
        >>> class Rounded(tk.constraints.Constraint):
        ...     def __call__(self, w):
        ...         return tk.round(w)
        >>> Rounded()(tk.constant([0.7, 1.2])).numpy()
        array([1., 1.], dtype=float32)
    """

    def __call__(self, w: Any) -> Any:
        """The value of the weight `w` within bounds."""
        return w


def _norms(w: Tensor, axis: Any) -> Tensor:
    return ops.sqrt(ops.sum(ops.square(w), axis=axis, keepdims=True))


class MaxNorm(Constraint):
    """Shrink vectors that are longer than `max_value` to that length.

    Args:
        max_value: greatest length.
        axis: axis or axes along which the vectors lie: 0 for the inputs of a Dense kernel's units,
            [0, 1, 2] for those of a Conv2D kernel's.

    Example:
        >>> tk.constraints.MaxNorm(1.0)(tk.constant([3.0, 4.0])).numpy().round(4)
        array([0.6, 0.8], dtype=float32)
    """

    def __init__(self, max_value: float = 2, axis: Any = 0) -> None:
        self.max_value = max_value
        self.axis = axis

    def __call__(self, w: Any) -> Any:
        w = convert_to_tensor(w)
        norms = _norms(w, self.axis)
        return w * (ops.clip(norms, 0, self.max_value) / (_EPSILON + norms))

    def get_config(self) -> dict[str, Any]:
        return {"max_value": self.max_value, "axis": self.axis}


class NonNeg(Constraint):
    """Set negative values to 0.

    Example:
        >>> tk.constraints.NonNeg()(tk.constant([-1.0, 2.0])).numpy() + 0.0
        array([0., 2.], dtype=float32)
    """

    def __call__(self, w: Any) -> Any:
        return ops.maximum(convert_to_tensor(w), 0.0)


class UnitNorm(Constraint):
    """Scale vectors to length 1.

    Args:
        axis: axis or axes along which the vectors lie.

    Example:
        >>> tk.constraints.UnitNorm()(tk.constant([3.0, 4.0])).numpy().round(4)
        array([0.6, 0.8], dtype=float32)
    """

    def __init__(self, axis: Any = 0) -> None:
        self.axis = axis

    def __call__(self, w: Any) -> Any:
        w = convert_to_tensor(w)
        return w / (_EPSILON + _norms(w, self.axis))

    def get_config(self) -> dict[str, Any]:
        return {"axis": self.axis}


class MinMaxNorm(Constraint):
    """Bring the length of vectors into [min_value, max_value], or a part of the way there.

    Args:
        min_value, max_value: bounds of the length.
        rate: share of the way, in (0, 1].
        axis: axis or axes along which the vectors lie.

    Example:
        >>> tk.constraints.MinMaxNorm(1.0, 2.0)(tk.constant([0.3, 0.4])).numpy().round(3)
        array([0.6, 0.8], dtype=float32)
    """

    def __init__(
        self, min_value: float = 0.0, max_value: float = 1.0, rate: float = 1.0, axis: Any = 0
    ) -> None:
        self.min_value = min_value
        self.max_value = max_value
        self.rate = rate
        self.axis = axis

    def __call__(self, w: Any) -> Any:
        w = convert_to_tensor(w)
        norms = _norms(w, self.axis)
        inside = ops.clip(norms, self.min_value, self.max_value)
        target_norms = self.rate * inside + (1 - self.rate) * norms
        return w * (target_norms / (_EPSILON + norms))

    def get_config(self) -> dict[str, Any]:
        return {
            "min_value": self.min_value,
            "max_value": self.max_value,
            "rate": self.rate,
            "axis": self.axis,
        }


max_norm = MaxNorm
non_neg = NonNeg
unit_norm = UnitNorm
min_max_norm = MinMaxNorm


@overload
def get(identifier: None) -> None: ...
@overload
def get(identifier: str | Mapping[str, Any] | type[Constraint]) -> Constraint: ...
@overload
def get(identifier: T) -> T: ...
def get(identifier: Any) -> Any:
    """A constraint from its name, config, class, or itself.

    Args:
        identifier: a name, a config, a class, or what is to be given back.

    Raises:
        ValueError: nothing goes by that name.

    Example:
        >>> type(tk.constraints.get("non_neg")).__name__
        'NonNeg'
    """
    return CONSTRAINTS.get(identifier)


def serialize(constraint: Any) -> Any:
    """A constraint as a dict that `deserialize` reads.

    Args:
        constraint: the constraint.

    Example:
        >>> tk.constraints.serialize(tk.constraints.NonNeg())["class_name"]
        'NonNeg'
    """
    return serialize_object(constraint)


def deserialize(
    config: str | Mapping[str, Any], custom_objects: dict[str, Any] | None = None
) -> Constraint:
    """The constraint that `serialize` described.

    Args:
        config: what `serialize` gave, or a name.
        custom_objects: classes and functions by name, besides those that are registered.

    Example:
        >>> config = tk.constraints.serialize(tk.constraints.NonNeg())
        >>> tk.constraints.deserialize(config)(tk.constant([-1.0, 2.0])).numpy()
        array([0., 2.], dtype=float32)
    """
    return CONSTRAINTS.deserialize(config, custom_objects)


_explain_unknown_names(globals())
