"""Modules that can be imported under a second name: `trainkit.train` is `trainkit.tf.train`."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType

from trainkit.core.process import garbage


class SecondNames:
    """Finds modules, and what lies in them, under second names: the same module objects.

    It is a finder and a loader of Python's import system (`importlib.abc` has their interfaces, and
    takes milliseconds to import).

    Args:
        package: in which the names are, such as `"trainkit.keras"`.
        meant: full names of modules, by the names that they have in `package`.
    """

    def __init__(self, package: str, meant: Mapping[str, str]) -> None:
        self._within, self._meant = package + ".", meant

    def meant(self, fullname: str) -> str | None:
        """The name of the module that `fullname` stands for, `None` if it is one of its own."""
        if not fullname.startswith(self._within):
            return None
        family, dot, inner_path = fullname.removeprefix(self._within).partition(".")
        module = self._meant.get(family)
        return None if module in (None, self._within + family) else f"{module}{dot}{inner_path}"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a second name, `None` for all other modules."""
        if self.meant(fullname) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Let Python make an empty module."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the module that is meant in the place of the new, empty one."""
        sys.modules[module.__name__] = garbage.import_module(str(self.meant(module.__name__)))

    def install(self) -> None:
        """Let Python's import ask here first."""
        sys.meta_path.insert(0, self)
