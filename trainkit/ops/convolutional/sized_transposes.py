"""Transposed convolutions as TensorFlow has them: the shape of the result is an argument.

SAME padding cuts the full result to `output_shape` as the gradient of a convolution does, so every
size that the forward convolution could have come from is possible, not only size * stride.
"""

from __future__ import annotations

from typing import Any

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.docstrings import describe_arguments
from trainkit.core.values.type_aliases import Shape, TensorLike
from trainkit.ops.arrays.axes import moveaxis
from trainkit.ops.arrays.pad_and_roll import pad
from trainkit.ops.convolutional.transposed_convolution import conv_transpose as conv_transpose_
from trainkit.ops.core.axis_numbers import plain


def _axis_numbers(value: Any, rank: int, first: bool, name: str, op: str) -> tuple[int, ...]:
    value = plain(1 if value is None else value)
    values = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(values) == rank + 2:
        values = values[2:] if first else values[1:-1]
    values = values * rank if len(values) == 1 else values
    if len(values) != rank:
        raise InvalidArgumentError(f"{op}: {name} {value!r} must be one int or {rank} of them")
    return values


def _cut_of(
    size: int, positions: int, extent: int, stride: int, same: bool, op: str
) -> tuple[int, int, int]:
    """Start and stop of the part that is kept, and the zeros behind it.

    Raises:
        InvalidArgumentError: a convolution of so many `positions` does not give `size`.
    """
    full = (size - 1) * stride + extent
    forward = -(-positions // stride) if same else -(-(positions - extent + 1) // stride)
    if forward != size:
        raise InvalidArgumentError(
            f"{op}: output_shape has {positions} positions, from which a convolution with stride "
            f"{stride} over windows of {extent} makes {forward}; the input has {size}"
        )
    before = max((size - 1) * stride + extent - positions, 0) // 2 if same else 0
    stop = min(before + positions, full)
    return before, stop, positions - (stop - before)


def conv_transpose(
    input: TensorLike,
    filters: TensorLike,
    output_shape: Shape,
    strides: Any,
    padding: str = "SAME",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The transpose (gradient by the input) of a convolution, over 1, 2 or 3 spatial axes.

    Args:
        filters: (window..., outputs, channels).

    Raises:
        InvalidArgumentError: `output_shape` is none that these arguments give.
        ValueError: `padding` or `data_format` is another one.

    Example:
        >>> tk.nn.conv_transpose(tk.ones((1, 3, 2)), tk.ones((3, 4, 2)), (1, 6, 4), 2).shape
        TensorShape([1, 6, 4])
    """
    rank = len(convert_to_tensor(filters).shape) - 2
    return _transpose(rank, input, filters, output_shape, strides, padding, data_format, dilations)


def _transpose(
    rank: int,
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any,
    data_format: str | None,
    dilations: Any,
) -> Tensor:
    op = f"conv{rank}d_transpose"
    if not isinstance(padding, str) or padding.upper() not in ("SAME", "VALID"):
        raise ValueError(f"{op}: padding {padding!r}; use 'SAME' or 'VALID'")
    x, weights = convert_to_tensor(input), convert_to_tensor(filters)
    first = data_format is not None and data_format.upper().startswith("NC")
    if first:
        x = moveaxis(x, 1, -1)
    stride = _axis_numbers(strides, rank, first, "strides", op)
    dilation = _axis_numbers(dilations, rank, first, "dilations", op)
    sizes = _spatial_part(plain(output_shape), x, weights, rank, first, op)
    y = conv_transpose_(x, weights, stride, "valid", dilation_rate=dilation)
    y = _trim(y, x, weights, sizes, stride, dilation, padding.upper() == "SAME", op)
    return moveaxis(y, -1, 1) if first else y


def _spatial_part(
    output_shape: Any, x: Tensor, weights: Tensor, rank: int, first: bool, op: str
) -> tuple[int, ...]:
    output_shape = (output_shape,) if isinstance(output_shape, int) else tuple(output_shape)
    sizes: tuple[int, ...] = output_shape
    if len(output_shape) == rank:
        return sizes
    sizes = output_shape[2:] if first else output_shape[1:-1]
    channels = output_shape[1] if first else output_shape[-1]
    if len(output_shape) != rank + 2 or channels != weights.shape[-2]:
        raise InvalidArgumentError(
            f"{op}: output_shape {output_shape} must have {rank + 2} sizes and the "
            f"{weights.shape[-2]} channels that filters of shape {tuple(weights.shape)} give"
        )
    batch = x.shape[0]
    if (
        batch is not None
        and isinstance(output_shape[0], int)
        and output_shape[0] not in (batch, -1)
    ):
        raise InvalidArgumentError(
            f"{op}: output_shape {output_shape} is for a batch of {output_shape[0]}, the input "
            f"has {batch}"
        )
    return sizes


def _trim(
    y: Tensor,
    x: Tensor,
    weights: Tensor,
    sizes: Any,
    stride: Any,
    dilation: Any,
    same: bool,
    op: str,
) -> Tensor:
    slices, behind = [], []
    for axis, size in enumerate(sizes):
        extent = (weights.shape[axis] - 1) * dilation[axis] + 1
        start, stop, zeros = _cut_of(x.shape[axis + 1], size, extent, stride[axis], same, op)
        slices.append(slice(start, stop))
        behind.append((0, zeros))
    y = y[(slice(None), *slices)]
    return pad(y, ((0, 0), *behind, (0, 0))) if any(z for _, z in behind) else y


def conv1d_transpose(
    input: TensorLike,
    filters: TensorLike,
    output_shape: Shape,
    strides: Any,
    padding: str = "SAME",
    data_format: str = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The transpose of `conv1d`; filters (width, outputs, channels). See `conv_transpose`.

    Args:
        filters: (width, outputs, channels).

    Example:
        >>> tk.nn.conv1d_transpose(tk.ones((1, 3, 2)), tk.ones((3, 4, 2)), (1, 6, 4), 2).shape
        TensorShape([1, 6, 4])
    """
    return _transpose(1, input, filters, output_shape, strides, padding, data_format, dilations)


def conv2d_transpose(
    input: TensorLike,
    filters: TensorLike,
    output_shape: Shape,
    strides: Any,
    padding: str = "SAME",
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The transpose of `conv2d`; filters (h, w, outputs, channels). See `conv_transpose`.

    Args:
        filters: (height, width, outputs, channels).

    Example:
        >>> x, filters = tk.ones((1, 3, 3, 2)), tk.ones((3, 3, 4, 2))
        >>> tk.nn.conv2d_transpose(x, filters, (1, 6, 6, 4), 2).shape
        TensorShape([1, 6, 6, 4])
    """
    return _transpose(2, input, filters, output_shape, strides, padding, data_format, dilations)


def conv3d_transpose(
    input: TensorLike,
    filters: TensorLike,
    output_shape: Shape,
    strides: Any,
    padding: str = "SAME",
    data_format: str = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The transpose of `conv3d`; filters (d, h, w, outputs, channels). See `conv_transpose`.

    Args:
        filters: (depth, height, width, outputs, channels).

    Example:
        >>> x, filters = tk.ones((1, 2, 2, 2, 2)), tk.ones((3, 3, 3, 4, 2))
        >>> tk.nn.conv3d_transpose(x, filters, (1, 4, 4, 4, 4), 2).shape
        TensorShape([1, 4, 4, 4, 4])
    """
    return _transpose(3, input, filters, output_shape, strides, padding, data_format, dilations)


describe_arguments(
    globals(),
    """
    input: (batch, spatial..., channels), or as `data_format` says.
    output_shape: of the result, all axes; or the spatial ones alone.
    strides: one int, or one for each spatial axis (or for all axes).
    padding: `"SAME"` or `"VALID"`.
    data_format: `"N...C"` (default) or `"NC..."`.
    dilations: like `strides`.
    """,
)
