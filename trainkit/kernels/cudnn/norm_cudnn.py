"""Normalization by cuDNN: batches while training, layers, root mean squares, and their gradients.

cuDNN hands out the inverse deviation, 1 / sqrt(variance + epsilon), from which the variance is
worked out; its gradients ask for it and for the mean, which nothing has kept, so a kernel makes
both again. Moving averages are the layer's own: those of cuDNN go where nobody looks.
Source: NVIDIA, "cuDNN frontend developer guide", normalizations.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.kernels.cuda.raw_kernel import RawKernel, blocks_for
from trainkit.kernels.cudnn.description import Description, Dims, channels_last
from trainkit.kernels.cudnn.plans import is_served, ready, run
from trainkit.kernels.normalization import norm_columns_cuda, norm_rows_cuda

Array = Any

VARIANCES = RawKernel(
    "variances",
    """
extern "C" __global__ void variances(
    const float* __restrict__ factor, float* __restrict__ variance, int count, float epsilon) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) variance[i] = fmaxf(1 / (factor[i] * factor[i]) - epsilon, 0.0f);
}
""",
)


def _in_order(shape: Dims) -> Dims:
    """Sizes (batch, channels, one axis, the others) of an array (batch, space..., channels)."""
    inner = shape[1:-1] or (1,)
    return shape[0], shape[-1], inner[0], math.prod(inner[1:])


def _vector(d: Description, name: str, count: int, dtype: str = "float32") -> Any:
    dims = (1, count, 1, 1)
    return d.input(name, dims, channels_last(dims), dtype)


def _vector_out(d: Description, tensor: Any, name: str, count: int, dtype: str) -> None:
    dims = (1, count, 1, 1)
    d.output(tensor, name, dims, channels_last(dims), dtype)


# ------------------------------------------------------------------ descriptions


def describe_batch(d: Description, dtype: str, dims: Dims) -> None:
    """Normalization by the batch's own moments; sizes are (batch, channels, space...)."""
    channels = dims[1]
    tensors = d.graph.batchnorm(
        input=d.input("x", dims, channels_last(dims), dtype),
        scale=_vector(d, "scale", channels),
        bias=_vector(d, "offset", channels),
        in_running_mean=_vector(d, "moving_mean", channels),
        in_running_var=_vector(d, "moving_variance", channels),
        epsilon=d.number("epsilon"),
        momentum=d.number("momentum"),
    )
    d.output(tensors[0], "y", dims, channels_last(dims), dtype)
    names = ("mean", "factor", "next_mean", "next_variance")
    for tensor, name in zip(tensors[1:], names, strict=True):
        _vector_out(d, tensor, name, channels, "float32")


def describe_batch_gradient(d: Description, dtype: str, dims: Dims) -> None:
    """The gradients by the input, scale and offset."""
    channels = dims[1]
    tensors = d.graph.batchnorm_backward(
        grad=d.input("g", dims, channels_last(dims), dtype),
        input=d.input("x", dims, channels_last(dims), dtype),
        scale=_vector(d, "scale", channels),
        mean=_vector(d, "mean", channels),
        inv_variance=_vector(d, "factor", channels),
    )
    d.output(tensors[0], "by_x", dims, channels_last(dims), dtype)
    for tensor, name in zip(tensors[1:], ("by_scale", "by_offset"), strict=True):
        _vector_out(d, tensor, name, channels, "float32")


def describe_rows(
    d: Description, dtype: str, size: Dims, centred: bool, vectors: str | None = None
) -> None:
    """Normalization of `size` rows and columns, each row by its own moments.

    `vectors` is the dtype of scale and offset, where that is another one.
    """
    rows, width = size
    dims = (rows, width, 1, 1)
    operands = {
        "norm_forward_phase": d.cudnn.norm_forward_phase.INFERENCE,  # which gives no moments
        "input": d.input("x", dims, channels_last(dims), dtype),
        "scale": _vector(d, "scale", width, vectors or dtype),
        "epsilon": d.number("epsilon"),
    }
    if centred:
        tensors = d.graph.layernorm(**operands, bias=_vector(d, "offset", width, vectors or dtype))
    else:
        tensors = d.graph.rmsnorm(**operands)
    d.output(tensors[0], "y", dims, channels_last(dims), dtype)


def describe_rows_gradient(
    d: Description, dtype: str, size: Dims, centred: bool, vectors: str | None = None
) -> None:
    """The gradients by the input, scale and, if rows are centred, offset."""
    rows, width = size
    dims, each = (rows, width, 1, 1), (rows, 1, 1, 1)
    operands = {
        "grad": d.input("g", dims, channels_last(dims), dtype),
        "input": d.input("x", dims, channels_last(dims), dtype),
        "scale": _vector(d, "scale", width, vectors or dtype),
        "inv_variance": d.input("factor", each, channels_last(each), "float32"),
    }
    if centred:
        operands["mean"] = d.input("mean", each, channels_last(each), "float32")
        tensors = d.graph.layernorm_backward(**operands)
    else:
        tensors = d.graph.rmsnorm_backward(**operands, has_dbias=False)
    d.output(tensors[0], "by_x", dims, channels_last(dims), dtype)
    names = ("by_scale", "by_offset") if centred else ("by_scale",)
    for tensor, name in zip(tensors[1:], names, strict=False):
        _vector_out(d, tensor, name, width, vectors or dtype)


# ------------------------------------------------------------------ calls


def _filled(xp: Any, a: Array | None, count: int, value: float, dtype: Any) -> Array:
    """A vector as cuDNN takes it: it has none that may be left out."""
    if a is None:
        return xp.full(count, value, dtype)
    return ready(xp, a.astype(dtype, copy=False).reshape(-1))


