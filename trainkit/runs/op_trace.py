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
    Undo,
    layer_calls_exchanged,
    operations_exchanged,
    put_back,
)

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


Call = Callable[..., Any]
Observe = Callable[[str, str, Call, Any, Any], Any]
"""Takes an operation's name, the layers around it, its function and its arguments; gives its result
after calling the function."""


def operations_of(step: Callable[[], Any]) -> list[TracedOperation]:
    """All operations that `step` calls in this thread; functions run operation by operation."""
    calls: list[TracedOperation] = []
    asked_at = user_line()

    def observe(name: str, layer: str, call: Call, args: Any, kwargs: Any) -> Any:
        inputs, settings = _inputs(args, kwargs)
        result = call(*args, **kwargs)
        if len(calls) < _MOST_OPERATIONS:
            outputs = _digests(result)
            line = line_below(asked_at)
            calls.append(TracedOperation(name, layer, line, inputs, settings, outputs))
        return result

    observe_operations(step, observe)
    return calls


def line_below(asked_at: Line | None) -> Line | None:
    """The user's line; `None` where it is the one that asks, and not one of the model."""
    line = user_line()
    if line is not None and asked_at is not None and line[:2] == asked_at[:2]:
        return None
    return line


def observe_operations(step: Callable[[], Any], observe: Observe) -> None:
    """Run `step`, with each operation that it calls in this thread handed to `observe`.

    What `observe` does itself is not observed.

    Args:
        step: functions in it run operation by operation.
        observe: is to call the operation; what the first call calls inside is observed, too.
    """
    progress = _UnderWay()
    thread = threading.get_ident()

    def note(name: str) -> Callable[[Call], Any]:
        def make(call: Call) -> Any:
            def run(*args: Any, **kwargs: Any) -> Any:
                if progress.paused or trace_state.THREAD.traces or threading.get_ident() != thread:
                    return call(*args, **kwargs)
                calls = 0

                def first_observed(*args: Any, **kwargs: Any) -> Any:
                    nonlocal calls
                    calls += 1
                    progress.paused = calls > 1
                    try:
                        return call(*args, **kwargs)
                    finally:
                        progress.paused = True

                progress.paused = True
                try:
                    return observe(name, "/".join(progress.layers), first_observed, args, kwargs)
                finally:
                    progress.paused = False

            return run

        return make

    eagerly = functions_run_eagerly()
    changes: list[Undo] = []
    try:
        changes.extend(operations_exchanged(lambda primitive: note(primitive.name)))
        changes.append(layer_calls_exchanged(lambda: progress.layers))
        run_functions_eagerly(True)
        step()
    finally:
        run_functions_eagerly(eagerly)
        put_back(changes)


def _inputs(args: Any, kwargs: Any) -> tuple[tuple[str, ...], str]:
    """The digests of tensors among the arguments, and the other arguments as text."""
    flat = nest.flatten([list(args), {key: kwargs[key] for key in sorted(kwargs)}])
    others = [x for x in flat if not is_tensor(x) and not hasattr(x, "dtype")]
    plain = [x for x in others if x is None or isinstance(x, str | bool | int | float)]
    return _digests(args), ", ".join(map(repr, plain))[:500]


def _digests(values: Any) -> tuple[str, ...]:
    tensors = [x for x in nest.flatten(values) if is_tensor(x) or hasattr(x, "assign")]
    return tuple(leaf_digest(x) for x in tensors)
