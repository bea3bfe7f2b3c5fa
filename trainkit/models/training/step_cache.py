"""What a model's steps need of its tree of layers, looked up once for many steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit.core.trackable import gathered_lists, traverse
from trainkit.core.values.attribute_state import CHANGES
from trainkit.core.values.python_signatures import signature_of
from trainkit.layers.base import tracking
from trainkit.layers.base.layer import Layer
from trainkit.metrics import Metric


class StepCache:
    """Variables, layers and metrics of a model as they are while it is trained on batches.

    A layer that is built, frozen or thawed later, or a metric made later, is noticed. A model has a
    new one from each reset of its metrics on.
    """

    def __init__(self) -> None:
        self.variables: list[Any] | None = None
        self.known: set[int] = set()
        self.layers: list[Any] = []
        self.regularized = False
        self.metrics: list[Any] = []
        self.compiled = self.frozen = -1
        self.takes_training: bool | None = None

    def trainable(self, model: Any, read: Any) -> list[Any]:
        """The trainable variables; looked up again when `read`, those a tape saw, has new ones."""
        is_current = self.variables is not None and self.frozen == CHANGES.trainable
        if not is_current or not self.known.issuperset(map(id, read)):
            return self._look(model)
        return self.variables  # type: ignore[return-value]

    def _look(self, model: Any) -> list[Any]:
        self.frozen = CHANGES.trainable
        self.variables = trainable = model.trainable_variables
        self.known = {id(v) for v in model.variables}
        self.layers = [part for _, part in traverse(model) if isinstance(part, Layer)]
        self.regularized = any(w.regularizer is not None for w in trainable)
        return trainable

    def losses(self, model: Any) -> list[Any]:
        """The losses that layers added in the call just made, and those of regularizers."""
        if self.variables is None or self.regularized:
            return model.losses
        for layer in self.layers:
            if layer._losses_held:
                return model.losses
        return []

    def all_metrics(self, model: Any) -> list[Any]:
        """The model's metrics."""
        count = len(model._compiled_metrics)
        if count != self.compiled:
            self.metrics, self.compiled = model.metrics, count
        return self.metrics

    def look_at_loss(self, model: Any) -> bool:
        """Note whether `compute_loss`, which a subclass may have written, takes `training`."""
        self.takes_training = takes_training(model.compute_loss)
        return self.takes_training


def takes_training(function: Callable[..., Any]) -> bool:
    """Whether a function has an argument `training`, or takes any."""
    parameters = signature_of(function).parameters
    return "training" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def held_metrics(layer: Any) -> list[Any]:
    """The metrics held as attributes of a model or of a layer inside, without compiled ones."""
    lists = gathered_lists(layer)
    metrics = lists.get("held_metrics")
    if metrics is None:
        metrics, tells_changes = _gather_held_metrics(layer)
        if tells_changes:
            lists["held_metrics"] = metrics
    return metrics


def _gather_held_metrics(layer: Any) -> tuple[list[Any], bool]:
    """The same, and whether `CHANGES.parts` tells when they are others.

    A class of the user's own may have written `parts`, which gives what it likes.
    """
    tells_changes = True
    metrics: list[Any] = []
    hidden: set[int] = set()
    visited: set[int] = set()
    stack = [layer]
    # Depth first in the order of assignment, as `traverse` goes. It is not called: it makes a dict
    # of the attributes of each variable, too.
    while stack:
        part = stack.pop()
        if id(part) in visited:
            continue
        visited.add(id(part))
        hidden.update(map(id, part.__dict__.get("_compiled_metrics") or ()))
        if isinstance(part, Metric):
            metrics.append(part)
        else:
            stack.extend(reversed(tracking.parts_without_variables(part)))
            if "_parts_of" not in part.__dict__:  # of a layer its attributes are asked
                tells_changes &= type(part).parts.__module__.startswith("trainkit.")
    return [metric for metric in metrics if id(metric) not in hidden], tells_changes
