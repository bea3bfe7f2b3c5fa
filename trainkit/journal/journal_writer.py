"""`JournalWriter`: appends to a journal, many lines at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from trainkit.core.dispatch import native
from trainkit.core.files.local_paths import local_path
from trainkit.core.files.output_folders import make_folder
from trainkit.journal import lines
from trainkit.journal.lines import Step
from trainkit.journal.step_reader import StepReader


class JournalWriter:
    """Takes what is to be written, and writes it all together on `flush`.

    Lines are appended in one call each time, so a process that is killed leaves whole lines and at
    most one torn one.

    Args:
        folder: of the run; it is made when it is missing.
        head: hash of the last line of a journal that goes on; by default a new file is made.
        reader: of the facts of steps, where a loop appends these to `waiting`.

    Attributes:
        waiting: what is to be written, in its order: records, steps, their facts, and times from
            which on the next step is counted. A loop appends to it by itself, since a call of a
            function in each step would cost more than the rest.
        head: hash of the last line that was written.

    Raises:
        FileExistsError: there is a journal already, and no `head`.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        head: bytes | None = None,
        reader: StepReader | None = None,
    ) -> None:
        self.folder = make_folder(local_path(folder), "RunJournal")
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        if head is None:
            flags |= os.O_EXCL
        self.head = lines.START if head is None else head
        self._fd = os.open(self.folder / lines.FILE, flags, 0o666)
        self.waiting: list[Any] = []
        self._reader = reader
        self._torn = head is not None  # perhaps: the first line begins on a line of its own
        self._names: list[str] = []

    def header(self, fields: dict[str, Any]) -> None:
        """Write the first line."""
        body = lines.encode({"trainkit_run": lines.FORMAT, **fields})
        line, head = lines.sealed(body, self.head)
        self._append([line], head)

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
        waiting, reader = self.waiting[:], self._reader
        self.waiting.clear()
        ready: list[bytes] = []
        head, written = self.head, 0
        usual_lines = native.NATIVE.usual_lines if reader is not None and native.is_on() else None
        try:
            while written < len(waiting):
                if usual_lines is not None:
                    written, head = usual_lines(
                        waiting, written, reader, self._names, head, ready, sha256, lines.STEP_ROOM
                    )
                    if written == len(waiting):
                        break
                for body in self._bodies_of(waiting[written]):
                    line, head = lines.sealed(body, head)
                    ready.append(line)
                written += 1
        finally:  # what can't be read, such as a tensor of a device that failed, keeps no line back
            self._append(ready, head)
        if sync:
            os.fsync(self._fd)

    def _bodies_of(self, item: Any) -> Iterator[bytes]:
        """The lines of something that waited, without their links."""
        if type(item) is dict:
            yield lines.encode(item)
            return
        if self._reader is not None:
            if type(item) is float:
                self._reader.end = item
                return
            if type(item) is tuple:
                item = self._reader.read(item)
        names = list(item.metrics)
        if names != self._names:
            self._names = names
            yield lines.encode({"kind": "names", "metrics": names})
        yield lines.encode_step(item, list(item.metrics.values()))

    def _append(self, ready: list[bytes], head: bytes) -> None:
        """Write lines, the last of which has the hash `head`."""
        if not ready:
            return
        data = memoryview(b"".join([b"\n", *ready] if self._torn else ready))
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
