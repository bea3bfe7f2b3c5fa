"""Weights as a flat table of names: `.safetensors` and `.npz` files.

A safetensors file is the length of its header (uint64), the header (JSON: dtype, shape and place of
each array), and the values, all little-endian. Source: https://huggingface.co/docs/safetensors.
"""

from __future__ import annotations

import io
import json
import math
import mmap
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainkit.checkpoints.format.atomic import AtomicFile
from trainkit.checkpoints.format.positioned_io import H5Stream, read_at, read_into, write_at
from trainkit.checkpoints.format.regular_files import FLOOR, ZipArchive, open_regular
from trainkit.core.dtypes import as_dtype, native
from trainkit.core.errors import CheckpointError, UnimplementedError
from trainkit.core.files.local_paths import local_path

_NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "complex64": "C64",
}
_DTYPES = {code: name for name, code in _NAMES.items()}
_HEADER_LIMIT = 1 << 26
_JSON_RATIO = 24  # bytes of objects for a byte of JSON, at most
CHECKSUM = "sha256"
"""The note of a header that has the SHA-256 of all values, as they stand in the file."""
_HASHED_AT_ONCE = 1 << 24  # bytes
_NPY_HEADER_LIMIT = 10_000  # NumPy's own, which looks at it too late


def write_safetensors(
    path: str | os.PathLike[str], arrays: Mapping[str, Any], notes: Mapping[str, str] | None = None
) -> None:
    """Write arrays as one safetensors file, which appears whole or not at all.

    Args:
        path: the file.
        arrays: NumPy arrays by name.
        notes: texts for the header's `__metadata__`.

    Raises:
        UnimplementedError: a dtype that the format does not have.
        OSError: the file can't be written; an older one is untouched.
    """
    with AtomicFile(path) as target:
        write_arrays(target.fd, arrays, notes)
        target.commit()


def write_arrays(fd: int, arrays: Mapping[str, Any], notes: Mapping[str, str] | None) -> None:
    """Write what a safetensors file has into an open, empty file.

    Args:
        fd: the file.
        arrays: NumPy arrays by name.
        notes: texts for the header's `__metadata__`.

    Raises:
        UnimplementedError: a dtype that the format does not have.
        OSError: the file can't be written.
    """
    header: dict[str, Any] = {"__metadata__": dict(notes or {})}
    arrays = {name: native(array) for name, array in arrays.items()}
    start = 0
    for name, array in arrays.items():
        code = _NAMES.get(array.dtype.name)
        if code is None:
            raise UnimplementedError(f"{name!r}: safetensors has no dtype for {array.dtype}")
        end = start + array.nbytes
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    write_at(fd, len(text).to_bytes(8, "little") + text, 0)
    offset = 8 + len(text)
    for array in arrays.values():
        data = value_bytes(array)
        if data.size:
            write_at(fd, data, offset)
        offset += array.nbytes


def value_bytes(array: Any) -> Any:
    """The bytes of an array as they stand in a safetensors file, row by row."""
    data = np.require(native(array), requirements="C")
    return data.reshape(-1).view(np.uint8) if data.size else np.empty(0, np.uint8)


