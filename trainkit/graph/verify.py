"""`function(verify=True)`: the first calls run as plain Python too, and every difference is reported.

The side effects that tracing loses are the ones that happen in Python: a print, a list that grows, a global that
changes. They are seen by running the Python function once more and looking at what it touched.
"""

from __future__ import annotations

import builtins
import contextlib
import inspect
import io
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.errors import InternalError
from trainkit.core.tensor import is_tensor

_RTOL = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}


class VerificationError(InternalError):
    """A traced function does not do what the Python function does."""


def compare(function: Any, concrete: Any, args: Any, kwargs: Any, tensors: list[Any]) -> Any:
    """Run graph and Python side by side on the same variables and arguments.

    The variables that the graph uses end with the values that the graph gives them.

    Args:
        function: the `Function`.
        concrete: its graph for these arguments.
        args: positional arguments.
        kwargs: keyword arguments.
        tensors: the tensors among them, for the graph.

    Returns:
        The graph's result.

    Raises:
        VerificationError: values differ, or side effects are lost; each is listed, with its line where known.
    """
    variables = list(concrete.variables)
    before = [v.value() for v in variables]
    seen = _Effects(function.python_function)
    with seen.watched():
        expected = function.python_function(*args, **kwargs)
    left_eager = [v.value() for v in variables]
    for v, value in zip(variables, before, strict=True):
        v.assign(value)
    with seen.muted_library_output():
        result = concrete.run(tensors)
    problems = _differences("result", expected, result)
    for v, eager in zip(variables, left_eager, strict=True):
        problems += _differences(f"variable {v.name!r}", eager, v.value())
    problems += seen.lost
    if problems:
        code = getattr(function.python_function, "__code__", None)
        where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
        lines = "\n  ".join(problems)
        raise VerificationError(
            f"{function._name!r}{where} does not do as a graph what it does as Python:\n  {lines}\n"
            "A graph keeps tensor operations, tk.print, tk.debugging.assert_* and variable updates; Python "
            "side effects happen only while it is traced. Replace them, or leave the function undecorated."
        )
    return result


def _differences(what: str, expected: Any, got: Any) -> list[str]:
    ones, twos = nest.flatten(expected), nest.flatten(got)
    if len(ones) != len(twos):
        return [f"{what}: Python gives {len(ones)} values, the graph {len(twos)}"]
    problems = []
    for i, (x, y) in enumerate(zip(ones, twos, strict=True)):
        label = what if len(ones) == 1 else f"{what} {i}"
        if not (is_tensor(x) or is_tensor(y)):
            continue
        a, b = np.asarray(x), np.asarray(y)
        if a.shape != b.shape:
            problems.append(f"{label}: shape {a.shape} in Python, {b.shape} in the graph")
            continue
        rtol = _RTOL.get(str(b.dtype), 0.0)
        wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
        a, b = a.astype(wide), b.astype(wide)
        bad = ~np.isclose(b, a, rtol=rtol, atol=rtol, equal_nan=True)
        if bad.any():
            at = np.unravel_index(int(np.argmax(bad)), bad.shape) if bad.shape else ()
            problems.append(
                f"{label}: {int(bad.sum())} of {bad.size} values differ, first at {tuple(map(int, at))}: "
                f"{a[at]:.7g} in Python, {b[at]:.7g} in the graph"
            )
    return problems


class _Effects:
    """What a Python function does besides returning: prints, and changes to what it refers to."""

    def __init__(self, function: Any) -> None:
        self.function = inspect.unwrap(function)
        self.lost: list[str] = []

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Note what changes while the block runs."""
        before = self._outline()
        real = builtins.print

        def noted(*args: Any, **kwargs: Any) -> None:
            frame = sys._getframe(1)
            if not frame.f_globals.get("__name__", "").startswith("trainkit"):
                text = " ".join(str(a) for a in args)
                self.lost.append(
                    f'print at "{frame.f_code.co_filename}", line {frame.f_lineno}: {text[:60]!r} is printed only '
                    "while tracing; use tk.print"
                )
            real(*args, **kwargs)

        builtins.print = noted
        try:
            yield
        finally:
            builtins.print = real
        after = self._outline()
        for name, old in before.items():
            if name in after and after[name] != old:
                self.lost.append(
                    f"{name} changes from {old[1]} to {after[name][1]} in Python, in the graph only while tracing"
                    f"{self._line_of(name)}; use a tk.Variable, or return the value"
                )

    @contextlib.contextmanager
    def muted_library_output(self) -> Iterator[None]:
        """Keep what `tk.print` writes in the second run from appearing twice."""
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            yield

    def _outline(self) -> dict[str, tuple[Any, str]]:
        """The closure and global names that the function uses, each as something comparable."""
        code = getattr(self.function, "__code__", None)
        if code is None:
            return {}
        found: dict[str, Any] = {}
        cells = self.function.__closure__ or ()
        for name, cell in zip(code.co_freevars, cells, strict=True):
            with contextlib.suppress(ValueError):
                found[name] = cell.cell_contents
        for name in code.co_names:
            if name in self.function.__globals__:
                found[name] = self.function.__globals__[name]
        return {name: _comparable(value) for name, value in found.items() if _is_plain(value)}

    def _line_of(self, name: str) -> str:
        """Where the function mentions `name` in a way that may change it."""
        try:
            lines, first = inspect.getsourcelines(self.function)
        except (OSError, TypeError):
            return ""
        changing = (f"{name}.", f"{name} =", f"{name}[", f"{name} +=", f"{name} -=")
        for i, text in enumerate(lines):
            if any(mark in text for mark in changing):
                return f' ("{self.function.__code__.co_filename}", line {first + i})'
        return ""


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | complex | str | list | dict | set | type(None))


def _comparable(value: Any) -> tuple[Any, str]:
    if isinstance(value, list | set):
        return (type(value), len(value)), f"{len(value)} items"
    if isinstance(value, dict):
        keys = tuple(map(str, value))
        return (dict, keys, tuple(id(v) for v in value.values())), f"{len(value)} items"
    return (type(value), repr(value)), repr(value)
