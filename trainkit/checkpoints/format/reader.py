"""`SavedFile`: an open checkpoint, checked before anything is taken from it."""

from __future__ import annotations

import bisect
import json
import os
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from trainkit.checkpoints.format.checksum import PART, SMALL, Checksum, as_bytes
from trainkit.checkpoints.format.executor import in_threads
from trainkit.checkpoints.format.header import (
    BLOCK,
    Extent,
    Header,
    has_header,
    read_header,
    verify_header,
)
from trainkit.checkpoints.format.index import MAX_BYTES, decode
from trainkit.checkpoints.format.parallel_checksum import PIECE, digests_of
from trainkit.checkpoints.format.positioned_io import read_at, read_into
from trainkit.checkpoints.format.regular_files import open_regular
from trainkit.checkpoints.format.validation import H5_ERRORS, ArrayNode, GroupNode, Node, Validator
from trainkit.checkpoints.format.writer import FORMAT, VERSION, opened
from trainkit.checkpoints.legacy.header_texts import HeaderTexts
from trainkit.core.errors import CheckpointError, NotFoundError
from trainkit.core.files.local_paths import local_path

_H5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_CACHE = 1 << 24  # bytes of small arrays that are kept from the check until they are used


class SavedFile:
    """A checkpoint file, open for reading; its structure is in `root`.

    The file stays readable when it is replaced or removed later.

    Args:
        path: the file.
        foreign: whether HDF5 without trainkit's header is taken too, as Keras writes it.
        fd: the file, already open; `path` is only its name then.
        with_lists: whether attributes may be long texts, and lists of texts.

    Attributes:
        name: what errors call the file.
        sealed: whether it has a header, whose checksums cover it.
        order: grows with each save; 0 without a header.
        root: the root group.
        manifest: what the file says about its making.

    Raises:
        NotFoundError: there is no such file.
        CheckpointError: it is damaged, hostile, or no checkpoint.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        foreign: bool = False,
        fd: int | None = None,
        with_lists: bool = False,
    ) -> None:
        self.name = local_path(path, CheckpointError)
        self._with_lists = with_lists
        self._fd = open_regular(self.name, "checkpoint") if fd is None else os.dup(fd)
        self._closer = weakref.finalize(self, os.close, self._fd)
        self._cached_bytes = 0
        self._extents: list[Extent] = []
        try:
            self._read_structure(foreign)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError) and not isinstance(error, CheckpointError):
                raise CheckpointError(f"{self.name} can't be read: {error}") from error
            raise

    def _read_structure(self, foreign: bool) -> None:
        start = read_at(self._fd, BLOCK, 0)
        self.sealed = has_header(start) or not foreign
        self.order = 0
        root = None
        if self.sealed:
            header, self._extents = verify_header(self._fd, self.name)
            self.order = header.order
            root = self._contents(header)
        elif not start.startswith(_H5_SIGNATURE):
            raise CheckpointError(f"{self.name} is not an HDF5 file, or its beginning is damaged")
        self.root = root or self._read_tree()
        self._arrays = [node for node in nodes(self.root) if isinstance(node, ArrayNode)]
        self._give_digests()
        self.manifest = self._manifest()

    def _contents(self, header: Header) -> GroupNode | None:
        """What the table of contents says, where there is one that is enough."""
        start = header.table - header.contents
        if not header.contents:
            return None
        if header.contents > MAX_BYTES:
            raise CheckpointError(
                f"{self.name} is refused: its table of contents has {header.contents} bytes, "
                f"more than {MAX_BYTES}"
            )
        return decode(read_at(self._fd, header.contents, start), self.name, start)

    def _read_tree(self) -> GroupNode:
        """What HDF5 says."""
        with opened(self._fd, self.name) as (file, source):
            size = os.fstat(self._fd).st_size
            texts = HeaderTexts(self._fd, self.name) if self._with_lists else None
            return Validator(file, source, self.name, size, self.sealed, texts).tree()

    def verify_structure(self) -> None:
        """Compare the table of contents with what HDF5 readers see.

        Raises:
            CheckpointError: they differ, or HDF5 holds what no checkpoint does.
        """
        listed, stored = outline(self.root), outline(self._read_tree())
        for path in sorted(listed.keys() | stored.keys()):
            if listed.get(path) != stored.get(path):
                raise CheckpointError(
                    f"{self.name} is damaged: its table of contents has "
                    f"{listed.get(path, 'nothing')} as '/{path}', HDF5 has "
                    f"{stored.get(path, 'nothing')}"
                )

    def _give_digests(self) -> None:
        """Tell each big array its checksum; no array's bytes are covered by halves."""
        starts = [extent.offset for extent in self._extents]
        for node in self.arrays():
            if node.offset is None:
                continue
            end = node.offset + node.stored_bytes
            index = bisect.bisect_right(starts, node.offset) - 1
            if index >= 0 and self._extents[index][:2] == (node.offset, node.stored_bytes):
                node.digest = self._extents[index].digest
                continue
            before = self._extents[index] if index >= 0 else Extent(0, 0, "")
            after = starts[index + 1] if index + 1 < len(starts) else end
            if before.offset + before.size > node.offset or after < end:
                raise CheckpointError(
                    f"{self.name} is refused: '/{node.path}' shares its bytes with another array"
                )

    def _manifest(self) -> dict[str, Any]:
        try:
            manifest = json.loads(self.root.attributes.get("manifest", "{}"))
        except (ValueError, RecursionError):
            manifest = None
        if not isinstance(manifest, dict):
            raise CheckpointError(f"{self.name} is refused: its manifest is not a JSON object")
        return manifest

    def require_checkpoint(self) -> None:
        """Refuse files that are not object-based checkpoints of this version."""
        attributes = self.root.attributes
        if attributes.get("format") != FORMAT:
            raise CheckpointError(
                f"{self.name} is not a checkpoint; weights files are for model.load_weights"
            )
        if attributes.get("version") != VERSION:
            raise CheckpointError(
                f"{self.name} has version {attributes.get('version')!r}, "
                f"this trainkit reads {VERSION!r}"
            )

    # ------------------------------------------------------------------ values

    def arrays(self) -> list[ArrayNode]:
        """All datasets, each once."""
        return self._arrays

    def verify(self) -> None:
        """Read every dataset, and compare every big one with its checksum.

        Raises:
            CheckpointError: one differs, or can't be read; the error names it.
        """
        digests = digests_of(self._fd, self._extents)
        plain = []
        for node in self.arrays():
            if node.offset is None:  # what HDF5 has to read is read by one thread
                self._verify(node)
            elif node.digest is None or node.stored.kind == "b":
                plain.append(node)
        in_threads(self._verify, plain, total_bytes(plain))
        nodes_by_offset = {node.offset: node for node in self.arrays() if node.digest is not None}
        for extent in self._extents:
            if digests.get(extent) == extent.digest:
                continue
            if extent.offset in nodes_by_offset:
                # reads once more, so that the error says what is wrong
                self._verify(nodes_by_offset[extent.offset])
            else:
                raise CheckpointError(
                    f"{self.name} is damaged: {extent.size} bytes from {extent.offset} on do not "
                    "fit their checksum"
                )

    def _verify(self, node: ArrayNode) -> None:
        if node.offset is None or node.stored_bytes <= SMALL or node.stored.kind == "b":
            value = self._validate(node)
            if node.stored_bytes <= SMALL and self._cached_bytes < _CACHE:
                self._cached_bytes += node.stored_bytes
                node.cached = value
            return
        scratch = np.empty(min(PART, node.stored_bytes), np.uint8)
        digest = Checksum(node.stored_bytes)
        for start in range(0, node.stored_bytes, PART):
            part = scratch[: min(PART, node.stored_bytes - start)]
            self._read(node, part, node.offset + start)
            digest.update(part)
        self._compare(node, digest)

    def _read(self, node: ArrayNode, part: Any, offset: int) -> None:
        try:
            count = read_into(self._fd, part, offset)
        except OSError as error:
            raise CheckpointError(f"{self.name}: '{node.path}' can't be read: {error}") from error
        if count < part.size:
            raise CheckpointError(f"{self.name} is damaged: '{node.path}' is cut short")

    def _compare(self, node: ArrayNode, actual: Checksum) -> None:
        if node.digest is not None and node.digest != actual.hexdigest():
            raise CheckpointError(
                f"{self.name} is damaged: '{node.path}' does not fit its checksum"
            )

    def _validate(self, node: ArrayNode) -> Any:
        """The values as stored, compared with their checksum."""
        array = np.empty(node.shape, node.stored)
        if node.offset is not None:
            self._fill(node, array)
        elif array.nbytes:
            self._read_by_h5py(node, array)
        if array.dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
            raise CheckpointError(
                f"{self.name} is refused: '{node.path}' has booleans that are none"
            )
        return array

    def _read_by_h5py(self, node: ArrayNode, array: Any) -> None:
        with opened(self._fd, self.name) as (file, _):
            try:
                file[node.path].read_direct(array)
            except H5_ERRORS as error:
                raise CheckpointError(f"{self.name} is damaged: '{node.path}': {error}") from error

    def _fill(self, node: ArrayNode, array: Any) -> None:
        """Read the bytes of `node` into `array`, contiguous, comparing on the way."""
        data = as_bytes(array)
        assert node.offset is not None
        if node.digest is None:
            return self._read(node, data, node.offset)
        digest = Checksum(data.size)
        for start in range(0, data.size, PART):
            part = data[start : start + PART]
            self._read(node, part, node.offset + start)
            digest.update(part)
        return self._compare(node, digest)

    def value(self, node: ArrayNode) -> Any:
        """The values of `node` as a NumPy array of `node.dtype`."""
        stored = self._validate(node) if node.cached is None else node.cached
        if node.dtype == stored.dtype:
            return stored.copy() if node.cached is not None else stored
        if node.dtype.kind == "U":
            return np.char.decode(stored, "utf-8")
        if node.dtype.name == "bfloat16":
            return stored.view(node.dtype)
        return _widen(stored, node)

    def fits(self, node: ArrayNode, array: Any) -> bool:
        """Whether the bytes of `node` can be read straight into `array`, a NumPy array."""
        direct = node.offset is not None and node.cached is None and node.dtype.kind not in "Ub"
        same = node.dtype == array.dtype and "narrow" not in node.attributes
        return direct and same and array.flags.c_contiguous and array.shape == node.shape

    def read_direct(self, node: ArrayNode, array: Any) -> bool:
        """Read `node` straight into `array`, compared with its checksum; False if it can't be."""
        if not self.fits(node, array):
            return False
        self._fill(node, array)
        return True

    def read_all(self, pairs: list[tuple[ArrayNode, Any]]) -> None:
        """Read nodes into arrays that they fit. Call it after `verify`; nothing is compared again.

        Raises:
            CheckpointError: the disk fails, or someone has cut the file short since.
        """
        pieces = [
            (node, as_bytes(array)[start : start + PIECE], node.offset + start)
            for node, array in pairs
            if node.offset is not None
            for start in range(0, node.stored_bytes, PIECE)
        ]
        pieces.reverse()  # the caches of the processor hold what was verified last
        in_threads(lambda piece: self._read(*piece), pieces, total_bytes(n for n, _ in pairs))

    def close(self) -> None:
        """Give the file back; nothing can be read any more."""
        self._closer()


