"""Object files taken apart, and whether they are whole before they are put into memory.

LLVM's loader believes what stands in an object file: half of one, or one for another processor,
ends the process. So all sizes and positions in it are compared with the file first. Only ELF, the
form on Linux, is taken apart; of what LLVM writes on macOS and Windows it is the loader's.

Source: System V ABI, chapter 4 (object files), and its supplements for x86-64 and AArch64.
"""

from __future__ import annotations

import os
import struct
import sys
from typing import NamedTuple

from trainkit.core.cpu.cost_model import KEPT_BYTES

_MAGIC = b"\x7fELF\2\1\1"  # of 64 bits, the low byte first
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
_RELOCATABLE = 1
_PROCESSORS = {"x86_64": 62, "amd64": 62, "aarch64": 183, "arm64": 183}
_NULL, _SYMBOLS, _STRINGS, _RELOCATIONS, _NO_BITS, _SHORT_RELOCATIONS = 0, 2, 3, 4, 8, 9
_UNDEFINED, _ABSOLUTE, _COMMON = 0, 0xFFF1, 0xFFF2
_WEAK = 2
# Kinds of relocations that fill eight bytes; all others that are used fill four.
_LONG = {62: {1, 24, 25, 29}, 183: {257, 260}}
_MOST_ALIGNMENT = 1 << 12
_OWN_TABLE = "_GLOBAL_OFFSET_TABLE_"  # which the loader makes


