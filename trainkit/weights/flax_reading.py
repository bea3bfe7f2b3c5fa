"""`FlaxTable`: the arrays in a file of `flax.serialization.to_bytes`, without Flax.

The file is one map of MessagePack, nested. Its leaves are numbers and extensions: 1 is an array, as
a message of its own (shape, name of the dtype, bytes row by row), 3 a NumPy scalar in the same
form, 2 a complex number as two floats. An array of more than 2**30 bytes is a map with its shape
and its chunks. Source: the module `flax.serialization`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainkit.checkpoints.format.positioned_io import read_into
from trainkit.checkpoints.format.regular_files import open_regular
from trainkit.checkpoints.interop.safetensors import require_booleans
from trainkit.core.errors import CheckpointError, InvalidArgumentError
from trainkit.core.files.local_paths import local_path
from trainkit.weights.msgpack_reading import (
    MOST_VALUES,
    Extension,
    MsgpackError,
    MsgpackReader,
    Span,
)
from trainkit.weights.weight_tables import WeightTable

_MOST_CHARACTERS = 1 << 25  # of the names of all arrays
_MOST_AXES = 64
_ARRAY, _COMPLEX, _SCALAR = 1, 2, 3
_CHUNKED = "__msgpack_chunked_array__"
_MAIN, _BESIDE = "params", "batch_stats"
_DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128",
)  # fmt: skip


@dataclass(frozen=True)
class _ArrayRecord:
    """An array that is still in the file.

    Attributes:
        dtype: its name.
        shape: its shape.
        spans: its values, row by row, in one part or several.
    """

    dtype: str
    shape: tuple[int, ...]
    spans: tuple[Span, ...]


def is_flax(head: bytes) -> bool:
    """Whether a file starts as Flax's do: with a map whose first key is a text."""
    if not head or not (0x81 <= head[0] <= 0x8F or head[0] in (0xDE, 0xDF)):
        return False
    key = {0xDE: 3, 0xDF: 5}.get(head[0], 1)
    return len(head) > key and (0xA1 <= head[key] <= 0xBF or head[key] == 0xD9)


