"""`CheckpointManager`: which checkpoints of a run are kept, and which of them to go on from."""

from __future__ import annotations

import math
import os
import re
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from trainkit.checkpoints.checkpoint import Checkpoint, numbered
from trainkit.checkpoints.format.reader import SavedFile
from trainkit.checkpoints.format.writer import CheckpointOptions
from trainkit.core.errors import (
    CheckpointError,
    CheckpointMismatchError,
    InvalidArgumentError,
    NotFoundError,
)
from trainkit.core.files.local_paths import local_path
from trainkit.core.variable import Variable

_NOTE = "manager"


class DamagedCheckpointWarning(UserWarning):
    """A checkpoint file could not be used and an older one was taken."""


@dataclass(frozen=True)
class _Kept:
    """Which files are kept, by name; stands in the manifest of each file that a manager writes.

    Attributes:
        recent: those that `max_to_keep` counts, oldest first.
        preserved: those kept because hours had passed.
        preserved_at: seconds since 1970 of the newest of these, or of the run's first save.
        metrics: the metric of each file that was saved with one.
    """

    recent: tuple[str, ...] = ()
    preserved: tuple[str, ...] = ()
    preserved_at: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)

    def best(self, count: int, mode: str) -> list[str]:
        """The names of the `count` best files, the best first."""
        sign = 1 if mode == "min" else -1
        scores = [(sign * value, name) for name, value in self.metrics.items() if value == value]
        return [name for _, name in sorted(scores)[:count]]


