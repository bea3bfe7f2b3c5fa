"""`function(verify=True)`: the first calls run as plain Python too, differences are reported.

The side effects that tracing loses are the ones that happen in Python: a print, a list that
grows, a global that
changes. They are seen by running the Python function once more and looking at what it touched.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import inspect
import io
import sys
import textwrap
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.errors import InternalError
from trainkit.core.tensor import is_tensor
from trainkit.graph.ir.user_lines import place_text

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
        VerificationError: values differ, or side effects are lost; each is listed, with its line
            where known.
    """
    variables = list(concrete.variables)
    before = [v.value() for v in variables]
    effects = _Effects(function.python_function, (*function.bound_to(), *args), kwargs)
    with effects.watched():
        expected = function.python_function(*args, **kwargs)
    left_eager = [v.value() for v in variables]
    for v, value in zip(variables, before, strict=True):
        v.assign(value)
    with effects.muted_library_output():
        result = concrete.run(tensors)
    user_lines = [place_text(y.node.where) for y in concrete.graph.outputs]
    problems = _differences("result", expected, result, user_lines)
    for v, eager in zip(variables, left_eager, strict=True):
        slot = concrete.graph.slots[id(v)]
        user_lines = [place_text(slot.now.node.where)]
        problems += _differences(f"variable {v.name!r}", eager, v.value(), user_lines)
    problems += effects.problems()
    if problems:
        code = getattr(inspect.unwrap(function.python_function), "__code__", None)
        where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
        lines = "\n  ".join(problems)
        raise VerificationError(
            f"{function._name!r}{where} does not do as a graph what it does as Python:\n  {lines}\n"
            "A graph keeps tensor operations, tk.print, tk.debugging.assert_* and variable "
            "updates; Python side effects happen only while it is traced. Replace them, or leave "
            "the function undecorated."
        )
    return result


def _differences(name: str, expected: Any, got: Any, user_lines: list[str]) -> list[str]:
    """A line for each value that is another; `user_lines` are those of the tensors, in order."""
    ones, twos = nest.flatten(expected), nest.flatten(got)
    if len(ones) != len(twos):
        return [f"{name}: Python gives {len(ones)} values, the graph {len(twos)}"]
    problems = []
    next_line = iter(user_lines)
    for i, (x, y) in enumerate(zip(ones, twos, strict=True)):
        label = name if len(ones) == 1 else f"{name} {i}"
        at_line = f" ({where})" if is_tensor(y) and (where := next(next_line, "")) else ""
        if not (is_tensor(x) or is_tensor(y)):
            continue
        label += at_line
        a, b = np.asarray(x), np.asarray(y)
        if a.shape != b.shape:
            problems.append(f"{label}: shape {a.shape} in Python, {b.shape} in the graph")
            continue
        rtol = _RTOL.get(str(b.dtype), 0.0)
        dtype = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
        a, b = a.astype(dtype), b.astype(dtype)
        bad = ~np.isclose(b, a, rtol=rtol, atol=rtol, equal_nan=True)
        if bad.any():
            at = np.unravel_index(int(np.argmax(bad)), bad.shape) if bad.shape else ()
            problems.append(
                f"{label}: {int(bad.sum())} of {bad.size} values differ, "
                f"first at {tuple(map(int, at))}: "
                f"{a[at]:.7g} in Python, {b[at]:.7g} in the graph"
            )
    return problems


