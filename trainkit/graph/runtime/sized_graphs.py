"""A graph of unknown sizes as it is at known ones: shape rules run again, and what they make plain.

A sum to the shape of another tensor, for example, is nothing where both have one shape; which is
known as soon as sizes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit.core.dispatch.known_sizes import Known, known_results
from trainkit.core.shapes import Spec
from trainkit.graph.ir.graph import Graph, GraphTensor, Node, needed_nodes
from trainkit.graph.ir.passes import (
    finished,
    optimised,
    prune,
    rebuilt_frame,
    share,
    simplify,
    source_copied,
)

Axis = tuple[int, int]
"""The place of an input, and one of its axes."""


def unknown_axes(graph: Graph) -> list[Axis]:
    """The axes of inputs whose sizes are not known."""
    return [
        (input_index, axis)
        for input_index, x in enumerate(graph.inputs)
        for axis, n in enumerate(x.shape)
        if n is None
    ]


def at_sizes(graph: Graph, sizes: Sequence[int]) -> Graph:
    """A graph with known sizes of its inputs, and of all that follows from them.

    Args:
        graph: stays as it is.
        sizes: one for each of its unknown axes.
    """
    size_of_axis = dict(zip(unknown_axes(graph), sizes, strict=True))
    new, env = rebuilt_frame(graph)
    for input_index, x in enumerate(new.inputs):
        dims = [size_of_axis.get((input_index, axis), n) for axis, n in enumerate(x.shape)]
        x._spec = Spec(dims, x.dtype)
    # inputs come first, so one sweep carries sizes from arguments to results
    for node in needed_nodes(graph):
        if node.kind != "op":
            env[node.outputs[0]] = source_copied(new, node)
            continue
        inputs = tuple(env[x] if isinstance(x, GraphTensor) else x for x in node.inputs)
        env.update(zip(node.outputs, _copy(new, node, inputs), strict=True))
    return optimised(finished(graph, new, env), [simplify, share, prune])


def _copy(new: Graph, node: Node, inputs: tuple[Any, ...]) -> tuple[GraphTensor, ...]:
    """The outputs of a copy of `node` in `new`, with shapes as far as they are known there."""
    specs = tuple(y._spec for y in node.outputs)
    # subgraphs were traced for unknown sizes, and their nodes keep what was promised then
    if not node.subgraphs() and not node.effect:
        specs = _specs(node, inputs) or specs
    twin = Node(new, "op", node.name, specs, node.primitive, inputs, node.settings)
    twin.many, twin.where = node.many, node.where
    new.nodes.append(twin)
    _note_sizes(twin)
    return twin.outputs


def _specs(node: Node, inputs: tuple[Any, ...]) -> tuple[Spec, ...] | None:
    """What the shape rule says, `None` where it can't or contradicts what was traced."""
    specs = [x._spec if isinstance(x, GraphTensor) else x for x in inputs]
    try:
        result = node.primitive.shape_rule(*specs, **_settings(node, inputs))
    except Exception:  # the run itself says it better, at the sizes that it really has
        return None
    results = result if isinstance(result, tuple) else (result,)
    fits = len(results) == len(node.outputs) and all(
        spec.dtype == y.dtype and y.shape.is_compatible_with(spec.shape)
        for spec, y in zip(results, node.outputs, strict=True)
    )
    return tuple(results) if fits else None


def _settings(node: Node, inputs: tuple[Any, ...]) -> dict[str, Any]:
    """The settings of a node, with sizes that are inputs in its shape, if these are known.

    `reshape_sized(x, n, shape=(None, 3))`, for example, is given as many sizes as its shape lacks.
    """
    shape = node.settings.get("shape")
    if not isinstance(shape, tuple) or None not in shape:
        return node.settings
    sizes = [x._known for x in inputs if isinstance(x, GraphTensor) and x._known is not None]
    # operations take sizes behind their arrays, so the last ones are those of the shape
    missing = shape.count(None)
    if len(sizes) < missing or any(one.values.ndim or one.unknown for one in sizes[-missing:]):
        return node.settings
    numbers = iter(int(one.values) for one in sizes[-missing:])
    return {**node.settings, "shape": tuple(next(numbers) if n is None else n for n in shape)}


def _note_sizes(node: Node) -> None:
    """Let the results of a node that asks for sizes, or computes them, remember what is known."""
    sizes = known_results(node.primitive, node.inputs, node.settings)
    if sizes is None:
        return
    for y, one in zip(node.outputs, (sizes,) if isinstance(sizes, Known) else sizes, strict=True):
        y._known = one
