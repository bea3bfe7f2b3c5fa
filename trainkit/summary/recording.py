"""How every summary is recorded: now, or whenever the graph being traced runs."""

from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.core.dispatch.facets import MESSAGE, Effect, one_by_one
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dispatch.trace_state import current_graph
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import convert_to_tensor, is_tensor
from trainkit.summary.defaults import DEFAULTS, as_array, chosen_step, current_writer, whole_number
from trainkit.summary.writer import Fill, SummaryWriter

_FILE_WRITERS: set[Any] = set()


def writes_files(write: Any) -> Any:
    """Mark what writes files beside the events, for `record` to call in place of filling a proto.

    Args:
        write: called with the writer's folder, the tag, the step, the data, then what `record` was
            given.
    """
    _FILE_WRITERS.add(write)
    return write


def _write_to(
    writer: SummaryWriter, fill: Fill, tag: str, step: int, data: np.ndarray, args: Any
) -> None:
    if fill in _FILE_WRITERS:
        fill(writer.logdir, tag, step, data, *args)
    else:
        writer.add(fill, tag, step, data, *args)


def record(fill: Fill, tag: str, data: Any, step: Any, *args: Any) -> Any:
    """Record `data` with the default writer, if there is one and the condition holds.

    While a function is traced, an operation is added to its graph that does so when the graph runs,
    with the writer that is the default now.

    Args:
        fill: called with a Summary.Value proto, `data` as an array, then `args`; sets its fields.
        tag: name of the summary.
        data: anything that NumPy makes an array of, or a tensor.
        step: the step, or None for the default step.
        args: handed to `fill`.

    Returns:
        Whether the summary was recorded; in a graph, a tensor that will say so.

    Raises:
        ValueError: no step is given and no default step is set, or the tag is empty.
    """
    writer = DEFAULTS.writer
    if writer is None:
        return False
    if type(tag) is not str or not tag:
        raise ValueError(f"a summary's name is {tag!r}, expected a string that is not empty.")
    if current_graph() is not None:
        return _InGraph(writer, fill, tag, args).add(data, chosen_step(tag, step))
    if current_writer() is None:
        return False
    number = step if type(step) is int else whole_number(tag, chosen_step(tag, step))
    _write_to(writer, fill, tag, number, as_array(data), args)
    return True


def _flag(*inputs: Any, **settings: Any) -> Spec:
    return Spec((), dtypes.bool_)


@primitive(_flag, effect=Effect("it writes a summary"), semantics=MESSAGE)
def write_summary(xp: Any, data: Any, step: Any, condition: Any, *, recording: "_InGraph") -> Any:
    """Record `data`, or what `recording` holds in its place, if `condition` is None or true."""
    return xp.asarray(recording.run(data, step, condition))


write_summary.declare(batch=one_by_one("each item records a summary"))


class _InGraph:
    """A summary in a graph: what it needs besides tensors, which are inputs of its operation."""

    def __init__(self, writer: SummaryWriter, fill: Fill, tag: str, args: tuple[Any, ...]) -> None:
        self._writer = writer
        self._fill = fill
        self._tag = tag
        self._args = args
        self._condition: Any = True
        self._fixed_data: Any = None

    def __repr__(self) -> str:
        return f"<summary {self._tag!r} to {self._writer!r}>"

    def add(self, data: Any, step: Any) -> Any:
        """Add the operation to the graph being traced."""
        inputs = (self._data_input(data), _step_input(step), self._condition_input())
        return current_graph().apply(write_summary.primitive, inputs, {"recording": self})

    def _data_input(self, data: Any) -> Any:
        try:
            return convert_to_tensor(data)
        except InvalidArgumentError:  # text: the same whenever the graph runs
            self._fixed_data = as_array(data)
            return None

    def _condition_input(self) -> Any:
        condition = DEFAULTS.condition
        value = condition() if callable(condition) else condition
        if is_tensor(value):
            return convert_to_tensor(value)
        self._condition = condition  # of Python: asked again whenever the graph runs
        return None

    def run(self, data: Any, step: Any, condition: Any) -> bool:
        """Record arrays, on whichever device, if both conditions hold."""
        is_on = self._condition() if callable(self._condition) else self._condition
        if not is_on or (condition is not None and not bool(condition)):
            return False
        array = self._fixed_data if data is None else as_array(data)
        _write_to(self._writer, self._fill, self._tag, int(step), array, self._args)
        return True


def _step_input(step: Any) -> Any:
    return convert_to_tensor(np.int64(step) if type(step) is int else step)
