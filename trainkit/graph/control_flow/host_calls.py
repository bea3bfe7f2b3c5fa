"""Calls back into Python as operations that a graph keeps: `py_function` and `numpy_function`."""

from __future__ import annotations

import functools
import inspect
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainkit.core import devices
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.eval_shape import eagerly
from trainkit.core.dispatch.facets import CONTROL, Absent, Effect, one_by_one
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import BY_NUMPY, DType, as_dtype
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.process import forks
from trainkit.core.shapes import CALLS, Spec, TensorShape
from trainkit.core.string_tensor import string_results
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.graph.control_flow import host_tapes
from trainkit.ops.core.dynamic_shapes import BackwardCall, Call, gradient_of_call, is_smooth


class HostFunction:
    """A Python function as a setting of `host_call`.

    Attributes:
        function: takes the values.
        specs: of what it gives.
        loose: of which results only the dtype was announced, so that `set_shape` may say the shape.
        has_gradient: whether a graph computes gradients of it.
    """

    def __init__(self, function: Callable[..., Any], announced: list[Any]) -> None:
        self.function = function
        self.has_gradient = False
        self.loose = [not hasattr(x, "shape") for x in announced]
        self.key = _key_of(function, announced)
        # A guess, of a scalar, until a first run has shown better: most such results are scalars,
        # and a graph made for the rank at once is not made a second time.
        ranks = _RANKS.get(self.key, (0,) * len(announced))
        self.specs = tuple(map(_spec_of, announced, ranks))
        self.unseen = list(self.loose)  # results whose shape nobody has said or seen
        if any(self.loose):
            # While it holds one, calls go by `run_first`. It is weak, so graphs that are gone cost
            # nothing.
            UNSEEN.add(self)
            _SESSION.guesses += 1

    def settle(self, index: int, shape: TensorShape) -> Spec | None:
        """Take note of the shape of a result of which none was known; its spec, if it was so."""
        # An announced shape is no guess: `set_shape` narrows it, and each run compares.
        if not self.loose[index] or shape.rank is None:
            return None
        spec = Spec(shape, self.specs[index].dtype)
        self.unseen[index] = False
        self.specs = (*self.specs[:index], spec, *self.specs[index + 1 :])
        return spec

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", "function")


def _spec_of(x: Any, rank: int = 0) -> Spec:
    if hasattr(x, "shape"):
        return Spec(x.shape, x.dtype)
    return Spec((None,) * rank, as_dtype(x))


# ------------------------------------------------------------------ ranks of results
#
# Each tensor of a graph has a rank, and a dtype in `Tout` says none. The result is traced as a
# scalar; where the first run shows another rank, the graph is made again with that, and run again
# from its start. Variables that the graph knows get their values back for it; and what Python
# functions gave in the first run they are not asked for again: these variables get the values that
# they had after the call.


class RankSeen(BaseException):
    """A first run has shown that a result has another rank than the graph was made for.

    It is no `Exception`, so that nothing on the way takes it for an error of the user's.
    """


class _FirstRun(threading.local):
    """The first run of a graph: what Python functions have given in it, and gave in one before."""

    given: dict[Any, list[Any]] | None = None
    before: dict[Any, list[Any]]
    variables: Sequence[Any] = ()  # those of the graph
    guesses = 0  # results of which a trace took the rank for granted
    learns = False  # whether a function runs as Python to show the ranks


UNSEEN: weakref.WeakSet[HostFunction] = weakref.WeakSet()
_SESSION = _FirstRun()
_RANKS: dict[Any, tuple[int, ...]] = {}
_KEEPING = forks.make_lock()


def _keep_ranks(key: Any, ranks: tuple[int, ...]) -> None:
    """Remember the ranks of a function's results, and forget those that were seen longest ago.

    Of one that is forgotten the first run shows them again.
    """
    with _KEEPING:
        _RANKS.pop(key, None)
        _RANKS[key] = ranks
        while len(_RANKS) > CALLS:
            del _RANKS[next(iter(_RANKS))]


