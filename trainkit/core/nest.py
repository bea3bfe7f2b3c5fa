"""Map over and flatten nested lists, tuples, dicts and records.

Dicts are traversed in the order of their sorted keys, as TensorFlow does, by every function here,
so that what one takes apart another puts together. What is put together has the type of the model:
named tuples, ordered and default dicts, dataclasses and attrs classes stay what they are, and dicts
keep the order of their keys.

`keras.tree` has rules of its own, `KERAS`: an `OrderedDict` is traversed in its own order, records
and other mappings than dicts are leaves, and containers must be of one type to match.
"""

from __future__ import annotations

import copy
import dataclasses
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MappingView
from typing import Any, NamedTuple

from trainkit.core.shapes import TensorShape


class Container(NamedTuple):
    """How values of one type are taken apart and put together.

    Attributes:
        family: what types of one family have in common; a dict may stand for another mapping.
        children: what the value holds, in the order of traversal.
        names: what tells the children apart, in the value's own order: keys, names of fields, or
            `None` where the position does.
        like: a value like the first argument with the second's items for children.
        has_fields: whether the names are those of attributes.
        keys: those of a mapping in the order of traversal, `None` for other values.
    """

    family: Any
    children: Callable[[Any], Iterable[Any]]
    names: Callable[[Any], tuple[Any, ...] | None]
    like: Callable[[Any, list[Any]], Any]
    has_fields: bool = False
    keys: Callable[[Any], list[Any]] | None = None


def sorted_keys(x: Mapping[Any, Any]) -> list[Any]:
    """The keys in the order in which a dict is traversed."""
    try:
        return sorted(x)
    except TypeError:
        return sorted(x, key=lambda key: (str(key), type(key).__name__))


# ---------------------------------------------------------------------- kinds of containers


def _is_trackable(kind: type) -> bool:
    return hasattr(kind, "_part_added")


def _no_names(x: Any) -> None:
    return None


def _mapping_container(keys: Callable[[Any], list[Any]]) -> Container:
    """Mappings whose values are traversed in this order of keys."""

    def children(x: Mapping[Any, Any]) -> list[Any]:
        return [x[key] for key in keys(x)]

    def like(x: Mapping[Any, Any], items: list[Any]) -> Any:
        packed = dict(zip(keys(x), items, strict=True))
        pairs = {key: packed[key] for key in x}
        if type(x) is dict:
            return pairs
        if not isinstance(x, dict):
            return type(x)(pairs)  # type: ignore[call-arg]
        mapping = copy.copy(x)  # with a default factory, and what else a subclass keeps
        for key, item in pairs.items():
            mapping[key] = item
        return mapping

    return Container(dict, children, tuple, like, keys=keys)


def _list_like(x: list[Any], items: list[Any]) -> Any:
    """The items in a list of the class of `x`, with the attributes of `x` where it has some."""
    if type(x) is list:
        return list(items)
    copied = copy.copy(x)
    copied[:] = items
    return copied


def _tuple_like(x: tuple[Any, ...], items: list[Any]) -> Any:
    return tuple(items) if type(x) is tuple or _is_trackable(type(x)) else type(x)(items)


def _record_like(names: Callable[[Any], tuple[str, ...]]) -> Callable[[Any, list[Any]], Any]:
    """What copies a record with other values in its fields, also where it is frozen."""

    def like(x: Any, items: list[Any]) -> Any:
        fields = names(x)
        if all(getattr(x, name) is item for name, item in zip(fields, items, strict=True)):
            return x
        record = copy.copy(x)
        for name, item in zip(fields, items, strict=True):
            object.__setattr__(record, name, item)
        return record

    return like


def _record(family: type, names: Callable[[Any], tuple[str, ...]]) -> Container:
    def children(x: Any) -> list[Any]:
        return [getattr(x, name) for name in names(x)]

    return Container(family, children, names, _record_like(names), has_fields=True)


def _set_fields(x: Any) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(x) if hasattr(x, f.name))


def _own(kind: type) -> Container:
    """A type that says itself how it is taken apart, by `__tf_flatten__`."""

    def children(x: Any) -> list[Any]:
        return list(x.__tf_flatten__()[1])

    def names(x: Any) -> tuple[Any, ...]:
        return (repr(x.__tf_flatten__()[0]),)

    def like(x: Any, items: list[Any]) -> Any:
        return kind.__tf_unflatten__(x.__tf_flatten__()[0], tuple(items))  # type: ignore[attr-defined]

    return Container(kind, children, names, like)


