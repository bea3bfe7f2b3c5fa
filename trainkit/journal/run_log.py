"""`RunLog`: what a loop writes into the folder of its run: lines, digests and checkpoints."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from trainkit.checkpoints.checkpoint import Checkpoint
from trainkit.checkpoints.format.regular_files import opened_regular
from trainkit.core.errors import AlreadyExistsError, CheckpointError, NotFoundError
from trainkit.core.files.local_paths import local_path
from trainkit.core.tensor import Tensor
from trainkit.journal import run_header
from trainkit.journal.cadence import Cadence
from trainkit.journal.journal_reader import Journal
from trainkit.journal.journal_writer import JournalWriter
from trainkit.journal.lines import FILE
from trainkit.journal.retention import bytes_of, superfluous
from trainkit.journal.state_digests import StateDigests, batch_digest
from trainkit.journal.step_reader import Digests, StepReader

CHECKPOINTS = "checkpoints"
_SHARE_OF_SAVES = 0.01
_MOST_LEAVES = 4096
_MOST_WAITING = 512
_SECONDS_BETWEEN_WRITES = 1.0
_CHUNK = 1 << 20


def checkpoint_file(step: int) -> str:
    """The name of the checkpoint after a step, in the folder of the run."""
    return f"{CHECKPOINTS}/step-{step}"


def checkpoints_of(journal: Journal) -> dict[int, Path]:
    """The checkpoints of a run that are still there, by their step, in order.

    Only names that a journal writes are believed: a record can't lead out of the folder.
    """
    steps = {record.get("n") for record in journal.records_of("checkpoint")}
    paths = {
        step: journal.folder / checkpoint_file(step)
        for step in steps
        if type(step) is int and step >= 0
    }
    return {step: paths[step] for step in sorted(paths) if paths[step].is_file()}


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, 64 hexadecimal digits, by which a journal is bound to its checkpoints."""
    digest = hashlib.sha256()
    with opened_regular(path, "checkpoint") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def unchanging(value: Any) -> Any:
    """What a variable or an array is now, since lines are made later."""
    if type(value) is Tensor or type(value) is float:
        return value
    if isinstance(value, np.ndarray):
        return value.copy()
    return value.value() if hasattr(value, "assign") else value


