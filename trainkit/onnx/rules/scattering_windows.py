"""Windows that are put back, or moved about: `Col2Im`, `MaxUnpool` and `DeformConv`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ResourceExhaustedError, UnimplementedError
from trainkit.core.tensor import Tensor
from trainkit.onnx.imported_values import (
    ChannelsLast,
    channels_last,
    dims,
    live_sizes,
    numbers,
    rank,
    tensor,
)
from trainkit.onnx.operator_rules import NodeCall, check_count, onnx_rule
from trainkit.onnx.rules.grid_operators import interpolate
from trainkit.onnx.rules.window_operators import per_axis

MOST_SPREAD = 1 << 16  # elements that `MaxUnpool` makes of one


def _ends(call: NodeCall, count: int) -> list[tuple[int, int]]:
    """The pads before and behind each spatial axis."""
    ends = call.list("pads", None) or (0,) * (2 * count)
    if len(ends) != 2 * count or min(ends) < 0:
        raise InvalidArgumentError(f"the pads {ends} do not fit {count} spatial axes")
    return list(zip(ends[:count], ends[count:], strict=True))


@onnx_rule("Col2Im")
def _col2im(call: NodeCall, x: Any, image_shape: Any, block_shape: Any) -> Tensor:
    """Columns (batch, channels * block, windows) added into images (batch, channels, ...)."""
    image = numbers(image_shape, "the shape of the images")
    block = numbers(block_shape, "the shape of the windows")
    count = len(image)
    if rank(x) != 3 or len(block) != count or not count or min(*image, *block) < 1:
        raise InvalidArgumentError(
            f"columns {dims(x)}, windows {block} and images {image} do not fit"
        )
    strides, rates = per_axis(call, "strides", count), per_axis(call, "dilations", count)
    pads = _ends(call, count)
    padded = [n + a + b for n, (a, b) in zip(image, pads, strict=True)]
    steps = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, d, s in zip(padded, block, rates, strides, strict=True)
    ]
    batch, rows, windows = dims(x)
    elements = math.prod(block)
    if min(steps) < 1 or windows not in (None, math.prod(steps)) or (rows or 0) % elements:
        raise InvalidArgumentError(
            f"columns {dims(x)} do not fit windows {block} on images {image}, which have "
            f"{elements} elements and {' x '.join(map(str, steps))} positions"
        )
    channels = None if rows is None else rows // elements
    check_count([n for n in (batch, channels, *padded) if n is not None])
    check_count([elements, *steps])
    positions_in_image = np.zeros((*block, *steps), np.int64)  # in the padded image, as one number
    for axis, (n, k, d, s) in enumerate(zip(padded, block, rates, strides, strict=True)):
        along = np.arange(k)[:, None] * d + np.arange(steps[axis]) * s
        shape = [1] * (2 * count)
        shape[axis], shape[axis + count] = k, steps[axis]
        positions_in_image = positions_in_image * n + along.reshape(shape)
    live = ops.shape(tensor(x))
    lines = ops.reshape(tensor(x), (-1, elements * math.prod(steps)))
    total = ops.segment_sum(ops.transpose(lines), positions_in_image.ravel(), math.prod(padded))
    total = ops.reshape(ops.transpose(total), (live[0], live[1] // elements, *padded))
    cuts = [slice(a, a + n) for n, (a, _) in zip(image, pads, strict=True)]
    return total[(slice(None), slice(None), *cuts)]


@onnx_rule("MaxUnpool")
def _max_unpool(call: NodeCall, x: Any, positions: Any, output_shape: Any = None) -> Any:
    """Values where `MaxPool` saw them, and zeros elsewhere.

    Positions count the elements of the unpooled tensor, its batch and channels as well; a larger
    `output_shape` has zeros behind.
    """
    window = call.list("kernel_shape")
    count = len(window)
    if rank(x) != count + 2 or not _agrees(dims(positions), dims(x)):
        raise InvalidArgumentError(
            f"x {dims(x)}, positions {dims(positions)} and windows {window} do not fit"
        )
    strides, pads = per_axis(call, "strides", count), _ends(call, count)
    sizes = list(live_sizes(x))
    sizes[2:] = [
        (n - 1) * s - a - b + k
        for n, s, k, (a, b) in zip(sizes[2:], strides, window, pads, strict=True)
    ]
    check_count([n for n in sizes if not isinstance(n, Tensor)])
    spread = math.prod(max(k, s) for k, s in zip(window, strides, strict=True))
    if spread > MOST_SPREAD:  # sizes that are not known yet are multiplied by it
        raise ResourceExhaustedError(
            f"windows {tuple(window)} with strides {strides} make {spread:,} elements of one; at "
            f"most {MOST_SPREAD:,} are made"
        )
    total: Any = 1
    for n in sizes:
        total = total * n
    index = ops.reshape(ops.cast(tensor(positions), "int64"), (-1, 1))
    values = ops.reshape(tensor(x), (-1,))
    empty = ops.zeros((total,), values.dtype)
    y = ops.reshape(ops.scatter_update(empty, index, values), tuple(sizes))
    if output_shape is None:
        return y
    targets = numbers(output_shape, "the shape of the result")
    if len(targets) != len(sizes):
        raise InvalidArgumentError(f"the output shape {targets} does not fit {count} spatial axes")
    check_count(targets)
    missing = [target - n for target, n in zip(targets, sizes, strict=True)]
    if any(not isinstance(n, Tensor) and n < 0 for n in missing):
        raise InvalidArgumentError(
            f"the output shape {targets} is smaller than the windows, which reach {tuple(sizes)}"
        )
    return ops.pad(y, [(0, n) for n in missing])


@onnx_rule("DeformConv")
def _deform_conv(
    call: NodeCall, x: Any, kernel: Any, offset: Any, bias: Any = None, mask: Any = None
) -> Any:
    """A convolution whose windows take each element from a place of its own.

    Source: Dai et al. 2017, arXiv:1703.06211; with a mask Zhu et al. 2018, arXiv:1811.11168.
    """
    y, w = channels_last(x), tensor(kernel)
    count = rank(w) - 2
    window, groups, offset_groups = w.shape[2:], call.int("group", 1), call.int("offset_group", 1)
    channels = y.shape[-1]
    if count < 1 or None in tuple(w.shape) or channels is None:
        raise UnimplementedError("DeformConv needs a kernel, and channels, of known sizes")
    window = tuple(window)
    elements = math.prod(window)
    fits = groups > 0 and offset_groups > 0 and channels == w.shape[1] * groups
    if not fits or channels % offset_groups or w.shape[0] % groups or rank(y) != count + 2:
        raise InvalidArgumentError(
            f"x {dims(x)}, a kernel {tuple(w.shape)}, {groups} groups and {offset_groups} groups "
            "of offsets do not fit"
        )
    strides, rates = per_axis(call, "strides", count), per_axis(call, "dilations", count)
    pads = _ends(call, count)
    outs = [
        (n + a + b - (k - 1) * d - 1) // s + 1
        for n, (a, b), k, d, s in zip(live_sizes(x)[2:], pads, window, rates, strides, strict=True)
    ]
    expected = (dims(x)[0], offset_groups * elements * count, *outs)
    for value, label, shape in (
        (offset, "offsets", expected), (mask, "a mask", (expected[0], expected[1] // count, *outs))
    ):  # fmt: skip
        if value is not None and not _agrees(dims(value), shape):
            raise InvalidArgumentError(f"{label} of shape {dims(value)} should have {shape}")
    offsets = ops.reshape(
        channels_last(offset), (-1, *ops.shape(channels_last(offset))[1:-1],
                                offset_groups, elements, count)
    )  # fmt: skip
    weights = None if mask is None else ops.reshape(
        channels_last(mask), (-1, *ops.shape(channels_last(mask))[1:-1], offset_groups, elements)
    )  # fmt: skip
    share = channels // offset_groups
    sizes = [ops.cast(n, offsets.dtype) for n in ops.shape(y)[1:-1]]
    total: Any = 0.0
    kernels = ops.split(w, groups, axis=0) if groups > 1 else [w]
    for number, shift in enumerate(np.ndindex(*window)):
        columns = []
        for group in range(offset_groups):
            points = []
            for axis, step in enumerate(shift):
                base = ops.cast(ops.arange(outs[axis]), offsets.dtype) * float(strides[axis])
                base = base + float(step * rates[axis] - pads[axis][0])
                base = ops.reshape(base, [-1 if i == axis else 1 for i in range(count)])
                points.append(offsets[..., group, number, axis] + base)
            part = y[..., group * share : (group + 1) * share] if offset_groups > 1 else y
            column = interpolate(part, points, sizes)
            if weights is not None:
                column = column * weights[..., group, number][..., None]
            columns.append(column)
        column = ops.concatenate(columns, axis=-1) if len(columns) > 1 else columns[0]
        parts = ops.split(column, groups, axis=-1) if groups > 1 else [column]
        products = [
            ops.matmul(part, ops.transpose(k[(slice(None), slice(None), *shift)]))
            for part, k in zip(parts, kernels, strict=True)
        ]
        total = total + (ops.concatenate(products, axis=-1) if groups > 1 else products[0])
    return ChannelsLast(total if bias is None else total + tensor(bias))


def _agrees(shape: Any, expected: Any) -> bool:
    """Whether two shapes have one rank, and the same of the sizes that are known."""
    return len(shape) == len(expected) and all(
        a == b for a, b in zip(shape, expected, strict=True) if isinstance(a, int)
        and isinstance(b, int)
    )  # fmt: skip
