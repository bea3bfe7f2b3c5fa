"""Digests of what a step depends on: the batch, random generators, weights and slots.

A digest of several arrays is BLAKE2b of their shapes, types and checksums, 16 hexadecimal digits;
`leaves` gives those of the single arrays, so that one can ask which of them differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from trainkit.checkpoints.format.checksum import checksum
from trainkit.checkpoints.restore.object_graph import has_slots, join, slot_variables
from trainkit.core import devices, nest
from trainkit.core.tensor import Tensor, is_tensor
from trainkit.core.trackable import Trackable
from trainkit.core.variable import Variable

PARTS = ("weights", "slots", "random")
_DIGEST_BYTES = 8


def array_of(value: Any) -> Any:
    """The values of a tensor, a variable or an array as a contiguous NumPy array."""
    if isinstance(value, Variable):
        array = value._host_view()
    elif type(value) is Tensor:
        array = devices.to_numpy(value._array)
    else:
        array = value.numpy() if is_tensor(value) else value
    return np.require(array, requirements="C")


def leaf_digest(value: Any) -> str:
    """The digest of one array; texts count by their UTF-8."""
    array = array_of(value)
    if array.dtype.kind in "OUST":
        parts = [x if isinstance(x, bytes) else str(x).encode() for x in array.ravel().tolist()]
        digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        for part in parts:
            digest.update(len(part).to_bytes(8, "little") + part)
        return digest.hexdigest()
    return checksum(array)[:16]


def digest_of(leaves: Iterable[Any]) -> str:
    """The digest of arrays in their order; what is `None` counts as such."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for leaf in leaves:
        if leaf is None:
            digest.update(b"none;")
            continue
        array = array_of(leaf)
        digest.update(f"{array.dtype.name}{array.shape}{leaf_digest(array)};".encode())
    return digest.hexdigest()


def batch_digest(batch: Any) -> str:
    """The digest of a batch, a nest of tensors or arrays."""
    return digest_of(nest.flatten(batch))


def rows_of(batch: Any) -> int | None:
    """How many samples a batch has, `None` where it does not say."""
    first = batch
    while type(first) in (tuple, list) and first:
        first = first[0]
    array = first._array if type(first) is Tensor else first
    if type(array) is np.ndarray and array.ndim:  # of nearly all, without flattening
        return len(array)
    for leaf in nest.flatten(batch):
        shape = getattr(leaf, "shape", None)
        if shape is not None and len(shape):
            return None if shape[0] is None else int(shape[0])
    return None


class StateDigests:
    """The variables below some objects, and their digests.

    Args:
        roots: objects by the name that their paths begin with. Variables of generators count as
            random state, those of optimizers as slots, others as weights. Metrics are left out, as
            nothing depends on them.

    Attributes:
        variables: by part, a list of (path, variable).
    """

    def __init__(self, roots: dict[str, Trackable]) -> None:
        self.roots = roots
        self.variables: dict[str, list[tuple[str, Variable]]] = {}
        self.look()

    def look(self) -> None:
        """Find the variables anew, as some are made by the first step."""
        listed: dict[str, list[tuple[str, Variable]]] = {part: [] for part in PARTS}
        visited: set[int] = set()
        stack: list[tuple[str, Any, str]] = [
            (name, root, "weights") for name, root in reversed(self.roots.items())
        ]
        while stack:
            path, node, part = stack.pop()
            if id(node) in visited or _is_metric(node):
                continue
            visited.add(id(node))
            part = _part(node) or part
            if isinstance(node, Variable):
                listed[part].append((path, node))
                continue
            below = [(join(path, name), child) for name, child in type(node).parts(node).items()]
            if has_slots(node):
                below += [(join(path, slot.path), slot) for _, _, slot in slot_variables(node)]
            stack += [(name, child, part) for name, child in reversed(below)]
        self.variables = listed

    def digest(self, part: str) -> str:
        """The digest of all variables of a part, one of `PARTS`."""
        return digest_of(variable for _, variable in self.variables[part])

    def leaves(self) -> dict[str, str]:
        """The digest of each variable by its path."""
        return {
            path: leaf_digest(variable) for part in PARTS for path, variable in self.variables[part]
        }


def _part(node: Any) -> str | None:
    """Which part an object begins, `None` for one that belongs to what holds it."""
    if getattr(node, "_is_generator", False):
        return "random"
    return "slots" if has_slots(node) else None


def _is_metric(node: Any) -> bool:
    return hasattr(node, "reset_state") and hasattr(node, "update_state")
