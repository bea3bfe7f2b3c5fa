"""How input, kernel and windows of a convolution fit together."""

from __future__ import annotations

from typing import Any

from trainkit.core.devices import Array
from trainkit.core.errors import ShapeError
from trainkit.core.tensor import Tensor
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.ops.convolutional.window_arguments import Dims, Sizes, checked_windows


def checked_ranks(op: str, x: Tensor, kernel: Tensor) -> int:
    """How many spatial axes input and kernel have, 1 to 3.

    Raises:
        ShapeError: they do not agree.
    """
    rank = len(x.shape) - 2
    if rank not in (1, 2, 3) or len(kernel.shape) != rank + 2:
        raise ShapeError(
            f"{op}: the input must have 1, 2 or 3 spatial axes between batch and channels, and "
            "the kernel as "
            f"many axes as the input.\n  input   {tuple(x.shape)}\n  kernel  {tuple(kernel.shape)}"
        )
    return rank


def group_count(op: str, x: Dims, kernel: Dims) -> int:
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


def check_bias(bias: Any, filters: int | None) -> None:
    """Raise unless there is a number for each filter: a kernel would read beyond the last."""
    if bias is not None and bias.shape != (filters,) and None not in (filters, *bias.shape):
        raise ShapeError(f"conv: the kernel has {filters} filters, the bias shape {bias.shape}")


def placed(x: Array, window: Sizes, strides: Sizes, padding: Any, dilation_rate: Sizes) -> Windows:
    """Where windows lie over the array `x`."""
    return checked_windows("conv", x.shape[1:-1], window, strides, padding, dilation_rate)


def facts_of(
    x: Array, kernel: Array, bias: Array | None, strides: Sizes, padding: Any, dilation_rate: Sizes
) -> tuple[Windows, int]:
    """Where windows lie, and the number of groups, of what fits together."""
    groups = group_count("conv", x.shape, kernel.shape)
    check_bias(bias, kernel.shape[-1])
    return placed(x, kernel.shape[:-2], strides, padding, dilation_rate), groups


def geometry_of(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that say where windows lie."""
    return {name: settings[name] for name in ("strides", "padding", "dilation_rate")}
