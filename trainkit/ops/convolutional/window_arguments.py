"""Arguments of operations on windows, and the sizes that come out."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor
from trainkit.kernels.convolution import sliding_windows
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.ops.arrays.axes import transpose
from trainkit.ops.core.axis_numbers import plain

Sizes = tuple[int, ...]
Dims = tuple[int | None, ...]


def spatial_tuple(value: Any, rank: int, op: str, name: str) -> Sizes:
    """`value`, an int or one int for each of `rank` axes, as a tuple of ints above 0."""
    # what a layer holds already, in each of its calls
    if type(value) is tuple and len(value) == rank:
        for n in value:
            if type(n) is not int or n < 1:
                break
        else:
            return value
    sizes = (value,) * rank if hasattr(value, "__index__") else tuple(value)
    if len(sizes) != rank or not all(hasattr(n, "__index__") and n.__index__() > 0 for n in sizes):
        raise InvalidArgumentError(
            f"{op}: {name}={value!r} must be an int above 0, or {rank} of them for {rank} spatial "
            "axes"
        )
    return tuple(n.__index__() for n in sizes)


def image_pair(value: Any, name: str, op: str) -> tuple[int, int]:
    """Height and width of one int, of two, or of four of which batch and channels have 1.

    Raises:
        ValueError: `value` is none of these.
    """
    if type(value) is int and value > 0:  # in most calls
        return value, value
    value = plain(value)
    values = (value, value) if isinstance(value, int) else tuple(value)
    if len(values) == 1:
        values = values * 2
    if len(values) == 4:
        if (values[0], values[3]) != (1, 1):
            raise ValueError(f"{op}: {name} {values}: batch and channels can only have 1")
        values = values[1:3]
    if len(values) != 2 or min(values) < 1:
        raise ValueError(f"{op}: {name} {value!r} must be one int above 0, or two, or four")
    return int(values[0]), int(values[1])


def checked_padding(padding: Any, rank: int, op: str) -> Any:
    """`padding` as "valid", "same" or a tuple of pairs."""
    if isinstance(padding, str):
        if padding.lower() in ("valid", "same"):
            return padding.lower()
    elif padding is not None and len(padding) == rank:
        pairs = tuple(tuple(int(n) for n in pair) for pair in padding)
        if all(len(pair) == 2 and min(pair) >= 0 for pair in pairs):
            return pairs
    raise InvalidArgumentError(
        f"{op}: padding={padding!r} must be 'valid', 'same' or {rank} pairs (before, after)"
    )


_FORMATS = ("channels_last", "channels_first")
_image_data_format = "channels_last"


def image_data_format() -> str:
    """Where channels stand when nothing is said: `"channels_last"` unless it was changed.

    Example:
        >>> tk.keras.config.image_data_format()
        'channels_last'
    """
    return _image_data_format


def set_image_data_format(data_format: str) -> None:
    """Set where channels stand in operations and layers that are not given it.

    Args:
        data_format: `"channels_last"` or `"channels_first"`.

    Raises:
        ValueError: it is neither.

    Example:
        >>> tk.keras.config.set_image_data_format("channels_last")
        >>> tk.keras.config.image_data_format()
        'channels_last'
    """
    global _image_data_format
    if data_format not in _FORMATS:
        raise ValueError(f"set_image_data_format: {data_format!r} is none of {_FORMATS}")
    _image_data_format = data_format


def is_channels_first(data_format: str | None, op: str) -> bool:
    """Whether the channels are axis 1; `None` stands for `image_data_format()`."""
    data_format = data_format or _image_data_format
    if data_format not in _FORMATS:
        raise InvalidArgumentError(
            f"{op}: data_format={data_format!r} must be 'channels_last' or 'channels_first'"
        )
    return data_format == "channels_first"


def channels_last(x: Tensor) -> Tensor:
    """(batch, channels, spatial...) as (batch, spatial..., channels)."""
    return transpose(x, axes=(0, *range(2, len(x.shape)), 1))


def channels_second(x: Tensor) -> Tensor:
    """(batch, spatial..., channels) as (batch, channels, spatial...)."""
    rank = len(x.shape)
    return transpose(x, axes=(0, rank - 1, *range(1, rank - 1)))


def windowed_dims(
    op: str, sizes: Dims, window: Sizes, strides: Sizes, padding: Any, dilation: Sizes
) -> Dims:
    """The number of windows along each axis, `None` where a size is not known.

    Raises:
        ShapeError: a window is larger than the input.
    """
    result: list[int | None] = []
    pads = sliding_windows.per_axis(padding, len(window))
    for axis, (n, k, s, pad, d) in enumerate(
        zip(sizes, window, strides, pads, dilation, strict=True)
    ):
        count = None if n is None else sliding_windows.output_size(n, k, s, pad, d)
        if count is not None and count < 1 and n != 0:
            raise ShapeError(
                f"{op}: along spatial axis {axis} the window spans {sliding_windows.reach(k, d)} "
                "positions, and the "
                f"input has {n} with padding {pad!r}.\n  input   {sizes}\n  window  {window}\n"
                "Use padding='same', a smaller window, or a larger input."
            )
        result.append(None if count is None else max(count, 0))
    return tuple(result)


@lru_cache(maxsize=1024)
def checked_windows(
    op: str, sizes: Sizes, window: Sizes, strides: Sizes, padding: Any, dilation: Sizes
) -> Windows:
    """Where windows lie on arrays of such sizes.

    Raises:
        ShapeError: a window is larger than the input.
    """
    checked_padding(padding, len(window), op)
    windowed_dims(op, sizes, window, strides, padding, dilation)
    return sliding_windows.placed(sizes, window, strides, padding, dilation)
