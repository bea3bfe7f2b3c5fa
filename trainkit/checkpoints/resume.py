"""`verify_resume`: shows that a training run that was killed goes on as if it had not been."""

from __future__ import annotations

import json
import os
import pickle
import signal
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainkit.checkpoints.checkpoint import Checkpoint
from trainkit.checkpoints.format.checksum import checksum
from trainkit.checkpoints.format.writer import Values
from trainkit.checkpoints.manager import CheckpointManager
from trainkit.checkpoints.restore.matching import COUNTER
from trainkit.checkpoints.restore.object_graph import SavePlan
from trainkit.core.errors import InvalidArgumentError

Digests = dict[str, str]
AfterBatch = Callable[[Any], None]
Train = Callable[[str, AfterBatch], Any]
_SHOWN = 8


class ResumeDifference(AssertionError):
    """A resumed run is not the run that was never stopped."""


@dataclass(frozen=True)
class ResumeReport:
    """What `verify_resume` has compared.

    Attributes:
        batches: how many the run has.
        stops: after which of them it was killed.
        arrays: how many arrays were compared after each batch.
    """

    batches: int
    stops: tuple[int, ...]
    arrays: int

    def __str__(self) -> str:
        return (
            f"{len(self.stops)} resumed runs of {self.batches} batches equal the uninterrupted one "
            f"in all {self.arrays} arrays, bit for bit, after each batch"
        )


def verify_resume(
    train: Train, at: Iterable[int] | None = None, *, isolate: bool = True
) -> ResumeReport:
    """Run, kill, restore and compare.

    The run is made once without a stop. Then, for each batch number in `at`, it is made again in a
    new folder, saved and killed after that batch, started once more, and compared with the first
    after each batch that is left: all variables, slots, states and positions, bit for bit.

    Args:
        train: `train(folder, after_batch)` makes everything, restores the newest checkpoint in
            `folder` if there is one, trains to the end, and calls `after_batch` after each batch
            with its `Checkpoint` or `CheckpointManager`, which saves into `folder`.
        at: batch numbers, from 1; None for all but the last.
        isolate: whether each run has a process of its own, which is really killed; `train` must
            then be a function that can be imported. Otherwise runs are broken off by an exception.

    Returns:
        What was compared.

    Raises:
        ResumeDifference: a resumed run differs, repeats or leaves out batches; the text names the
            first difference.
        InvalidArgumentError: `train` can't be sent to another process, never calls `after_batch`,
            or a number is outside of the run.
        RuntimeError: a run failed; its error was printed.
    """
    if isolate:
        _require_importable(train)
    uninterrupted = _run(train, 0, isolate)
    if not uninterrupted:
        raise InvalidArgumentError("verify_resume: train never called after_batch")
    stops = tuple(range(1, len(uninterrupted)) if at is None else at)
    for stop in stops:
        if not 1 <= stop < len(uninterrupted):
            raise InvalidArgumentError(
                f"verify_resume: at={stop}, the run has {len(uninterrupted)} batches"
            )
        _compare(stop, uninterrupted, _run(train, stop, isolate))
    return ResumeReport(len(uninterrupted), stops, len(uninterrupted[-1]))


def _require_importable(train: Train) -> None:
    try:
        pickle.dumps(train)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidArgumentError(
            f"verify_resume: {train!r} can't be sent to another process ({error}); define it at "
            "the top of a module, or pass isolate=False"
        ) from error


# ------------------------------------------------------------------ runs


class _Stop(BaseException):
    """Breaks a run off where it can't be killed; no `except Exception` catches it."""


