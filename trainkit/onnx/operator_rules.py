"""How operators are registered, and what the function of one is given."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainkit.core.errors import InvalidArgumentError, ResourceExhaustedError
from trainkit.onnx.graph_records import ImportedNode

RULES: dict[str, Callable[..., Any]] = {}
"""By operator, a function of a `NodeCall` and of the inputs."""

SIZE_RULES: dict[str, Callable[..., Any]] = {}
"""The same on arrays, of numbers or of objects, that are known: the arithmetic of shapes."""

ELEMENTWISE: set[str] = set()
"""Operators that leave the order of axes alone: they take and give `ChannelsLast`."""

OPSET_VERSIONS = range(7, 29)
MOST_FROM_NOTHING = 1 << 28  # elements of a tensor that a few bytes of a file can ask for

_REQUIRED: Any = object()


def onnx_rule(*op_types: str) -> Callable[[Any], Any]:
    """Register a function for operators: it takes a `NodeCall` and the inputs."""

    def register(function: Any) -> Any:
        for op_type in op_types:
            RULES[op_type] = function
        return function

    return register


def size_rule(*op_types: str) -> Callable[[Any], Any]:
    """Register what an operator is on arrays that are known; it gives `None` for other cases."""

    def register(function: Any) -> Any:
        for op_type in op_types:
            SIZE_RULES[op_type] = function
        return function

    return register


class NodeCall:
    """A node while it runs.

    Attributes:
        record: of the node.
        version: of its operators.
        training: whether the model is called to train it.
        run: the `GraphRun` that it belongs to.
    """

    __slots__ = ("record", "run", "training", "version")

    def __init__(self, record: ImportedNode, run: Any) -> None:
        self.record = record
        self.version = record.version
        self.run = run
        self.training = run.training

    @property
    def op_type(self) -> str:
        """The operator."""
        return self.record.op_type

    @property
    def output_count(self) -> int:
        """How many results have names; those behind the last of them are not needed."""
        return len(self.record.outputs)

    @property
    def weight_names(self) -> tuple[str, ...]:
        """The attributes that the last inputs were."""
        return tuple(self.record.attributes.get("weight_names", ()))

    def needs(self, index: int) -> bool:
        """Whether the result with this number has a name."""
        return index < len(self.record.outputs) and bool(self.record.outputs[index])

    def _attribute(self, name: str, default: Any, kinds: Any, expected: str) -> Any:
        value = self.record.attributes.get(name, default)
        if value is _REQUIRED:
            raise InvalidArgumentError(f"the attribute {name!r} is missing")
        if value is not default and not isinstance(value, kinds):
            raise InvalidArgumentError(f"the attribute {name!r} is {value!r}, and not {expected}")
        return value

    def int(self, name: str, default: Any = _REQUIRED) -> Any:
        """An attribute that is an int."""
        return self._attribute(name, default, int, "an int")

    def flag(self, name: str, default: bool = False) -> bool:
        """An attribute that is 0 or 1."""
        return bool(self.int(name, int(default)))

    def float(self, name: str, default: Any = _REQUIRED) -> Any:
        """An attribute that is a float."""
        return self._attribute(name, default, float | int, "a float")

    def text(self, name: str, default: Any = _REQUIRED) -> Any:
        """An attribute that is a text."""
        return self._attribute(name, default, str, "a text")

    def list(self, name: str, default: Any = _REQUIRED) -> Any:
        """An attribute that is a tuple of ints, floats or texts."""
        return self._attribute(name, default, tuple, "a list")

    def array(self, name: str, default: Any = _REQUIRED) -> Any:
        """An attribute that is a tensor."""
        return self._attribute(name, default, np.ndarray, "a tensor")

    def one_of(self, name: str, default: Any, allowed: Sequence[Any]) -> Any:
        """An attribute that is a text of a list.

        Raises:
            InvalidArgumentError: it is another.
        """
        value = self.text(name, default)
        if value not in allowed:
            raise InvalidArgumentError(
                f"the attribute {name!r} is {value!r}, and not one of {', '.join(allowed)}"
            )
        return value

    def axes(self, axes_value: Any, name: str = "axes") -> tuple[Any, ...] | None:
        """Axes, which older versions have as an attribute and newer ones as an input."""
        if axes_value is not None:
            return self.run.numbers(axes_value, f"the input {name!r}")
        value: Any = self.list(name, None)
        return value


def check_count(shape: Sequence[Any]) -> Sequence[Any]:
    """A shape, of which a file asks for a tensor that its inputs do not have.

    Raises:
        ResourceExhaustedError: it has too many elements.
        InvalidArgumentError: a size is negative.
    """
    fixed = [n for n in shape if isinstance(n, int)]
    if any(n < 0 for n in fixed):
        raise InvalidArgumentError(f"the shape {tuple(shape)} has a negative size")
    if math.prod(fixed) > MOST_FROM_NOTHING:
        raise ResourceExhaustedError(
            f"a tensor of shape {tuple(shape)} is asked for; at most {MOST_FROM_NOTHING:,} "
            "elements are made from less"
        )
    return shape
