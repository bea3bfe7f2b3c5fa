"""Lists of whole numbers out of `.npz` files, where NumPy keeps them as pickled objects.

A pickle is a program, and reading one runs it. Here its instructions are looked at first: only
those that make lists of numbers are let through, and the few names that NumPy writes mean
classes of this file, which keep what they are given. Source: the module `pickletools` of Python,
which documents all instructions, and `numpy.lib.format`.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.checkpoints.format.regular_files import ZipArchive
from trainkit.checkpoints.interop.safetensors import UNPACKING_ERRORS, npy_header
from trainkit.core.errors import CheckpointError
from trainkit.core.files.local_paths import local_path

_MOST_PACKED, _FLOOR = 12, 1 << 20  # bytes that a byte of the file may unpack to; at the least

# bytes that follow an instruction; where they are the length of a text, they stand in _LENGTHS
_WIDTHS = dict.fromkeys(b"(])taeN\x88\x89Rb.\x85\x86\x87\x94\x93", 0) | {
    ord("K"): 1, ord("M"): 2, ord("J"): 4, ord("q"): 1, ord("r"): 4, ord("h"): 1, ord("j"): 4,
    0x80: 1, 0x95: 8,
}  # fmt: skip
_LENGTHS = {0x8C: 1, ord("X"): 4, ord("C"): 1, ord("B"): 4, ord("U"): 1, ord("T"): 4}
_NAME, _PUT, _FRAME = ord("c"), ord("r"), 0x95
_LONGEST_TEXT = 64


def check_instructions(data: bytes) -> None:
    """Refuse a pickle that does more than make lists of numbers, or says sizes it does not have.

    Raises:
        ValueError: it does; nothing of it has been run.
    """
    position, end = 0, len(data)
    widths, lengths = _WIDTHS, _LENGTHS
    while position < end:
        code = data[position]
        position += 1
        width = widths.get(code)
        if width is not None:
            if code in (_PUT, _FRAME) and _number(data, position, width) > end:
                raise ValueError("it holds a number that is too large for it")
            position += width
        elif code in lengths:
            length = _number(data, position, lengths[code])
            if length > _LONGEST_TEXT:
                raise ValueError(f"it holds a text of {length} characters")
            position += lengths[code] + length
        elif code == _NAME:
            position = data.index(b"\n", data.index(b"\n", position) + 1) + 1
        else:
            raise ValueError(f"it does more than hold lists of numbers (instruction {code})")
    if position != end or data[-1:] != b".":
        raise ValueError("it is cut short")


def _number(data: bytes, position: int, width: int) -> int:
    return int.from_bytes(data[position : position + width], "little")


class _Kind:
    """What stands for NumPy's `dtype` and `ndarray`, and for bytes, which nobody needs."""

    def __init__(self, *settings: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass


class _ObjectArray:
    """What stands for an array of objects: its state is (version, shape, dtype, order, items)."""

    items: Any = None

    def __init__(self, *settings: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.items = state[-1]


_MEANT = {
    ("numpy", "ndarray"): _Kind,
    ("numpy", "dtype"): _Kind,
    ("_codecs", "encode"): _Kind,
    ("numpy.core.multiarray", "_reconstruct"): _ObjectArray,
    ("numpy._core.multiarray", "_reconstruct"): _ObjectArray,
}


class _ListUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _MEANT[module, name]
        except KeyError:
            raise ValueError(f"it asks for {module}.{name}") from None


def _unpickle(data: bytes) -> list[list[int]]:
    check_instructions(data)
    unpickled = _ListUnpickler(io.BytesIO(data)).load()
    rows = unpickled.items if isinstance(unpickled, _ObjectArray) else None
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise ValueError("it is no array of lists")
    for row in rows:
        if not set(map(type, row)) <= {int}:
            raise ValueError("a list holds something else than whole numbers")
    return rows


def read_integer_lists(path: str | os.PathLike[str], names: Sequence[str]) -> dict[str, Any]:
    """Arrays of numbers, and lists of lists of whole numbers, by name.

    Nothing in the file is run, whatever it holds.

    Args:
        path: an `.npz` file.
        names: of the arrays that are wanted; others in the file are left alone.

    Returns:
        For each name a NumPy array, or a list of lists of ints where the file has objects.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a name is missing, or something is neither of the two.
    """
    archive_path = local_path(path)
    try:
        with ZipArchive(archive_path, ".npz file") as archive:
            members = {member.filename: member for member in archive.infolist()}
            missing = sorted(name for name in names if f"{name}.npy" not in members)
            if missing:
                raise KeyError(f"{', '.join(missing)} not found")
            members_by_name = {name: members[f"{name}.npy"] for name in names}
            _check_sizes(members_by_name, os.path.getsize(archive_path))
            return {name: _member(archive, member) for name, member in members_by_name.items()}
    except FileNotFoundError:
        raise
    except (pickle.UnpicklingError, AttributeError, CheckpointError, *UNPACKING_ERRORS) as error:
        raise ValueError(
            f"{archive_path}: not an .npz file of lists of numbers: {error}."
        ) from error


def _check_sizes(members: dict[str, zipfile.ZipInfo], file_size: int) -> None:
    size = sum(member.file_size for member in members.values())
    if size > max(_FLOOR, _MOST_PACKED * file_size):
        raise ValueError(f"it unpacks to {size} bytes and has {file_size}")


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    with archive.open(member) as stream:
        shape, dtype, _ = npy_header(stream)
        content = stream.read(member.file_size)
    if dtype.hasobject:
        rows = _unpickle(content)
        if shape != (len(rows),):
            raise ValueError(f"{member.filename} declares {shape} and has {len(rows)} lists")
        return rows
    if dtype.kind not in "biuf" or len(content) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{member.filename} declares {dtype}{list(shape)} and is not that")
    return np.frombuffer(content, dtype).reshape(shape).copy()