_LIST = Container(list, iter, _no_names, _list_like)
_TUPLE = Container(tuple, iter, _no_names, _tuple_like)
_DICT = _mapping_container(sorted_keys)
_DICT_AS_IT_IS = _mapping_container(list)
_QUEUE = Container(deque, iter, _no_names, lambda x, items: type(x)(items, x.maxlen))
_VIEW = Container(MappingView, iter, _no_names, lambda x, items: list(items))


def _container_of(kind: type) -> Container | None:
    """How values of a type are taken apart, `None` where they are leaves."""
    if hasattr(kind, "__tf_flatten__") and hasattr(kind, "__tf_unflatten__"):
        return _own(kind)
    if issubclass(kind, TensorShape):
        return None
    if issubclass(kind, list):
        return _LIST
    if issubclass(kind, tuple):
        fields = getattr(kind, "_fields", None)
        if fields is None:
            return _TUPLE
        names = tuple(fields)
        family = (kind.__name__, names)
        return Container(family, iter, lambda x: names, lambda x, items: type(x)(*items), True)
    if issubclass(kind, Mapping):
        return _DICT
    if issubclass(kind, deque):
        return _QUEUE
    if issubclass(kind, MappingView):
        return _VIEW
    return _record_of(kind)


def _record_of(kind: type) -> Container | None:
    fields = getattr(kind, "__attrs_attrs__", None)
    if fields is not None:
        names = tuple(field.name for field in fields)
        return _record(kind, lambda x: names)
    # an object that is called, as a layer, or tracked with its variables is no mere record
    called = any("__call__" in base.__dict__ for base in kind.__mro__)
    if dataclasses.is_dataclass(kind) and not (called or _is_trackable(kind)):
        return _record(kind, _set_fields)
    return None


# Types that come often, `None` for leaves; others are remembered as long as they live.
KINDS: dict[type, Container | None] = {
    list: _LIST,
    tuple: _TUPLE,
    dict: _DICT,
    range: None,
    TensorShape: None,
    **dict.fromkeys((int, float, bool, str, complex, bytes, type(None))),
}
_SEEN: weakref.WeakKeyDictionary[type, Container | None] = weakref.WeakKeyDictionary()


def container(x: Any) -> Container | None:
    """How `x` is taken apart, `None` for a leaf."""
    kind = type(x)
    return KINDS[kind] if kind in KINDS else _look_up(kind)


def _look_up(kind: type) -> Container | None:
    try:
        return _SEEN[kind]
    except KeyError:
        entry = _SEEN[kind] = _container_of(kind)
        return entry


def is_nested_type(kind: type) -> bool:
    """Whether values of a type hold other values."""
    return (KINDS[kind] if kind in KINDS else _look_up(kind)) is not None


def is_nested(x: Any) -> bool:
    """Whether `x` holds other values: a list, tuple, dict or record."""
    return container(x) is not None


def fields_of(x: Any) -> tuple[Any, ...] | None:
    """The names of the fields of a named tuple, a dataclass or an attrs class, else `None`."""
    entry = container(x)
    return entry.names(x) if entry is not None and entry.has_fields else None


def is_record(x: Any) -> bool:
    """Whether `x` is a dataclass whose fields are traversed; TensorFlow takes it for one value."""
    return dataclasses.is_dataclass(x) and fields_of(x) is not None


def like(x: Any, items: list[Any]) -> Any:
    """A container of the kind of `x` that holds `items`, in the order of traversal."""
    entry = container(x)
    if entry is None:
        raise TypeError(f"a {type(x).__name__} holds no items")
    return entry.like(x, items)


def above_arrays(x: Any) -> Container | None:
    """How `x` is taken apart where a `TensorArray`, which fills in loops, is one value."""
    return None if hasattr(type(x), "_is_element_array") else container(x)


# ---------------------------------------------------------------------- rules


Look = Callable[[Any], Container | None]
_SEQUENCES = (list, tuple)


class Rules(NamedTuple):
    """What is taken apart, and what stands beside what.

    Attributes:
        look: how a value is taken apart, `None` for a leaf.
        pairs: whether the children of two containers belong together, one by one.
        error: the text for two that do not.
    """

    look: Look
    pairs: Callable[[Container, Any, Container, Any], bool]
    error: str


