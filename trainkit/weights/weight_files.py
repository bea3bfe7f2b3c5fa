"""`open` and `load`: the arrays of a file or folder by name, whatever its format."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from typing import Any

from trainkit.checkpoints.format.header import MAGIC
from trainkit.checkpoints.format.positioned_io import read_at
from trainkit.checkpoints.format.regular_files import open_regular
from trainkit.checkpoints.interop.safetensors import CHECKSUM, SafetensorsFile
from trainkit.checkpoints.interop.tables import opened_table
from trainkit.core.errors import (
    CheckpointError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
)
from trainkit.core.files.local_paths import local_path
from trainkit.weights.flax_reading import FlaxTable, is_flax
from trainkit.weights.hub_download import is_hub_address, local_folder
from trainkit.weights.torch_reading import TorchTable
from trainkit.weights.weight_tables import WeightTable

LARGEST_INDEX = 1 << 24  # bytes
MOST_SHARDS = 10_000
FOLDER_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "diffusion_pytorch_model.safetensors",
    "diffusion_pytorch_model.safetensors.index.json",
    "model.weights.h5",
    "flax_model.msgpack",
    "flax_model.msgpack.index.json",
    "diffusion_flax_model.msgpack",
)
"""The files of a folder that have weights, the first that is there before the others."""

_MAPPED = ("torch", "safetensors", "mixed")
_DIVIDED = ("torch", "flax")
_TORCH_ENDINGS = (".pt", ".pth", ".bin", ".ckpt")
_HDF5 = b"\x89HDF\r\n\x1a\n"
_LEGACY_PICKLE = bytes.fromhex("8a0a6cfc9c46f9206aa85019")  # LONG1 and torch.save's magic number
_HEAD = 512  # bytes that show the format; a tar archive has its mark at 257
_SAVE_AGAIN = "torch.save(torch.load(path, weights_only=True), 'weights.pt')"

_REFUSED_ENDINGS = {
    ".gguf": (
        "a GGUF file, whose weights are quantized in blocks that are not supported; use the "
        "safetensors files that it was made from"
    ),
    ".ggml": "a GGML file; use the safetensors files that it was made from",
    ".distcp": (
        "one part of a distributed checkpoint; in PyTorch, torch.distributed.checkpoint."
        "format_utils.dcp_to_torch_save(folder, 'weights.pt')"
    ),
    ".onnx": "an ONNX file; tk.onnx.load reads it as a model",
    ".tflite": "a TensorFlow Lite file, which is a program; use the model that it was made from",
    ".pb": "a graph of TensorFlow; in Keras, model.save_weights('model.weights.h5')",
    ".pkl": "a pickle, which runs code when it is read; write .npz or .safetensors",
    ".pickle": "a pickle, which runs code when it is read; write .npz or .safetensors",
    ".pt2": (
        "an exported program; in PyTorch, torch.save(torch.export.load(path).state_dict, "
        "'weights.pt')"
    ),
}
_TENSORFLOW = (
    "a checkpoint of TensorFlow; in TensorFlow, model.load_weights(path), then "
    "model.save_weights('model.weights.h5')"
)


def open(
    path: str | os.PathLike[str],
    *,
    part: str | None = None,
    mapped: bool = False,
    verify: bool = True,
) -> WeightTable:
    """The arrays of a file by name, each read when it is asked for.

    Formats: `.pt`, `.pth` and `.bin` of `torch.save` (PyTorch 1.6 or later), `.safetensors`,
    `.msgpack` of `flax.serialization`, several of these with their `.index.json`, `.npz`,
    `.weights.h5`, `.keras`, checkpoints of trainkit, and folders that have one of them under the
    name that Hugging Face's libraries give it. The first bytes of a file tell its format, besides
    its name. Nothing in a file is run.

    Args:
        path: the file or folder, or `hf://owner/name` for one of the Hugging Face Hub, which
            needs the package huggingface_hub.
        part: for files of `torch.save` and Flax that hold a training checkpoint: the key of the
            weights, such as `"model"`. Not needed where there is but one besides the optimizer's,
            nor for `params` of Flax.
        mapped: whether arrays are read-only views of the file, so that only what is used is read.
            A file that is made shorter meanwhile ends the process, as with any memory map.
        verify: whether checksums in files of PyTorch and safetensors are compared first, for which
            they are read once; other formats are checked as they are read.

    Raises:
        NotFoundError: there is no such file, or nothing with weights in the folder.
        ImportError: a folder of the Hub is named, and huggingface_hub is missing.
        CheckpointError: the file is damaged or hostile.
        UnimplementedError: it is of a format that is not supported; the text says what to do.
        InvalidArgumentError: `part` is none of the file, or is needed; or the format can't be
            mapped.

    Example:
        >>> tk.weights.save({"a": np.zeros((2,), "float32")}, "w.safetensors")
        >>> with tk.weights.open("w.safetensors") as table:
        ...     list(table)
        ['a']
    """
    name = _file_of(path)
    table = _open(name, part, mapped)
    try:
        if part is not None and table.format not in _DIVIDED:
            raise InvalidArgumentError(
                f"weights.open: part={part!r} is for files of torch.save and Flax, and {name} is "
                f"of format {table.format!r}"
            )
        if mapped and table.format not in _MAPPED:
            raise InvalidArgumentError(
                f"weights.open: mapped=True is for files of torch.save and .safetensors, and "
                f"{name} is of format {table.format!r}"
            )
        if verify and table.format in _MAPPED:
            table.verify()
    except BaseException:
        table.close()
        raise
    return table


def load(
    path: str | os.PathLike[str],
    *,
    part: str | None = None,
    mapped: bool = False,
    verify: bool = True,
) -> dict[str, Any]:
    """All arrays of a file by name; `open` is the same for one after the other.

    Tensors of a PyTorch file that share values, such as tied weights, share memory here. Arrays may
    not be written to; `array.copy()` may.

    Args:
        path: as for `open`.
        part: as for `open`.
        mapped: as for `open`.
        verify: as for `open`.

    Returns:
        NumPy arrays by name; bfloat16 and float8 are those of `ml_dtypes`, and quantized tensors
        of PyTorch the float32 numbers that they stand for.

    Raises:
        NotFoundError: there is no such file, or nothing with weights in the folder.
        ImportError: a folder of the Hub is named, and huggingface_hub is missing.
        CheckpointError: the file is damaged or hostile.
        UnimplementedError: it is of a format that is not supported; the text says what to do.
        InvalidArgumentError: `part` is none of the file, or is needed; or the format can't be
            mapped.

    Example:
        >>> tk.weights.save({"a": np.zeros((2,), "float32")}, "w.safetensors")
        >>> tk.weights.load("w.safetensors")
        {'a': array([0., 0.], dtype=float32)}
    """
    with open(path, part=part, mapped=mapped, verify=verify) as table:
        arrays = table.arrays()
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


def _file_of(path: str | os.PathLike[str]) -> str:
    """The file that a path means: itself, or that of a folder, which may come from the Hub."""
    name = local_folder(path) if is_hub_address(path) else local_path(path, CheckpointError)
    if not os.path.isdir(name):
        return name
    for base in FOLDER_FILES:
        if os.path.isfile(os.path.join(name, base)):
            return os.path.join(name, base)
    entries = sorted(os.listdir(name))
    if any(entry.endswith(".distcp") for entry in entries):
        raise UnimplementedError(f"{name} has {_REFUSED_ENDINGS['.distcp']}")
    if {"_CHECKPOINT_METADATA", "_METADATA", "manifest.ocdbt"}.intersection(entries):
        raise UnimplementedError(
            f"{name} is a checkpoint of Orbax; in JAX, restore it and write it with "
            "safetensors.flax.save_file"
        )
    if "saved_model.pb" in entries or any(entry.endswith(".index") for entry in entries):
        raise UnimplementedError(f"{name} has {_TENSORFLOW}")
    for entry in entries:
        ending = os.path.splitext(entry)[1]
        if ending == ".gguf":
            raise UnimplementedError(f"{name} has {_REFUSED_ENDINGS[ending]}")
    raise NotFoundError(
        f"the folder {name} has no weights; looked for {', '.join(FOLDER_FILES)}. Name the file"
    )


def _open(name: str, part: str | None, mapped: bool) -> WeightTable:
    lower = name.lower()
    ending = os.path.splitext(lower)[1]
    if lower.endswith(".index.json"):
        return ShardedTable(name, part, mapped)
    if lower.endswith((".index", ".data-00000-of-00001", ".meta")) or (
        not os.path.exists(name) and os.path.exists(f"{name}.index")
    ):
        raise UnimplementedError(f"{name} is {_TENSORFLOW}")
    head = _head(name)
    if ending == ".npz":
        return ForeignTable(name)
    if head.startswith((_HDF5, MAGIC)) or ending in (".keras", ".h5", ".hdf5"):
        return ForeignTable(name)
    if ending == ".safetensors":
        return SafetensorsTable(name, mapped)
    if ending == ".msgpack":
        return FlaxTable(name, part)
    if ending in _REFUSED_ENDINGS or head.startswith(b"GGUF"):
        raise UnimplementedError(
            f"{name} is {_REFUSED_ENDINGS.get(ending, _REFUSED_ENDINGS['.gguf'])}"
        )
    if head.startswith(b"PK"):
        return TorchTable(name, part, mapped)
    if _LEGACY_PICKLE in head or head[257:262] == b"ustar":
        kind = "tar archives" if head[257:262] == b"ustar" else "pickles"
        raise UnimplementedError(
            f"{name} is of the format that torch.save had before PyTorch 1.6 ({kind}), which can't "
            f"be read without running it; in PyTorch, {_SAVE_AGAIN}"
        )
    if head.startswith(b"\x80"):
        raise UnimplementedError(f"{name} is {_REFUSED_ENDINGS['.pkl']}")
    if len(head) > 8 and head[8:9] == b"{":
        return SafetensorsTable(name, mapped)
    if is_flax(head):
        return FlaxTable(name, part)
    raise CheckpointError(
        f"{name} is of no format that is known: files of torch.save ({', '.join(_TORCH_ENDINGS)}), "
        ".safetensors, .msgpack, .index.json, .npz, .weights.h5 and .keras are"
    )


def _head(name: str) -> bytes:
    fd = open_regular(name, "file of weights")
    try:
        return read_at(fd, _HEAD, 0)
    finally:
        os.close(fd)


class _ReadTable(WeightTable):
    """A table whose arrays a reader of the checkpoints' formats reads.

    Args:
        reader: gives names, shapes and arrays of the file.
    """

    def __init__(self, reader: Any) -> None:
        super().__init__()
        self._reader = reader
        self.name = reader.name
        self._shapes = reader.shapes()

    def shapes(self) -> dict[str, tuple[tuple[int, ...], str]]:
        return self._shapes

    def read(self, name: str) -> Any:
        self._require_open()
        array = self._reader.read(name)
        array.flags.writeable = False
        return array

    def verify(self) -> None:
        self._require_open()
        self._reader.verify()


class SafetensorsTable(_ReadTable):
    """The arrays of one safetensors file.

    Args:
        path: the file.
        mapped: whether arrays are views of it.
    """

    format = "safetensors"

    def __init__(self, path: str, mapped: bool = False) -> None:
        super().__init__(SafetensorsFile(path, mapped))
        self.metadata = self._reader.metadata

    def _release(self) -> None:
        self._reader.close()


class ForeignTable(_ReadTable):
    """The arrays of an `.npz` or HDF5 file."""

    def __init__(self, path: str) -> None:
        self._stack = ExitStack()
        super().__init__(self._stack.enter_context(opened_table(path)))
        self.format = self._reader.kind

    def verify(self) -> None:
        if self.format == "npz":  # NumPy's archives are checked as they are read
            self._require_open()
        else:
            super().verify()

    def _release(self) -> None:
        self._stack.close()


class ShardedTable(WeightTable):
    """The arrays of several files, which an index assigns to them.

    Args:
        path: of the index, `*.index.json`; the others stand in its folder.
        part: as for files of `torch.save`.
        mapped: whether arrays are views of the files.
    """

    def __init__(self, path: str, part: str | None = None, mapped: bool = False) -> None:
        super().__init__()
        self.name = path
        index = self._read_index()
        self._weight_map: dict[str, str] = index["weight_map"]
        self._checksums: Any = index.get("metadata", {}).get(CHECKSUM, {})
        self._stack = ExitStack()
        folder = os.path.dirname(path)
        try:
            self._shards: dict[str, WeightTable] = {}
            for base in sorted(set(self._weight_map.values())):
                shard = _open(os.path.join(folder, base), part, mapped)
                self._shards[base] = self._stack.enter_context(shard)
            self._shapes = self._collect()
        except BaseException:
            self.close()
            raise
        formats = {shard.format for shard in self._shards.values()}
        self.format = formats.pop() if len(formats) == 1 else "mixed"
        self.is_ordered = self.format == "torch"

    def _read_index(self) -> dict[str, Any]:
        fd = open_regular(self.name, "index of weights")
        try:
            size = os.fstat(fd).st_size
            if size > LARGEST_INDEX:
                raise CheckpointError(f"{self.name} is refused: it has {size} bytes")
            data = read_at(fd, size, 0)
        finally:
            os.close(fd)
        try:
            index = json.loads(data)
            weight_map = index["weight_map"]
            if not weight_map or type(weight_map) is not dict:
                raise ValueError("its weight_map is empty")
            if type(index.get("metadata", {})) is not dict:
                raise ValueError("its metadata is no table")
            bases = set(weight_map.values())
            if len(bases) > MOST_SHARDS:
                raise ValueError(f"it names more than {MOST_SHARDS} files")
            for base in bases:
                if type(base) is not str or not _is_plain(base):
                    raise ValueError(
                        f"{str(base)[:80]!r} is no name of a file beside it; shards stand in the "
                        "folder of their index"
                    )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CheckpointError(
                f"{self.name} is damaged or no index of weights: {error}"
            ) from None
        return dict(index)

    def _collect(self) -> dict[str, tuple[tuple[int, ...], str]]:
        shapes = {}
        for name, base in self._weight_map.items():
            shard_shapes = self._shards[base].shapes()
            if name not in shard_shapes:
                raise CheckpointError(
                    f"{self.name} says that {name!r} is in {base}, which does not have it; get all "
                    "files of one version"
                )
            shapes[name] = shard_shapes[name]
        for base, shard in self._shards.items():
            others = [name for name in shard if self._weight_map.get(name) != base]
            if others:
                raise CheckpointError(
                    f"{base} has {others[0]!r}, which {self.name} does not know of; get all files "
                    "of one version"
                )
        return shapes

    def shapes(self) -> dict[str, tuple[tuple[int, ...], str]]:
        return self._shapes

    def read(self, name: str) -> Any:
        return self._shards[self._weight_map[name]].read(name)

    def arrays(self) -> dict[str, Any]:
        self._require_open()
        by_shard = {base: shard.arrays() for base, shard in self._shards.items()}
        return {name: by_shard[base][name] for name, base in self._weight_map.items()}

    def verify(self) -> None:
        for base, shard in self._shards.items():
            shard.verify()
            stored = self._checksums.get(base) if isinstance(self._checksums, dict) else None
            if stored is not None and shard.metadata.get(CHECKSUM) != stored:
                raise CheckpointError(
                    f"{base} is of another save than {self.name}: its checksum is "
                    f"{shard.metadata.get(CHECKSUM)}, and the index says {str(stored)[:64]}"
                )

    def _release(self) -> None:
        self._stack.close()


def _is_plain(base: str) -> bool:
    return (
        base not in ("", ".", "..")
        and not base.lower().endswith(".json")  # an index of indices could go on for ever
        and not any(sign in base for sign in "/\\:\0")
    )