def _key_of(function: Any, announced: list[Any]) -> Any:
    """Functions that are made anew by each trace, of the same code, are the same one here."""
    # A decorated function is bound anew in each trace, and its ranks are those of the code.
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None) or id(function)
    return code, tuple([None if hasattr(x, "shape") else as_dtype(x).name for x in announced])


def run_first(
    run: Callable[[], Any], again: Callable[[], Any], variables: Sequence[Any] = ()
) -> Any:
    """What `run` gives, which runs a graph; or `again`, which makes it anew, if a rank is seen.

    Args:
        run: without arguments.
        again: forgets the graph and calls the function, which comes here again.
        variables: those that the graph reads or assigns.
    """
    # Runs nest: making a graph anew may show one more rank, behind the first of these calls.
    before = _SESSION.__dict__.get("before", {})
    _SESSION.given, _SESSION.variables = {}, variables
    start = _values_now()
    try:
        return run()
    except RankSeen:
        _SESSION.before = _SESSION.given
        _give_back(start)
    finally:
        _SESSION.given, _SESSION.variables = None, ()
    try:
        return again()
    finally:
        _SESSION.before = before


def _values_now() -> list[tuple[Any, Tensor]]:
    """The variables of the graph that runs first, with their values, which are held by this."""
    return [(variable, variable._value) for variable in _SESSION.variables]


def _give_back(values: list[tuple[Any, Tensor]]) -> None:
    for variable, value in values:
        variable._value = value


def guess_count() -> int:
    """How many calls this thread has traced without knowing the ranks of their results."""
    return _SESSION.guesses


def run_and_learn_ranks(function: Callable[[], Any]) -> Any:
    """Run `function` as Python, and remember the ranks of what its calls of the host give.

    A trace takes such a result for a scalar until its rank is known; where the code behind the call
    does not fit a scalar, no trace gets to its end. Traces that come later know the ranks.
    """
    before, _SESSION.learns = _SESSION.learns, True
    try:
        return function()
    finally:
        _SESSION.learns = before


def _result_of(
    function: HostFunction, arguments: list[Any], is_taped: bool
) -> tuple[list[Any], Any]:
    """The results of a call, or those that it had in the run before, and the call on its tape."""
    items = taped = None
    if _SESSION.given is not None:
        # In order: a function that is called in a loop gave one list of results for each round.
        earlier_calls = _SESSION.__dict__.get("before", {}).get(function.key)
        if earlier_calls:
            items, taped, after = earlier_calls.pop(0)
            _give_back(after)
    if items is None:
        with eagerly(), trace_state.silence():
            if is_taped:
                taped = host_tapes.TapedCall(function.function, arguments)
                result = taped.result
            else:
                result = function.function(*arguments)
        items = _items(result, len(function.specs), repr(function))
    if _SESSION.given is not None:
        # With the values of variables behind the call, as the function may have assigned them.
        _SESSION.given.setdefault(function.key, []).append((items, taped, _values_now()))
    return items, taped


def _see_ranks(function: HostFunction, items: list[Any]) -> None:
    """Take note of ranks that a first run shows, and end it if they are others than expected."""
    # The case of all runs but the first, so it comes before any look at the results.
    if not any(function.unseen):
        return
    ranks = tuple([np.ndim(getattr(y, "_array", y)) for y in items])
    expected = [len(spec.shape) for spec in function.specs]
    pairs = zip(ranks, expected, function.unseen, strict=True)
    if _SESSION.given is not None and any(unseen and a != b for a, b, unseen in pairs):
        # Only a first run is taken back. In any other `_check` refuses such a result.
        _keep_ranks(function.key, ranks)
        raise RankSeen
    function.unseen = [False] * len(items)
    UNSEEN.discard(function)


@primitive(
    lambda *inputs, function: function.specs,
    name="host_call",
    effect=Effect("it calls a Python function", runs_python=True),
    semantics=CONTROL,
    text="beside numbers",
    no_gradient=Absent("it calls Python on arrays"),
)
def _host_call(xp: Any, *arrays: Any, function: HostFunction) -> tuple[Any, ...]:
    """Call a Python function on the values of tensors as NumPy arrays."""
    results, _ = _call_now(xp, [devices.to_numpy(a) for a in arrays], function)
    return tuple(results)


