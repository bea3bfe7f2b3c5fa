"""Blocks of pixels moved to the batch, and back.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.dtypes import int32
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.axes import transpose
from trainkit.ops.arrays.pad_and_roll import pad
from trainkit.ops.arrays.shaping import reshape
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.core.dynamic_shapes import needs_values


def space_to_batch(
    input: TensorLike, block_shape: TensorLike, paddings: TensorLike, name: str | None = None
) -> Tensor:
    """Every b-th pixel as an image of its own, along each of the first spatial axes.

    Args:
        input: (batch, spatial..., rest...).
        block_shape: b for each spatial axis, or one int for all.
        paddings: for each spatial axis how many zeros to put before and after.

    Returns:
        (batch * product of b, padded size / b ..., rest...).

    Raises:
        InvalidArgumentError: a padded size is no multiple of its b.

    Example:
        >>> tk.nn.space_to_batch(tk.ones((1, 4, 4, 3)), [2, 2], [[0, 0], [0, 0]]).shape
        TensorShape([4, 2, 2, 3])
    """
    x, pads = convert_to_tensor(input), plain(paddings)
    blocks = _blocks(block_shape, len(pads))
    m, rank = len(blocks), len(x.shape)
    if rank < m + 1:
        raise ShapeError(f"space_to_batch: {m} spatial axes, the input has shape {tuple(x.shape)}")
    x = pad(x, ((0, 0), *pads, *((0, 0),) * (rank - m - 1)))
    sizes, trailing = tuple(x.shape[1 : m + 1]), tuple(x.shape[m + 1 :])
    if any(size % b for size, b in zip(sizes, blocks, strict=True)):
        raise InvalidArgumentError(
            f"space_to_batch: padded sizes {sizes} must be multiples of block_shape {blocks}"
        )
    split: list[int] = []
    for size, b in zip(sizes, blocks, strict=True):
        split += [size // b, b]
    parts = reshape(x, (x.shape[0], *split, *trailing))
    order = [2 * k + 2 for k in range(m)] + [0] + [2 * k + 1 for k in range(m)]
    order += range(2 * m + 1, 2 * m + 1 + len(trailing))
    moved = transpose(parts, tuple(order))
    outer = tuple(size // b for size, b in zip(sizes, blocks, strict=True))
    return reshape(moved, (-1, *outer, *trailing))


def batch_to_space(
    input: TensorLike, block_shape: TensorLike, crops: TensorLike, name: str | None = None
) -> Tensor:
    """The inverse of `space_to_batch`: images of the batch woven into larger ones.

    Args:
        input: (batch, spatial..., rest...).
        block_shape: b for each spatial axis, or one int for all.
        crops: for each spatial axis how much to cut off before and after.

    Returns:
        (batch / product of b, size * b - crops ..., rest...).

    Raises:
        InvalidArgumentError: the batch is no multiple of the product of b.

    Example:
        >>> tk.batch_to_space(tk.ones((4, 2, 2, 3)), [2, 2], [[0, 0], [0, 0]]).shape
        TensorShape([1, 4, 4, 3])
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
    sizes, trailing = tuple(x.shape[1 : m + 1]), tuple(x.shape[m + 1 :])
    parts = reshape(x, (*blocks, x.shape[0] // product, *sizes, *trailing))
    order = [m]
    for k in range(m):
        order += [m + 1 + k, k]
    order += range(2 * m + 1, 2 * m + 1 + len(trailing))
    outer = tuple(size * b for size, b in zip(sizes, blocks, strict=True))
    woven = reshape(transpose(parts, tuple(order)), (-1, *outer, *trailing))
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


@needs_values(
    "input_shape",
    "block_shape",
    "base_paddings",
    gives=lambda a: (Spec((None, 2), int32), Spec((None, 2), int32)),
)
def required_space_to_batch_paddings(
    input_shape: Any, block_shape: TensorLike, base_paddings: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Paddings and crops with which `space_to_batch` fits a shape.

    Args:
        input_shape: of the spatial axes.
        block_shape: of the blocks, as many numbers.
        base_paddings: the least padding of each axis, (n, 2); 0 by default.

    Returns:
        Paddings and crops, (n, 2), int32.

    Example:
        >>> paddings, crops = tk.required_space_to_batch_paddings([3], [2])
        >>> paddings.numpy(), crops.numpy()
        (array([[0, 1]], dtype=int32), array([[0, 1]], dtype=int32))
    """
    sizes, blocks = np.array(plain(input_shape)), np.array(plain(block_shape))
    if base_paddings is None:
        base = np.zeros((len(sizes), 2), int)
    else:
        base = np.array(plain(base_paddings)).reshape(-1, 2)
    extra = -(sizes + base.sum(axis=1)) % blocks
    paddings = base + np.stack([np.zeros_like(extra), extra], axis=1)
    crops = np.stack([np.zeros_like(extra), extra], axis=1)
    return convert_to_tensor(paddings.astype(np.int32)), convert_to_tensor(crops.astype(np.int32))
