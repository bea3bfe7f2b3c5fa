"""AutoGraph: what `if`, `while`, `for`, `and`, `assert` ... mean when tensors are involved.

The `diastatic-malt` package rewrites the source; the functions here are what the rewritten code
calls. Each
does what Python does unless a symbolic tensor decides, and then makes a node with branches or a
body of its own.
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

from trainkit.core import nest, recorder
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.source_lines import SOURCE_MAPS
from trainkit.core.tensor import PRIMITIVES, SymbolicTensor, Tensor, convert_to_tensor, is_tensor
from trainkit.graph.control_flow import equal_values, traced_cond, traced_for_each, traced_while
from trainkit.graph.graph import Graph
from trainkit.graph.origins import at_user_line
from trainkit.graph.tensor_array import TensorArray

_PACKAGE = __name__.split(".")[0]


def _is_symbolic(x: Any) -> bool:
    return isinstance(x, SymbolicTensor)


@functools.cache
def _malt() -> Any:
    """The package that rewrites source, and our operators in its place."""
    import importlib.util  # malt expects that somebody has

    assert importlib.util
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from malt.core import converter
        from malt.impl import api
        from malt.operators import function_wrappers, py_builtins, variables
        from malt.pyct import templates

    class Asserts(converter.Base):
        """Turns `assert` into a call; malt's own converter takes no message but a plain text."""

        def visit_Assert(self, node: Any) -> Any:
            self.generic_visit(node)
            return templates.replace(
                "ag__.assert_stmt(test, lambda: msg)",
                test=node.test,
                msg=node.msg or ast.Constant(None),
            )

    class Transpiler(api.PyToPy):
        """Rewrites functions to call the operators of this module."""

        def transform_ast(self, node: Any, ctx: Any) -> Any:
            return super().transform_ast(Asserts(ctx).visit(node), ctx)

        def get_extra_locals(self) -> Any:
            if self._extra_locals is None:  # type: ignore[has-type]
                found = dict(super().get_extra_locals()["ag__"].__dict__)
                found.update(_OPERATORS, FunctionScope=Scope)
                self._extra_locals = {"ag__": types.SimpleNamespace(**found)}
            return self._extra_locals

    class Scope(function_wrappers.FunctionScope):
        """The scope of a rewritten function; checks that it returns something on every path."""

        def ret(self, value: Any, did_return: Any) -> Any:
            if _is_symbolic(did_return) and not _undefined(value):
                _check_returned(did_return, self.name)
            return super().ret(value, did_return)

    options = converter.ConversionOptions(
        recursive=True, user_requested=True, optional_features=None
    )
    return types.SimpleNamespace(
        transpiler=Transpiler(),
        options=options,
        context=converter.ProgramContext(options=options),
        Undefined=variables.Undefined,
        UndefinedReturn=variables.UndefinedReturnValue,
        builtins=py_builtins,
    )


# ---------------------------------------------------------------------- converting

_CONVERTED: dict[Any, Any] = {}
_UNCONVERTED: dict[Any, str] = {}


def do_not_convert(function: Callable[..., Any] | None = None) -> Any:
    """Decorator: leave the control flow of `function` to Python while it is traced."""
    if function is None:
        return do_not_convert

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

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
    key = (function.__code__, id(function)) if function.__closure__ else function.__code__
    found = _CONVERTED.get(key)
    if found is None or found[0] is not function:
        found = _CONVERTED[key] = (function, _rewritten(function))
        if len(_CONVERTED) > 4096:
            _CONVERTED.pop(next(iter(_CONVERTED)))
    return found[1]


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
    malt = _malt()
    try:
        result, _, source_map = malt.transpiler.transform(_undisguised(function), malt.context)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        _UNCONVERTED[function.__code__] = reason
        code = function.__code__
        if not _has_jumps(code):  # there is no control flow to convert
            return function
        warnings.warn(
            f"{function.__qualname__} ({code.co_filename}:{code.co_firstlineno}) is run as "
            "Python while it is "
            f"traced, its control flow is not converted: {reason}",
            UserWarning,
            stacklevel=2,
        )
        return function
    result.ag_source_map = source_map
    lines = SOURCE_MAPS.setdefault(result.__code__.co_filename, {})
    for place, origin in source_map.items():
        where = (origin.loc.filename, origin.loc.lineno, origin.function_name or "")
        lines[place.lineno] = where
    return result


def _has_jumps(code: Any) -> bool:
    return any(
        "JUMP" in step.opname or step.opname == "FOR_ITER" for step in dis.get_instructions(code)
    )


