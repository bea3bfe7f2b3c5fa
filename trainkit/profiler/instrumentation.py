"""Instrumentation: functions that are exchanged while a profile runs, and put back afterwards.

Nothing asks whether there is a profile. A function's code is exchanged in place, so whoever holds
the function (a module that imported it, a bound method, an operator of `Tensor`) runs the timed
one, and while no profile runs there is not a single instruction more.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from trainkit.core.dispatch import native, trace_state
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import PRIMITIVES, Tensor
from trainkit.graph.runtime.program import Program
from trainkit.profiler.programs import timed_program
from trainkit.profiler.session import Label, Session

Undo = Callable[[], object]
Namer = Callable[[tuple[Any, ...]], str]


def _class_name(args: tuple[Any, ...]) -> str:
    return type(args[0]).__name__


def _layer(args: tuple[Any, ...]) -> str:
    return f"{type(args[0]).__name__} {args[0].name!r}"


def _family(args: tuple[Any, ...]) -> str:
    return f"kernel {args[0].name}"


def _hook(args: tuple[Any, ...]) -> str:
    return str(args[1])


def _batch_hook(moment: str) -> Namer:
    return lambda args: f"on_{args[1]}_batch_{moment}"


def _always(name: str) -> Namer:
    return lambda args: name


class Point(NamedTuple):
    """A function to be timed.

    Attributes:
        module: where it is defined. By name, since this package stands below some of them.
        path: its name there, `"Class.method"` for methods.
        kind: of its spans.
        name: names a span by the arguments.
    """

    module: str
    path: str
    kind: str
    name: Namer


_LAYER = Point("layers.base.layer", "Layer.__call__", "layer", _layer)
POINTS = (
    Point("autodiff.tape", "GradientTape.gradient", "tape", _always("GradientTape.gradient")),
    Point("optimizers.base.optimizer", "Optimizer.apply_gradients", "optimizer", _class_name),
    Point("optimizers.base.optimizer", "Optimizer.apply", "optimizer", _class_name),
    _LAYER,
    Point("graph.tracing.function", "Function._trace", "tracing", lambda args: str(args[0]._name)),
    Point("graph.gpu.cuda_graph", "Capture.replay", "node", _always("CUDA graph")),
    Point(
        "graph.runtime.tiers", "TieredProgram._fuse", "compiling", lambda args: args[0].graph.name
    ),
    Point("kernels.jit.kernel_family", "Family._compile", "compiling", _family),
    Point("data.iterator", "DatasetIterator.__next__", "data", _always("dataset")),
    Point("models.training.training_loop", "take", "data", _always("batch")),
    Point(
        "models.training.step_function", "CompiledStep.__call__", "step", _always("compiled step")
    ),
    Point("models.training.trainer", "Trainer.train_step", "step", _always("train_step")),
    Point("callbacks.callback_list", "CallbackList.call", "callbacks", _hook),
    Point("callbacks.callback_list", "CallbackList.batch_begin", "callbacks", _batch_hook("begin")),
    Point("callbacks.callback_list", "CallbackList.batch_end", "callbacks", _batch_hook("end")),
    Point("checkpoints.checkpoint", "Checkpoint.write", "checkpoint", _always("write")),
    Point("checkpoints.checkpoint", "Checkpoint.read", "checkpoint", _always("read")),
    Point("summary.writer", "SummaryWriter.add", "summary", lambda args: str(args[2])),
)

_KERNEL_FILES = ("_tuned", "_gpu", "_reference")


def instrument(session: Session) -> Undo:
    """Have all points note spans in `session`; the result puts everything back."""
    undo: list[Undo] = []
    try:
        for exchange in (_operations, _gradients, _points, _kernels, _programs):
            undo.extend(exchange(session))
    except BaseException:
        put_back(undo)
        raise
    return lambda: put_back(undo)


def put_back(undo: list[Undo]) -> None:
    """Put all back that was exchanged, the last first; the list is empty then."""
    while undo:
        undo.pop()()


def operations_exchanged(make: Callable[[Any], Callable[[Any], Any]]) -> Iterator[Undo]:
    """Exchange the function of each operation, one after the other.

    Args:
        make: gives, for a primitive, what makes the function in the place of its own.

    Returns:
        What puts each of them back.
    """
    before = native.switch(False)  # compiled ways can't be exchanged: what they stand before is
    yield lambda: native.switch(before)
    for primitive in list(PRIMITIVES.values()):
        function = native.python_function(primitive.op)
        if isinstance(function, types.FunctionType):
            yield exchanged(function, make(primitive))


def layer_calls_exchanged(names: Callable[[], list[str]]) -> Undo:
    """Exchange the call of layers, inside of which `names()` ends with the layer's name.

    Returns:
        What puts it back.
    """

    def in_layer(call: Callable[..., Any]) -> Any:
        def run(layer: Any, *args: Any, **kwargs: Any) -> Any:
            layers = names()
            layers.append(layer.name)
            try:
                return call(layer, *args, **kwargs)
            finally:
                layers.pop()

        return run

    return exchanged(function_at(_LAYER), in_layer)


def _operations(session: Session) -> Iterator[Undo]:
    return operations_exchanged(lambda primitive: _operation(session, primitive))


def _operation(session: Session, primitive: Any) -> Callable[[Callable[..., Any]], Any]:
    """Makes the timed version of an operation; while a graph is traced its calls are tracing."""
    traces = trace_state.THREAD

    def make(call: Callable[..., Any]) -> Any:
        eager = session.timed(call, _by_shapes(session, "op", primitive.name), primitive)
        traced = session.timed(call, _by_shapes(session, "tracing", primitive.name), primitive)

        def run(*args: Any, **kwargs: Any) -> Any:
            symbolic = traces.traces or any([isinstance(x, SymbolicTensor) for x in args])
            return (traced if symbolic else eager)(*args, **kwargs)

        return run

    return make


def _by_shapes(session: Session, kind: str, name: str) -> Callable[[tuple[Any, ...]], Label]:
    """Gives labels with the shapes of the arguments."""
    labels: dict[Any, Label] = {}

    def label(args: tuple[Any, ...]) -> Label:
        shapes = shapes_of(args)
        entry = labels.get(shapes)
        if entry is None:
            entry = labels[shapes] = session.label(kind, name, shapes)
        return entry

    return label


def shapes_of(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The shapes of inputs: tuples, `()` for numbers, `None` for what has no shape."""
    return tuple([x._array.shape if type(x) is Tensor else _shape(x) for x in args])