class SafetensorsFile:
    """An open safetensors file, whose header was checked.

    Args:
        path: the file.
        mapped: whether arrays are read-only views of the file itself.

    Attributes:
        name: of the file.
        metadata: the texts that it has about itself.

    Raises:
        NotFoundError: there is no such file.
        CheckpointError: it is damaged, or no safetensors file.
    """

    def __init__(self, path: str | os.PathLike[str], mapped: bool = False) -> None:
        self.name = local_path(path, CheckpointError)
        self.metadata: dict[str, str] = {}
        self._fd = open_regular(self.name)
        self._map: Any = None
        try:
            self._table, self._start = self._read_header()
            if mapped:
                self._map = mmap.mmap(self._fd, 0, access=mmap.ACCESS_READ)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the file back."""
        os.close(self._fd)

    def __enter__(self) -> SafetensorsFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _bad(self, why: str) -> CheckpointError:
        return CheckpointError(f"{self.name} is damaged or no safetensors file: {why}")

    def _read_header(self) -> tuple[dict[str, tuple[str, tuple[int, ...], int, int]], int]:
        size = os.fstat(self._fd).st_size
        length = int.from_bytes(read_at(self._fd, 8, 0), "little")
        if size < 8 or length > min(size - 8, _HEADER_LIMIT):
            raise self._bad(f"the header has {length} bytes, the file {size}")
        if _JSON_RATIO * length > 4 * size + 4 * FLOOR:
            raise self._bad(f"its header takes {length} of {size} bytes")
        try:
            header = json.loads(read_at(self._fd, length, 8))
            self.metadata = _texts(header.get("__metadata__", {}))
            table = {name: _check(item) for name, item in header.items() if name != "__metadata__"}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise self._bad(f"its header can't be read ({error})") from error
        end = 0
        for _, _, start, stop in sorted(table.values(), key=lambda item: item[2:]):
            if start != end:
                raise self._bad("the values overlap or leave gaps")
            end = stop
        if 8 + length + end != size:
            raise self._bad(f"the values take {end} bytes, {size - 8 - length} are there")
        return table, 8 + length

    def shapes(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and dtype of each array by name."""
        return {name: (shape, dtype) for name, (dtype, shape, _, _) in self._table.items()}

    def read(self, name: str) -> Any:
        """The array `name`."""
        dtype, shape, start, stop = self._table[name]
        if self._map is not None and stop > start:
            begin = self._start + start
            values = np.frombuffer(self._map, np.uint8, stop - start, begin)
            array = values.view(np.dtype(dtype)).reshape(shape)
        else:
            array = np.empty(shape, np.dtype(dtype))
        if array.size and self._map is None:
            done = read_into(self._fd, array.reshape(-1).view(np.uint8), self._start + start)
            if done != stop - start:
                raise self._bad(f"{name!r} is cut short")
        require_booleans(array, f"{self.name} is refused: {name!r}")
        return array

    def verify(self) -> None:
        """Compare the values with the checksum in the header, if it has one.

        Raises:
            CheckpointError: they have another.
        """
        import hashlib  # slow to import

        stored = self.metadata.get(CHECKSUM)
        if stored is None:
            return
        digest, at, end = hashlib.sha256(), self._start, os.fstat(self._fd).st_size
        while at < end:
            part = read_at(self._fd, min(_HASHED_AT_ONCE, end - at), at)
            if not part:
                break
            digest.update(part)
            at += len(part)
        if digest.hexdigest() != stored:
            raise CheckpointError(
                f"{self.name} is damaged: its values have the SHA-256 {digest.hexdigest()}, and "
                f"its header says {stored[:64]}; get the file again, or open it with verify=False "
                "if another program has changed the values on purpose"
            )


def _texts(notes: Any) -> dict[str, str]:
    if type(notes) is not dict or not all(type(text) is str for text in notes.values()):
        raise ValueError("__metadata__ is no table of texts")
    return notes


def require_booleans(array: Any, what: str) -> None:
    """Refuse other bytes than 0 and 1, with which NumPy computes nonsense."""
    if array.dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
        raise CheckpointError(f"{what} has booleans that are none")


def _check(item: Any) -> tuple[str, tuple[int, ...], int, int]:
    if item["dtype"] not in _DTYPES:
        raise ValueError(
            f"there is no dtype {str(item['dtype'])[:20]!r}, only {', '.join(_DTYPES)}"
        )
    dtype = _DTYPES[item["dtype"]]
    shape = tuple(item["shape"])
    start, stop = item["data_offsets"]
    numbers = [*shape, start, stop]
    if not all(type(n) is int and 0 <= n < 1 << 62 for n in numbers):
        raise ValueError("sizes must be integers from 0 on")
    if stop - start != math.prod(shape) * np.dtype(dtype).itemsize:
        raise ValueError(f"shape {shape} of {dtype} does not take {stop - start} bytes")
    return dtype, shape, start, stop


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write arrays as one `.npz` file, which appears whole or not at all.

    Args:
        path: the file.
        arrays: NumPy arrays by name; bfloat16 is written as uint16 under `NAME:bfloat16`.

    Raises:
        UnimplementedError: a dtype that NumPy's files do not have.
        OSError: the file can't be written; an older one is untouched.
    """
    for name, array in arrays.items():
        # the kind of ml_dtypes.float8_e5m2 is "f", too
        is_native = array.dtype.kind in "biufc" and not array.dtype.name.startswith("float8")
        if not is_native and array.dtype.name != "bfloat16":
            raise UnimplementedError(
                f"{name!r}: .npz has no dtype for {array.dtype.name}; write .safetensors"
            )
    with AtomicFile(path) as target:
        stream = H5Stream(target.fd)
        with zipfile.ZipFile(stream, "w", allowZip64=True) as archive:
            for name, array in arrays.items():
                if array.dtype.name == "bfloat16":
                    name, array = f"{name}:bfloat16", array.view(np.uint16)
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
        stream.check()
        target.commit()


UNPACKING_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""What `zipfile` and NumPy raise when an archive of arrays makes no sense to them."""


