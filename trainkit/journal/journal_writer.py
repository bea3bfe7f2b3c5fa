"""`JournalWriter`: appends to a journal, away from the steps that it tells of."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from trainkit.core.files.local_paths import local_path
from trainkit.journal import lines
from trainkit.journal.lines import Step

_MOST_WAITING = 512
_MOST_SECONDS = 1.0


class JournalWriter:
    """Takes what is to be written, and writes it now and then: a few times a second at most.

    Lines are appended in one call each time, so a process that is killed leaves whole lines and at
    most one torn one.

    Args:
        folder: of the run; it is made when it is missing.
        head: hash of the last line of a journal that goes on; by default a new file is made.

    Raises:
        FileExistsError: there is a journal already, and no `head`.
    """

    def __init__(self, folder: str | os.PathLike[str], head: bytes | None = None) -> None:
        self.folder = Path(local_path(folder))
        self.folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        if head is None:
            flags |= os.O_EXCL
        self.head = lines.START if head is None else head
        self._fd = os.open(self.folder / lines.FILE, flags, 0o666)
        self._waiting: list[Any] = []
        self._last_flush = time.perf_counter()
        self._torn = head is not None  # perhaps: the first line begins on a line of its own
        self._names: list[str] | None = None

    def record(self, kind: str, **fields: Any) -> None:
        """Note a record, which is written with what waits.

        Args:
            kind: of it.
            **fields: plain values, nested; NaN and infinity become strings.
        """
        self._waiting.append({"kind": kind, **fields})

    def header(self, fields: dict[str, Any]) -> None:
        """Write the first line."""
        self._append([lines.encode({"trainkit_run": lines.FORMAT, **fields})])

    def step(self, make: Any, facts: tuple[Any, ...] = (), now: float = 0.0) -> bool:
        """Note a step, and write all that waits if it is time to; whether it was.

        Args:
            make: a `Step`; or a function that gives it, called when it is written.
            facts: the arguments of that function.
            now: the time by `time.perf_counter`.
        """
        waiting = self._waiting
        waiting.append(make if isinstance(make, Step) else (make, facts))
        if len(waiting) >= _MOST_WAITING or now - self._last_flush > _MOST_SECONDS:
            self.flush()
            return True
        return False

    def flush(self, sync: bool = False) -> None:
        """Write all that waits.

        Args:
            sync: wait for the disk too.
        """
        waiting, self._waiting = self._waiting, []
        bodies: list[bytes] = []
        for item in waiting:
            if isinstance(item, dict):
                bodies.append(lines.encode(item))
                continue
            step: Step = item if isinstance(item, Step) else item[0](*item[1])
            names = list(step.metrics)
            if names != (self._names or []):
                self._names = names
                bodies.append(lines.encode({"kind": "names", "metrics": names}))
            bodies.append(lines.encode_step(step, list(step.metrics.values())))
        self._append(bodies)
        if sync:
            os.fsync(self._fd)
        self._last_flush = time.perf_counter()

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
