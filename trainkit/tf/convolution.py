"""Convolutions and pooling with TensorFlow's arguments, layouts named by letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.docstrings import describe_arguments as _describe_arguments
from trainkit.ops.convolutional.pooling import bordered_max_pool, max_pool_channels
from trainkit.ops.convolutional.sized_transposes import conv2d_transpose
from trainkit.ops.core.axis_numbers import plain

if TYPE_CHECKING:
    from trainkit.core.values.call_signatures import ConvolutionCall, PoolingCall
    from trainkit.core.values.type_aliases import Shape, TensorLike, WindowPadding


# ---------------------------------------------------------------------- convolution, pooling


def _layout(data_format: str | None) -> str:
    if data_format is None or data_format.upper() in ("NHWC", "NWC", "NDHWC"):
        return "channels_last"
    if data_format.upper() in ("NCHW", "NCW", "NCDHW"):
        return "channels_first"
    raise ValueError(f"data_format {data_format!r}; use N...C or NC...")


def _spatial(value: Any, rank: int, layout: str, name: str) -> tuple[int, ...]:
    """Strides, windows or dilations, one number per spatial axis; TensorFlow takes all axes too."""
    value = plain(value)
    if isinstance(value, int):
        return (value,) * rank
    values = tuple(value)
    if len(values) == rank + 2:
        outer = (values[0], values[-1]) if layout == "channels_last" else values[:2]
        if outer != (1, 1):
            raise ValueError(f"{name} {values}: batch and channels can only have 1")
        return values[1:-1] if layout == "channels_last" else values[2:]
    return values * rank if len(values) == 1 else values


def _pad(x: Any, padding: Any) -> tuple[Any, Any]:
    """The input and the kind of padding left to do; explicit borders are put on here.

    Raises:
        ValueError: `padding` is neither `"SAME"`, `"VALID"` nor a pair of sizes for each axis.
    """
    if isinstance(padding, str) and padding.upper() in ("SAME", "VALID"):
        return x, padding.lower()
    borders = plain(padding)
    if isinstance(borders, tuple) and all(isinstance(b, tuple) and len(b) == 2 for b in borders):
        return ops.pad(x, borders), "valid"
    raise ValueError(
        f"padding {padding!r}; use 'SAME', 'VALID', or a pair (before, after) for each axis"
    )


def _conv(rank: int, op: str) -> ConvolutionCall:
    def conv(
        input: Any,
        filters: Any,
        strides: Any,
        padding: WindowPadding,
        data_format: str | None = None,
        dilations: Any = None,
        name: Any = None,
    ) -> Tensor:
        layout = _layout(data_format)
        input, border = _pad(input, padding)
        return ops.conv(
            input,
            filters,
            strides=_spatial(strides, rank, layout, "strides"),
            padding=border,
            data_format=layout,
            dilation_rate=_spatial(dilations or 1, rank, layout, "dilations"),
        )

    conv.__name__ = conv.__qualname__ = op
    conv.__doc__ = f"""Convolution over {rank} spatial axes.

    Args:
        input: (batch, spatial..., channels), or as `data_format` says.
        filters: (spatial..., channels, outputs).
        strides: one int, or one for each spatial axis (or for all axes).
        padding: `"SAME"` or `"VALID"`.
        data_format: `"N...C"` (default) or `"NC..."`.
        dilations: like `strides`.
        name: not kept.
    """
    return conv


def conv1d(
    input: TensorLike,
    filters: TensorLike,
    stride: Any,
    padding: WindowPadding,
    data_format: str = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Convolution over 1 spatial axis.

    Args:
        input: (batch, width, channels), or as `data_format` says.
        filters: (width, channels, outputs).
        stride: one int, or one for each spatial axis (or for all axes).
        data_format: `"NWC"` or `"NCW"`.
        dilations: like `stride`.

    Example:
        >>> tk.nn.conv1d(tk.ones((1, 5, 1)), tk.ones((3, 1, 1)), 1, "VALID").numpy().ravel()
        array([3., 3., 3.], dtype=float32)
    """
    return _conv(1, "conv1d")(input, filters, stride, padding, data_format, dilations)


conv2d = _conv(2, "conv2d")
conv3d = _conv(3, "conv3d")


