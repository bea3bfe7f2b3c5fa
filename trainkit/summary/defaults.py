"""What summaries of a thread use when they are not given: writer, step, and condition."""

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from trainkit.summary.writer import SummaryWriter


class _Defaults(threading.local):
    """What summaries of this thread use when nothing else is given."""

    writer: "SummaryWriter | None" = None
    step: Any = None
    condition: Any = True


DEFAULTS = _Defaults()


@contextlib.contextmanager
def record_if(condition: Any) -> Iterator[None]:
    """Record this thread's summaries within a `with` block only where `condition` is true.

    Args:
        condition: a bool, a tensor of one bool, or a function without arguments that gives either
            and is called for each summary.

    Example:
        >>> with tk.summary.create_file_writer("logs").as_default(), tk.summary.record_if(False):
        ...     bool(tk.summary.scalar("loss", 0.5, step=0))
        False
    """
    before = DEFAULTS.condition
    DEFAULTS.condition = condition
    try:
        yield
    finally:
        DEFAULTS.condition = before


def should_record_summaries() -> bool:
    """Whether a summary would be recorded now: there is a default writer and `record_if` agrees.

    Example:
        >>> tk.summary.should_record_summaries()
        False
    """
    return current_writer() is not None


def current_writer() -> "SummaryWriter | None":
    """The writer that takes this thread's summaries now, or None."""
    writer = DEFAULTS.writer
    if writer is None:
        return None
    condition = DEFAULTS.condition
    return writer if (condition() if callable(condition) else condition) else None


def get_step() -> Any:
    """The default step of this thread's summaries as it was set, or None.

    Example:
        >>> tk.summary.experimental.set_step(5)
        >>> tk.summary.experimental.get_step()
        5
        >>> tk.summary.experimental.set_step(None)
    """
    return DEFAULTS.step


def set_step(step: Any) -> None:
    """Set the default step of this thread's summaries: an int, a variable that counts, or None.

    Args:
        step: int, integer variable, or None for none.

    Example:
        >>> tk.summary.experimental.set_step(5)
        >>> with tk.summary.create_file_writer("logs").as_default():
        ...     bool(tk.summary.scalar("loss", 0.5))
        True
        >>> tk.summary.experimental.set_step(None)
    """
    DEFAULTS.step = step


def chosen_step(tag: str, step: Any) -> Any:
    """`step`, or else the default step, as it was given.

    Raises:
        ValueError: there is none.
    """
    current = DEFAULTS.step if step is None else step
    if current is None:
        raise ValueError(
            f"summary {tag!r} has no step. Give step=..., or set a default with "
            "writer.as_default(step=...) or tk.summary.experimental.set_step(...)."
        )
    return current


def whole_number(tag: str, step: Any) -> int:
    """A step, which may be a variable or a tensor, as an int.

    Raises:
        ValueError: it is not one whole number.
    """
    array = as_array(step)
    if array.size != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"summary {tag!r}: step is {step!r}, expected one whole number.")
    return int(array.reshape(()))


def as_array(data: Any) -> np.ndarray:
    """`data` as a NumPy array, copied from the GPU if it is there."""
    if hasattr(data, "numpy"):
        data = data.numpy()
    elif hasattr(data, "__cuda_array_interface__"):
        data = data.get()
    return np.asarray(data)
