"""`Journal`: what a journal says, as far as it can be trusted; it may grow while it is read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from trainkit.checkpoints.format.regular_files import opened_regular
from trainkit.core.errors import CheckpointError, NotFoundError
from trainkit.core.files.local_paths import local_path
from trainkit.journal import lines
from trainkit.journal.lines import BadLine, Step

_CHUNK = 1 << 20
_MOST_DAMAGE = 20
_MOST_RECORDS = 20_000_000


class JournalError(CheckpointError):
    """A journal can't be read at all: it is foreign, or of a later version."""


class Journal:
    """A journal that is read, and read on with `update`.

    A line whose link does not fit is passed over; if a later line continues the chain, it was only
    torn by a crash. If none does, nothing after it is trusted.

    Args:
        folder: of the run.
        most_lines: how many lines to read; by default all.

    Attributes:
        header: the first line.
        steps: the steps, without those that were done again after a restart.
        records: the other lines, in order; `records_of` chooses by kind.
        damage: what is wrong with the file, in words; empty for a whole one.
        head: hash of the last line that is trusted, which stands for all before it.
        size: bytes that were read.

    Raises:
        NotFoundError: there is no journal.
        JournalError: it is no journal, or of a format that this version does not know.
    """

    def __init__(self, folder: str | os.PathLike[str], most_lines: int | None = None) -> None:
        self.folder = Path(local_path(folder))
        self._most_lines = most_lines
        self.path = self.folder / lines.FILE
        self.header: dict[str, Any] = {}
        self.steps: list[Step] = []
        self.records: list[dict[str, Any]] = []
        self.damage: list[str] = []
        self.head = lines.START
        self.size = self.count = 0
        self._names: list[str] = []
        self._rest = b""
        self._skipped: list[str] = []
        self._skipping = False
        if not self.path.is_file():
            raise NotFoundError(f"{self.folder} holds no run: there is no {lines.FILE} in it")
        self.update()
        if not self.header:
            raise JournalError(f"{self.path} is no journal of a run: {self._why_empty()}")

    def _why_empty(self) -> str:
        return self._skipped[0] if self._skipped else "its first line was not written to its end"

    @property
    def broken(self) -> bool:
        """Whether lines at the end are not to be trusted."""
        return bool(self._skipped)

    @property
    def last_step(self) -> int:
        """The number of the last step; 0 before the first."""
        return self.steps[-1].step if self.steps else 0

    def records_of(self, kind: str) -> list[dict[str, Any]]:
        """The records of a kind, in order."""
        return [record for record in self.records if record.get("kind") == kind]

    def at(self, step: int) -> Step | None:
        """The line of a step, `None` where there is none."""
        low, high = 0, len(self.steps)
        while low < high:
            middle = (low + high) // 2
            if self.steps[middle].step < step:
                low = middle + 1
            else:
                high = middle
        return self.steps[low] if low < len(self.steps) and self.steps[low].step == step else None

    def update(self) -> int:
        """Read what was appended since; how many lines were taken."""
        before = self.count
        with opened_regular(self.path, "journal") as file:
            file.seek(self.size)
            while chunk := file.read(_CHUNK):
                self.size += len(chunk)
                full_lines = (self._rest + chunk).split(b"\n")
                self._rest = full_lines.pop()
                for line in full_lines:
                    self._take(line)
                if len(self._rest) > lines.MOST_BYTES:
                    self._skip(f"a line of more than {lines.MOST_BYTES} bytes")
                    self._rest, self._skipping = b"", True
        return self.count - before

    def _take(self, line: bytes) -> None:
        if self._most_lines is not None and self.count >= self._most_lines:
            return
        if self._skipping:  # the end of a line that was too long
            self._skipping = False
            return
        digest = lines.hash_of(line, self.head) if len(line) <= lines.MOST_BYTES else None
        if digest is None:
            self._skip(f"line {self.count + len(self._skipped) + 1} does not fit to those before")
            return
        try:
            self._add(lines.decode(line))
        except BadLine as error:
            self._skip(str(error))
            return
        if self._skipped:
            self._note(f"{len(self._skipped)} torn lines after line {self.count}")
            self._skipped = []
        self.head, self.count = digest, self.count + 1

    def _skip(self, reason: str) -> None:
        if len(self._skipped) < _MOST_DAMAGE:
            self._skipped.append(reason)

    def _note(self, fault: str) -> None:
        if len(self.damage) < _MOST_DAMAGE:
            self.damage.append(fault)

    def _add(self, record: dict[str, Any]) -> None:
        if not self.header:
            self._begin(record)
        elif "n" in record and "kind" not in record:
            step = lines.step_of(record, self._names)
            if step.step <= self.last_step:
                raise BadLine(f"step {step.step} comes after step {self.last_step}")
            if len(self.steps) >= _MOST_RECORDS:
                raise BadLine(f"more than {_MOST_RECORDS} steps")
            self.steps.append(step)
        else:
            self._add_record(record)

    def _begin(self, record: dict[str, Any]) -> None:
        version = record.get("trainkit_run")
        if type(version) is not int:
            raise BadLine("the first line has no 'trainkit_run'")
        if version > lines.FORMAT:
            raise JournalError(
                f"{self.path} is of format {version}, written by trainkit "
                f"{record.get('versions', {}).get('trainkit', '?')!s:.30}; this version knows "
                f"formats up to {lines.FORMAT}: install a newer trainkit"
            )
        self.header = record

    def _add_record(self, record: dict[str, Any]) -> None:
        kind = record.get("kind")
        if not isinstance(kind, str):
            raise BadLine(f"a record has no kind: {record!r:.60}")
        if kind == "names":
            names = record.get("metrics")
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise BadLine("a record of names has no list of names")
            self._names = names
        if kind == "resume":
            self._go_back(record)
        self.records.append(record)

    def _go_back(self, record: dict[str, Any]) -> None:
        """Drop what was done again after a restart."""
        step = record.get("n")
        if type(step) is not int or step < 0:
            raise BadLine(f"a restart at step {step!r:.30}")
        while self.steps and self.steps[-1].step > step:
            self.steps.pop()
        redone = ("epoch", "leaves", "stats", "end")
        self.records = [
            old
            for old in self.records
            if not (old.get("kind") in redone and _number_of(old) > step)
        ]

    def problems(self) -> str:
        """What is wrong with the file, in words; nothing for a whole one."""
        said = list(self.damage)
        if self._skipped:
            said.append(
                f"{self._skipped[0]}: what stands after line {self.count} is torn or was changed, "
                f"and is left out"
            )
        elif self._rest:
            said.append(f"the last line was not written to its end, after line {self.count}")
        return "; ".join(said)


def _number_of(record: dict[str, Any]) -> int:
    step = record.get("n")
    return step if type(step) is int else 0
