"""`RunLog`: what a loop writes into the folder of its run: lines, digests and checkpoints."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainkit.checkpoints.checkpoint import Checkpoint
from trainkit.checkpoints.format.regular_files import opened_regular
from trainkit.core.errors import AlreadyExistsError, CheckpointError, NotFoundError
from trainkit.core.files.local_paths import local_path
from trainkit.journal import run_header
from trainkit.journal.cadence import Cadence
from trainkit.journal.journal_reader import Journal
from trainkit.journal.journal_writer import JournalWriter
from trainkit.journal.lines import FILE, Step
from trainkit.journal.retention import bytes_of, superfluous
from trainkit.journal.state_digests import StateDigests, batch_digest

CHECKPOINTS = "checkpoints"
_SHARE_OF_SAVES = 0.01
_MOST_LEAVES = 4096
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


class RunLog:
    """Writes the journal and the checkpoints of a run.

    Args:
        folder: of the run.
        keep: how much disk the checkpoints may take; the first and the last stay in any case.
        save_every: `"auto"` for as often as it takes a hundredth of the time, `"epoch"`, or a
            number of steps. At the beginning and the end it is saved in any case.
        digest_every: `"auto"` for as often as the time allows, or a number of steps.

    Raises:
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
        self.step = 0
        self._last_end = self._began_at = time.perf_counter()
        self._save_seconds = self._last_save_cost = 0.0
        self._last_saved = -1
        self._sizes: dict[int, int] = {}
        self._random = self._weights = self._slots = None

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
    ) -> None:
        """Open the journal, for a new run or one that goes on.

        Args:
            step: how many steps are done.
            journal: of the run that goes on.
            checkpoint: what is saved.
            state: whose digests are written.
            facts: gives what the header says beside the environment.
        """
        self.checkpoint, self.state, self.step = checkpoint, state, step
        if journal is None:
            self.writer = JournalWriter(self.folder)
            self.writer.header(run_header.new_header(facts()))
        else:
            self.writer = JournalWriter(self.folder, journal.head)
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
        self.writer.flush()
        self._last_end = self._began_at = time.perf_counter()

    # ------------------------------------------------------------------ steps

    def end_step(
        self,
        step: int,
        batch: Any,
        waited: float,
        make: Callable[[float, float, Any, Any, Any, Any], Step],
    ) -> None:
        """Note a step, with the digests that are due.

        Args:
            step: its number, from 1.
            batch: what it was given.
            waited: seconds of waiting for it.
            make: gives the `Step` from the seconds it took, `waited`, and the digests of the batch,
                the generators, weights and slots, each `None` where not due; called later.
        """
        writer = self.writer
        assert writer is not None
        now = time.perf_counter()
        seconds = now - self._last_end
        facts = (seconds, waited, None, None, None, None)
        if not (step % self.batch_cadence.every and step % self.state_cadence.every):
            facts = (seconds, waited, *self._digests(step, batch, seconds))
            now = time.perf_counter()
        self.step = step
        self._last_end = now
        if writer.step(make, facts, now):
            self._last_end = time.perf_counter()

    def _digests(self, step: int, batch: Any, seconds: float) -> tuple[Any, Any, Any, Any]:
        """Those of the batch, the generators, weights and slots that are due, else `None`."""
        state = self.state
        assert state is not None
        of_batch = random = weights = slots = None
        began = time.perf_counter()
        if step % self.batch_cadence.every == 0:
            of_batch, random = batch_digest(batch), state.digest("random")
            self.batch_cadence.note(time.perf_counter() - began, seconds)
        if step % self.state_cadence.every == 0:
            began = time.perf_counter()
            if step <= 2 or self.step == 0:
                state.look()
            weights, slots = state.digest("weights"), state.digest("slots")
            self.state_cadence.note(time.perf_counter() - began, seconds)
        return of_batch, random, weights, slots

    def record(self, kind: str, **fields: Any) -> None:
        """Note a record of another kind, after the steps so far."""
        assert self.writer is not None
        self.writer.record(kind, n=self.step, **fields)

    # ------------------------------------------------------------------ checkpoints

    def save_if_due(self, ends_epoch: bool = False) -> None:
        """Write a checkpoint, if it is time to."""
        every = self.save_every
        if every == "epoch":
            due = ends_epoch
        elif every == "auto":
            allowed = _SHARE_OF_SAVES * (self._last_end - self._began_at)
            due = self._save_seconds + 1.5 * self._last_save_cost <= allowed
        else:
            due = self.step % every == 0
        if due or not self._sizes:  # a model that its first step has made was not saved before it
            self.save()

    def save(self) -> None:
        """Write a checkpoint of the state now, unless there is one, and remove those too many."""
        if self._last_saved == self.step:
            return
        assert self.checkpoint is not None
        assert self.writer is not None
        began = time.perf_counter()
        self.writer.flush()
        path = self.folder / checkpoint_file(self.step)
        self.checkpoint.write(path)
        self._sizes[self.step] = path.stat().st_size
        self.record(
            "checkpoint",
            file=checkpoint_file(self.step),
            bytes=self._sizes[self.step],
            sha256=file_sha256(path),
        )
        self._write_leaves()
        self.writer.flush(sync=True)
        self._thin()
        self._last_saved = self.step
        self._last_save_cost = time.perf_counter() - began
        if self.step:
            self._save_seconds += self._last_save_cost
        self._last_end += self._last_save_cost

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
