"""What a loop says of itself: `autograph.experimental.set_loop_options`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from trainkit.core import nest
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import TensorShape
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import is_tensor
from trainkit.ops.core.loop_shapes import above_shapes


class LoopOptions:
    """Options of one loop whose body is being traced.

    Attributes:
        max_rounds: the largest number of rounds, `None` for any.
        variables: the symbols that stand for the loop variables in the body.
        names: what they are called in texts, as far as they have names.
        invariants: shapes of loop variables in all rounds, by their numbers.
    """

    def __init__(self) -> None:
        self.max_rounds: int | None = None
        self.variables: list[Any] = []
        self.names: Sequence[str] = ()
        self.invariants: dict[int, TensorShape] = {}

    def number_of(self, x: Any) -> int | None:
        """Which loop variable `x` is, `None` if it is none of them."""
        # `list.index` would compare tensors by their values, which makes operations in the graph.
        return next((i for i, variable in enumerate(self.variables) if variable is x), None)


# Loops nest while they are traced, and each thread traces its own.
class _Open(threading.local):
    def __init__(self) -> None:
        self.loops: list[LoopOptions] = []


_OPEN = _Open()


@contextlib.contextmanager
def loop_options() -> Iterator[LoopOptions]:
    """The options that the body of a loop sets while it is traced inside of the block."""
    options = LoopOptions()
    _OPEN.loops.append(options)
    try:
        yield options
    finally:
        _OPEN.loops.pop()


def set_loop_options(
    parallel_iterations: Any = None,
    swap_memory: Any = None,
    maximum_iterations: Any = None,
    shape_invariants: Any = None,
) -> None:
    """Say something of the loop around, whose condition is a tensor; elsewhere it does nothing.

    Args:
        parallel_iterations: a hint of TensorFlow's that changes no result.
        swap_memory: likewise.
        maximum_iterations: the loop ends after so many rounds at the latest, an int.
        shape_invariants: list of pairs of a loop variable and its shape in all rounds, with `None`
            for sizes that change; a nest of tensors has a nest of shapes. The call comes before
            the body gives these variables other values. Others keep their shapes.

    Raises:
        InvalidArgumentError: a tensor does not have the shape that is said; or
            `maximum_iterations` is no int, or set in a loop over an iterator of a dataset.
    """
    for value, shapes in shape_invariants or ():
        _keep_invariants(value, shapes)
    if maximum_iterations is None or not _OPEN.loops:
        return
    # First, since a symbol has `__index__`, too, and it raises an error that is about other things.
    symbolic = isinstance(maximum_iterations, SymbolicTensor)
    if symbolic or not hasattr(maximum_iterations, "__index__"):
        raise InvalidArgumentError(
            f"set_loop_options: maximum_iterations must be an int, it is {maximum_iterations!r}; "
            "for a limit that is a tensor, compare a counter with it in the condition"
        )
    _OPEN.loops[-1].max_rounds = max(0, maximum_iterations.__index__())


def _keep_invariants(value: Any, shapes: Any) -> None:
    """Take note of the shapes of the tensors in `value`, for the innermost loop."""
    leaves, said = [value], [shapes]
    if not is_tensor(value):
        leaves = nest.flatten(value, nest.above_arrays)
        said = nest.flatten(shapes, above_shapes)
    if len(said) != len(leaves):
        raise InvalidArgumentError(
            f"set_loop_options: {len(said)} shapes for a loop variable of {len(leaves)} tensors"
        )
    for x, shape in zip(leaves, said, strict=True):
        if is_tensor(x):
            _keep_invariant(x, TensorShape(getattr(shape, "shape", shape)))


def _keep_invariant(x: Any, invariant: TensorShape) -> None:
    options = _OPEN.loops[-1] if _OPEN.loops else LoopOptions()
    i = options.number_of(x)
    if not invariant.is_compatible_with(x.shape):
        name = "a tensor" if i is None or i >= len(options.names) else repr(options.names[i])
        raise InvalidArgumentError(
            f"set_loop_options: {name} has shape {x.shape}, its invariant says {invariant}"
        )
    # Other tensors are values inside of the body, to which the call says nothing.
    if i is not None:  # a graph knows all ranks
        general = TensorShape([None] * len(x.shape))
        options.invariants[i] = general if invariant.rank is None else invariant