class RunLog:
    """Writes the journal and the checkpoints of a run.

    A step should cost little, so all that is done in each one is that the loop appends its facts to
    `waiting`, and calls `catch_up` in those that are due:

        log.waiting.append((time.perf_counter(), step, epoch, waited, rows, logs, rate))
        if step >= log.due_step or time.perf_counter() >= log.due_time:
            log.catch_up(batches)

    Lines are made of many facts together later, in which tensors of a device are waited for as
    well.

    Args:
        folder: of the run.
        keep: how much disk the checkpoints may take; the first and the last stay in any case.
        save_every: `"auto"` for as often as it takes a hundredth of the time, `"epoch"`, or a
            number of steps. At the beginning and the end it is saved in any case.
        digest_every: `"auto"` for as often as the time allows, or a number of steps.

    Attributes:
        waiting: the `StepEvent` of steps; beside records, and times from which on the next step is
            counted.
        due_step: from this step on it is time to catch up.
        due_time: likewise, by `time.perf_counter`.

    Raises:
        NotADirectoryError: there is a file where the folder is to be.
        ValueError: a setting is none of these.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        keep: int | float | str = "1GB",
        save_every: Any = "auto",
        digest_every: Any = "auto",
    ) -> None:
        if not folder:
            raise ValueError(f"a run needs a folder, got {folder!r}")
        self.folder = Path(local_path(folder))
        _require_folder(self.folder)
        self.keep = bytes_of(keep)
        is_number = type(save_every) is int and save_every > 0
        if save_every not in ("auto", "epoch") and not is_number:
            raise ValueError(
                f"save_every must be 'auto', 'epoch' or a number of steps, got {save_every!r}"
            )
        self.save_every = save_every
        self.batch_cadence, self.state_cadence = Cadence(digest_every), Cadence(digest_every)
        self.writer: JournalWriter | None = None
        self.checkpoint: Checkpoint | None = None
        self.state: StateDigests | None = None
        self.waiting: list[Any] = []
        self.due_step, self.due_time = 0, 0.0
        self.reader: StepReader | None = None
        self._looks = 2
        self._began_at = self._last_write = time.perf_counter()
        self._save_seconds = self._last_save_cost = 0.0
        self._last_saved = -1
        self._sizes: dict[int, int] = {}

    # ------------------------------------------------------------------ beginning

    def earlier(self) -> Journal | None:
        """The journal of a run that can go on; `None` where there is none yet.

        Raises:
            AlreadyExistsError: the run is over, or its journal can't be trusted to its end.
            JournalError: the file is something else.
        """
        try:
            journal = Journal(self.folder)
        except NotFoundError:
            return None
        if journal.broken:
            raise AlreadyExistsError(
                f"{self.folder / FILE}: {journal.problems()}. A run does not go on after that; "
                "give this one another folder"
            )
        ends = journal.records_of("end")
        if ends and journal.records[-1] is ends[-1] and ends[-1].get("how") == "finished":
            raise AlreadyExistsError(
                f"the run in {self.folder} is finished, after {journal.last_step} steps; give this "
                f"one another folder, or tk.runs.open({str(self.folder)!r}).fork(...)"
            )
        return journal

    def restore_newest(self, journal: Journal, restore: Callable[[str], Any]) -> int | None:
        """Take up the newest checkpoint that is whole; its step, `None` without any."""
        for step, path in reversed(checkpoints_of(journal).items()):
            try:
                restore(str(path))
            except NotFoundError:
                continue
            except CheckpointError as error:
                if type(error) is not CheckpointError:  # a mismatch is the user's to solve
                    raise
                continue
            return step
        return None

    def begin(
        self,
        step: int,
        journal: Journal | None,
        checkpoint: Checkpoint,
        state: StateDigests,
        facts: Callable[[], dict[str, Any]],
        reader: StepReader,
    ) -> None:
        """Open the journal, for a new run or one that goes on.

        Args:
            step: how many steps are done.
            journal: of the run that goes on.
            checkpoint: what is saved.
            state: whose digests are written.
            facts: gives what the header says beside the environment.
            reader: of the facts that are noted from now on.
        """
        self.checkpoint, self.state, self.reader = checkpoint, state, reader
        reader.step, reader.end = step, time.perf_counter()
        if journal is None:
            self.writer = JournalWriter(self.folder, reader=reader)
            self.writer.header(run_header.new_header(facts()))
        else:
            self.writer = JournalWriter(self.folder, journal.head, reader)
            now = run_header.environment()
            changed = {key: value for key, value in now.items() if journal.header.get(key) != value}
            self.writer.record("resume", n=step, process=os.getpid(), environment=changed)
            self._sizes = {
                number: path.stat().st_size for number, path in checkpoints_of(journal).items()
            }
            for number in [n for n in self._sizes if n > step]:
                del self._sizes[number]  # written over when the run comes there again
            if step in self._sizes:  # it was taken up, and a proof may tell of the file as it is
                self._last_saved = step
        self.waiting = self.writer.waiting
        self.flush()
        self._began_at = time.perf_counter()
        self.waiting.append(self._began_at)
        self.due_step = step + 1

    # ------------------------------------------------------------------ steps

    @property
    def step(self) -> int:
        """How many steps are done."""
        for item in reversed(self.waiting):
            if type(item) is tuple:
                number: int = item[1]
                return number
        return 0 if self.reader is None else self.reader.step

    def catch_up(self, batch: Any) -> None:
        """Do what is due after the step that was appended last: digests, writing, a checkpoint."""
        now, step = self.waiting[-1][:2]
        has_digests = not (step % self.batch_cadence.every and step % self.state_cadence.every)
        if has_digests:
            self.waiting[-1] += (self._digests(step, batch, self._seconds_of_last()),)
        if len(self.waiting) >= _MOST_WAITING or now - self._last_write >= _SECONDS_BETWEEN_WRITES:
            self.flush()
        self.save_if_due()
        self.waiting.append(time.perf_counter())
        self._plan(step)

    def _plan(self, step: int) -> None:
        """Say until when there is nothing to do but to append."""
        periods = [self.batch_cadence.every, self.state_cadence.every]
        if type(self.save_every) is int:
            periods.append(self.save_every)
        self.due_step = min(
            step + max(_MOST_WAITING - len(self.waiting), 1),
            *[(step // every + 1) * every for every in periods],
        )
        self.due_time = min(self._last_write + _SECONDS_BETWEEN_WRITES, self._next_save())

    def _seconds_of_last(self) -> float:
        """How long the step took that was appended last."""
        now: float = self.waiting[-1][0]
        for item in reversed(self.waiting[:-1]):
            if type(item) is not dict:
                return now - (item if type(item) is float else item[0])
        assert self.reader is not None
        return now - self.reader.end

    def _digests(self, step: int, batch: Any, seconds: float) -> Digests:
        """Those of the batch, the generators, weights and slots that are due."""
        state = self.state
        assert state is not None
        of_batch = random = weights = slots = None
        began = time.perf_counter()
        if step % self.batch_cadence.every == 0:
            of_batch, random = batch_digest(batch), state.digest("random")
            self.batch_cadence.note(time.perf_counter() - began, seconds)
        if step % self.state_cadence.every == 0:
            began = time.perf_counter()
            if self._looks:  # the first steps make some variables
                self._looks -= 1
                state.look()
            weights, slots = state.digest("weights"), state.digest("slots")
            self.state_cadence.note(time.perf_counter() - began, seconds)
        return Digests(of_batch, random, weights, slots)

    def record(self, kind: str, **fields: Any) -> None:
        """Note a record of another kind, after the steps so far."""
        assert self.writer is not None
        self.writer.record(kind, n=self.step, **fields)

    def flush(self, sync: bool = False) -> None:
        """Write all that waits.

        Args:
            sync: wait for the disk too.
        """
        assert self.writer is not None
        self.writer.flush(sync)
        self._last_write = time.perf_counter()

    # ------------------------------------------------------------------ checkpoints

    def save_if_due(self, ends_epoch: bool = False) -> None:
        """Write a checkpoint, if it is time to."""
        every = self.save_every
        if every == "epoch":
            due = ends_epoch
        elif every == "auto":
            due = time.perf_counter() >= self._next_save()
        else:
            due = self.step % every == 0
        if due or not self._sizes:  # a model that its first step has made was not saved before it
            self.save()

    def _next_save(self) -> float:
        """From when on a checkpoint does not take more of the time than it may."""
        if self.save_every != "auto":
            return math.inf
        cost = self._save_seconds + 1.5 * self._last_save_cost
        return self._began_at + cost / _SHARE_OF_SAVES

    def save(self) -> None:
        """Write a checkpoint of the state now, unless there is one, and remove those too many."""
        step = self.step
        if self._last_saved == step:
            return
        assert self.checkpoint is not None
        began = time.perf_counter()
        self.flush()
        path = self.folder / checkpoint_file(step)
        self.checkpoint.write(path)
        self._sizes[step] = path.stat().st_size
        self.record(
            "checkpoint",
            file=checkpoint_file(step),
            bytes=self._sizes[step],
            sha256=file_sha256(path),
        )
        self._write_leaves()
        self.flush(sync=True)
        self._thin()
        self._last_saved = step
        self._last_save_cost = time.perf_counter() - began
        if step:
            self._save_seconds += self._last_save_cost
        assert self.reader is not None
        self.reader.end += self._last_save_cost

    def _write_leaves(self) -> None:
        """The digest of each variable, so that one can ask which of them differ."""
        assert self.state is not None
        self.state.look()
        leaves = self.state.leaves()
        if len(leaves) <= _MOST_LEAVES:
            parts = {part: self.state.digest(part) for part in ("weights", "slots", "random")}
            self.record("leaves", parts=parts, of=leaves)

    def _thin(self) -> None:
        steps = sorted(self._sizes)
        for step in superfluous(steps, [self._sizes[n] for n in steps], self.keep):
            with contextlib.suppress(OSError):
                os.remove(self.folder / checkpoint_file(step))
            del self._sizes[step]

    # ------------------------------------------------------------------ the end

    def end(self, how: str, error: BaseException | None = None) -> None:
        """Say how the run ended, and close the journal; a second call does nothing.

        Args:
            how: `"finished"`, `"stopped"` by a callback, `"interrupted"` or `"failed"`.
            error: what it failed with.
        """
        writer, self.writer = self.writer, None
        if writer is None:
            return
        fields = {} if error is None else {"error": f"{type(error).__name__}: {error}"[:2000]}
        writer.record("end", n=self.step, how=how, **fields)
        try:
            writer.close()
        except ValueError:  # a tensor that can't be read any more, after a device's error
            if error is None:
                raise


def _require_folder(folder: Path) -> None:
    """Refuse a file, or what would be in one."""
    for path in (folder, *folder.parents):
        if path.exists() and not path.is_dir():
            raise NotADirectoryError(
                f"a run is a folder, and {str(path)!r} is a file: name a folder that is not there "
                "yet, such as 'runs/first'"
            )
