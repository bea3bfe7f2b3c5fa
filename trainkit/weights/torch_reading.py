"""`TorchTable`: the tensors in a file of `torch.save`, without PyTorch.

The file is a zip archive of members that are stored as they are: `NAME/data.pkl`, a pickle that
describes the object, and `NAME/data/KEY`, the bytes of a storage each. The pickle is interpreted by
`pickle_reading.py`; nothing in it runs. Source: `torch/serialization.py` and
`caffe2/serialize/inline_container.h` of PyTorch.
"""

from __future__ import annotations

import math
import mmap
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from trainkit.checkpoints.format.positioned_io import read_at, read_into
from trainkit.checkpoints.format.regular_files import FLOOR, ZipArchive
from trainkit.checkpoints.interop.safetensors import require_booleans
from trainkit.core.errors import CheckpointError, InvalidArgumentError, UnimplementedError
from trainkit.core.files.local_paths import local_path
from trainkit.weights.pickle_reading import (
    LARGEST_PICKLE,
    PickleError,
    PickleReader,
    UnknownNameError,
)
from trainkit.weights.torch_values import (
    NAMES,
    StorageRecord,
    TensorRecord,
    UnsupportedTensorError,
    expanded,
    storage_record,
)
from trainkit.weights.weight_tables import WeightTable

_LOCAL_HEADER = 30  # bytes before the name of a member
_MOST_CHARACTERS = 1 << 27  # of the paths of all entries of nested dicts and lists
_ENTRY_CHARACTERS = 64  # that an entry counts for besides its path
_DEEPEST = 64
_ADVICE = "write the weights alone, torch.save(model.state_dict(), path), and load that"
_CHUNK = 1 << 24
_MOST_PROCESSED = 16  # bytes of values for a byte of the file
_TRAINING_STATE = (
    "optimizer", "optimizers", "optim", "scheduler", "schedulers", "lr_scheduler", "lr_schedulers",
    "scaler", "grad_scaler", "amp", "rng", "callbacks", "loops", "metrics", "hparams", "args",
    "hyper_parameters", "config",
)  # fmt: skip