def _undisguised(function: Any) -> Any:
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
    return _UNCONVERTED.get(getattr(function, "__code__", None))


# ---------------------------------------------------------------------- calls


def converted_call(
    f: Any, args: tuple[Any, ...], kwargs: Any, caller_fn_scope: Any = None, options: Any = None
) -> Any:
    """A call inside converted code: what is called is converted as well."""
    kwargs = kwargs or {}
    special = _BUILTINS.get(f) if _hashable(f) else None
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


def _range(*args: Any) -> Any:
    if any(_is_symbolic(a) for a in args):
        from trainkit import ops

        return ops.arange(*args)
    return range(*(int(a) if is_tensor(a) else a for a in args))


def _len(x: Any) -> Any:
    if _is_symbolic(x) and (not x.shape or x.shape[0] is None):
        return PRIMITIVES["shape"].op(x)[0]
    return len(x)


def _int(x: Any = 0, *args: Any) -> Any:
    if _is_symbolic(x):
        return PRIMITIVES["cast"].op(x, dtype="int32")
    return int(x, *args)


def _float(x: Any = 0.0) -> Any:
    if _is_symbolic(x):
        return PRIMITIVES["cast"].op(x, dtype="float32")
    return float(x)


def _bool(x: Any = False) -> Any:
    if _is_symbolic(x):
        return PRIMITIVES["cast"].op(x, dtype="bool")
    return bool(x)


def _max(*args: Any, **kwargs: Any) -> Any:
    return _extreme(max, "maximum", args, kwargs)


def _min(*args: Any, **kwargs: Any) -> Any:
    return _extreme(min, "minimum", args, kwargs)