def convolution(
    input: TensorLike,
    filters: TensorLike,
    strides: Any = None,
    padding: WindowPadding = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Convolution over as many spatial axes as `filters` has.

    Args:
        filters: (spatial..., channels, outputs).

    Example:
        >>> tk.nn.convolution(tk.ones((1, 5, 5, 1)), tk.ones((3, 3, 1, 2)), padding="SAME").shape
        TensorShape([1, 5, 5, 2])
    """
    rank = len(convert_to_tensor(filters).shape) - 2
    return _conv(rank, "convolution")(input, filters, strides or 1, padding, data_format, dilations)


def depthwise_conv2d(
    input: TensorLike,
    filter: TensorLike,
    strides: Any,
    padding: WindowPadding,
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Each channel with filters of its own: filter (h, w, channels, multiplier).

    Args:
        filter: (height, width, channels, multiplier).

    Example:
        >>> x, filters = tk.ones((1, 5, 5, 2)), tk.ones((3, 3, 2, 1))
        >>> tk.nn.depthwise_conv2d(x, filters, (1, 1, 1, 1), "VALID").shape
        TensorShape([1, 3, 3, 2])
    """
    layout = _layout(data_format)
    input, border = _pad(input, padding)
    return ops.depthwise_conv(
        input,
        filter,
        strides=_spatial(strides, 2, layout, "strides"),
        padding=border,
        data_format=layout,
        dilation_rate=_spatial(dilations or 1, 2, layout, "dilations"),
    )


def separable_conv2d(
    input: TensorLike,
    depthwise_filter: TensorLike,
    pointwise_filter: TensorLike,
    strides: Any,
    padding: WindowPadding,
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """A depthwise convolution, then one over a single pixel.

    Args:
        depthwise_filter: (height, width, channels, multiplier).
        pointwise_filter: (1, 1, channels * multiplier, outputs).

    Example:
        >>> x, depthwise = tk.ones((1, 5, 5, 2)), tk.ones((3, 3, 2, 1))
        >>> pointwise = tk.ones((1, 1, 2, 4))
        >>> tk.nn.separable_conv2d(x, depthwise, pointwise, (1, 1, 1, 1), "VALID").shape
        TensorShape([1, 3, 3, 4])
    """
    x = depthwise_conv2d(input, depthwise_filter, strides, padding, data_format, dilations)
    return conv2d(x, pointwise_filter, 1, "VALID", data_format)


def _pool(rank: int, op: str, kind: str) -> PoolingCall:
    def pool_windows(
        input: Any,
        ksize: Any,
        strides: Any,
        padding: WindowPadding,
        data_format: str | None = None,
        name: Any = None,
    ) -> Tensor:
        layout = _layout(data_format)
        is_listed = kind == "max" and isinstance(padding, tuple | list)
        if not is_listed and str(padding).upper() not in ("SAME", "VALID"):
            raise ValueError(f"{op}: padding {padding!r}; use 'SAME' or 'VALID'")
        function = bordered_max_pool if kind == "max" else ops.average_pool
        return function(
            input,
            _spatial(ksize, rank, layout, "ksize"),
            strides=_spatial(strides, rank, layout, "strides"),
            padding=padding,
            data_format=layout,
        )

    summary = "Greatest value" if kind == "max" else "Mean"
    borders = ", or a pair (before, after) for each axis" if kind == "max" else ""
    pool_windows.__name__ = pool_windows.__qualname__ = op
    pool_windows.__doc__ = f"""{summary} of each window of `ksize`, over {rank} spatial axes.

    Args:
        input: (batch, spatial..., channels), or as `data_format` says.
        ksize: one int, or one for each spatial axis (or for all axes).
        strides: like `ksize`.
        padding: `"SAME"` or `"VALID"`{borders}.
        data_format: `"N...C"` (default) or `"NC..."`.
        name: not kept.

    Raises:
        ValueError: `padding` is something else.
    """
    return pool_windows


max_pool1d = _pool(1, "max_pool1d", "max")
max_pool2d = _pool(2, "max_pool2d", "max")
max_pool3d = _pool(3, "max_pool3d", "max")
avg_pool1d = _pool(1, "avg_pool1d", "avg")
avg_pool2d = _pool(2, "avg_pool2d", "avg")
avg_pool3d = _pool(3, "avg_pool3d", "avg")


_MAX_POOLS = {rank: _pool(rank, "max_pool", "max") for rank in (1, 2, 3)}


def max_pool(
    input: TensorLike,
    ksize: Any,
    strides: Any,
    padding: WindowPadding,
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Greatest value of each window, over all spatial axes.

    Args:
        ksize: sizes of a window: one int, or one for each spatial axis (or for all axes).

    A window `(1, ..., 1, k)` takes the greatest of `k` channels that lie side by side; its stride
    is the same, and `k` divides the channels.

    Raises:
        InvalidArgumentError: a window over channels is another.

    Example:
        >>> tk.nn.max_pool(tk.ones((1, 4, 6, 3)), 2, 2, "VALID").shape
        TensorShape([1, 2, 3, 3])
        >>> tk.nn.max_pool(tk.ones((1, 4, 6, 8)), (1, 1, 1, 4), (1, 1, 1, 4), "VALID").shape
        TensorShape([1, 4, 6, 2])
    """
    window = plain(ksize)
    if isinstance(window, (tuple, list)) and len(window) > 3 and window[-1] != 1:
        if _layout(data_format) == "channels_last":
            return max_pool_channels(input, tuple(window), plain(strides))
    rank = len(convert_to_tensor(input).shape) - 2
    return _MAX_POOLS[rank](input, ksize, strides, padding, data_format)


def avg_pool(
    input: TensorLike,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Mean of each window, over all spatial axes.

    Args:
        ksize: sizes of a window: one int, or one for each spatial axis (or for all axes).

    Example:
        >>> tk.nn.avg_pool(tk.ones((1, 4, 6, 3)), 2, 2, "VALID").shape
        TensorShape([1, 2, 3, 3])
    """
    rank = len(convert_to_tensor(input).shape) - 2
    return _pool(rank, "avg_pool", "avg")(input, ksize, strides, padding, data_format)


def pool(
    input: TensorLike,
    window_shape: Any,
    pooling_type: str,
    strides: Any = None,
    padding: str = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Greatest value or mean of windows over 1, 2 or 3 spatial axes.

    Args:
        window_shape: one int for each spatial axis.
        pooling_type: `"MAX"` or `"AVG"`.
        strides: one int for each spatial axis; 1 by default.
        dilations: only 1 is supported.

    Raises:
        ValueError: a setting is none of those above.
        InvalidArgumentError: `dilations` are above 1.

    Example:
        >>> tk.nn.pool(tk.ones((1, 4, 6, 3)), (2, 2), "MAX", strides=(2, 2)).shape
        TensorShape([1, 2, 3, 3])
    """
    window = plain(window_shape)
    rank = 1 if isinstance(window, int) else len(window)
    rates = plain(1 if dilations is None else dilations)
    if any(r != 1 for r in ((rates,) if isinstance(rates, int) else rates)):
        raise InvalidArgumentError(f"pool: dilations {rates} are not supported; only 1 is")
    kinds = {"MAX": max_pool, "AVG": avg_pool}
    if pooling_type.upper() not in kinds:
        raise ValueError(f"pool: pooling_type {pooling_type!r}; use 'MAX' or 'AVG'")
    if not isinstance(padding, str) or padding.upper() not in ("SAME", "VALID"):
        raise ValueError(f"pool: padding {padding!r}; use 'SAME' or 'VALID'")
    steps = (1,) * rank if strides is None else strides
    return kinds[pooling_type.upper()](input, window, steps, padding, data_format)


def atrous_conv2d(
    value: TensorLike, filters: TensorLike, rate: int, padding: str, name: str | None = None
) -> Tensor:
    """A convolution of images (n, h, w, c) with filters whose elements are `rate` pixels apart.

    Args:
        value: (batch, height, width, channels).
        filters: (height, width, channels, outputs).
        rate: distance between the elements of the kernel, in pixels.

    Example:
        >>> tk.nn.atrous_conv2d(tk.ones((1, 8, 8, 2)), tk.ones((3, 3, 2, 4)), 2, "SAME").shape
        TensorShape([1, 8, 8, 4])
    """
    return conv2d(value, filters, 1, padding, dilations=int(plain(rate)))


def atrous_conv2d_transpose(
    value: TensorLike,
    filters: TensorLike,
    output_shape: Shape,
    rate: int,
    padding: str,
    name: str | None = None,
) -> Tensor:
    """The transpose of `atrous_conv2d`; filters (h, w, outputs, channels).

    Args:
        value: (batch, height, width, channels).
        filters: (height, width, outputs, channels).
        output_shape: of the result, all axes.
        rate: distance between the elements of the kernel, in pixels.

    Example:
        >>> x, filters = tk.ones((1, 4, 4, 2)), tk.ones((3, 3, 5, 2))
        >>> tk.nn.atrous_conv2d_transpose(x, filters, (1, 4, 4, 5), 2, "SAME").shape
        TensorShape([1, 4, 4, 5])
    """
    return conv2d_transpose(value, filters, output_shape, 1, padding, dilations=int(plain(rate)))


_describe_arguments(
    globals(),
    """
    padding: `"SAME"` or `"VALID"`.
    input: (batch, spatial..., channels), or as `data_format` says.
    strides: one int, or one for each spatial axis (or for all axes).
    data_format: `"N...C"` (default) or `"NC..."`.
    dilations: distances between the elements of a kernel, like `strides`.
    """,
)


_describe_arguments(globals(), "name: not kept.", package="trainkit")
