"""From tracked objects to the entries of a file: paths, names, classes, slots, shared objects.

A path is made of the names of parts from the root on. The first path that leads to an object, in
the order of assignment, is where it is written; later ones become links. State beside the variables
goes into a group `@state`. An optimizer's slot stands under the name of the slot and the path of
its weight, `optimizer/momentum/model/head/kernel`; when the weight is not in the tree, under its
position, `optimizer/momentum/@unattached/0`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from trainkit.checkpoints.format.validation import MAX_DEPTH
from trainkit.checkpoints.format.writer import Entry, Group, Link, Values
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.trackable import Trackable, traverse
from trainkit.core.variable import Variable

STATE = "@state"
UNATTACHED = "@unattached"
SLOTS = "slots"


def file_name(name: str) -> str:
    """The name of a part as HDF5 can take it: no slashes, not empty, no `@` in front."""
    safe = name.replace("%", "%25").replace("/", "%2F").replace("\0", "%00")
    if not safe:
        return "%"
    if safe in (".", ".."):
        return safe.replace(".", "%2E")
    return "%40" + safe[1:] if safe.startswith("@") else safe


def part_name(name: str) -> str:
    """The name of a part from what `file_name` made of it."""
    if name == "%":
        return ""
    for code, text in (("%2E", "."), ("%40", "@"), ("%2F", "/"), ("%00", "\0"), ("%25", "%")):
        name = name.replace(code, text)
    return name


def join(path: str, name: str) -> str:
    """The path of `name` below `path`."""
    return f"{path}/{name}" if path else name


def slot_variables(owner: Trackable) -> list[tuple[str, Any, Any]]:
    """The slots of an optimizer as (slot name, weight, slot); none for other objects."""
    listed: Callable[[], list[tuple[str, Any, Any]]] | None = getattr(owner, "slot_variables", None)
    return [] if listed is None else [item for item in listed() if isinstance(item[2], Variable)]


def has_slots(owner: Trackable) -> bool:
    """Whether `owner` is of a kind that may have slots."""
    return callable(getattr(owner, "slot_variables", None))


def is_partial(part: Trackable) -> bool:
    """Whether `part` is a `Checkpoint` of some parts only, in the place of any object."""
    return getattr(part, "_stands_for", part) is None


def kind_name(part: Trackable) -> str:
    """The class of an object as it is written into the file."""
    return str(getattr(part, "_checkpoint_kind", type(part).__name__))


class SavePlan:
    """What is to be written of the tree under `root`.

    Attributes:
        entries: in an order that can be written.
        paths: the path of each object, by `id`.
        cyclic: whether an object contains itself.

    Raises:
        InvalidArgumentError: the tree is nested too deep, or two things have one name.
    """

    def __init__(self, root: Trackable) -> None:
        self.entries: list[Entry] = []
        self.paths: dict[int, str] = {}
        self.cyclic = False
        self._open: set[int] = set()
        self._owners: list[tuple[str, Trackable]] = []
        self._written: set[str] = set()
        self._visit(root, "", 0)
        for path, owner in self._owners:
            self._slots(path, owner)

    def _add(self, entry: Entry) -> None:
        if entry.path in self._written:
            raise InvalidArgumentError(f"two parts are called '{entry.path}'; rename one")
        self._written.add(entry.path)
        self.entries.append(entry)

    def _visit(self, part: Trackable, path: str, depth: int) -> None:
        if id(part) in self.paths:
            self.cyclic = self.cyclic or id(part) in self._open
            self._add(Link(path, self.paths[id(part)]))
            return
        if depth > MAX_DEPTH - 8:
            raise InvalidArgumentError(
                f"the objects are nested more than {MAX_DEPTH - 8} levels deep: '{path[:80]} ...'"
            )
        self.paths[id(part)] = path
        if isinstance(part, Variable):
            self._add(Values(path, part._host_view))
            return
        self._open.add(id(part))
        self._add(Group(path, {"type": kind_name(part)}))
        self._state(part, path)
        for name, child in type(part).parts(part).items():
            self._visit(child, join(path, file_name(name)), depth + 1)
        self._open.discard(id(part))
        if has_slots(part):
            self._owners.append((path, part))

    def _state(self, part: Trackable, path: str) -> None:
        for name, value in type(part).state_arrays(part).items():
            where = join(join(path, STATE), file_name(name))
            self._add(Values(where, partial(np.asarray, value)))

    def _slots(self, path: str, owner: Trackable) -> None:
        unattached: dict[str, int] = {}
        for name, weight, slot in slot_variables(owner):
            base = join(path, file_name(name))
            if base not in self._written:
                self._add(Group(base, {"type": SLOTS}))
            where = self.paths.get(id(weight))
            if where is None:
                count = unattached[name] = unattached.get(name, -1) + 1
                where = f"{UNATTACHED}/{count}"
            self._slot(join(base, where), slot)

    def _slot(self, path: str, slot: Variable) -> None:
        first_path = self.paths.get(id(slot))
        if first_path is not None:
            self._add(Link(path, first_path))
            return
        self.paths[id(slot)] = path
        self._add(Values(path, slot._host_view, slot=True))


def weight_paths(model: Trackable) -> list[tuple[str, Variable]]:
    """A model's weights with their paths; no state of optimizers, metrics or generators."""
    weights = getattr(model, "weights", None)
    weight_ids = None if weights is None else {id(weight) for weight in weights}
    return [
        ("/".join(map(file_name, path)), part)
        for path, part in traverse(model, enter=lambda part: not has_slots(part))
        if isinstance(part, Variable) and (weight_ids is None or id(part) in weight_ids)
    ]