class FlaxTable(WeightTable):
    """The arrays in a file of `flax.serialization.to_bytes`, by their keys with slashes between.

    Of a file with the key `params` only that is read, with `batch_stats` beside it, and names start
    below these two: `Dense_0/kernel`. Texts and None are left out; numbers have no axes.

    Args:
        path: the file.
        part: the key whose arrays are meant, such as `"opt_state"`.

    Raises:
        NotFoundError: there is no such file.
        CheckpointError: it is damaged, or no file of Flax.
        InvalidArgumentError: `part` is none of its keys.
    """

    format = "flax"

    def __init__(self, path: str | os.PathLike[str], part: str | None = None) -> None:
        super().__init__()
        self.name = local_path(path, CheckpointError)
        self._fd = open_regular(self.name, "file of weights")
        try:
            self._records = self._named_leaves(part)
        except MsgpackError as error:
            self.close()
            raise CheckpointError(f"{self.name} is damaged or no file of Flax: {error}") from None
        except BaseException:
            self.close()
            raise

    def _release(self) -> None:
        os.close(self._fd)

    # ------------------------------------------------------------------ the tree of a file

    def _named_leaves(self, part: str | None) -> dict[str, Any]:
        end = os.fstat(self._fd).st_size
        budget = [MOST_VALUES]
        reader = MsgpackReader(self._fd, 0, end, budget)
        root = reader.read()
        if not isinstance(root, dict):
            raise MsgpackError("it is no map of names")
        if reader.position != end:
            raise MsgpackError(f"{end - reader.position} bytes follow its value")
        records: dict[str, Any] = {}
        characters = 0
        for branch in self._branches(root, part):
            for name, value in self._leaves(branch, budget):
                if name in records:
                    raise MsgpackError(f"{name[:200]!r} is in {_MAIN} and in {_BESIDE}")
                characters += len(name)
                if characters > _MOST_CHARACTERS:
                    raise MsgpackError(f"its names have more than {_MOST_CHARACTERS} characters")
                records[name] = value
        if not records:
            raise MsgpackError("it has no arrays")
        return records

    def _branches(self, root: dict[str, Any], part: str | None) -> Iterator[dict[str, Any]]:
        """The maps whose leaves are meant."""
        if part is not None:
            if not isinstance(root.get(part), dict):
                keys = ", ".join(repr(key[:40]) for key in list(root)[:20])
                raise InvalidArgumentError(f"{self.name} has no part {part!r}; it has {keys}")
            root = root[part]
        # variables of a module in a state of training: {"step": 3, "params": {"params": ...}}
        while isinstance(root.get(_MAIN), dict):
            if isinstance(root.get(_BESIDE), dict):
                yield root[_BESIDE]
            root = root[_MAIN]
        yield root

    def _leaves(
        self, branch: dict[str, Any], budget: list[int], prefix: str = ""
    ) -> Iterator[tuple[str, Any]]:
        for key, value in branch.items():
            name = prefix + key
            if isinstance(value, dict) and value.get(_CHUNKED) is True:
                yield name, self._join_chunks(value, budget)
            elif isinstance(value, dict):
                yield from self._leaves(value, budget, f"{name}/")
            elif isinstance(value, Extension):
                yield name, self._extension(value, budget)
            elif isinstance(value, bool | int | float):
                yield name, np.asarray(value)

    def _extension(self, value: Extension, budget: list[int]) -> Any:
        reader = MsgpackReader(
            self._fd, value.data.start, value.data.start + value.data.size, budget
        )
        content = reader.read()
        items = list(content.values()) if isinstance(content, dict) else []
        if reader.position != value.data.start + value.data.size:
            raise MsgpackError(f"an extension before byte {reader.position} has bytes left over")
        if value.kind == _COMPLEX and [type(x) for x in items] == [float, float]:
            return np.asarray(complex(*items))
        if value.kind not in (_ARRAY, _SCALAR) or len(items) != 3:
            raise MsgpackError(f"it has an extension of type {value.kind} that Flax does not write")
        sizes, dtype, data = items
        if dtype not in _DTYPES:
            raise MsgpackError(f"an array has the unsupported dtype {str(dtype)[:40]!r}")
        record = _ArrayRecord(dtype, _shape(sizes), (data,) if isinstance(data, Span) else ())
        _check_bytes(record)
        return record

    def _join_chunks(self, value: dict[str, Any], budget: list[int]) -> _ArrayRecord:
        """An array that was cut into chunks."""
        chunks = value.get("chunks")
        chunks = list(chunks.values()) if chunks and _is_list(chunks) else []
        parts = [self._extension(chunk, budget) for chunk in chunks if type(chunk) is Extension]
        dtypes = {part.dtype for part in parts if isinstance(part, _ArrayRecord)}
        if not parts or len(parts) != len(chunks) or len(dtypes) != 1:
            raise MsgpackError("an array in chunks has none, or such as do not fit")
        spans = tuple(span for part in parts for span in part.spans)
        record = _ArrayRecord(dtypes.pop(), _shape(value.get("shape")), spans)
        _check_bytes(record)
        return record

    # ------------------------------------------------------------------ arrays

    def shapes(self) -> dict[str, tuple[tuple[int, ...], str]]:
        return {
            name: (tuple(record.shape), str(record.dtype)) for name, record in self._records.items()
        }

    def read(self, name: str) -> Any:
        self._require_open()
        record = self._records[name]
        array = record if isinstance(record, np.ndarray) else self._array(record, name)
        array.flags.writeable = False
        return array

    def _array(self, record: _ArrayRecord, name: str) -> Any:
        array = np.empty(record.shape, np.dtype(record.dtype))
        values, at = array.reshape(-1).view(np.uint8), 0
        for span in record.spans:
            if read_into(self._fd, values[at : at + span.size], span.start) != span.size:
                raise CheckpointError(f"{self.name} is cut short in {name!r}")
            at += span.size
        require_booleans(array, f"{self.name} is refused: {name!r}")
        return array

    def verify(self) -> None:
        """Nothing is left to check: the format has no checksums, and sizes were compared."""
        self._require_open()


def _is_list(value: Any) -> bool:
    """Whether a map has the keys that stand for the places of a list."""
    return isinstance(value, dict) and list(value) == [str(i) for i in range(len(value))]


def _shape(sizes: Any) -> tuple[int, ...]:
    numbers: list[Any] = list(sizes.values()) if _is_list(sizes) else [None]
    if len(numbers) > _MOST_AXES or not all(type(n) is int and n >= 0 for n in numbers):
        raise MsgpackError(f"an array has the shape {str(numbers)[:80]}")
    return tuple(numbers)


def _check_bytes(record: _ArrayRecord) -> None:
    size = sum(span.size for span in record.spans)
    expected = math.prod(record.shape) * np.dtype(record.dtype).itemsize
    if size != expected:
        raise MsgpackError(
            f"an array {record.shape} of {record.dtype} has {size} bytes, not {expected}"
        )
