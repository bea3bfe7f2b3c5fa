"""Batching rules of convolutions: items share kernels, or each is a group of channels by itself.

With one kernel for all items, their batches become one. With a kernel for each item, the items'
channels stand side by side, and a grouped convolution keeps them apart. Where the input is the
same for all, the filters of all items are those of one convolution.
"""

from __future__ import annotations

from typing import Any

from trainkit.core.tensor import Tensor
from trainkit.ops.convolutional.convolution import (
    _conv,
    conv_input_gradient,
    conv_kernel_gradient,
    geometry_of,
)
from trainkit.ops.convolutional.transposed_convolution import _conv_transpose
from trainkit.ops.core.vmap import ItemStack, aligned, moved, reshaped, stacked
from trainkit.ops.math.elementwise import add
from trainkit.ops.neural.activations import relu
from trainkit.ops.vmap_rules.shared_rules import blank, with_one_batch, with_two_batches


def _join(x: Any, count: int) -> Tensor:
    """Values (..., channels) of all items as (..., count * channels)."""
    y = stacked(x, count)
    y = moved(y, 0, len(y.shape) - 2)
    dims = tuple(y.shape)
    return reshaped(y, (*dims[:-2], None if dims[-1] is None else count * dims[-1]))


def _part(y: Tensor, count: int, axis: int = -1) -> Tensor:
    """Results whose channels at `axis` are those of all items, as a stack."""
    axis %= len(y.shape)
    dims = tuple(y.shape)
    n = None if dims[axis] is None else dims[axis] // count
    return moved(reshaped(y, (*dims[:axis], count, n, *dims[axis + 1 :])), axis, 0)


def _groups(x: Any, kernel: Any) -> Any:
    inside, channels = kernel.shape[-2], x.shape[-1]
    return None if None in (inside, channels) else channels // inside


@_conv.batch_by
def _conv_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    x, kernel, bias = inputs
    if isinstance(bias, ItemStack):
        return _with_own_bias(primitive, inputs, settings, count)
    if not isinstance(kernel, ItemStack):
        y = primitive.op(with_one_batch(x, count), kernel, bias, **settings)
        return with_two_batches(y, count)
    if bias is not None:
        bias = reshaped(stacked(bias, count), (-1,))
    shared = not isinstance(x, ItemStack) and _groups(x, kernel) == 1
    images = x if shared else _join(x, count)
    return _part(primitive.op(images, _join(kernel, count), bias, **settings), count)


def _with_own_bias(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    x, kernel, bias = inputs
    if isinstance(x, ItemStack) or isinstance(kernel, ItemStack):
        plain = {**settings, "activation": None}
        y = _conv_stack(primitive, (x, kernel, None), plain, count)
    else:
        y = primitive.op(x, kernel, None, **{**settings, "activation": None})
    y = add(y, aligned(bias, len(x.shape)))
    return relu(y) if settings["activation"] == "relu" else y


@conv_input_gradient.batch_by
def _input_gradient_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    g, kernel, x = inputs
    if not isinstance(kernel, ItemStack):
        if not isinstance(g, ItemStack):
            like = blank(tuple(x.shape), x)
            return stacked(primitive.op(g, kernel, like, **settings), count)
        like = blank((count * x.shape[0], *x.shape[1:]), x)
        y = primitive.op(with_one_batch(g, count), kernel, like, **settings)
        return with_two_batches(y, count)
    like = blank((*x.shape[:-1], count * x.shape[-1]), x)
    return _part(primitive.op(_join(g, count), _join(kernel, count), like, **settings), count)


@conv_kernel_gradient.batch_by
def _kernel_gradient_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    x, g = inputs
    if settings["groups"] == 1 and not isinstance(x, ItemStack):
        return _part(primitive.op(x, _join(g, count), **settings), count)
    if settings["groups"] == 1 and not isinstance(g, ItemStack):
        return _part(primitive.op(_join(x, count), g, **settings), count, axis=-2)
    more = {**settings, "groups": count * settings["groups"]}
    return _part(primitive.op(_join(x, count), _join(g, count), **more), count)


@_conv_transpose.batch_by
def _transposed_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    x, kernel = inputs
    if not isinstance(kernel, ItemStack):
        return with_two_batches(primitive.op(with_one_batch(x, count), kernel, **settings), count)
    dims = primitive.shape_rule(x, kernel, **settings).shape
    like = blank((*dims[:-1], count * dims[-1]), x)
    geometry = geometry_of(settings)
    return _part(
        conv_input_gradient(_join(x, count), _join(kernel, count), like, **geometry), count
    )
