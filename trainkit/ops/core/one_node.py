"""Functions that stand in a functional model as one operation, with all their arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from trainkit.core import nest
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor
from trainkit.core.values.python_signatures import signature_of
from trainkit.ops.core.dynamic_shapes import later

P = ParamSpec("P")
R = TypeVar("R")

ONE_NODE: dict[str, Callable[..., Any]] = {}
"""The functions by the names under which configs of models know them."""


_PLAIN = frozenset((Tensor, np.ndarray, int, float, bool, str, type(None)))


def _are_plain(arguments: Iterable[Any]) -> bool:
    """Whether arguments surely hold no symbol: to flatten nests takes as long as small calls."""
    for x in arguments:
        kind = type(x)
        if kind not in _PLAIN and not (
            (kind is tuple or kind is list) and _PLAIN.issuperset(map(type, x))
        ):
            return False
    return True


def one_node(
    name: str, check: Callable[..., None] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function whose call on symbols of a model being drawn up is one operation of it.

    It runs as it is when the model does, so it may look at values and sizes.

    Args:
        name: under which configs know it.
        check: called with the arguments before; it raises where the operation can't be.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = signature_of(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if _are_plain(args) and _are_plain(kwargs.values()):
                return function(*args, **kwargs)
            symbol = symbol_in((args, kwargs))
            if symbol is None:
                return function(*args, **kwargs)
            bound = signature.bind(*args, **kwargs)
            if check is not None:
                check(**bound.arguments)
            result: R = symbol.apply_function(name, tuple(bound.args), dict(bound.kwargs))
            return result

        ONE_NODE[name] = call
        return call

    return decorate


def symbol_in(arguments: Any) -> Any:
    """The first leaf that is a symbol of a model being drawn up, or `None`."""
    for leaf in nest.flatten(arguments):
        if isinstance(leaf, SymbolicTensor) and hasattr(leaf, "apply_function"):
            return leaf
    return None


def sizes_later(
    name: str, gives: Callable[[dict[str, Any]], Any], constants: Collection[str] = ()
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function that has to know sizes of its tensors.

    Where one is not known yet, the call is one operation of a functional model, or one node of the
    graph being traced, which runs when the sizes are there.

    Args:
        name: under which configs know it.
        gives: from all arguments by name to the nest of `Spec`s of the result; `None` where all
            sizes that count are known.
        constants: names of the arguments that are read as values, without gradients.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = signature_of(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            plain = _are_plain(args) and _are_plain(kwargs.values())
            if plain or not any(
                isinstance(x, SymbolicTensor) for x in nest.flatten((args, kwargs))
            ):
                return function(*args, **kwargs)
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            specs = gives(bound.arguments)
            if specs is None:
                return function(*args, **kwargs)
            symbol = symbol_in((args, kwargs))
            result: R
            if symbol is not None:
                result = symbol.apply_function(name, args, kwargs)
            else:
                result = later(function, bound.arguments, specs, name, constants=constants)
            return result

        ONE_NODE[name] = call
        return call

    return decorate