class CheckpointManager:
    """Numbers the checkpoints of a run, removes old ones, and finds the newest that is whole.

    All it knows stands in the checkpoint files themselves, so that it survives restarts.

    Args:
        checkpoint: what is saved and restored.
        directory: where; it is made when it is missing.
        max_to_keep: how many of the newest to keep; None keeps all.
        keep_checkpoint_every_n_hours: keep one more, for good, each time so many hours have passed.
        checkpoint_name: beginning of the file names.
        step_counter: a Variable, which `checkpoint_interval` counts in.
        checkpoint_interval: `save` does nothing until so many steps have passed since the last one.
        init_fn: called by `restore_or_initialize` when there is no checkpoint.
        last_checkpoint_step: the step of the checkpoint before, from which `checkpoint_interval`
            counts; by default the first `save` writes at once.
        keep_best: keep so many of those with the best metric, however old.
        best_mode: `"min"` or `"max"`: which metric is the best.
        options: how files are written, where `save` does not say.

    Raises:
        InvalidArgumentError: a setting is out of its range or lacks another one.

    Example:
        >>> w = tk.Variable(1.0)
        >>> checkpoint = tk.train.Checkpoint(w=w)
        >>> manager = tk.checkpoints.CheckpointManager(checkpoint, "run", max_to_keep=2)
        >>> paths = [manager.save() for _ in range(3)]
        >>> len(manager.checkpoints)
        2
        >>> w = w.assign(0.0)
        >>> manager.restore_or_initialize() == paths[-1]
        True
        >>> float(w)
        1.0
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: str | os.PathLike[str],
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
        step_counter: Variable | None = None,
        checkpoint_interval: int | None = None,
        init_fn: Callable[[], Any] | None = None,
        last_checkpoint_step: int | None = None,
        *,
        keep_best: int = 0,
        best_mode: str = "min",
        options: CheckpointOptions | None = None,
    ) -> None:
        if max_to_keep is not None and max_to_keep < 1:
            raise InvalidArgumentError(
                f"max_to_keep is {max_to_keep}; it can be 1 or more, or None"
            )
        if checkpoint_interval is not None and step_counter is None:
            raise InvalidArgumentError("checkpoint_interval counts steps: give step_counter too")
        if best_mode not in ("min", "max") or keep_best < 0:
            raise InvalidArgumentError(
                f"best_mode is {best_mode!r}, it can be 'min' or 'max'; "
                f"keep_best is {keep_best}, it can be 0 or more"
            )
        self._checkpoint = checkpoint
        self._directory = local_path(directory)
        self._max_to_keep = max_to_keep
        self._hours = keep_checkpoint_every_n_hours
        self._name = checkpoint_name
        self._step_counter = step_counter
        self._interval = checkpoint_interval
        self._init_fn = init_fn
        self._keep_best = keep_best
        self._best_mode = best_mode
        self._options = options
        self._last_step = None if last_checkpoint_step is None else int(last_checkpoint_step)
        self._kept = self._planned = self._read_index()

    def __repr__(self) -> str:
        share = "all" if self._max_to_keep is None else f"the newest {self._max_to_keep}"
        newest = f", the newest {self._kept.recent[-1]!r}" if self._kept.recent else ""
        return (
            f"<CheckpointManager of {self._directory!r}: {len(self._kept.recent)} "
            f"checkpoints{newest}; keeps {share}>"
        )

    # ------------------------------------------------------------------ what there is

    @property
    def checkpoint(self) -> Checkpoint:
        """What is saved and restored."""
        return self._checkpoint

    @property
    def directory(self) -> str:
        """The folder of the files."""
        return self._directory

    @property
    def checkpoint_interval(self) -> int | None:
        """How many steps lie between two saves at least."""
        return self._interval

    @property
    def checkpoints(self) -> list[str]:
        """The paths that `max_to_keep` counts, oldest first; not those kept for other reasons."""
        return [self._path(name) for name in self._kept.recent]

    @property
    def latest_checkpoint(self) -> str | None:
        """The path that was saved last, None before the first save."""
        return self._path(self._kept.recent[-1]) if self._kept.recent else None

    @property
    def best_checkpoints(self) -> list[str]:
        """The paths with the best metrics, the best first; at most `keep_best`, or one."""
        names = self._kept.best(max(1, self._keep_best), self._best_mode)
        return [self._path(name) for name in names]

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _read_index(self) -> _Kept:
        """What an earlier manager left in the folder."""
        names = [path.name for path, _ in numbered(Path(self._directory), self._name)]
        record = _Kept()
        for name in reversed(names):
            note = self._note_in(name)
            if note is not None:
                record = note
                break
        present_names = set(names)
        preserved = tuple(name for name in record.preserved if name in present_names)
        metrics = {name: value for name, value in record.metrics.items() if name in present_names}
        other_names = set(preserved) | (set(metrics) - set(record.recent))
        recent = tuple(name for name in names if name not in other_names)
        return _Kept(recent, preserved, record.preserved_at, metrics)

    def _note_in(self, name: str) -> _Kept | None:
        """What the manager noted in one file, None where it is damaged or has no such note."""
        try:
            saved = SavedFile(self._path(name))
        except (CheckpointError, NotFoundError):
            return None
        note: Any = saved.manifest.get(_NOTE)
        saved.close()
        try:
            return _Kept(
                tuple(map(str, note["recent"])),
                tuple(map(str, note["preserved"])),
                float(note["preserved_at"]),
                {str(name): float(value) for name, value in note["metrics"].items()},
            )
        except (TypeError, KeyError, ValueError, AttributeError):
            return None

    # ------------------------------------------------------------------ saving

    def save(
        self,
        checkpoint_number: Any = None,
        check_interval: bool = True,
        options: CheckpointOptions | None = None,
        *,
        metric: float | None = None,
    ) -> str | None:
        """Write the next checkpoint and remove those that are too many.

        Nothing is removed before the new file is safe on the disk.

        Args:
            checkpoint_number: int or integer Variable for the file's name; by default the save
                counter.
            check_interval: False saves even when `checkpoint_interval` has not passed.
            options: how the file is written.
            metric: the number that `keep_best` compares; NaN never counts as best.

        Returns:
            The path; None when the interval has not passed.

        Raises:
            OSError: the file can't be written; nothing is removed. With `enable_async` an earlier
                write may be the one that failed.
            InvalidArgumentError: `keep_best` is set and there is no metric.
        """
        if self._keep_best and metric is None:
            raise InvalidArgumentError(f"keep_best={self._keep_best} needs save(metric=...)")
        step = None if self._step_counter is None else int(self._step_counter.numpy())
        if check_interval and self._interval is not None and self._last_step is not None:
            assert step is not None
            if step - self._last_step < self._interval:
                return None
        number = None if checkpoint_number is None else int(checkpoint_number)
        path = self._checkpoint._save(
            self._path(self._name), number, options or self._options, _Keeping(self, metric)
        )
        self._last_step = step
        return path

    def _plan(self, name: str, metric: float | None) -> tuple[_Kept, list[str]]:
        """What is kept once `name` is written, and the names that go then."""
        old, now = self._planned, time.time()
        metrics = {key: value for key, value in old.metrics.items() if key != name}
        if metric is not None:
            metrics[name] = float(metric)
        recent = [*(other for other in old.recent if other != name), name]
        preserved = [other for other in old.preserved if other != name]
        preserved_at = old.preserved_at or now
        limit = self._max_to_keep or len(recent)
        dropped, recent = recent[: max(0, len(recent) - limit)], recent[-limit:]
        for other in dropped:
            saved_at = self._time_of(other)
            if self._hours is not None and saved_at - preserved_at >= self._hours * 3600:
                preserved.append(other)
                preserved_at = saved_at
        plan = _Kept(tuple(recent), tuple(preserved), preserved_at, metrics)
        best = set(plan.best(self._keep_best, self._best_mode))
        staying = {*recent, *preserved, *best}
        gone = [
            other for other in {*old.recent, *old.metrics, *old.preserved} if other not in staying
        ]
        plan = replace(plan, metrics={k: v for k, v in metrics.items() if k in staying})
        return plan, sorted(gone)

    def _time_of(self, name: str) -> float:
        """When a file was written, seconds since 1970."""
        try:
            return os.path.getmtime(self._path(name))
        except OSError:
            return -math.inf

    def _remove(self, names: list[str]) -> None:
        for name in names:
            try:
                os.remove(self._path(name))
            except FileNotFoundError:
                continue
            except OSError as error:
                warnings.warn(f"an old checkpoint can't be removed: {error}", stacklevel=2)

    def sync(self) -> None:
        """Wait until all that was saved in the background is on the disk.

        Raises:
            OSError: something could not be written.
        """
        self._checkpoint.sync()

    # ------------------------------------------------------------------ restoring

    def restore_or_initialize(self) -> str | None:
        """Restore the newest checkpoint that is whole; without any, call `init_fn`.

        A damaged file is passed over with a warning. Differences are errors: a value here that is
        not in the file, another shape, dtype or optimizer, and a value in the file that nothing
        here takes, unless its owner has no values yet and may still make them.

        Returns:
            The path that was restored, None without any.

        Raises:
            CheckpointMismatchError: the newest whole file is of other objects; nothing is changed.
            CheckpointError: there are files, and all are damaged.
        """
        candidates = self._candidates()
        for position, path in enumerate(candidates):
            try:
                self._checkpoint._restore(path, strict=True)
            except CheckpointMismatchError:
                raise
            except (CheckpointError, NotFoundError) as error:
                older = candidates[position + 1 :]
                if not older:
                    raise CheckpointError(
                        f"no checkpoint in {self._directory} can be used; the oldest: {error}"
                    ) from error
                warnings.warn(
                    f"{error}. Going on to {older[0]}", DamagedCheckpointWarning, stacklevel=2
                )
                continue
            if self._step_counter is not None:
                self._last_step = int(self._step_counter.numpy())
            return path
        if self._init_fn is not None:
            self._init_fn()
        return None

    def _candidates(self) -> list[str]:
        """All files of this manager, newest first; by their number where damaged."""
        names = [path.name for path, _ in numbered(Path(self._directory), self._name)]
        pattern = re.compile(re.escape(self._name) + r"-(\d+)")
        file_names = os.listdir(self._directory) if os.path.isdir(self._directory) else []
        number = {match[0]: int(match[1]) for match in map(pattern.fullmatch, file_names) if match}
        damaged = set(number) - set(names)
        for name in sorted(damaged, key=number.__getitem__):
            before = [i for i, other in enumerate(names) if number[other] < number[name]]
            names.insert(before[-1] + 1 if before else 0, name)
        return [self._path(name) for name in reversed(names)]


class _Keeping:
    """What a manager has to do with one save: a note for the file, and the removal afterwards."""

    def __init__(self, manager: CheckpointManager, metric: float | None) -> None:
        self._manager = manager
        self._metric = metric
        self._kept = _Kept()
        self._gone: list[str] = []

    def note(self, path: str) -> dict[str, Any]:
        """What goes into the manifest of `path`."""
        name = os.path.basename(path)
        self._kept, self._gone = self._manager._plan(name, self._metric)
        self._manager._planned = self._kept
        return {_NOTE: asdict(self._kept)}

    def written(self) -> None:
        """The file is safe: remove what is too many."""
        present = tuple(n for n in self._kept.recent if os.path.exists(self._manager._path(n)))
        self._manager._kept = replace(self._kept, recent=present)
        self._manager._remove(self._gone)

    def written_elsewhere(self, path: str) -> None:
        """Another process writes the file `path`, and removes what is too many."""
        self.note(path)
        self._manager._kept = self._kept

    def failed(self) -> None:
        """The file was not written: everything stays."""
        self._manager._planned = self._manager._kept
