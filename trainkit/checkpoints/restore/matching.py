"""Which object takes which value of a file: a traversal of both trees, side by side.

It changes nothing. Objects and groups are matched by the names of parts; an optimizer's slots by
the weight that they belong to, wherever the file has that weight.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from trainkit.checkpoints.format.reader import nodes
from trainkit.checkpoints.format.validation import ArrayNode, GroupNode, Node
from trainkit.checkpoints.restore.object_graph import (
    SLOTS,
    STATE,
    UNATTACHED,
    file_name,
    has_slots,
    is_partial,
    join,
    kind_name,
    part_name,
    slot_variables,
)
from trainkit.checkpoints.restore.report import Difference
from trainkit.core.trackable import Trackable, traverse
from trainkit.core.variable import Variable

COUNTER = "save_counter"


class Weights:
    """Which values of a file a variable was matched with; does not keep the variables alive."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Variable], list[ArrayNode]]] = {}

    def add(self, variable: Variable, node: ArrayNode) -> None:
        """Note one more value of `variable`."""
        earlier_nodes = self.of(variable)
        if node not in earlier_nodes:
            self._known[id(variable)] = weakref.ref(variable), [*earlier_nodes, node]

    def of(self, variable: Any) -> list[ArrayNode]:
        """The values of `variable`, the first match first."""
        reference, matches = self._known.get(id(variable), (None, []))
        return matches if reference is not None and reference() is variable else []


@dataclass
class Slots:
    """The slots that a file has for one optimizer; counts those without a weight."""

    node: GroupNode
    by_weight: dict[str, dict[int, ArrayNode]] = field(default_factory=dict)
    unattached: dict[str, int] = field(default_factory=dict)

    def find(self, root: GroupNode, name: str, weights: list[ArrayNode]) -> ArrayNode | None:
        """The slot `name` of the weight matched with `weights`; the next loose one without any."""
        group = self.node.children.get(file_name(name))
        if not isinstance(group, GroupNode) or group.attributes.get("type") != SLOTS:
            return None
        if not weights:
            return self._loose(name, group)
        if name not in self.by_weight:
            self.by_weight[name] = dict(_pair_slots(group, root))
        slots_by_weight = self.by_weight[name]
        return next(
            (slots_by_weight[id(weight)] for weight in weights if id(weight) in slots_by_weight),
            None,
        )

    def _loose(self, name: str, group: GroupNode) -> ArrayNode | None:
        count = self.unattached.get(name, 0)
        self.unattached[name] = count + 1
        loose = group.children.get(UNATTACHED)
        slot = loose.children.get(str(count)) if isinstance(loose, GroupNode) else None
        return slot if isinstance(slot, ArrayNode) else None


def _pair_slots(slots: GroupNode, root: GroupNode) -> Iterator[tuple[int, ArrayNode]]:
    """The values under `slots`, each with the `id` of the value of the same path in `root`."""
    stack: list[tuple[Node, Node]] = [(slots, root)]
    visited = set()
    while stack:
        slot, weight = stack.pop()
        if (id(slot), id(weight)) in visited:
            continue
        visited.add((id(slot), id(weight)))
        if isinstance(slot, ArrayNode):
            yield id(weight), slot
        elif isinstance(weight, GroupNode):
            stack += [
                (child, weight.children[name])
                for name, child in slot.children.items()
                if name in weight.children
            ]