class _Effects:
    """What a Python function does besides returning: prints, and changes to what it refers to.

    Looked at are the plain values (numbers, texts, lists, dicts, sets) that it reaches by the names
    in its closure and among its globals, and the attributes of objects among those and its
    arguments; likewise for the user's functions that it calls by such names.
    """

    def __init__(self, function: Any, args: Any, kwargs: Any) -> None:
        self.function = inspect.unwrap(function)
        self.functions = _collect_functions(self.function)
        self.given = [*args, *kwargs.values()]
        self.lost: dict[tuple[str, str], int] = {}
        self._kept: set[str] = set()

    def problems(self) -> list[str]:
        """What was lost, a line each, with how often."""
        return [
            text if n == 1 else f"{text} ({n} times)"
            for (text, name), n in self.lost.items()
            if name not in self._kept
        ]

    def _note(self, text: str, name: str = "") -> None:
        self.lost[text, name] = self.lost.get((text, name), 0) + 1

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Note what changes while the block runs."""
        before = self._outline()
        real = builtins.print

        def note(*args: Any, **kwargs: Any) -> None:
            frame = sys._getframe(1)
            if not frame.f_globals.get("__name__", "").startswith("trainkit"):
                text = " ".join(str(a) for a in args)
                self._note(
                    f'print at "{frame.f_code.co_filename}", line {frame.f_lineno}: '
                    f"{text[:60]!r} is printed only "
                    "while tracing; use tk.print"
                )
            real(*args, **kwargs)

        builtins.print = note
        try:
            yield
        finally:
            builtins.print = real
        for name, (old, new) in self._find_changes(before).items():
            self._note(
                f"{name} changes from {old} to {new} in Python, in the graph only while tracing"
                f"{self._line_of(name)}; use a tk.Variable, or return the value",
                name,
            )

    def _find_changes(self, before: dict[str, tuple[Any, str]]) -> dict[str, tuple[str, str]]:
        """What has another value now, by name, with texts of both."""
        changes = {}
        for name, new in self._outline().items():
            old = before.get(name, (None, "nothing"))
            if old[0] != new[0]:
                changes[name] = (old[1], new[1])
        return changes

    @contextlib.contextmanager
    def muted_library_output(self) -> Iterator[None]:
        """Keep what the graph writes in the second run from appearing twice."""
        before = self._outline()
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            yield
        # what the graph does too, by a call back into Python, is not lost
        self._kept = set(self._find_changes(before))

    def _outline(self) -> dict[str, tuple[Any, str]]:
        """What the function reaches, by name, each as something comparable and a text."""
        state: dict[str, tuple[Any, str]] = {}
        for name, value in self._roots():
            if _is_plain(value):
                state[name] = _comparable(value)
            elif _has_own_state(value):
                for key, item in vars(value).items():
                    if _is_plain(item):
                        state[f"{name}.{key}"] = _comparable(item)
        return state

    def _roots(self) -> Iterator[tuple[str, Any]]:
        code = getattr(self.function, "__code__", None)
        if code is None:
            return
        names = code.co_varnames[: code.co_argcount]
        yield from zip(names, self.given, strict=False)
        for function in self.functions:
            yield from _names_of(function)

    def _line_of(self, name: str) -> str:
        """Where the function, in its own source, does something to `name` that may change it."""
        for function in self.functions or [self.function]:
            try:
                lines, first = inspect.getsourcelines(function)
                tree = ast.parse(textwrap.dedent("".join(lines)))
            except (OSError, TypeError, SyntaxError):
                continue
            for node in ast.walk(tree):
                if _changes(node, name):
                    line = first + node.lineno - 1  # type: ignore[attr-defined]
                    return f' ("{function.__code__.co_filename}", line {line})'
        return ""


def _collect_functions(function: Any) -> list[Any]:
    """`function` and the user's functions that it reaches by name, and so on."""
    functions: list[Any] = []
    waiting = [function]
    while waiting:
        f = inspect.unwrap(waiting.pop())
        if not inspect.isfunction(f) or f in functions or _is_library(f):
            continue
        functions.append(f)
        waiting += [value for _, value in _names_of(f)]
    return functions


def _is_library(function: Any) -> bool:
    top = (function.__module__ or "").split(".")[0]
    return top in ("trainkit", "numpy") or (top in sys.stdlib_module_names and top != "__main__")


def _names_of(function: Any) -> Iterator[tuple[str, Any]]:
    """What a function refers to in its closure and among its globals."""
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # an empty cell
            yield name, cell.cell_contents
    for name in code.co_names:
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _changes(node: ast.AST, name: str) -> bool:
    """Whether a statement assigns to `name` or to a part of it, or calls a method of it."""
    targets: list[Any] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        targets = [node.func.value]
    elif isinstance(node, ast.Delete):
        targets = node.targets
    for target in targets:
        while isinstance(target, ast.Subscript):
            target = target.value
        if ast.unparse(target) == name:
            return True
    return False


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | complex | str | list | dict | set | type(None))


def _has_own_state(value: Any) -> bool:
    """Whether `value` is an object of the user's, whose attributes may change."""
    return (
        hasattr(value, "__dict__")
        and not inspect.isroutine(value)
        and not isinstance(value, types.ModuleType | type)
        and not is_tensor(value)
        and type(value).__module__.split(".")[0] not in ("trainkit", "numpy", "builtins")
    )


def _comparable(value: Any) -> tuple[Any, str]:
    """Something that differs after a change, and a text."""
    if isinstance(value, list):
        return (list, [_leaf(v) for v in value]), _shown(value)
    if isinstance(value, set):
        return (set, set(map(_leaf, value))), _shown(value)
    if isinstance(value, dict):
        return (dict, [(_leaf(k), _leaf(v)) for k, v in value.items()]), _shown(value)
    return (type(value), repr(value)), repr(value)


def _leaf(value: Any) -> Any:
    """A plain value by its text, anything else by identity."""
    return repr(value) if isinstance(value, bool | int | float | complex | str) else id(value)


def _shown(value: Any) -> str:
    simple = all(isinstance(v, bool | int | float | str) for v in nest.flatten(list(value)))
    if isinstance(value, dict):
        simple = simple and all(isinstance(v, bool | int | float | str) for v in value.values())
    text = repr(value) if simple else ""
    return text if simple and len(text) <= 60 else f"{len(value)} items"
