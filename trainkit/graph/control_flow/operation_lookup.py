"""`find_operation`: the operation of a name that a file gives, imported if it is not there yet."""

from __future__ import annotations

import functools
import importlib
from pkgutil import iter_modules
from types import ModuleType

import trainkit.graph.control_flow
import trainkit.ops
from trainkit.core.dispatch.primitive import Primitive
from trainkit.core.tensor import PRIMITIVES

_PACKAGES = (trainkit.ops, trainkit.graph.control_flow)


def find_operation(name: object) -> Primitive | None:
    """The operation `name`, or `None` if there is none.

    A process that only loads a file has imported few operations. A name that is not known yet
    brings in all modules that may declare one, once (about 0.3 s); declaring an operation anywhere
    else is an error (`core.dispatch.declaring_modules`).

    >>> from trainkit.graph.control_flow.operation_lookup import find_operation
    >>> find_operation("lstm"), find_operation("no such operation")
    (<primitive lstm>, None)
    """
    if not isinstance(name, str):
        return None
    if name not in PRIMITIVES:
        import_operations()
    return PRIMITIVES.get(name)


@functools.cache
def import_operations() -> None:
    """Import every module in which an operation may be declared."""
    # Once for the process, whatever the name: the next unknown name imports nothing.
    for package in _PACKAGES:
        _import_modules(package)


def _import_modules(package: ModuleType) -> None:
    for module in iter_modules(package.__path__, f"{package.__name__}."):
        imported = importlib.import_module(module.name)
        if module.ispkg:
            _import_modules(imported)