def _widen(stored: Any, node: ArrayNode) -> Any:
    import ml_dtypes

    if node.attributes.get("narrow") == "bfloat16":
        stored = stored.view(ml_dtypes.bfloat16)
    return stored.astype(node.dtype)


def nodes(root: Node) -> Iterator[Node]:
    """All nodes under `root`, each once, parents first."""
    visited: set[int] = set()
    stack: list[Node] = [root]
    while stack:
        node = stack.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        yield node
        if isinstance(node, GroupNode):
            stack.extend(reversed(node.children.values()))


def outline(root: GroupNode) -> dict[str, str]:
    """What each node under `root` is, by the path where it was found first."""
    descriptions = {}
    for node in nodes(root):
        if isinstance(node, ArrayNode):
            text = f"{node.shape} {node.dtype} stored as {node.stored} at {node.offset}"
        else:
            text = str({name: child.path for name, child in node.children.items()})
        descriptions[node.path] = f"{text} with {sorted(node.attributes.items())}"
    return descriptions


def order_of(path: str | os.PathLike[str]) -> int | None:
    """The order of a sealed file whose length and header are right, else None."""
    try:
        fd = open_regular(path, "checkpoint")
    except (CheckpointError, NotFoundError):
        return None
    try:
        return read_header(fd, local_path(path)).order
    except (CheckpointError, OSError):
        return None
    finally:
        os.close(fd)


def total_bytes(arrays: Iterable[ArrayNode]) -> int:
    """Bytes of all the values as stored."""
    return sum(node.stored_bytes for node in arrays)