class Match:
    """The outcome for one object and one node, and for all that is below them.

    Args:
        root: the file's root, in which slots look up their weights.
        weights: the values that variables were matched with before; is added to.
        skip_slots: whether optimizers keep the slots that they have.

    Attributes:
        values: (path, variable, value) for each variable that takes a value.
        states: (path, owner, values by name) for each object that takes arrays of its own.
        groups: (object, group) for each pair.
        differences: missing values, other shapes, dtypes and optimizers; not the unused ones.
        touched: the `id` of each value that an object was matched with, fitting or not.
    """

    def __init__(
        self, root: GroupNode, weights: Weights | None = None, skip_slots: bool = False
    ) -> None:
        self._root = root
        self._skip_slots = skip_slots
        self._weights = Weights() if weights is None else weights
        self.touched: set[int] = set()
        self.values: list[tuple[str, Variable, ArrayNode]] = []
        self.states: list[tuple[str, Trackable, dict[str, ArrayNode]]] = []
        self.groups: list[tuple[Trackable, GroupNode]] = []
        self.differences: list[Difference] = []
        self._visited: set[tuple[int, int]] = set()
        self._taken: set[int] = set()
        self._owners: list[tuple[str, Trackable, Slots]] = []

    def add(self, part: Trackable, node: Node, path: str) -> Match:
        """Match `part` with `node` and everything below."""
        self._pair(part, node, path)
        for where, owner, slots in () if self._skip_slots else self._owners:
            for name, weight, slot in slot_variables(owner):
                self.add_slot(slots, name, weight, slot, where)
        self._owners.clear()
        return self

    def add_slot(self, slots: Slots, name: str, weight: Any, slot: Variable, path: str) -> None:
        """Match one slot of the optimizer at `path`."""
        weights = self._weights.of(weight)
        where = join(path, file_name(name))
        slot_path = join(where, weights[0].path) if weights else join(where, str(weight.name))
        node = slots.find(self._root, name, weights)
        if node is None:
            self._missing(slot, slot_path)
        else:
            self._value(slot, node, slot_path)

    def _pair(self, part: Trackable, node: Node, path: str) -> None:
        if (id(part), id(node)) in self._visited:
            return
        self._visited.add((id(part), id(node)))
        if isinstance(part, Variable):
            if isinstance(node, ArrayNode):
                self._weights.add(part, node)
                self._value(part, node, path)
            else:
                self._missing(part, path)
        elif isinstance(node, GroupNode):
            self._group(part, node, path)
        else:
            self._missing(part, path)

    def _group(self, part: Trackable, node: GroupNode, path: str) -> None:
        self.groups.append((part, node))
        saved_kind = node.attributes.get("type", "")
        if has_slots(part):
            self._owners.append((path, part, Slots(node)))
            if saved_kind and saved_kind != kind_name(part) and not is_partial(part):
                self.differences.append(
                    Difference(
                        "other optimizer", path, f"object {kind_name(part)}, file {saved_kind}"
                    )
                )
        self._state(part, node, path)
        prepare = getattr(part, "_before_restore", None)
        if prepare is not None:
            prepare(node.children)
        for name, child in type(part).parts(part).items():
            below = node.children.get(file_name(name))
            where = join(path, file_name(name))
            if below is not None:
                self._pair(child, below, where)
            elif name != COUNTER:
                self._missing(child, where)

    def _state(self, part: Trackable, node: GroupNode, path: str) -> None:
        """Match the arrays that `part` keeps itself; it decides whether it can take them."""
        takes = type(part).load_state_arrays is not Trackable.load_state_arrays
        group = node.children.get(STATE)
        if takes and isinstance(group, GroupNode):
            arrays = {
                part_name(name): value
                for name, value in group.children.items()
                if isinstance(value, ArrayNode)
            }
            self.touched |= {id(value) for value in arrays.values()}
            self.states.append((path, part, arrays))
        elif takes:
            self._missing_state(part, path)

    def _missing_state(self, part: Trackable, path: str) -> None:
        for name in type(part).state_arrays(part):
            where = join(join(path, STATE), file_name(name))
            self.differences.append(Difference("missing", where, "state"))

    def _value(self, variable: Variable, node: ArrayNode, path: str) -> None:
        self.touched.add(id(node))
        array = variable._value._array
        if array.shape == node.shape and array.dtype == node.dtype:
            if id(variable) not in self._taken:
                self._taken.add(id(variable))
                self.values.append((path, variable, node))
            return
        file_text = f"{node.shape} {_dtype_text(node)}"
        object_text = f"{tuple(variable.shape)} {variable.dtype.name}"
        if not variable.shape.is_compatible_with(node.shape):
            self.differences.append(
                Difference("other shape", path, f"object {object_text}, file {file_text}")
            )
        elif _dtype_text(node) != variable.dtype.name:
            self.differences.append(
                Difference("other dtype", path, f"object {object_text}, file {file_text}")
            )
        elif id(variable) not in self._taken:
            self._taken.add(id(variable))
            self.values.append((path, variable, node))

    def _missing(self, part: Trackable, path: str) -> None:
        """Note each value under `part`, which the file has nothing for."""
        for names, below in traverse(part):
            where = "/".join([path, *map(file_name, names)])
            if names and names[-1] == COUNTER:
                continue
            if isinstance(below, Variable):
                text = f"{tuple(below.shape)} {below.dtype.name}"
                self.differences.append(Difference("missing", where, text))
            else:
                self._missing_state(below, where)


def _dtype_text(node: ArrayNode) -> str:
    return "string" if node.dtype.kind == "U" else node.dtype.name


def lost_paths(root: GroupNode) -> Iterator[str]:
    """The paths of values that were not taken although their owner has taken others.

    An object without any values is one that has not been built, and an optimizer without slots one
    that has not made a step; what these have not taken is not lost yet.
    """
    filled = _find_filled(root)
    stack: list[GroupNode] = [root]
    visited = set()
    while stack:
        group = stack.pop()
        if id(group) in visited:
            continue
        visited.add(id(group))
        slots_made = any(
            id(child) in filled for child in group.children.values() if _is_slots(child)
        )
        for child in group.children.values():
            if isinstance(child, GroupNode) and (child.bound or id(child) in filled):
                stack.append(child)
            elif slots_made if _is_slots(child) else id(group) in filled:
                yield from (node.path for node in nodes(child) if isinstance(node, ArrayNode))


def slot_values(root: GroupNode) -> Iterator[ArrayNode]:
    """The slots of all optimizers of a file."""
    for group in nodes(root):
        if _is_slots(group):
            yield from (node for node in nodes(group) if isinstance(node, ArrayNode))


def _is_slots(node: Node) -> bool:
    return isinstance(node, GroupNode) and node.attributes.get("type") == SLOTS


def _find_filled(root: GroupNode) -> set[int]:
    """The `id` of each group that has a value, at any depth but not as a slot, that was taken."""
    parents: dict[int, list[GroupNode]] = {}
    filled: set[int] = set()
    for node in nodes(root):
        if isinstance(node, GroupNode):
            for child in node.children.values():
                parents.setdefault(id(child), []).append(node)
    stack: list[Node] = [node for node in nodes(root) if isinstance(node, ArrayNode) and node.bound]
    while stack:
        node = stack.pop()
        for parent in parents.get(id(node), ()):
            if id(parent) not in filled:
                filled.add(id(parent))
                if not _is_slots(parent):
                    stack.append(parent)
    return filled
