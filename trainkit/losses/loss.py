"""`Loss`: one value per sample, then weights, masks, and the reduction to one number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from trainkit import ops
from trainkit.core import dtypes
from trainkit.core.registry import FAMILIES, serialize_object, snake_case
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.losses.alignment import weights_like

REDUCTIONS = ("sum_over_batch_size", "mean", "sum", "mean_with_sample_weight", "none")


def checked_reduction(value: str | None) -> str | None:
    """`value`, when it is a reduction.

    Raises:
        ValueError: it is none of `REDUCTIONS` or `None`.
    """
    if value is not None and value not in REDUCTIONS:
        raise ValueError(f"reduction must be one of {', '.join(REDUCTIONS)} or None, got {value!r}")
    return value


class Loss:
    """Base of losses. A subclass gives `call(y_true, y_pred)`: one value per sample.

    The result of calling a loss is, by `reduction`: `"sum_over_batch_size"` or `"mean"`, the sum of
    all weighted values divided by their number; `"sum"`; `"mean_with_sample_weight"`, the sum
    divided by the sum of the weights; `"none"` or `None`, the weighted values.

    Args:
        name: what the loss is called; by default its class name.
        reduction: see above.
        dtype: dtype that predictions are cast to; the default float type by default.

    Raises:
        ValueError: `reduction` is none of these.
    """

    def __init__(
        self,
        name: str | None = None,
        reduction: str | None = "sum_over_batch_size",
        dtype: Any = None,
    ) -> None:
        self.name = name or snake_case(type(self).__name__)
        self.reduction = checked_reduction(reduction)
        self._dtype = (
            None if dtype is None else dtypes.as_dtype(getattr(dtype, "compute_dtype", dtype))
        )

    @property
    def dtype(self) -> str:
        """Name of the dtype that predictions are cast to."""
        return dtypes.floatx() if self._dtype is None else self._dtype.name

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """One value per sample.

        Args:
            y_true: targets; as the subclass says.
            y_pred: predictions, a float tensor.
        """
        raise NotImplementedError(f"{type(self).__name__} has no call(y_true, y_pred)")

    def masked_call(self, y_true: Tensor, y_pred: Tensor) -> tuple[Tensor, Tensor | None]:
        """(values, mask): where the mask is False a value does not count. By default all count."""
        return self.call(y_true, y_pred), None

    def __call__(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None, mask: Any = None
    ) -> Tensor:
        """The loss of a batch.

        Args:
            y_true: targets, (batch, ...).
            y_pred: predictions, (batch, ...).
            sample_weight: one weight per sample, (batch,), or per value; all 1 by default.
            mask: bools like the values; where False a value does not count.

        Returns:
            A scalar, or with `reduction="none"` one value per sample.

        Raises:
            ShapeError: targets, predictions or weights do not fit each other.
        """
        y_pred = self._as_floats(y_pred)
        y_true = y_true if isinstance(y_true, Tensor) else convert_to_tensor(y_true)
        if y_true.dtype.is_floating and y_true.dtype is not y_pred.dtype:
            y_true = ops.cast(y_true, y_pred.dtype)
        values, own_mask = self.masked_call(y_true, y_pred)
        if own_mask is not None:
            mask = own_mask if mask is None else ops.logical_and(own_mask, ops.cast(mask, "bool"))
        if sample_weight is None and mask is None:
            return reduced(values, self.reduction, None)
        return reduce_weighted(self.name, values, self.reduction, sample_weight, mask)

    def _as_floats(self, y_pred: Any) -> Tensor:
        y_pred = y_pred if isinstance(y_pred, Tensor) else convert_to_tensor(y_pred)
        wanted = self.dtype
        return y_pred if y_pred.dtype.name == wanted else ops.cast(y_pred, wanted)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments as plain data."""
        dtype = None if self._dtype is None else self._dtype.name
        return {"name": self.name, "reduction": self.reduction, "dtype": dtype}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """A new loss from what `get_config` gave."""
        return cls(**config)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}, reduction={self.reduction!r}>"


def reduced(values: Tensor, reduction: str | None, weights: Tensor | None) -> Tensor:
    """`values`, weighted already, as one number; `weights` for "mean_with_sample_weight"."""
    if reduction is None or reduction == "none":
        return values
    if reduction == "sum":
        return ops.sum(values) if len(values.shape) else values
    if reduction == "mean_with_sample_weight" and weights is not None:
        total = ops.sum(ops.broadcast_to(weights, values.shape))
        return ops.divide_no_nan(ops.sum(values), total)
    return ops.mean(values) if len(values.shape) else values


def reduce_weighted(
    name: str, values: Tensor, reduction: str | None, sample_weight: Any, mask: Any
) -> Tensor:
    """Weigh and reduce values.

    Where `mask` is False a value counts nothing; a mean is over the values that count.
    """
    weights = None if sample_weight is None else ops.cast(sample_weight, values.dtype)
    if mask is not None:
        counts = ops.cast(mask, values.dtype)
        if reduction in ("mean", "sum_over_batch_size"):
            share = ops.divide_no_nan(ops.sum(ops.ones_like(counts)), ops.sum(counts))
            counts = counts * share
        if weights is None:
            weights = counts
        else:
            counts, weights = weights_like(name, counts, weights)
            weights = counts * weights
    if weights is None:
        return reduced(values, reduction, None)
    values, weights = weights_like(name, values, weights)
    return reduced(values * weights, reduction, weights)


class LossFunctionWrapper(Loss):
    """A loss made of a function of targets and predictions that gives one value per sample.

    Args:
        fn: `fn(y_true, y_pred, **settings)`.
        reduction, name, dtype: see `Loss`.
        **settings: handed to `fn`.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        reduction: str | None = "sum_over_batch_size",
        name: str | None = None,
        dtype: Any = None,
        **settings: Any,
    ) -> None:
        super().__init__(name or getattr(fn, "__name__", None), reduction, dtype)
        self.fn = fn
        self.fn_settings = settings

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        values: Tensor = self.fn(y_true, y_pred, **self.fn_settings)
        return values

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if type(self) is LossFunctionWrapper:
            config["fn"] = serialize_object(self.fn)
        return config | self.fn_settings

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        config = dict(config)
        fn = config.get("fn")
        if fn is not None and not callable(fn):
            family = FAMILIES["losses"]
            config["fn"] = family.find(fn) if isinstance(fn, str) else family.deserialize(fn)
        return cls(**config)