def _pairs(mine: Container, x: Any, yours: Container, y: Any) -> bool:
    """Whether the children of `x` and `y` belong together: lists may be tuples."""
    if mine.family is dict and yours.family is dict:
        return set(x) == set(y)
    if isinstance(x, _SEQUENCES) and isinstance(y, _SEQUENCES):
        return len(x) == len(y)
    return bool(mine.family == yours.family and mine.names(x) == yours.names(y))


TENSORFLOW = Rules(container, _pairs, "structures differ: {!r} and {!r}")


def _keras_container(x: Any) -> Container | None:
    if isinstance(x, OrderedDict):
        return _DICT_AS_IT_IS
    if isinstance(x, TensorShape):
        return _TUPLE
    return container(x) if isinstance(x, (*_SEQUENCES, deque, dict)) else None


def _pairs_of_one_type(mine: Container, x: Any, yours: Container, y: Any) -> bool:
    """Whether the children belong together; what objects keep has the type of its base."""
    if mine.family is dict:
        return yours.family is dict and x.keys() == y.keys()
    a, b = (
        part.family if _is_trackable(type(z)) else type(z) for part, z in ((mine, x), (yours, y))
    )
    return a is b and len(x) == len(y)


KERAS = Rules(
    _keras_container,
    _pairs_of_one_type,
    "the structures are not nested in the same way: {!r} beside {!r}",
)


# ---------------------------------------------------------------------- traversal


def flatten(x: Any, look: Look = container) -> list[Any]:
    """All leaves of `x`, in order; `look` says what is taken apart.

    >>> flatten({"b": [1, 2], "a": (3,)})
    [3, 1, 2]
    """
    entry = look(x)
    if entry is None:
        return [x]
    leaves: list[Any] = []
    _collect(entry.children(x), leaves, look)
    return leaves


def _collect(items: Iterable[Any], leaves: list[Any], look: Look) -> None:
    for item in items:
        if look is container:  # without a call, for the types that come often
            kind = type(item)
            entry = KINDS[kind] if kind in KINDS else _look_up(kind)
        else:
            entry = look(item)
        if entry is None:
            leaves.append(item)
        else:
            _collect(entry.children(item), leaves, look)


def flatten_with_path(x: Any, look: Look = container) -> list[tuple[tuple[Any, ...], Any]]:
    """Pairs (path, leaf) in the order of `flatten`; a path has keys, positions, and fields.

    >>> flatten_with_path({"b": [1, 2], "a": 3})
    [(('a',), 3), (('b', 0), 1), (('b', 1), 2)]
    """
    return list(_leaves_by_path(x, look, ()))


