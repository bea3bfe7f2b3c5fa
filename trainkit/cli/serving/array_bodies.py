"""Arrays as JSON, npy and npz, read from somebody who is not trusted: numbers alone, no pickles."""

from __future__ import annotations

import io
import json
import math
import zipfile
import zlib
from typing import Any

import numpy as np

JSON, NPY, NPZ = "application/json", "application/x-npy", "application/x-npz"
MOST_AXES = 32
_NPY_START = b"\x93NUMPY"
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class BodyError(ValueError):
    """A body that is no JSON, npy or npz of numbers."""


class TooLargeError(BodyError):
    """A body whose content is larger than what is allowed."""


def loaded_json(body: bytes) -> Any:
    """What a body says as JSON, which has no NaN and no infinity.

    Raises:
        BodyError: it is none.
    """

    def refuse(word: str) -> Any:
        raise BodyError(f"the body is no JSON: {word} is no number there; send npy for such values")

    try:
        return json.loads(body.decode("utf-8"), parse_constant=refuse)
    except BodyError:
        raise
    except UnicodeDecodeError as error:
        raise BodyError(f"the body is no JSON: it is no UTF-8 text ({error.reason})") from error
    except RecursionError:
        raise BodyError("the body is no JSON of numbers: it is nested too deep") from None
    except ValueError as error:
        raise BodyError(f"the body is no JSON: {error}") from error


def array_of_json(name: str, value: Any) -> Any:
    """Nested lists of numbers as an array.

    Raises:
        BodyError: rows differ in length, or something is no number.
    """
    shape, level = [], value
    while isinstance(level, list):
        shape.append(len(level))
        level = level[0] if level else None
    if len(shape) > MOST_AXES:
        raise BodyError(f"input {name!r} is nested {len(shape)} deep; {MOST_AXES} are the most")
    flat: list[Any] = []
    _flatten(name, value, shape, 0, flat)
    kinds = {type(x) for x in flat}
    if kinds - {bool, int, float} or (bool in kinds and len(kinds) > 1):
        other = next(x for x in flat if type(x) not in (int, float))
        raise BodyError(f"input {name!r} holds {json.dumps(other)[:60]}, which is no number")
    if float in kinds and not all(map(math.isfinite, flat)):
        raise BodyError(f"input {name!r} holds a number that is too large")
    try:
        array = np.array(flat, np.float64 if float in kinds or not flat else None)
    except OverflowError:
        raise BodyError(f"input {name!r} holds an integer of more than 64 bits") from None
    if array.dtype.kind == "O":
        raise BodyError(f"input {name!r} holds an integer of more than 64 bits")
    return array.reshape(shape)


def _flatten(name: str, value: Any, shape: list[int], depth: int, flat: list[Any]) -> None:
    if depth == len(shape):
        if isinstance(value, list):
            raise BodyError(f"input {name!r} has rows of different depth")
        flat.append(value)
        return
    if not isinstance(value, list) or len(value) != shape[depth]:
        size = len(value) if isinstance(value, list) else "none"
        raise BodyError(
            f"input {name!r} has rows of different length: {shape[depth]} and {size} along axis "
            f"{depth}"
        )
    for item in value:
        _flatten(name, item, shape, depth + 1, flat)


def array_of_npy(content: bytes, what: str = "the body") -> Any:
    """The array of an npy file; objects, which would be pickles, are refused.

    Raises:
        BodyError: it is no npy of numbers, or holds more or fewer bytes than it says.
    """
    file = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(file)
        if version not in _HEADERS:
            raise BodyError(f"{what} is npy of version {version}; 1.0 and 2.0 are read")
        shape, fortran, dtype = _HEADERS[version](file)
    except BodyError:
        raise
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise BodyError(f"{what} is no npy: {str(error)[:200]}") from error
    if dtype.hasobject or dtype.kind not in "biufc":
        raise BodyError(f"{what} is npy of {dtype}; numbers are read, objects and texts never")
    start = file.tell()
    if any(n < 0 for n in shape) or math.prod(shape) * dtype.itemsize != len(content) - start:
        raise BodyError(
            f"{what} says {dtype}{list(shape)}, which is not the {len(content) - start} bytes that "
            "follow"
        )
    array = np.frombuffer(content, dtype, offset=start)
    array = array.reshape(shape, order="F" if fortran else "C")
    return array.astype(dtype.newbyteorder("="))


def arrays_of_npz(body: bytes, limit: int) -> dict[str, Any]:
    """The arrays of an npz file by name.

    Args:
        body: the file.
        limit: how many bytes they may have together once they are unpacked.

    Raises:
        TooLargeError: they have more.
        BodyError: it is no npz of numbers.
    """
    arrays = {}
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            left = limit
            for entry in archive.infolist():
                with archive.open(entry) as file:
                    content = file.read(left + 1)
                left -= len(content)
                if left < 0:
                    raise TooLargeError(f"the npz unpacks to more than {limit} bytes")
                name = entry.filename.removesuffix(".npy")
                arrays[name] = array_of_npy(content, f"{name!r} in the npz")
    except BodyError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, OSError,
            ValueError) as error:  # fmt: skip
        raise BodyError(f"the body is no npz: {error}") from error
    return arrays


def npy_of(array: Any) -> bytes:
    """An array as an npy file."""
    file = io.BytesIO()
    np.save(file, _plain(array), allow_pickle=False)
    return file.getvalue()


def npz_of(arrays: dict[str, Any]) -> bytes:
    """Arrays by name as an npz file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            archive.writestr(f"{name}.npy", npy_of(array))
    return file.getvalue()


def json_of(array: Any) -> Any:
    """An array as nested lists of numbers.

    Raises:
        BodyError: it holds NaN, infinity or complex numbers, which JSON has not.
    """
    array = _plain(array)
    if array.dtype.kind == "c" or (array.dtype.kind == "f" and not np.isfinite(array).all()):
        raise BodyError(
            "the result holds NaN, infinity or complex numbers, for which JSON has no form; ask "
            f"for it with 'Accept: {NPZ}'"
        )
    return array.tolist()


def _plain(array: Any) -> Any:
    """bfloat16, which npy and JSON have not, as float32."""
    return array if array.dtype.kind in "biufc" else array.astype(np.float32)


def is_npy(content: bytes) -> bool:
    """Whether a body starts as npy files do."""
    return content.startswith(_NPY_START)
