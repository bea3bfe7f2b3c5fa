"""The stacks of active tapes and traces: what an operation looks at to know who is listening.

Operations never import tapes or graphs; those put themselves here. `TAPES` is one plain list
because an empty list is the cheapest thing an operation can test. A tape belongs to the thread that
entered it, and an operation of another thread does not record on it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from threading import get_ident
from typing import Any, Protocol

from trainkit.core.dispatch.crossed_samples import warn_of_crossed_samples
from trainkit.core.errors import FailedPreconditionError


class TapeLike(Protocol):
    """What `record` needs of a tape.

    Attributes:
        thread: the thread that it belongs to.
        tracked: the tensors whose use is recorded, in the order in which they came up. With a
            result stands its entry, `(primitive, settings, *inputs)`, with what was watched `None`.
            Results that came together stand as a tuple with the entry, then each with `None`.
    """

    thread: int
    tracked: dict[Any, Any]

    def note_variable(self, variable: Any, snapshot: Any) -> None:
        """Hear that `variable` was read and gave the tensor `snapshot`."""

    def note_exit(self, how: str, inputs: tuple[Any, ...]) -> None:
        """Hear that tracked tensors were used by something that has no gradient."""

    def watches(self, x: Any) -> bool:
        """Whether gradients by the tensor `x` itself are asked for, be it a result or not."""

    def free_unread_values(self) -> None:
        """Free the values of tracked tensors that nobody reads any more."""


TAPES: list[TapeLike] = []

new_tape: Any = None
"""Makes a tape; set by `autodiff`, for operations whose second gradient replays a formula."""


STAND_INS: list[Any] = []
"""The functions of this package that others stand in for, as a profile's: empty almost always."""


GRAPH_LISTENERS: list[Callable[[Any], None]] = []
"""What is called with each graph of a function that was traced."""


class _ThreadState(threading.local):
    """What is private to each thread.

    Attributes:
        traces: the graphs being traced there, innermost last.
        making: hears of each variable that is made there while a function is traced, by its name;
            also of those that come while the traces are suspended.
        made: gets each variable that was made there.
        acts_for_graph: whether operations that run there at once stand for those of a graph, as in
            functions of data sets and in early steps of `fit`; see `acting_for_graph`.
    """

    def __init__(self) -> None:
        self.traces: list[Any] = []
        self.making: Callable[[str], None] | None = None
        self.made: Callable[[Any], None] | None = None
        self.acts_for_graph = False


THREAD = _ThreadState()


def follows(x: Any) -> bool:
    """Whether a tape of this thread tracks the tensor `x`."""
    for tape in TAPES:
        if x in tape.tracked and tape.thread == get_ident():
            return True
    return False


def reaches_through(y: Any, x: Any) -> bool:
    """Whether all tapes of this thread reach `x` through `y`, what one operation made of it.

    Only then may a formula take `x` in place of `y`: a tape that watches `y` would hear nothing of
    it, and one that was paused for the operation would reach what it was to leave out.
    """
    for tape in TAPES:
        if tape.thread == get_ident() and (
            (y in tape.tracked) != (x in tape.tracked) or tape.watches(y)
        ):
            return False
    return True


def record(primitive: Any, inputs: tuple[Any, ...], output: Any, settings: Any) -> None:
    """Add one entry to each active tape of this thread that tracks one of `inputs`.

    Args:
        primitive: holds the gradient rules (`rules` or `joint`), `name` and `broadcasts`.
        inputs: the tensors, Python numbers and `None`s that the primitive was called with.
        output: the tensor, or tuple of tensors, that it gave.
        settings: keyword settings of the call, or `None`.
    """
    for tape in TAPES:
        tracked = tape.tracked
        # One call in C says for all inputs that none is tracked, which most often is so. Tensors
        # are hashed by identity, so the numbers among the inputs equal none of them.
        if tracked.keys().isdisjoint(inputs) or tape.thread != get_ident():
            continue
        # No error: a program may well look at a loss by an operation without a gradient. The tape
        # notes it, to have a cause to name if a gradient turns out to be missing.
        if primitive.rules is None and primitive.joint is None:
            tape.note_exit(primitive.name, inputs)
            continue
        tracked[output] = (primitive, settings, *inputs)
        if type(output) is tuple:
            # Each result is found by itself, and their entry once, with the tuple.
            tracked.update(dict.fromkeys(output))
        elif len(inputs) == 2:
            look_for_crossed_samples(primitive, *inputs, tracked, output)


def record_one(primitive: Any, x: Any, output: Any, settings: Any) -> None:
    """`record` of a call with one input and one result."""
    for tape in TAPES:
        tracked = tape.tracked
        if x in tracked and tape.thread == get_ident():
            if primitive.rules is None and primitive.joint is None:
                tape.note_exit(primitive.name, (x,))
            else:
                tracked[output] = (primitive, settings, x)


