"""`tk.Module`, whose variables are found through its attributes, and how their replicas meet."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import Any

from trainkit.core import names
from trainkit.core.registry import snake_case
from trainkit.core.trackable import Trackable, traverse
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

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @property
    def name_scope(self) -> names.name_scope:
        """A context that gives the name to a part of a program."""
        return names.name_scope(self._name)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All variables below, each once, in the order in which they were assigned."""
        return tuple(part for _, part in traverse(self) if isinstance(part, Variable))

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
        """All modules and layers below."""
        return tuple(
            part
            for path, part in traverse(self)
            if path and (isinstance(part, Module) or hasattr(part, "trainable_variables"))
        )

    @classmethod
    def with_name_scope(cls, method: Callable[..., Any]) -> Callable[..., Any]:
        """Make a method run in the name scope of its module."""

        @functools.wraps(method)
        def scoped(self: Module, *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)

        return scoped


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
