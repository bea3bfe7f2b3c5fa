"""Walking an HDF5 file that nobody vouches for, and refusing whatever a checkpoint never contains.

Nothing is followed out of the file: soft and external links, external storage and virtual datasets
are refused before they are opened, and so are datasets whose declared size is not stored, types
that stand for objects or references, filters that would load a plugin, and groups without end. The
error names the path inside the file. No values are read here, except for short texts in attributes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainkit.checkpoints.format.positioned_io import MAX_STRUCTURE, H5Source
from trainkit.checkpoints.legacy.header_texts import HeaderTexts, Texts
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import CheckpointError

MAX_DEPTH = 256
MAX_RANK = 32
MAX_OBJECTS = 1 << 20
MAX_ATTRIBUTES = 64
MAX_TEXT = 1 << 16
MAX_CHUNKS = 1 << 20
H5_ERRORS = (
    OSError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    OverflowError,
    MemoryError,
    UnicodeError,
)
"""What h5py raises when HDF5 can't make sense of a file."""
_FILTERS = {1: "deflate", 2: "shuffle", 3: "fletcher32"}


@dataclass(eq=False)
class ArrayNode:
    """A dataset.

    Attributes:
        path: where it was found first, such as `"model/head/kernel"`.
        shape: its sizes.
        dtype: the element type of the values that it stands for.
        stored: the element type in the file.
        offset: where its bytes begin in the file; None where HDF5 has to put them together.
        attributes: its texts by name.
        digest: the checksum of the bytes; None where the header covers them with all the rest.
        cached: the values, once read, of a small array.
        bound: whether an object has taken the values.
    """

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    stored: np.dtype[Any]
    offset: int | None
    attributes: dict[str, str]
    digest: str | None = None
    cached: Any = None
    bound: bool = False

    @property
    def stored_bytes(self) -> int:
        """Bytes of the values as they are stored, decompressed."""
        return math.prod(self.shape) * self.stored.itemsize


@dataclass(eq=False)
class GroupNode:
    """A group.

    Attributes:
        path: where it was found first.
        attributes: its texts by name.
        children: what it holds, by name.
        bound: whether an object has been matched with it.
        lists: its lists of texts by name, in files that may have such.
    """

    path: str
    attributes: dict[str, str]
    children: dict[str, Node] = field(default_factory=dict)
    bound: bool = False
    lists: dict[str, list[str]] = field(default_factory=dict)

    def find(self, path: str) -> Node | None:
        """What stands at a path below the group."""
        node: Node | None = self
        for name in path.split("/"):
            node = node.children.get(name) if isinstance(node, GroupNode) else None
        return node


Node = ArrayNode | GroupNode


