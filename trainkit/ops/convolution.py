"""Convolutions in one to three dimensions and their gradients, each an operation of its own.

Inside, arrays are `(batch, spatial..., channels)`; with `data_format="channels_first"` they are
transposed on the way in and out. As in all deep learning, "convolution" is cross-correlation.
Source: Dumoulin and Visin 2016, "A guide to convolution arithmetic for deep learning",
arXiv:1603.07285.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit.core import dtypes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.primitive import primitive
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.kernels import conv_plain, windows
from trainkit.kernels.windows import Windows
from trainkit.ops.shaping import as_tensor, reshape, transpose

Sizes = tuple[int, ...]
Dims = tuple[int | None, ...]

# ------------------------------------------------------------------ arguments


def spatial_tuple(value: Any, rank: int, op: str, name: str) -> Sizes:
    """`value`, an int or one int for each of `rank` axes, as a tuple of ints above 0."""
    sizes = (value,) * rank if hasattr(value, "__index__") else tuple(value)
    if len(sizes) != rank or not all(hasattr(n, "__index__") and n.__index__() > 0 for n in sizes):
        raise InvalidArgumentError(
            f"{op}: {name}={value!r} must be an int above 0, or {rank} of them for {rank} spatial "
            "axes"
        )
    return tuple(n.__index__() for n in sizes)


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


def is_channels_first(data_format: str | None, op: str) -> bool:
    """Whether the channels are axis 1; `None` stands for "channels_last"."""
    if data_format not in (None, "channels_last", "channels_first"):
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


def _checked_ranks(op: str, x: Tensor, kernel: Tensor) -> int:
    rank = len(x.shape) - 2
    if rank not in (1, 2, 3) or len(kernel.shape) != rank + 2:
        raise ShapeError(
            f"{op}: the input must have 1, 2 or 3 spatial axes between batch and channels, and "
            "the kernel as "
            f"many axes as the input.\n  input   {tuple(x.shape)}\n  kernel  {tuple(kernel.shape)}"
        )
    return rank


# ------------------------------------------------------------------ shape rules


def windowed_dims(
    op: str, sizes: Dims, window: Sizes, strides: Sizes, padding: Any, dilation: Sizes
) -> Dims:
    """The number of windows along each axis, `None` where a size is not known.

    Raises:
        ShapeError: a window is larger than the input.
    """
    result: list[int | None] = []
    pads = windows.per_axis(padding, len(window))
    for axis, (n, k, s, pad, d) in enumerate(
        zip(sizes, window, strides, pads, dilation, strict=True)
    ):
        count = None if n is None else windows.output_size(n, k, s, pad, d)
        if count is not None and count < 1 and n != 0:
            raise ShapeError(
                f"{op}: along spatial axis {axis} the window spans {windows.reach(k, d)} "
                "positions, and the "
                f"input has {n} with padding {pad!r}.\n  input   {sizes}\n  window  {window}\n"
                "Use padding='same', a smaller window, or a larger input."
            )
        result.append(None if count is None else max(count, 0))
    return tuple(result)


def _group_count(op: str, x: Dims, kernel: Dims) -> int:
    """How many groups the input's channels fall into, 1 where they are not known."""
    channels, inside, filters = x[-1], kernel[-2], kernel[-1]
    if channels is None or inside is None or filters is None:
        return 1
    if inside == 0 or channels % inside or filters % (channels // inside):
        raise ShapeError(
            f"{op}: the input has {channels} channels, the kernel takes {inside} and has "
            f"{filters} filters.\n"
            f"  input   {tuple(x)}\n  kernel  {tuple(kernel)}\n"
            "The channels must be equal; or, for a grouped convolution, the input's a multiple of "
            "the kernel's, "
            "and the filters a multiple of the number of groups."
        )
    return channels // inside


def _conv_rule(
    x: Spec, kernel: Spec, *, strides: Sizes, padding: Any, dilation_rate: Sizes
) -> Spec:
    _group_count("conv", x.shape, kernel.shape)
    window = tuple(n or 1 for n in kernel.shape[:-2])
    space = windowed_dims("conv", x.shape[1:-1], window, strides, padding, dilation_rate)
    return Spec((x.shape[0], *space, kernel.shape[-1]), dtypes.result_type(x, kernel))


def _input_gradient_rule(g: Spec, kernel: Spec, x: Spec, **settings: Any) -> Spec:
    return Spec(x.shape, dtypes.result_type(g, kernel))


def _kernel_gradient_rule(
    x: Spec, g: Spec, *, kernel_size: Sizes, groups: int, **settings: Any
) -> Spec:
    inside = None if x.shape[-1] is None else x.shape[-1] // groups
    return Spec((*kernel_size, inside, g.shape[-1]), dtypes.result_type(x, g))


# ------------------------------------------------------------------ primitives


def _placed(x: Array, window: Sizes, strides: Sizes, padding: Any, dilation_rate: Sizes) -> Windows:
    return Windows(x.shape[1:-1], window, strides, padding, dilation_rate)


@primitive(_conv_rule, name="conv", promotes=True)
def _conv(
    xp: ArrayModule, x: Array, kernel: Array, *, strides: Sizes, padding: Any, dilation_rate: Sizes
) -> Array:
    """Cross-correlation of `x` with a kernel (window..., channels // groups, filters)."""
    groups = _group_count("conv", x.shape, kernel.shape)
    windowed_dims("conv", x.shape[1:-1], kernel.shape[:-2], strides, padding, dilation_rate)
    w = _placed(x, kernel.shape[:-2], strides, padding, dilation_rate)
    return conv_plain.conv(xp, w, x, kernel, groups)


@primitive(_input_gradient_rule, name="conv_input_gradient", promotes=True)
def _conv_input_gradient(
    xp: ArrayModule,
    g: Array,
    kernel: Array,
    x: Array,
    *,
    strides: Sizes,
    padding: Any,
    dilation_rate: Sizes,
) -> Array:
    """What a convolution of something of the shape of `x` sends back to it."""
    w = _placed(x, kernel.shape[:-2], strides, padding, dilation_rate)
    return conv_plain.conv_input_gradient(xp, w, g, kernel, x.shape[-1] // kernel.shape[-2])


@primitive(_kernel_gradient_rule, name="conv_kernel_gradient", promotes=True)
def _conv_kernel_gradient(
    xp: ArrayModule,
    x: Array,
    g: Array,
    *,
    kernel_size: Sizes,
    groups: int,
    strides: Sizes,
    padding: Any,
    dilation_rate: Sizes,
) -> Array:
    """What a convolution of `x` sends back to its kernel."""
    w = _placed(x, kernel_size, strides, padding, dilation_rate)
    return conv_plain.conv_kernel_gradient(xp, w, x, g, groups)


def _kernel_settings(kernel: Tensor, x: Tensor, settings: dict[str, Any]) -> dict[str, Any]:
    groups = _group_count("conv", tuple(x.shape), tuple(kernel.shape))
    return {**settings, "kernel_size": tuple(kernel.shape[:-2]), "groups": groups}


def _without_kernel(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: settings[name] for name in ("strides", "padding", "dilation_rate")}


_conv.gradients(
    lambda g, y, x, kernel, **s: _conv_input_gradient(g, kernel, x, **s),
    lambda g, y, x, kernel, **s: _conv_kernel_gradient(x, g, **_kernel_settings(kernel, x, s)),
)
_conv_input_gradient.gradients(
    lambda gg, y, g, kernel, x, **s: _conv(gg, kernel, **s),
    lambda gg, y, g, kernel, x, **s: _conv_kernel_gradient(gg, g, **_kernel_settings(kernel, x, s)),
    None,
)
_conv_kernel_gradient.gradients(
    lambda gg, y, x, g, **s: _conv_input_gradient(g, gg, x, **_without_kernel(s)),
    lambda gg, y, x, g, **s: _conv(x, gg, **_without_kernel(s)),
)


def _transposed_dims(
    sizes: Dims,
    window: Sizes,
    strides: Sizes,
    padding: str,
    output_padding: Sizes | None,
    dilation: Sizes,
) -> Dims:
    """Spatial sizes that a transposed convolution gives."""
    extra: Sequence[int | None] = output_padding or (None,) * len(window)
    result: list[int | None] = []
    for n, k, s, more, d in zip(sizes, window, strides, extra, dilation, strict=True):
        span = windows.reach(k, d)
        if n is None:
            result.append(None)
        elif more is None:
            result.append(n * s + (max(span - s, 0) if padding == "valid" else 0))
        else:
            inner = span if padding == "valid" else span - 2 * (span // 2)
            result.append((n - 1) * s + inner + more)
    return tuple(result)


def _transpose_rule(
    x: Spec,
    kernel: Spec,
    *,
    strides: Sizes,
    padding: str,
    output_padding: Sizes | None,
    dilation_rate: Sizes,
) -> Spec:
    if None not in (x.shape[-1], kernel.shape[-1]) and x.shape[-1] != kernel.shape[-1]:
        raise ShapeError(
            f"conv_transpose: the input has {x.shape[-1]} channels, the kernel takes "
            f"{kernel.shape[-1]}.\n"
            f"  input   {x.shape}\n  kernel  {kernel.shape}   (window..., filters, channels)"
        )
    window = tuple(n or 1 for n in kernel.shape[:-2])
    space = _transposed_dims(x.shape[1:-1], window, strides, padding, output_padding, dilation_rate)
    return Spec((x.shape[0], *space, kernel.shape[-2]), dtypes.result_type(x, kernel))


@primitive(_transpose_rule, name="conv_transpose", promotes=True)
def _conv_transpose(
    xp: ArrayModule,
    x: Array,
    kernel: Array,
    *,
    strides: Sizes,
    padding: str,
    output_padding: Sizes | None,
    dilation_rate: Sizes,
) -> Array:
    """Each input value times a kernel (window..., filters, channels), added where they overlap."""
    spec = _transpose_rule(
        Spec(x.shape, x.dtype),
        Spec(kernel.shape, kernel.dtype),
        strides=strides,
        padding=padding,
        output_padding=output_padding,
        dilation_rate=dilation_rate,
    )
    sizes = tuple(n or 0 for n in spec.shape[1:-1])
    w = Windows(sizes, kernel.shape[:-2], strides, padding, dilation_rate)
    if w.out != x.shape[1:-1]:
        raise ShapeError(
            f"conv_transpose: output_padding={output_padding} does not fit strides={strides}: it "
            "must be below "
            "the stride of its axis"
        )
    return conv_plain.conv_input_gradient(xp, w, x, kernel, 1)


def _transpose_kernel_gradient(
    g: Tensor, x: Tensor, kernel: Tensor, settings: dict[str, Any]
) -> Tensor:
    size = tuple(kernel.shape[:-2])
    result: Tensor = _conv_kernel_gradient(
        g, x, kernel_size=size, groups=1, **_without_kernel(settings)
    )
    return result


_conv_transpose.gradients(
    lambda g, y, x, kernel, **s: _conv(g, kernel, **_without_kernel(s)),
    lambda g, y, x, kernel, **s: _transpose_kernel_gradient(g, x, kernel, s),
)

# ------------------------------------------------------------------ public functions


def conv(
    inputs: Any,
    kernel: Any,
    strides: int | Sequence[int] = 1,
    padding: Any = "valid",
    data_format: str | None = None,
    dilation_rate: int | Sequence[int] = 1,
) -> Tensor:
    """Convolution over one, two or three spatial axes, grouped if the kernel takes fewer channels.

    y[b, i, f] = sum over taps a and channels c of x[b, i * stride + a * dilation, c] * kernel[a,
    c, f]

    Args:
        inputs: (batch, spatial..., channels), or (batch, channels, spatial...).
        kernel: (window..., channels // groups, filters).
        strides: distance between windows, one int or one for each spatial axis.
        padding: "valid" for none; "same" for zeros around, so that stride 1 keeps the size; or a
            pair (before, after) for each spatial axis.
        data_format: "channels_last" (the default) or "channels_first".
        dilation_rate: distance between the taps of a window.

    Returns:
        (batch, out..., filters), or (batch, filters, out...).

    Raises:
        ShapeError: ranks or channels do not fit, or the window is larger than the input.
        InvalidArgumentError: a setting is none of those above.

    >>> conv(tk.ones((1, 5, 5, 1)), tk.ones((3, 3, 1, 2)), padding="same").shape
    (1, 5, 5, 2)
    """
    x, weights = as_tensor(inputs), as_tensor(kernel)
    rank = _checked_ranks("conv", x, weights)
    first = is_channels_first(data_format, "conv")
    y: Tensor = _conv(
        channels_last(x) if first else x,
        weights,
        strides=spatial_tuple(strides, rank, "conv", "strides"),
        padding=checked_padding(padding, rank, "conv"),
        dilation_rate=spatial_tuple(dilation_rate, rank, "conv", "dilation_rate"),
    )
    return channels_second(y) if first else y


def depthwise_conv(
    inputs: Any,
    kernel: Any,
    strides: int | Sequence[int] = 1,
    padding: Any = "valid",
    data_format: str | None = None,
    dilation_rate: int | Sequence[int] = 1,
) -> Tensor:
    """Convolve each channel by itself with `multiplier` filters of its own.

    Args:
        inputs: (batch, spatial..., channels), or (batch, channels, spatial...).
        kernel: (window..., channels, multiplier).
        strides: as for `conv`.
        padding: as for `conv`.
        data_format: as for `conv`.
        dilation_rate: as for `conv`.

    Returns:
        (batch, out..., channels * multiplier): the filters of channel 0 first.

    Raises:
        ShapeError: ranks or channels do not fit.
    """
    x, weights = as_tensor(inputs), as_tensor(kernel)
    _checked_ranks("depthwise_conv", x, weights)
    channels = x.shape[1 if is_channels_first(data_format, "depthwise_conv") else -1]
    *window, inside, multiplier = weights.shape
    if channels is not None and channels != inside:
        raise ShapeError(
            f"depthwise_conv: the input has {channels} channels, the kernel {inside}.\n"
            f"  input   {tuple(x.shape)}\n  kernel  {tuple(weights.shape)}"
        )
    grouped = reshape(weights, (*window, 1, inside * multiplier))
    return conv(x, grouped, strides, padding, data_format, dilation_rate)


def separable_conv(
    inputs: Any,
    depthwise_kernel: Any,
    pointwise_kernel: Any,
    strides: int | Sequence[int] = 1,
    padding: Any = "valid",
    data_format: str | None = None,
    dilation_rate: int | Sequence[int] = 1,
) -> Tensor:
    """A depthwise convolution, then a 1 x 1 convolution that mixes its channels.

    Source: Chollet 2017, arXiv:1610.02357.

    Args:
        inputs: (batch, spatial..., channels), or (batch, channels, spatial...).
        depthwise_kernel: (window..., channels, multiplier).
        pointwise_kernel: (1..., channels * multiplier, filters).
        strides: as for `conv`; they go to the first step.
        padding: as for `conv`; they go to the first step.
        data_format: as for `conv`; they go to the first step.
        dilation_rate: as for `conv`; they go to the first step.

    Returns:
        (batch, out..., filters), or (batch, filters, out...).

    Raises:
        ShapeError: ranks or channels do not fit.
    """
    each = depthwise_conv(inputs, depthwise_kernel, strides, padding, data_format, dilation_rate)
    return conv(each, pointwise_kernel, data_format=data_format)


def conv_transpose(
    inputs: Any,
    kernel: Any,
    strides: int | Sequence[int] = 1,
    padding: str = "valid",
    output_padding: int | Sequence[int] | None = None,
    data_format: str | None = None,
    dilation_rate: int | Sequence[int] = 1,
) -> Tensor:
    """The transpose of a convolution: spreads each input value over a window of the output.

    Args:
        inputs: (batch, spatial..., channels), or (batch, channels, spatial...).
        kernel: (window..., filters, channels).
        strides: distance between the windows of neighbouring inputs in the output.
        padding: "valid" or "same"; with "same" the output has `strides` times the size of the
            input.
        output_padding: positions added at the far side of the smallest output, below the stride.
        data_format: "channels_last" (the default) or "channels_first".
        dilation_rate: distance between the taps of a window.

    Returns:
        (batch, out..., filters), or (batch, filters, out...).

    Raises:
        ShapeError: ranks or channels do not fit.
        InvalidArgumentError: a setting is none of those above.
    """
    op = "conv_transpose"
    x, weights = as_tensor(inputs), as_tensor(kernel)
    rank = _checked_ranks(op, x, weights)
    if not isinstance(padding, str):
        raise InvalidArgumentError(f"{op}: padding={padding!r} must be 'valid' or 'same'")
    first = is_channels_first(data_format, op)
    y: Tensor = _conv_transpose(
        channels_last(x) if first else x,
        weights,
        strides=spatial_tuple(strides, rank, op, "strides"),
        padding=checked_padding(padding, rank, op),
        output_padding=_output_padding(output_padding, rank),
        dilation_rate=spatial_tuple(dilation_rate, rank, op, "dilation_rate"),
    )
    return channels_second(y) if first else y


def _output_padding(value: Any, rank: int) -> Sizes | None:
    if value is None:
        return None
    sizes = (value,) * rank if hasattr(value, "__index__") else tuple(value)
    if len(sizes) != rank or not all(hasattr(n, "__index__") and n.__index__() >= 0 for n in sizes):
        raise InvalidArgumentError(
            f"conv_transpose: output_padding={value!r} must be an int of at least 0, or {rank} of "
            "them"
        )
    return tuple(n.__index__() for n in sizes)
