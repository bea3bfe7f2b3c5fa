"""The values of a MessagePack file, whose byte strings stay where they are until they are used.

What a number, a text, a map and an extension look like says
https://github.com/msgpack/msgpack/blob/master/spec.md. Nothing in a file has a meaning here beyond
that: an extension is a number and a place.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from trainkit.checkpoints.format.positioned_io import read_at

MOST_VALUES = 500_000  # of a file, maps and keys among them; each leaves 300 bytes at most
LONGEST_TEXT = 1000  # bytes of a key; longer texts are skipped
_DEEPEST = 64
_WINDOW = 1 << 12  # bytes that are read at once: most of a file is skipped

_SIZED = {  # by code: what follows, and how many bytes its length takes
    0xC4: ("bytes", 1), 0xC5: ("bytes", 2), 0xC6: ("bytes", 4),
    0xC7: ("extension", 1), 0xC8: ("extension", 2), 0xC9: ("extension", 4),
    0xD9: ("text", 1), 0xDA: ("text", 2), 0xDB: ("text", 4),
    0xDC: ("list", 2), 0xDD: ("list", 4), 0xDE: ("map", 2), 0xDF: ("map", 4),
}  # fmt: skip
_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}


class MsgpackError(Exception):
    """A file is damaged, or asks for more than its size allows."""


@dataclass(frozen=True)
class Span:
    """A byte string, as its place in the file.

    Attributes:
        start: its first byte.
        size: how many there are.
    """

    start: int
    size: int


@dataclass(frozen=True)
class Extension:
    """A value of a type that the writer has defined.

    Attributes:
        kind: the number of the type.
        data: its place.
    """

    kind: int
    data: Span


class MsgpackReader:
    """Reads values of an open file one after the other.

    Maps are dicts, lists are dicts with the texts `"0"`, `"1"` ... as keys. Byte strings are a
    `Span`, and so are texts of more than `LONGEST_TEXT` bytes.

    Args:
        fd: the file.
        start: of the first value.
        end: behind the last one.
        budget: what is left of `MOST_VALUES`, shared by the readers of one file.

    Attributes:
        position: behind what was read.
    """

    def __init__(self, fd: int, start: int, end: int, budget: list[int]) -> None:
        self._fd, self.position, self._end = fd, start, end
        self._budget = budget
        self._window, self._window_start = b"", start

    def read(self, depth: int = 0) -> Any:
        """The next value.

        Raises:
            MsgpackError: it is damaged, or there is more than the limits allow.
        """
        self._budget[0] -= 1
        if self._budget[0] < 0 or depth > _DEEPEST:
            raise MsgpackError(
                f"it has more than {MOST_VALUES:,} values"
                if self._budget[0] < 0
                else f"it is nested more than {_DEEPEST} deep"
            )
        code = self._take(1)[0]
        if code < 0x80:
            return code
        if code >= 0xE0:
            return code - 0x100
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        if code in _NUMBERS:
            form = _NUMBERS[code]
            return struct.unpack(form, self._take(struct.calcsize(form)))[0]
        kind, size = self._kind_and_size(code)
        if kind == "map":
            return self._map(size, depth)
        if kind == "list":
            self._require(size)
            return {str(number): self.read(depth + 1) for number in range(size)}
        if kind == "text":
            return self._text(size)
        if kind == "extension":
            number = struct.unpack("b", self._take(1))[0]
            return Extension(number, self._skip(size))
        return self._skip(size)

    def _kind_and_size(self, code: int) -> tuple[str, int]:
        if code < 0x90:
            return "map", code & 0x0F
        if code < 0xA0:
            return "list", code & 0x0F
        if code < 0xC0:
            return "text", code & 0x1F
        if 0xD4 <= code <= 0xD8:
            return "extension", 1 << (code - 0xD4)
        if code not in _SIZED:
            raise MsgpackError(f"byte {self.position - 1} is {code:#x}, which begins no value")
        kind, width = _SIZED[code]
        return kind, int.from_bytes(self._take(width), "big")

    def _map(self, size: int, depth: int) -> dict[str, Any]:
        self._require(2 * size)
        entries: dict[str, Any] = {}
        for _ in range(size):
            key = self.read(depth + 1)
            if type(key) is not str:
                raise MsgpackError(f"a key before byte {self.position} is no text, or too long")
            if key in entries:
                raise MsgpackError(f"the key {key[:80]!r} stands twice in one map")
            entries[key] = self.read(depth + 1)
        return entries

    def _text(self, size: int) -> str | Span:
        if size > LONGEST_TEXT:
            return self._skip(size)
        data = self._take(size)
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise MsgpackError(f"the text {data[:40]!r} is not UTF-8") from None

    def _require(self, size: int) -> None:
        """Refuse a length before anything is read for it."""
        if size > self._end - self.position:
            raise MsgpackError(
                f"{size} bytes should follow byte {self.position}, and {self._end - self.position} "
                "do"
            )

    def _skip(self, size: int) -> Span:
        self._require(size)
        span = Span(self.position, size)
        self.position += size
        return span

    def _take(self, size: int) -> bytes:
        """The next bytes, of which there are at most `LONGEST_TEXT`."""
        self._require(size)
        start = self.position - self._window_start
        if not 0 <= start <= len(self._window) - size:
            self._window = read_at(self._fd, min(_WINDOW, self._end - self.position), self.position)
            self._window_start, start = self.position, 0
        part = self._window[start : start + size]
        if len(part) != size:
            raise MsgpackError(f"it is cut short at byte {self.position}")
        self.position += size
        return part
