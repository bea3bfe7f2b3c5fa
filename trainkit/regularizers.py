"""Regularizers: penalties on weights or outputs that count as losses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from trainkit import ops
from trainkit.core.errors import ShapeError
from trainkit.core.names import explain_unknown_names as _explain_unknown_names
from trainkit.core.registry import Registry, serialize_object
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.configurable import Configurable

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")


REGULARIZERS = Registry("regularizers", "regularizer")


class Regularizer(Configurable, family=REGULARIZERS):
    """Base of all regularizers: a subclass has `__call__(x)`, giving a scalar, and `get_config`.

    Example:
        >>> class Largest(tk.regularizers.Regularizer):
        ...     def __call__(self, x):
        ...         return tk.reduce_max(tk.abs(x))
        >>> layer = tk.layers.Dense(1, kernel_initializer="ones", kernel_regularizer=Largest())
        >>> y = layer(tk.ones((1, 2)))
        >>> float(layer.losses[0])
        1.0
    """

    def __call__(self, x: Any) -> Any:
        """The penalty on the tensor `x`, a scalar."""
        return 0.0

    def get_config(self) -> dict[str, Any]:
        """The arguments of a like regularizer.

        Raises:
            NotImplementedError: a subclass has settings and no `get_config`.
        """
        if vars(self):
            raise NotImplementedError(
                f"{type(self).__name__} has settings, it needs a get_config method"
            )
        return {}


def _factor(kind: str, name: str, value: Any) -> float:
    number = 0.0 if value is None else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError(f"{kind}: {name} must be a number, got {value!r}")
    if not number >= 0:  # NaN is not
        raise ValueError(f"{kind}: {name} must be 0 or more, got {value!r}")
    return float(number)


class L1(Regularizer):
    """l1 * sum(abs(x)).

    Args:
        l1: factor, 0 or more.

    Raises:
        ValueError: it is no such number.

    Example:
        >>> float(tk.regularizers.L1(0.5)(tk.constant([1.0, -2.0])))
        1.5
    """

    def __init__(self, l1: float = 0.01) -> None:
        self.l1 = _factor("L1", "l1", 0.01 if l1 is None else l1)

    def __call__(self, x: Any) -> Any:
        return self.l1 * ops.sum(ops.abs(x))

    def get_config(self) -> dict[str, Any]:
        return {"l1": self.l1}


class L2(Regularizer):
    """l2 * sum(x**2).

    Args:
        l2: factor, 0 or more.

    Raises:
        ValueError: it is no such number.

    Example:
        >>> float(tk.regularizers.L2(0.5)(tk.constant([1.0, -2.0])))
        2.5
    """

    def __init__(self, l2: float = 0.01) -> None:
        self.l2 = _factor("L2", "l2", 0.01 if l2 is None else l2)

    def __call__(self, x: Any) -> Any:
        return self.l2 * ops.sum(ops.square(x))

    def get_config(self) -> dict[str, Any]:
        return {"l2": self.l2}


class L1L2(Regularizer):
    """l1 * sum(abs(x)) + l2 * sum(x**2).

    Args:
        l1, l2: factors, 0 or more.

    Raises:
        ValueError: one is no such number.

    Example:
        >>> float(tk.regularizers.L1L2(l1=0.5, l2=0.5)(tk.constant([1.0, -2.0])))
        4.0
    """

    def __init__(self, l1: float = 0.0, l2: float = 0.0) -> None:
        self.l1 = _factor("L1L2", "l1", l1)
        self.l2 = _factor("L1L2", "l2", l2)

    def __call__(self, x: Any) -> Any:
        penalty: Any = 0.0
        if self.l1:
            penalty = self.l1 * ops.sum(ops.abs(x))
        if self.l2:
            penalty = penalty + self.l2 * ops.sum(ops.square(x))
        return convert_to_tensor(penalty)

    def get_config(self) -> dict[str, Any]:
        return {"l1": self.l1, "l2": self.l2}


class OrthogonalRegularizer(Regularizer):
    """Mean absolute cosine between the rows (or columns) of a matrix, times `factor`.

    Args:
        factor: 0 or more.
        mode: `"rows"` or `"columns"`.

    Raises:
        ValueError: the mode is neither.
        ShapeError: when called with what is no matrix.

    Example:
        >>> float(tk.regularizers.OrthogonalRegularizer(0.5)(tk.constant([[1.0, 0.0], [0.0, 1.0]])))
        0.0
    """

    def __init__(self, factor: float = 0.01, mode: str = "rows") -> None:
        self.factor = _factor("OrthogonalRegularizer", "factor", factor)
        if mode not in ("rows", "columns"):
            raise ValueError(
                f"OrthogonalRegularizer: mode must be 'rows' or 'columns', got {mode!r}"
            )
        self.mode = mode

    def __call__(self, x: Any) -> Any:
        x = convert_to_tensor(x)
        if len(x.shape) != 2:
            raise ShapeError(f"OrthogonalRegularizer takes matrices, got shape {tuple(x.shape)}")
        rows: Tensor = x if self.mode == "rows" else ops.transpose(x)
        norms = ops.sum(ops.square(rows), axis=1, keepdims=True)
        unit = rows * ops.rsqrt(ops.maximum(norms, 1e-12))
        size = int(rows.shape[0])
        cosines = (unit @ ops.transpose(unit)) * (1.0 - ops.eye(size, dtype=x.dtype))
        pairs = size * (size - 1) / 2
        return self.factor * 0.5 * ops.sum(ops.abs(cosines)) / pairs

    def get_config(self) -> dict[str, Any]:
        return {"factor": self.factor, "mode": self.mode}


orthogonal_regularizer = OrthogonalRegularizer
l1 = L1
l1_l2 = L1L2
l2 = L2

REGULARIZERS.add(OrthogonalRegularizer, "orthogonal")


@overload
def get(identifier: None) -> None: ...
@overload
def get(identifier: str | Mapping[str, Any] | type[Regularizer]) -> Regularizer: ...
@overload
def get(identifier: T) -> T: ...
def get(identifier: Any) -> Any:
    """A regularizer from its name, config, class, or itself.

    Args:
        identifier: a name, a config, a class, or what is to be given back.

    Raises:
        ValueError: nothing goes by that name.

    Example:
        >>> type(tk.regularizers.get("l2")).__name__
        'L2'
    """
    return REGULARIZERS.get(identifier)


def serialize(regularizer: Any) -> Any:
    """A regularizer as a dict that `deserialize` reads.

    Args:
        regularizer: the regularizer.

    Example:
        >>> tk.regularizers.serialize(tk.regularizers.L2(0.5))["class_name"]
        'L2'
    """
    return serialize_object(regularizer)


def deserialize(
    config: str | Mapping[str, Any], custom_objects: dict[str, Any] | None = None
) -> Regularizer:
    """The regularizer that `serialize` described.

    Args:
        config: what `serialize` gave, or a name.
        custom_objects: classes and functions by name, besides those that are registered.

    Example:
        >>> config = tk.regularizers.serialize(tk.regularizers.L2(0.5))
        >>> float(tk.regularizers.deserialize(config)(tk.constant([1.0, 1.0])))
        1.0
    """
    return REGULARIZERS.deserialize(config, custom_objects)


_explain_unknown_names(globals())
