"""Windows over images beyond means and maxima: dilation, erosion.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.errors import ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.concat_and_split import stack
from trainkit.ops.arrays.pad_and_roll import flip, pad
from trainkit.ops.arrays.shaping import reshape
from trainkit.ops.convolutional.window_arguments import image_pair
from trainkit.ops.math.elementwise import add, negative
from trainkit.ops.math.max_and_argmax import max as max_


def _ends(size: int, extent: int, stride: int, padding: str, op: str) -> tuple[int, int, int]:
    """Positions of padding before and after, and the number of windows."""
    if padding.upper() == "SAME":
        count = -(-size // stride)
        total = max((count - 1) * stride + extent - size, 0)
        return total // 2, total - total // 2, count
    if padding.upper() != "VALID":
        raise ValueError(f"{op}: padding {padding!r}; use 'SAME' or 'VALID'")
    if extent > size:
        raise ShapeError(f"{op}: a window of {extent} is larger than the image, {size}")
    return 0, 0, (size - extent) // stride + 1


def _shift(
    x: Tensor, window: Any, strides: Any, rates: Any, padding: str, outside: Any, op: str
) -> list[Tensor]:
    """For each offset in a window the image (n, h', w', c) of what it meets, row by row."""
    if len(x.shape) != 4:
        raise ShapeError(f"{op}: needs (batch, height, width, channels), got {tuple(x.shape)}")
    reach = [(window[k] - 1) * rates[k] + 1 for k in (0, 1)]
    rows = _ends(x.shape[1], reach[0], strides[0], padding, op)
    columns = _ends(x.shape[2], reach[1], strides[1], padding, op)
    if any(rows[:2] + columns[:2]):
        x = pad(x, ((0, 0), rows[:2], columns[:2], (0, 0)), constant_values=outside)
    images = []
    for i in range(window[0]):
        for j in range(window[1]):
            top, left = i * rates[0], j * rates[1]
            down = slice(top, top + (rows[2] - 1) * strides[0] + 1, strides[0])
            across = slice(left, left + (columns[2] - 1) * strides[1] + 1, strides[1])
            images.append(x[:, down, across, :])
    return images


def _lowest(x: Tensor) -> Any:
    return -np.inf if x.dtype.is_floating else x.dtype.min


def dilation2d(
    input: TensorLike,
    filters: TensorLike,
    strides: Any,
    padding: str,
    data_format: str,
    dilations: Any,
    name: str | None = None,
) -> Tensor:
    """Greyscale dilation: max over the elements of a window of (input + filter).

    Args:
        input: (batch, height, width, channels).
        filters: (height, width, channels).
        strides: of windows, four or two ints.
        padding: `"SAME"` or `"VALID"`.
        data_format: only `"NHWC"`.
        dilations: distances between elements, like `strides`.

    Raises:
        ValueError: a setting is none of those above.
        ShapeError: the shapes do not fit.

    Example:
        >>> x, filters = tk.ones((1, 4, 4, 1)), tk.zeros((2, 2, 1))
        >>> tk.nn.dilation2d(x, filters, (1, 1, 1, 1), "VALID", "NHWC", (1, 1, 1, 1)).shape
        TensorShape([1, 3, 3, 1])
    """
    op = "dilation2d"
    if data_format.upper() != "NHWC":
        raise ValueError(f"{op}: data_format {data_format!r} is not supported; use NHWC")
    x, weights = convert_to_tensor(input), convert_to_tensor(filters)
    if len(weights.shape) != 3 or x.shape[-1] != weights.shape[-1]:
        raise ShapeError(
            f"{op}: filters {tuple(weights.shape)} must be (height, width, channels) for an input "
            f"of shape {tuple(x.shape)}"
        )
    step, rate = image_pair(strides, "strides", op), image_pair(dilations, "dilations", op)
    window = tuple(weights.shape[:2])
    parts = _shift(x, window, step, rate, padding, _lowest(x), op)
    rows = reshape(weights, (-1, weights.shape[-1]))
    sums = [add(part, rows[k]) for k, part in enumerate(parts)]
    return max_(stack(sums, axis=-1), axis=-1)


def erosion2d(
    value: TensorLike,
    filters: TensorLike,
    strides: Any,
    padding: str,
    data_format: str,
    dilations: Any,
    name: str | None = None,
) -> Tensor:
    """Greyscale erosion: min over the elements of a window of (value - filter).

    Dilation of -value by the mirrored filter, with its sign changed; arguments as `dilation2d`.

    Args:
        value: (batch, height, width, channels).
        filters: (height, width, channels).
        strides: of windows, four or two ints.
        padding: `"SAME"` or `"VALID"`.
        data_format: only `"NHWC"`.
        dilations: like `strides`.

    Example:
        >>> x, filters = tk.ones((1, 4, 4, 1)), tk.zeros((2, 2, 1))
        >>> tk.nn.erosion2d(x, filters, (1, 1, 1, 1), "VALID", "NHWC", (1, 1, 1, 1)).shape
        TensorShape([1, 3, 3, 1])
    """
    mirrored = flip(convert_to_tensor(filters), (0, 1))
    turned = negative(convert_to_tensor(value))
    dilated = dilation2d(turned, mirrored, strides, padding, data_format, dilations)
    eroded: Tensor = negative(dilated)
    return eroded
