"""`rearrange`: reshape and transpose by a pattern of named axes; space_to_depth and its inverse.

The notation is that of einops: Rogozhnikov 2022, "Einops: Clear and Reliable Tensor Manipulations
with Einstein-like Notation", ICLR.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import ONLY_INTS
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


def _dims(x: Tensor) -> tuple[Any, ...]:
    """The sizes of the axes; scalar tensors where a symbol of a model lacks more than one."""
    if type(x) is Tensor:
        dims: tuple[int, ...] = x._array.shape
        return dims
    sizes = shape(x)
    if sizes.count(None) < 2:
        return sizes
    live = shape_tensor(x)
    return tuple(live[axis] if n is None else n for axis, n in enumerate(sizes))


def _sizes(
    dims: tuple[Any, ...], groups: list[list[str]], axes_lengths: dict[str, int], pattern: str
) -> dict[str, Any]:
    """The size of each name; a scalar tensor where it is known only when a graph runs."""
    sizes: dict[str, Any] = dict(axes_lengths)
    for axis, (group, n) in enumerate(zip(groups, dims, strict=True)):
        unknown = [name for name in group if name not in axes_lengths]
        product = 1
        for name in group:
            product *= axes_lengths.get(name, 1)
        fits = not isinstance(n, int) or (n % product == 0 if unknown else n == product)
        if len(unknown) > 1 or not product or not fits:
            known_dims = tuple(n if isinstance(n, int) else None for n in dims)
            raise ShapeError(
                f"rearrange: axis {axis} of shape {known_dims} does not divide into "
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


def _fill_size(dims: list[Any]) -> tuple[Any, ...]:
    """`dims` with -1 for the one size that is not known."""
    if dims.count(None) > 1:
        raise ShapeError("rearrange: more than one size is not known; give them by name")
    return tuple(-1 if n is None else n for n in dims)


_Steps = tuple[tuple[Any, ...] | None, tuple[int, ...] | None, tuple[Any, ...] | None]
"""The shape in which all names have axes, their new order, and the shape of the result.

`None` stands for a step that changes nothing.
"""


def _steps(pattern: str, dims: tuple[Any, ...], axes_lengths: dict[str, int]) -> _Steps:
    before, after = _sides(pattern, len(dims))
    names = [name for group in before for name in group]
    strange = set(axes_lengths) - set(names)
    if strange:
        raise InvalidArgumentError(f"rearrange: {', '.join(sorted(strange))} is not in {pattern!r}")
    sizes = _sizes(dims, before, axes_lengths, pattern)
    split_shape = order = result_shape = None
    if any(len(group) != 1 for group in before):
        split_shape = _fill_size([sizes[name] for name in names])
    output_names = [name for group in after for name in group]
    if output_names != names:
        order = tuple(names.index(name) for name in output_names)
    if any(len(group) != 1 for group in after):
        result_shape = _fill_size([_product([sizes[name] for name in group]) for group in after])
    return split_shape, order, result_shape


@functools.lru_cache(maxsize=256)
def _steps_of_ints(
    pattern: str, dims: tuple[int, ...], axes_lengths: tuple[tuple[str, int], ...]
) -> _Steps:
    """`_steps`, which take several times as long as to move few elements by them."""
    return _steps(pattern, dims, dict(axes_lengths))


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
    dims = _dims(x)
    if ONLY_INTS.issuperset(map(type, (*dims, *axes_lengths.values()))):
        split_shape, order, result_shape = _steps_of_ints(
            pattern, dims, tuple(axes_lengths.items())
        )
    else:
        split_shape, order, result_shape = _steps(pattern, dims, axes_lengths)
    if split_shape is not None:
        x = reshape(x, split_shape)
    if order is not None:
        x = transpose(x, order)
    return x if result_shape is None else reshape(x, result_shape)


# ------------------------------------------------------------------ space and depth


def _block(
    x: Any, block_size: int, data_format: str | None, op: str
) -> tuple[Tensor, tuple[int, int, int], bool]:
    """`x` with channels last, its height, width and channels, and whether they were first.

    Sizes that are not known yet count as 0, which every block divides.
    """
    tensor = as_tensor(x)
    first = is_channels_first(data_format, op)
    dims: Any = tensor._array.shape if type(tensor) is Tensor else tuple(tensor.shape)
    if len(dims) != 4 or block_size < 2:
        raise InvalidArgumentError(
            f"{op}: needs a batch of images and a block_size of 2 or more, got shape "
            f"{dims} and {block_size}"
        )
    height, width, channels = (n or 0 for n in ((*dims[2:], dims[1]) if first else dims[1:]))
    images = transpose(tensor, (0, 2, 3, 1)) if first else tensor
    return images, (height, width, channels), first


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
    images, (height, width, _), first = _block(x, block_size, data_format, "space_to_depth")
    if height % block_size or width % block_size:
        raise ShapeError(
            f"space_to_depth: {block_size} does not divide height {height} and width {width}, "
            "which must be multiples of block_size"
        )
    k = int(block_size)
    y = rearrange(images, "b (h i) (w j) c -> b h w (i j c)", i=k, j=k)
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
    images, (_, _, channels), first = _block(x, block_size, data_format, "depth_to_space")
    if channels % (block_size * block_size):
        raise ShapeError(
            f"depth_to_space: {channels} channels must be a multiple of {block_size} * {block_size}"
        )
    k = int(block_size)
    y = rearrange(images, "b h w (i j c) -> b (h i) (w j) c", i=k, j=k)
    return transpose(y, (0, 3, 1, 2)) if first else y