class TorchTable(WeightTable):
    """The tensors in a file of `torch.save`, of PyTorch 1.6 or later.

    Args:
        path: the file.
        part: the key of the weights, in a checkpoint that has several dicts of tensors.
        mapped: whether arrays are views of the file itself.

    Raises:
        NotFoundError: there is no such file.
        CheckpointError: it is damaged, or asks for more than tensors.
        UnimplementedError: it is of another kind; the text says how to write one that is not.
        InvalidArgumentError: `part` is none, or is needed.
    """

    format = "torch"
    is_ordered = True

    def __init__(
        self, path: str | os.PathLike[str], part: str | None = None, mapped: bool = False
    ) -> None:
        super().__init__()
        self.name = local_path(path, CheckpointError)
        self._archive = ZipArchive(self.name, "file of torch.save")
        self._map: Any = None
        try:
            self._fd = self._archive.fp.fileno()  # type: ignore[union-attr]
            self._refuse_programs()
            self._members = self._members_by_name()
            self._offsets: dict[str, int] = {}
            self._folder = self._find_pickle()
            self._is_big = self._byte_order() == "big"
            root = self._value()
            self.parts = _Collector(self.name).parts(root)
            self._tensors = self._part_tensors(part)
            self._check_storages()
            if mapped:
                self._map = mmap.mmap(self._fd, 0, access=mmap.ACCESS_READ)
        except BaseException:
            self.close()
            raise

    def _release(self) -> None:
        self._archive.close()

    def shapes(self) -> dict[str, tuple[tuple[int, ...], str]]:
        return {
            name: (record.shape, "float32" if record.quantization else record.numpy_dtype.name)
            for name, record in self._tensors.items()
        }

    def read(self, name: str) -> Any:
        self._require_open()
        return self._array(self._tensors[name], None, f"{name!r}")

    def arrays(self) -> dict[str, Any]:
        self._require_open()
        storages: dict[str, Any] = {}
        return {
            name: self._array(record, storages, f"{name!r}")
            for name, record in self._tensors.items()
        }

    def verify(self) -> None:
        """Check the checksum of each storage that is used, if the file has any."""
        self._require_open()
        if not self._has_checksums():
            return
        for key in dict.fromkeys(r.storage.key for r in self._records()):
            member = self._members[f"{self._folder}data/{key}"]
            crc, at = 0, self._offset(member)
            end = at + member.file_size
            while at < end:
                part = read_at(self._fd, min(_CHUNK, end - at), at)
                crc, at = zlib.crc32(part, crc), at + len(part)
                if not part:
                    break
            if crc != member.CRC:
                raise self._bad(
                    f"the checksum of {member.filename!r} is {crc:08x}, and {member.CRC:08x} is "
                    "stored; get the file again, or open it with verify=False"
                )

    def tied(self) -> list[list[str]]:
        """The names of tensors that are one tensor, such as tied weights."""
        names: dict[TensorRecord, list[str]] = {}
        for name, record in self._tensors.items():
            if record.quantization is None:
                names.setdefault(record, []).append(name)
        return [same for same in names.values() if len(same) > 1]

    # ------------------------------------------------------------------ the archive

    def _bad(self, reason: Any) -> CheckpointError:
        return CheckpointError(f"{self.name} is damaged or no file of torch.save: {reason}")

    def _members_by_name(self) -> dict[str, zipfile.ZipInfo]:
        members: dict[str, zipfile.ZipInfo] = {}
        size = os.fstat(self._fd).st_size
        total = 0
        for member in self._archive.infolist():
            if member.filename in members:
                raise self._bad(f"it has two members {member.filename!r}")
            if member.compress_type != zipfile.ZIP_STORED:
                raise self._bad(
                    f"{member.filename!r} is compressed, which torch.save never does; unpack the "
                    "archive and pack it again without compression (zip -0)"
                )
            total += member.file_size
            if member.file_size != member.compress_size or total > size:
                raise self._bad(f"{member.filename!r} has more bytes than the file")
            members[member.filename] = member
        return members

    def _refuse_programs(self) -> None:
        names = self._archive.namelist()
        if any(name.endswith("constants.pkl") for name in names) or any(
            "/code/" in f"/{name}" for name in names
        ):
            raise UnimplementedError(
                f"{self.name} is a TorchScript archive, which holds programs; in PyTorch, "
                "torch.save(torch.jit.load(path).state_dict(), 'weights.pt'), and load that"
            )
        if any(name.endswith("archive_format") for name in names):
            raise UnimplementedError(
                f"{self.name} is an exported program (.pt2); in PyTorch, "
                "torch.save(torch.export.load(path).state_dict, 'weights.pt'), and load that"
            )

    def _find_pickle(self) -> str:
        """The folder that all members stand in, with a slash at its end."""
        names = self._members
        folders = {name[: -len("data.pkl")] for name in names if name.endswith("data.pkl")}
        folders = {f for f in folders if f.count("/") <= 1 and (not f or f.endswith("/"))}
        if len(folders) != 1:
            raise self._bad(f"it has {len(folders)} members data.pkl")
        return folders.pop()

    def _offset(self, member: zipfile.ZipInfo) -> int:
        """Where the bytes of a member begin."""
        offset = self._offsets.get(member.filename)
        if offset is None:
            start = member.header_offset
            header = read_at(self._fd, _LOCAL_HEADER, start) if start >= 0 else b""
            if len(header) != _LOCAL_HEADER or header[:4] != b"PK\x03\x04":
                raise self._bad(f"{member.filename!r} is not where the archive says")
            lengths = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:], "little")
            offset = start + _LOCAL_HEADER + sum(lengths)
            if offset + member.file_size > os.fstat(self._fd).st_size:
                raise self._bad(f"{member.filename!r} ends after the end of the file")
            self._offsets[member.filename] = offset
        return offset

    def _read_member(self, name: str, limit: int) -> bytes | None:
        """The bytes of a member that is read as a whole, so it is refused above `limit` of them.

        Returns:
            They, or `None` where there is no such member.
        """
        member = self._members.get(self._folder + name)
        if member is None:
            return None
        if member.file_size > limit:
            raise self._bad(f"{member.filename!r} has {member.file_size} bytes, more than {limit}")
        data = read_at(self._fd, member.file_size, self._offset(member))
        if self._has_checksums() and zlib.crc32(data) != member.CRC:
            raise self._bad(f"the checksum of {member.filename!r} is another than stored")
        return data

    def _has_checksums(self) -> bool:
        """False where `torch.serialization.set_crc32_options(False)` has left zeros for all."""
        return any(member.CRC for member in self._members.values())

    def _byte_order(self) -> str:
        text = self._read_member("byteorder", 64)
        order = "little" if text is None else text.decode("ascii", "replace").strip()
        if order not in ("little", "big"):
            raise self._bad(f"its byte order is {order!r}")
        return order

    def _value(self) -> Any:
        try:
            data = self._read_member("data.pkl", LARGEST_PICKLE)
            return PickleReader(data or b"", NAMES, storage_record).read()
        except UnsupportedTensorError as error:
            raise UnimplementedError(f"{self.name} can't be read: {error}") from None
        except UnknownNameError as error:
            raise CheckpointError(
                f"{self.name} is refused: {error}, which is no tensor, and nothing in a file is "
                f"run. Whole models and settings are pickled programs: in PyTorch, {_ADVICE}"
            ) from None
        except PickleError as error:
            raise self._bad(error) from None

    # ------------------------------------------------------------------ which tensors

    def _part_tensors(self, part: str | None) -> dict[str, TensorRecord]:
        parts = self.parts
        if part is not None:
            if part not in parts:
                part_names = ", ".join(repr(name) for name in list(parts)[:20]) or "none"
                raise InvalidArgumentError(
                    f"{self.name} has no tensors under part={part!r}; there are {part_names}"
                )
            return parts[part]
        if "" in parts:  # tensors at the top, as in a state_dict
            return parts[""]
        weights = [name for name in parts if not _is_training_state(name)]
        if len(weights) == 1:
            return parts[weights[0]]
        if not parts:
            raise CheckpointError(f"{self.name} has no tensors; in PyTorch, {_ADVICE}")
        part_names = ", ".join(repr(name) for name in list(parts)[:20])
        raise InvalidArgumentError(
            f"{self.name} has tensors in several parts; say which are the weights by part=, one "
            f"of {part_names}"
        )

    def _records(self) -> Iterator[TensorRecord]:
        for record in self._tensors.values():
            yield record
            if record.quantization and record.quantization.axis is not None:
                yield record.quantization.scale
                yield record.quantization.zero_point

    def _check_storages(self) -> None:
        """Compare each storage with its member, before anything is read."""
        for name, record in self._tensors.items():
            if expanded(record) and math.prod(record.shape) > FLOOR:
                raise CheckpointError(
                    f"{self.name} is refused: {name!r} of shape {record.shape} repeats "
                    f"{record.extent} elements; in PyTorch, save tensor.clone()"
                )
        # what is more than a view of the file takes memory and time, each time it is named
        size = os.fstat(self._fd).st_size
        processed = sum(
            (4 if record.quantization else record.numpy_dtype.itemsize) * math.prod(record.shape)
            for record in self._tensors.values()
            if record.quantization or self._is_big or record.dtype == "bool"
        )
        if processed > _MOST_PROCESSED * size + FLOOR:
            raise CheckpointError(
                f"{self.name} is refused: its tensors share storages, and take {processed} bytes "
                f"of a file of {size}"
            )
        for record in self._records():
            storage = record.storage
            member = self._members.get(f"{self._folder}data/{storage.key}")
            if member is None:
                raise self._bad(f"the storage {storage.key!r} is missing")
            size = 1 if storage.dtype is None else _storage_dtype(storage).itemsize
            if member.file_size != storage.count * size:
                raise self._bad(
                    f"the storage {storage.key!r} has {member.file_size} bytes, and the tensors "
                    f"say {storage.count * size}"
                )
            self._offset(member)

    # ------------------------------------------------------------------ values

    def _array(self, record: TensorRecord, storages: dict[str, Any] | None, label: str) -> Any:
        array = self._view(record, storages, label)
        quantization = record.quantization
        if quantization is None:
            return array
        scale, zero_point = quantization.scale, quantization.zero_point
        with np.errstate(over="ignore", invalid="ignore"):
            if quantization.axis is not None:
                sizes = [1] * len(record.shape)
                sizes[quantization.axis] = -1
                scale = self._view(scale, storages, label).astype(np.float32).reshape(sizes)
                zero_point = self._view(zero_point, storages, label).astype(np.int64).reshape(sizes)
            # in float32, as PyTorch does
            result = (array.astype(np.int64) - zero_point).astype(np.float32) * np.float32(scale)
        result.flags.writeable = False
        return result

    def _view(self, record: TensorRecord, storages: dict[str, Any] | None, label: str) -> Any:
        dtype = record.numpy_dtype
        if not record.extent:
            return np.empty(record.shape, dtype)
        size = dtype.itemsize
        start, stop = record.offset * size, (record.offset + record.extent) * size
        if storages is None:  # one tensor alone, of a storage that may hold a whole model
            part = self._bytes(record.storage, start, stop)
        else:
            part = self._storage(record.storage, storages)[start:stop]
        if self._is_big != (sys.byteorder == "big") and size > 1:
            part = _swap(part, dtype)
        strides = tuple(n * size for n in record.strides)
        array = np.ndarray(record.shape, dtype, part, strides=strides)
        array.flags.writeable = False
        require_booleans(array, f"{self.name} is refused: {label}")
        return array

    def _storage(self, storage: StorageRecord, storages: dict[str, Any]) -> Any:
        """The bytes of a storage; tensors that share it get the same ones."""
        array = storages.get(storage.key)
        if array is None:
            size = self._members[f"{self._folder}data/{storage.key}"].file_size
            array = storages[storage.key] = self._bytes(storage, 0, size)
        return array

    def _bytes(self, storage: StorageRecord, start: int, stop: int) -> Any:
        offset = self._offset(self._members[f"{self._folder}data/{storage.key}"]) + start
        if self._map is not None and stop > start:
            array = np.frombuffer(self._map, np.uint8, stop - start, offset)
        else:
            array = np.empty(stop - start, np.uint8)
            if read_into(self._fd, array, offset) != array.size:
                raise self._bad(f"the storage {storage.key!r} is cut short")
        array.flags.writeable = False
        return array


