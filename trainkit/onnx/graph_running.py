"""`GraphRun`: the nodes of a graph, one after the other, on values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainkit.core.errors import InvalidArgumentError, OpError, UnimplementedError
from trainkit.core.tensor import Tensor
from trainkit.onnx import imported_values as values
from trainkit.onnx.graph_records import ImportedGraph, ImportedNode
from trainkit.onnx.imported_values import ChannelsLast, Elements
from trainkit.onnx.operator_rules import ELEMENTWISE, RULES, SIZE_RULES, NodeCall

MOST_KNOWN = 4096  # elements of a tensor whose arithmetic is done while tracing
_FAULTS = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, AssertionError)


class GraphRun:
    """One call of a graph.

    Args:
        file: the name for errors.
        constants: by the number of a graph, what its constants are: arrays and variables.
        training: whether this call trains.
        state: the layer, of which rules take the generator of random numbers.
    """

    def __init__(
        self, file: str, constants: Mapping[int, dict[str, Any]], training: bool, state: Any
    ) -> None:
        self.file = file
        self._constants = constants
        self.training = training
        self.state = state
        self._scopes: list[dict[str, Any]] = []

    def results(
        self, graph: ImportedGraph, inputs: Sequence[Any], outputs: Sequence[str] | None = None
    ) -> list[Any]:
        """What the graph gives for these inputs.

        Args:
            graph: of the file, or in a node of it.
            inputs: a value for each input.
            outputs: names of values, by default those of the graph's results.
        """
        names = [v.name for v in graph.outputs] if outputs is None else outputs
        input_values = {v.name: x for v, x in zip(graph.inputs, inputs, strict=True)}
        scope: dict[str, Any] = {**self._constants.get(graph.number, {}), **input_values}
        output_names = set(names)
        self._scopes.append(scope)
        try:
            for node in graph.nodes:
                self._run(node, scope)
                for name in node.last_uses:
                    if name not in output_names:
                        scope.pop(name, None)
            return [self.value(name) for name in names]
        finally:
            self._scopes.pop()

    def value(self, name: str) -> Any:
        """The value with this name, of this graph or of one around it."""
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        raise InvalidArgumentError(f"the value {name!r} is not there")

    def numbers(self, value: Any, what: str) -> tuple[int, ...]:
        """A known vector of integers."""
        return values.numbers(value, what)

    def _run(self, node: ImportedNode, scope: dict[str, Any]) -> None:
        try:
            inputs = [self.value(name) if name else None for name in node.inputs]
            results = _results(NodeCall(node, self), inputs)
        except OpError as error:
            if getattr(error, "_onnx_node", False):  # of a graph in this node, which has said so
                raise
            raise self._named(type(error), node, error) from error
        except _FAULTS as error:
            raise self._named(InvalidArgumentError, node, error) from error
        for name, value in zip(node.outputs, results, strict=False):
            if name:
                scope[name] = value

    def _named(self, kind: type[OpError], node: ImportedNode, error: Exception) -> OpError:
        text = f"onnx: {self.file}, {node}, opset {node.version}: {error}"
        try:
            named = kind(text)
        except TypeError:  # an error that is made of parts
            named = InvalidArgumentError(text)
        named._onnx_node = True  # type: ignore[attr-defined]
        return named


def _results(call: NodeCall, inputs: list[Any]) -> tuple[Any, ...]:
    if call.op_type in SIZE_RULES and all(_is_small(x) for x in inputs):
        result = _known_result(call, inputs)
        if result is not None:
            return result if isinstance(result, tuple) else (result,)
    if call.op_type in ELEMENTWISE and any(isinstance(x, ChannelsLast) for x in inputs):
        return (_with_channels_last(call, inputs),)
    result = RULES[call.op_type](call, *inputs)
    return result if isinstance(result, tuple) else (result,)


def _is_small(x: Any) -> bool:
    return x is None or isinstance(x, Elements) or (
        isinstance(x, np.ndarray) and x.size <= MOST_KNOWN
    )  # fmt: skip


def _known_result(call: NodeCall, inputs: list[Any]) -> Any:
    """What the arithmetic of shapes gives, `None` where it is none."""
    arrays = [x.array if isinstance(x, Elements) else x for x in inputs]
    values_read = inputs[1:] if call.op_type == "Where" else inputs  # behind the condition
    dtype = next((values.dtype_of(x) for x in values_read if x is not None), "int64")
    result = SIZE_RULES[call.op_type](call, *arrays)
    if result is None or isinstance(result, tuple):
        return result and tuple(_repack(x, dtype) for x in result)
    return _repack(result, dtype)


def _repack(result: Any, dtype: str) -> Any:
    if isinstance(result, Elements):
        return values.packed(result.array, result.dtype)
    # NumPy gives an element itself where it has no axes
    result = values.objects([result], ()) if isinstance(result, Tensor) else np.asarray(result)
    return values.packed(result, dtype) if result.dtype == object else result


def _with_channels_last(call: NodeCall, inputs: list[Any]) -> Any:
    """An element-wise operator on tensors with their channels last, if they are of one rank."""
    count = max(values.rank(x) for x in inputs)
    if all(isinstance(x, ChannelsLast) or values.rank(x) in (0, count) for x in inputs):
        moved = [
            values.channels_last(x) if values.rank(x) == count else values.tensor(x) for x in inputs
        ]
        if all(values.rank(x) == count for x in inputs if isinstance(x, ChannelsLast)):
            return ChannelsLast(values.tensor(RULES[call.op_type](call, *moved)))
    return RULES[call.op_type](call, *inputs)


def check_result(value: Any, name: str) -> Any:
    """A result of the graph as a tensor, or as a list of tensors if it is a sequence.

    Raises:
        UnimplementedError: it is an optional value that is not there.
    """
    if isinstance(value, list):
        return [check_result(x, name) for x in value]
    if value is None:
        raise UnimplementedError(
            f"onnx: the result {name!r} is an optional value that is not there"
        )
    return values.tensor(value)