def _shape(x: Any) -> Any:
    if isinstance(x, int | float | complex):
        return ()
    try:
        shape = getattr(x, "shape", None)
    except Exception:  # a symbol that has none
        return None
    return tuple(shape) if isinstance(shape, tuple) else None


def _gradients(session: Session) -> Iterator[Undo]:
    """The rules on arrays that have been written out; other rules are made of operations."""
    for primitive in list(PRIMITIVES.values()):
        rules = getattr(primitive, "array_vjps", None) or {}
        for function in {id(f): f for f in _functions_in(list(rules.values()))}.values():
            yield exchanged(function, _gradient(session, primitive.name))


def _functions_in(rules: Any) -> Iterator[types.FunctionType]:
    if isinstance(rules, list | tuple):
        for rule in rules:
            yield from _functions_in(rule)
    elif isinstance(rules, types.FunctionType):
        yield rules


def _gradient(session: Session, name: str) -> Callable[[Callable[..., Any]], Any]:
    return lambda call: session.timed(call, _by_shapes(session, "op", f"{name} gradient"))


def _points(session: Session) -> Iterator[Undo]:
    for point in POINTS:
        yield exchanged(function_at(point), _at_point(session, point))


def _at_point(session: Session, point: Point) -> Callable[[Callable[..., Any]], Any]:
    return lambda call: session.timed(
        call, lambda args: session.label(point.kind, point.name(args))
    )


def function_at(point: Point) -> types.FunctionType:
    """The function that a point is about."""
    member: Any = importlib.import_module(f"trainkit.{point.module}")
    for name in point.path.split("."):
        member = vars(member)[name]
    assert isinstance(member, types.FunctionType)
    return member


def _kernels(session: Session) -> Iterator[Undo]:
    """The functions of the files of kernels that are loaded."""
    for name, module in list(sys.modules.items()):
        if not (name.startswith("trainkit.kernels.") and name.endswith(_KERNEL_FILES)):
            continue
        for function in list(vars(module).values()):
            is_own = isinstance(function, types.FunctionType) and function.__module__ == name
            if is_own and not function.__name__.startswith("_"):
                name_here = f"{name.rpartition('.')[2]}.{function.__name__}"
                yield exchanged(function, _kernel(session, name_here))


def _kernel(session: Session, name: str) -> Callable[[Callable[..., Any]], Any]:
    return lambda call: session.timed(call, _by_shapes(session, "kernel", name))


def _programs(session: Session) -> Iterator[Undo]:
    yield exchanged(vars(Program)["__call__"], lambda call: timed_program(session, call))


# ------------------------------------------------------------------ exchanging


def exchanged(function: Any, make: Callable[[Callable[..., Any]], Any]) -> Undo:
    """Let `function` run `make(original)` in its place; the result puts it back."""
    code, defaults = function.__code__, function.__kwdefaults__
    original = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = defaults
    # A function's code has to have as many free variables as the function has cells.
    stand_in = _passing_on.__code__.replace(
        co_name=code.co_name, co_qualname=code.co_qualname, co_freevars=code.co_freevars
    )
    function.__kwdefaults__ = {"__trainkit_call__": make(original)}
    function.__code__ = stand_in
    trace_state.STAND_INS.append(function)

    def put_back() -> None:
        trace_state.STAND_INS.remove(function)
        function.__code__ = code
        function.__kwdefaults__ = defaults

    return put_back


def _passing_on(*args: Any, __trainkit_call__: Callable[..., Any], **kwargs: Any) -> Any:
    return __trainkit_call__(*args, **kwargs)
