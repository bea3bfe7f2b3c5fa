"""Contexts and questions about where a program is: name scopes, eager or in a function."""

from __future__ import annotations

from typing import Any

from trainkit.core import abstract, recorder
from trainkit.core.names import current_name_scope as get_current_name_scope
from trainkit.core.names import name_scope as name_scope
from trainkit.core.tensor import SymbolicTensor, Tensor, is_tensor


def init_scope() -> Any:
    """Make a context in which operations run at once, even while a function is being traced."""
    return abstract.eagerly()


class control_dependencies:
    """Context of operations that run after others.

    Operations with an effect always run in the order in which they are called, so there is nothing
    to add.

    Args:
        control_inputs: tensors or operations, or `None`.

    Raises:
        TypeError: it is no list, tuple or `None`.
    """

    def __init__(self, control_inputs: Any) -> None:
        if control_inputs is not None and not isinstance(control_inputs, list | tuple):
            raise TypeError(f"control_dependencies: give a list of tensors, got {control_inputs!r}")

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None: ...


def inside_function() -> bool:
    """Whether a function is being traced."""
    return recorder.current_trace() is not None


def is_symbolic_tensor(tensor: Any) -> bool:
    """Whether `tensor` stands for a value that is computed later.

    Raises:
        TypeError: it is no tensor.
    """
    if not is_tensor(tensor):
        raise TypeError(f"is_symbolic_tensor: {tensor!r} is no tensor")
    return isinstance(tensor, SymbolicTensor)


def get_static_value(tensor: Any, partial: bool = False) -> Any:
    """The value as a NumPy array, `None` if it is not known yet.

    Args:
        tensor: a tensor or variable.
        partial: only False; a value is known as a whole or not at all.

    Raises:
        ValueError: `partial` is True.
    """
    if partial:
        raise ValueError("get_static_value: only partial=False is supported")
    value = tensor if isinstance(tensor, Tensor) else tensor.value()
    return None if isinstance(value, SymbolicTensor) else value.numpy()
