"""How long an epoch waited for its data, and on which step of the pipeline."""

from __future__ import annotations

import collections
import sys
import threading
import time
from types import FrameType
from typing import Any

from trainkit.data.node import Stage
from trainkit.data.transformations.prefetch import AheadStage

PATIENCE_SECONDS = 0.5
"""From so much waiting in an epoch on somebody looks what is waited for."""

LEAST_SECONDS = 1.0
LEAST_SHARE = 0.1
"""An epoch that waited less, in seconds or as a share of its time, says nothing."""

_SECONDS_BETWEEN_LOOKS = 0.05
_WORKERS = "trainkit-"
_LOOP = "trainkit.models.training.training_loop"
_PACKAGE = __name__.partition(".")[0]


class DataWait:
    """Adds up what an epoch waits for batches, and looks now and then what holds them up.

    Attributes:
        seconds: how long batches were waited for.
        since: when the batch was asked for that is waited for now; 0.0 if none is.
        patience: `watch` is to be called when `seconds` is more than this.
    """

    def __init__(self) -> None:
        self.seconds = self.since = 0.0
        self.patience = PATIENCE_SECONDS
        self.began_at = time.perf_counter()
        self.seen: collections.Counter[str] = collections.Counter()
        self._consumer = threading.get_ident()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self) -> None:
        """Begin to look what is waited for."""
        self.patience = float("inf")
        self._thread = threading.Thread(target=self._look, name="data-wait", daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(_SECONDS_BETWEEN_LOOKS):
            if self.since:
                self.look()

    def look(self) -> None:
        """Note what is waited for now."""
        self.seen[_step_at_work(sys._current_frames(), self._consumer)] += 1

    def end(self) -> str:
        """What is to be said of the epoch; nothing if it hardly waited."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        took = time.perf_counter() - self.began_at
        if self.seconds < LEAST_SECONDS or self.seconds < LEAST_SHARE * took:
            return ""
        share = self.seconds / max(took, self.seconds)
        text = f"waited {self.seconds:.1f} s for data, {share:.0%} of the epoch"
        total = self.seen.total()
        if total:
            shares = [f"{name} {n / total:.0%}" for name, n in self.seen.most_common(3)]
            text += f"; on {', '.join(shares)}"
        return text


def _step_at_work(frames: dict[int, FrameType], consumer: int) -> str:
    """The innermost step of a pipeline that works now, with the user's line in it.

    A consumer that only takes what other threads make waits on these.
    """
    own = _step_in(frames.get(consumer))
    workers = [t.ident for t in threading.enumerate() if t.name.startswith(_WORKERS)]
    others = [_step_in(frames.get(ident)) for ident in workers if ident is not None]
    working = [step for step in others if step is not None]
    if own is None or own[1] in ("Prefetch", "ParallelMap"):
        own = max(working, default=own)
    if own is None:
        return "what gives the batches"
    return own[1] + own[2]


def _step_in(frame: FrameType | None) -> tuple[bool, str, str] | None:
    """Whether a line of the user's runs, the innermost step, and that line; `None` for no step."""
    line = ""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if frame.f_code.co_name == "take" and module == _LOOP:
            return (True, "what gives the batches", line) if line else None
        owner: Any = frame.f_locals.get("self")
        if isinstance(owner, Stage):
            return bool(line), _step_name(owner), line
        if not line and not _is_library(module):
            code = frame.f_code
            file = code.co_filename.rpartition("/")[2]
            line = f" ({code.co_name}, {file}:{frame.f_lineno})"
        frame = frame.f_back
    return None


def _step_name(stage: Stage) -> str:
    if type(stage) is AheadStage:
        return "Prefetch"
    return type(stage).__name__.removesuffix("Stage").lstrip("_")


def _is_library(module: str) -> bool:
    return module.partition(".")[0] in (_PACKAGE, "threading", "queue", "concurrent", "numpy")
