"""The metrics that `compile` was given, found by name and made for each output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from trainkit import metrics
from trainkit.core import nest
from trainkit.core.dispatch import eval_shape, trace_state
from trainkit.core.registry import snake_case
from trainkit.core.tensor import Tensor
from trainkit.core.values.python_signatures import signature_of
from trainkit.metrics.registry import METRICS
from trainkit.models.training.compile_loss import kind_by_shapes
from trainkit.models.training.outputs import Path, aligned, at, described, keys_of, paths

_BY_SHAPES = {"accuracy": "Accuracy", "crossentropy": "Crossentropy"}
_SHORT = {"acc": "accuracy", "ce": "crossentropy"}
_PREFIX = {"binary": "Binary", "sparse_categorical": "SparseCategorical"}


def metric_for(identifier: Any, y_true: Any, y_pred: Any) -> Any:
    """A metric from its name, function or itself.

    `"accuracy"` and `"crossentropy"` stand for the binary one if the last axis of `y_pred` has size
    1, for the sparse one if `y_true` holds class numbers, else for the categorical one.
    """
    if identifier is None:
        return None
    if isinstance(identifier, str):
        kind = _BY_SHAPES.get(_SHORT.get(identifier, identifier))
        if kind:
            prefix = _PREFIX.get(kind_by_shapes(y_true, y_pred), "Categorical")
            return getattr(metrics, prefix + kind)(name=identifier)
    metric = metrics.get(identifier)
    if isinstance(metric, metrics.Metric):
        if isinstance(identifier, str):
            metric.name = identifier
        return metric
    name = identifier if isinstance(identifier, str) else _name_of(metric)
    return metrics.MeanMetricWrapper(metric, name=name)


def _name_of(function: Any) -> str:
    return snake_case(getattr(function, "__name__", type(function).__name__))


def check_names(identifiers: Any, argument: str) -> None:
    """Raise for what is no metric's name, before any training; no metric is made, and none counted.

    Raises:
        ValueError: nothing goes by that name.
        TypeError: it is the name of a class that needs arguments.
    """
    for one in nest.flatten(identifiers):
        if isinstance(one, str) and _SHORT.get(one, one) not in _BY_SHAPES:
            try:
                kind = METRICS.find(one)
                if isinstance(kind, type):
                    signature_of(kind).bind()
            except ValueError as error:
                raise ValueError(f"compile({argument}=...): {error}") from None
            except TypeError as error:
                raise TypeError(f"compile({argument}=...): {one!r}: {error}") from None


class _Use(NamedTuple):
    """A metric of the output at `path`; what it is called in logs; whether weights count in it."""

    metric: Any
    path: Path
    name: str
    weighted: bool


class CompiledMetrics(metrics.Metric):
    """All metrics of `compile` as one, whose result is a dict by their names.

    Args:
        given: list of metrics; for several outputs a list with an entry for each, a dict by output
            names, or a nest as the outputs are.
        weighted: the same, for metrics that take sample weights into account.
        output_names: names of the model's outputs, if it knows them.
        added: called with each metric that is made, when the first batch comes.
    """

    _untracked = frozenset({"metrics", "added", "given", "given_weighted", "names", "_uses"})
    added: Callable[[Any], Any]
    given: Any
    given_weighted: Any
    names: list[str] | None
    metrics: list[Any]
    built: bool
    _uses: list[_Use]

    def __init__(
        self,
        given: Any,
        weighted: Any,
        output_names: list[str] | None = None,
        added: Callable[[Any], Any] = lambda metric: None,
    ) -> None:
        super().__init__(name="compile_metrics")
        check_names(given, "metrics")
        check_names(weighted, "weighted_metrics")
        self.__dict__.update(
            added=added,
            given=given,
            given_weighted=weighted,
            names=output_names,
            metrics=[],
            _uses=[],
            built=False,
        )

    def build(self, y_true: Any, y_pred: Any) -> None:
        """Make the metrics for targets and outputs like these, tensors or `Spec`s."""
        if self.built:
            return
        names = keys_of(y_pred, self.names)
        targets = aligned(y_true, y_pred, names, "targets")
        where = paths(y_pred)
        prefixes = names if len(where) > 1 and names and len(names) == len(where) else None
        uses: list[_Use] = []
        for specs, weighted in ((self.given, False), (self.given_weighted, True)):
            argument = "weighted_metrics" if weighted else "metrics"
            for i, items in enumerate(_for_outputs(specs, y_pred, names, argument)):
                for item in items:
                    metric = metric_for(item, at(targets, where[i]), at(y_pred, where[i]))
                    if metric is not None:
                        name = f"{prefixes[i]}_{metric.name}" if prefixes else metric.name
                        other = f"weighted_{metric.name}" if weighted else metric.name
                        other = f"{prefixes[i]}_{other}" if prefixes else other
                        name = _free(name, other, {use.name for use in uses})
                        uses.append(_Use(metric, where[i], name, weighted))
        new_metrics = [use.metric for use in uses]
        self.__dict__.update(_uses=uses, metrics=new_metrics, built=True)
        for metric in new_metrics:
            with eval_shape.eagerly(), trace_state.silence():  # a class may begin with other values
                metric.reset_state()
            self.added(metric)

    @property
    def variables(self) -> list[Any]:
        return [variable for metric in self.metrics for variable in metric.variables]

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take one batch into account.

        Args:
            y_true: targets, nested as the outputs are.
            y_pred: outputs.
            sample_weight: one for all outputs, or nested as they are.
        """
        if not self.built:
            self.build(y_true, y_pred)
        if not self._uses:
            return
        targets, weights = y_true, sample_weight
        if not (isinstance(y_true, Tensor) and isinstance(y_pred, Tensor)):
            targets = aligned(y_true, y_pred, keys_of(y_pred, self.names), "targets")
        if sample_weight is not None and nest.is_nested(sample_weight):
            names = keys_of(y_pred, self.names)
            weights = aligned(sample_weight, y_pred, names, "sample weights")
        for metric, path, _, weighted in self._uses:
            target, output, weight = targets, y_pred, weights if weighted else None
            if path:
                target, output = at(targets, path), at(y_pred, path)
                weight = at(weight, path) if nest.is_nested(weight) else weight
            if weight is None:
                metric.update_state(target, output)
            else:
                metric.update_state(target, output, sample_weight=weight)

    def result(self) -> dict[str, Any]:
        """The results by name; a metric whose result is a dict adds that."""
        results: dict[str, Any] = {}
        for metric, _, name, _ in self._uses:
            value = metric.result()
            results.update(value if isinstance(value, dict) else {name: value})
        return results

    def reset_state(self) -> None:
        for metric in self.metrics:
            metric.reset_state()