class Validator:
    """Reads the tree of one file, and refuses what no checkpoint holds.

    Args:
        file: an open `h5py.File`.
        source: what HDF5 reads it by.
        name: what errors call the file.
        size: the file's length in bytes; no dataset reaches beyond.
        cycles: whether groups may contain themselves when the root says so by an attribute
            `cycles`.
        texts: what reads the attributes of files that may have long texts, and lists of them; by
            default there are single texts of fixed length alone.
    """

    def __init__(
        self,
        file: Any,
        source: H5Source,
        name: str,
        size: int,
        cycles: bool = False,
        texts: HeaderTexts | None = None,
    ) -> None:
        import h5py

        self._h5 = h5py
        self._file = file
        self._source = source
        self._name = name
        self._size = size
        self._cycles = cycles
        self._texts = texts
        self._nodes: dict[int, Node] = {}
        self._open: set[int] = set()

    def tree(self) -> GroupNode:
        """The whole file as nodes; an object with several names is one node.

        Raises:
            CheckpointError: the file holds something that no checkpoint does, or HDF5 can't read
                it.
        """
        try:
            return self._group(self._file.id, self._h5.h5o.get_info(self._file.id), "", 0)
        except CheckpointError:
            raise
        except H5_ERRORS as error:
            raise CheckpointError(f"{self._name} is damaged: HDF5 says {error}") from error

    def refuse(self, path: str, why: str) -> CheckpointError:
        """The error about `path` inside the file."""
        return CheckpointError(f"{self._name} is refused: '/{path}' {why}")

    def _group(self, group: Any, info: Any, path: str, depth: int) -> GroupNode:
        if depth > MAX_DEPTH:
            raise self.refuse(path, f"is nested more than {MAX_DEPTH} levels deep")
        address = _address(info)
        attributes = self._attributes(group, info, path)
        node = GroupNode(path, _single(attributes))
        node.lists = {name: texts for name, texts in attributes.items() if isinstance(texts, list)}
        if depth == 0:
            self._cycles = self._cycles and "cycles" in node.attributes
        self._nodes[address] = node
        self._open.add(address)
        links: list[tuple[bytes, Any]] = []
        group.links.iterate(lambda name, link: links.append((name, link.type)), info=True)
        if len(self._nodes) + len(links) > MAX_OBJECTS:
            raise self.refuse(path, f"brings the file to more than {MAX_OBJECTS} objects")
        for name, kind in links:
            text = name.decode("utf-8")
            node.children[text] = self._child(
                group, name, kind, f"{path}/{text}".lstrip("/"), depth
            )
        self._open.discard(address)
        return node

    def _child(self, group: Any, name: bytes, kind: int, path: str, depth: int) -> Node:
        h5 = self._h5
        if kind != h5.h5l.TYPE_HARD:
            link_kinds = {h5.h5l.TYPE_SOFT: "a soft link", h5.h5l.TYPE_EXTERNAL: "an external link"}
            raise self.refuse(path, f"is {link_kinds.get(kind, 'a link of an unknown kind')}")
        info = self._info(group, name)
        earlier = self._nodes.get(_address(info))
        if earlier is not None:
            if _address(info) in self._open and not self._cycles:
                raise self.refuse(path, f"contains itself: it is also '/{earlier.path}'")
            return earlier
        if info.type == h5.h5o.TYPE_GROUP:
            return self._group(h5.h5g.open(group, name), info, path, depth + 1)
        if info.type == h5.h5o.TYPE_DATASET:
            node = self._dataset(h5.h5d.open(group, name), info, path)
            self._nodes[_address(info)] = node
            return node
        raise self.refuse(path, "is neither a group nor a dataset")

    def _info(self, group: Any, name: bytes) -> Any:
        """What an object is; for that HDF5 reads its whole header, whose parts may overlap."""
        self._source.allowance = MAX_STRUCTURE
        try:
            return self._h5.h5o.get_info(group, name)
        finally:
            self._source.allowance = None

    # ------------------------------------------------------------------ attributes

    def _attributes(self, owner: Any, info: Any, path: str) -> Texts:
        """The texts among the attributes.

        HDF5 reads those of fixed length alone, of which `_text` sees the size before. Where longer
        ones or lists may stand, `_texts` reads the bytes of the file itself.
        """
        if info.num_attrs > MAX_ATTRIBUTES:
            raise self.refuse(path, f"has {info.num_attrs} attributes, more than {MAX_ATTRIBUTES}")
        if self._texts is not None:
            return self._texts.of(_address(info))
        texts: Texts = {}
        for index in range(info.num_attrs):
            attribute = self._h5.h5a.open(owner, index=index)
            text = self._text(attribute, path)
            if text is not None:
                texts[attribute.name.decode("utf-8")] = text
        return texts

    def _text(self, attribute: Any, path: str) -> str | None:
        h5 = self._h5
        kind = attribute.get_type()
        number = kind.get_class()
        if number in (h5.h5t.REFERENCE, h5.h5t.VLEN):
            raise self.refuse(path, f"has the attribute {attribute.name!r} of references or lists")
        if number != h5.h5t.STRING or kind.is_variable_str():
            return None
        size = kind.get_size()
        if size > MAX_TEXT or attribute.get_space().get_simple_extent_npoints() != 1:
            raise self.refuse(
                path, f"has the attribute {attribute.name!r} of more than {MAX_TEXT} bytes"
            )
        value = np.empty((), f"S{size}")
        attribute.read(value, kind)
        return value.item().decode("utf-8")

    # ------------------------------------------------------------------ datasets

    def _dataset(self, dataset: Any, info: Any, path: str) -> ArrayNode:
        plan = dataset.get_create_plist()
        self._check_storage(plan, path)
        attributes = _single(self._attributes(dataset, info, path))
        stored = self._stored_dtype(dataset.get_type(), path)
        space = dataset.get_space()
        if space.get_simple_extent_type() not in (self._h5.h5s.SCALAR, self._h5.h5s.SIMPLE):
            raise self.refuse(path, "has no values")
        shape = tuple(int(size) for size in space.get_simple_extent_dims())
        if not is_possible(shape, stored):
            raise self.refuse(path, f"has the sizes {str(shape)[:80]}")
        dtype = logical_dtype(stored, attributes)
        if dtype is None:
            name = str(attributes.get("dtype"))
            raise self.refuse(path, f"calls itself {name[:40]!r} and holds {stored}")
        node = ArrayNode(path, shape, dtype, stored, None, attributes)
        node.offset = self._offset(dataset, plan, node)
        return node

    def _check_storage(self, plan: Any, path: str) -> None:
        if plan.get_layout() == self._h5.h5d.VIRTUAL:
            raise self.refuse(path, "is a virtual dataset, which takes its values from other files")
        if plan.get_external_count():
            raise self.refuse(path, "is stored in an external file")
        for index in range(plan.get_nfilters()):
            number = plan.get_filter(index)[0]
            if number not in _FILTERS:
                raise self.refuse(path, f"needs the filter {number}, only {_FILTERS} are used")

    def _stored_dtype(self, kind: Any, path: str) -> np.dtype[Any]:
        t = self._h5.h5t
        number = kind.get_class()
        simple = number in (t.INTEGER, t.FLOAT, t.ENUM, t.COMPOUND)
        text = number == t.STRING and not kind.is_variable_str()
        opaque = number == t.OPAQUE and kind.get_size() == 2
        if simple or text or opaque:
            dtype = np.dtype(kind.dtype)
            plain = np.dtype(dtype.str) if dtype.kind != "V" else dtype
            if plain.kind in "biufcS" or opaque:
                return plain
        raise self.refuse(
            path, "holds values of a type that no checkpoint has (references, lists ...)"
        )

    def _offset(self, dataset: Any, plan: Any, node: ArrayNode) -> int | None:
        """Where the values begin; checked that all of them are there."""
        size = node.stored_bytes
        layout = plan.get_layout()
        h5d = self._h5.h5d
        if size == 0 or layout == h5d.COMPACT:
            return None
        if layout == h5d.CONTIGUOUS:
            offset = dataset.get_offset()
            storage_size = dataset.get_storage_size()
            if offset is None or storage_size != size or offset + size > self._size:
                raise self.refuse(
                    node.path, f"declares {size} bytes, which are not all in the file"
                )
            return int(offset) if node.stored.isnative else None
        if layout != h5d.CHUNKED:
            raise self.refuse(node.path, "is stored in a way that no checkpoint is")
        self._check_chunks(dataset, plan.get_chunk(), node)
        return None

    def _check_chunks(self, dataset: Any, chunk: tuple[int, ...], node: ArrayNode) -> None:
        count = math.prod(-(-n // c) for n, c in zip(node.shape, chunk, strict=True))
        if count > MAX_CHUNKS or math.prod(chunk) > max(1, math.prod(node.shape)):
            raise self.refuse(
                node.path, f"of shape {node.shape} has chunks of shape {tuple(chunk)}"
            )
        if dataset.get_num_chunks() != count:
            raise self.refuse(
                node.path, f"declares {node.stored_bytes} bytes, which are not all stored"
            )
        smallest = node.stored_bytes // 1100  # deflate can't compress more than 1032 to 1
        if not smallest <= dataset.get_storage_size() <= self._size:
            raise self.refuse(
                node.path, f"declares {node.stored_bytes} bytes, which are not all stored"
            )


def is_possible(shape: Sequence[int], stored: np.dtype[Any]) -> bool:
    """Whether NumPy can have an array of this shape at all; it counts empty axes as 1."""
    return len(shape) <= MAX_RANK and math.prod(n or 1 for n in shape) * stored.itemsize < 1 << 62


def logical_dtype(stored: np.dtype[Any], attributes: dict[str, str]) -> np.dtype[Any] | None:
    """What values that are `stored` so stand for by the attributes; None when that can't be."""
    name = attributes.get("dtype")
    if stored.kind != "V" and (name is None or name == stored.name):
        return stored
    bfloat16 = as_dtype("bfloat16").dtype
    if stored.kind == "V":
        return bfloat16
    if name == "str" and stored.kind == "S":
        return np.dtype(str)
    if name == "bfloat16" and stored == np.uint16:
        return bfloat16
    narrowed = {"float16": np.float16, "bfloat16": np.uint16}.get(attributes.get("narrow", ""))
    return np.dtype(name) if name in ("float32", "float64") and stored == narrowed else None


def _single(texts: Texts) -> dict[str, str]:
    """Without the lists."""
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _address(info: Any) -> int:
    return int(info.addr)


def open_error(name: str, error: Exception) -> CheckpointError:
    """The error when HDF5 can't open a file at all."""
    return CheckpointError(
        f"{name} can't be read as HDF5, it is damaged or something else: {error}"
    )
