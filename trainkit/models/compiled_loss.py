"""The loss that `compile` was given, for one output or for each of several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit import losses
from trainkit.core import nest
from trainkit.core.registry import snake_case
from trainkit.core.tensor import Tensor
from trainkit.metrics import Mean


def listed(value: Any, names: list[str], what: str) -> list[Any]:
    """One item for each output, from a list or a dict by output names.

    Raises:
        ValueError: the dict names an output that there is not, or the list has another length.
    """
    if isinstance(value, dict):
        unknown = [key for key in value if key not in names]
        if unknown:
            raise ValueError(
                f"{what} names the output {unknown[0]!r}; the model's outputs are "
                f"{', '.join(names)}"
            )
        return [value.get(name) for name in names]
    items = list(value)
    if len(items) != len(names):
        raise ValueError(
            f"{what} has {len(items)} entries, the model has {len(names)} outputs: "
            f"{', '.join(names)}"
        )
    return items


def output_names(y_pred: Any, known: list[str] | None) -> list[str]:
    """A name for each output of a model: those it knows, the keys of a dict, or numbers."""
    if known is not None:
        return known
    if isinstance(y_pred, dict):
        return [str(key) for key in nest.sorted_keys(y_pred)]
    count = len(nest.flatten(y_pred))
    return [f"output_{i}" for i in range(count)]


def per_output(value: Any, names: list[str], what: str) -> list[Any]:
    """Targets or sample weights for each output; one array alone serves all outputs."""
    if value is None:
        return [None] * len(names)
    if isinstance(value, dict):
        return listed(value, names, what)
    if isinstance(value, list | tuple) and len(value) == len(names):
        return list(value)
    flat = nest.flatten(value)
    if len(flat) == 1:
        return flat * len(names)
    return listed(flat, names, what)


class CompiledLoss:
    """One number from all targets and outputs.

    Args:
        loss: name, function, `Loss`, or a list or dict of these for several outputs.
        weights: what each output's loss is multiplied by, a list or a dict; one number for one
            output.
        output_names: names of the model's outputs, if it knows them.
        added: called with each metric that is made, one for the loss of each of several outputs.

    Raises:
        ValueError: a name is that of no loss, when the first batch comes.
    """

    def __init__(
        self,
        loss: Any,
        weights: Any = None,
        output_names: list[str] | None = None,
        added: Callable[[Any], Any] = lambda metric: None,
    ) -> None:
        self.given, self.weights, self.names, self.added = loss, weights, output_names, added
        self.trackers: list[Any] = []
        self._functions: list[Any] | None = None
        self._factors: list[float] = []
        for one in nest.flatten(loss):
            losses.get(one)  # an unknown name is an error now

    def build(self, y_pred: Any) -> list[Callable[..., Any] | None]:
        """Make the losses for outputs like `y_pred`, tensors or `Spec`s."""
        if self._functions is not None:
            return self._functions
        names = output_names(y_pred, self.names)
        if isinstance(self.given, dict | list | tuple):
            given = listed(self.given, names, "loss")
        else:
            given = [self.given] * len(names)
        functions = [_as_loss(item) for item in given]
        self.names = names
        if len(names) > 1:
            used = [n for n, f in zip(names, functions, strict=True) if f is not None]
            self.trackers = [Mean(name=f"{name}_loss") for name in used]
            for tracker in self.trackers:
                self.added(tracker)
        self._factors = self._given_factors(names)
        self._functions = functions
        return functions

    def _given_factors(self, names: list[str]) -> list[float]:
        if self.weights is None:
            return [1.0] * len(names)
        if isinstance(self.weights, int | float):
            return [float(self.weights)] * len(names)
        given = listed(self.weights, names, "loss_weights")
        return [1.0 if w is None else float(w) for w in given]

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """The weighted sum of the losses of all outputs, a scalar tensor."""
        functions = self._functions or self.build(y_pred)
        if len(functions) == 1 and functions[0] is not None and type(y_pred) is Tensor:
            if type(y_true) in (list, tuple, dict):
                (y_true,) = nest.flatten(y_true)
            value = functions[0](y_true, y_pred, sample_weight)
            factor = self._factors[0]
            return value if factor == 1.0 else value * factor
        return self._several(functions, y_true, y_pred, sample_weight)

    def _several(self, functions: list[Any], y_true: Any, y_pred: Any, sample_weight: Any) -> Any:
        assert self.names is not None
        outputs = nest.flatten(y_pred)
        targets = per_output(y_true, self.names, "the targets")
        weights = per_output(sample_weight, self.names, "sample_weight")
        trackers = iter(self.trackers)
        total = None
        for i, function in enumerate(functions):
            if function is None:
                continue
            value = function(targets[i], outputs[i], weights[i])
            if self.trackers:
                next(trackers).update_state(value, sample_weight=int(outputs[i].shape[0] or 1))
            value = value * self._factors[i]
            total = value if total is None else total + value
        return total


def _as_loss(item: Any) -> Callable[..., Any] | None:
    """A loss with `(y_true, y_pred, sample_weight)` that gives a scalar."""
    found = losses.get(item)
    if found is None or isinstance(found, losses.Loss):
        return found
    name = getattr(found, "__name__", snake_case(type(found).__name__))
    return losses.LossFunctionWrapper(found, name=name)