@primitive(
    lambda *inputs, function: (*function.specs, host_tapes.NUMBER),
    name="py_call",
    effect=Effect("it calls a Python function", runs_python=True),
    semantics=CONTROL,
    text="beside numbers",
)
def _py_call(xp: Any, *arrays: Any, function: HostFunction) -> tuple[Any, ...]:
    """Call a Python function on the values of tensors as eager tensors.

    The last result is the number of the call, for its gradients.
    """
    tensors = [string_results(a) for a in arrays]
    is_taped = any(is_smooth(x.dtype) for x in tensors) and any(
        is_smooth(spec.dtype) for spec in function.specs
    )
    results, taped = _call_now(xp, tensors, function, is_taped)
    return (*results, host_tapes.number_of(taped, xp, function.has_gradient))


@_py_call.joint_gradient
def _py_gradient(g: Any, y: Any, *inputs: Any, function: HostFunction) -> list[Any]:
    function.has_gradient = True
    call = Call(repr(function), function.function, function.specs)
    backward = BackwardCall(call, inputs)
    if not backward:
        return [None] * len(inputs)
    upstream = backward.upstream(g[:-1])
    gradients: Any = _py_call_gradient(*upstream, *inputs, y[-1], backward=backward)
    return backward.by_input(gradients)


def _gradient_rule(*operands: Any, backward: BackwardCall) -> tuple[Spec, ...]:
    return backward.specs


# No effect: it belongs to the pass back, and what the function does has happened in the call.
@primitive(_gradient_rule, name="py_call_gradient", semantics=CONTROL, text="beside numbers")
def _py_call_gradient(xp: Any, *arrays: Any, backward: BackwardCall) -> tuple[Any, ...]:
    """The gradients of the inputs of a call, from its tape, or where that is gone of a new call.

    The arrays are gradients of the results, the inputs, and the number of the call.
    """
    *operands, number = arrays
    tensors = [string_results(a) for a in operands]
    with eagerly(), trace_state.silence():
        taped = host_tapes.call_of(int(number))
        if taped is None:
            gradients = backward.results(tensors)
        else:
            gradients = taped.gradients(tensors, backward.smooth)
    return tuple(x._array for x in gradients)


@_py_call_gradient.joint_gradient
def _second_gradient(g: Any, y: Any, *operands: Any, backward: BackwardCall) -> list[Any]:
    # The gradients of gradients are those of a new call, as the tape knows nothing of its inputs.
    return [*gradient_of_call(g, operands[:-1], backward), None]


for _call in (_host_call, _py_call, _py_call_gradient):
    _call.declare(batch=one_by_one("the function is made for the values of one item"))


def _call_now(
    xp: Any, arguments: list[Any], function: HostFunction, is_taped: bool = False
) -> tuple[list[Any], Any]:
    items, taped = _result_of(function, arguments, is_taped)
    _see_ranks(function, items)
    results = [_check(xp, y, spec, function) for y, spec in zip(items, function.specs, strict=True)]
    return results, taped


def _items(result: Any, count: int, name: str) -> list[Any]:
    """What a function gave as a list of `count` results.

    Raises:
        InvalidArgumentError: it gave more or fewer.
    """
    if result is None and not count:
        return []
    items = list(result) if isinstance(result, list | tuple) else [result]
    if len(items) != count:
        raise InvalidArgumentError(
            f"host_call: {name} gave {len(items)} results, Tout names {count}"
        )
    if any(y is None for y in items):
        raise InvalidArgumentError(
            f"host_call: {name} gave None for a result that Tout names; return a value, or say "
            "Tout=[]"
        )
    return items


