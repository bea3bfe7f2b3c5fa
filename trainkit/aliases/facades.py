"""Modules under names of TensorFlow and Keras, whose attributes are trainkit's."""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from collections.abc import Collection, Iterable, Sequence
from types import ModuleType
from typing import Any

from trainkit.aliases import missing
from trainkit.aliases.resolution import VERSIONS, is_public, left_out, namespaces


class Facade(ModuleType):
    """A module that looks its names up when they are asked for.

    Args:
        name: such as `"tensorflow.nn"`.
        spaces: where names are looked up, one after the other.
    """

    def __init__(self, name: str, spaces: Sequence[Any]) -> None:
        super().__init__(name, getattr(spaces[0], "__doc__", None))
        self._spaces = tuple(spaces)
        self.__file__ = getattr(spaces[0], "__file__", None)

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":  # asked for by `from keras.layers import *`
            return [n for n in dir(self) if n[:1] != "_"]
        if (self.__name__, name) in VERSIONS:
            return VERSIONS[self.__name__, name]
        if name.startswith("__") and name != "__version__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name)
        error: AttributeError | None = None
        for space in self._spaces:
            try:
                value = getattr(space, name)
            except AttributeError as lookup_error:
                error = error or lookup_error
                continue
            if isinstance(value, ModuleType):
                if not is_public(space, name):
                    continue
                value = importlib.import_module(f"{self.__name__}.{name}")
            self.__dict__[name] = value
            return value
        if not _asked_by_import():  # which looks for a file of that name next
            missing.COUNTS[f"{self.__name__}.{name}"] += 1
        words = str(error or "").partition(f"no attribute {name!r}")[2]
        raise AttributeError(
            f"module {self.__name__!r} has no attribute {name!r}{words}", name=name
        )

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._spaces[0]), *(n for n in vars(self) if n[:1] != "_")})


class Finder:
    """Finds modules of the libraries that trainkit stands for; Python's import asks it first."""

    def __init__(self) -> None:
        self._roots: set[str] = set()

    def serve(self, roots: Iterable[str]) -> Served:
        """Answer for more libraries, such as `["keras"]`."""
        added = set(roots) - self._roots
        self._roots |= added
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        return Served(self, added)

    def withdraw(self, roots: Collection[str]) -> None:
        """Leave libraries to those who find them otherwise, at the next import."""
        self._roots -= set(roots)
        for name, module in list(sys.modules.items()):
            if isinstance(module, Facade) and name.partition(".")[0] in roots:
                del sys.modules[name]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a facade; `None` for modules of others, and for those that are not here.

        Raises:
            ModuleNotFoundError: the module is one that is left out on purpose, and is imported.
        """
        if fullname.partition(".")[0] not in self._roots:
            return None
        if not namespaces(fullname):
            # `from module import name` asks the module itself next
            if not _is_called_by("_handle_fromlist"):
                missing.COUNTS[fullname] += 1
                advice = left_out(fullname)
                if advice and _is_called_by("_find_and_load_unlocked"):
                    raise ModuleNotFoundError(
                        f"No module named {fullname!r}: {advice}", name=fullname
                    )
            return None
        # a package, so that Python asks for modules in it
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Facade:
        """The facade itself."""
        return Facade(spec.name, namespaces(spec.name))

    def exec_module(self, module: ModuleType) -> None:
        """Nothing runs: names are looked up when they are asked for."""


class Served:
    """A context in which libraries are served, and after which they no longer are.

    Args:
        finder: what serves them.
        roots: their names, without those that were served before.
    """

    def __init__(self, finder: Finder, roots: Collection[str]) -> None:
        self._finder, self._roots = finder, roots

    def __enter__(self) -> None:
        """Nothing is left to do: the names are served since `install_as` was called."""

    def __exit__(self, *exc: object) -> None:
        self._finder.withdraw(self._roots)


def _asked_by_import() -> bool:
    return sys._getframe(2).f_code.co_filename.startswith("<frozen importlib")


def _is_called_by(function: str) -> bool:
    """Whether this function of Python's import system asks for a module."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        if frame.f_code.co_name == function:
            return True
        frame = frame.f_back
    return False
