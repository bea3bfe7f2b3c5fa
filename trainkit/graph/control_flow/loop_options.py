"""What a loop says of itself: `autograph.experimental.set_loop_options`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import TensorShape
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import is_tensor


class LoopOptions:
    """Options of one loop whose body is being traced.

    Attributes:
        most: the largest number of rounds, `None` for any.
    """

    def __init__(self) -> None:
        self.most: int | None = None


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
        shape_invariants: list of pairs of a tensor and its shape in all rounds; sizes that a loop
            changes become unknown by themselves, so the pairs are only compared with the tensors.

    Raises:
        InvalidArgumentError: a tensor does not have the shape that is said; or
            `maximum_iterations` is no int, or set in a loop over an iterator of a dataset.
    """
    for x, shape in shape_invariants or ():
        if is_tensor(x) and not TensorShape(shape).is_compatible_with(x.shape):
            raise InvalidArgumentError(
                f"set_loop_options: a loop variable has shape {x.shape}, its invariant says "
                f"{TensorShape(shape)}"
            )
    if maximum_iterations is None or not _OPEN.loops:
        return
    symbolic = isinstance(maximum_iterations, SymbolicTensor)
    if symbolic or not hasattr(maximum_iterations, "__index__"):
        raise InvalidArgumentError(
            f"set_loop_options: maximum_iterations must be an int, it is {maximum_iterations!r}; "
            "for a limit that is a tensor, compare a counter with it in the condition"
        )
    _OPEN.loops[-1].most = max(0, maximum_iterations.__index__())
