"""`Checkpoint`: save and restore what a tree of objects holds; `latest_checkpoint`."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import numpy as np

from trainkit.checkpoints.background import BackgroundWriter
from trainkit.checkpoints.format.manifest import manifest
from trainkit.checkpoints.format.reader import SavedFile, order_of
from trainkit.checkpoints.format.writer import (
    FORMAT,
    CheckpointOptions,
    Entry,
    after_writing,
    as_json,
    write_file,
)
from trainkit.checkpoints.replicas import whole_state
from trainkit.checkpoints.restore.matching import COUNTER
from trainkit.checkpoints.restore.object_graph import SavePlan, slot_variables
from trainkit.checkpoints.restore.restoration import Restore
from trainkit.checkpoints.restore.status import NothingRestored, RestoreStatus
from trainkit.checkpoints.tree_html import tree_html
from trainkit.core.errors import CheckpointError, InvalidArgumentError
from trainkit.core.files.local_paths import local_path
from trainkit.core.trackable import Trackable, set_silently, tracked
from trainkit.core.variable import Variable

_NUMBERED = re.compile(r"^(?P<prefix>.*)-(?P<number>\d+)$", re.DOTALL)


class Checkpoint(Trackable):
    """A group of objects that are saved and restored together.

    Values are matched by the path of attributes that leads to them, not by names or order. A part
    that does not exist yet when a file is restored takes its value the moment it is created.

    Args:
        root: an object whose own parts stand at the top of the file.
        **parts: objects by the name that they have in the file: models, optimizers, metrics,
            variables,
            generators, iterators, other checkpoints; lists and dicts of these.

    Attributes:
        save_counter: how often `save` was called, int64; made when it is first asked for.

    Raises:
        InvalidArgumentError: an object holds no state that could be saved, or `root` has a part of
            that name.

    >>> import tempfile
    >>> x = Variable(2.0)
    >>> checkpoint = Checkpoint(x=x)
    >>> path = checkpoint.save(tempfile.mkdtemp() + "/ckpt")
    >>> x.assign(11.0).numpy() and checkpoint.restore(path).assert_consumed() and float(x)
    2.0
    """

    _untracked = frozenset({"_stands_for"})
    _failed: set[int]

    def __init__(self, root: Trackable | None = None, **parts: Any) -> None:
        if root is not None:
            _require_state("root", root)
        self._stands_for = root
        set_silently(self, _failed=set())  # counts of saves that failed in the background
        for name, part in parts.items():
            part = tracked(part)
            _require_state(name, part)
            if root is not None and name in type(root).parts(root):
                raise InvalidArgumentError(
                    f"Checkpoint: the root has a part called {name!r} already"
                )
            setattr(self, name, part)

    def __getattr__(self, name: str) -> Any:
        if name == COUNTER:  # not there before the first save
            return self._counter()
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        parts = [f"{name}={type(part).__name__}" for name, part in self.parts().items()]
        root = "" if self._stands_for is None else f" of {type(self._stands_for).__name__}"
        saves = f", {int(self.save_counter)} saves" if COUNTER in self.__dict__ else ""
        return f"<{type(self).__name__}{root}: {', '.join(parts) or 'nothing'}{saves}>"

    def _repr_html_(self) -> str:
        """What notebooks show: the tree of what is saved."""
        return tree_html(repr(self), self)

    # ------------------------------------------------------------------ the tree

    def parts(self) -> dict[str, Trackable]:
        """The parts of the root, then those given by name."""
        root = self._stands_for
        return {**(type(root).parts(root) if root is not None else {}), **super().parts()}

    def state_arrays(self) -> dict[str, Any]:
        """The arrays of the root."""
        root = self._stands_for
        return {} if root is None else type(root).state_arrays(root)

    def load_state_arrays(self, arrays: dict[str, Any]) -> None:
        """Give the root its arrays back."""
        root = self._stands_for
        if root is not None:
            type(root).load_state_arrays(root, arrays)

    def slot_variables(self) -> list[tuple[str, Any, Any]]:
        """The slots of the root, when that is an optimizer."""
        return [] if self._stands_for is None else slot_variables(self._stands_for)

    @property
    def _checkpoint_kind(self) -> str:
        root = self._stands_for
        return type(self).__name__ if root is None else type(root).__name__

    def _before_restore(self, saved: dict[str, Any]) -> None:
        """Make the counter when the file has one."""
        if COUNTER in saved:
            self._counter()

    def _counter(self) -> Variable:
        if COUNTER not in self.__dict__:
            self.save_counter = Variable(np.int64(0), trainable=False, name=COUNTER, dtype="int64")
        return self.save_counter

    # ------------------------------------------------------------------ saving

    def save(
        self, file_prefix: str | os.PathLike[str], options: CheckpointOptions | None = None
    ) -> str:
        """Write a numbered checkpoint.

        Args:
            file_prefix: folder and beginning of the file's name, such as `"./run/ckpt"`.
            options: how values are stored.

        Returns:
            The path of the file: `file_prefix`, a dash and the new value of `save_counter`.

        Raises:
            OSError: it can't be written. An older file of that name is untouched, the counter too.
        """
        return self._save(local_path(file_prefix), None, options, None)

    def _save(
        self, prefix: str, number: int | None, options: CheckpointOptions | None, keeping: Any
    ) -> str:
        """Count and write; `keeping` is what a manager wants to be called with."""
        counter = self._counter()
        self._count_back()
        count = int(counter.numpy()) + 1
        counter.assign(np.int64(count))
        try:
            path = self._write(
                f"{prefix}-{count if number is None else number}", options, keeping, count
            )
        except BaseException:
            counter.assign(np.int64(count - 1))
            self._failed.discard(count)
            self._count_back()
            raise
        return _announce(path, options)

    def _count_back(self) -> None:
        """Take back the last counts, as far as these saves have failed in the background."""
        while self._failed and int(self.save_counter.numpy()) in self._failed:
            count = int(self.save_counter.numpy())
            self._failed.discard(count)
            self.save_counter.assign(np.int64(count - 1))

    def write(
        self, file_prefix: str | os.PathLike[str], options: CheckpointOptions | None = None
    ) -> str:
        """Write a checkpoint under exactly this path, without counting it.

        Args:
            file_prefix: path of the file.
            options: how values are stored.

        Returns:
            The path.

        Raises:
            OSError: it can't be written. An older file of that name is untouched.
        """
        return _announce(self._write(local_path(file_prefix), options, None), options)

    def _write(
        self, path: str, options: CheckpointOptions | None, keeping: Any, count: int | None = None
    ) -> str:
        with whole_state(self) as writes:
            if writes:
                self._write_whole(path, options, keeping, count)
            elif keeping is not None:
                keeping.written_elsewhere(path)
        return path

    def _write_whole(
        self, path: str, options: CheckpointOptions | None, keeping: Any, count: int | None
    ) -> None:
        plan = SavePlan(self)
        notes = {} if keeping is None else keeping.note(path)
        root = {"format": FORMAT, "manifest": as_json(manifest(self, notes))}
        if plan.cyclic:
            root["cycles"] = "yes"

        def write(entries: list[Entry]) -> None:
            try:
                write_file(path, entries, root, options, next_order(path))
            except BaseException:
                if count is not None:
                    self._failed.add(count)
                if keeping is not None:
                    keeping.failed()
                raise
            if keeping is not None:
                keeping.written()
            if options is not None and options.enable_async:
                after_writing(path, options)

        try:
            if options is None or not options.enable_async:
                self.sync()
            else:
                self._background().submit(plan.entries, write)
                return
        except BaseException:
            if keeping is not None:
                keeping.failed()
            raise
        write(plan.entries)

    def _background(self) -> BackgroundWriter:
        writer = self.__dict__.get("_writer")
        if writer is None:
            writer = BackgroundWriter()
            set_silently(self, _writer=writer)
        return writer

    def sync(self) -> None:
        """Wait until everything that was saved in the background is on the disk.

        Raises:
            OSError: something could not be written.
        """
        writer = self.__dict__.get("_writer")
        if writer is not None:
            try:
                writer.wait()
            finally:
                self._count_back()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_writer"}

    # ------------------------------------------------------------------ restoring

    def restore(
        self, save_path: str | os.PathLike[str] | None, options: CheckpointOptions | None = None
    ) -> RestoreStatus | NothingRestored:
        """Take the values of a checkpoint that `save` wrote.

        The whole file is checked before the first variable changes. What does not exist yet is
        restored when it is created; what has no counterpart is left as it is, and shown by the
        status.

        Args:
            save_path: what `save` returned or `latest_checkpoint` found; None does nothing.
            options: how the values were stored is known from the file; of use here is
                `experimental_skip_slot_variables`.

        Returns:
            A status to assert on.

        Raises:
            NotFoundError: there is no such file.
            CheckpointError: it is damaged, hostile, or not a checkpoint; nothing is changed.
            CheckpointMismatchError: a value has another shape or dtype; nothing is changed.
        """
        if save_path is None:
            return NothingRestored()
        self.sync()
        status = self.read(save_path, options)
        self._counter()
        return status

    def read(
        self, save_path: str | os.PathLike[str], options: CheckpointOptions | None = None
    ) -> RestoreStatus:
        """Take the values of a checkpoint that `write` wrote; see `restore`."""
        skip = options is not None and options.experimental_skip_slot_variables
        return RestoreStatus(self._restore(save_path, strict=False, skip_slots=skip), self)

    def _restore(
        self, path: str | os.PathLike[str], strict: bool, skip_slots: bool = False
    ) -> Restore:
        saved = SavedFile(path)
        try:
            saved.require_checkpoint()
        except CheckpointError:
            saved.close()
            raise
        restore = Restore(saved, self, skip_slots)
        restore.start(strict)
        return restore


def _announce(path: str, options: CheckpointOptions | None) -> str:
    """`path`, once those who asked know that it is written; another thread tells of its own."""
    if options is not None and not options.enable_async:
        after_writing(path, options)
    return path


def _require_state(name: str, part: Any) -> None:
    if not isinstance(part, Trackable) or (isinstance(part, Variable) and name == "root"):
        raise InvalidArgumentError(
            f"Checkpoint: {name} is a {type(part).__name__}, which can't be saved by "
            "itself. Variables, layers, models, optimizers, metrics, iterators of datasets, "
            "generators and tk.Module objects can; keep a number or an array in a tk.Variable."
        )


def next_order(path: str) -> int:
    """The order of a file that is written now: the time, but later than its numbered siblings."""
    match = _NUMBERED.match(os.path.basename(path))
    now = time.time_ns()
    if not match:
        return now
    orders = [order for _, order in numbered(Path(path).parent, match["prefix"])]
    return max([now, *(order + 1 for order in orders)])


def numbered(folder: Path, prefix: str | None = None) -> list[tuple[Path, int]]:
    """The whole files `PREFIX-NUMBER` in `folder` with their orders, sorted by these.

    Args:
        folder: need not exist.
        prefix: that of the files; None takes all.
    """
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    entries = []
    for name in names:
        match = _NUMBERED.match(name)
        if match and prefix in (None, match["prefix"]):
            order = order_of(folder / name)
            if order is not None:
                entries.append((order, int(match["number"]), name))
    return [(folder / name, order) for order, _, name in sorted(entries)]


def latest_checkpoint(
    checkpoint_dir: str | os.PathLike[str], latest_filename: str | None = None
) -> str | None:
    """The path of the checkpoint that was saved last in a folder.

    Files that were cut short are passed over.

    Args:
        checkpoint_dir: the folder.
        latest_filename: must be None: which one is the latest is known from the files themselves.

    Returns:
        The path, or None when there is no checkpoint or no folder.

    Raises:
        InvalidArgumentError: `latest_filename` was given.

    Example:
        >>> checkpoint = tk.train.Checkpoint(w=tk.Variable(1.0))
        >>> path = tk.checkpoints.CheckpointManager(checkpoint, "run").save()
        >>> tk.checkpoints.latest_checkpoint("run") == path
        True
    """
    if latest_filename is not None:
        raise InvalidArgumentError(
            "latest_checkpoint: latest_filename is not supported, no file lists the checkpoints"
        )
    checkpoint_dir = local_path(checkpoint_dir)
    checkpoints = numbered(Path(checkpoint_dir))
    return os.path.join(checkpoint_dir, checkpoints[-1][0].name) if checkpoints else None