class Section(NamedTuple):
    """A header of a section, as it stands in the file."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class Symbol(NamedTuple):
    """An entry of the table of symbols.

    Attributes:
        name: may be empty, as those of sections are.
        section: its section's number.
        value: where it lies in that section.
        is_global: whether other objects may refer to it.
        is_undefined: whether it lies in another object.
    """

    name: str
    section: int
    value: int
    is_global: bool
    is_undefined: bool


def names_outside(code: bytes) -> set[str]:
    """What object code needs from outside of it, by name.

    Raises:
        ValueError: it is not whole, or for another processor.
    """
    if not sys.platform.startswith("linux"):
        return set()
    try:
        return ObjectFile(code).names_outside()
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"object code is cut off or damaged: {error}") from error


class ObjectFile:
    """An ELF file of the kind that compilers write.

    Attributes:
        sections: the headers of its sections.
    """

    def __init__(self, code: bytes) -> None:
        self._code = code
        header = _HEADER.unpack_from(code)
        ident, kind, processor, start = header[0], header[1], header[2], header[6]
        count, names = header[12], header[13]
        _require(ident.startswith(_MAGIC) and kind == _RELOCATABLE, "kind of file")
        # On a machine that is not listed any processor is taken for its own, which leaves it to
        # LLVM.
        own_processor = _PROCESSORS.get(os.uname().machine.lower(), processor)
        _require(processor == own_processor, "processor")
        self._long = _LONG.get(processor, set())
        # A count of 0 stands for more sections than the field can tell; compilers' files have
        # fewer.
        _require(header[11] == _SECTION.size and count > 0, "table of sections")
        _require(start + count * _SECTION.size <= len(code), "table of sections")
        self.sections = [
            Section(*_SECTION.unpack_from(code, start + i * _SECTION.size)) for i in range(count)
        ]
        for section in self.sections:
            self._check_section(section)
        self._names = self._strings(names)

    def name(self, index: int) -> str:
        """What a section is called."""
        return _text(self._names, self.sections[index].name)

    def has_content(self, index: int) -> bool:
        """Whether a section has bytes in the file; others are zeros."""
        return self.sections[index].kind not in (_NULL, _NO_BITS)

    def content(self, index: int) -> bytes:
        """The bytes of a section."""
        return self._content(self.sections[index])

    def symbols(self) -> list[Symbol]:
        """The table of symbols, of which a compiler writes one."""
        for section in self.sections:
            if section.kind == _SYMBOLS:
                strings = self._strings(section.link)
                return [
                    Symbol(_text(strings, name), index, value, info >> 4 != 0, index == _UNDEFINED)
                    for name, info, _, index, value, _ in self._entries(section, _SYMBOL)
                ]
        return []

    def relocations(self) -> list[tuple[int, list[tuple[int, ...]]]]:
        """By sections, by their numbers: an (offset, kind, symbol, addend) of each relocation."""
        return [
            (section.info, self._entries(section, _RELOCATION))
            for section in self.sections
            if section.kind == _RELOCATIONS
        ]

    def names_outside(self) -> set[str]:
        """Check symbols, relocations and tables of frames; the names of what is undefined."""
        names: set[str] = set()
        for section in self.sections:
            if section.kind == _SYMBOLS:
                names |= self._check_symbols(section)
            elif section.kind == _RELOCATIONS:
                self._check_relocations(section)
            elif _text(self._names, section.name) == ".eh_frame" and section.kind != _NO_BITS:
                self._check_frames(section)
        return names - {_OWN_TABLE}

    def _check_section(self, section: Section) -> None:
        alignment = section.alignment
        # The loader rounds addresses up by it with bits, which only works for powers of two.
        _require(alignment <= _MOST_ALIGNMENT and not alignment & (alignment - 1), "alignment")
        _require(section.kind != _SHORT_RELOCATIONS, "kind of relocations")
        # Zeros take no room in the file, so its length bounds nothing.
        if section.kind == _NO_BITS:
            _require(section.size <= KEPT_BYTES, "size of a section")
        elif section.kind != _NULL:
            _require(section.offset + section.size <= len(self._code), "size of a section")

    def _content(self, section: Section) -> bytes:
        return self._code[section.offset : section.offset + section.size]

    def _strings(self, index: int) -> bytes:
        section = self.sections[index]
        strings = self._content(section)
        # With a zero at the end, any name that starts inside ends inside.
        _require(section.kind == _STRINGS and strings.endswith(b"\0"), "table of names")
        return strings

    def _entries(self, section: Section, form: struct.Struct) -> list[tuple[int, ...]]:
        is_whole = section.entry_size == form.size and section.size % form.size == 0
        _require(is_whole, "size of a table")
        return list(form.iter_unpack(self._content(section)))

    def _check_symbols(self, section: Section) -> set[str]:
        strings, undefined = self._strings(section.link), set()
        for name, info, _, index, value, size in self._entries(section, _SYMBOL):
            text = _text(strings, name)
            if index == _UNDEFINED:
                # A weak symbol may be missing: it is 0 then, for which the code is ready.
                if text and info >> 4 != _WEAK:
                    undefined.add(text)
            elif index not in (_ABSOLUTE, _COMMON):
                # LLVM turns it into an address, and code that calls it would run what lies there.
                _require(value + size <= self.sections[index].size, f"symbol {text}")
            else:
                _require(size <= KEPT_BYTES, f"symbol {text}")
        return undefined

    def _check_relocations(self, section: Section) -> None:
        symbols = self.sections[section.link]
        _require(symbols.kind == _SYMBOLS, "symbols of relocations")
        count, room = symbols.size // _SYMBOL.size, self.sections[section.info].size
        for offset, kind, symbol, _ in self._entries(section, _RELOCATION):
            # The loader writes this many bytes at the offset, inside of the section or not.
            width = 8 if kind in self._long else 4
            _require(symbol < count and offset + width <= room, "position of a relocation")

    def _check_frames(self, section: Section) -> None:
        """Check that entries of a table of frames follow one another to its end."""
        content, position = self._content(section), 0
        while position < len(content):
            # Unwinding reads from entry to entry by these lengths, and trusts them.
            (length,) = struct.unpack_from("<I", content, position)
            _require(length == 0 or 4 <= length <= len(content) - position - 4, "table of frames")
            position += 4 + length


def _text(strings: bytes, start: int) -> str:
    _require(start < len(strings), "position of a name")
    return strings[start : strings.index(b"\0", start)].decode()


def _require(holds: bool, part: str) -> None:
    if not holds:
        raise ValueError(f"object code is damaged, or of another machine: {part}")