def _leaves_by_path(
    x: Any, look: Look, path: tuple[Any, ...]
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    entry = look(x)
    if entry is None:
        yield path, x
        return
    children = list(entry.children(x))
    if entry.keys is not None:
        steps: Iterable[Any] = entry.keys(x)
    elif entry.has_fields and not isinstance(x, tuple):
        steps = entry.names(x) or ()
    else:
        steps = range(len(children))
    for step, child in zip(steps, children, strict=True):
        yield from _leaves_by_path(child, look, (*path, step))


def map_structure(fn: Callable[..., Any], x: Any, *others: Any) -> Any:
    """The structure of `x` with `fn` applied to each leaf, together with those of `others`.

    Lists and tuples may stand for one another, and so may mappings of the same keys.

    Raises:
        ValueError: the structures differ.

    >>> map_structure(lambda a: a + 1, {"a": [1, 2]})
    {'a': [2, 3]}
    """
    if others:
        return map_beside(fn, x, others, TENSORFLOW)
    entry = container(x)
    if entry is None:
        return fn(x)
    return entry.like(x, [map_structure(fn, item) for item in entry.children(x)])


def map_beside(fn: Callable[..., Any], x: Any, others: tuple[Any, ...], rules: Rules) -> Any:
    """The structure of `x` with `fn` of each leaf and of what the `others` have at its place.

    Raises:
        ValueError: they are nested otherwise above the leaves of `x`.
    """
    entry = rules.look(x)
    if entry is None:
        return fn(x, *others)
    columns = [entry.children(x), *(_beside(x, entry, other, rules) for other in others)]
    rows = zip(*columns, strict=True)
    return entry.like(x, [map_beside(fn, item, tuple(parts), rules) for item, *parts in rows])


def _beside(x: Any, entry: Container, other: Any, rules: Rules) -> Iterable[Any]:
    """The children of `other` in the order of those of `x`.

    Raises:
        ValueError: it has others.
    """
    other_entry = rules.look(other)
    if other_entry is None or not rules.pairs(entry, x, other_entry, other):
        raise ValueError(rules.error.format(x, other))
    return other_entry.children(other) if entry.keys is None else [other[k] for k in entry.keys(x)]


def same_structure(x: Any, y: Any, look: Look = container) -> bool:
    """Whether both are nested alike: kinds of containers, keys and numbers of items.

    Mappings are of one kind, and so are lists; the order of keys does not count.
    """
    mine, yours = look(x), look(y)
    if mine is None or yours is None:
        return mine is yours
    if mine.family != yours.family or not _pairs(mine, x, yours, y):
        return False
    pairs = zip(mine.children(x), yours.children(y), strict=True)
    return all(same_structure(a, b, look) for a, b in pairs)


def same_variables(x: Any, y: Any) -> bool:
    """Whether `y` could be the next values of loop variables `x`: a list may be a tuple."""
    if isinstance(x, _SEQUENCES) and isinstance(y, _SEQUENCES) and above_arrays(x) is not None:
        pairs = zip(x, y, strict=False)
        return len(x) == len(y) and all(same_structure(a, b, above_arrays) for a, b in pairs)
    return same_structure(x, y, above_arrays)


def same_counts(x: Any, y: Any, look: Look = container) -> bool:
    """Whether both are nested alike but for the kinds of containers and their keys."""
    mine, yours = look(x), look(y)
    if mine is None or yours is None:
        return mine is yours
    ours, theirs = list(mine.children(x)), list(yours.children(y))
    if len(ours) != len(theirs):
        return False
    return all(same_counts(a, b, look) for a, b in zip(ours, theirs, strict=True))


def flatten_up_to(structure: Any, x: Any) -> list[Any]:
    """The parts of `x` that stand where `structure` has leaves; they may be nested further.

    Raises:
        ValueError: `x` is nested otherwise above them.

    >>> flatten_up_to({"b": 0, "a": 0}, {"a": [1, 2], "b": 3})
    [[1, 2], 3]
    """
    entry = container(structure)
    if entry is None:
        return [x]
    beside = _beside(structure, entry, x, TENSORFLOW)
    pairs = zip(entry.children(structure), beside, strict=True)
    return [part for below, item in pairs for part in flatten_up_to(below, item)]


def pack(structure: Any, leaves: list[Any], look: Look = container) -> Any:
    """`structure` with its leaves replaced by `leaves`, in the order of `flatten`.

    Raises:
        ValueError: the number of leaves differs.

    >>> pack({"b": 0, "a": (0,)}, [1, 2])
    {'b': 2, 'a': (1,)}
    """
    if look is container and type(structure) is list and not any(map(is_nested, structure)):
        count = len(structure)
        if count == len(leaves):
            return leaves[:]
    else:
        count = len(flatten(structure, look))
    if count != len(leaves):
        raise ValueError(f"the structure has {count} leaves, {len(leaves)} were given")
    return _pack(structure, iter(leaves), look)


def packer(structure: Any, look: Look = container) -> Callable[[list[Any]], Any]:
    """`pack` of one structure, prepared for many lists of leaves.

    >>> again = packer({"b": 0, "a": 0})
    >>> again([1, 2])
    {'b': 2, 'a': 1}
    """
    kind = type(structure)
    if kind is dict and not any(map(is_nested, structure.values())):
        positions = {name: i for i, name in enumerate(sorted_keys(structure))}
        order = [(name, positions[name]) for name in structure]
        return lambda leaves: {name: leaves[i] for name, i in order}
    if kind in (list, tuple) and not any(map(is_nested, structure)):
        return kind
    return lambda leaves: pack(structure, leaves, look)


def _pack(structure: Any, leaves: Any, look: Look) -> Any:
    entry = look(structure)
    if entry is None:
        return next(leaves)
    return entry.like(structure, [_pack(item, leaves, look) for item in entry.children(structure)])