def record_two(primitive: Any, x1: Any, x2: Any, output: Any) -> None:
    """`record` of a call with two inputs, one result and no settings."""
    for tape in TAPES:
        tracked = tape.tracked
        if (x1 in tracked or x2 in tracked) and tape.thread == get_ident():
            if primitive.rules is None and primitive.joint is None:
                tape.note_exit(primitive.name, (x1, x2))
            else:
                tracked[output] = (primitive, None, x1, x2)
                dims = output._array.shape  # far cheaper than that of the tensor
                # Two comparisons of ints spare nearly every step the call.
                if len(dims) == 2 and dims[0] == dims[1]:
                    look_for_crossed_samples(primitive, x1, x2, tracked, output)


def look_for_crossed_samples(
    primitive: Any, x1: Any, x2: Any, tracked: dict[Any, Any], output: Any
) -> None:
    """Warn where targets (n,) and outputs (n, 1) gave a number for each pair of samples."""
    dims = output.shape
    if len(dims) != 2 or dims[0] != dims[1]:
        return
    # a number in place of a tensor has no shape
    if {len(getattr(x, "shape", ())) for x in (x1, x2)} == {1, 2}:
        warn_of_crossed_samples(primitive, x1, x2, tracked, current_trace())


def note_variable(variable: Any, snapshot: Any) -> None:
    """Tell each active tape of this thread that `variable` was read as `snapshot`."""
    thread = get_ident()
    for tape in TAPES:
        if tape.thread == thread:
            tape.note_variable(variable, snapshot)


def note_exit(how: str, tensor: Any) -> None:
    """Tell each tape that tracks `tensor` that its value left the record, as by `numpy()`."""
    thread = get_ident()
    for tape in TAPES:
        if tensor in tape.tracked and tape.thread == thread:
            tape.note_exit(how, (tensor,))


class _Silence:
    """Suspends all tapes of the current thread while the block runs."""

    __slots__ = ("_kept",)

    def __enter__(self) -> None:
        self._kept = list(TAPES)
        thread = get_ident()
        # In place: operations hold this list. Tapes of other threads go on.
        TAPES[:] = [tape for tape in TAPES if tape.thread != thread]

    def __exit__(self, *exc: object) -> None:
        # Those of this thread alone, as another may have ended a tape of its own since then.
        mine = [tape for tape in self._kept if tape.thread == get_ident()]
        TAPES.extend(tape for tape in mine if tape not in TAPES)


def silence() -> _Silence:
    """Make a context manager in which no tape of this thread records.

    >>> with silence():
    ...     pass
    """
    return _Silence()


class _Acting:
    """Sets `THREAD.acts_for_graph` while the block runs."""

    __slots__ = ("_before", "_value")

    def __init__(self, value: bool) -> None:
        self._value = value

    def __enter__(self) -> None:
        self._before, THREAD.acts_for_graph = THREAD.acts_for_graph, self._value

    def __exit__(self, *exc: object) -> None:
        THREAD.acts_for_graph = self._before


def acting_for_graph(value: bool = True) -> _Acting:
    """Make a context in which operations that run at once stand for those of a graph, or do not.

    Layers that give another dtype in graphs, as some of Keras's do, give that there, too.

    >>> with acting_for_graph():
    ...     THREAD.acts_for_graph
    True
    """
    return _Acting(value)


def is_graph_or_acts_for_one() -> bool:
    """Whether a graph is being traced in this thread, or what runs there stands for one."""
    return THREAD.acts_for_graph or current_graph() is not None


def current_trace() -> Any:
    """What notes reads and assignments in this thread, a graph or a scope of values, or `None`."""
    traces = THREAD.traces
    return traces[-1] if traces else None


def current_graph() -> Any:
    """The graph that operations become nodes of, or `None` where they run at once.

    A scope in which variables have other values is a trace, and no graph unless one is around it.
    """
    traces = THREAD.traces
    return traces[-1] if traces and hasattr(traces[-1], "apply") else None


def executing_eagerly() -> bool:
    """True unless a graph is being traced in this thread.

    Example:
        >>> tk.executing_eagerly()
        True
    """
    return current_graph() is None


def enable_eager_execution() -> None:
    """Leave things as they are: execution is eager from the start.

    Scripts of TensorFlow 1 call this first.

    Raises:
        FailedPreconditionError: a graph is being traced.

    Example:
        >>> tk.enable_eager_execution()
        >>> tk.executing_eagerly()
        True
    """
    if THREAD.traces:
        raise FailedPreconditionError("enable_eager_execution: a graph is being traced")