def _vector_dtype(x: Array, scale: Array | None) -> Any:
    return (x if scale is None else scale).dtype


def _given_back(dtype: Any, *vectors: Array) -> tuple[Array, ...]:
    return tuple(v.astype(dtype, copy=False) for v in vectors)


def batch(
    xp: Any, x: Array, scale: Array | None, offset: Array | None, epsilon: float
) -> tuple[Array, Array, Array] | None:
    """(y, mean, variance), or `None` where cuDNN is not to do it.

    Args:
        xp: CuPy.
        x: array of a GPU, its channels last.
        scale: (channels,), or `None` for 1.
        offset: (channels,), or `None` for 0.
        epsilon: added to the variance.
    """
    if not is_served(xp, x) or not VARIANCES.is_there(xp):
        return None
    channels, dtype = x.shape[-1], _vector_dtype(x, scale)
    x, weight = ready(xp, x), _filled(xp, scale, channels, 1, np.float32)
    results = {
        name: xp.empty(channels, np.float32)
        for name in ("mean", "factor", "next_mean", "next_variance")
    }
    arrays = {
        **results,
        "x": x,
        "y": xp.empty(x.shape, x.dtype),
        "scale": weight,
        "offset": _filled(xp, offset, channels, 0, np.float32),
        "moving_mean": weight,  # any numbers
        "moving_variance": weight,
        "epsilon": epsilon,
        "momentum": 1.0,
    }
    if not run(xp, describe_batch, (x.dtype.name, _in_order(x.shape)), arrays, True):
        return None
    variance = xp.empty(channels, np.float32)
    arguments = (results["factor"], variance, np.int32(channels), np.float32(epsilon))
    VARIANCES(blocks_for(channels), arguments)
    mean, variance = _given_back(dtype, results["mean"], variance)
    return arrays["y"], mean, variance


def batch_gradient(
    xp: Any, g: Array, x: Array, scale: Array | None, epsilon: float
) -> tuple[Array, Array, Array] | None:
    """Gradients by x, scale and offset, or `None`; see `batch`."""
    if not is_served(xp, g, x):
        return None
    channels = x.shape[-1]
    x, dims = ready(xp, x), _in_order(x.shape)
    moments = norm_columns_cuda.moments(xp, x, (1, x.size // channels, channels), epsilon)
    if moments is None:
        return None
    gradients = {
        "by_x": xp.empty(x.shape, x.dtype),
        "by_scale": xp.empty(channels, np.float32),
        "by_offset": xp.empty(channels, np.float32),
    }
    arrays = {
        **gradients,
        "g": ready(xp, g),
        "x": x,
        "scale": _filled(xp, scale, channels, 1, np.float32),
        "mean": moments[0],
        "factor": moments[1],
    }
    if not run(xp, describe_batch_gradient, (x.dtype.name, dims), arrays, True):
        return None
    dtype = _vector_dtype(x, scale)
    by_scale, by_offset = _given_back(dtype, gradients["by_scale"], gradients["by_offset"])
    return gradients["by_x"], by_scale, by_offset


def _row_facts(x: Array, width: int, centred: bool, vectors: Any) -> tuple[Any, ...]:
    facts = (x.dtype.name, (x.size // width, width), centred)
    return facts if vectors == x.dtype else (*facts, vectors.name)


def rows(
    xp: Any,
    x: Array,
    scale: Array | None,
    offset: Array | None,
    width: int,
    epsilon: float,
    centred: bool = True,
) -> Array | None:
    """Each `width` elements by their own moments, or `None` where cuDNN is not to do it.

    Args:
        xp: CuPy.
        x: array of a GPU.
        scale: of `width` elements, of the dtype of `x` or of float32, or `None` for 1.
        offset: likewise, or `None` for 0; `None` where rows are not centred.
        width: of a row; rows lie one behind the other.
        epsilon: added to the variance.
        centred: whether the mean is taken away; else rows are divided by their root mean square.
    """
    vectors = norm_rows_cuda.parameters_of(x, scale, offset)
    if not is_served(xp, x) or vectors is None or (offset is not None and not centred):
        return None
    x = ready(xp, x)
    arrays = {
        "x": x,
        "y": xp.empty(x.shape, x.dtype),
        "scale": _filled(xp, scale, width, 1, vectors),
        "epsilon": epsilon,
    }
    if centred:
        arrays["offset"] = _filled(xp, offset, width, 0, vectors)
    facts = _row_facts(x, width, centred, vectors)
    return arrays["y"] if run(xp, describe_rows, facts, arrays, True) else None


def rows_gradient(
    xp: Any,
    g: Array,
    x: Array,
    scale: Array | None,
    width: int,
    epsilon: float,
    centred: bool = True,
) -> tuple[Array, Array, Array | None] | None:
    """Gradients by x, scale and, if rows are centred, offset, or `None`; see `rows`."""
    vectors = norm_rows_cuda.parameters_of(x, scale)
    if not is_served(xp, g, x) or vectors is None:
        return None
    x = ready(xp, x)
    moments = norm_rows_cuda.moments(xp, x, width, epsilon, centred)
    if moments is None:
        return None
    arrays = {
        "g": ready(xp, g),
        "x": x,
        "scale": _filled(xp, scale, width, 1, vectors),
        "by_x": xp.empty(x.shape, x.dtype),
        "by_scale": xp.empty(width, vectors),
        "mean": moments[0],
        "factor": moments[1],
    }
    if centred:
        arrays["by_offset"] = xp.empty(width, vectors)
    facts = _row_facts(x, width, centred, vectors)
    if not run(xp, describe_rows_gradient, facts, arrays, True):
        return None
    return arrays["by_x"], arrays["by_scale"], arrays.get("by_offset")
