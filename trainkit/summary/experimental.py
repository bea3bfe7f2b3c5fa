"""The default step of summaries under TensorFlow's names, and summaries that are messages."""

from __future__ import annotations

from typing import Any

from trainkit.core.dispatch.trace_state import current_graph
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.tensor import is_tensor
from trainkit.summary.defaults import chosen_step, current_writer, whole_number
from trainkit.summary.defaults import get_step as get_step
from trainkit.summary.defaults import set_step as set_step

_NAME = "raw_pb"


def write_raw_pb(tensor: Any, step: Any = None, name: str | None = None) -> bool:
    """Write a serialized Summary message, as TensorBoard's plugins make them, to the event file.

    Args:
        tensor: bytes, or a string scalar.
        step: the step; `None` for the default step.
        name: not kept.

    Returns:
        Whether it was written: there is a default writer, and `record_if` does not say no.

    Raises:
        InvalidArgumentError: the bytes are no Summary.
        UnimplementedError: inside a `tk.function`.
        ValueError: no step is given and no default step is set.

    Example:
        >>> tk.summary.experimental.write_raw_pb(b"", step=0)  # there is no default writer
        False
    """
    if current_graph() is not None:
        raise UnimplementedError(
            "summary.experimental.write_raw_pb: is not written by a graph; call it outside of "
            "tk.function"
        )
    writer = current_writer()
    if writer is None:
        return False
    data = tensor.numpy() if is_tensor(tensor) else tensor
    data = data.item() if hasattr(data, "item") else data
    if not isinstance(data, bytes):
        raise InvalidArgumentError(f"write_raw_pb: needs bytes, got {type(data).__name__}")
    writer.add_message(data, whole_number(_NAME, chosen_step(_NAME, step)))
    return True
