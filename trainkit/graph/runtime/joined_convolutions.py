"""Convolutions with what follows them in an inference, and products by weights that stay.

A trained network normalizes the result of a convolution by moments that it has, adds a shortcut and
rectifies it: two to four passes over memory. One kernel does them to a piece of the result while
that is in a cache, each rounded as it was. And where a graph assigns nothing to the weights that it
multiplies by, what kernels make of them at each call is kept for the next.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trainkit.core.dispatch import native
from trainkit.core.dtypes import HALVES
from trainkit.graph.ir.graph import Graph, GraphTensor, Node, needed_nodes
from trainkit.graph.ir.passes import prune, rebuild
from trainkit.graph.runtime.joined_normalization import (
    RECTIFIERS,
    JoinedOperation,
    joined_call,
    settings_of_first,
)
from trainkit.kernels.convolution import conv_tuned
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.matmul import epilogue_tuned, product_tuned
from trainkit.kernels.matmul.epilogue_tuned import Epilogue
from trainkit.kernels.matmul.prepared_weights import PreparedWeights
from trainkit.kernels.normalization.norm_tuned import NONE, Rectifier
from trainkit.kernels.repeated.repeated_convolution import RepeatedConvolution
from trainkit.kernels.repeated.repeated_product import RepeatedProduct
from trainkit.ops.arrays.shaping import _reshape
from trainkit.ops.convolutional.convolution import _conv
from trainkit.ops.convolutional.convolution_geometry import facts_of
from trainkit.ops.linear_algebra.matmul import matmul, product
from trainkit.ops.math.elementwise import add, multiply
from trainkit.ops.neural.dense import OF_FEW_ROWS, _dense, finished
from trainkit.ops.neural.recurrence import _gru, _lstm, compiled_gru, compiled_lstm

Array = Any

# ------------------------------------------------------------------ kernels


def _convolve(
    xp: Any,
    x: Array,
    kernel: Array,
    bias: Any,
    factor: Any,
    shift: Any,
    residual: Any,
    *,
    rectifier: Rectifier,
    repeated: RepeatedConvolution | None = None,
    activation: str | None,
    **where: Any,
) -> Array:
    """The convolution, times `factor` plus `shift`, plus `residual`, rectified.

    Without a factor there is nothing after the convolution.
    """
    w, groups = facts_of(x, kernel, bias, **where)
    epilogue = None
    if factor is not None:
        epilogue = Epilogue(factor.reshape(-1), shift.reshape(-1), residual, rectifier)
    if epilogue is None or epilogue_tuned.fits(epilogue, (len(x), *w.out, kernel.shape[-1])):
        if repeated is None:
            rectify = activation == "relu"
            y = conv_tuned.forward(w, x, kernel, bias, rectify, groups, None, epilogue)
        else:
            y = repeated.first(w, groups, x, kernel, bias, epilogue)
        if y is not None:
            return y
    y = _conv.primitive.kernel(xp, x, kernel, bias, activation=activation, **where)
    if epilogue is None:
        return y
    y = multiply.primitive.kernel(y, factor)
    y = add.primitive.kernel(y, shift)
    if residual is not None:
        y = add.primitive.kernel(y, residual)
    if rectifier is NONE:
        return y
    return next(p for p, kind in RECTIFIERS.items() if kind is rectifier).kernel(xp, y)


def _convolver(
    *, weights: PreparedWeights | None, rectifier: Rectifier, **settings: Any
) -> Callable[..., Any]:
    """`_convolve` as a function of arrays, which remembers what they decide if weights are kept."""
    if weights is None:
        return functools.partial(_convolve, np, rectifier=rectifier, **settings)
    repeated: Any = None

    def convolve(*operands: Any) -> Array:
        return _convolve(np, *operands, rectifier=rectifier, repeated=repeated, **settings)

    repeated = RepeatedConvolution(weights, settings["activation"] == "relu", rectifier, convolve)
    calls: Callable[..., Any] = repeated.calls
    return calls


def _multiplier(primitive: Any) -> Any:
    """What binds `dense` or `matmul`, so that strips of its second operand are kept."""

    def bind(*, weights: PreparedWeights, **settings: Any) -> Any:
        kernel_of, body, activation = primitive.kernel, primitive.body, settings.get("activation")
        repeated: Any = None

        def multiply(x: Array, kernel: Array, bias: Array | None = None) -> Array:
            operands = (x, kernel) if primitive is _MATMUL else (x, kernel, bias)
            # others go to the body, whose bits are others
            if product_tuned.is_asked(x, kernel):
                y = repeated.first(*operands)
                return kernel_of(np, *operands, **settings) if y is None else y
            if x.ndim == 2:  # what the body does, without its questions
                return finished(np, product(x, kernel), bias, activation)
            result: Array = body(np, *operands, **settings)
            return result

        repeated = RepeatedProduct(weights, activation == "relu", multiply)
        return native.small_dense(OF_FEW_ROWS, activation == "relu", repeated.calls)

    return bind


def _recurrence(primitive: Any, compiled: Any) -> Any:
    """A kernel of `lstm` or `gru` that keeps a copy of its recurrent kernel, of float32.

    Of one sequence each step reads the whole kernel once, so it matters where that begins. With
    `hidden_alone` nobody reads what is there for a gradient, and it need not be written.
    """
    position = _KERNEL_POSITIONS[primitive]

    def run_by_kept_kernel(
        xp: Any,
        *inputs: Any,
        weights: PreparedWeights | None,
        hidden_alone: bool = False,
        **settings: Any,
    ) -> tuple[Any, ...]:
        if weights is not None and len(inputs[0]) == 1:
            kernel = weights.strips(inputs[position], np.asarray, "rows")
            if kernel is not None:
                inputs = *inputs[:position], kernel, *inputs[position + 1 :]
        results = compiled(*inputs, hidden_alone=True, **settings) if hidden_alone else None
        if results is None:
            results = primitive.kernel(xp, *inputs, **settings)
        return tuple(results)

    return run_by_kept_kernel


def _shape_of(primitive: Any) -> Any:
    """The shape rule of an operation whose call has more inputs and settings here."""

    def rule(*inputs: Any, **settings: Any) -> Any:
        own_inputs = inputs[: _INPUT_COUNTS[primitive]]
        return primitive.shape_rule(*own_inputs, **settings_of_first(settings))

    return rule


_CONV, _DENSE, _MATMUL = _conv.primitive, _dense.primitive, matmul.primitive
_LSTM, _GRU = _lstm.primitive, _gru.primitive
_RESHAPE = _reshape.primitive
_INPUT_COUNTS = {_CONV: 3, _DENSE: 3, _MATMUL: 2, _LSTM: 4, _GRU: 4}
_KERNEL_POSITIONS = {_CONV: 1, _DENSE: 1, _MATMUL: 1, _LSTM: 3, _GRU: 2}
"""By operation, which input are the weights that are kept."""


def _joined_operation(name: str, kernel: Any, primitive: Any, bind: Any = None) -> JoinedOperation:
    count = _INPUT_COUNTS[primitive]
    return JoinedOperation(name, kernel, _shape_of(primitive), primitive, count, bind)


CONVOLUTION = _joined_operation("finished_conv", _convolve, _CONV, _convolver)
JOINED = {
    _CONV: CONVOLUTION,
    **{
        p: _joined_operation(f"{p.name}_by_strips", p.kernel, p, _multiplier(p))
        for p in (_DENSE, _MATMUL)
    },
    **{
        p: _joined_operation(f"{p.name}_by_kept_kernel", _recurrence(p, compiled), p)
        for p, compiled in ((_LSTM, compiled_lstm), (_GRU, compiled_gru))
    },
}

# ------------------------------------------------------------------ the pass


class _FinishedConvolution(NamedTuple):
    """A convolution and the operations after it, each with one reader, the next.

    Attributes:
        conv: the convolution.
        factor: the node that multiplies its result, and the place of the factor.
        shift: the node that adds to that, and the place of the shift.
        residual: the node that adds another tensor, and its place; or `None`.
        rectifier: what comes last.
    """

    conv: Node
    factor: tuple[Node, int]
    shift: tuple[Node, int]
    residual: tuple[Node, int] | None = None
    rectifier: Rectifier = NONE


def with_joined_convolutions(graph: Graph) -> Graph:
    """`graph` with convolutions joined to what follows them, and weights that are kept, for a CPU.

    The graph itself where kernels did not come compiled, and within loops and branches, where
    whoever runs them may assign what they read.
    """
    nodes = needed_nodes(graph)
    if graph.outer is not None or not any(n.primitive in JOINED for n in nodes):
        return graph
    if kernel_family.mode() == "off" or not epilogue_tuned.is_compiled():
        return graph
    joiner = _ConvolutionJoiner(graph, nodes)
    # where all weights are trained there is often nothing to join, and copying takes longest
    if not any(joiner.joins(node) for node in nodes):
        return graph
    return prune(rebuild(graph, joiner.visit))


class _ConvolutionJoiner:
    """Joins what it visits."""

    def __init__(self, graph: Graph, nodes: list[Node]) -> None:
        self._assigned = {id(slot.variable) for slot in graph.assigned}
        self._chains = _chains(graph, nodes)
        self._read = {*map(id, _results(graph)), *(id(x) for node in nodes for x in node.inputs)}
        self._members = {
            node
            for c in self._chains.values()
            for node in (c.conv, c.factor[0], c.shift[0], c.residual[0] if c.residual else c.conv)
        }
        self._inputs: dict[Node, tuple[Any, ...]] = {}

    def joins(self, node: Node) -> bool:
        """Whether something else stands for a node of the graph."""
        if node in self._chains:
            return True
        position = _KERNEL_POSITIONS.get(node.primitive)
        if position is None:
            return False
        return self._needs_no_gates(node) or self._weights(node.inputs, position) is not None

    def _needs_no_gates(self, node: Node) -> bool:
        """Whether a node is a recurrence of 16-bit floats of which states alone are read."""
        if node.primitive not in (_LSTM, _GRU) or node.inputs[0].dtype not in HALVES:
            return False
        return self._reads_first_alone(node)

    def _reads_first_alone(self, node: Node) -> bool:
        return self._read.isdisjoint(map(id, node.outputs[1:]))

    def visit(self, new: Graph, node: Node, inputs: tuple[Any, ...]) -> Any:
        """The outputs in the new graph of what is joined, else `None`."""
        chain = self._chains.get(node)
        if chain is not None:
            self._inputs[node] = inputs
            return self._join(new, node, chain)
        if node in self._members:  # nothing reads its copy in the end
            self._inputs[node] = inputs
            return None
        operation = JOINED.get(node.primitive)
        if operation is None:
            return None
        weights = self._weights(inputs, _KERNEL_POSITIONS[node.primitive])
        if weights is None and not self._needs_no_gates(node):
            return None
        settings = {**node.settings, "weights": weights}
        if node.primitive in (_LSTM, _GRU):
            settings["hidden_alone"] = self._reads_first_alone(node)
        if node.primitive is _CONV:
            settings["rectifier"] = NONE
            inputs = *inputs, None, None, None
        return joined_call(new, node, operation, inputs, settings).outputs

    def _join(self, new: Graph, end: Node, chain: _FinishedConvolution) -> tuple[GraphTensor, ...]:
        def operand(position: tuple[Node, int] | None) -> Any:
            return None if position is None else self._inputs[position[0]][position[1]]

        operands = self._inputs[chain.conv]
        operands_after = operand(chain.factor), operand(chain.shift), operand(chain.residual)
        settings = {
            **chain.conv.settings,
            "weights": self._weights(operands, _KERNEL_POSITIONS[_CONV]),
            "rectifier": chain.rectifier,
        }
        return joined_call(new, end, CONVOLUTION, (*operands, *operands_after), settings).outputs

    def _weights(self, inputs: tuple[Any, ...], position: int) -> PreparedWeights | None:
        """Where what is made of an input is kept, if the graph does not change its value."""
        operands = inputs[0], inputs[position]
        if not all(isinstance(x, GraphTensor) and x.dtype.name == "float32" for x in operands):
            return None
        node = operands[1].node
        if node.primitive is _RESHAPE:
            node = node.inputs[0].node
        stays = node.kind == "constant" or (
            node.kind == "variable" and id(node.value) not in self._assigned
        )
        return PreparedWeights() if stays else None


# ------------------------------------------------------------------ chains


def _results(graph: Graph) -> tuple[GraphTensor, ...]:
    """What the caller and variables get."""
    return *graph.outputs, *(slot.now for slot in graph.slots.values())


def _chains(graph: Graph, nodes: list[Node]) -> dict[Node, _FinishedConvolution]:
    """By their last node, the chains that begin with a convolution of float32."""
    readers: dict[int, list[Node]] = defaultdict(list)
    for node in nodes:
        for x in node.inputs:
            if isinstance(x, GraphTensor):
                readers[id(x)].append(node)
    # what the caller or a variable gets has to be there as it is before the next operation
    results = set(map(id, _results(graph)))

    def reader_of(node: Node, *primitives: Any) -> Node | None:
        y = id(node.outputs[0])
        is_single = len(readers[y]) == 1 and y not in results
        return readers[y][0] if is_single and readers[y][0].primitive in primitives else None

    def beside(node: Node, primitive: Any, operand_of: Any) -> tuple[Node, int] | None:
        """The only reader of a node, and the place of its other operand, where that fits."""
        reader = reader_of(node, primitive)
        return None if reader is None else operand_of(reader, node)

    chains: dict[Node, _FinishedConvolution] = {}
    joined_sums: set[Node] = set()
    for conv in nodes:
        if conv.primitive is not _CONV or conv.outputs[0].shape.rank is None:
            continue
        factor = beside(conv, multiply.primitive, _vector_beside)
        shift = factor and beside(factor[0], add.primitive, _vector_beside)
        if factor is None or shift is None:
            continue
        end, rectifier = shift[0], NONE
        residual = beside(end, add.primitive, _image_beside)
        # a sum of two convolutions is in the chain of the first of them
        if residual is not None and residual[0] in joined_sums:
            residual = None
        if residual is not None:
            end = residual[0]
            joined_sums.add(end)
        rectified = reader_of(end, *RECTIFIERS)
        if rectified is not None:
            end, rectifier = rectified, RECTIFIERS[rectified.primitive]
        chains[end] = _FinishedConvolution(conv, factor, shift, residual, rectifier)
    return chains


def _index_beside(node: Node, other: Node) -> int:
    """The place of the operand of a sum or product that is not the result of `other`."""
    return 1 if node.inputs[0] is other.outputs[0] else 0


def _vector_beside(node: Node, other: Node) -> tuple[Node, int] | None:
    """The operand beside the result of `other`, where it has a number for each channel."""
    index, y = _index_beside(node, other), node.outputs[0]
    x = node.inputs[index]
    is_vector = isinstance(x, GraphTensor) and x.shape.rank == y.shape.rank
    if not is_vector or not x.dtype.name == y.dtype.name == "float32":
        return None
    shape = (*(1,) * (len(y.shape) - 1), y.shape[-1])
    return (node, index) if None not in shape and tuple(x.shape) == shape else None


def _image_beside(node: Node, other: Node) -> tuple[Node, int] | None:
    """The operand beside the result of `other`, where it has the shape of that."""
    index = _index_beside(node, other)
    x = node.inputs[index]
    fits = isinstance(x, GraphTensor) and x._spec == other.outputs[0]._spec
    return (node, index) if fits else None
