"""AutoGraph: rewriting of functions, so that their `if`, `while`, `for` ... work on tensors.

The `diastatic-malt` package rewrites the source; the operators that the rewritten code calls are
ours. Each does what Python does unless a symbolic tensor decides, and then makes a node with
branches or a body of its own.
"""

from __future__ import annotations

import contextlib
import dis
import enum
import functools
import inspect
import linecache
import os
import sys
import traceback
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from trainkit.core.dispatch import late_ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.process import forks
from trainkit.core.user_frames import SOURCE_MAPS
from trainkit.graph.autograph.builtins import BUILTINS, EXPRESSIONS
from trainkit.graph.autograph.conditional_operators import if_stmt, is_symbolic, undefined
from trainkit.graph.autograph.loop_operators import for_stmt, while_stmt
from trainkit.graph.autograph.unset_names import read_name
from trainkit.graph.control_flow.cond import cond_primitive
from trainkit.graph.ir.graph import ABOVE
from trainkit.graph.ir.user_lines import at_user_line

_PACKAGE = __name__.split(".")[0]


@functools.cache
def _malt() -> Any:
    """The package that rewrites source, and our operators in its place."""
    import importlib.util  # malt expects that somebody has

    assert importlib.util
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from malt.core import converter
        from malt.impl import api
        from malt.operators import function_wrappers, py_builtins

        from trainkit.graph.autograph.lambda_source import LambdaReader
        from trainkit.graph.autograph.prepare import prepared

    class Transpiler(api.PyToPy, LambdaReader):
        """Rewrites functions to call the operators of this module."""

        def transform_ast(self, node: Any, ctx: Any) -> Any:
            return super().transform_ast(prepared(node, ctx), ctx)

        def get_extra_locals(self) -> Any:
            if self._extra_locals is None:  # type: ignore[has-type]
                operators = dict(super().get_extra_locals()["ag__"].__dict__)
                operators.update(_OPERATORS, FunctionScope=Scope)
                self._extra_locals = {"ag__": types.SimpleNamespace(**operators)}
            return self._extra_locals

    class Scope(function_wrappers.FunctionScope):
        """The scope of a rewritten function; checks that it returns something on every path."""

        def __init__(self, function_name: str, scope_name: str, options: Any) -> None:
            super().__init__(function_name, scope_name, options)
            self.function = function_name

        def ret(self, value: Any, did_return: Any) -> Any:
            if is_symbolic(did_return) and not undefined(value):
                _check_returned(did_return, self.function)
            return super().ret(value, did_return)

    transpiler = Transpiler()
    forks.free_in_child(transpiler._cache_lock)
    options = converter.ConversionOptions(
        recursive=True, user_requested=True, optional_features=None
    )
    return types.SimpleNamespace(
        transpiler=transpiler,
        options=options,
        context=converter.ProgramContext(options=options),
        builtins=py_builtins,
    )


# ---------------------------------------------------------------------- converting

_UNCONVERTED: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
"""Why code runs as Python, by code object."""
_MARK = "_autograph_conversion"


class _Conversion:
    """What a function was rewritten to, held by the function itself, so that both go together.

    No table could hold it: the closure of the rewritten function may lead back to the function.
    Pickles and other functions, which `functools.wraps` gives all attributes, do not take it over.

    Attributes:
        result: the rewritten function, `None` where the function runs as it is.
    """

    __slots__ = ("_code", "_of", "result")

    def __init__(self, function: Any = None, result: Any = None) -> None:
        self._of = None if function is None else weakref.ref(function)
        self._code = None if function is None else function.__code__
        self.result = result

    def belongs_to(self, function: Any) -> bool:
        """Whether it was made for `function`, and not for one that this was copied from.

        Nor for code that `function` had before: `%autoreload` of IPython gives it the new one.
        """
        return self._code is function.__code__ and self._of is not None and self._of() is function

    def __reduce__(self) -> Any:
        return _Conversion, ()


def do_not_convert(func: Callable[..., Any] | None = None) -> Any:
    """Decorator: leave the control flow of `func` to Python while it is traced."""
    if func is None:
        return do_not_convert

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    call._do_not_convert = True  # type: ignore[attr-defined]
    return call


def converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` rewritten; itself where it can't or need not be.

    What can't be rewritten (no source, a generator, a construct that the rewriting doesn't know)
    runs as
    Python, and a warning says why, once.
    """
    if isinstance(function, functools.partial):
        inner = converted(function.func)
        return functools.partial(inner, *function.args, **function.keywords)
    if inspect.ismethod(function):
        return types.MethodType(converted(function.__func__), function.__self__)
    if not inspect.isfunction(function):
        call = getattr(type(function), "__call__", None)  # noqa: B004 - what it is, not whether
        if not inspect.isfunction(call) or _is_left_alone(call) or inspect.isclass(function):
            return function
        return types.MethodType(converted(call), function)
    if _is_left_alone(function):
        return function
    conversion = function.__dict__.get(_MARK)
    if conversion is None or not conversion.belongs_to(function):
        conversion = function.__dict__[_MARK] = _Conversion(function, _rewritten(function))
    return function if conversion.result is None else conversion.result


def _is_left_alone(function: Any) -> bool:
    if getattr(function, "_do_not_convert", False) or hasattr(function, "ag_source_map"):
        return True
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        return True
    if (
        function.__code__.co_filename in SOURCE_MAPS
    ):  # defined inside of a function that is rewritten
        return True
    if function.__code__.co_filename.startswith("<") and not _has_source(function):
        return True
    module = getattr(function, "__module__", "") or ""
    top = module.split(".")[0]
    return top in _LIBRARIES or module == "builtins"


def _has_source(function: Any) -> bool:
    try:
        return bool(inspect.getsource(function))
    except (OSError, TypeError):
        return False


# Code of these is never rewritten; it works on values or calls operations.
_LIBRARIES = frozenset(
    {
        _PACKAGE,
        "numpy",
        "scipy",
        "h5py",
        "tqdm",
        "tensorboardX",
        "malt",
        "pytest",
        "_pytest",
        "collections",
    }
    | set(sys.stdlib_module_names) - {"__main__"}
)


def _rewritten(function: Any) -> Any:
    """`function` rewritten, `None` where it can't or need not be; its code is looked at once."""
    malt, code = _malt(), function.__code__
    if code in _UNCONVERTED:
        return None
    try:
        result, module, source_map = malt.transpiler.transform(
            _strip_disguise(function), malt.context
        )
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        _UNCONVERTED[code] = reason
        if _has_jumps(code):  # else there is no control flow to convert
            warnings.warn(
                f"{function.__qualname__} ({code.co_filename}:{code.co_firstlineno}) is run as "
                "Python while it is "
                f"traced, its control flow is not converted: {reason}",
                UserWarning,
                stacklevel=2,
            )
        return None
    result.ag_source_map = source_map
    _keep_lines(result.__code__, module.__name__, source_map)
    return result


def _keep_lines(code: Any, module: str, source_map: Any) -> None:
    """Note where generated lines come from, for as long as the generated code exists."""
    file = code.co_filename
    if file in SOURCE_MAPS:
        return
    SOURCE_MAPS[file] = {
        location.lineno: (origin.loc.filename, origin.loc.lineno, origin.function_name or "")
        for location, origin in source_map.items()
    }
    sys.modules.pop(module, None)  # which would keep it for good
    codes = list(_codes_in(code))
    alive = set(range(len(codes)))
    for number, one in enumerate(codes):
        weakref.finalize(one, _code_gone, file, alive, number).atexit = False


def _codes_in(code: Any) -> Iterator[Any]:
    """A code object, and those of the functions that are defined in it."""
    yield code
    for constant in code.co_consts:
        if inspect.iscode(constant):
            yield from _codes_in(constant)


def _code_gone(file: str, alive: set[int], number: int) -> None:
    """Forget a generated file with the last of its code objects."""
    alive.discard(number)
    if not alive:
        SOURCE_MAPS.pop(file, None)
        linecache.cache.pop(file, None)
        with contextlib.suppress(OSError):
            os.remove(file)


def _has_jumps(code: Any) -> bool:
    return any(
        "JUMP" in step.opname or step.opname == "FOR_ITER" for step in dis.get_instructions(code)
    )


def _strip_disguise(function: Any) -> Any:
    """`function` under the name in its source, which `functools.wraps` may have replaced."""
    code = function.__code__
    if function.__name__ == code.co_name:
        return function
    twin = types.FunctionType(
        code, function.__globals__, code.co_name, function.__defaults__, function.__closure__
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    twin.__module__ = function.__module__
    return twin


def reason_unconverted(function: Any) -> str | None:
    """Why `function` runs as Python, or `None`."""
    return _reason(getattr(function, "__code__", None))


def _reason(code: Any) -> str | None:
    if code is not None and code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
        return "generators and coroutines are not converted; return a list or a tensor"
    return _UNCONVERTED.get(code)


def with_reason(error: BaseException) -> BaseException:
    """`error` with the reason why the function that raised it runs as Python, if it does."""
    text = str(error.args[0]) if error.args else ""
    if not isinstance(error, TypeError) or "has none: it stands for a value" not in text:
        return error
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    codes = [f.f_code for f in frames if f.f_globals.get("__name__", "").split(".")[0] != _PACKAGE]
    reason = _reason(codes[-1]) if codes else None
    if reason is not None:
        name = codes[-1].co_name
        explained = f"{text}\n  {name!r} runs as Python while it is traced: {reason}"
        error.args = (explained, *error.args[1:])
    return error


# ---------------------------------------------------------------------- calls


def converted_call(
    f: Any, args: tuple[Any, ...], kwargs: Any, caller_fn_scope: Any = None, options: Any = None
) -> Any:
    """A call inside converted code: what is called is converted as well."""
    kwargs = kwargs or {}
    special = BUILTINS.get(f) if _hashable(f) else None
    if special is not None:
        return special(*args, **kwargs)
    if f is super or f is eval or f is globals or f is locals:
        return _in_original_context(f, args, caller_fn_scope)
    if inspect.isbuiltin(f) or inspect.isclass(f):
        return f(*args, **kwargs)
    return converted(f)(*args, **kwargs)


def _hashable(f: Any) -> bool:
    try:
        hash(f)
    except TypeError:
        return False
    return True


def _in_original_context(f: Any, args: Any, scope: Any) -> Any:
    builtins = _malt().builtins
    if f is super:
        return builtins.super_in_original_context(f, args, scope)
    if f is eval:
        return builtins.eval_in_original_context(f, args, scope)
    if f is globals:
        return builtins.globals_in_original_context(scope)
    return builtins.locals_in_original_context(scope)


def _check_returned(did_return: Any, name: str) -> None:
    """Refuse a path without `return` beside one that returns a tensor.

    Raises:
        InvalidArgumentError: tracing shows it already; otherwise the graph checks it when it runs.
    """
    text = (
        f"{name!r} returns a tensor on one path and ends without `return` on another. The "
        "condition is a tensor, so "
        "both paths are in the graph: return a tensor of the same dtype on each."
    )
    node = did_return.node
    if node.kind == "op" and node.primitive is cond_primitive.primitive:
        branches = (node.settings["true"], node.settings["false"])
        ends = [graph.outputs[did_return.index].node for graph in branches]
        if any(end.kind == "constant" and not bool(end.value) for end in ends):
            raise at_user_line(InvalidArgumentError(text))
    late_ops.assert_true(did_return, message=text)


_OPERATORS: dict[str, Any] = {
    "if_stmt": if_stmt,
    "while_stmt": while_stmt,
    "for_stmt": for_stmt,
    "converted_call": converted_call,
    "ld": read_name,
    **EXPRESSIONS,
}


ABOVE.convert = converted


class Feature(enum.Enum):
    """Optional parts of the conversion, TensorFlow's names; what is converted is always the same.

    All that the names stand for is part of every conversion here.
    """

    ALL = "ALL"
    AUTO_CONTROL_DEPS = "AUTO_CONTROL_DEPS"
    ASSERT_STATEMENTS = "ASSERT_STATEMENTS"
    BUILTIN_FUNCTIONS = "BUILTIN_FUNCTIONS"
    EQUALITY_OPERATORS = "EQUALITY_OPERATORS"
    LISTS = "LISTS"
    NAME_SCOPES = "NAME_SCOPES"

    @classmethod
    def all(cls) -> tuple[Feature, ...]:
        """All of them."""
        return tuple(cls)

    @classmethod
    def all_but(cls, exclude: Any) -> tuple[Feature, ...]:
        """All but `exclude`, one or several, and but `ALL`."""
        left_out = exclude if isinstance(exclude, list | tuple | set) else (exclude,)
        return tuple(set(cls) - {*left_out, cls.ALL})
