"""Metrics that are sums and means: the bases of most others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from trainkit import ops
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.trace_state import THREAD
from trainkit.core.errors import ShapeError
from trainkit.core.masks import HELD, mask_of
from trainkit.core.registry import FAMILIES, serialize_object
from trainkit.core.tensor import Tensor, convert_to_tensor, wrap
from trainkit.core.values.type_aliases import DTypeLike
from trainkit.core.variable import writable_arrays
from trainkit.losses.alignment import same_rank, weights_like
from trainkit.metrics.metric import Metric, add_to, unrecorded
from trainkit.ops.collective.global_rows import REPLICAS, of_whole_batch, weight_in_replica

_ON_CPU = (np.ndarray, np.generic)


def _check_weights(name: str, values: Any, weights: Any) -> None:
    a, b = tuple(weights.shape), tuple(values.shape)
    pairs = zip(a, b, strict=False)
    if len(a) > len(b) or not all(1 in (m, n) or None in (m, n) or m == n for m, n in pairs):
        raise ShapeError(
            f"{name}: sample_weight does not fit the values.\n  values         {b}\n"
            f"  sample_weight  {a}\nGive one weight per sample, shape (batch,), or one per value."
        )


def weighted_samples(
    name: str, values: Any, sample_weight: Any, dtype: str, reduce: Callable[..., Any] = ops.mean
) -> tuple[Any, Any]:
    """(value per sample times its weight, weight per sample or `None`).

    The axes behind the first are reduced, weighted where the weights have these axes. As in Keras a
    mask that the values carry counts beside weights alone.

    Raises:
        ShapeError: the weights do not fit.
    """
    mask = None if sample_weight is None else mask_of(values)
    values = ops.cast(values, dtype)
    if mask is not None:
        sample_weight = masked_weights(name, sample_weight, mask, dtype)
    if sample_weight is None:
        rank = len(values.shape)
        return (reduce(values, axis=tuple(range(1, rank))) if rank > 1 else values), None
    weights = ops.cast(sample_weight, dtype)
    values, weights = same_rank(values, weights)
    _check_weights(name, values, weights)
    rank = len(weights.shape)
    if len(values.shape) > rank:
        values = reduce(values, axis=tuple(range(rank, len(values.shape))))
    weights = ops.broadcast_to(weights, values.shape) + ops.zeros_like(values)
    values = values * weights
    if rank > 1:
        behind = tuple(range(1, rank))
        return reduce(values, axis=behind), reduce(weights, axis=behind)
    return values, weights


class Sum(Metric):
    """The weighted sum of all values.

    Example:
        >>> metric = tk.metrics.Sum()
        >>> metric.update_state([1.0, 2.0])
        >>> metric.update_state(4.0)
        >>> float(metric.result())
        7.0
    """

    def __init__(self, name: str | None = "sum", dtype: DTypeLike | None = None) -> None:
        super().__init__(dtype, name)
        self.total = self.add_variable(dtype=self._dtype, name="total")

    @unrecorded
    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        """Add values, of any shape, with weights (batch,) or of the values' shape."""
        values, _ = weighted_samples(self.name, values, sample_weight, self._dtype, ops.sum)
        add_to(self.total, ops.sum(values) if len(values.shape) else values)

    def result(self) -> Tensor:
        return self.total.value()


class Mean(Metric):
    """The weighted mean of all values.

    Args:
        name: what the metric is called.
        dtype: dtype of state and result.

    >>> m = Mean("loss")
    >>> float(m(0)), float(m([5, 10]))
    (0.0, 5.0)
    """

    def __init__(self, name: str | None = "mean", dtype: DTypeLike | None = None) -> None:
        super().__init__(dtype, name)
        self.total = self.add_variable(dtype=self._dtype, name="total")
        self.count = self.add_variable(dtype=self._dtype, name="count")

    @unrecorded
    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        """Add values, of any shape, with weights (batch,) or of the values' shape."""
        if not THREAD.traces and _is_scalar(values):
            if sample_weight is None:
                add_to(self.total, values)
                add_to(self.count, 1)
                return
            if type(sample_weight) is int and type(values) is Tensor and not HELD:
                if isinstance(values._array, _ON_CPU):
                    self._add_weighted(values._array, sample_weight)
                    return
        self._add(values, sample_weight)

    def _add_weighted(self, value: Any, weight: int) -> None:
        """One number, such as the loss of a batch of so many samples, with the bits of `_add`."""
        real = self.total._value._array.dtype.type
        total, count = writable_arrays((self.total, self.count))
        total += real(value) * real(weight)
        count += real(weight)

    def _add(self, values: Any, sample_weight: Any) -> None:
        if sample_weight is None and type(values) is Tensor and values._array.ndim == 1:
            if values._array.dtype == self.total._value._array.dtype and not THREAD.traces:
                add_to(self.total, ops.sum(values))
                add_to(self.count, values._array.size)
                return
        values, weights = weighted_samples(self.name, values, sample_weight, self._dtype)
        shape = values.shape
        add_to(self.total, ops.sum(values) if len(shape) else values)
        if weights is not None:
            add_to(self.count, ops.sum(weights))
        elif len(shape) and shape[0] is None:
            add_to(self.count, ops.sum(ops.ones_like(values)))
        else:
            add_to(self.count, shape[0] if len(shape) else 1)

    def result(self) -> Tensor:
        if THREAD.traces:
            with trace_state.silence():
                mean: Tensor = ops.divide_no_nan(self.total.value(), self.count.value())
            return mean
        total, count = self.total._value._array, self.count._value._array
        return wrap(total / count) if count else wrap(np.zeros_like(total)[()])