def _free(name: str, other: str, used_names: set[str]) -> str:
    """`name`, else `other`, else `name` with a number."""
    count = 1
    candidate = other if name in used_names else name
    while candidate in used_names:
        candidate, count = f"{name}_{count}", count + 1
    return candidate


def _list(items: Any) -> list[Any]:
    return [] if items is None else nest.flatten(items)


def _for_outputs(
    specs: Any, y_pred: Any, names: list[str] | None, argument: str
) -> list[list[Any]]:
    """A list of metrics for each output."""
    where = paths(y_pred)
    if not specs:
        return [[] for _ in where]
    if len(where) == 1:
        return [nest.flatten(specs)]
    flat = nest.is_nested(y_pred) and len(y_pred) == len(where)
    if flat and isinstance(specs, list | tuple) and len(specs) == len(where):
        return [_list(items) for items in specs]
    if flat and isinstance(specs, dict) and names and set(specs) <= set(names):
        return [_list(specs.get(name)) for name in names]
    by_path: dict[Path, list[Any]] = {path: [] for path in where}
    try:
        _spread(specs, y_pred, (), by_path)
    except LookupError:
        named = f" ({', '.join(names)})" if names else ""
        raise ValueError(
            f"{argument} for a model of {len(where)} outputs{named} must be a list with an entry "
            f"for each, a dict by output names, or nested as the outputs are, {described(y_pred)}; "
            f"got {specs!r}"
        ) from None
    return list(by_path.values())


def _spread(specs: Any, y_pred: Any, path: Path, by_path: dict[Path, list[Any]]) -> None:
    if specs is None:
        return
    if not nest.is_nested(y_pred):
        by_path[path] = nest.flatten(specs)
    elif isinstance(y_pred, dict):
        if not isinstance(specs, dict) or not set(specs) <= set(y_pred):
            raise LookupError
        for key, items in specs.items():
            _spread(items, y_pred[key], (*path, key), by_path)
    else:
        if not isinstance(specs, list | tuple) or len(specs) != len(y_pred):
            raise LookupError
        for i, items in enumerate(specs):
            _spread(items, y_pred[i], (*path, i), by_path)