def _check(xp: Any, y: Any, spec: Spec, function: HostFunction) -> Any:
    array = y._array if is_tensor(y) else np.asarray(y)
    _check_dtype(array, spec.dtype, exact=is_tensor(y))
    array = xp.asarray(array, dtype=spec.dtype.dtype)
    if not TensorShape(spec.shape).is_compatible_with(array.shape):
        raise InvalidArgumentError(
            f"host_call: {function!r} gave shape {array.shape}, the graph was made for "
            f"{tuple(spec.shape)}. Say the shape in Tout: tk.TensorSpec(shape, dtype), sizes may "
            "be None; or by set_shape of the result. A dtype alone stands for the rank of the "
            "first result."
        )
    return array


def _append_call(
    func: Callable[..., Any], inp: Any, announced: list[Any], operation: Any
) -> list[Any]:
    """The results of a call of `func` that becomes a node of the graph being traced."""
    tensors = tuple([convert_to_tensor(x) for x in inp])
    settings = {"function": HostFunction(func, announced)}
    results = trace_state.current_graph().apply(operation.primitive, tensors, settings)
    # A trace that is given a node directly tells no tape of it, as calls of operations do.
    if trace_state.TAPES and announced:
        trace_state.record(operation.primitive, tensors, results, settings)
    return list(results[: len(announced)])


def _run_call(
    func: Callable[..., Any], inp: Any, announced: list[Any], of_arrays: bool = False
) -> list[Any]:
    """The results of a call now."""
    values = [convert_to_tensor(x) for x in inp]
    with trace_state.acting_for_graph(False):
        result = func(*([x.numpy() for x in values] if of_arrays else values))
    items = _items(result, len(announced), getattr(func, "__name__", "the function"))
    tensors = [_in_dtype(y, _spec_of(spec).dtype) for y, spec in zip(items, announced, strict=True)]
    if _SESSION.learns:
        _keep_ranks(_key_of(func, announced), tuple([len(y.shape) for y in tensors]))
    return tensors


def _in_dtype(y: Any, dtype: DType) -> Tensor:
    """A result as a tensor of the dtype that was announced."""
    array = y if is_tensor(y) else np.asarray(y)
    _check_dtype(array, dtype, exact=is_tensor(y))
    return convert_to_tensor(y if is_tensor(y) else array.astype(dtype.dtype, copy=False))


def _check_dtype(y: Any, dtype: DType, exact: bool) -> None:
    """Refuse a result whose numbers are others in the dtype that was announced.

    Tensors must have it; numbers and arrays of NumPy, which is quick to give float64, may be of
    another kind of float, or integers that fit.
    """
    mine = BY_NUMPY.get(np.dtype(getattr(y.dtype, "dtype", y.dtype)))
    if mine is None or mine == dtype or not (mine.is_numeric or mine.is_bool):
        return
    # Bool, integers, floats, complex numbers: 0 to 3. A higher kind holds the number, and another
    # size of float rounds it; of integers the values decide.
    kinds = [3 * t.is_complex or 2 * t.is_floating or 1 * t.is_integer for t in (mine, dtype)]
    keeps = not exact and (kinds[0] < kinds[1] or kinds[0] == kinds[1] != 1)
    if not exact and kinds == [1, 1]:
        low, high = dtype.limits
        keeps = not y.size or (int(y.min()) >= low and int(y.max()) <= high)
    if not keeps:
        raise InvalidArgumentError(
            f"the function gave {mine.name}, Tout says {dtype.name}; cast the result, with tk.cast "
            "or astype, or say another Tout"
        )


def _decorator(call: Callable[..., Any], Tout: Any) -> Callable[..., Any]:
    """What makes of a Python function one that is called on tensors, by `call`."""

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            count, names = len(args), list(kwargs)

            def bound(*values: Any) -> Any:
                return func(*values[:count], **dict(zip(names, values[count:], strict=True)))

            bound.__name__ = getattr(func, "__name__", "function")
            # This leads `_key_of` to the user's code; `bound` itself is made anew in each trace.
            bound.__wrapped__ = func  # type: ignore[attr-defined]
            return call(bound, [*args, *kwargs.values()], Tout)

        return wrapper

    return decorate


