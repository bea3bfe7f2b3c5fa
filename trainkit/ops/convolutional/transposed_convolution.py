"""The transpose of a convolution, for growing what a convolution shrank.

Source: Dumoulin and Visin 2016, "A guide to convolution arithmetic for deep learning",
arXiv:1603.07285, chapter 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from trainkit.core import dtypes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import COMMON, WINDOW, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.convolution import conv_reference, conv_tuned, sliding_windows
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.cudnn.deferred import is_there
from trainkit.kernels.elementwise.half_casts_tuned import with_float16
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.convolutional.convolution import conv_cudnn, conv_kernel_gradient, linear_conv
from trainkit.ops.convolutional.convolution_geometry import checked_ranks, geometry_of
from trainkit.ops.convolutional.window_arguments import (
    Dims,
    Sizes,
    channels_last,
    channels_second,
    checked_padding,
    is_channels_first,
    spatial_tuple,
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
        span = sliding_windows.reach(k, d)
        if n is None:
            result.append(None)
        elif more is None:
            result.append(n * s + (max(span - s, 0) if padding == "valid" else 0))
        else:
            inner = span if padding == "valid" else span - 2 * (span // 2)
            result.append((n - 1) * s + inner + more)
    return tuple(result)


def _transpose_rule(x: Spec, kernel: Spec, **settings: Any) -> Spec:
    return Spec(_result_dims(x.shape, kernel.shape, **settings), dtypes.result_type(x, kernel))


def _result_dims(
    x: Dims,
    kernel: Dims,
    *,
    strides: Sizes,
    padding: str,
    output_padding: Sizes | None,
    dilation_rate: Sizes,
) -> Dims:
    if None not in (x[-1], kernel[-1]) and x[-1] != kernel[-1]:
        raise ShapeError(
            f"conv_transpose: the input has {x[-1]} channels, the kernel takes {kernel[-1]}.\n"
            f"  input   {x}\n  kernel  {kernel}   (window..., filters, channels)"
        )
    window = tuple(n or 1 for n in kernel[:-2])
    space = _transposed_dims(x[1:-1], window, strides, padding, output_padding, dilation_rate)
    return x[0], *space, kernel[-2]


@lru_cache(maxsize=1024)
def _windows_of(
    x: Sizes,
    kernel: Sizes,
    strides: Sizes,
    padding: str,
    output_padding: Sizes | None,
    dilation_rate: Sizes,
) -> Windows:
    """The windows of the result that an input of the shape `x` is spread over."""
    dims = _result_dims(
        x,
        kernel,
        strides=strides,
        padding=padding,
        output_padding=output_padding,
        dilation_rate=dilation_rate,
    )
    sizes = tuple(n or 0 for n in dims[1:-1])
    w = sliding_windows.placed(sizes, kernel[:-2], strides, padding, dilation_rate)
    if w.out != x[1:-1]:
        raise ShapeError(
            f"conv_transpose: output_padding={output_padding} does not fit strides={strides}: it "
            "must be below "
            "the stride of its axis"
        )
    return w


@with_float16
def _run_compiled(
    x: Array,
    kernel: Array,
    *,
    strides: Sizes,
    padding: str,
    output_padding: Sizes | None,
    dilation_rate: Sizes,
) -> Array | None:
    w = _windows_of(x.shape, kernel.shape, strides, padding, output_padding, dilation_rate)
    return conv_tuned.input_gradient(w, x, kernel, 1)


def _by_cudnn(xp: ArrayModule, x: Array, kernel: Array, **where: Any) -> Any:
    if not is_there():
        return None
    w = _windows_of(x.shape, kernel.shape, **where)
    return conv_cudnn.input_gradient(xp, w, x, kernel, 1)


@primitive(
    _transpose_rule,
    name="conv_transpose",
    promotion=COMMON,
    semantics=WINDOW,
    tuned=Tuned(_run_compiled, on_gpu=[_by_cudnn]),
)
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
    w = _windows_of(x.shape, kernel.shape, strides, padding, output_padding, dilation_rate)
    return conv_reference.conv_input_gradient(xp, w, x, kernel, 1)


def _transpose_kernel_gradient(
    g: Tensor, x: Tensor, kernel: Tensor, settings: dict[str, Any]
) -> Tensor:
    size = tuple(kernel.shape[:-2])
    result: Tensor = conv_kernel_gradient(g, x, kernel_size=size, groups=1, **geometry_of(settings))
    return result


_conv_transpose.gradients(
    lambda g, y, x, kernel, **s: linear_conv(g, kernel, geometry_of(s)),
    lambda g, y, x, kernel, **s: _transpose_kernel_gradient(g, x, kernel, s),
)
_conv_transpose.declare(residuals=frozenset({0, 1}))


def conv_transpose(
    inputs: TensorLike,
    kernel: TensorLike,
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
        dilation_rate: distance between the elements of a window.

    Returns:
        (batch, out..., filters), or (batch, filters, out...).

    Raises:
        ShapeError: ranks or channels do not fit.
        InvalidArgumentError: a setting is none of those above.

    Example:
        >>> tk.ops.conv_transpose(tk.ones((1, 3, 3, 2)), tk.ones((3, 3, 4, 2)), 2).shape
        TensorShape([1, 7, 7, 4])
    """
    op = "conv_transpose"
    x, weights = as_tensor(inputs), as_tensor(kernel)
    rank = checked_ranks(op, x, weights)
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
