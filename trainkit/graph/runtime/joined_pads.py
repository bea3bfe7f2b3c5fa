"""Zeros around images go into the depthwise convolutions that see them, and are made nowhere.

Networks for mobile devices pad an image by themselves before a convolution with strides. On a CPU
a padded copy costs as much as the convolution, and what comes back to it is a view with gaps, which
has to be copied again. Depthwise kernels leave out what lies outside of an image, and each sum
keeps its order, so the bits stay: adding a product by zero changes no sum of finite numbers, and a
kernel that holds others is left to the reference, which multiplies by the zeros.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from trainkit.graph.ir.graph import Graph, GraphTensor, Node
from trainkit.graph.ir.passes import rebuild
from trainkit.kernels.convolution import depthwise_tuned
from trainkit.kernels.convolution.sliding_windows import per_axis, placed
from trainkit.ops.arrays.pad_and_roll import _pad, pad_sum
from trainkit.ops.convolutional.convolution import _conv, conv_input_gradient, conv_kernel_gradient


class _Padded(NamedTuple):
    """A call that takes the image before it was padded.

    Attributes:
        node: whose primitive is called.
        inputs: what it is called with.
        settings: with the zeros that it leaves out.
    """

    node: Node
    inputs: tuple[Any, ...]
    settings: dict[str, Any]


def without_pads(graph: Graph) -> Graph:
    """`graph` with depthwise convolutions of padded images as ones that pad; for a CPU alone."""
    # most graphs pad nothing, and are not copied
    if not any(_padded(node, node.inputs) for node in graph.nodes):
        return graph
    return rebuild(graph, _visit)


def _visit(new: Graph, node: Node, inputs: tuple[Any, ...]) -> Any:
    padded = _padded(node, inputs)
    return None if padded is None else _add(new, padded, node)


def _padded(node: Node, inputs: tuple[Any, ...]) -> _Padded | None:
    """What stands for `node` without a padded copy, else `None`."""
    rule = _RULES.get(node.primitive)
    return None if rule is None else rule(node, inputs)


def _of_convolution(node: Node, inputs: tuple[Any, ...]) -> _Padded | None:
    pad = inputs[0].node
    if not _is_pad(pad):
        return None
    if node.primitive is _conv.primitive:
        window, filters = node.inputs[1].shape[:-2], node.outputs[0].shape[-1]
    else:
        # the gradient by the kernel has no kernel among its inputs
        window, filters = node.settings["kernel_size"], inputs[1].shape[-1]
    settings = _padded_settings(node, pad, tuple(window), filters)
    return None if settings is None else _Padded(node, (pad.inputs[0], *inputs[1:]), settings)


def _of_gradient(node: Node, inputs: tuple[Any, ...]) -> _Padded | None:
    """What a padded image sends back, of the gradient of a convolution by it."""
    inner = inputs[0].node
    if inner.primitive is not conv_input_gradient.primitive:
        return None
    g, kernel, image = inner.inputs
    pad = image.node
    # Only the pad of this very image is undone: one of other widths would cut off other rows.
    if not _is_pad(pad) or pad.settings["pad_width"] != node.settings["pad_width"]:
        return None
    if node.settings["mode"] != "constant":
        return None
    settings = _padded_settings(inner, pad, tuple(kernel.shape[:-2]), g.shape[-1])
    return None if settings is None else _Padded(inner, (g, kernel, pad.inputs[0]), settings)


def _is_pad(node: Node) -> bool:
    """Whether a node puts zeros around images of float32 or bfloat16 of known sizes."""
    if node.primitive is not _pad.primitive:
        return False
    x, settings = node.inputs[0], node.settings
    if settings["mode"] != "constant" or settings["value"]:
        return False
    if not isinstance(x, GraphTensor) or len(x.shape) < 3:
        return False
    if x.dtype.name not in ("float32", "bfloat16"):
        return False
    # a kernel leaves out rows and columns, never samples or channels
    ends = (settings["pad_width"][0], settings["pad_width"][-1])
    return None not in tuple(x.shape)[1:] and all(tuple(pair) == (0, 0) for pair in ends)


def _padded_settings(
    node: Node, pad: Node, window: tuple[Any, ...], filters: int | None
) -> dict[str, Any] | None:
    """The settings of a depthwise convolution that pads by itself, `None` for other ones."""
    settings, sizes = node.settings, tuple(pad.inputs[0].shape)[1:]
    # "same" follows from the padded size, so no fixed number of zeros stands for it
    if settings["padding"] == "same" or filters is None or None in window:
        return None
    outer = [tuple(pair) for pair in pad.settings["pad_width"][1:-1]]
    inner = per_axis(settings["padding"], len(window))
    pairs = [(0, 0) if pair == "valid" else pair for pair in inner]
    padding = tuple((int(a + c), int(b + d)) for (a, b), (c, d) in zip(outer, pairs, strict=True))
    where = placed(sizes[:-1], window, settings["strides"], padding, settings["dilation_rate"])
    # no other kernel leaves out what lies outside: a padded copy is right for those
    if not depthwise_tuned.serves(where, sizes[-1], filters, _groups(node, sizes[-1])):
        return None
    return {**settings, "padding": padding}


def _groups(node: Node, channels: int) -> int:
    if "groups" in node.settings:
        return int(node.settings["groups"])
    # the ratio of the image's channels to those that one filter sees
    inside = node.inputs[1].shape[-2]
    return channels // inside if inside else 1


def _add(new: Graph, padded: _Padded, like: Node) -> tuple[GraphTensor, ...]:
    """The outputs of a call that stand for those of `like`."""
    node, inputs, settings = padded
    specs = tuple(y._spec for y in like.outputs)
    twin = Node(new, "op", node.name, specs, node.primitive, inputs, settings)
    twin.many, twin.where = node.many, node.where
    new.nodes.append(twin)
    return twin.outputs


_RULES = {
    _conv.primitive: _of_convolution,
    conv_kernel_gradient.primitive: _of_convolution,
    pad_sum.primitive: _of_gradient,
}
