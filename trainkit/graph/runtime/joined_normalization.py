"""Normalization of a batch with the rectifier behind it in one pass, forward and backward.

A rectifier by itself reads and writes all of a tensor once more, and its gradient reads two and
writes one. Kernels of a normalization hold results between limits as they write them, and choose
what comes back by the results, which they make anew of the input and its moments: that reads one
tensor less. So neither what was normalized nor what the rectifier passes is ever in memory. All of
it is rounded as it was, one operation at a time.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trainkit.core.dispatch.facets import WHOLE_KERNEL, Absent, Facets, Semantics
from trainkit.core.dtypes import float32
from trainkit.core.shapes import Spec
from trainkit.graph.ir.graph import Graph, GraphTensor, Node, needed_nodes
from trainkit.graph.ir.passes import rebuild
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.normalization import norm_tuned
from trainkit.kernels.normalization.norm_tuned import NONE, RELU, RELU6, Rectifier
from trainkit.ops.neural.activations import keep_between, relu, relu6, relu_gradient
from trainkit.ops.neural.fused_normalization import (
    fused_normalization,
    fused_normalization_gradient,
)

Array = Any

_JOINED = Semantics(
    "several operations by one kernel",
    memory="fresh",
    batch=Absent("graphs that are batched are not joined yet"),
    stackable=Absent("functions of datasets are not joined"),
    lowering=WHOLE_KERNEL,
    export=Absent("graphs are saved before operations are joined"),
)
RECTIFIERS = {relu.primitive: RELU, relu6.primitive: RELU6}
"""By operation, what a kernel of several does in its place."""
_LIMITS = {"low": RELU6.low, "high": RELU6.high}
"""The settings of the gradient of `relu6`."""


class JoinedOperation:
    """What a node calls that does the work of several.

    Attributes:
        name: for those who look at a graph.
        kernel: function of NumPy, arrays and settings.
        shape_rule: function of `Spec`s of inputs and settings to those of results.
        facets: its record, as operations have one.
        first: the operation whose inputs come first among its own, `None` where there is none.
        count: how many inputs that has.
        bind: function of the settings to one of arrays alone, which remembers what stays the same
            from call to call; `None` where there is nothing of that kind.
        semantics: from which its facets follow.
    """

    is_ufunc = False
    rules = None
    joint = None

    def __init__(
        self,
        name: str,
        kernel: Any,
        shape_rule: Any,
        first: Any = None,
        count: int = 3,
        bind: Callable[..., Any] | None = None,
        semantics: Semantics = _JOINED,
    ) -> None:
        self.name, self.first, self.count, self.bind = name, first, count, bind
        self.kernel = self.body = kernel
        self.shape_rule = shape_rule
        self.facets = Facets(self, semantics)

    def bound(self, settings: dict[str, Any]) -> Callable[..., Any]:
        """The kernel with its settings, as a function of arrays alone."""
        if self.bind is not None:
            bound: Callable[..., Any] = self.bind(**settings)
            return bound
        return functools.partial(self.kernel, np, **settings)

    def run(self, arrays: Any, settings: dict[str, Any]) -> Any:
        """The results on arrays."""
        return self.bound(settings)(*arrays)

    def explained(self, error: Exception, inputs: Any, settings: Any) -> Exception:
        """The error as the first operation says it, or itself: it comes from one of them."""
        if self.first is None:
            return error
        settings = settings_of_first(settings)
        explained: Exception = self.first.explained(error, inputs[: self.count], settings)
        return explained


def settings_of_first(settings: dict[str, Any]) -> dict[str, Any]:
    """Those of the first operation, among the settings of one that was joined."""
    return {k: v for k, v in settings.items() if k not in ("weights", "rectifier", "hidden_alone")}


# ------------------------------------------------------------------ kernels


def _forward(
    xp: Any, x: Array, scale: Any, offset: Any, *, rectifier: Rectifier, **settings: Any
) -> Any:
    """(rectified result, mean, variance)."""
    along = settings["axis"], settings["epsilon"]
    results = norm_tuned.normalized_columns(x, scale, offset, *along, rectifier)
    if results is not None:
        return results
    y, mean, variance = fused_normalization.primitive.kernel(xp, x, scale, offset, **settings)
    if rectifier is not NONE:
        y = next(p for p, kind in RECTIFIERS.items() if kind is rectifier).kernel(xp, y)
    return y, mean, variance


def _backward(
    xp: Any,
    g: Array,
    x: Array,
    scale: Any,
    offset: Any,
    by_mean: Any,
    by_variance: Any,
    mean: Array,
    variance: Array,
    *,
    rectifier: Rectifier,
    **settings: Any,
) -> Any:
    """Gradients by x, scale and offset, of the gradient by the rectified result."""
    operands = scale, by_mean, by_variance
    along = settings["axis"], settings["epsilon"]
    results = norm_tuned.normalized_columns_gradient(
        g, x, *operands, *along, (mean, variance), offset, rectifier
    )
    if results is not None:
        return results
    if rectifier is not NONE:
        z, _, _ = _forward(xp, x, scale, offset, rectifier=rectifier, **settings)
    if rectifier is RELU:
        g = relu_gradient.primitive.kernel(xp, g, z)
    elif rectifier is RELU6:
        g = keep_between.primitive.kernel(xp, g, z, **_LIMITS)
    # the plain gradient finds the moments anew
    return fused_normalization_gradient.primitive.kernel(xp, g, x, *operands, **settings)


def _specs(x: Spec) -> tuple[Spec, Spec, Spec]:
    # That of 16-bit floats is joined beside float32 parameters alone.
    vector = Spec((x.shape[-1],), float32)
    return Spec(x.shape, x.dtype), vector, vector


FORWARD = JoinedOperation(
    "rectified_normalization", _forward, lambda x, *specs, **settings: _specs(x)
)
BACKWARD = JoinedOperation(
    "rectified_normalization_gradient", _backward, lambda g, x, *specs, **settings: _specs(x)
)

# ------------------------------------------------------------------ the pass


class _Joined(NamedTuple):
    """A normalization that was joined: its node in the new graph, and what stands behind it."""

    node: Node
    rectifier: Rectifier


def with_joined_normalization(graph: Graph) -> Graph:
    """`graph` with normalizations of batches joined to what stands behind them, for a CPU alone.

    The graph itself where kernels did not come compiled: until they are there the plain versions
    serve, each by its own count of calls.
    """
    nodes = needed_nodes(graph)
    normalizations = [node for node in nodes if _is_normalization(node)]
    if not normalizations or kernel_family.mode() == "off" or not norm_tuned.columns_are_compiled():
        return graph
    return rebuild(graph, _Pass(graph, nodes, normalizations).visit)


def _is_normalization(node: Node) -> bool:
    """Whether a node normalizes a batch of float32 or 16-bit floats over all axes but the last."""
    if node.primitive is not fused_normalization.primitive or not node.settings["over_batch"]:
        return False
    if node.outputs[0].shape.rank is None:
        return False
    x, *vectors = [x for x in node.inputs if isinstance(x, GraphTensor)]
    last = len(node.outputs[0].shape) - 1
    return (
        node.settings["axis"] == (last,)
        and norm_tuned.has_column_kernels(x.dtype.dtype)
        # Moments in a shorter type would not be those that the input was normalized by.
        and node.outputs[1].dtype.name == "float32"
        and all(v.dtype.name == "float32" for v in vectors)
    )


class _Pass:
    """Joins what it visits.

    A rectified result stands for what was normalized wherever that is read: by the rectifier, and
    by comparisons with its limits, which have the same answers for both.
    """

    def __init__(self, graph: Graph, nodes: list[Node], normalizations: list[Node]) -> None:
        self._readers: dict[int, list[Node]] = defaultdict(list)
        for node in nodes:
            for x in node.inputs:
                if isinstance(x, GraphTensor):
                    self._readers[id(x)].append(node)
        # what the caller or a variable gets has to be there as it is before the rectifier
        results = [*graph.outputs, *(slot.now for slot in graph.slots.values())]
        self._results = set(map(id, results))
        self._rectifiers = {node: self._rectifier_of(node) for node in normalizations}
        self._done: dict[Any, _Joined] = {}
        self._single = {
            node.outputs[0].node
            for node in nodes
            if node.kind == "op" and len(self._readers[id(node.outputs[0])]) == 1
        }

    def visit(self, new: Graph, node: Node, inputs: tuple[Any, ...]) -> Any:
        """The outputs in the new graph of what is joined, else `None`."""
        if node in self._rectifiers:
            return self._normalize_by(new, node, inputs)
        if node.primitive in RECTIFIERS and self._is_rectified(inputs[0], node):
            return (inputs[0],)
        if node.primitive is fused_normalization_gradient.primitive:
            return self._sent_back(new, node, inputs)
        return None

    # ------------------------------------------------------------------ forward

    def _rectifier_of(self, node: Node) -> Rectifier:
        """What stands behind a normalization, if nothing else reads its result."""
        y = node.outputs[0]
        readers = self._readers[id(y)]
        behind = [RECTIFIERS[r.primitive] for r in readers if r.primitive in RECTIFIERS]
        if id(y) in self._results or len(behind) != 1:
            return NONE
        # Gradients of both rectifiers ask the result: any other reader needs the input.
        return behind[0] if len(readers) == 1 else NONE

    def _normalize_by(self, new: Graph, node: Node, inputs: tuple[Any, ...]) -> Any:
        rectifier = self._rectifiers[node]
        settings = {**node.settings, "rectifier": rectifier}
        call = joined_call(new, node, FORWARD, inputs, settings)
        self._done[_key(inputs[0], inputs[1], node.settings)] = _Joined(call, rectifier)
        return call.outputs

    def _is_rectified(self, x: Any, node: Node) -> bool:
        maker = x.node
        return (
            maker.primitive is FORWARD
            and x.index == 0
            and maker.settings["rectifier"] is RECTIFIERS[node.primitive]
        )

    # ------------------------------------------------------------------ backward

    def _sent_back(self, new: Graph, node: Node, inputs: tuple[Any, ...]) -> Any:
        g, x, scale, by_mean, by_variance = inputs
        joined = self._done.get(_key(x, scale, node.settings))
        if joined is None or g.dtype != x.dtype:
            return None
        z, mean, variance = joined.node.outputs
        source = None
        if node.inputs[0].node in self._single:  # else what is passed is in memory anyway
            source = _before_choice(g, z, joined.rectifier)
        rectifier = NONE if source is None else joined.rectifier
        g = g if source is None else source
        offset = joined.node.inputs[2]
        arrays = (g, x, scale, offset, by_mean, by_variance, mean, variance)
        settings = {**node.settings, "rectifier": rectifier}
        return joined_call(new, node, BACKWARD, arrays, settings).outputs


def _key(x: Any, scale: Any, settings: dict[str, Any]) -> Any:
    # by identity: the gradient reads the very tensors of the new graph that the node ahead reads
    return id(x), id(scale), tuple(sorted(settings.items(), key=str))


def joined_call(
    new: Graph, node: Node, primitive: Any, inputs: tuple[Any, ...], settings: dict[str, Any]
) -> Node:
    """A call of `primitive` that stands for `node`."""
    specs = tuple(y._spec for y in node.outputs)
    call = Node(new, "op", node.name, specs, primitive, inputs, settings)
    call.many, call.where = node.many, node.where
    new.nodes.append(call)
    return call


def _before_choice(g: GraphTensor, z: GraphTensor, rectifier: Rectifier) -> GraphTensor | None:
    """The gradient of which a rectifier with the result `z` passed `g`, else `None`."""
    node = g.node
    if rectifier is RELU:
        passed = node.primitive is relu_gradient.primitive
    elif rectifier is RELU6:
        passed = node.primitive is keep_between.primitive and node.settings == _LIMITS
    else:
        passed = False
    return node.inputs[0] if passed and node.inputs[1] is z else None
