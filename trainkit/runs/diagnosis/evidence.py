"""`Evidence`: what a run has to say for itself: losses, stored data, past states."""

from __future__ import annotations

import bisect
import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trainkit.core import nest
from trainkit.core.errors import CheckpointError, FailedPreconditionError
from trainkit.journal.state_digests import array_of
from trainkit.runs.past_state import PastState
from trainkit.runs.run_programs import ReplayError, stored_arrays

if TYPE_CHECKING:
    from trainkit.runs.journaled_run import JournaledRun

_MOST_CLASSES = 1000
_CLASS_LOSSES = ("crossentropy", "hinge", "focal")


class Samples(NamedTuple):
    """Rows of data.

    Attributes:
        inputs: the nest that the model is given.
        targets: the other one.
        leaves: the numeric arrays of the inputs.
        labels: the class of each row, `None` where there are none.
    """

    inputs: Any
    targets: Any
    leaves: list[np.ndarray]
    labels: np.ndarray | None

    @property
    def rows(self) -> int:
        """How many rows."""
        return len(self.leaves[0])

    def thinned(self, count: int) -> Samples:
        """At most so many rows, which are equally far apart."""
        return self._cut(slice(None, None, max(-(-self.rows // count), 1)))

    def first(self, count: int) -> Samples:
        """The first rows, at most so many."""
        return self._cut(slice(count))

    def _cut(self, rows: slice) -> Samples:
        def cut(array: Any) -> Any:
            return None if array is None else array[rows]

        return Samples(
            nest.map_structure(cut, self.inputs),
            nest.map_structure(cut, self.targets),
            [leaf[rows] for leaf in self.leaves],
            cut(self.labels),
        )


class Evidence:
    """What is known of a run, read when it is asked for.

    Args:
        run: it.
        seconds: how long steps may be done again, by the times that the journal has; 0 for none.

    Attributes:
        steps: numbers of the steps with a loss.
        losses: theirs, as many.
        unknown: what could not be looked at, and what it takes.
    """

    def __init__(self, run: JournaledRun, seconds: float) -> None:
        self.run, self._seconds = run, seconds
        listed = [(step.step, step.loss) for step in run.steps if step.loss is not None]
        self.steps = np.array([step for step, _ in listed], np.int64)
        self.losses = np.array([loss for _, loss in listed], np.float64)
        self.unknown: list[str] = []
        self._refused = False
        self._differing = 0

    def command(self, step: int) -> str:
        """The command that shows the state before a step."""
        return f"python -m trainkit runs rewind {self.run.folder} --to {step}"

    def lack(self, line: str) -> None:
        """Note what could not be looked at."""
        if line not in self.unknown:
            self.unknown.append(line)

    def header_part(self, name: str) -> dict[str, Any]:
        """A field of the header that is a dict; an empty one where it is something else."""
        value = self.run.header.get(name)
        return value if isinstance(value, dict) else {}

    # ------------------------------------------------------------------ data

    @functools.cached_property
    def training(self) -> Samples | None:
        """The data that `fit` was given, where it is stored."""
        data = self.run.data
        if isinstance(data, tuple):
            return self._samples(*(*data, None, None)[:2])
        return self._stored("data")

    @functools.cached_property
    def validation(self) -> Samples | None:
        """The data of the validation, where it is stored."""
        return self._stored("validation")

    def _stored(self, name: str) -> Samples | None:
        try:
            arrays = stored_arrays(self.run, name)
        except CheckpointError as error:
            self.lack(str(error).splitlines()[0])
            return None
        return None if arrays is None else self._samples(arrays[0], arrays[1])

    def _samples(self, inputs: Any, targets: Any) -> Samples | None:
        arrays = [array_of(leaf) for leaf in nest.flatten(inputs) if leaf is not None]
        leaves = [leaf for leaf in arrays if leaf.ndim and leaf.dtype.kind in "biuf"]
        if not leaves or not len(leaves[0]) or len({len(leaf) for leaf in arrays}) != 1:
            return None
        labels = self._labels(targets, len(leaves[0]))
        return Samples(inputs, targets, leaves, labels)

    @property
    def batch_size(self) -> int:
        """Rows of a batch, 1 where it is not known."""
        size = self.header_part("fit").get("batch_size")
        if type(size) is int and size > 0:
            return size
        return 32 if self.header_part("data").get("kind") == "ArrayFeed" else 1

    @functools.cached_property
    def loss_name(self) -> str:
        """The name of the loss, in small letters; nothing where it is not known."""
        loss = self.header_part("compile").get("loss")
        if isinstance(loss, dict):
            loss = loss.get("class_name")
        return loss.lower().replace("_", "") if isinstance(loss, str) else ""

    def _labels(self, targets: Any, count: int) -> np.ndarray | None:
        """The class of each row, from numbers or from one-hot rows."""
        parts = [array_of(leaf) for leaf in nest.flatten(targets) if leaf is not None]
        if len(parts) != 1 or not any(name in self.loss_name for name in _CLASS_LOSSES):
            return None
        target = parts[0]
        if len(target) != count:
            return None
        if target.ndim == 2 and target.shape[1] > 1:
            is_one_hot = np.all(np.isfinite(target)) and np.allclose(target.max(axis=1), 1)
            return target.argmax(axis=1) if is_one_hot else None
        flat = target.reshape(count, -1)
        if flat.shape[1] != 1 or not np.all(np.isfinite(flat)):
            return None
        labels = flat[:, 0].astype(np.int64)
        is_class = np.all(labels == flat[:, 0]) and len(np.unique(labels)) <= _MOST_CLASSES
        return labels if is_class else None

    # ------------------------------------------------------------------ past states

    def state(self, step: int, why: str) -> PastState | None:
        """The run as a step found it; `None` where that can't be had, which is noted.

        Args:
            step: its number.
            why: what is looked for, in words.
        """
        if self._refused:
            return None
        if self._seconds == 0:
            self._refused = True
            self.lack("layers, gradients, updates and single rows: why(seconds=0) does no steps")
            return None
        step = self._execution_start(step)
        cost = self._cost(step)
        if cost > self._seconds:
            self.lack(
                f"{why}: doing steps again up to {step} takes about {cost:.0f} s; "
                f"run.why(seconds={max(cost * 1.5, 1):.0f})"
            )
            return None
        is_stored = step - 1 in self.run.checkpoints  # which has what callbacks did after the step
        if self._differing > 1 and not is_stored:
            return None
        self._seconds = max(self._seconds - cost, 1e-9)
        try:
            return self.run.at(step, check=not is_stored)
        except ReplayError as error:
            if not self._differing:
                self.lack(f"steps between checkpoints: {str(error).splitlines()[0]}")
            self._differing += 1
        except (CheckpointError, FailedPreconditionError, ValueError, TypeError) as error:
            self._refused = True
            text = str(error).splitlines()[0] if str(error) else type(error).__name__
            if "which nobody registered" in text:
                text += f"; or give tk.runs.open({str(self.run.folder)!r}, model=function)"
            self.lack(
                f"layers, gradients, updates and single rows: no step can be done again ({text})"
            )
        return None

    def _execution_start(self, step: int) -> int:
        """The first step of the execution that a step is part of: several have one line."""
        before = bisect.bisect_left(self.run.steps, step, key=lambda line: line.step)
        return self.run.steps[before - 1].step + 1 if before else 1

    def _cost(self, step: int) -> float:
        before = [number for number in self.run.checkpoints if number < step]
        start = max(before, default=0)
        times = [line.seconds for line in self.run.steps if start < line.step < step]
        return float(np.median(times)) * len(times) if times else 0.0

    @functools.cached_property
    def last_good_step(self) -> int:
        """The last step whose loss is finite; 0 where there is none."""
        finite = np.flatnonzero(np.isfinite(self.losses))
        bad = np.flatnonzero(~np.isfinite(self.losses))
        if len(bad):
            finite = finite[finite < bad[0]]
        return int(self.steps[finite[-1]]) if len(finite) else 0

    @functools.cached_property
    def end_state(self) -> PastState | None:
        """The run after its last step, or before the first whose loss is not finite."""
        is_whole = self.last_good_step == self.run.last_step
        step = self.run.last_step + 1 if is_whole else self.last_good_step
        if self.run.last_step == 0 or step < 1:
            return None
        state = self.state(step, "units, statistics and classes at the end")
        if state is None or state.model is None:
            if state is not None:
                self.lack(
                    "layers, gradients and updates: the step of a loop of one's own is in its "
                    "program"
                )
            return None
        return state

    def epoch_ends(self) -> list[tuple[int, int]]:
        """The number of the last step of each epoch, and the epoch's, from 0."""
        ends: dict[int, int] = {}
        for line in self.run.steps:
            ends[line.epoch] = line.step
        return [(step, epoch) for epoch, step in ends.items()]

    def classes_of(self, outputs: Any) -> np.ndarray | None:
        """The class that each row of outputs stands for; `None` where they are no scores."""
        leaves = nest.flatten(outputs)
        if len(leaves) != 1:
            return None
        scores = np.asarray(leaves[0], np.float64)
        if scores.ndim != 2:
            return None
        if scores.shape[1] > 1:
            return scores.argmax(axis=1)
        loss = self.header_part("compile").get("loss")
        config = loss.get("config") if isinstance(loss, dict) else None
        is_logit = isinstance(config, dict) and bool(config.get("from_logits"))
        return (scores[:, 0] > (0.0 if is_logit else 0.5)).astype(np.int64)