def _check_arguments(name: str, func: Any, inp: Any, Tout: Any) -> None:
    if Tout is None:
        raise TypeError(
            f"{name}: Tout is missing, the dtype of the result, a list of them, or [] for none; "
            f"as a decorator @tk.{name}(Tout=...)"
        )
    if func is not None and inp is None:
        raise TypeError(f"{name}: inp is missing, the list of tensors that {func!r} is called on")


def py_function(
    func: Any = None, inp: Any = None, Tout: Any = None, name: str | None = None
) -> Any:
    """Call a Python function of eager tensors, now or each time the graph runs.

    Gradients go through what `func` does. It is called once: a graph records it on a tape and
    computes them from that. Only gradients of gradients call it again.

    Args:
        func: takes one tensor for each of `inp`. Without it a decorator is returned, for functions
            that are then called on tensors themselves.
        inp: list of tensors.
        Tout: dtype of its result, a list of them, or `[]` for a function without results. A graph
            has the rank that the first result has; it is made a second time where that is no
            scalar, unless a `TensorSpec` in place of the dtype, or `set_shape` of the result, says
            the shape.

    Returns:
        A tensor, or a list when `Tout` is one.

    Raises:
        TypeError: `Tout` or `inp` is missing.
        InvalidArgumentError: there are more or fewer results than `Tout` says; when a graph runs,
            the results have other shapes than it was made for.

    >>> @tk.py_function(Tout=tk.float32)
    ... def half(x):
    ...     return x / 2
    >>> float(half(tk.constant(3.0)))
    1.5
    """
    _check_arguments("py_function", func, inp, Tout)
    if func is None:
        return _decorator(py_function, Tout)
    many = isinstance(Tout, list | tuple)
    announced = list(Tout) if many else [Tout]
    if trace_state.current_graph() is None:
        results = _run_call(func, inp, announced)
    else:
        results = _append_call(func, inp, announced, _py_call)
    return results if many else results[0]


def numpy_function(
    func: Any = None,
    inp: Any = None,
    Tout: Any = None,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """Call a Python function of arrays, now or each time the graph runs; gradients stop there.

    Args:
        func: takes one array for each of `inp`. Without it a decorator is returned, for functions
            that are then called on tensors themselves.
        inp: list of tensors.
        Tout: dtype of its result, a list of them, or `[]` for a function without results. A graph
            has the rank that the first result has; it is made a second time where that is no
            scalar, unless a `TensorSpec` in place of the dtype, or `set_shape` of the result, says
            the shape.
        stateful: a hint of TensorFlow's; the function is called in each run either way.

    Returns:
        A tensor, or a list when `Tout` is one; `None` where it is empty.

    Raises:
        TypeError: `Tout` or `inp` is missing.
        InvalidArgumentError: there are more or fewer results than `Tout` says; when a graph runs,
            the results have other shapes than it was made for.
    """
    _check_arguments("numpy_function", func, inp, Tout)
    if func is None:
        return _decorator(numpy_function, Tout)
    many = isinstance(Tout, list | tuple)
    announced = list(Tout) if many else [Tout]
    if trace_state.current_graph() is not None:
        results = _append_call(func, inp, announced, _host_call)
    else:
        # Tapes would record what the function does to tensors, and gradients are to stop here.
        with trace_state.silence():
            results = _run_call(func, inp, announced, of_arrays=True)
    if many:
        return results or None
    return results[0]


def timestamp(name: str | None = None) -> Tensor:
    """The time, in seconds since 1970: now or, in a traced function, each time the graph runs.

    Returns:
        A scalar of float64.

    Example:
        >>> start = tk.timestamp()
        >>> bool(tk.timestamp() - start < 60.0)
        True
    """
    if trace_state.current_graph() is None:
        return convert_to_tensor(np.float64(time.time()))
    # A call of Python, as a constant would be the time of the trace for ever.
    now: Tensor
    (now,) = _append_call(time.time, (), [Spec((), "float64")], _host_call)
    return now
