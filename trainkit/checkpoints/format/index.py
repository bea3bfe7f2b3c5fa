"""The table of contents of a checkpoint: its tree, which a reader needs no HDF5 library for.

It stands behind the HDF5 part, where HDF5 readers do not look; the header covers it. It is a JSON
list of the file's objects; the first is the root. A group is `[attributes, {name: number}]`, with
the numbers of objects in this list; a dataset is `[attributes, sizes, dtype, offset]`, whose values
stand in the file from the offset on. An object with several names stands in the list once.

A file has one when all of its values stand as they are: not when they are compressed. What reads a
table trusts it as little as it would trust the HDF5 part: no array reaches beyond the file, and a
group contains itself only in files that say so.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np

from trainkit.checkpoints.format.validation import (
    MAX_ATTRIBUTES,
    MAX_DEPTH,
    MAX_TEXT,
    ArrayNode,
    GroupNode,
    Node,
    is_possible,
    logical_dtype,
)
from trainkit.core.errors import CheckpointError

MAX_BYTES = 1 << 21
"""Longer tables are not written: HDF5's own structure is read for files of so many objects."""
_DTYPE = re.compile(r"[<>|][biufcS]\d{1,9}")


class Contents:
    """Notes what goes into a file, entry by entry, each after the group that it stands in."""

    def __init__(self, attributes: dict[str, str]) -> None:
        self._objects: list[list[Any]] = [[attributes, {}]]
        self._complete = True

    def group(self, path: str, attributes: dict[str, str]) -> None:
        """The group at `path`; the root, `""`, takes more attributes."""
        if path:
            self._add(path, [attributes, {}])
        else:
            self._objects[0][0].update(attributes)

    def array(self, path: str, array: Any, offset: int | None, attributes: dict[str, str]) -> None:
        """A dataset that holds `array`; without an offset when its values do not stand as is."""
        if offset is None and array.nbytes:
            self._complete = False
        dtype = array.dtype.newbyteorder("=").str
        self._add(path, [attributes, list(array.shape), dtype, offset])

    def leave_out(self) -> None:
        """Something goes into the file that a table has no place for, so the file has none."""
        self._complete = False

    def link(self, path: str, target: str) -> None:
        """One more name of what stands at `target`."""
        self._record_path(path, self._find(target))

    def encode(self) -> bytes:
        """The table; empty when the file can't have one."""
        for each in self._objects:
            if len(each) == 2:
                each[1] = dict(sorted(each[1].items(), key=lambda item: item[0].encode()))
        data = json.dumps(self._objects, separators=(",", ":")).encode()
        return data if self._complete and len(data) <= MAX_BYTES else b""

    def _add(self, path: str, entry: list[Any]) -> None:
        self._objects.append(entry)
        self._record_path(path, len(self._objects) - 1)

    def _record_path(self, path: str, number: int) -> None:
        parent, _, name = path.rpartition("/")
        self._objects[self._find(parent)][1][name] = number

    def _find(self, path: str) -> int:
        """The number of what stands at `path`; groups on the way are made, as HDF5 makes them."""
        number = 0
        for name in filter(None, path.split("/")):
            children = self._objects[number][1]
            if name not in children:
                self._objects.append([{}, {}])
                children[name] = len(self._objects) - 1
            number = children[name]
        return number


def decode(data: bytes, name: str, end: int) -> GroupNode | None:
    """The tree of a table.

    Args:
        data: the table, as `Contents.encode` made it.
        name: what errors call the file.
        end: offset in the file that no array reaches beyond.

    Returns:
        The root; None when HDF5 has to read the file, which has another byte order than this
        machine.

    Raises:
        CheckpointError: the table does not make sense, or describes what no checkpoint holds.
    """
    try:
        objects = json.loads(data)
        return _Reader(objects, name, end).tree()
    except CheckpointError:
        raise
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError, AttributeError) as e:
        raise CheckpointError(f"{name} is refused: its table of contents is none: {e}") from e


class _Reader:
    def __init__(self, objects: list[Any], name: str, end: int) -> None:
        self._objects = objects
        self._name = name
        self._end = end
        self._nodes: dict[int, Node] = {}
        self._open: set[int] = set()
        self._foreign = False
        self._cycles = "cycles" in objects[0][0]

    def tree(self) -> GroupNode | None:
        root = self._node(0, "", 0)
        if not isinstance(root, GroupNode):
            raise self._refuse("", "is not a group")
        return None if self._foreign else root

    def _refuse(self, path: str, reason: str) -> CheckpointError:
        return CheckpointError(f"{self._name} is refused: '/{path}' {reason}")

    def _node(self, number: Any, path: str, depth: int) -> Node:
        if type(number) is not int or number < 0:
            raise self._refuse(path, f"is the object {str(number)[:40]!r}, which is no number")
        earlier = self._nodes.get(number)
        if earlier is not None:
            if number in self._open and not self._cycles:
                raise self._refuse(path, f"contains itself: it is also '/{earlier.path}'")
            return earlier
        entry = self._objects[number]
        attributes = self._attributes(entry[0], path)
        if len(entry) == 2:
            return self._group(number, attributes, entry[1], path, depth)
        _, shape, dtype, offset = entry
        node = self._nodes[number] = self._array(attributes, shape, dtype, offset, path)
        return node

    def _attributes(self, attributes: Any, path: str) -> dict[str, str]:
        if not isinstance(attributes, dict) or len(attributes) > MAX_ATTRIBUTES:
            raise self._refuse(path, f"has no attributes, or more than {MAX_ATTRIBUTES}")
        for text in attributes.values():
            if type(text) is not str or len(text) > MAX_TEXT:
                raise self._refuse(path, f"has an attribute that is no text up to {MAX_TEXT}")
        return attributes

    def _group(
        self, number: int, attributes: dict[str, str], children: Any, path: str, depth: int
    ) -> GroupNode:
        if depth > MAX_DEPTH:
            raise self._refuse(path, f"is nested more than {MAX_DEPTH} levels deep")
        if not isinstance(children, dict):
            raise self._refuse(path, "has no list of what it holds")
        node = self._nodes[number] = GroupNode(path, attributes)
        self._open.add(number)
        start = f"{path}/" if path else ""
        for name, child in children.items():
            if not name.encode() or "/" in name:  # what is no text can't be encoded
                raise self._refuse(path, f"has a child named {name!r}")
            node.children[name] = self._node(child, start + name, depth + 1)
        self._open.discard(number)
        return node

    def _array(
        self, attributes: dict[str, str], shape: Any, dtype: Any, offset: Any, path: str
    ) -> ArrayNode:
        if type(dtype) is not str or not _DTYPE.fullmatch(dtype):
            raise self._refuse(path, f"holds values of type {str(dtype)[:40]!r}")
        stored = np.dtype(dtype)
        self._foreign |= not stored.isnative
        if any(type(n) is not int or n < 0 for n in shape) or not is_possible(shape, stored):
            raise self._refuse(path, f"has the sizes {str(shape)[:80]}")
        if offset is not None and (type(offset) is not int or offset < 0):
            raise self._refuse(path, f"stands at {str(offset)[:40]!r}, which is no place")
        logical = logical_dtype(stored, attributes)
        if logical is None:
            raise self._refuse(
                path, f"calls itself {str(attributes.get('dtype'))[:40]!r} and holds {stored}"
            )
        size = math.prod(shape) * stored.itemsize
        if size and (offset is None or offset + size > self._end):
            raise self._refuse(path, f"declares {size} bytes, which are not all in the file")
        return ArrayNode(path, tuple(shape), logical, stored, offset if size else None, attributes)
