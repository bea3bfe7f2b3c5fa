"""Modules with kernels of GPUs, imported when one of their functions is first called.

Operations name such functions when they are declared, and most processes never see a GPU.
"""

from __future__ import annotations

import importlib
from typing import Any


class DeferredModule:
    """Stands for a module: its functions import it when they are called.

    Args:
        name: of the module.
    """

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
    """A function of a module that is imported at the first call.

    Args:
        module: stands for the module.
        name: of the function.
    """

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
