"""What all image operations share: single images and batches, channels last or first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit.core import dtypes, shapes
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor
from trainkit.ops.arrays.axes import expand_dims, squeeze, transpose
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.convolutional.convolution import is_channels_first
from trainkit.ops.math.elementwise import cast

Restore = Callable[[Tensor], Tensor]


def batched(images: Any, data_format: str | None, op: str, axes: int = 2) -> tuple[Tensor, Restore]:
    """`images` as a batch with channels last, and what brings a result back into their layout.

    Args:
        images: tensor with `axes` spatial axes, channels, and perhaps a batch axis in front.
        data_format: `"channels_last"` (the default) or `"channels_first"`.
        op: name of the operation, for errors.
        axes: number of spatial axes.

    Raises:
        ShapeError: the rank is another one.
        ValueError: `data_format` is another one.
    """
    x = as_tensor(images)
    first = is_channels_first(data_format, op)
    rank = len(x.shape)
    if rank not in (axes + 1, axes + 2):
        raise ShapeError(
            f"{op}: Invalid images rank: expected {axes + 1} for one image or {axes + 2} for a "
            "batch, "
            f"got shape {tuple(x.shape)}"
        )
    single = rank == axes + 1
    if single:
        x = expand_dims(x, 0)
    if first:
        x = transpose(x, (0, *range(2, axes + 2), 1))

    def restore(y: Tensor) -> Tensor:
        if first:
            y = transpose(y, (0, axes + 1, *range(1, axes + 1)))
        return squeeze(y, 0) if single else y

    return x, restore


def computed_dtype(dtype: dtypes.DType) -> dtypes.DType:
    """The dtype to calculate in for images of `dtype`: floats of 32 bits or more."""
    compute_dtype = shapes.float_dtype(dtype)
    return dtypes.float32 if compute_dtype.size < 4 else compute_dtype


def computed(x: Tensor) -> Tensor:
    """`x` in a dtype to calculate in: floats of 32 bits or more."""
    compute_dtype = computed_dtype(x.dtype)
    return x if x.dtype == compute_dtype else cast(x, compute_dtype)


def floats_only(x: Tensor, op: str) -> Tensor:
    """`x` itself, if its dtype is floating.

    Raises:
        InvalidArgumentError: it is not.
    """
    if not x.dtype.is_floating:
        raise InvalidArgumentError(
            f"{op}: Invalid images dtype: expected float dtype, got {x.dtype.name}; cast and "
            "scale them"
        )
    return x


def spatial(x: Tensor, op: str) -> tuple[int, int]:
    """Height and width of a batch with channels last.

    Raises:
        ShapeError: one is not known.
    """
    height, width = x.shape[1], x.shape[2]
    if height is None or width is None:
        raise ShapeError(f"{op}: height and width must be known, got shape {tuple(x.shape)}")
    return height, width


def later_images(
    images: Any,
    size: tuple[Any, Any],
    data_format: str | None,
    op: str,
    whole: bool = False,
    live: bool = False,
) -> Spec | None:
    """The spec of images that get another size; `None` where their height and width are known.

    Args:
        images: one image or a batch.
        size: height and width of the result, `None` for one that is not known.
        data_format: `"channels_last"` or `"channels_first"`.
        op: name of the operation, for errors.
        whole: whether the size of the batch has to be known, too.
        live: whether numbers that say the size are tensors without a value yet.
    """
    x = as_tensor(images)
    dims, rank = list(x.shape), len(x.shape)
    if rank not in (3, 4):
        return None  # the operation itself says what is wrong
    first = is_channels_first(data_format, op)
    spatial_axes = (rank - 2, rank - 1) if first else (rank - 3, rank - 2)
    sizes = [None if isinstance(n, SymbolicTensor) else n for n in size]
    sizes_known = None not in (
        dims[spatial_axes[0]],
        dims[spatial_axes[1]],
        dims[0] if whole else 0,
    )
    if sizes_known and not live:
        return None
    for axis, n in zip(spatial_axes, sizes, strict=True):
        dims[axis] = n
    return Spec(dims, x.dtype)


def later_like(arguments: dict[str, Any]) -> Spec | None:
    """`later_images` of an operation that keeps the size of its images."""
    x = as_tensor(arguments["images"])
    keras = hasattr(x, "apply_function")  # which does not know the size of a batch, as a graph does
    if len(x.shape) not in (3, 4):
        return None
    first = is_channels_first(arguments["data_format"], "images")
    size = tuple(x.shape[-2:] if first else x.shape[-3:-1])
    return later_images(x, size, arguments["data_format"], "images", whole=keras)


def choice(op: str, name: str, value: Any, allowed: tuple[str, ...]) -> Any:
    """`value`, if it is one of `allowed`.

    Raises:
        ValueError: it is not.
    """
    if value not in allowed:
        raise ValueError(
            f"{op}: Invalid value for argument `{name}`: {value!r} is none of {allowed}"
        )
    return value
