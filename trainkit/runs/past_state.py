"""`PastState`: what a step of a run found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trainkit.callbacks.callback import numbers
from trainkit.callbacks.nan_report import Snapshot
from trainkit.core.errors import FailedPreconditionError
from trainkit.journal.state_digests import PARTS, StateDigests, batch_digest
from trainkit.ops.sampling.generators import global_generator


class PastState:
    """A run as a step found it: everything as it was just before, and the batch it was given.

    Objects are new ones, which may be changed at will.

    Attributes:
        step: the number of the step.
        model: the model with its optimizer and metrics, for a run of `fit`; else `None`.
        parts: the objects of a loop of one's own, by name.
        batch: what the step was given; a list where several steps make one execution, `None` after
            the last step.
        verified: whether the journal has digests of this moment, and they are the same.
    """

    def __init__(self, step: int, owner: Any, batches: list[Any], random: Any) -> None:
        self.step = step
        own_loop = hasattr(owner, "parts") and hasattr(owner, "end_step")
        self.model = None if own_loop else owner
        self.parts: dict[str, Any] = owner.parts if own_loop else {"model": owner}
        self.batches = batches
        self.batch = batches[0] if len(batches) == 1 else batches or None
        self.verified = False
        self._random = random

    @property
    def optimizer(self) -> Any:
        """The optimizer: of the model, or the part of that name."""
        return self.parts.get("optimizer") if self.model is None else self.model.optimizer

    @contextmanager
    def _own_random(self) -> Iterator[None]:
        """A context in which the process draws the random numbers of the run."""
        state = global_generator().state
        before = state.value()
        state.assign(self._random)
        try:
            yield
        finally:
            self._random = state.value()
            state.assign(before)

    def _require_model(self, method: str) -> Any:
        if self.model is None:
            raise FailedPreconditionError(
                f"PastState.{method}: the step of a loop of one's own is in its program; its "
                "objects are in `parts`, what it was given in `batch`"
            )
        return self.model

    def digests(self) -> dict[str, str]:
        """The digests of `weights`, `slots`, `random` and `batch`, as the journal has them."""
        roots = {name: part for name, part in self.parts.items() if hasattr(part, "__dict__")}
        with self._own_random():
            state = StateDigests({**roots, "random": global_generator()})
            digests = {part: state.digest(part) for part in PARTS}
        return digests | ({"batch": batch_digest(self.batches)} if self.batches else {})

    def leaves(self) -> dict[str, str]:
        """The digest of each variable by its path."""
        with self._own_random():
            return StateDigests({**self.parts, "random": global_generator()}).leaves()

    def gradients(self) -> dict[str, Any]:
        """The gradients that the optimizer is given in this step, by the path of the weight.

        The state stays as it is.

        Raises:
            FailedPreconditionError: the run is of a loop of one's own.
        """
        model = self._require_model("gradients")
        optimizer = model.optimizer
        while hasattr(optimizer, "inner_optimizer"):
            optimizer = optimizer.inner_optimizer
        pairs: list[tuple[Any, Any]] = []

        def keep(grads: Any, weights: Any) -> None:
            pairs.extend(zip(weights, grads, strict=True))

        with self._own_random():
            before = Snapshot(model, global_generator(), others=optimizer.variables)
            optimizer.__dict__["_step"] = keep
            try:
                model.train_step(self.batches[0])
            finally:
                optimizer.__dict__.pop("_step", None)
                before.put_back()
        return {weight.path: gradient for weight, gradient in pairs}

    def train_step(self) -> dict[str, float]:
        """Do the step, operation by operation: the model is then as the next step found it.

        Returns:
            The logs.

        Raises:
            FailedPreconditionError: the run is of a loop of one's own.
        """
        model, logs = self._require_model("train_step"), {}
        with self._own_random():
            for batch in self.batches:
                logs = model.train_step(batch)
        self.step += len(self.batches)
        return numbers(logs)
