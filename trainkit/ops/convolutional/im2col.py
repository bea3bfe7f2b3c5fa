"""Windows of images as columns, and columns added back into images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import ARRANGEMENT, SHAPE, Absent
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.convolutional.window_arguments import Sizes, spatial_tuple, windowed_dims
from trainkit.ops.vmap_rules.shared_rules import folded


def _windows_of(
    sizes: Any, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> Windows:
    return Windows(sizes, kernel_size, stride, tuple((p, p) for p in padding), dilation)


def _unfold_rule(
    x: Spec, *, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> Spec:
    pads = tuple((p, p) for p in padding)
    out = windowed_dims("unfold", x.shape[2:], kernel_size, stride, pads, dilation)
    channels = None if x.shape[1] is None else x.shape[1] * math.prod(kernel_size)
    count = None if None in out else math.prod(n or 0 for n in out)
    return Spec((x.shape[0], channels, count), x.dtype)


@primitive(_unfold_rule, name="unfold", semantics=ARRANGEMENT)
def _unfold(
    xp: ArrayModule, x: Array, *, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> Array:
    """Windows of (batch, channels, height, width): (batch, channels * elements, windows)."""
    w = _windows_of(x.shape[2:], kernel_size, dilation, padding, stride)
    windowed_dims("unfold", x.shape[2:], kernel_size, stride, w.pads, dilation)
    view = w.view(xp, w.pad(xp, x.transpose(0, 2, 3, 1)))  # (batch, out, out, *window, channels)
    columns = view.transpose(0, 5, 3, 4, 1, 2)
    elements, count = math.prod(kernel_size), math.prod(w.out)
    return columns.reshape(x.shape[0], x.shape[1] * elements, count)


def _fold_columns(xp: ArrayModule, x: Array, w: Windows) -> Array:
    """Columns (batch, channels * elements, windows) added into images."""
    batch, elements = x.shape[0], math.prod(w.window)
    channels = x.shape[1] // elements
    columns = x.reshape(batch, channels, *w.window, *w.out)
    padded = xp.zeros((batch, *w.padded, channels), x.dtype)
    for a, b in product(*map(range, w.window)):
        padded[w.offset((a, b))] += columns[:, :, a, b].transpose(0, 2, 3, 1)
    return xp.ascontiguousarray(padded[w.interior].transpose(0, 3, 1, 2))


@primitive(
    lambda g, x, **settings: Spec(x.shape, g.dtype),
    name="unfold_gradient",
    semantics=ARRANGEMENT,
    reads={1: SHAPE},
)
def unfold_gradient(
    xp: ArrayModule,
    g: Array,
    x: Array,
    *,
    kernel_size: Sizes,
    dilation: Sizes,
    padding: Sizes,
    stride: Sizes,
) -> Array:
    """Columns added into images of the shape of `x`."""
    return _fold_columns(xp, g, _windows_of(x.shape[2:], kernel_size, dilation, padding, stride))


_unfold.gradients(lambda g, y, x, **s: unfold_gradient(g, x, **s))
unfold_gradient.gradients(lambda gg, y, g, x, **s: _unfold(gg, **s), None)
_unfold.batch_by(folded(0))
unfold_gradient.batch_by(folded(0, likes=(1,)))
unfold_gradient.declare(stackable=Absent("it adds up numbers"))


def _fold_rule(x: Spec, *, output_size: Sizes, kernel_size: Sizes, **settings: Any) -> Spec:
    elements = math.prod(kernel_size)
    if x.shape[1] is not None and x.shape[1] % elements:
        raise ShapeError(
            f"fold: the input {tuple(x.shape)} has {x.shape[1]} rows, which is no multiple of the "
            f"{elements} elements of "
            f"kernel_size={kernel_size}"
        )
    w = _windows_of(output_size, kernel_size, **settings)
    count = math.prod(w.out)
    if x.shape[2] not in (None, count) or min(w.out) < 1:
        raise ShapeError(
            f"fold: the input {tuple(x.shape)} has {x.shape[2]} columns, an output of "
            f"{output_size} has "
            f"{w.out[0]} x {w.out[1]} windows"
        )
    return Spec(
        (x.shape[0], None if x.shape[1] is None else x.shape[1] // elements, *output_size), x.dtype
    )


@primitive(_fold_rule, name="fold", semantics=ARRANGEMENT)
def _fold(
    xp: ArrayModule,
    x: Array,
    *,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes,
    padding: Sizes,
    stride: Sizes,
) -> Array:
    """Columns added into images of the size `output_size`."""
    _fold_rule(
        x,
        output_size=output_size,
        kernel_size=kernel_size,
        dilation=dilation,
        padding=padding,
        stride=stride,
    )
    return _fold_columns(xp, x, _windows_of(output_size, kernel_size, dilation, padding, stride))


_fold.batch_by(folded(0))


def _fold_gradient(
    g: Tensor, y: Tensor, x: Tensor, *, output_size: Sizes, **settings: Any
) -> Tensor:
    result: Tensor = _unfold(g, **settings)
    return result


_fold.gradients(_fold_gradient)
_fold.declare(stackable=Absent("it adds up numbers"))


def _settings(
    op: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> dict[str, Sizes]:
    pads = (padding, padding) if hasattr(padding, "__index__") else tuple(padding)
    if len(pads) != 2 or min(pads) < 0:
        raise InvalidArgumentError(
            f"{op}: padding={padding!r} must be an int of at least 0, or two"
        )
    return {
        "kernel_size": spatial_tuple(kernel_size, 2, op, "kernel_size"),
        "dilation": spatial_tuple(dilation, 2, op, "dilation"),
        "padding": tuple(int(p) for p in pads),
        "stride": spatial_tuple(stride, 2, op, "stride"),
    }


def unfold(
    x: TensorLike,
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor:
    """All windows of a batch of images, each as a column.

    Args:
        x: (batch, channels, height, width).
        kernel_size: height and width of a window, one int for both.
        dilation: distance between the elements of a window.
        padding: zeros around the image, on either side.
        stride: distance between windows.

    Returns:
        (batch, channels * elements, windows), the channel changing slowest.

    Raises:
        ShapeError: the rank is not 4, or a window is larger than the image.
        InvalidArgumentError: a setting is none of those above.

    Example:
        >>> tk.ops.unfold(tk.ones((1, 1, 4, 4)), 2, stride=2).shape
        TensorShape([1, 4, 4])
    """
    images = as_tensor(x)
    if len(images.shape) != 4:
        raise ShapeError(
            f"unfold: the input must be (batch, channels, height, width), it has shape "
            f"{tuple(images.shape)}"
        )
    columns: Tensor = _unfold(images, **_settings("unfold", kernel_size, dilation, padding, stride))
    return columns


def fold(
    x: TensorLike,
    output_size: int | Sequence[int],
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor:
    """Columns as `unfold` makes them, added back into images; where windows overlap they add up.

    Args:
        x: (batch, channels * elements, windows).
        output_size: height and width of the images, one int for both.
        kernel_size: as for `unfold`.
        dilation: as for `unfold`.
        padding: as for `unfold`.
        stride: as for `unfold`.

    Returns:
        (batch, channels, height, width).

    Raises:
        ShapeError: the input does not fit the windows of such an image.
        InvalidArgumentError: a setting is none of those above.

    Example:
        >>> tk.ops.fold(tk.ones((1, 4, 4)), (4, 4), 2, stride=2).shape
        TensorShape([1, 1, 4, 4])
    """
    columns = as_tensor(x)
    if len(columns.shape) != 3:
        raise ShapeError(
            f"fold: the input must be (batch, channels * elements, windows), it has shape "
            f"{tuple(columns.shape)}"
        )
    settings = _settings("fold", kernel_size, dilation, padding, stride)
    size = spatial_tuple(output_size, 2, "fold", "output_size")
    images: Tensor = _fold(columns, output_size=size, **settings)
    return images
