"""The metrics that `compile` was given, found by name and made for each output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit import metrics, ops
from trainkit.core import masks, nest
from trainkit.core.registry import snake_case
from trainkit.models.compiled_loss import listed, output_names, per_output

_BY_SHAPES = {
    "accuracy": ("BinaryAccuracy", "SparseCategoricalAccuracy", "CategoricalAccuracy"),
    "crossentropy": (
        "BinaryCrossentropy",
        "SparseCategoricalCrossentropy",
        "CategoricalCrossentropy",
    ),
}
_SHORT = {"acc": "accuracy", "ce": "crossentropy"}


def metric_for(identifier: Any, y_true: Any, y_pred: Any) -> Any:
    """A metric from its name, function or itself.

    `"accuracy"` and `"crossentropy"` stand for the binary one if the last axis of `y_pred` has size
    1, for the sparse one if `y_true` holds class numbers, else for the categorical one.
    """
    if identifier is None:
        return None
    kinds = _BY_SHAPES.get(_SHORT.get(str(identifier), str(identifier)))
    if isinstance(identifier, str) and kinds:
        return getattr(metrics, kinds[_kind(y_true, y_pred)])(name=identifier)
    found = metrics.get(identifier)
    if isinstance(found, metrics.Metric):
        if isinstance(identifier, str):
            found.name = identifier
        return found
    name = identifier if isinstance(identifier, str) else _name_of(found)
    return metrics.MeanMetricWrapper(found, name=name)


def _name_of(function: Any) -> str:
    return getattr(function, "__name__", snake_case(type(function).__name__))


def _kind(y_true: Any, y_pred: Any) -> int:
    truth, guess = tuple(y_true.shape), tuple(y_pred.shape)
    if not guess or guess[-1] == 1 or len(guess) < 2:
        return 0
    return 1 if len(truth) < len(guess) or truth[-1] == 1 else 2


def check_names(given: Any, what: str) -> None:
    """Raise `ValueError` for a name that is no metric's, before any training."""
    for one in nest.flatten(given):
        if isinstance(one, str) and _SHORT.get(one, one) not in _BY_SHAPES:
            try:
                metrics.get(one)
            except ValueError as error:
                raise ValueError(f"compile({what}=...): {error}") from None


def masked_weight(y_pred: Any, weight: Any) -> Any:
    """`weight`, 0 where the mask of `y_pred` says that a value does not count."""
    mask = masks.mask_of(y_pred)
    if mask is None:
        return weight
    kept = ops.cast(mask, "float32")
    if weight is None:
        return kept
    weight = ops.cast(weight, "float32")
    while len(weight.shape) < len(kept.shape):
        weight = ops.expand_dims(weight, -1)
    return kept * weight


class CompiledMetrics:
    """All metrics of `compile`.

    Args:
        given: list of metrics; for several outputs a list of lists, or a dict by output names.
        weighted: the same, for metrics that take sample weights into account.
        output_names: names of the model's outputs, if it knows them.
        added: called with each metric that is made, when the first batch comes.
    """

    def __init__(
        self,
        given: Any,
        weighted: Any,
        output_names: list[str] | None = None,
        added: Callable[[Any], Any] = lambda metric: None,
    ) -> None:
        self.added = added
        check_names(given, "metrics")
        check_names(weighted, "weighted_metrics")
        self.given, self.given_weighted, self.names = given, weighted, output_names
        self.built = False
        self.metrics: list[Any] = []
        # (metric, number of the output, whether it takes sample weights)
        self._uses: list[tuple[Any, int, bool]] = []

    def build(self, y_true: Any, y_pred: Any) -> None:
        """Make the metrics for targets and outputs like these, tensors or `Spec`s."""
        if self.built:
            return
        names = output_names(y_pred, self.names)
        outputs = nest.flatten(y_pred)
        targets = per_output(y_true, names, "the targets")
        for given, weighted in ((self.given, False), (self.given_weighted, True)):
            what = "weighted_metrics" if weighted else "metrics"
            for i, items in enumerate(_per_output(given, names, what)):
                for item in items:
                    metric = metric_for(item, targets[i], outputs[i])
                    if metric is not None:
                        self._add(metric, i, weighted, names)
        self.names, self.built = names, True

    def _add(self, metric: Any, output: int, weighted: bool, names: list[str]) -> None:
        if len(names) > 1:
            metric.name = f"{names[output]}_{metric.name}"
        taken = [m.name for m in self.metrics]
        name, count = metric.name, 1
        while name in taken:
            name, count = f"{metric.name}_{count}", count + 1
        metric.name = name
        self.metrics.append(metric)
        self._uses.append((metric, output, weighted))
        self.added(metric)

    def update(self, y_true: Any, y_pred: Any, sample_weight: Any) -> None:
        """Take one batch into account."""
        if not self.built:
            self.build(y_true, y_pred)
        uses = self._uses
        if not uses:
            return
        assert self.names is not None
        outputs = nest.flatten(y_pred)
        targets = per_output(y_true, self.names, "the targets")
        weights = per_output(sample_weight, self.names, "sample_weight")
        for metric, i, weighted in uses:
            weight = weights[i] if weighted else None
            if masks.HELD:
                weight = masked_weight(outputs[i], weight)
            if weight is None:
                metric.update_state(targets[i], outputs[i])
            else:
                metric.update_state(targets[i], outputs[i], sample_weight=weight)


def _per_output(given: Any, names: list[str], what: str) -> list[list[Any]]:
    """A list of metrics for each output."""
    if not given:
        return [[] for _ in names]
    if len(names) == 1:
        return [nest.flatten(given)]
    if isinstance(given, list | tuple) and not any(isinstance(g, list | tuple) for g in given):
        if len(given) != len(names):
            raise ValueError(
                f"{what} for a model of {len(names)} outputs ({', '.join(names)}) must be a list "
                f"with an entry "
                f"for each, or a dict by output names; got {given!r}"
            )
    return [nest.flatten(item) if item is not None else [] for item in listed(given, names, what)]
