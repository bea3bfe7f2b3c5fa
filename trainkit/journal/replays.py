"""Replays: a program that trains is run again, from a checkpoint up to a step.

While one is active, a loop that would write the journal of that run does not write: it takes up the
state of a checkpoint, does its steps again and is broken off where the replay says.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from trainkit.core.files.local_paths import local_path
from trainkit.journal.lines import Step
from trainkit.journal.state_digests import StateDigests, batch_digest
from trainkit.ops.sampling.generators import global_generator


class Reached(BaseException):
    """Breaks a program off at the step it was run for; no `except Exception` catches it."""


class ProgramReplay:
    """What a program is run again for.

    Args:
        folder: of the run.
        start: the checkpoint to begin with; `None` for the beginning of the program.
        start_step: how many steps were done at `start`.
        target: the step before which to stop; `None` to go on to the end.
        output: folder of a new run that the loop writes, for a fork; `None` writes nothing.
        more: fields for the header of that run.
        prepare: called with the model, or the `Recorder`, once the state is restored.
        watch: called with the model, or the `Recorder`, and the number of each step that is done.
        rates: the learning rates to set, by the step before which they changed.
        adjust: called with the model before its state is restored.
        arrive: called with what `reached` begins with, at the target.
        lines: called with the `Step` of each step that is done, as a journal would have it, with
            all digests.

    Attributes:
        reached: what the loop was when it came to the target: the model or the `Recorder`, the
            batches that the step would take, and how many steps were done.
        used: whether a loop of this run was begun.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        start: str | None,
        start_step: int,
        target: int | None = None,
        output: str | None = None,
        more: dict[str, Any] | None = None,
        prepare: Callable[[Any], None] | None = None,
        watch: Any = None,
        rates: dict[int, float] | None = None,
        adjust: Callable[[Any], None] | None = None,
        arrive: Callable[[Any], None] | None = None,
        lines: Callable[[Step], None] | None = None,
    ) -> None:
        self.folder = Path(local_path(folder)).resolve()
        self.start, self.start_step, self.target = start, start_step, target
        self.output, self.more, self.prepare = output, more or {}, prepare
        self.watch, self.rates, self.adjust = watch, rates or {}, adjust
        self.arrive, self.lines = arrive, lines
        self.reached: Any = None
        self.used = False

    def break_off(self, owner: Any, batches: list[Any], done: int) -> NoReturn:
        """Keep what the loop has come to, and leave it.

        Args:
            owner: the model, or what stands for a loop of one's own.
            batches: what the step would take.
            done: how many steps are done.
        """
        self.reached = (owner, batches, done)
        if self.arrive is not None:
            self.arrive(owner)
        raise Reached

    def note(self, step: Step, batches: Any, roots: dict[str, Any]) -> None:
        """Give the line of a step to `lines`, with all digests."""
        assert self.lines is not None
        state = StateDigests({**roots, "random": global_generator()})
        random, weights, slots = (state.digest(part) for part in ("random", "weights", "slots"))
        batch = batch_digest(batches)
        self.lines(step._replace(batch=batch, random=random, weights=weights, slots=slots))


class _ActiveReplays(threading.local):
    replays: tuple[ProgramReplay, ...] = ()


_ACTIVE = _ActiveReplays()


@contextlib.contextmanager
def replaying(replay: ProgramReplay) -> Iterator[None]:
    """Let loops of the run's folder in this thread do what `replay` says."""
    _ACTIVE.replays += (replay,)
    try:
        yield
    finally:
        _ACTIVE.replays = _ACTIVE.replays[:-1]


def replay_of(folder: str | os.PathLike[str]) -> ProgramReplay | None:
    """The replay that a loop of a run is to follow, `None` where it shall write as usual."""
    if not _ACTIVE.replays:
        return None
    replay = _ACTIVE.replays[-1]
    return replay if Path(local_path(folder)).resolve() == replay.folder else None