def _extreme(python: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not kwargs and len(args) > 1 and any(_is_symbolic(a) for a in args):
        return functools.reduce(PRIMITIVES[name].op, args)
    return python(*args, **kwargs)


_BUILTINS: dict[Any, Any] = {
    range: _range,
    len: _len,
    int: _int,
    float: _float,
    bool: _bool,
    max: _max,
    min: _min,
}


# ---------------------------------------------------------------------- statements


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
    if node.kind == "op" and node.primitive.name == "cond":
        branches = (node.settings["true"], node.settings["false"])
        ends = [graph.outputs[did_return.index].node for graph in branches]
        if any(end.kind == "constant" and not bool(end.value) for end in ends):
            raise at_user_line(InvalidArgumentError(text))
    PRIMITIVES["assert_true"].op(did_return, message=text)


def _undefined(x: Any) -> bool:
    malt = _malt()
    return isinstance(x, malt.Undefined | malt.UndefinedReturn) or _is_empty_array(x)


def _is_empty_array(x: Any) -> bool:
    """Whether `x` is a `TensorArray` whose elements have no shape yet."""
    return isinstance(x, TensorArray) and not x


def if_stmt(
    cond: Any,
    body: Callable[[], Any],
    orelse: Callable[[], Any],
    get_state: Callable[[], Any],
    set_state: Callable[[Any], None],
    symbol_names: tuple[str, ...],
    nouts: int,
) -> None:
    """An `if` statement; `get_state` and `set_state` read and write the names that it changes."""
    if not _is_symbolic(cond):
        (body if cond else orelse)()
        return
    _staged_if(cond, body, orelse, _State(get_state, set_state, symbol_names), nouts, False)


def _staged_if(
    cond: Any,
    body: Callable[[], Any],
    orelse: Callable[[], Any],
    state: _State,
    nouts: int,
    fills: bool,
) -> None:
    """Both branches of an `if` in the graph; with `fills` one may leave names undefined."""
    get_state, set_state, names = state.get, state.put, state.names
    before = tuple(get_state())

    def branch(run: Callable[[], Any]) -> Callable[[], Any]:
        def traced() -> Any:
            set_state(before)
            run()
            return tuple(get_state())[:nouts]

        return traced

    outer = recorder.current_trace()
    try:
        after = _at_line(
            traced_cond, outer, cond, branch(body), branch(orelse), _merge(names, fills)
        )
    finally:
        set_state(before)
    set_state(tuple(after) + before[nouts:])


def _merge(names: tuple[str, ...], fills: bool) -> Callable[[Graph, Any, Graph, Any], Any]:
    """Brings what two branches leave in the names to one structure.

    What a branch leaves undefined can be filled where nothing reads it: the value of a `return`
    that is not
    reached, and with `fills` any name.
    """

    def merge(true: Graph, one: Any, false: Graph, two: Any) -> Any:
        ones, twos = [], []
        for name, a, b in zip(names, one, two, strict=False):
            if fills or _label(name) == _RETURNED or _is_empty_array(a) or _is_empty_array(b):
                a, b = _fill(true, a, b), _fill(false, b, a)
            if _shape_of_nest(a) != _shape_of_nest(b):
                raise InvalidArgumentError(_differing(name, a, b))
            for x, y in zip(nest.flatten(a), nest.flatten(b), strict=True):
                _check_leaves(name, x, y)
            ones.append(a)
            twos.append(b)
        return tuple(ones), tuple(twos)

    return merge


def _shape_of_nest(x: Any) -> Any:
    return nest.map_structure(lambda leaf: None, x)


def _fill(graph: Graph, mine: Any, other: Any) -> Any:
    """Zeros like `other` for a name that this branch leaves undefined, and nothing may use."""
    if not _undefined(mine) or _undefined(other):
        return mine
    if isinstance(mine, TensorArray):
        return mine.filled(tuple(0 if n is None else n for n in other.element_shape))
    if not all(is_tensor(x) or isinstance(x, bool | int | float) for x in nest.flatten(other)):
        return mine
    from trainkit import ops
    from trainkit.core.abstract import eagerly

    def zeros(x: Any) -> Any:
        if not is_tensor(x):
            return type(x)(0)
        dims = [1 if n is None else n for n in x.shape]
        with eagerly():
            return ops.zeros(dims, x.dtype)

    return nest.map_structure(zeros, other)


def _check_leaves(name: str, x: Any, y: Any) -> None:
    if is_tensor(x) and is_tensor(y):
        if x.dtype != y.dtype:
            raise InvalidArgumentError(
                f"{_label(name)} has dtype {x.dtype.name} if the condition holds and "
                f"{y.dtype.name} if not; both "
                "branches must give one dtype, cast one of them"
            )
        if len(x.shape) != len(y.shape):
            raise InvalidArgumentError(
                f"{_label(name)} has shape {tuple(x.shape)} if the condition holds and "
                f"{tuple(y.shape)} if not; both "
                "branches must give one rank"
            )
    elif (_undefined(x) or _undefined(y)) and not (_undefined(x) and _undefined(y)):
        raise InvalidArgumentError(_differing(name, x, y))
    elif (x is None) != (y is None):
        raise InvalidArgumentError(_differing(name, x, y))


def _differing(name: str, x: Any, y: Any) -> str:
    def word(v: Any) -> str:
        return "undefined" if _undefined(v) else repr(v)

    return (
        f"{_label(name)} is {word(x)} if the condition holds and {word(y)} if not. The condition "
        "is a tensor, so "
        "both branches are in the graph, and both must give a value of the same kind: set it "
        "before the `if`, "
        "or in both branches."
    )


_RETURNED = "the returned value"


def _label(name: str) -> str:
    if name.startswith("retval_") or name == "fscope.ret":
        return _RETURNED
    return f"{name!r}"


def while_stmt(
    test: Callable[[], Any],
    body: Callable[[], Any],
    get_state: Callable[[], Any],
    set_state: Callable[[Any], None],
    symbol_names: tuple[str, ...],
    opts: Any,
) -> None:
    """A `while` statement."""
    while True:
        decision = test()
        if _is_symbolic(decision):
            break
        if not decision:
            return
        body()
    outer = recorder.current_trace()
    _staged_loop(outer, test, lambda: body(), get_state, set_state, symbol_names, None)


def _staged_loop(
    outer: Graph,
    test: Callable[[], Any],
    body: Callable[[], Any],
    get_state: Callable[[], Any],
    set_state: Callable[[Any], None],
    names: tuple[str, ...],
    limit: Any,
) -> None:
    """A loop whose condition is a tensor: the names it changes become loop variables."""
    before = tuple(get_state())
    before = _defined(outer, before, lambda graph: body(), get_state, set_state, names)
    dynamic = [i for i, x in enumerate(before) if _is_loop_value(x)]
    start = [before[i] for i in dynamic]

    def put(values: Any) -> None:
        state = list(before)
        for i, value in zip(dynamic, values, strict=True):
            state[i] = value
        set_state(tuple(state))

    def step(*values: Any) -> Any:
        put(values)
        body()
        after = tuple(get_state())
        _check_constant(before, after, dynamic, names)
        return [after[i] for i in dynamic]

    def check(*values: Any) -> Any:
        put(values)
        return test()

    labels = [name for i in dynamic for name in _labels(names[i], before[i])]
    try:
        after = _at_line(traced_while, outer, check, step, start, limit, labels)
    finally:
        set_state(before)
    put(after)


def _check_constant(before: Any, after: Any, dynamic: list[int], names: tuple[str, ...]) -> None:
    """Refuse a loop that changes something which is neither tensor nor number."""
    for i, (x, y) in enumerate(zip(before, after, strict=True)):
        if i not in dynamic and not (x is y or _undefined(x) or equal_values(x, y)):
            raise InvalidArgumentError(
                f"{_label(names[i])} is {x!r} before the loop and {y!r} after one iteration. The "
                "loop runs over "
                "tensors, so its body is in the graph once, and only tensors and numbers can "
                "change in it: start "
                "with a tensor."
            )


def _at_line(trace: Callable[..., Any], *args: Any) -> Any:
    """`trace(*args)`; what the statement itself does wrong is reported with its line."""
    try:
        return trace(*args)
    except InvalidArgumentError as error:
        raise at_user_line(error) from None


def _is_loop_value(x: Any) -> bool:
    leaves = nest.flatten(x)
    return bool(leaves) and all(is_tensor(v) or isinstance(v, bool | int | float) for v in leaves)


def _defined(
    outer: Graph,
    before: tuple[Any, ...],
    body: Callable[[Graph], Any],
    get_state: Callable[[], Any],
    set_state: Callable[[Any], None],
    names: tuple[str, ...],
) -> tuple[Any, ...]:
    """`before` with zeros for names that only the body defines; a trial run tells their kind."""
    if not any(_undefined(x) for x in before):
        return before
    trial = Graph("trial", outer)
    symbols = [
        nest.map_structure(lambda v: _trial_symbol(trial, v), x) if _is_loop_value(x) else x
        for x in before
    ]
    with trial, recorder.silence():
        set_state(tuple(symbols))
        body(trial)
        after = tuple(get_state())
    set_state(before)
    return tuple(
        _fill(outer, x, y) if _undefined(x) and not _undefined(y) else x
        for x, y in zip(before, after, strict=True)
    )


def _trial_symbol(graph: Graph, x: Any) -> Any:
    from trainkit.core.abstract import eagerly

    with eagerly():
        tensor = x if is_tensor(x) else convert_to_tensor(x)
    return graph.add_input(Spec(tensor.shape, tensor.dtype))


def for_stmt(
    iter_: Any,
    extra_test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    get_state: Callable[[], Any],
    set_state: Callable[[Any], None],
    symbol_names: tuple[str, ...],
    opts: Any,
) -> None:
    """A `for` statement over anything; over tensors and datasets it becomes a loop in the graph."""
    outer = recorder.current_trace()
    loop = _for_python
    if outer is not None and isinstance(iter_, Tensor):
        loop = functools.partial(_for_tensor, outer)
    elif outer is not None and hasattr(iter_, "element_spec"):
        loop = functools.partial(_for_dataset, outer)
    loop(iter_, extra_test, body, _State(get_state, set_state, symbol_names))


class _State:
    """The names that a loop changes: `get` and `put` their values, `names` for texts."""

    def __init__(self, get: Callable[[], Any], put: Callable[[Any], None], names: Any) -> None:
        self.get = get
        self.put = put
        self.names = names


def _for_python(
    iter_: Any, extra_test: Callable[[], Any] | None, body: Callable[[Any], None], state: _State
) -> None:
    """A loop over a Python iterable, unrolled; a tensor that decides on `break` guards rounds."""
    for item in iter_:
        if extra_test is not None:
            goes_on = extra_test()
            if _is_symbolic(goes_on):
                _guarded(goes_on, functools.partial(body, item), state)
                continue
            if not goes_on:
                break
        body(item)


def _guarded(goes_on: Any, run: Callable[[], Any], state: _State) -> None:
    """`run` under the condition `goes_on`."""
    if _is_symbolic(goes_on):
        _staged_if(goes_on, run, lambda: None, state, len(state.names), True)
    elif goes_on:
        run()


def _for_tensor(
    outer: Graph,
    x: Any,
    extra_test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    state: _State,
) -> None:
    if not x.shape:
        raise TypeError("for: a scalar tensor can't be iterated; use tk.range(n)")
    from trainkit import ops

    count = _len(x) if x.shape[0] is None else x.shape[0]
    position = [convert_to_tensor(0)]

    def get() -> Any:
        return (*state.get(), position[0])

    def put(values: Any) -> None:
        state.put(tuple(values)[:-1])
        position[0] = values[-1]

    def test() -> Any:
        goes_on = position[0] < count
        if extra_test is None:
            return goes_on
        extra = extra_test()
        if _is_symbolic(extra) or is_tensor(extra):
            return ops.logical_and(goes_on, extra)
        return goes_on if extra else ops.logical_and(goes_on, False)

    def step() -> None:
        i = position[0]
        body(ops.take(x, i, axis=0))
        position[0] = i + 1

    _staged_loop(outer, test, step, get, put, (*state.names, "position"), None)


def _for_dataset(
    outer: Graph,
    dataset: Any,
    extra_test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    state: _State,
) -> None:
    """A loop over a dataset as one node, which stops reading where the loop breaks."""
    spec = dataset.element_spec

    def one(graph: Graph) -> None:
        fed = [graph.add_input(Spec(s.shape, s.dtype), "element") for s in nest.flatten(spec)]
        body(nest.pack(spec, list(fed)))

    before = _defined(outer, tuple(state.get()), one, state.get, state.put, state.names)
    dynamic = [i for i, x in enumerate(before) if _is_loop_value(x)]
    labels = [name for i in dynamic for name in _labels(state.names[i], before[i])]

    def put(leaves: Any) -> None:
        rest = iter(leaves)
        values = list(before)
        for i in dynamic:
            values[i] = nest.pack(before[i], [next(rest) for _ in nest.flatten(before[i])])
        state.put(tuple(values))

    def step(element: Any, leaves: Any) -> Any:
        put(leaves)
        goes_on = True if extra_test is None else extra_test()
        _guarded(goes_on, functools.partial(body, element), state)
        after = tuple(state.get())
        _check_constant(before, after, dynamic, state.names)
        flag = None if extra_test is None else extra_test()
        return [leaf for i in dynamic for leaf in nest.flatten(after[i])], flag

    start = [leaf for i in dynamic for leaf in nest.flatten(before[i])]
    try:
        after = _at_line(traced_for_each, outer, dataset, spec, step, start, labels)
    finally:
        state.put(before)
    put(after)


def _labels(name: str, x: Any) -> list[str]:
    """What the leaves of `x` are called in texts."""
    count = len(nest.flatten(x))
    return [name] if count == 1 else [f"{name}[{i}]" for i in range(count)]


# ---------------------------------------------------------------------- expressions


def if_exp(
    cond: Any, if_true: Callable[[], Any], if_false: Callable[[], Any], expr_repr: str
) -> Any:
    """A conditional expression."""
    if not _is_symbolic(cond):
        return if_true() if cond else if_false()
    return traced_cond(recorder.current_trace(), cond, if_true, if_false)


def and_(a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """`a and b`; a symbolic `a` decides in the graph."""
    first = a()
    if not _is_symbolic(first):
        return first and b()
    return traced_cond(recorder.current_trace(), first, lambda: _as_bool(b()), lambda: False)


def or_(a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """`a or b`; a symbolic `a` decides in the graph."""
    first = a()
    if not _is_symbolic(first):
        return first or b()
    return traced_cond(recorder.current_trace(), first, lambda: True, lambda: _as_bool(b()))


def _as_bool(x: Any) -> Any:
    return x if is_tensor(x) else bool(x)


def not_(a: Any) -> Any:
    """`not a`."""
    return PRIMITIVES["logical_not"].op(a) if _is_symbolic(a) else not a


def eq(a: Any, b: Any) -> Any:
    """`a == b`."""
    return a == b


def not_eq(a: Any, b: Any) -> Any:
    """`a != b`."""
    return a != b


def assert_stmt(expression1: Any, expression2: Callable[[], Any]) -> None:
    """An `assert` statement; on a symbolic tensor it is checked when the graph runs."""
    if not _is_symbolic(expression1):
        assert expression1, expression2()
        return
    message = expression2()
    text = "assertion failed" if message is None else str(message)
    PRIMITIVES["assert_true"].op(expression1, message=text)


_OPERATORS: dict[str, Any] = {
    "if_stmt": if_stmt,
    "while_stmt": while_stmt,
    "for_stmt": for_stmt,
    "if_exp": if_exp,
    "and_": and_,
    "or_": or_,
    "not_": not_,
    "eq": eq,
    "not_eq": not_eq,
    "assert_stmt": assert_stmt,
    "converted_call": converted_call,
}
