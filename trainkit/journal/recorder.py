"""`Recorder`: writes the journal of a loop of one's own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from trainkit.checkpoints.checkpoint import Checkpoint
from trainkit.core.errors import CheckpointError, FailedPreconditionError
from trainkit.core.files.local_paths import local_path
from trainkit.core.trackable import Trackable
from trainkit.journal.replays import replay_of
from trainkit.journal.run_log import RunLog, unchanging
from trainkit.journal.state_digests import StateDigests
from trainkit.journal.step_reader import StepReader
from trainkit.kernels.jit.kernel_family import KernelChoice
from trainkit.ops.sampling.generators import global_generator


def _numbers_of(logs: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in logs.items()}


class _Position(Trackable):
    """How far a loop is, as a part of its checkpoints."""

    def __init__(self) -> None:
        self.steps = self.epoch = 0

    def state_arrays(self) -> dict[str, Any]:
        return {"steps": np.int64(self.steps), "epoch": np.int64(self.epoch)}

    def load_state_arrays(self, arrays: dict[str, Any]) -> None:
        if not {"steps", "epoch"} <= set(arrays):
            raise ValueError(f"a loop stores 'steps' and 'epoch', got {sorted(arrays)}")
        self.steps, self.epoch = int(arrays["steps"]), int(arrays["epoch"])


class Recorder:
    """Writes down what a loop of one's own does; see `RunJournal` for what `fit` writes.

    A run that was killed is taken up where its last checkpoint stands, when the same program makes
    its `Recorder` again: `steps` and `epoch` tell how far it is, and iterators of data sets that
    are among the parts go on in the middle of a pass.

    Args:
        folder: of the run.
        keep: how much disk checkpoints may take.
        save_every: `"auto"`, or a number of steps.
        digest_every: `"auto"`, or a number of steps.
        config: plain values for the header, such as hyperparameters.
        **parts: the model, the optimizer, the iterator over the data and whatever else the loop
            depends on, by name.

    Attributes:
        steps: how many steps are done.
        epoch: the number that `watch` was given last.

    Raises:
        ValueError: a setting is out of its range.
        AlreadyExistsError: the folder has a run that is finished.

    Example:
        >>> w = tk.Variable(1.0)
        >>> data = iter(tk.data.Dataset.range(4))
        >>> with tk.runs.Recorder("runs/loop", w=w, data=data) as recorder:
        ...     for batch in recorder.watch(data):
        ...         w = w.assign_add(tk.cast(batch, "float32"))
        ...         recorder.end_step(loss=w)
        >>> [step.loss for step in tk.runs.open("runs/loop").steps]
        [1.0, 2.0, 4.0, 7.0]
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        keep: int | float | str = "1GB",
        save_every: Any = "auto",
        digest_every: Any = "auto",
        config: dict[str, Any] | None = None,
        **parts: Any,
    ) -> None:
        if save_every == "epoch":
            raise ValueError("Recorder: save_every is 'auto' or a number of steps")
        self.folder = local_path(folder)
        self.parts, self._config = parts, config or {}
        self._position = _Position()
        self.loop_checkpoint = Checkpoint(
            **parts, loop=self._position, random=global_generator(), kernels=KernelChoice()
        )
        self._replay = replay_of(folder)
        self._batch: Any = None
        self._waited = self._waited_before = 0.0  # of the step under way, of the epoch before it
        self._epoch = self._position.epoch
        self._reader = StepReader(_numbers_of, averages=False)
        self._log: RunLog | None = None
        target: Any = folder
        if self._replay is not None:
            self._replay.used = True
            self._take_up(self._replay)
            target = self._replay.output
        if target is not None:
            log = RunLog(target, keep, save_every, digest_every)
            earlier = log.earlier()
            if earlier is not None and self._replay is None:
                log.restore_newest(earlier, lambda path: self.loop_checkpoint.read(path))
            roots = {**parts, "random": global_generator()}
            state = StateDigests(roots)
            reader = self._reader
            log.begin(self.steps, earlier, self.loop_checkpoint, state, self._facts, reader)
            self._log = log
            if all(getattr(part, "built", True) for part in parts.values()):
                log.save()

    def _take_up(self, replay: Any) -> None:
        if replay.start is not None:
            self.loop_checkpoint.read(replay.start).expect_partial()
            if self.steps != replay.start_step:
                raise CheckpointError(
                    f"{replay.start} is of step {self.steps}, not of step {replay.start_step}"
                )
        if replay.prepare is not None:
            replay.prepare(self)

    def _facts(self) -> dict[str, Any]:
        kinds = {name: type(part).__name__ for name, part in self.parts.items()}
        more = {} if self._replay is None else self._replay.more
        return {"loop": "recorder", "parts": kinds, "config": self._config, **more}

    @property
    def steps(self) -> int:
        """How many steps are done."""
        return self._position.steps

    @property
    def epoch(self) -> int:
        """The number that `watch` was given last."""
        return self._position.epoch

    def watch(self, batches: Iterable[Any], epoch: int | None = None) -> Iterator[Any]:
        """The same batches, which the journal sees too.

        Args:
            batches: an iterator, or what can be iterated.
            epoch: its number, from 0; by default the one before goes on.
        """
        if epoch is not None:
            self._position.epoch = epoch
        waiting, replay = iter(batches), self._replay
        while True:
            began = time.perf_counter()
            try:
                batch = next(waiting)
            except StopIteration:
                return
            self._waited += time.perf_counter() - began
            self._batch = batch
            if replay is not None and replay.target is not None:
                if self.steps + 1 >= replay.target:
                    replay.break_off(self, [batch], self.steps)
            yield batch

    def end_step(self, loss: Any = None, batch: Any = None, **metrics: Any) -> None:
        """Note that a step is done.

        Args:
            loss: of this step, a number or a scalar tensor, which is read later.
            batch: what it was given, where `watch` has not seen it.
            **metrics: further numbers by name.
        """
        now = time.perf_counter()
        log, position = self._log, self._position.__dict__
        if log is not None and log.writer is None:
            raise FailedPreconditionError("end_step: the recorder is closed")
        step = position["steps"] = position["steps"] + 1
        batch, self._batch = (self._batch if batch is None else batch), None
        epoch, waited, self._waited = position["epoch"], self._waited, 0.0
        if epoch == self._epoch:
            waited += self._waited_before
        self._waited_before, self._epoch = waited, epoch
        logs = {name: unchanging(value) for name, value in metrics.items()}
        if loss is not None:
            logs["loss"] = unchanging(loss)
        facts = (now, step, epoch, waited, 0, logs, None)
        if log is not None:
            log.waiting.append(facts)
            if step >= log.due_step or now >= log.due_time:
                log.catch_up([batch])
        replay = self._replay
        if replay is not None and replay.lines is not None:
            replay.note(self._reader.read(facts)._replace(seconds=0.0), [batch], self.parts)
        if replay is not None and replay.watch is not None:
            replay.watch(self, step)

    def record(self, kind: str, **fields: Any) -> None:
        """Note something else, after the steps so far.

        Args:
            kind: what it is called; `"epoch"` with `epoch=` and `logs=` ends an epoch.
            **fields: plain values, nested.
        """
        if self._log is not None:
            self._log.record(kind, **fields)

    def finish(self, how: str = "finished", error: BaseException | None = None) -> None:
        """Save once more, and close the journal; a second call does nothing.

        Args:
            how: as the journal shall say.
            error: what the loop ended with.
        """
        log, self._log = self._log, None
        if log is not None:
            if error is None:
                log.save()
            log.end(how, error)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or self._log is None:
            self.finish()
        else:
            ending = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            self.finish(ending, error)
