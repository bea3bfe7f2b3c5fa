"""What makes a kernel of a body: the function that shares its parts out to the thread pool.

Numba keeps a compiled function on disk under its file, line and name, and under the content of what
it encloses, which for a compiled function is another in each process. So the functions made here
enclose nothing: they have a scope of their own, and stand, as Numba sees it, where the body stands.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba import float32, types, void

from trainkit.kernels.jit.options import compiled, inlined
from trainkit.kernels.threads.parallel_for import POOL, chunk_range, spread

FLAT, VECTOR = float32[::1], float32[::1]
MATRIX, CUBE = float32[:, ::1], float32[:, :, ::1]
# What is only read may also be an array that nobody may write to, as DLPack hands some over.
READ_MATRIX = types.Array(float32, 2, "C", readonly=True)
READ_CUBE = types.Array(float32, 3, "C", readonly=True)

Body = Callable[..., Any]
Builder = Callable[[], Any]

_ENTRY = """\
def run(pool, parts, {names}):
    spread(pool, parts, part, ({names},))
"""
_LOOP = """\
def part(part, parts, {names}, result):
    first, last = chunk_range(part, parts, result.size, 16)
    for i in range(first, last):
        result[i] = formula({items})
"""


def by_parts(
    *kinds: Any, exact: bool = False, ordered: bool = False, apart: bool = False
) -> Callable[[Body], Builder]:
    """Make a body `(part, parts, ...)` the builder of a kernel `run(pool, parts, ...)`.

    Args:
        *kinds: Numba's types of what follows `parts`.
        exact: floating-point arithmetic as it is written.
        ordered: in the order in which it is written.
        apart: the arrays that are given do not overlap.
    """

    def builder_of(body: Body) -> Builder:
        # The pool calls it in several threads at once, so Numba's own threads stay out of it.
        part = compiled(parallel=False, exact=exact, ordered=ordered, apart=apart)(body)
        return _builder(body, part, list(inspect.signature(body).parameters)[2:], kinds)

    return builder_of


def by_element(
    *kinds: Any, exact: bool = False, ordered: bool = False
) -> Callable[[Body], Builder]:
    """Make a formula of numbers the builder of a kernel `run(pool, parts, ..., result)`.

    Where it has an array among `kinds`, the formula takes an element of it; numbers as they are.
    """

    def builder_of(formula: Body) -> Builder:
        names = list(inspect.signature(formula).parameters)
        items = [
            f"{name}[i]" if isinstance(kind, types.Array) else name
            for name, kind in zip(names, kinds, strict=True)
        ]
        # Text and not a closure: Numba would digest the formula as an object of this process, and
        # compile anew in each.
        text = _LOOP.format(names=", ".join(names), items=", ".join(items))
        loop = _function(text, formula, formula=inlined(formula), chunk_range=chunk_range)
        part = compiled(parallel=False, exact=exact, ordered=ordered)(loop)
        return _builder(formula, part, [*names, "result"], (*kinds, FLAT))

    return builder_of


def _builder(body: Body, part: Any, names: list[str], kinds: tuple[Any, ...]) -> Builder:
    def build() -> Any:
        entry = _function(_ENTRY.format(names=", ".join(names)), body, spread=spread, part=part)
        run = compiled(parallel=False)(entry)
        run.compile(void(*POOL, *kinds))
        return run

    build.__name__, build.__doc__ = body.__name__, body.__doc__
    return build


def _function(text: str, body: Body, **scope: Any) -> Any:
    """The function that `text` defines, in the file and line of `body`, and called after it."""
    body_code = body.__code__
    module = compile(text, body_code.co_filename, "exec")
    # Compiled as a module, the function is the only constant that is code. So nothing runs, and
    # the code can be given the line under which Numba looks for it.
    code = next(item for item in module.co_consts if hasattr(item, "co_code"))
    code = code.replace(co_firstlineno=body_code.co_firstlineno)
    function = FunctionType(code, {"__name__": body.__module__, **scope})
    function.__qualname__ = f"{body.__name__}.{function.__name__}"
    return function
