"""`tk.Module`, whose variables are found through its attributes, and how their replicas meet."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from trainkit.core import names
from trainkit.core.registry import snake_case
from trainkit.core.trackable import Trackable, TrackedDict, TrackedList, TrackedTuple, traverse
from trainkit.core.variable import Variable


class Module(Trackable):
    """Base of objects that own variables, directly or through other modules.

    Variables, modules, and lists, tuples and dicts of these that are assigned to attributes are
    found; so are they by `tk.train.Checkpoint`.

    Args:
        name: a Python identifier; by default the class name in snake case.

    Raises:
        ValueError: the name is no identifier.

    >>> class Scale(Module):
    ...     def __init__(self):
    ...         super().__init__(name="scale")
    ...         self.factor = tk.Variable(2.0, name="factor")
    >>> [v.name for v in Scale().trainable_variables]
    ['factor:0']
    """

    def __init__(self, name: str | None = None) -> None:
        if name is not None and not name.isidentifier():
            raise ValueError(f"Module: {name!r} is no Python identifier")
        self._name = name or snake_case(type(self).__name__)
        self._scope_name = f"{names.scope_prefix()}{self._name}/"

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @property
    def name_scope(self) -> names.name_scope:
        """A context that gives variables the name, after the scopes around the module's making."""
        return names.name_scope(self._scope_name)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All variables below, each once, in TensorFlow's order.

        First those of the module by the names of its attributes, then those of each module below in
        the same way. Lists count in their order, dicts by their keys. Layers keep the order in
        which theirs were assigned.
        """
        return tuple(part for part in _parts_below(self) if isinstance(part, Variable))

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        """Those that tapes watch by themselves."""
        return tuple(v for v in self.variables if v.trainable)

    @property
    def non_trainable_variables(self) -> tuple[Variable, ...]:
        """Those that tapes do not watch by themselves."""
        return tuple(v for v in self.variables if not v.trainable)

    @property
    def submodules(self) -> tuple[Any, ...]:
        """All modules and layers below, each once: those of the module before those of others."""
        return tuple(
            part
            for part in _parts_below(self)
            if isinstance(part, Module) or hasattr(part, "trainable_variables")
        )

    @classmethod
    def with_name_scope(cls, method: Callable[..., Any]) -> Callable[..., Any]:
        """Make a method run in the name scope of its module."""

        @functools.wraps(method)
        def scoped(self: Module, *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)

        return scoped


def _parts_below(module: Module, visited: set[int] | None = None) -> Iterator[Trackable]:
    """Variables, modules and layers below a module, each once; see `Module.variables`."""
    visited = {id(module)} if visited is None else visited
    owners = []
    for part in _leaves(module):
        if id(part) not in visited:
            visited.add(id(part))
            yield part
            if not isinstance(part, Variable):
                owners.append(part)
    for owner in owners:
        if isinstance(owner, Module):
            yield from _parts_below(owner, visited)
            continue
        for _, part in traverse(owner):
            if id(part) not in visited:
                visited.add(id(part))
                yield part


def _leaves(owner: Trackable) -> Iterator[Trackable]:
    """What is assigned to the attributes of a module, or lies in their lists, tuples and dicts."""
    for part in _in_order(owner):
        if isinstance(part, TrackedList | TrackedTuple | TrackedDict):
            yield from _leaves(part)
        else:
            yield part


def _in_order(owner: Trackable) -> Iterable[Trackable]:
    parts = type(owner).parts(owner)
    if isinstance(owner, TrackedList | TrackedTuple):
        return parts.values()
    names: Iterable[Any] = parts
    if isinstance(owner, TrackedDict):
        names = [key for key in owner if str(key) in parts]
    try:
        names = sorted(names)
    except TypeError:  # keys of several types stay as they were put in
        pass
    return [parts[str(name)] for name in names]


class VariableSynchronization(enum.Enum):
    """When replicas of a variable come together; there is one here.

    Example:
        >>> w = tk.Variable(1.0, synchronization=tk.VariableSynchronization.AUTO)
        >>> float(w)
        1.0
    """

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3
