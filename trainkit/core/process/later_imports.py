"""Modules that are imported when they are first needed, in two ways.

`DeferredModule` is for code that calls functions of a module which most programs never use, such as
kernels of GPUs, or which stands above it. `later_members` is for names that users ask a module for,
as its `__getattr__`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from trainkit.core.names import unknown_name
from trainkit.core.process import garbage


class DeferredModule:
    """Stands for a module: its functions and classes import it when they are called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{self._name}: {name} is asked of the module itself")
        function = DeferredFunction(self, name)
        self.__dict__[name] = function
        return function

    def __repr__(self) -> str:
        return f"<deferred {self._name}>"


class DeferredFunction:
    """A function or class of a module that is imported at the first call."""

    __slots__ = ("__name__", "_module", "_run")

    def __init__(self, module: DeferredModule, name: str) -> None:
        self._module, self.__name__ = module, name
        self._run: Any = None

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        if self._run is None:
            module = importlib.import_module(self._module._name)
            self._run = getattr(module, self.__name__)
            self._module.__dict__[self.__name__] = self._run
        return self._run(*arguments, **settings)

    def __repr__(self) -> str:
        return f"<{self.__name__} of {self._module!r}>"


def later_members(members: dict[str, Any], modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module that imports what holds a name when it is asked for.

    Args:
        members: `globals()` of the module, which keep what was asked for.
        modules: by name, the module that holds it; that module itself where it has the same name.
    """

    def __getattr__(name: str) -> Any:
        if name not in modules:
            raise unknown_name(members["__name__"], name, members["__dir__"]())
        module = garbage.import_module(modules[name])
        is_module = module.__name__.rpartition(".")[2] == name
        members[name] = value = module if is_module else getattr(module, name)
        return value

    return __getattr__
