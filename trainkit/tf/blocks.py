"""Blocks of pixels moved to channels or to the batch, and back."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.tf.arrays import plain


def _layout(data_format: str, op: str) -> str:
    if data_format.upper() not in ("NHWC", "NCHW"):
        raise ValueError(f"{op}: data_format {data_format!r} is not supported; use NHWC or NCHW")
    return data_format.upper()


def _checked_block(block_size: Any, op: str) -> int:
    size = int(plain(block_size))
    if size < 2:
        raise InvalidArgumentError(f"{op}: block_size must be 2 or more, got {size}")
    return size


def space_to_depth(
    input: Any, block_size: int, data_format: str = "NHWC", name: Any = None
) -> Tensor:
    """Blocks of pixels as channels: (n, h, w, c) to (n, h / b, w / b, b * b * c).

    Args:
        input: images whose height and width are multiples of `block_size`.
        block_size: height and width b of a block, 2 or more.
        data_format: `"NHWC"` or `"NCHW"`.
        name: not kept.

    Raises:
        InvalidArgumentError: `block_size` is less than 2, or does not divide height and width.
    """
    b = _checked_block(block_size, "space_to_depth")
    x, first = convert_to_tensor(input), _layout(data_format, "space_to_depth") == "NCHW"
    if first:
        x = ops.transpose(x, (0, 2, 3, 1))
    n, h, w, c = x.shape
    if h % b or w % b:
        raise InvalidArgumentError(
            f"space_to_depth: height {h} and width {w} must be multiples of block_size {b}"
        )
    parts = ops.reshape(x, (-1 if n is None else n, h // b, b, w // b, b, c))
    y = ops.reshape(
        ops.transpose(parts, (0, 1, 3, 2, 4, 5)),
        (-1 if n is None else n, h // b, w // b, b * b * c),
    )
    return ops.transpose(y, (0, 3, 1, 2)) if first else y


def depth_to_space(
    input: Any, block_size: int, data_format: str = "NHWC", name: Any = None
) -> Tensor:
    """Channels as blocks of pixels: (n, h, w, b * b * c) to (n, h * b, w * b, c).

    Args:
        input: images whose channels are a multiple of `block_size` squared.
        block_size: height and width b of a block, 2 or more.
        data_format: `"NHWC"` or `"NCHW"`.
        name: not kept.

    Raises:
        InvalidArgumentError: `block_size` is less than 2, or its square does not divide channels.
    """
    b = _checked_block(block_size, "depth_to_space")
    x, first = convert_to_tensor(input), _layout(data_format, "depth_to_space") == "NCHW"
    if first:
        x = ops.transpose(x, (0, 2, 3, 1))
    n, h, w, depth = x.shape
    if depth % (b * b):
        raise InvalidArgumentError(
            f"depth_to_space: {depth} channels must be a multiple of {b} * {b}"
        )
    batch, c = -1 if n is None else n, depth // (b * b)
    parts = ops.reshape(x, (batch, h, w, b, b, c))
    y = ops.reshape(ops.transpose(parts, (0, 1, 3, 2, 4, 5)), (batch, h * b, w * b, c))
    return ops.transpose(y, (0, 3, 1, 2)) if first else y


def space_to_batch(input: Any, block_shape: Any, paddings: Any, name: Any = None) -> Tensor:
    """Every b-th pixel as an image of its own, along each of the first spatial axes.

    Args:
        input: (batch, spatial..., rest...).
        block_shape: b for each spatial axis, or one int for all.
        paddings: for each spatial axis how many zeros to put before and after.
        name: not kept.

    Returns:
        (batch * product of b, padded size / b ..., rest...).

    Raises:
        InvalidArgumentError: a padded size is no multiple of its b.
    """
    x, pads = convert_to_tensor(input), plain(paddings)
    blocks = _blocks(block_shape, len(pads))
    m, rank = len(blocks), len(x.shape)
    if rank < m + 1:
        raise ShapeError(f"space_to_batch: {m} spatial axes, the input has shape {tuple(x.shape)}")
    x = ops.pad(x, ((0, 0), *pads, *((0, 0),) * (rank - m - 1)))
    sizes, rest = tuple(x.shape[1 : m + 1]), tuple(x.shape[m + 1 :])
    if any(size % b for size, b in zip(sizes, blocks, strict=True)):
        raise InvalidArgumentError(
            f"space_to_batch: padded sizes {sizes} must be multiples of block_shape {blocks}"
        )
    split: list[int] = []
    for size, b in zip(sizes, blocks, strict=True):
        split += [size // b, b]
    parts = ops.reshape(x, (x.shape[0], *split, *rest))
    order = [2 * k + 2 for k in range(m)] + [0] + [2 * k + 1 for k in range(m)]
    order += range(2 * m + 1, 2 * m + 1 + len(rest))
    moved = ops.transpose(parts, tuple(order))
    outer = tuple(size // b for size, b in zip(sizes, blocks, strict=True))
    return ops.reshape(moved, (-1, *outer, *rest))


def batch_to_space(input: Any, block_shape: Any, crops: Any, name: Any = None) -> Tensor:
    """The inverse of `space_to_batch`: images of the batch woven into larger ones.

    Args:
        input: (batch, spatial..., rest...).
        block_shape: b for each spatial axis, or one int for all.
        crops: for each spatial axis how much to cut off before and after.
        name: not kept.

    Returns:
        (batch / product of b, size * b - crops ..., rest...).

    Raises:
        InvalidArgumentError: the batch is no multiple of the product of b.
    """
    x, cut = convert_to_tensor(input), plain(crops)
    blocks = _blocks(block_shape, len(cut))
    m, product = len(blocks), 1
    for b in blocks:
        product *= b
    if x.shape[0] % product:
        raise InvalidArgumentError(
            f"batch_to_space: a batch of {x.shape[0]} is no multiple of the product of {blocks}"
        )
    sizes, rest = tuple(x.shape[1 : m + 1]), tuple(x.shape[m + 1 :])
    parts = ops.reshape(x, (*blocks, x.shape[0] // product, *sizes, *rest))
    order = [m]
    for k in range(m):
        order += [m + 1 + k, k]
    order += range(2 * m + 1, 2 * m + 1 + len(rest))
    outer = tuple(size * b for size, b in zip(sizes, blocks, strict=True))
    woven = ops.reshape(ops.transpose(parts, tuple(order)), (-1, *outer, *rest))
    ends = [slice(a, n - z) for (a, z), n in zip(cut, outer, strict=True)]
    y: Tensor = woven[(slice(None), *ends)]
    return y


def _blocks(block_shape: Any, count: int) -> tuple[int, ...]:
    block_shape = plain(block_shape)
    blocks = (block_shape,) * count if isinstance(block_shape, int) else tuple(block_shape)
    if len(blocks) != count or min(blocks, default=1) < 1:
        raise InvalidArgumentError(
            f"block_shape {blocks} must be {count} ints above 0, one for each spatial axis"
        )
    return blocks
