"""Object code put into memory without LLVM: what was compiled elsewhere runs here.

LLVM's library takes 40 MB of a process as soon as it is loaded. Code from the disk, or from another
process, needs no more than its sections in memory, the addresses of what it refers to, and rights
to be run, and that is done here for what LLVM writes for x86-64 on Linux; `object_loader.py` leaves
other objects to LLVM.

Source: System V ABI, chapter 4 (object files), and its supplement for x86-64, section 4.4.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from trainkit.kernels.jit.numpy_inner_loops import forever
from trainkit.kernels.jit.object_format import ObjectFile

_WRITABLE, _IN_MEMORY, _RUN, _OF_THREADS = 0x1, 0x2, 0x4, 0x400
_READ, _WRITE, _EXECUTE = 1, 2, 4  # rights of memory, as `mprotect` knows them
_RIGHTS = ((_RUN, _READ | _EXECUTE), (0, _READ), (_WRITABLE, _READ | _WRITE))
_FORMS = {1: ("<Q", False), 24: ("<q", True), 2: ("<i", True), 4: ("<i", True), 11: ("<i", False)}
"""How relocations are written, by kind, and whether they count from where they stand.

R_X86_64_64, PC64, PC32, PLT32 and 32S: others are for code that is linked in other ways.
"""
_END_OF_FRAMES = bytes(4)


class UnknownObject(Exception):
    """The object is of a kind that LLVM's loader has to put into memory."""


def is_supported() -> bool:
    """Whether what LLVM makes of its texts for this machine is loaded here."""
    try:
        _system()
    except UnknownObject:
        return False
    return True


def load_object(code: bytes, address_of: Callable[[str], int]) -> dict[str, int]:
    """Put object code into memory that stays as long as the process.

    Args:
        code: what `names_outside` has checked.
        address_of: of what is outside of it, by name.

    Returns:
        The addresses of what it defines for others, by name.

    Raises:
        UnknownObject: LLVM has to do it; nothing stays behind.
    """
    protect, register_frames = _system()
    file = ObjectFile(code)
    starts, spans, size = _layout(file)
    memory = mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for index, start in starts.items():
        if file.has_content(index):
            memory[start : start + file.sections[index].size] = file.content(index)
    addresses = {index: base + start for index, start in starts.items()}
    symbols = _Symbols(file, addresses, address_of)
    for section, entries in file.relocations():
        if section in starts:
            _relocate(memory, base, starts[section], symbols, entries)
    for start, length, rights in spans:
        if protect(base + start, length, rights) != 0:
            raise UnknownObject("memory can't be made to be run")
    forever(memory)
    for index in starts:
        if file.name(index) == ".eh_frame":
            register_frames(addresses[index])
    return symbols.global_addresses()


@lru_cache(maxsize=1)
def _system() -> tuple[Callable[[int, int, int], int], Callable[[int], None]]:
    """The functions of the system that change rights of memory and take note of frames.

    What unwinds the stack, as the end of a thread does, has to know the frames on it.
    """
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        raise UnknownObject("another machine")
    try:
        protect = ctypes.CDLL(None).mprotect
        register = ctypes.CDLL("libgcc_s.so.1").__register_frame
    except (OSError, AttributeError) as error:
        raise UnknownObject(f"another C library: {error}") from None
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    register.argtypes, register.restype = [ctypes.c_void_p], None
    return protect, register


def _layout(file: ObjectFile) -> tuple[dict[int, int], list[tuple[int, int, int]], int]:
    """Where each section begins, the (start, length, rights) of pages, and the size of all."""
    starts: dict[int, int] = {}
    spans: list[tuple[int, int, int]] = []
    end = 0
    for flags, rights in _RIGHTS:
        begin = end
        for index, section in enumerate(file.sections):
            if section.flags & _IN_MEMORY and section.flags & (_WRITABLE | _RUN) == flags:
                end = -(-end // max(section.alignment, 1)) * max(section.alignment, 1)
                starts[index] = end
                end += section.size
                # the list of frames ends with a length of 0, which a linker would put there
                end += len(_END_OF_FRAMES) if file.name(index) == ".eh_frame" else 0
        end = -(-end // mmap.PAGESIZE) * mmap.PAGESIZE
        if end > begin:
            spans.append((begin, end - begin, rights))
    in_memory = [x for x in file.sections if x.flags & _IN_MEMORY]
    if len(in_memory) > len(starts) or any(x.flags & _OF_THREADS for x in in_memory):
        raise UnknownObject("a kind of section")
    return starts, spans, end


class _Symbols:
    """The addresses that an object's symbols stand for."""

    def __init__(
        self, file: ObjectFile, addresses: dict[int, int], address_of: Callable[[str], int]
    ) -> None:
        self._symbols = file.symbols()
        self._addresses = addresses
        self._address_of = address_of

    def address(self, index: int) -> int:
        symbol = self._symbols[index]
        if symbol.is_undefined:
            return self._address_of(symbol.name) if symbol.name else 0
        if symbol.section not in self._addresses:
            raise UnknownObject(f"a kind of symbol: {symbol.name}")
        return self._addresses[symbol.section] + symbol.value

    def global_addresses(self) -> dict[str, int]:
        """What others may refer to."""
        return {
            symbol.name: self.address(index)
            for index, symbol in enumerate(self._symbols)
            if symbol.is_global and not symbol.is_undefined
        }


def _relocate(
    memory: Any, base: int, start: int, symbols: _Symbols, entries: list[tuple[int, ...]]
) -> None:
    """Write the addresses that a section refers to into it."""
    for offset, kind, symbol, addend in entries:
        if kind not in _FORMS:
            raise UnknownObject(f"relocations of kind {kind}")
        form, is_relative = _FORMS[kind]
        value = symbols.address(symbol) + addend
        value -= base + start + offset if is_relative else 0
        try:
            struct.pack_into(form, memory, start + offset, value)
        except struct.error:  # farther away than four bytes can say
            raise UnknownObject("a reference over a long way") from None