def npy_header(stream: Any) -> tuple[tuple[int, ...], Any, int]:
    """Shape, dtype and length of the header of an array, which NumPy would read however long."""
    start = stream.read(8)
    version = np.lib.format.read_magic(io.BytesIO(start))
    form, read = {
        (1, 0): ("<H", np.lib.format.read_array_header_1_0),
        (2, 0): ("<I", np.lib.format.read_array_header_2_0),
    }[version]
    start = stream.read(struct.calcsize(form))
    (length,) = struct.unpack(form, start)
    if length > _NPY_HEADER_LIMIT:
        raise ValueError(f"a header has {length} bytes")
    shape, _, dtype = read(io.BytesIO(start + stream.read(length)))
    return shape, dtype, 8 + len(start) + length


class NpzFile:
    """An open `.npz` file, whose list of arrays was checked; pickled objects are refused.

    Raises:
        NotFoundError: there is no such file.
        CheckpointError: it is damaged, or no `.npz` file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = local_path(path, CheckpointError)
        self._archive = ZipArchive(self.name, ".npz file")
        self._table: dict[str, tuple[str, tuple[int, ...], Any]] = {}
        try:
            for member in self._archive.infolist():
                self._table |= self._describe(member)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the file back."""
        self._archive.close()

    def __enter__(self) -> NpzFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _bad(self, why: Any) -> CheckpointError:
        return CheckpointError(f"{self.name} is damaged or no .npz file: {why}")

    def _describe(self, member: zipfile.ZipInfo) -> dict[str, tuple[str, tuple[int, ...], Any]]:
        """The name of an array with its dtype, shape and member, of which the head alone is read.

        Raises:
            CheckpointError: NumPy does not write such a member, or it holds no numbers.
        """
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise self._bad(f"{member.filename} is packed in a way that NumPy does not write")
        try:
            with self._archive.open(member) as stream:
                shape, dtype, header = npy_header(stream)
        except UNPACKING_ERRORS as error:
            raise self._bad(error) from error
        if dtype.hasobject or dtype.kind not in "biufc":
            raise CheckpointError(f"{self.name} is refused: {member.filename} holds {dtype}")
        if header + math.prod(shape) * dtype.itemsize != member.file_size:
            raise self._bad(f"{member.filename} declares {shape}, which is not what is stored")
        name = member.filename.removesuffix(".npy")
        # NumPy's files have no bfloat16: it is stored as uint16, and the name tells
        bare = name.removesuffix(":bfloat16")
        dtype_name = "bfloat16" if bare != name else dtype.name
        return {bare: (dtype_name, tuple(shape), member)}

    def shapes(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and dtype of each array by name."""
        return {name: (shape, dtype) for name, (dtype, shape, _) in self._table.items()}

    def read(self, name: str) -> Any:
        """The array `name`."""
        dtype, _, member = self._table[name]
        try:
            with self._archive.open(member) as stream:
                array = np.lib.format.read_array(stream, allow_pickle=False)
        except UNPACKING_ERRORS as error:
            raise self._bad(error) from error
        require_booleans(array, f"{self.name} is refused: {name!r}")
        return array.view(as_dtype(dtype).dtype) if dtype == "bfloat16" else array
