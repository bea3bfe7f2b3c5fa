"""The operations of a step, one after the other, with digests of what goes in and comes out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.tensor import is_tensor
from trainkit.core.user_frames import Line, user_line
from trainkit.graph.tracing.python_calls import functions_run_eagerly, run_functions_eagerly
from trainkit.journal.state_digests import leaf_digest
from trainkit.profiler.instrumentation import (
    Point,
    Undo,
    exchanged,
    function_at,
    operations_exchanged,
    put_back,
)

_LAYER = Point("layers.base.layer", "Layer.__call__", "layer", lambda args: args[0].name)
_MOST_OPERATIONS = 200_000


class TracedOperation(NamedTuple):
    """A call of an operation.

    Attributes:
        name: of the operation.
        layer: the names of the layers around it, the outermost first, with a `/` between.
        line: file, number and function of the user's line, `None` where there is none.
        inputs: digests of the tensors that went in.
        settings: the other arguments, as text.
        outputs: digests of what came out.
    """

    name: str
    layer: str
    line: Line | None
    inputs: tuple[str, ...]
    settings: str
    outputs: tuple[str, ...]


class _UnderWay(threading.local):
    """What goes on in this thread: the layers around it, and whether nothing is noted."""

    def __init__(self) -> None:
        self.layers: list[str] = []
        self.paused = False


def operations_of(step: Callable[[], Any]) -> list[TracedOperation]:
    """All operations that `step` calls in this thread; functions run operation by operation."""
    calls: list[TracedOperation] = []
    here, asked_at = _UnderWay(), user_line()
    thread = threading.get_ident()

    def note(name: str) -> Callable[[Callable[..., Any]], Any]:
        def make(call: Callable[..., Any]) -> Any:
            def run(*args: Any, **kwargs: Any) -> Any:
                if here.paused or trace_state.THREAD.traces or threading.get_ident() != thread:
                    return call(*args, **kwargs)
                inputs, settings = _inputs(here, args, kwargs)
                result = call(*args, **kwargs)
                if len(calls) < _MOST_OPERATIONS:
                    outputs = _digests(here, result)
                    layer = "/".join(here.layers)
                    line = user_line()
                    if line is not None and asked_at is not None and line[:2] == asked_at[:2]:
                        line = None  # the question, and not the model
                    calls.append(TracedOperation(name, layer, line, inputs, settings, outputs))
                return result

            return run

        return make

    def in_layer(call: Callable[..., Any]) -> Any:
        def run(layer: Any, *args: Any, **kwargs: Any) -> Any:
            here.layers.append(layer.name)
            try:
                return call(layer, *args, **kwargs)
            finally:
                here.layers.pop()

        return run

    eagerly = functions_run_eagerly()
    changes: list[Undo] = []
    try:
        changes.extend(operations_exchanged(lambda primitive: note(primitive.name)))
        changes.append(exchanged(function_at(_LAYER), in_layer))
        run_functions_eagerly(True)
        step()
    finally:
        run_functions_eagerly(eagerly)
        put_back(changes)
    return calls


def _inputs(here: _UnderWay, args: Any, kwargs: Any) -> tuple[tuple[str, ...], str]:
    """The digests of tensors among the arguments, and the other arguments as text."""
    flat = nest.flatten([list(args), {key: kwargs[key] for key in sorted(kwargs)}])
    others = [x for x in flat if not is_tensor(x) and not hasattr(x, "dtype")]
    plain = [x for x in others if x is None or isinstance(x, str | bool | int | float)]
    return _digests(here, args), ", ".join(map(repr, plain))[:500]


def _digests(here: _UnderWay, values: Any) -> tuple[str, ...]:
    here.paused = True  # reading a value may call operations, too
    try:
        tensors = [x for x in nest.flatten(values) if is_tensor(x) or hasattr(x, "assign")]
        return tuple(leaf_digest(x) for x in tensors)
    finally:
        here.paused = False
