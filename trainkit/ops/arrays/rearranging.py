"""`rearrange`: reshape and transpose by a pattern of named axes; space_to_depth and its inverse.

The notation is that of einops: Rogozhnikov 2022, "Einops: Clear and Reliable Tensor Manipulations
with Einstein-like Notation", ICLR.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.axes import transpose
from trainkit.ops.arrays.shaping import as_tensor, reshape, shape, shape_tensor
from trainkit.ops.convolutional.convolution import is_channels_first

_TOKEN = re.compile(r"\s*(\(|\)|\.\.\.|[A-Za-z_]\w*|1)\s*")

_DOTS = "... outside of brackets"


def _groups(side: str, pattern: str) -> list[list[str]]:
    """The names on one side, a list for each axis."""
    groups: list[list[str]] = []
    inside = False
    position = 0
    while position < len(side):
        match = _TOKEN.match(side, position)
        if match is None:
            raise InvalidArgumentError(f"rearrange: {side[position:]!r} in {pattern!r} is no axis")
        position, token = match.end(), match[1]
        if token in "()":
            if inside == (token == "("):
                raise InvalidArgumentError(f"rearrange: the brackets in {pattern!r} do not match")
            inside = token == "("
            if inside:
                groups.append([])
        elif inside:
            groups[-1].append(token)
        else:
            groups.append([_DOTS if token == "..." else token] if token != "1" else [])
    if inside:
        raise InvalidArgumentError(f"rearrange: the brackets in {pattern!r} do not match")
    return groups


def _without_dots(groups: list[list[str]], hidden: list[str]) -> list[list[str]]:
    out: list[list[str]] = []
    for group in groups:
        if group == [_DOTS]:
            out += [[name] for name in hidden]
        else:
            out.append([s for name in group for s in (hidden if name == "..." else [name])])
    return out


@functools.lru_cache(maxsize=256)
def _sides(pattern: str, rank: int) -> tuple[list[list[str]], list[list[str]]]:
    left, arrow, right = pattern.partition("->")
    if not arrow:
        raise InvalidArgumentError(f"rearrange: {pattern!r} has no '->'")
    before, after = _groups(left.strip(), pattern), _groups(right.strip(), pattern)
    hidden: list[str] = []
    if [_DOTS] in before:
        hidden = [f"...{i}" for i in range(rank - len(before) + 1)]
    before, after = _without_dots(before, hidden), _without_dots(after, hidden)
    names = [[s for group in side for s in group] for side in (before, after)]
    for side in names:
        if len(set(side)) != len(side):
            raise InvalidArgumentError(f"rearrange: a name stands twice on one side of {pattern!r}")
    if set(names[0]) != set(names[1]):
        unmatched = ", ".join(sorted(set(names[0]) ^ set(names[1])))
        raise InvalidArgumentError(f"rearrange: {unmatched} is on one side of {pattern!r} only")
    if len(before) != rank:
        raise ShapeError(f"rearrange: {pattern!r} names {len(before)} axes, the tensor has {rank}")
    return before, after


def _dims(x: Tensor) -> Any:
    """The sizes of the axes; scalar tensors where a symbol of a model lacks more than one."""
    dims = shape(x)
    if dims.count(None) < 2:
        return dims
    sizes = shape_tensor(x)
    return [sizes[axis] if n is None else n for axis, n in enumerate(dims)]


def _sizes(
    x: Tensor, groups: list[list[str]], axes_lengths: dict[str, int], pattern: str
) -> dict[str, Any]:
    """The size of each name; a scalar tensor where it is known only when a graph runs."""
    sizes: dict[str, Any] = dict(axes_lengths)
    for axis, (group, n) in enumerate(zip(groups, _dims(x), strict=True)):
        unknown = [name for name in group if name not in axes_lengths]
        product = 1
        for name in group:
            product *= axes_lengths.get(name, 1)
        fits = not isinstance(n, int) or (n % product == 0 if unknown else n == product)
        if len(unknown) > 1 or not product or not fits:
            raise ShapeError(
                f"rearrange: axis {axis} of shape {tuple(x.shape)} does not divide into "
                f"({' '.join(group)}) of {pattern!r} with {axes_lengths}; give all sizes but one"
            )
        if unknown:
            sizes[unknown[0]] = n if product == 1 else (None if n is None else n // product)
    return sizes


def _product(sizes: list[Any]) -> Any:
    total: Any = 1
    for n in sizes:
        total = None if total is None or n is None else total * n
    return total


def _fill_size(dims: list[Any]) -> list[Any]:
    """`dims` with -1 for the one size that is not known."""
    if dims.count(None) > 1:
        raise ShapeError("rearrange: more than one size is not known; give them by name")
    return [-1 if n is None else n for n in dims]


def rearrange(tensor: TensorLike, pattern: str, **axes_lengths: int) -> Tensor:
    """Reshape and transpose by a pattern of named axes.

    Args:
        tensor: tensor of any shape.
        pattern: names of the axes before and after `->`. Names in brackets are one axis, which is
            split (before) or joined (after), the last name fastest; `1` is an axis of size 1, `...`
            stands for any number of axes.
        **axes_lengths: sizes of names in brackets; one in each bracket may be left out.

    Returns:
        A tensor with an axis for each name or bracket after `->`.

    Raises:
        InvalidArgumentError: the pattern is malformed, or the names on both sides differ.
        ShapeError: the pattern does not fit the shape.

    >>> rearrange([[1, 2, 3, 4]], "a (b c) -> c (a b)", b=2).numpy().tolist()
    [[1, 3], [2, 4]]
    """
    x = as_tensor(tensor)
    before, after = _sides(pattern, len(x.shape))
    names = [name for group in before for name in group]
    strange = set(axes_lengths) - set(names)
    if strange:
        raise InvalidArgumentError(f"rearrange: {', '.join(sorted(strange))} is not in {pattern!r}")
    sizes = _sizes(x, before, axes_lengths, pattern)
    if any(len(group) != 1 for group in before):
        x = reshape(x, _fill_size([sizes[name] for name in names]))
    output_names = [name for group in after for name in group]
    if output_names != names:
        x = transpose(x, [names.index(name) for name in output_names])
    if any(len(group) != 1 for group in after):
        x = reshape(x, _fill_size([_product([sizes[name] for name in group]) for group in after]))
    return x


# ------------------------------------------------------------------ space and depth


def _block(x: Any, block_size: int, data_format: str | None, op: str) -> tuple[Tensor, bool]:
    """`x` with channels last, and whether they were first."""
    tensor = as_tensor(x)
    first = is_channels_first(data_format, op)
    if len(tensor.shape) != 4 or block_size < 2:
        raise InvalidArgumentError(
            f"{op}: needs a batch of images and a block_size of 2 or more, got shape "
            f"{tuple(tensor.shape)} and {block_size}"
        )
    return (transpose(tensor, (0, 2, 3, 1)) if first else tensor), first


def space_to_depth(x: TensorLike, block_size: int, data_format: str = "channels_last") -> Tensor:
    """Each square of pixels as one pixel with more channels.

    Args:
        x: images (batch, height, width, channels).
        block_size: height and width of a square, 2 or more.
        data_format: `"channels_last"` or `"channels_first"`.

    Returns:
        A tensor (batch, height / block_size, width / block_size, channels * block_size**2).

    Raises:
        ShapeError: height or width is no multiple of `block_size`.
        InvalidArgumentError: the rank is another one, or `block_size` is less than 2.

    Example:
        >>> tk.ops.space_to_depth(tk.ones((1, 4, 4, 1)), 2).shape
        TensorShape([1, 2, 2, 4])
    """
    images, first = _block(x, block_size, data_format, "space_to_depth")
    height, width = images.shape[1:3]
    if (height or 0) % block_size or (width or 0) % block_size:
        raise ShapeError(
            f"space_to_depth: {block_size} does not divide height {height} and width {width}, "
            "which must be multiples of block_size"
        )
    k = int(block_size)
    if None in images.shape:
        y = rearrange(images, "b (h i) (w j) c -> b h w (i j c)", i=k, j=k)
    else:
        n, height, width, channels = images.shape
        y = reshape(images, (n, height // k, k, width // k, k, channels))
        y = reshape(
            transpose(y, (0, 1, 3, 2, 4, 5)), (n, height // k, width // k, k * k * channels)
        )
    return transpose(y, (0, 3, 1, 2)) if first else y


def depth_to_space(x: TensorLike, block_size: int, data_format: str = "channels_last") -> Tensor:
    """The inverse of `space_to_depth`: the channels of a pixel as a square of pixels.

    Args:
        x: images (batch, height, width, channels).
        block_size: height and width of a square, 2 or more.
        data_format: `"channels_last"` or `"channels_first"`.

    Returns:
        A tensor (batch, height * block_size, width * block_size, channels / block_size**2).

    Raises:
        ShapeError: the channels are no multiple of block_size**2.
        InvalidArgumentError: the rank is another one, or `block_size` is less than 2.

    Example:
        >>> tk.ops.depth_to_space(tk.ones((1, 2, 2, 4)), 2).shape
        TensorShape([1, 4, 4, 1])
    """
    images, first = _block(x, block_size, data_format, "depth_to_space")
    channels = images.shape[-1]
    if (channels or 0) % (block_size * block_size):
        raise ShapeError(
            f"depth_to_space: {channels} channels must be a multiple of {block_size} * {block_size}"
        )
    k = int(block_size)
    if None in images.shape:
        y = rearrange(images, "b h w (i j c) -> b (h i) (w j) c", i=k, j=k)
    else:
        n, height, width, channels = images.shape
        y = reshape(images, (n, height, width, k, k, channels // (k * k)))
        y = reshape(
            transpose(y, (0, 1, 3, 2, 4, 5)), (n, height * k, width * k, channels // (k * k))
        )
    return transpose(y, (0, 3, 1, 2)) if first else y
