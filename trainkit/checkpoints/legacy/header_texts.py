"""Texts in the attributes of an HDF5 file that nobody vouches for, read without the HDF5 library.

Keras keeps a model's config and the names of its weights in attributes, most of them as texts of
variable length. HDF5 takes as much memory for such a text as the file says it is long, up to 4 GiB,
before it looks whether the text is there. Here the bytes are read that are in the file, and only so
many.

Source: HDF5 File Format Specification, version 3.0, sections II.A, III.E, IV.A.1 and IV.A.2.m.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from trainkit.checkpoints.format.positioned_io import MAX_STRUCTURE, read_at
from trainkit.core.errors import CheckpointError

MAX_ALL_TEXTS = 1 << 25
"""Bytes of text that all attributes of one file may have together."""
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_PLACES = (0, 512)  # of the signature; 512 where a user block of ours is in front
_ATTRIBUTE, _CONTINUATION = 0x0C, 0x10
_FIXED, _VARIABLE = 3, 9  # classes of types
_REFERENCE = 16  # bytes that stand for a text of variable length
_MAX_CHUNKS = 256

Texts = dict[str, str | list[str]]
"""By the name of the attribute: one text, or a list of them; other attributes are left out."""


class HeaderTexts:
    """The attributes of the objects of one file.

    Args:
        fd: the file, open for reading.
        name: what errors call it.

    Attributes:
        root: address of the root group.

    Raises:
        CheckpointError: the file does not begin as HDF5 files do.
    """

    def __init__(self, fd: int, name: str) -> None:
        self._fd = fd
        self._name = name
        self._size = os.fstat(fd).st_size
        self._left = MAX_ALL_TEXTS
        self._heaps: dict[int, dict[int, bytes]] = {}
        self._in_heaps = 0
        starts = (at for at in _PLACES if read_at(fd, 8, at) == _SIGNATURE)
        start = next(starts, None)
        if start is None:
            raise self._report_damage("it does not begin as an HDF5 file")
        block = read_at(fd, 96, start)
        try:
            self._base, self.root = _superblock(block)
        except IndexError as error:
            raise self._report_damage("its superblock is cut short") from error

    def of(self, address: int) -> Texts:
        """The texts among the attributes of an object.

        Args:
            address: of its header, as HDF5 gives it.

        Raises:
            CheckpointError: the header is damaged, or has more texts than any file of a model.
        """
        texts: Texts = {}
        try:
            for data in self._attributes(address):
                self._read_attribute(data, texts)
        except (IndexError, UnicodeDecodeError) as error:
            raise self._report_damage(
                f"the attributes at {address} can't be read: {error}"
            ) from error
        return texts

    def _report_damage(self, reason: str) -> CheckpointError:
        return CheckpointError(f"{self._name} is damaged: {reason}")

    def _bytes(self, address: int, size: int) -> bytes:
        at = self._base + address
        if size > MAX_STRUCTURE or not 0 <= at <= self._size - size:
            raise self._report_damage(
                f"{size} bytes at {address} are asked for, they are not there"
            )
        return read_at(self._fd, size, at)

    # ------------------------------------------------------------------ object headers

    def _attributes(self, address: int) -> Iterator[bytes]:
        """The bodies of all attribute messages of the object at `address`."""
        first = self._bytes(address, 16)
        if first[:4] == b"OHDR":
            chunk, order = self._second_version(address, first)
            second = True
        else:
            if first[0] != 1:
                raise self._report_damage(f"there is no object at {address}")
            chunk, order, second = self._bytes(address + 16, _number(first, 8, 4)), 0, False
        chunks, total = [chunk], len(chunk)
        for index, chunk in enumerate(chunks):
            for kind, body in _messages(chunk, second, order):
                if kind == _ATTRIBUTE:
                    yield body
                elif kind == _CONTINUATION:
                    size = _number(body, 8, 8)
                    total += size
                    if index > _MAX_CHUNKS or total > MAX_STRUCTURE:
                        raise self._report_damage(f"the header at {address} has no end")
                    more = self._bytes(_number(body, 0, 8), size)
                    chunks.append(more[4:-4] if second else more)

    def _second_version(self, address: int, first: bytes) -> tuple[bytes, int]:
        """The first chunk of a header of version 2, and the bytes of a message's order in it."""
        flags = first[5]
        at = 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
        width = 1 << (flags & 3)
        size = _number(self._bytes(address + at, width), 0, width)
        return self._bytes(address + at + width, size), 2 if flags & 4 else 0

    # ------------------------------------------------------------------ attributes

    def _read_attribute(self, data: bytes, attributes: Texts) -> None:
        version = data[0]
        if version not in (1, 2, 3) or (version > 1 and data[1] & 3):
            return  # a type that is kept elsewhere is none of a text
        sizes = [_number(data, at, 2) for at in (2, 4, 6)]
        at = 9 if version == 3 else 8
        step = 8 if version == 1 else 1
        parts = []
        for size in sizes:
            parts.append(data[at : at + size])
            at += -(-size // step) * step
        label, kind, space = parts
        count = _count(space)
        texts = self._texts(kind, data[at:], 1 if count is None else count)
        if texts is not None:
            name = label.rstrip(b"\0").decode("utf-8")
            attributes[name] = texts[0] if count is None else texts

    def _texts(self, kind: bytes, values: bytes, count: int) -> list[str] | None:
        """The values of an attribute, `None` where they are no texts."""
        if count == 0:
            return []
        number, width = kind[0] & 15, _number(kind, 4, 4)
        is_text = number == _FIXED or (number == _VARIABLE and kind[1] & 15 == 1)
        if not is_text:
            return None
        if width < 1 or count * width > len(values):
            raise self._report_damage(
                f"an attribute says that it has {count} texts of {width} bytes"
            )
        items = (values[i * width : (i + 1) * width] for i in range(count))
        if number == _FIXED:
            return [self._count_items(item.split(b"\0")[0]) for item in items]
        if width != _REFERENCE:
            raise self._report_damage(f"a text of variable length takes {width} bytes")
        return [self._count_items(self._from_heap(item)) for item in items]

    def _count_items(self, text: bytes) -> str:
        self._left -= len(text)
        if self._left < 0:
            raise CheckpointError(
                f"{self._name} is refused: its attributes have more than {MAX_ALL_TEXTS} bytes"
            )
        return text.decode("utf-8")

    def _from_heap(self, item: bytes) -> bytes:
        length, address, index = _number(item, 0, 4), _number(item, 4, 8), _number(item, 12, 4)
        if not length:
            return b""
        data = self._heap(address).get(index, b"")
        if length > len(data):
            raise self._report_damage(f"a text of {length} bytes has {len(data)}")
        return data[:length].split(b"\0")[0]

    def _heap(self, address: int) -> dict[int, bytes]:
        """The objects of a global heap by their numbers."""
        if address in self._heaps:
            return self._heaps[address]
        head = self._bytes(address, 16)
        size = _number(head, 8, 8)
        if head[:4] != b"GCOL" or not 16 <= size <= MAX_ALL_TEXTS:
            raise self._report_damage(f"there is no heap of texts at {address}")
        self._in_heaps += size
        if self._base + address + size > self._size or self._in_heaps > 2 * MAX_ALL_TEXTS:
            raise self._report_damage(
                f"the heap of texts at {address} is larger than what is there"
            )
        data = read_at(self._fd, size, self._base + address)
        objects: dict[int, bytes] = {}
        at = 16
        while at + 16 <= size:
            index, length = _number(data, at, 2), _number(data, at + 8, 8)
            if index == 0:  # the rest is free
                break
            objects[index] = data[at + 16 : at + 16 + length]
            at += 16 + -(-length // 8) * 8
        self._heaps[address] = objects
        return objects


def _number(data: bytes, at: int, width: int) -> int:
    """An integer in the file."""
    if at + width > len(data):
        raise IndexError(f"{width} bytes at {at} of {len(data)}")
    return int.from_bytes(data[at : at + width], "little")


def _superblock(block: bytes) -> tuple[int, int]:
    """The base address, and the address of the root group."""
    version = block[8]
    widths, base, root = ((13, 14), 24, 64) if version == 0 else ((13, 14), 28, 68)
    if version >= 2:
        widths, base, root = (9, 10), 12, 36
    if version > 3 or any(block[at] != 8 for at in widths):
        raise IndexError(f"version {version} with addresses of another width")
    return _number(block, base, 8), _number(block, root, 8)


def _messages(chunk: bytes, second: bool, order: int) -> Iterator[tuple[int, bytes]]:
    """The messages in a chunk of an object's header, as (kind, body)."""
    head = 4 + order if second else 8
    at = 0
    while at + head <= len(chunk):
        kind = chunk[at] if second else _number(chunk, at, 2)
        size = _number(chunk, at + (1 if second else 2), 2)
        yield kind, chunk[at + head : at + head + size]
        at += head + size


def _count(space: bytes) -> int | None:
    """How many values an attribute has, `None` for a scalar."""
    version, rank = space[0], space[1]
    if version not in (1, 2):
        raise IndexError(f"a dataspace of version {version}")
    if rank == 0:
        return 0 if version == 2 and space[3] == 2 else None
    at = 8 if version == 1 else 4
    count = 1
    for axis in range(rank):
        count *= _number(space, at + 8 * axis, 8)
    return count
