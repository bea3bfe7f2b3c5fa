"""`keras.backend` before Keras 3: convolutions, pooling, padding and sizes of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.ops.convolutional.window_arguments import image_data_format
from trainkit.tf import image as tf_image
from trainkit.tf import nn as tf_nn

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import Shape, TensorLike
    from trainkit.core.variable import Variable


def conv1d(
    x: Tensor | Variable,
    kernel: Tensor | Variable,
    strides: int = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: int = 1,
) -> Tensor:
    """A convolution over the steps of sequences; `padding` may be `"causal"`.

    Args:
        x: `(batch, steps, channels)`.
        kernel: `(size, channels, filters)`.
        strides: of the window.
        padding: `"valid"`, `"same"` or `"causal"`.
        data_format: `"channels_last"` or `"channels_first"`; `image_data_format()` for `None`.
        dilation_rate: distance between the elements of the kernel.
    """
    if padding == "causal":
        before = dilation_rate * (kernel.shape[0] - 1)
        along = ((0, 0), (before, 0), (0, 0))
        if _layout(data_format) == "channels_first":
            along = ((0, 0), (0, 0), (before, 0))
        x, padding = ops.pad(x, along), "valid"
    return ops.conv(x, kernel, strides, padding, _layout(data_format), dilation_rate)


def conv2d(
    x: TensorLike,
    kernel: TensorLike,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Tensor:
    """A convolution of images `(batch, rows, columns, channels)`.

    Args:
        x: images.
        kernel: `(rows, columns, channels, filters)`.
        strides: of the window.
        padding: `"valid"` or `"same"`.
        data_format: `"channels_last"` or `"channels_first"`; `image_data_format()` for `None`.
        dilation_rate: distances between the elements of the kernel.

    Example:
        >>> tk.keras.backend.conv2d(tk.ones((1, 5, 5, 3)), tk.ones((3, 3, 3, 8))).shape
        TensorShape([1, 3, 3, 8])
    """
    return ops.conv(x, kernel, strides, padding, _layout(data_format), dilation_rate)


def conv3d(
    x: TensorLike,
    kernel: TensorLike,
    strides: Any = (1, 1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1, 1),
) -> Tensor:
    """A convolution of volumes; arguments as those of `conv2d` with one axis more."""
    return ops.conv(x, kernel, strides, padding, _layout(data_format), dilation_rate)


def conv2d_transpose(
    x: TensorLike,
    kernel: TensorLike,
    output_shape: Shape,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Tensor:
    """The transpose of `conv2d`.

    Args:
        x: images.
        kernel: `(rows, columns, filters, channels)`.
        output_shape: of the result, with the batch.
        strides: of the window.
        padding: `"valid"` or `"same"`.
        data_format: `"channels_last"` or `"channels_first"`; `image_data_format()` for `None`.
        dilation_rate: distances between the elements of the kernel.
    """
    layout = {"channels_last": "NHWC", "channels_first": "NCHW"}[_layout(data_format)]
    return tf_nn.conv2d_transpose(x, kernel, output_shape, strides, padding, layout, dilation_rate)


def depthwise_conv2d(
    x: TensorLike,
    depthwise_kernel: TensorLike,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Tensor:
    """A convolution of each channel by itself; the kernel is `(rows, columns, channels, times)`."""
    layout = _layout(data_format)
    return ops.depthwise_conv(x, depthwise_kernel, strides, padding, layout, dilation_rate)


def separable_conv2d(
    x: TensorLike,
    depthwise_kernel: TensorLike,
    pointwise_kernel: TensorLike,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Tensor:
    """`depthwise_conv2d`, then a product over the channels of each pixel."""
    layout = _layout(data_format)
    return ops.separable_conv(
        x, depthwise_kernel, pointwise_kernel, strides, padding, layout, dilation_rate
    )


def pool2d(
    x: TensorLike,
    pool_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    pool_mode: str = "max",
) -> Tensor:
    """The largest, or with `pool_mode="avg"` the mean, of each window of images.

    Raises:
        InvalidArgumentError: `pool_mode` is neither.
    """
    if pool_mode not in ("max", "avg"):
        raise InvalidArgumentError(f"pool2d: pool_mode must be 'max' or 'avg', got {pool_mode!r}")
    pool = ops.max_pool if pool_mode == "max" else ops.average_pool
    return pool(x, pool_size, strides, padding, _layout(data_format))


def pool3d(
    x: TensorLike,
    pool_size: Any,
    strides: Any = (1, 1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    pool_mode: str = "max",
) -> Tensor:
    """The same for volumes."""
    return pool2d(x, pool_size, strides, padding, data_format, pool_mode)


def spatial_2d_padding(
    x: TensorLike, padding: Any = ((1, 1), (1, 1)), data_format: str | None = None
) -> Tensor:
    """Images `(batch, rows, columns, channels)` with zeros around.

    Args:
        x: images.
        padding: how many rows before and after, how many columns before and after.
        data_format: `"channels_last"` or `"channels_first"`; `image_data_format()` for `None`.
    """
    return _pad(x, padding, data_format)


def spatial_3d_padding(
    x: TensorLike, padding: Any = ((1, 1), (1, 1), (1, 1)), data_format: str | None = None
) -> Tensor:
    """Volumes `(batch, depth, rows, columns, channels)` with zeros around.

    Args:
        x: volumes.
        padding: how many before and after along each of the three axes.
        data_format: `"channels_last"` or `"channels_first"`; `image_data_format()` for `None`.
    """
    return _pad(x, padding, data_format)


def temporal_padding(x: TensorLike, padding: tuple[int, int] = (1, 1)) -> Tensor:
    """Sequences `(batch, steps, features)` with zeros before and after their steps."""
    return ops.pad(x, ((0, 0), tuple(padding), (0, 0)))


def _pad(x: Any, padding: Any, data_format: str | None) -> Tensor:
    inner = tuple(tuple(pair) for pair in padding)
    none = (0, 0)
    if _layout(data_format) == "channels_first":
        return ops.pad(x, (none, none, *inner))
    return ops.pad(x, (none, *inner, none))


def resize_images(
    x: Tensor | Variable,
    height_factor: int,
    width_factor: int,
    data_format: str,
    interpolation: str = "nearest",
) -> Tensor:
    """Images enlarged by whole factors.

    Args:
        x: images with a batch axis.
        height_factor: of the rows.
        width_factor: of the columns.
        data_format: `"channels_last"` or `"channels_first"`.
        interpolation: a method of `tk.image.resize`.

    Example:
        >>> images = tk.ones((1, 2, 2, 3))
        >>> tk.keras.backend.resize_images(images, 2, 3, "channels_last").shape
        TensorShape([1, 4, 6, 3])
    """
    first = _layout(data_format) == "channels_first"
    images = ops.transpose(x, (0, 2, 3, 1)) if first else x
    size = (images.shape[1] * height_factor, images.shape[2] * width_factor)
    resized = tf_image.resize(images, size, interpolation)
    return ops.transpose(resized, (0, 3, 1, 2)) if first else resized


def resize_volumes(
    x: Tensor | Variable, depth_factor: int, height_factor: int, width_factor: int, data_format: str
) -> Tensor:
    """Volumes with each element repeated by whole factors along their three axes."""
    first = 2 if _layout(data_format) == "channels_first" else 1
    volumes = ops.repeat(x, depth_factor, first)
    return ops.repeat(ops.repeat(volumes, height_factor, first + 1), width_factor, first + 2)


def bias_add(
    x: Tensor | Variable, bias: Tensor | Variable, data_format: str | None = None
) -> Tensor:
    """`x` and a bias for each channel, or one with all axes of `x` but that of the batch.

    Raises:
        InvalidArgumentError: the bias has neither one axis nor all of those of `x` but the batch's.
    """
    bias = convert_to_tensor(bias)
    inner = len(x.shape) - 1
    if len(bias.shape) not in (1, inner):
        raise InvalidArgumentError(
            f"bias_add: the bias must have 1 or {inner} axes, its shape is {tuple(bias.shape)}"
        )
    if _layout(data_format) == "channels_first" and inner > 1:
        if len(bias.shape) == 1:
            bias = ops.reshape(bias, (-1, *[1] * (inner - 1)))
        else:
            bias = ops.moveaxis(bias, -1, 0)
    return x + bias


def _layout(data_format: str | None) -> str:
    layout = data_format or image_data_format()
    if layout not in ("channels_first", "channels_last"):
        raise InvalidArgumentError(
            f"data_format must be 'channels_last' or 'channels_first', got {data_format!r}"
        )
    return layout