class _BatchLog:
    """Is called after each batch: writes the digests down, and saves and stops where it shall.

    Args:
        log: gets one line of JSON for each batch.
        folder: of the run's checkpoints.
        stop: after which batch, 0 for none.
        kill: whether to kill the process.
    """

    def __init__(self, log: Path, folder: str, stop: int, kill: bool) -> None:
        self._log, self._folder, self._stop, self._kill = log, folder, stop, kill
        self._count = 0

    def __call__(self, saver: Any) -> None:
        if not isinstance(saver, Checkpoint | CheckpointManager):
            raise InvalidArgumentError(
                "after_batch takes the run's Checkpoint or CheckpointManager, not "
                f"{type(saver).__name__}"
            )
        self._count += 1
        tree = saver.checkpoint if isinstance(saver, CheckpointManager) else saver
        with self._log.open("a") as log:
            log.write(json.dumps(digests(tree)) + "\n")
        if self._count == self._stop:
            self._save(saver)
            if self._kill:
                os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
            raise _Stop

    def _save(self, saver: Any) -> None:
        if isinstance(saver, CheckpointManager):
            saver.save(check_interval=False)
        else:
            saver.save(os.path.join(self._folder, "ckpt"))
        saver.sync()


def digests(tree: Checkpoint) -> Digests:
    """The checksum of each array under `tree` by path, without counts of saves."""
    return {
        entry.path: checksum(np.require(entry.read(), requirements="C"))
        for entry in SavePlan(tree).entries
        if isinstance(entry, Values) and entry.path.rpartition("/")[2] != COUNTER
    }


def _run(train: Train, stop: int, isolate: bool) -> list[Digests]:
    """The digests after each batch: of a run that is stopped once, or of one that is not (0)."""
    with tempfile.TemporaryDirectory() as name:
        folder = os.path.join(name, "run")
        os.mkdir(folder)
        log = Path(name) / "digests"
        log.touch()
        for ends_at in (stop, 0) if stop else (0,):
            start = _in_a_process if isolate else _here
            start(train, folder, log, ends_at)
        return [json.loads(line) for line in log.read_text().splitlines()]


def _here(train: Train, folder: str, log: Path, stop: int) -> None:
    try:
        train(folder, _BatchLog(log, folder, stop, kill=False))
    except _Stop:
        return
    if stop:
        raise InvalidArgumentError(f"verify_resume: the second run ended before batch {stop}")


def _in_a_process(train: Train, folder: str, log: Path, stop: int) -> None:
    import multiprocessing  # slow to import

    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_child, args=(train, folder, log, stop))
    process.start()
    process.join()
    code = process.exitcode
    process.close()
    if code != 0 and not (stop and code is not None and code < 0):
        raise RuntimeError(
            f"verify_resume: a run failed with exit status {code}; see its error above"
        )


def _child(train: Train, folder: str, log: Path, stop: int) -> None:
    train(folder, _BatchLog(log, folder, stop, kill=True))


# ------------------------------------------------------------------ comparing


def _compare(stop: int, uninterrupted: list[Digests], resumed: list[Digests]) -> None:
    for number, (want, have) in enumerate(zip(uninterrupted, resumed, strict=False), 1):
        if want != have:
            raise ResumeDifference(_difference(stop, number, want, have))
    if len(resumed) != len(uninterrupted):
        raise ResumeDifference(
            f"stopped after batch {stop} and resumed, the run has {len(resumed)} batches; without "
            f"a stop it has {len(uninterrupted)}"
        )


def _difference(stop: int, number: int, want: Digests, have: Digests) -> str:
    paths = [path for path in {**want, **have} if want.get(path) != have.get(path)]
    when = "already before it was stopped (the run itself is not deterministic)"
    if number > stop:
        when = f"after {number - stop} more"
    lines = "\n".join(f"  {path}{_which(path, want, have)}" for path in paths[:_SHOWN])
    more = f"\n  and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return (
        f"stopped after batch {stop} and resumed, the run differs after batch {number}, {when}, in "
        f"{len(paths)} of {len(want)} arrays:\n{lines}{more}"
    )


def _which(path: str, want: Digests, have: Digests) -> str:
    if path not in have:
        return "  (not there after resuming)"
    return "" if path in want else "  (there only after resuming)"