def _storage_dtype(storage: StorageRecord) -> np.dtype[Any]:
    return TensorRecord(storage, str(storage.dtype), 0, (), ()).numpy_dtype


def _swap(part: Any, dtype: np.dtype[Any]) -> Any:
    """Values of a machine whose bytes stand the other way round; complex ones are two floats."""
    width = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    return part.view(np.dtype(f"u{width}")).byteswap().view(np.uint8)


def _is_training_state(name: str) -> bool:
    first = name.split(".")[0].lower()
    return any(first == word or first.startswith(f"{word}_") for word in _TRAINING_STATE)


class _Collector:
    """The tensors of a nested value, by the part that they are in and their name there.

    A part is a dict or list at the top, or `""` for what stands at the top itself.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._budget = _MOST_CHARACTERS

    def parts(self, root: Any) -> dict[str, dict[str, TensorRecord]]:
        """The tensors by part and name."""
        if isinstance(root, TensorRecord):
            return {"": {"tensor": root}}
        parts: dict[str, dict[str, TensorRecord]] = {}
        every: dict[str, TensorRecord] = {}
        at_top = False
        for key, value in self._items(root, ""):
            if isinstance(value, TensorRecord):
                at_top = True
                self._add(every, key, value)
                continue
            within = self._below(value)
            if within:
                self._add(parts, key, within)
            if not _is_training_state(key):
                for name, record in within.items():
                    self._add(every, f"{key}.{name}", record)
        return {**parts, "": every} if at_top else parts

    def _add(self, table: dict[str, Any], name: str, value: Any) -> None:
        if name in table:
            raise CheckpointError(f"{self._file} is refused: it has two values {name!r}")
        table[name] = value

    def _below(self, root: Any) -> dict[str, TensorRecord]:
        """All tensors below `root`; what is shared is gone through each time, within bounds."""
        tensors: dict[str, TensorRecord] = {}
        stack = [(key, value, 1) for key, value in reversed(self._items(root, ""))]
        while stack:
            path, value, depth = stack.pop()
            if isinstance(value, TensorRecord):
                self._add(tensors, path, value)
            elif type(value) in (dict, list, tuple):
                if depth > _DEEPEST:
                    raise CheckpointError(
                        f"{self._file} is refused: dicts and lists are nested more than {_DEEPEST} "
                        "deep"
                    )
                below = self._items(value, f"{path}.")
                stack.extend((key, inner, depth + 1) for key, inner in reversed(below))
        return tensors

    def _items(self, value: Any, path: str) -> list[tuple[str, Any]]:
        """The entries of a dict or list with their paths."""
        if type(value) not in (dict, list, tuple):
            return []
        pairs = value.items() if type(value) is dict else enumerate(value)
        items = []
        for key, inner in pairs:
            self._budget -= _ENTRY_CHARACTERS + len(path)
            if self._budget < 0:
                raise CheckpointError(
                    f"{self._file} is refused: its dicts and lists have too many entries"
                )
            items.append((f"{path}{key}", inner))
        return items
