"""A dense layer's arithmetic in one operation: product, bias and rectifier share one buffer."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.core.cpu.cost_model import FIRST_FLOATS
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch import late_ops
from trainkit.core.dispatch.eager import MOST_BY_DOT
from trainkit.core.dispatch.facets import (
    COMMON,
    COMPOSITE,
    CONTRACTION,
    WHOLE_KERNEL,
    Direct,
    Tuned,
)
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import widen_halves
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.jit.kernel_family import owned
from trainkit.kernels.matmul import (
    half_columns_tuned,
    half_product_tuned,
    matmul_gpu,
    product_tuned,
)
from trainkit.kernels.pooling import pool_tuned
from trainkit.kernels.reductions.reductions_tuned import FEWEST, leading_sum
from trainkit.ops.arrays.axes import expand_dims, swap_last_axes
from trainkit.ops.arrays.shaping import reshape
from trainkit.ops.core.vmap import ItemStack
from trainkit.ops.linear_algebra.matmul import SHORT_FLOATS, matmul, product, tuned_product
from trainkit.ops.math.elementwise import add, multiply
from trainkit.ops.math.reductions import sum as total
from trainkit.ops.neural.activations import relu, relu_gradient
from trainkit.ops.vmap_rules.shared_rules import by_formula

_F32 = np.dtype(np.float32)
_ZERO = {np.dtype(t): np.zeros((), t) for t in (np.float32, np.float64)}
_LARGE = 2 * FIRST_FLOATS
"""So many elements are rectified in two fast passes, and their gradients by the kernel."""
OF_FEW_ROWS = (np.add, np.maximum, MOST_BY_DOT, product_tuned.LEAST_WORK)
"""What the compiled half makes small products of, which then have no kernel."""
ACTIVATIONS = (None, "relu")
"""What `dense` and `conv_with_bias` can apply to their result in place."""


def check_activation(op: str, activation: str | None) -> None:
    """Raise unless `activation` is one that is applied in place.

    Raises:
        InvalidArgumentError: names those that are.
    """
    if activation not in ACTIVATIONS:
        raise InvalidArgumentError(
            f"{op}: activation={activation!r} must be None or 'relu'; apply others to the result"
        )


def _rectified_by_kernel(g: Array, y: Array) -> tuple[Array, Array] | None:
    if g.dtype in SHORT_FLOATS:
        return half_columns_tuned.rectified_gradient(g, y)
    pair: tuple[Array, Array] | None = pool_tuned.rectified_gradient(g, y)
    return pair


@primitive(
    lambda g, y: (Spec(g.shape, g.dtype), Spec(g.shape[-1:], g.dtype)),
    semantics=COMPOSITE,
    lowering=WHOLE_KERNEL,
    tuned=pool_tuned.rectified_gradient.facet(_rectified_by_kernel),
)
def rectified_gradient(xp: ArrayModule, g: Array, y: Array) -> Any:
    """`g` where the output `y` of a rectifier is above 0, and the sum of that for each feature."""
    result = g * (y > 0)
    floats = result.astype(np.float32) if g.dtype.itemsize < 4 else result
    rows = floats.reshape(-1, g.shape[-1])
    by_bias = np.ones(len(rows), rows.dtype) @ rows if xp is np else rows.sum(axis=0)
    return result, by_bias.astype(g.dtype, copy=False)


rectified_gradient.joint_gradient(
    lambda gg, out, g, y: (relu_gradient(add(gg[0], gg[1]), y), late_ops.zeros_like(y, dtype=None))
)


@rectified_gradient.batch_by
@by_formula
def _rectified_by_steps(g: Any, y: Any) -> Any:
    by_z = relu_gradient(g, y)
    return by_z, total(by_z, tuple(range(len(g.shape) - 1)))


def _dense_rule(x: Spec, kernel: Spec, bias: Any, *, activation: str | None) -> Spec:
    shapes_text = f"  input   {x.shape}\n  kernel  {kernel.shape}"
    if len(x.shape) == 0 or len(kernel.shape) != 2:
        raise ShapeError(
            f"dense: the input needs an axis of features, and the kernel two axes.\n{shapes_text}"
        )
    (inside, units), features = kernel.shape, x.shape[-1]
    if features != inside and None not in (features, inside):
        raise ShapeError(
            f"dense: the input has {features} features, the kernel takes {inside}.\n{shapes_text}"
        )
    if bias is not None and bias.shape != (units,) and None not in (units, *bias.shape):
        raise ShapeError(f"dense: the kernel has {units} units, the bias shape {bias.shape}")
    return Spec((*x.shape[:-1], units), dtypes.result_type(x, kernel))


def _rows(x: Array) -> Array:
    return x if x.ndim == 2 else x.reshape(-1, x.shape[-1])


def _is_short(xp: ArrayModule, dtype: Any) -> bool:
    """Whether products are made in float32: cuBLAS sums those of short floats so by itself."""
    return dtype.itemsize < 4 and (xp is np or dtype.kind in "iub")


def _on_pool(x: Array, kernel: Array, bias: Array | None, *, activation: str | None) -> Any:
    """The same by the tuned product, `None` where that does not pay.

    Its sums of float32 start from the bias, and are rectified while they are near: a pass over the
    result would be done by one core.
    """
    if x.ndim < 2 or not product_tuned.is_asked(x, kernel):
        return None
    # one product also where rows have gaps between them, so that layouts change no bit
    y = multiply_and_finish(_rows(x), kernel, bias, activation)
    return None if y is None else y.reshape(*x.shape[:-1], kernel.shape[1])


def _on_halves(x: Array, kernel: Array, bias: Array | None, *, activation: str | None) -> Any:
    y = half_product_tuned.product(_rows(x), kernel, bias, activation == "relu")
    return None if y is None else y.reshape(*x.shape[:-1], kernel.shape[1])


def multiply_and_finish(
    rows: Array, kernel: Array, bias: Array | None, activation: str | None
) -> Array | None:
    """The tuned product of two matrices, with bias and rectifier, or `None` where BLAS does it."""
    if rows.dtype is not _F32:
        y = product_tuned.product(rows, kernel)
        return None if y is None else finished(np, y, bias, activation)
    shift = None if bias is None else owned(bias)
    return product_tuned.product(rows, kernel, shift, activation == "relu")


def finished(xp: ArrayModule, y: Array, bias: Array | None, activation: str | None) -> Array:
    """A product with the bias added and rectified, in place."""
    if bias is not None:
        y += bias
    if activation == "relu":
        if y.size >= _LARGE and xp is np and y.dtype in _ZERO:
            np.clip(y, 0, np.inf, out=y)  # NumPy's maximum takes twice as long as both
            y += 0  # -0 becomes 0, as by the maximum
        else:
            xp.maximum(y, 0, out=y)
    return y


@primitive(
    _dense_rule,
    name="dense",
    promotion=COMMON,
    semantics=CONTRACTION,
    tuned=Tuned(
        _on_pool,
        fewest=product_tuned.FEWEST,
        fewest_beside=product_tuned.FEWEST_WEIGHTS,
        on_bfloat16=_on_halves,
        on_float16=_on_halves,
    ),
    direct=Direct("dense", OF_FEW_ROWS),
)
def _dense(
    xp: ArrayModule, x: Array, kernel: Array, bias: Array | None, *, activation: str | None
) -> Array:
    """Product of the last axis of `x` with `kernel`, plus `bias`, rectified if asked for."""
    if x.shape[-1] != kernel.shape[0]:  # a kernel of one axis more would broadcast
        raise ValueError("the inner sizes differ")
    dtype = x.dtype
    if xp is np and x.ndim == 2 == kernel.ndim and dtype in _ZERO:
        y = product(x, kernel)
    else:
        if _is_short(xp, dtype):
            x, kernel, bias = widen_halves(x), widen_halves(kernel), widen_halves(bias)
        y = matmul_gpu.matmul(xp, _rows(x), kernel)
    y = finished(xp, y, bias, activation)
    if x.ndim != 2:
        y = y.reshape(*x.shape[:-1], kernel.shape[1])
    return dtypes.cast_array(y, dtype)


def _gradient_rule(
    g: Spec, y: Spec, x: Spec, kernel: Spec, *, activation: Any, wanted: tuple[bool, ...]
) -> Any:
    every = (x, kernel, Spec(kernel.shape[1:], kernel.dtype))
    return tuple(Spec(s.shape, g.dtype) for s, use in zip(every, wanted, strict=True) if use)


def _sum(flat: Array) -> Array:
    """The sums of the columns, of short floats as float32."""
    return flat.sum(axis=0, dtype=np.float32 if flat.dtype.itemsize < 4 else None)


def _sent_back(
    xp: ArrayModule,
    arrays: tuple[Array, ...],
    activation: str | None,
    needed: tuple[bool, ...],
    multiplied: Callable[[Array, Array], Array],
    summed: Callable[[Array], Array],
    by_bias: Array | None = None,
) -> Any:
    """The gradients by functions that multiply matrices and sum columns.

    With `by_bias`, the sums of columns, `g` has been rectified already.
    """
    g, y, x, kernel = arrays
    dtype = g.dtype
    if _is_short(xp, dtype):
        g, y, x, kernel = map(widen_halves, (g, y, x, kernel))
    if activation == "relu" and by_bias is None:
        g = g * (y > 0)
    flat = _rows(g)
    result = []
    if needed[0]:
        by_x = multiplied(flat, kernel.T)
        result.append(by_x if x.ndim == 2 else by_x.reshape(x.shape))
    if needed[1]:
        result.append(multiplied(_rows(x).T, flat))
    if needed[2]:
        result.append(summed(flat) if by_bias is None else by_bias)
    return tuple(dtypes.cast_array(part, dtype) for part in result)


def _gradient_on_halves(
    g: Array, y: Array, x: Array, kernel: Array, *, activation: Any, wanted: tuple[bool, ...]
) -> Any:
    """The gradients by the kernels of 16-bit floats, `None` where one of them is not at hand."""
    by_bias = None
    if activation == "relu":
        pair = half_columns_tuned.rectified_gradient(g, y)
        if pair is None:
            return None
        g, by_bias = pair
    flat = _rows(g)
    result = []
    if wanted[0]:
        by_x = half_product_tuned.product(flat, kernel.T)
        result.append(by_x if by_x is None else by_x.reshape(x.shape))
    if wanted[1]:
        result.append(half_product_tuned.product(_rows(x).T, flat))
    if wanted[2]:
        result.append(half_columns_tuned.column_sums(flat) if by_bias is None else by_bias)
    return None if any(part is None for part in result) else tuple(result)


def _by_blas(flat: Array) -> Array:
    return leading_sum(flat, 1) if flat.size >= FEWEST else _sum(flat)


def _gradient_on_pool(
    g: Array, y: Array, x: Array, kernel: Array, *, activation: Any, wanted: tuple[bool, ...]
) -> Any:
    if g.dtype in SHORT_FLOATS:  # have kernels of their own
        return None
    by_bias = None
    if activation == "relu":
        g, by_bias = _rectify(g, y)
    return _sent_back(np, (g, y, x, kernel), activation, wanted, tuned_product, _by_blas, by_bias)


def _rectify(g: Array, y: Array) -> tuple[Array, Array | None]:
    """`g` where `y` is above 0, with its sums for each feature; for few elements `g` and `None`."""
    pair = pool_tuned.rectified_gradient(g, y) if g.size >= _LARGE else None
    return (g, None) if pair is None else pair


@primitive(
    _gradient_rule,
    name="dense_gradient",
    semantics=CONTRACTION,
    tuned=Tuned(
        _gradient_on_pool,
        fewest=product_tuned.FEWEST,
        on_bfloat16=_gradient_on_halves,
        on_float16=_gradient_on_halves,
    ),
)
def dense_gradient(
    xp: ArrayModule,
    g: Array,
    y: Array,
    x: Array,
    kernel: Array,
    *,
    activation: str | None,
    wanted: tuple[bool, ...],
) -> Any:
    """What `dense` sends back to those of input, kernel and bias that are wanted."""
    multiplied = functools.partial(matmul_gpu.matmul, xp)
    return _sent_back(xp, (g, y, x, kernel), activation, wanted, multiplied, _sum)


def _joint(
    g: Tensor,
    y: Tensor,
    x: Tensor,
    kernel: Tensor,
    bias: Any,
    *,
    activation: str | None,
    needed: tuple[bool, ...],
) -> Any:
    gradients: Any = dense_gradient(g, y, x, kernel, activation=activation, wanted=needed)
    return spread(gradients, needed)


def spread(gradients: tuple[Any, ...], wanted: tuple[bool, ...]) -> tuple[Any, ...]:
    """`gradients`, one for each that is wanted, with `None` for those that are not."""
    remaining = iter(gradients)
    return tuple(next(remaining) if use else None for use in wanted)


def _second(
    gg: Any,
    out: Any,
    g: Tensor,
    y: Tensor,
    x: Tensor,
    kernel: Tensor,
    *,
    activation: str | None,
    wanted: tuple[bool, ...],
) -> Any:
    def rectify(h: Tensor) -> Tensor:
        return relu_gradient(h, y) if activation == "relu" else h

    def one(index: int, *arrays: Tensor) -> Tensor:
        only = tuple(i == index for i in range(3))
        part: Tensor = dense_gradient(*arrays, activation=None, wanted=only)[0]
        return part

    gg_x, gg_kernel, gg_bias = spread(gg, wanted)
    gz = rectify(g)
    by_g = [matmul(gg_x, kernel)] if wanted[0] else []
    by_g += [matmul(x, gg_kernel)] if wanted[1] else []
    upstream_sum: Any = by_g[0] if by_g else None
    for more in by_g[1:]:
        upstream_sum = add(upstream_sum, more)
    if wanted[2]:
        upstream_sum = add(multiply(gz, 0.0) if upstream_sum is None else upstream_sum, gg_bias)
    by_x = one(0, gz, y, x, gg_kernel) if wanted[1] else None
    by_kernel = one(1, gz, y, gg_x, kernel) if wanted[0] else None
    by_y = late_ops.zeros_like(y, dtype=None) if activation == "relu" else None
    return rectify(upstream_sum), by_y, by_x, by_kernel


def _joint_on_arrays(
    g: Array, y: Array, x: Array, kernel: Array, bias: Any, *, activation: Any, needed: list[bool]
) -> Any:
    if not (x.ndim == 2 and x.dtype is g.dtype is kernel.dtype):
        return NotImplemented
    by_bias = None
    if activation == "relu":
        g, by_bias = _rectify(g, y)
        if by_bias is None:
            g = np.multiply(g, np.greater(y, _ZERO[y.dtype]))
    # small ones are not even asked about
    multiplied = product if g.size < product_tuned.FEWEST > x.size else tuned_product
    return (
        multiplied(g, kernel.T) if needed[0] else None,
        multiplied(x.T, g) if needed[1] else None,
        (leading_sum(g, 1) if by_bias is None else by_bias) if needed[2] else None,
    )


_dense.joint_gradient(_joint)
_dense.joint_array_gradient(_joint_on_arrays)
dense_gradient.joint_gradient(_second)


@_dense.batch_by
def _dense_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """Inputs in one large product where items share the kernel and the bias."""
    x, kernel, bias = inputs
    if isinstance(kernel, ItemStack) or isinstance(bias, ItemStack):
        return _by_steps(primitive, inputs, settings, count)
    return primitive.op(x.stacked, kernel, bias, **settings)


@by_formula
def _by_steps(x: Any, kernel: Any, bias: Any, *, activation: str | None) -> Any:
    y = matmul(expand_dims(x, 0), kernel)[0] if len(x.shape) == 1 else matmul(x, kernel)
    y = y if bias is None else add(y, bias)
    return relu(y) if activation == "relu" else y


@dense_gradient.batch_by
@by_formula
def _gradient_by_steps(
    g: Any, y: Any, x: Any, kernel: Any, *, activation: str | None, wanted: tuple[bool, ...]
) -> Any:
    if activation == "relu":
        g = relu_gradient(g, y)
    flat = reshape(g, (-1, g.shape[-1]))
    gradients = []
    if wanted[0]:
        gradients.append(reshape(matmul(flat, swap_last_axes(kernel)), x.shape))
    if wanted[1]:
        gradients.append(matmul(swap_last_axes(reshape(x, (-1, x.shape[-1]))), flat))
    if wanted[2]:
        gradients.append(total(flat, 0))
    return tuple(gradients)


def dense(
    x: TensorLike, kernel: TensorLike, bias: TensorLike | None = None, activation: str | None = None
) -> Tensor:
    """Features times kernel plus bias, in one operation: activation(x @ kernel + bias).

    Args:
        x: (..., features).
        kernel: (features, units).
        bias: (units,), or `None`.
        activation: `None`, or "relu", which is applied in place.

    Returns:
        (..., units).

    Raises:
        ShapeError: the shapes do not fit.
        InvalidArgumentError: the activation is another.

    >>> dense([[1.0, 2.0]], [[1.0], [-1.0]], [0.5], "relu").numpy()
    array([[0.]], dtype=float32)
    """
    if activation not in ACTIVATIONS:
        check_activation("dense", activation)
    y: Tensor = _dense(x, kernel, bias, activation=activation)
    return y
