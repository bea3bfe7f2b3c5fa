"""Which normalizations the kernels of a GPU serve, and how arrays are laid out for them.

Some have a kernel of trainkit's own and one of cuDNN; `docs/gpu.md` says which one serves when.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from trainkit.kernels.cuda.element_types import BY_DTYPE
from trainkit.kernels.cuda.raw_kernel import ALIGNMENT
from trainkit.kernels.cudnn import deferred
from trainkit.kernels.cudnn.deferred import CudnnModule
from trainkit.kernels.normalization import norm_columns_cuda, norm_rows_cuda
from trainkit.kernels.normalization.norm_tuned import trailing_size

Array = Any
Axes = tuple[int, ...]

norm_cudnn = CudnnModule("trainkit.kernels.cudnn.norm_cudnn")
kernel_choice = CudnnModule("trainkit.kernels.cudnn.kernel_choice")

_OF_CUDNN = frozenset(BY_DTYPE) - {np.dtype(np.float64)}
LARGE = 1 << 22
"""Elements from which cuDNN may serve without being measured: what takes longer than a launch."""
WIDE = 512
"""Elements of such a row at least."""
PACKED = ALIGNMENT // 2
"""Short floats that a thread of cuDNN loads at once, so what features are a multiple of."""


def _is_for_cudnn(x: Array, features: int, fewest: int = PACKED) -> bool:
    """Whether cuDNN serves a forward call that nobody has measured.

    Own kernels load an element at a time: a whole line of a cache for the threads of a warp in
    float32, half of one in short floats, of which cuDNN loads eight. In gradients it has moments to
    be made again, so these stay with the own kernels.
    """
    large = x.size >= LARGE and x.dtype.itemsize == 2
    return large and features >= fewest and features % PACKED == 0


def _serve(
    xp: Any,
    problem: tuple[Any, ...],
    x: Array,
    own: Callable[[], Any],
    library: Callable[[], Any],
    by_rule: bool = False,
) -> Any:
    """What the own kernel gives or cuDNN, as `TRAINKIT_CUDNN` says; `None` where neither can.

    Args:
        xp: CuPy.
        problem: name and sizes, by which a choice that was measured is known.
        x: what is normalized.
        own: runs the own kernel.
        library: the same by cuDNN.
        by_rule: whether cuDNN comes first where nothing is measured.
    """
    mode = deferred.mode()
    if mode == "off" or x.dtype not in _OF_CUDNN:
        return own()
    if mode == "measure":
        return kernel_choice.fastest(
            xp, (problem[0], x.dtype.name, x.shape, *problem[1:]), own, library
        )
    first, second = (library, own) if by_rule or mode == "force" else (own, library)
    result = first()
    return second() if result is None else result


def _dims(x: Array, axis: Axes) -> tuple[int, int, int] | None:
    """`x` as (1, rows, features), if the features are its last axis."""
    if axis != (x.ndim - 1,) or not x.size:
        return None
    return 1, math.prod(x.shape[:-1]), x.shape[-1]


def _of_rows(
    xp: Any,
    x: Array,
    scale: Array | None,
    offset: Array | None,
    width: int,
    epsilon: float,
    centred: bool = True,
) -> Any:
    arguments = (xp, x, scale, offset, width, epsilon, centred)
    return _serve(
        xp,
        ("rows", width, centred, scale is None),
        x,
        partial(norm_rows_cuda.normalized, *arguments),
        partial(norm_cudnn.rows, *arguments),
        _is_for_cudnn(x, width, WIDE),
    )


def normalized(
    xp: Any,
    x: Array,
    scale: Array | None,
    offset: Array | None,
    axis: Axes,
    epsilon: float,
    over_batch: bool,
    centred: bool = True,
) -> Any:
    """The result, for batches with mean and variance, or `None` where the reference is to do it.

    Batches have their features last, samples are normalized along their last axes.
    """
    if not over_batch:
        width = trailing_size(x, axis)
        return _of_rows(xp, x, scale, offset, width, epsilon, centred) if width else None
    dims = _dims(x, axis)
    if dims is None:
        return None
    return _serve(
        xp,
        ("batch", scale is None),
        x,
        partial(norm_columns_cuda.normalized, xp, x, scale, offset, dims, epsilon),
        partial(norm_cudnn.batch, xp, x, scale, offset, epsilon),
        _is_for_cudnn(x, dims[2]),
    )


def normalized_gradient(
    xp: Any,
    g: Array,
    x: Array,
    scale: Array | None,
    by_mean: Array | None,
    by_variance: Array | None,
    axis: Axes,
    epsilon: float,
    over_batch: bool,
    centred: bool = True,
) -> tuple[Array, ...] | None:
    """Gradients by x, scale and offset, or `None`."""
    if over_batch:
        dims = _dims(x, axis)
        return _batch_gradient(xp, g, x, scale, by_mean, by_variance, dims, epsilon)
    width = trailing_size(x, axis)
    if not width:
        return None
    arguments = (xp, g, x, scale, width, epsilon, centred)
    gradients: tuple[Array, ...] | None = _serve(
        xp,
        ("rows gradient", width, centred, scale is None),
        x,
        partial(norm_rows_cuda.normalized_gradient, *arguments),
        partial(norm_cudnn.rows_gradient, *arguments),
    )
    if gradients is None:
        return None
    by_x, by_scale, by_offset = gradients
    if by_offset is None:  # cuDNN makes none of root mean squares
        by_offset = xp.zeros(width, by_scale.dtype)
    sizes = tuple(x.shape[a] for a in axis)
    return by_x, by_scale.reshape(sizes), by_offset.reshape(sizes)


def _batch_gradient(
    xp: Any,
    g: Array,
    x: Array,
    scale: Array | None,
    by_mean: Array | None,
    by_variance: Array | None,
    dims: tuple[int, int, int] | None,
    epsilon: float,
) -> tuple[Array, ...] | None:
    """The same for batches; cuDNN knows nothing of gradients by the moments."""
    if dims is None:
        return None
    arguments = (xp, g, x, scale, by_mean, by_variance, dims, epsilon)
    own = partial(norm_columns_cuda.normalized_gradient, *arguments)
    gradients: tuple[Array, ...] | None
    if by_mean is not None or by_variance is not None:
        gradients = own()
        return gradients
    library = partial(norm_cudnn.batch_gradient, xp, g, x, scale, epsilon)
    gradients = _serve(xp, ("batch gradient", scale is None), x, own, library)
    return gradients


# ------------------------------------------------------------------ without parameters


def _groups(x: Array, axis: Axes) -> tuple[tuple[int, int, int], int] | None:
    """(batch, rows, columns) and neighbouring columns of a group, for (batch, ..., groups, size).

    Samples are standardized along all axes but the first one and that of the groups.
    """
    rank = x.ndim
    if rank < 4 or axis != (*range(1, rank - 2), rank - 1):
        return None
    groups, size = x.shape[-2:]
    return (x.shape[0], math.prod(x.shape[1:-2]), groups * size), size


def standardized(
    xp: Any, x: Array, *, axis: Axes, epsilon: float, centred: bool = True
) -> Array | None:
    """(x - mean) / sqrt(variance + epsilon), or `None` where the reference is to do it."""
    width = trailing_size(x, axis)
    if width:
        return _of_rows(xp, x, None, None, width, epsilon, centred)
    grouped = _groups(x, axis) if centred else None
    if grouped is None:
        return None
    dims, size = grouped
    results = norm_columns_cuda.normalized(xp, x, None, None, dims, epsilon, size)
    return results and results[0]


def standardized_gradient(
    xp: Any, g: Array, x: Array, *, axis: Axes, epsilon: float, centred: bool = True
) -> Array | None:
    """Its gradient by x, or `None`."""
    width = trailing_size(x, axis)
    if width:
        arguments = (xp, g, x, None, width, epsilon, centred)
        gradients = _serve(
            xp,
            ("rows gradient alone", width, centred),
            x,
            partial(norm_rows_cuda.normalized_gradient, *arguments, parameters=False),
            partial(norm_cudnn.rows_gradient, *arguments),
        )
        return gradients and gradients[0]
    grouped = _groups(x, axis) if centred else None
    if grouped is None:
        return None
    dims, size = grouped
    gradients = norm_columns_cuda.normalized_gradient(
        xp, g, x, None, None, None, dims, epsilon, size
    )
    return gradients and gradients[0]
