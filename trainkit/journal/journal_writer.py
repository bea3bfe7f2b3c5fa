"""`JournalWriter`: appends to a journal, many lines at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from trainkit.core.files.local_paths import local_path
from trainkit.journal import lines
from trainkit.journal.lines import Step


class JournalWriter:
    """Takes what is to be written, and writes it all together on `flush`.

    Lines are appended in one call each time, so a process that is killed leaves whole lines and at
    most one torn one.

    Args:
        folder: of the run; it is made when it is missing.
        head: hash of the last line of a journal that goes on; by default a new file is made.
        read: makes records and steps of what waits, if these are something else until then.

    Attributes:
        waiting: what is to be written, in its order. A loop appends to it by itself, since a call
            of a function in each step would cost more than the rest.
        head: hash of the last line that was written.

    Raises:
        FileExistsError: there is a journal already, and no `head`.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        head: bytes | None = None,
        read: Callable[[list[Any]], Iterable[Any]] = iter,
    ) -> None:
        self.folder = Path(local_path(folder))
        self.folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        if head is None:
            flags |= os.O_EXCL
        self.head = lines.START if head is None else head
        self._fd = os.open(self.folder / lines.FILE, flags, 0o666)
        self.waiting: list[Any] = []
        self._read = read
        self._torn = head is not None  # perhaps: the first line begins on a line of its own
        self._names: list[str] = []

    def header(self, fields: dict[str, Any]) -> None:
        """Write the first line."""
        self._append([lines.encode({"trainkit_run": lines.FORMAT, **fields})])

    def record(self, kind: str, **fields: Any) -> None:
        """Note a record.

        Args:
            kind: of it.
            **fields: plain values, nested; NaN and infinity become strings.
        """
        self.waiting.append({"kind": kind, **fields})

    def step(self, values: Step) -> None:
        """Note a step."""
        self.waiting.append(values)

    def flush(self, sync: bool = False) -> None:
        """Write all that waits.

        Args:
            sync: wait for the disk too.
        """
        waiting = self.waiting[:]
        self.waiting.clear()
        bodies: list[bytes] = []
        try:
            for item in self._read(waiting):
                if type(item) is dict:
                    bodies.append(lines.encode(item))
                    continue
                metrics = item[3]
                names = list(metrics)
                if names != self._names:
                    self._names = names
                    bodies.append(lines.encode({"kind": "names", "metrics": names}))
                bodies.append(lines.encode_step(item, list(metrics.values())))
        finally:  # what can't be read, such as a tensor of a device that failed, keeps no line back
            self._append(bodies)
        if sync:
            os.fsync(self._fd)

    def _append(self, bodies: list[bytes]) -> None:
        if not bodies:
            return
        parts = [b"\n"] if self._torn else []
        head = self.head
        for body in bodies:
            line, head = lines.sealed(body, head)
            parts.append(line)
        data = memoryview(b"".join(parts))
        while data:
            data = data[os.write(self._fd, data) :]
        self.head, self._torn = head, False

    def close(self) -> None:
        """Write all that waits, and close the file; a second call does nothing."""
        if self._fd < 0:
            return
        try:
            self.flush()
        finally:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def __del__(self) -> None:
        fd, self._fd = getattr(self, "_fd", -1), -1
        if fd >= 0:
            os.close(fd)