def _is_scalar(values: Any) -> bool:
    kind = type(values)
    if kind is Tensor:
        return not values._array.shape and values._array.dtype.kind in "fiu"
    return kind is float or kind is int


class MeanScore(Mean):
    """The mean of a score of each sample; a subclass gives `score(y_true, y_pred)`.

    Args:
        name: what the metric is called; by default its class name in snake case.

    Example:
        >>> metric = tk.metrics.MeanSquaredError()
        >>> isinstance(metric, tk.metrics.MeanScore)
        True
    """

    def __init__(self, name: str | None = None, dtype: DTypeLike | None = None) -> None:
        super().__init__(name, dtype)

    def score(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """One value per sample, or per element; axes behind the first are averaged."""
        raise NotImplementedError(f"{type(self).__name__} has no score(y_true, y_pred)")

    @unrecorded
    def update_state(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None, mask: Any = None
    ) -> None:
        """Add a batch.

        Args:
            y_true: targets, (batch, ...).
            y_pred: predictions, (batch, ...). Where the mask of such a tensor, as `Masking` and
                `Embedding` make it, is False a score does not count.
            sample_weight: one weight per sample, (batch,), or per score.
            mask: bools like the scores, in place of the mask of `y_pred`.

        Raises:
            ShapeError: the shapes do not fit.
        """
        y_true = y_true if isinstance(y_true, Tensor) else convert_to_tensor(y_true)
        y_pred = y_pred if isinstance(y_pred, Tensor) else convert_to_tensor(y_pred)
        if mask is None:
            mask = mask_of(y_pred)
        if mask is not None:
            sample_weight = masked_weights(self.name, sample_weight, mask, self._dtype)
        if not REPLICAS:
            self._add(self.score(y_true, y_pred), sample_weight)
            return
        scores, of_all = of_whole_batch(self.score, y_true, y_pred, self.name)
        if of_all and sample_weight is None:  # all replicas have the same number
            scores, sample_weight = ops.mean(scores), weight_in_replica()
        self._add(scores, sample_weight)


def masked_weights(name: str, sample_weight: Any, mask: Any, dtype: str) -> Any:
    """Weights that are 0 where `mask` is False."""
    counts = ops.cast(mask, dtype)
    if sample_weight is None:
        return counts
    counts, weights = weights_like(name, counts, ops.cast(sample_weight, dtype))
    return counts * weights


class _Settings:
    """Keyword arguments; kept out of the tree of parts."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values


class MeanMetricWrapper(MeanScore):
    """The mean of a function of targets and predictions that gives one value per sample.

    Args:
        fn: `fn(y_true, y_pred, **settings)`.
        name: what the metric is called; by default the class's name, as in Keras.
        **settings: handed to `fn`.

    Example:
        >>> metric = tk.metrics.MeanMetricWrapper(lambda y, guess: abs(y - guess), name="gap")
        >>> metric.update_state([1.0, 2.0], [1.0, 4.0])
        >>> float(metric.result())
        1.0
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        name: str | None = None,
        dtype: DTypeLike | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(name, dtype)
        self._fn = fn
        self._settings = _Settings(settings)
        for setting, value in settings.items():  # such as `from_logits`, to be read
            if not hasattr(self, setting):
                setattr(self, setting, value)

    def _wrap(self, fn: Callable[..., Any], arguments: dict[str, Any]) -> None:
        """Be made of `fn` and the `locals()` of `__init__`, those of its own as settings."""
        named = {name: value for name, value in arguments.items() if name != "self"}
        named["name"] = named["name"] or fn.__name__
        MeanMetricWrapper.__init__(self, fn, **named)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        settings = self.__dict__.get("_settings")
        if settings is not None and name in settings.values:
            settings.values[name] = self.__dict__[name]

    def score(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        scores: Tensor = self._fn(y_true, y_pred, **self._settings.values)
        return scores

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if type(self) is MeanMetricWrapper:
            config["fn"] = serialize_object(self._fn)
        return config | self._settings.values

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        config = dict(config)
        fn = config.get("fn")
        if fn is not None and not callable(fn):
            config["fn"] = _function_from(fn)
        return cls(**config)


def _function_from(fn: Any) -> Any:
    """A function of the metrics or the losses from its name or config; no class of that name.

    Raises:
        ValueError: there is none.
    """
    for plural in ("metric_functions", "losses"):
        family = FAMILIES[plural]
        try:
            function = family.find(fn) if isinstance(fn, str) else family.deserialize(fn)
        except ValueError:
            continue
        if not isinstance(function, type):
            return function
    raise ValueError(f"{fn!r} is no function of targets and predictions that is known")


class FunctionMean(MeanMetricWrapper):
    """The mean of one function, that of the class, which takes no settings.

    Args:
        name: what the metric is called; by default the function's name.
        dtype: dtype of state and result.
    """

    function: ClassVar[Callable[..., Any]]

    def __init__(self, name: str | None = None, dtype: DTypeLike | None = None) -> None:
        function = type(self).function
        super().__init__(function, name or function.__name__, dtype)
