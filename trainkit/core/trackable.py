"""`Trackable`: the base of everything that owns state, and `traverse` over the tree of it.

A trackable object's parts are those of its attributes that are trackable themselves, in the order
in which they were first assigned. Lists, dicts, and tuples that are assigned to attributes become
tracked containers, so what is added to them later belongs to the tree as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, SupportsIndex

from trainkit.core.values.attribute_state import CHANGES


class Trackable:
    """An object with named parts; checkpoints, `variables` and summaries all come from these.

    A class that keeps state which is not in Variables overrides `state_arrays` and
    `load_state_arrays`. Names in `_untracked` are never parts, and their lists and dicts stay what
    they are.

    Attributes may have any name, `parts` and `state_arrays` too: whoever traverses the tree asks
    the class, `type(x).parts(x)`.
    """

    _untracked: frozenset[str] = frozenset()

    def __setattr__(self, name: str, value: Any) -> None:
        kind = type(value)
        if (kind is list or kind is dict or kind is tuple) and name not in self._untracked:
            value = tracked(value)
        try:
            object.__setattr__(self, name, value)
        except AttributeError:
            _refuse_read_only(self, name)
            raise
        CHANGES.parts += 1
        if isinstance(value, Trackable) and name not in self._untracked:
            self._part_added(name, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        CHANGES.parts += 1

    def _part_added(self, name: str, part: Trackable) -> None:
        """Restore `part` when a checkpoint that was loaded earlier holds a value for it."""
        pending = self.__dict__.get("_pending_restore")
        if pending is not None:
            pending.part_added(self, name, part)

    def _slot_added(self, slot_name: str, weight: Trackable, slot: Trackable) -> None:
        """Restore `slot`, new in an optimizer, when a checkpoint loaded earlier holds it."""
        pending = self.__dict__.get("_pending_restore")
        if pending is not None:
            pending.slot_added(self, slot_name, weight, slot)

    def parts(self) -> dict[str, Trackable]:
        """The trackable attributes by name, in the order of their first assignment."""
        hidden = self._untracked
        return {
            name: value
            for name, value in self.__dict__.items()
            if isinstance(value, Trackable) and name not in hidden
        }

    def state_arrays(self) -> dict[str, Any]:
        """State outside of Variables, as NumPy arrays by name; checkpoints store it too."""
        return {}

    def load_state_arrays(self, arrays: dict[str, Any]) -> None:
        """Take back what `state_arrays` gave.

        Args:
            arrays: NumPy arrays by name.

        Raises:
            ValueError: a name or shape is not what this object stores; nothing is changed then.
        """
        if arrays:
            names = ", ".join(sorted(arrays))
            raise ValueError(
                f"{type(self).__name__} stores no arrays of its own, the file has {names}"
            )


def set_silently(owner: Any, **attributes: Any) -> None:
    """Set attributes of an object past its `__setattr__`.

    For what a layer or model keeps for itself, and what nobody but it reads. `__setattr__` would
    make containers of lists and dicts and parts of trackable values, forget the parts that were
    gathered, and let compiled steps look at all settings again.
    """
    owner.__dict__.update(attributes)


def _refuse_read_only(owner: Trackable, name: str) -> None:
    """Say whose a property is that can't be set, where `name` is one.

    Raises:
        AttributeError: it is.
    """
    for kind in type(owner).__mro__:
        if name in vars(kind):
            descriptor = vars(kind)[name]
            if isinstance(descriptor, property) and descriptor.fset is None:
                raise AttributeError(
                    f"{type(owner).__name__}.{name} can't be set: `{name}` is a property of "
                    f"{kind.__name__}; give yours another name, such as `own_{name}`"
                ) from None
            return


def tracked(value: Any) -> Any:
    """A list or dict as a tracked container; a tuple only if something trackable is in it."""
    if isinstance(value, Trackable):
        return value
    kind = type(value)
    if kind is list:
        return TrackedList(value)
    if kind is dict:
        return TrackedDict(value)
    if kind is tuple:
        items = [tracked(item) for item in value]
        holds = any(isinstance(item, Trackable) for item in items)
        return TrackedTuple(items) if holds else value
    return value


class TrackedList(list[Any], Trackable):
    """A list whose trackable items are parts, named by their position."""

    def __init__(self, items: Iterable[Any] = ()) -> None:
        list.__init__(self, [tracked(item) for item in items])

    def parts(self) -> dict[str, Trackable]:
        """The trackable items by position."""
        return {str(i): item for i, item in enumerate(self) if isinstance(item, Trackable)}

    def _added(self) -> None:
        CHANGES.parts += 1
        if "_pending_restore" in self.__dict__:
            for name, item in self.parts().items():
                self._part_added(name, item)

    def append(self, item: Any) -> None:
        """Add `item` at the end."""
        CHANGES.note(item)
        list.append(self, tracked(item))
        self._added()

    def extend(self, items: Iterable[Any]) -> None:
        """Add all `items` at the end."""
        new = [tracked(item) for item in items]
        CHANGES.note_items(new)
        list.extend(self, new)
        self._added()

    def insert(self, index: SupportsIndex, item: Any) -> None:
        """Add `item` before position `index`."""
        CHANGES.note(item)
        list.insert(self, index, tracked(item))
        self._added()

    def __iadd__(self, items: Iterable[Any]) -> TrackedList:  # type: ignore[misc]
        self.extend(items)
        return self

    def __setitem__(self, key: Any, item: Any) -> None:
        new = [tracked(x) for x in item] if isinstance(key, slice) else tracked(item)
        CHANGES.note(new)
        list.__setitem__(self, key, new)
        self._added()

    def __delitem__(self, key: Any) -> None:
        CHANGES.note_items(self)
        list.__delitem__(self, key)
        CHANGES.parts += 1

    def pop(self, index: SupportsIndex = -1) -> Any:
        """Take out the item at `index`."""
        CHANGES.note_items(self)
        item = list.pop(self, index)
        CHANGES.parts += 1
        return item

    def remove(self, item: Any) -> None:
        """Take out the first item that equals `item`."""
        CHANGES.note_items(self)
        list.remove(self, item)
        CHANGES.parts += 1

    def clear(self) -> None:
        """Take out all items."""
        CHANGES.note_items(self)
        list.clear(self)
        CHANGES.parts += 1

    def reverse(self) -> None:
        """Turn the order round."""
        CHANGES.note_items(self)
        list.reverse(self)
        CHANGES.parts += 1

    def sort(self, **how: Any) -> None:
        """Put the items in order; see `list.sort`."""
        CHANGES.note_items(self)
        list.sort(self, **how)
        CHANGES.parts += 1

    def __reduce__(self) -> Any:
        return list, (list(self),)

    __hash__ = object.__hash__  # type: ignore[assignment]


class TrackedDict(dict[Any, Any], Trackable):
    """A dict whose trackable values are parts, named by their keys."""

    def __init__(self, items: Any = (), **more: Any) -> None:
        pairs = dict(items, **more)
        dict.__init__(self, {key: tracked(value) for key, value in pairs.items()})

    def parts(self) -> dict[str, Trackable]:
        """The trackable values by key."""
        return {str(key): item for key, item in self.items() if isinstance(item, Trackable)}

    def __setitem__(self, key: Any, item: Any) -> None:
        item = tracked(item)
        CHANGES.note(item)
        dict.__setitem__(self, key, item)
        CHANGES.parts += 1
        if isinstance(item, Trackable):
            self._part_added(str(key), item)

    def __delitem__(self, key: Any) -> None:
        CHANGES.note_items(self.values())
        dict.__delitem__(self, key)
        CHANGES.parts += 1

    def pop(self, key: Any, *default: Any) -> Any:
        """Take out the value of `key`."""
        CHANGES.note_items(self.values())
        item = dict.pop(self, key, *default)
        CHANGES.parts += 1
        return item

    def popitem(self) -> tuple[Any, Any]:
        """Take out the pair that came last."""
        CHANGES.note_items(self.values())
        item = dict.popitem(self)
        CHANGES.parts += 1
        return item

    def clear(self) -> None:
        """Take out all pairs."""
        CHANGES.note_items(self.values())
        dict.clear(self)
        CHANGES.parts += 1

    def update(self, *items: Any, **more: Any) -> None:
        """Set all pairs of a dict or of keyword arguments."""
        for key, value in dict(*items, **more).items():
            self[key] = value

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The value of `key`, which becomes `default` when it is missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def __ior__(self, items: Any) -> TrackedDict:  # type: ignore[misc]
        self.update(items)
        return self

    def __reduce__(self) -> Any:
        return dict, (dict(self),)

    __hash__ = object.__hash__  # type: ignore[assignment]


class TrackedTuple(tuple[Any, ...], Trackable):
    """A tuple whose trackable items are parts, named by their position."""

    def parts(self) -> dict[str, Trackable]:
        """The trackable items by position."""
        return {str(i): item for i, item in enumerate(self) if isinstance(item, Trackable)}

    def __reduce__(self) -> Any:
        return tuple, (tuple(self),)

    __hash__ = object.__hash__


class GatheredLists:
    """Lists that were gathered from a tree of parts, good until a part anywhere is another.

    A copy, or one that is read from a file, begins without any.

    Args:
        parts: `CHANGES.parts` before they were gathered.
    """

    __slots__ = ("lists", "parts")

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.lists: dict[Any, Any] = {}

    def __reduce__(self) -> Any:
        return GatheredLists, (-1,)


def gathered_lists(root: Any) -> dict[Any, Any]:
    """The lists gathered from something trackable and what is inside, by name, which still hold.

    Who gathers one asks first, and adds it then: so it counts as older than all changes meanwhile.
    """
    gathered: GatheredLists | None = root.__dict__.get("_gathered")
    if gathered is None or gathered.parts != CHANGES.parts:
        gathered = root.__dict__["_gathered"] = GatheredLists(CHANGES.parts)
    return gathered.lists


def traverse(
    root: Trackable, enter: Callable[[Trackable], bool] = lambda part: True
) -> Iterator[tuple[tuple[str, ...], Trackable]]:
    """All trackable objects under `root`, each once, under the first path that leads to it.

    Depth first, in the order of assignment; cycles end where they close.

    Args:
        root: yielded first, with the empty path.
        enter: tells of each object whether its parts are traversed too.
    """
    visited: set[int] = set()
    stack: list[tuple[tuple[str, ...], Trackable]] = [((), root)]
    while stack:
        path, part = stack.pop()
        if id(part) in visited:
            continue
        visited.add(id(part))
        yield path, part
        if enter(part):
            below = [((*path, name), child) for name, child in type(part).parts(part).items()]
            stack.extend(reversed(below))
