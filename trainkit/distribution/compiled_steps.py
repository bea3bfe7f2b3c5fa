"""Functions that a traced function gives to replicas, each compiled once."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable
from typing import Any

from trainkit.graph.tracing.function import BoundFunction, Function, function

_MOST = 8
"""So many sets of values that a function refers to are compiled for."""


class CompiledSteps:
    """Traced functions for those that `Strategy.run` is given in a traced function.

    A function that is defined in the one around is another object at each call. It is known by its
    code and by the objects that it refers to.
    """

    def __init__(self) -> None:
        # by code, then by objects, which are held so that their ids stay theirs
        self._made: dict[Any, dict[tuple[int, ...], tuple[Function, list[Any]]]] = {}

    def of(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The traced function of a function; what is no function of Python is given back."""
        if isinstance(fn, Function | BoundFunction):
            return fn
        plain = fn.__func__ if isinstance(fn, types.MethodType) else fn
        if not isinstance(plain, types.FunctionType):
            return fn
        referents = [getattr(fn, "__self__", None), *_contents(plain)]
        versions = self._made.setdefault(plain.__code__, {})
        key = tuple(map(id, referents))
        if key not in versions:
            if len(versions) == _MOST:
                warnings.warn(
                    f"MirroredStrategy.run: {plain.__name__!r} refers to other objects of the "
                    "function around it at each call, so it runs operation by operation. Give "
                    "them to run as arguments to have it compiled",
                    stacklevel=3,
                )
                versions[()] = function(plain), []  # the warning comes once
            if len(versions) > _MOST:
                return fn
            versions[key] = function(fn), referents
        return versions[key][0]


def _contents(fn: types.FunctionType) -> list[Any]:
    """What a function refers to besides names of its module."""
    named = fn.__kwdefaults__ or {}
    contents = [*(fn.__defaults__ or ()), *(named[name] for name in sorted(named))]
    for cell in fn.__closure__ or ():
        try:
            contents.append(cell.cell_contents)
        except ValueError:  # nothing is in it yet
            contents.append(cell)
    return contents
