"""Parts of images: extract_patches, crop_images, pad_images."""

from __future__ import annotations

import itertools
import math
from typing import Any

from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import SHAPE, WINDOW
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError, UnimplementedError
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor
from trainkit.ops.arrays.axes import transpose
from trainkit.ops.arrays.pad_and_roll import pad
from trainkit.ops.arrays.shaping import as_tensor, reshape
from trainkit.ops.convolutional.convolution import is_channels_first
from trainkit.ops.core.axis_numbers import whole_number
from trainkit.ops.core.one_node import sizes_later
from trainkit.ops.images.image_layout import batched, choice, later_images, spatial
from trainkit.ops.indexing.get_item import get_item
from trainkit.ops.vmap_rules.shared_rules import folded

Sizes = tuple[int, ...]

# ------------------------------------------------------------------ patches


def _counts(dims: Any, size: Sizes, strides: Sizes, dilation: Sizes) -> list[Any]:
    return [
        None if n is None else max(0, (n - (k - 1) * d - 1) // s + 1)
        for n, k, s, d in zip(dims, size, strides, dilation, strict=True)
    ]


def _patches_rule(x: Spec, *, size: Sizes, strides: Sizes, dilation: Sizes) -> Spec:
    channels = None if x.shape[-1] is None else x.shape[-1] * math.prod(size)
    counts = _counts(x.shape[1:-1], size, strides, dilation)
    return Spec((x.shape[0], *counts, channels), x.dtype)


def _windows(dims: Any, size: Sizes, strides: Sizes, dilation: Sizes) -> Any:
    """For each element of a patch its number and the slices of the image that it comes from."""
    counts = _counts(dims, size, strides, dilation)
    for number, offset in enumerate(itertools.product(*map(range, size))):
        where = tuple(
            slice(o * d, o * d + (c - 1) * s + 1, s) if c else slice(0, 0)
            for o, d, c, s in zip(offset, dilation, counts, strides, strict=True)
        )
        yield number, (slice(None), *where)


@primitive(_patches_rule, name="extract_patches", semantics=WINDOW)
def _patches(xp: ArrayModule, x: Array, *, size: Sizes, strides: Sizes, dilation: Sizes) -> Array:
    """The elements under a sliding window, side by side in the channels."""
    counts = _counts(x.shape[1:-1], size, strides, dilation)
    channels = x.shape[-1]
    out = xp.empty((x.shape[0], *counts, math.prod(size), channels), x.dtype)
    for number, where in _windows(x.shape[1:-1], size, strides, dilation):
        out[..., number, :] = x[where]
    return out.reshape((x.shape[0], *counts, math.prod(size) * channels))


@primitive(lambda g, x, **settings: Spec(x.shape, g.dtype), semantics=WINDOW, reads={1: SHAPE})
def patches_sum(
    xp: ArrayModule, g: Array, x: Array, *, size: Sizes, strides: Sizes, dilation: Sizes
) -> Array:
    """`extract_patches` transposed: patches added where they overlap; `x` gives the shape."""
    out = xp.zeros(x.shape, g.dtype)
    parts = g.reshape((*g.shape[:-1], math.prod(size), x.shape[-1]))
    for number, where in _windows(x.shape[1:-1], size, strides, dilation):
        out[where] += parts[..., number, :]
    return out


_patches.gradients(lambda g, y, x, **settings: patches_sum(g, x, **settings))
patches_sum.gradients(lambda gg, y, g, x, **settings: _patches(gg, **settings), None)
_patches.batch_by(folded(0))
patches_sum.batch_by(folded(0, likes=(1,)))


def _tuple(value: Any, axes: int, name: str, op: str = "extract_patches") -> Sizes:
    if isinstance(value, str):
        raise TypeError(f"{op}: {name} must be an int or a tuple of ints, got {value!r}")
    numbers = (value,) * axes if isinstance(value, int) else tuple(int(n) for n in value)
    if len(numbers) != axes or min(numbers) < 1:
        raise InvalidArgumentError(
            f"{op}: {name} must be {axes} whole numbers above 0, got {value!r}"
        )
    return numbers


def _extract(
    images: Any, size: Any, strides: Any, dilation: Any, padding: str, data_format: Any, axes: int
) -> Tensor:
    padding = choice("extract_patches", "padding", str(padding).lower(), ("same", "valid"))
    window = _tuple(size, axes, "size")
    steps = window if strides is None else _tuple(strides, axes, "strides")
    gaps = _tuple(dilation, axes, "dilation_rate")
    x, restore = batched(images, data_format, "extract_patches", axes)
    if padding == "same":
        x = _pad_for(x, window, steps, gaps)
    result: Tensor = _patches(x, size=window, strides=steps, dilation=gaps)
    return restore(result)


def _pad_for(x: Tensor, size: Sizes, strides: Sizes, dilation: Sizes) -> Tensor:
    """Zeros around the images, so that there are size / stride patches, rounded up."""
    ends = [(0, 0)]
    for n, k, s, d in zip(x.shape[1:-1], size, strides, dilation, strict=True):
        if n is None:
            raise ShapeError(
                f"extract_patches: padding='same' needs known sizes, got {tuple(x.shape)}"
            )
        missing = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
        ends.append((missing // 2, missing - missing // 2))
    return pad(x, (*ends, (0, 0)))


def extract_patches(
    images: Any,
    size: Any,
    strides: Any = None,
    dilation_rate: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
) -> Tensor:
    """The parts of images, or of volumes, under a sliding window.

    Args:
        images: one image (height, width, channels) or a batch of images; with three numbers in
            `size` one volume (depth, height, width, channels) or a batch of volumes.
        size: height and width of a patch, or depth, height and width; one int for a square.
        strides: pixels from one patch to the next, by default `size`.
        dilation_rate: pixels from one element of a patch to the next.
        padding: `"valid"` for patches that are wholly inside, `"same"` with zeros around.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Returns:
        A tensor in which the elements of a patch, row by row, are side by side in the channels.

    Raises:
        ValueError: a setting is unknown or no whole number above 0.
        ShapeError: the rank is another one.
    """
    axes = 3 if not isinstance(size, int) and len(size) == 3 else 2
    return _extract(images, size, strides, dilation_rate, padding, data_format, axes)


def extract_patches_3d(
    volumes: Any,
    size: Any,
    strides: Any = None,
    dilation_rate: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
) -> Tensor:
    """The parts of volumes under a sliding window; as `extract_patches` with three numbers.

    Args:
        volumes: one volume (depth, height, width, channels) or a batch of volumes.
        size: depth, height and width of a patch; one int for a cube.
        strides: voxels from one patch to the next, by default `size`.
        dilation_rate: voxels from one element of a patch to the next.
        padding: `"valid"` or `"same"`.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Raises:
        ValueError: a setting is unknown or no whole number above 0.
        ShapeError: the rank is another one.
    """
    if not isinstance(size, int) and (isinstance(size, str) or len(size) != 3):
        raise TypeError(f"extract_patches_3d: size must be an int or three of them, got {size!r}")
    return _extract(volumes, size, strides, dilation_rate, padding, data_format, 3)


def _reconstruct_later(arguments: dict[str, Any]) -> Any:
    x, size, output_size = (
        as_tensor(arguments["patches"]),
        arguments["size"],
        arguments["output_size"],
    )
    axes = 2 if isinstance(size, int) else len(size)
    first = is_channels_first(arguments["data_format"], "reconstruct_patches")
    lead = x.shape[: len(x.shape) - axes - 1]
    counts = x.shape[-axes:] if first else x.shape[-axes - 1 : -1]
    if None not in counts or len(output_size) != axes:
        return None
    flat = x.shape[len(lead)] if first else x.shape[-1]
    channels = (_channels("reconstruct_patches", flat, _tuple(size, axes, "size")),)
    parts = (*channels, *output_size) if first else (*output_size, *channels)
    return Spec((*lead, *parts), x.dtype)


@sizes_later("image.reconstruct_patches", _reconstruct_later)
def reconstruct_patches(
    patches: Any,
    size: Any,
    output_size: Any,
    strides: Any = None,
    padding: str = "valid",
    data_format: str | None = None,
) -> Tensor:
    """The images, or volumes, that `extract_patches` with strides of `size` took apart.

    Args:
        patches: (rows, columns, height * width * channels), or a batch of them, with three numbers
            in `size` (planes, rows, columns, depth * height * width * channels).
        size: height and width of a patch, or depth, height and width; one int for a square.
        output_size: height and width of the images, or depth, height and width: for `"valid"` as
            many patches, for `"same"` what the images had before zeros were put around them.
        strides: `size`, the default; patches that overlap can't be put together.
        padding: `"valid"` or `"same"`, as in `extract_patches`.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Returns:
        (height, width, channels), or a batch of them; with a depth for volumes.

    Raises:
        TypeError: `size` or `output_size` is of another kind.
        ValueError: a setting is unknown or does not fit the patches.
        NotImplementedError: `strides` differ from `size`.
    """
    op = "reconstruct_patches"
    if isinstance(size, str) or not (isinstance(size, int) or isinstance(size, list | tuple)):
        raise TypeError(f"{op}: size must be an int or a tuple, got {size!r}")
    if not isinstance(size, int) and len(size) not in (2, 3):
        raise InvalidArgumentError(f"{op}: size must have 2 or 3 numbers, got {size!r}")
    if not isinstance(output_size, list | tuple):
        raise TypeError(f"{op}: output_size must be a tuple or list, got {output_size!r}")
    axes = 2 if isinstance(size, int) else len(size)
    window = _tuple(size, axes, "size", op)
    target_sizes = _tuple(output_size, axes, "output_size", op)
    if strides is not None and _tuple(strides, axes, "strides", op) != window:
        raise UnimplementedError(
            f"{op}: strides={strides!r} differ from size={size!r}; patches must not overlap"
        )
    padding = choice(op, "padding", str(padding).lower(), ("same", "valid"))
    x, restore = batched(patches, data_format, op, axes)
    counts, channels = tuple(x.shape[1:-1]), _channels(op, x.shape[-1], window)
    _check_fit(op, counts, window, target_sizes, padding)
    if None in counts:
        raise ShapeError(f"{op}: the numbers of patches must be known, got shape {tuple(x.shape)}")
    x = reshape(x, (-1, *counts, *window, channels))
    order = [k for i in range(1, axes + 1) for k in (i, i + axes)]
    x = transpose(x, (0, *order, 2 * axes + 1))
    covered = tuple(n * k for n, k in zip(counts, window, strict=True))
    x = reshape(x, (-1, *covered, channels))
    starts = [(n - m) // 2 for n, m in zip(covered, target_sizes, strict=True)]
    inside = tuple(slice(a, a + m) for a, m in zip(starts, target_sizes, strict=True))
    return restore(get_item(x, (slice(None), *inside)))


def _channels(op: str, flat: int | None, window: Sizes) -> int:
    if flat is None or flat % math.prod(window):
        raise ShapeError(
            f"{op}: the {flat} numbers of a patch are not divisible by its {math.prod(window)} "
            f"pixels, {window}"
        )
    return flat // math.prod(window)


def _check_fit(op: str, counts: Any, window: Sizes, target_sizes: Sizes, padding: str) -> None:
    names = ("depth", "height", "width")[-len(window) :]
    for name, n, k, m in zip(names, counts, window, target_sizes, strict=True):
        if n is None:
            continue
        low, high = (n * k, n * k) if padding == "valid" else ((n - 1) * k + 1, n * k)
        if not low <= m <= high:
            raise InvalidArgumentError(
                f"{op}: padding={padding!r}: {n} patches of {name} {k} give a {name} from {low} to "
                f"{high}, output_size asks for {m}"
            )


# ------------------------------------------------------------------ crop and pad


_ENDS = (("top", "bottom", "height"), ("left", "right", "width"))


def _two_of_three(
    op: str, sides: tuple[str, str, str], before: Any, after: Any, target: Any
) -> None:
    if sum(v is not None for v in (before, after, target)) != 2:
        raise ValueError(
            f"{op}: Must specify exactly two of {sides[0]}, {sides[1]}, {sides[2]}; got "
            f"{before}, {after} and {target}"
        )


def _margins(
    op: str,
    names: tuple[str, str, str],
    size: int,
    before: Any,
    after: Any,
    target: Any,
    grow: bool,
) -> tuple[int, int, int]:
    """What goes at both ends of an axis, and the size that is left.

    Raises:
        ValueError: not two of three are given, or one is negative.
    """
    _two_of_three(op, names, before, after, target)
    before, after, target = (
        None if n is None else whole_number(n, op, name)
        for name, n in zip(names, (before, after, target), strict=True)
    )
    sign = 1 if grow else -1
    if target is None:
        target = size + sign * (before + after)
    total = sign * (target - size)
    before = total - after if before is None else before
    after = total - before
    for name, value in zip(names, (before, after, target), strict=True):
        if value < 0 or (name == names[2] and value < 1):
            raise ValueError(
                f"{op}: {name} must be {0 if name != names[2] else 1} or more, got {value}"
            )
    return before, after, target


def _both_margins(
    op: str, x: Tensor, rows: tuple[Any, Any, Any], columns: tuple[Any, Any, Any], grow: bool
) -> list[tuple[int, int, int]]:
    """`_margins` of the height and of the width of a batch of images."""
    word = "padding" if grow else "cropping"
    sides = zip(spatial(x, op), _ENDS, (rows, columns), strict=True)
    return [_margins(op, _names(word, *ends), n, *values, grow) for n, ends, values in sides]


def _names(kind: str, low: str, high: str, size: str) -> tuple[str, str, str]:
    return f"{low}_{kind}", f"{high}_{kind}", f"target_{size}"


def _frame_later(arguments: dict[str, Any], op: str, word: str, grow: bool) -> Any:
    """The spec of images of unknown sizes that are cut or framed, if what is given fits."""
    live = any(isinstance(n, SymbolicTensor) for name, n in arguments.items() if name != "images")
    spec = later_images(arguments["images"], (None, None), arguments["data_format"], op, live=live)
    if spec is None or live:
        return spec
    size = []
    dims = tuple(as_tensor(arguments["images"]).shape)
    first = is_channels_first(arguments["data_format"], op)
    spatial_dims = dims[-2:] if first else dims[-3:-1]
    for n, ends in zip(spatial_dims, _ENDS, strict=True):
        names = _names(word, *ends)
        values = [arguments[name] for name in names]
        if n is not None:
            size.append(_margins(op, names, n, values[0], values[1], values[2], grow)[2])
            continue
        _two_of_three(op, names, *values)
        for name, value in zip(names, values, strict=True):
            if value is not None and value < (1 if name == names[2] else 0):
                raise InvalidArgumentError(f"{op}: {name} must be >= 0, got {value}")
        if values[2] is None and not grow:
            raise InvalidArgumentError(
                f"{op}: the {ends[2]} of the images is not known, so {names[2]} must be given"
            )
        size.append(values[2])
    return later_images(arguments["images"], (size[0], size[1]), arguments["data_format"], op)


def _crop_later(arguments: dict[str, Any]) -> Any:
    return _frame_later(arguments, "crop_images", "cropping", False)


@sizes_later("image.crop_images", _crop_later)
def crop_images(
    images: Any,
    top_cropping: int | None = None,
    left_cropping: int | None = None,
    bottom_cropping: int | None = None,
    right_cropping: int | None = None,
    target_height: int | None = None,
    target_width: int | None = None,
    data_format: str | None = None,
) -> Tensor:
    """Images without their edges; two of three numbers are given for each direction.

    Args:
        images: one image (height, width, channels) or a batch (batch, height, width, channels).
        top_cropping: rows to cut off at the top.
        left_cropping: columns to cut off at the left.
        bottom_cropping: rows to cut off at the bottom.
        right_cropping: columns to cut off at the right.
        target_height: height that is left.
        target_width: width that is left.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Raises:
        ValueError: not two of three are given, or one is negative.
        ShapeError: the rank is another one, or height or width are not known.
    """
    x, restore = batched(images, data_format, "crop_images")
    rows = top_cropping, bottom_cropping, target_height
    columns = left_cropping, right_cropping, target_width
    (top, _, h), (left, _, w) = _both_margins("crop_images", x, rows, columns, grow=False)
    return restore(get_item(x, (slice(None), slice(top, top + h), slice(left, left + w))))


def _pad_later(arguments: dict[str, Any]) -> Any:
    return _frame_later(arguments, "pad_images", "padding", True)


@sizes_later("image.pad_images", _pad_later)
def pad_images(
    images: Any,
    top_padding: int | None = None,
    left_padding: int | None = None,
    bottom_padding: int | None = None,
    right_padding: int | None = None,
    target_height: int | None = None,
    target_width: int | None = None,
    data_format: str | None = None,
) -> Tensor:
    """Images with zeros around them; two of three numbers are given for each direction.

    Args:
        images: one image (height, width, channels) or a batch (batch, height, width, channels).
        top_padding: rows to add at the top.
        left_padding: columns to add at the left.
        bottom_padding: rows to add at the bottom.
        right_padding: columns to add at the right.
        target_height: height of the result.
        target_width: width of the result.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Raises:
        ValueError: not two of three are given, or one is negative.
        ShapeError: the rank is another one, or height or width are not known.
    """
    x, restore = batched(images, data_format, "pad_images")
    rows = top_padding, bottom_padding, target_height
    columns = left_padding, right_padding, target_width
    (top, bottom, _), (left, right, _) = _both_margins("pad_images", x, rows, columns, grow=True)
    return restore(pad(x, ((0, 0), (top, bottom), (left, right), (0, 0))))
