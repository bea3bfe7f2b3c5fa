"""Functions that emit LLVM's code, as Numba's code calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from numba.core import types
from numba.extending import intrinsic

from trainkit.kernels.jit.simd import literal


def emits(literals: int, *kinds: Any) -> Callable[[Callable[..., None]], Any]:
    """Makes an intrinsic without a result of a function that emits what it does.

    The function takes LLVM's builder, as many literal arguments as `literals` says, as ints, and
    other arguments of the types `kinds`, as values of LLVM. Calls are by position.
    """

    def decorate(emit: Callable[..., None]) -> Any:
        def declare(typing: Any, *arguments: Any) -> Any:
            numbers = [literal(kind) for kind in arguments[:literals]]

            def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                emit(builder, *numbers, *values[literals:])
                return context.get_dummy_value()

            return types.void(*arguments[:literals], *kinds), codegen

        # Numba would take a star among its parameters for a tuple.
        names = (f"p{i}" for i in range(1 + literals + len(kinds)))
        parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY) for n in names]
        declare.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        declare.__name__, declare.__doc__ = emit.__name__, emit.__doc__
        return intrinsic(prefer_literal=True)(declare)

    return decorate
