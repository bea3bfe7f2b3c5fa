"""What checkpoint files hold: lists of arrays, single arrays, and files as they appear."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from trainkit.checkpoints.checkpoint import latest_checkpoint, numbered
from trainkit.checkpoints.format.reader import SavedFile
from trainkit.core.errors import CheckpointError, NotFoundError
from trainkit.core.files.local_paths import local_path

PathLike = str | os.PathLike[str]


def _file_of(path: PathLike) -> str:
    """A checkpoint file; of a folder the latest."""
    if not os.path.isdir(path):
        return local_path(path, CheckpointError)
    latest = latest_checkpoint(path)
    if latest is None:
        raise NotFoundError(f"there is no checkpoint in the folder {local_path(path)}")
    return latest


class CheckpointReader:
    """The arrays in a checkpoint file, by their paths.

    Args:
        path: the file.

    Raises:
        NotFoundError: there is no such file.
        CheckpointError: it is damaged, or no checkpoint.
    """

    def __init__(self, path: PathLike) -> None:
        self._saved = SavedFile(path)
        self._nodes = {node.path: node for node in self._saved.arrays()}

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Shapes by path."""
        return {path: list(node.shape) for path, node in self._nodes.items()}

    def get_variable_to_dtype_map(self) -> dict[str, Any]:
        """Element types by path."""
        return {path: node.dtype for path, node in self._nodes.items()}

    def has_tensor(self, name: str) -> bool:
        """Whether there is an array at the path `name`."""
        return name in self._nodes

    def get_tensor(self, name: str) -> Any:
        """The array at the path `name`, as a NumPy array.

        Raises:
            NotFoundError: there is none; the message lists what is there.
            CheckpointError: its checksum is wrong.
        """
        if name not in self._nodes:
            array_names = ", ".join(sorted(self._nodes)) or "nothing"
            raise NotFoundError(f"{self._saved.name} has no array {name!r}; it has {array_names}")
        return self._saved.value(self._nodes[name])


def load_checkpoint(ckpt_dir_or_file: PathLike) -> CheckpointReader:
    """A reader of a checkpoint file, or of the latest in a folder.

    Args:
        ckpt_dir_or_file: path of a checkpoint, or of a folder, whose latest is taken.

    Raises:
        NotFoundError: there is no checkpoint.
        CheckpointError: it is damaged.

    Example:
        >>> path = tk.train.Checkpoint(w=tk.Variable([1.0, 2.0])).save("run/ckpt")
        >>> tk.train.load_checkpoint(path).get_tensor("w")
        array([1., 2.], dtype=float32)
    """
    return CheckpointReader(_file_of(ckpt_dir_or_file))


def list_variables(ckpt_dir_or_file: PathLike) -> list[tuple[str, list[int]]]:
    """Paths and shapes of all arrays of a checkpoint, sorted.

    Args:
        ckpt_dir_or_file: path of a checkpoint, or of a folder, whose latest is taken.

    Raises:
        NotFoundError: there is no checkpoint.
        CheckpointError: it is damaged.

    Example:
        >>> path = tk.train.Checkpoint(w=tk.Variable([1.0, 2.0])).save("run/ckpt")
        >>> [shape for name, shape in tk.train.list_variables(path) if name.startswith("w")]
        [[2]]
    """
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


def load_variable(ckpt_dir_or_file: PathLike, name: str) -> Any:
    """One array of a checkpoint, as a NumPy array.

    Args:
        ckpt_dir_or_file: path of a checkpoint, or of a folder, whose latest is taken.
        name: path of the array in it.

    Raises:
        NotFoundError: there is no checkpoint, or no array of that name in it.
        CheckpointError: it is damaged.

    Example:
        >>> path = tk.train.Checkpoint(w=tk.Variable([1.0, 2.0])).save("run/ckpt")
        >>> tk.train.load_variable(path, "w")
        array([1., 2.], dtype=float32)
    """
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name)


class CheckpointState(NamedTuple):
    """The checkpoints of a folder.

    Attributes:
        model_checkpoint_path: the latest.
        all_model_checkpoint_paths: all, the latest last.
    """

    model_checkpoint_path: str
    all_model_checkpoint_paths: list[str]


def get_checkpoint_state(
    checkpoint_dir: PathLike, latest_filename: str | None = None
) -> CheckpointState | None:
    """The checkpoints of a folder, or None where there are none.

    Args:
        checkpoint_dir: the folder.
        latest_filename: only None; no file lists the checkpoints.

    Raises:
        InvalidArgumentError: `latest_filename` is given.

    Example:
        >>> path = tk.train.CheckpointManager(tk.train.Checkpoint(w=tk.Variable(1.0)), "run").save()
        >>> tk.train.get_checkpoint_state("run").model_checkpoint_path == path
        True
    """
    latest = latest_checkpoint(checkpoint_dir, latest_filename)
    if latest is None:
        return None
    folder = local_path(checkpoint_dir)
    paths = [
        os.path.join(folder, path.name) for path, _ in numbered(Path(local_path(checkpoint_dir)))
    ]
    return CheckpointState(latest, paths)


def checkpoints_iterator(
    checkpoint_dir: PathLike,
    min_interval_secs: float = 0,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
) -> Iterator[str]:
    """The latest checkpoint of a folder, and each newer one when it appears.

    Args:
        checkpoint_dir: the folder, which may be made later.
        min_interval_secs: least time between two checkpoints, in seconds.
        timeout: longest wait for one, in seconds; forever by default.
        timeout_fn: called after a timeout; the iteration ends when it gives True, or without it.

    Example:
        >>> path = tk.train.CheckpointManager(tk.train.Checkpoint(w=tk.Variable(1.0)), "run").save()
        >>> next(tk.train.checkpoints_iterator("run", timeout=0)) == path
        True
    """
    previous: str | None = None
    while True:
        latest = _wait_for_new(checkpoint_dir, previous, timeout)
        if latest is None:
            if timeout_fn is None or timeout_fn():
                return
            continue
        started = time.monotonic()
        previous = latest
        yield latest
        pause = started + min_interval_secs - time.monotonic()
        if pause > 0:
            time.sleep(pause)


def _wait_for_new(folder: PathLike, previous: str | None, timeout: float | None) -> str | None:
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        latest = latest_checkpoint(folder)
        if latest is not None and latest != previous:
            return latest
        left = 1.0 if end is None else end - time.monotonic()
        if left <= 0:
            return None
        time.sleep(min(left, 1.0))
