"""Products of 16-bit floats within compiled loops, by the kernels that nodes of their own call.

A product of 32 rows by a matrix of 64 x 64 takes a microsecond, and its call from Python three. As
a step of a loop it takes the first alone, and what stands around it is in the same loop: casts,
activations and their gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.compiler.ir import KernelCall, Unsupported
from trainkit.compiler.tracer import KernelTracer, TracedArray, as_traced
from trainkit.kernels.matmul import half_columns_tuned, half_product_tuned
from trainkit.kernels.threads.part_functions import PartFunction, array_words
from trainkit.ops.linear_algebra.matmul import matmul
from trainkit.ops.neural.dense import _dense, dense_gradient

_F32 = np.dtype(np.float32)
_NO_VECTOR = array_words(0, (0,), (_F32.itemsize,), _F32.itemsize, 0)
_NO_HALVES = array_words(0, (0, 0), (0, 2), 2, 0)
"""Stand for arrays that there are not."""


def _call(
    trace: KernelTracer,
    function: PartFunction | None,
    operands: tuple[Any, ...],
    outs: tuple[TracedArray, ...],
    work: int,
) -> None:
    if function is None:  # eagerly it is not there either, at least not yet
        raise Unsupported("a kernel that is not compiled")
    views = tuple(x.view if isinstance(x, TracedArray) else x for x in operands)
    trace.note(KernelCall(function, views, tuple(y.view for y in outs), work))


def _product(
    trace: KernelTracer, x: Any, w: Any, bias: Any = None, rectify: bool = False
) -> TracedArray:
    """The product of two matrices, whose sums start from the bias; as `half_product_tuned` does."""
    x, w = as_traced(trace, x), as_traced(trace, w)
    if not (x.dtype == w.dtype and x.ndim == 2 == w.ndim):
        raise Unsupported("a product without a kernel")
    (rows, depth), columns = x.shape, w.shape[1]
    if depth != w.shape[0] or not rows * depth * columns:
        raise Unsupported("a product of nothing")
    if half_product_tuned.is_shared(x.dtype, rows, depth, columns):
        raise Unsupported("a product for several threads")
    start: Any = _NO_VECTOR
    if bias is not None:
        start = (as_traced(trace, bias).astype(_F32),)
    y = trace.result(np.empty((rows, columns), x.dtype))
    operands = _with_neighbours(x), _with_neighbours(w), *start, y, rows, columns, 1, int(rectify)
    _call(
        trace, half_product_tuned.product_function(x.dtype), operands, (y,), rows * depth * columns
    )
    return y


def _with_neighbours(x: TracedArray) -> TracedArray:
    """A matrix with neighbours along one of its axes, as kernels read it."""
    return x if x.itemsize in x.strides else x.copied()


def _rows(x: TracedArray) -> TracedArray:
    return x if x.ndim == 2 else x.reshape(-1, x.shape[-1])


def _matmul_of_halves(trace: KernelTracer, x: Any, w: Any) -> TracedArray:
    x = as_traced(trace, x)
    if x.ndim == 2 or not x.view.contiguous:
        return _product(trace, x, w)
    return _product(trace, _rows(x), w).reshape(*x.shape[:-1], w.shape[1])


def _dense_of_halves(
    trace: KernelTracer, x: Any, kernel: Any, bias: Any, activation: str | None
) -> TracedArray:
    x = as_traced(trace, x)
    y = _product(trace, _rows(x), kernel, bias, activation == "relu")
    return y.reshape(*x.shape[:-1], kernel.shape[1])


def _column_sums(
    trace: KernelTracer, g: TracedArray, y: TracedArray | None = None
) -> tuple[TracedArray, TracedArray]:
    """`g`, 0 where the output `y` of a rectifier is not above 0, and the sums of its columns."""
    g = g if g.view.contiguous else g.copied()
    shares = half_columns_tuned.share_count(len(g))
    sums = trace.result(np.empty((shares, g.shape[1]), _F32))
    function = half_columns_tuned.column_function(g.dtype, y is not None)
    if y is None:
        _call(trace, function, (g, g, *_NO_HALVES, sums), (sums,), g.size)
    else:
        result = trace.result(np.empty(g.shape, g.dtype))
        y = y if y.view.contiguous else y.copied()
        _call(trace, function, (g, y, result, sums), (result, sums), g.size)
        g = result
    total = sums[0] if shares == 1 else sums.sum(axis=0)
    return g, total.astype(g.dtype)


def _dense_gradient_of_halves(
    trace: KernelTracer,
    g: Any,
    y: Any,
    x: Any,
    kernel: Any,
    activation: str | None,
    **settings: Any,
) -> tuple[TracedArray, ...]:
    g, y, x, kernel = (as_traced(trace, a) for a in (g, y, x, kernel))
    by_x, by_kernel, by_bias = settings["wanted"]
    flat, sums = _rows(g), None
    if not flat.size:
        raise Unsupported("gradients of nothing")
    if activation == "relu":
        flat, sums = _column_sums(trace, flat, _rows(y))
    results = []
    if by_x:
        results.append(_product(trace, flat, kernel.T).reshape(*x.shape))
    if by_kernel:
        results.append(_product(trace, _rows(x).T, flat))
    if by_bias:
        results.append(_column_sums(trace, flat)[1] if sums is None else sums)
    return tuple(results)


HALF_PRODUCTS: dict[Any, Callable[..., Any]] = {
    matmul.primitive: _matmul_of_halves,
    _dense.primitive: _dense_of_halves,
    dense_gradient.primitive: _dense_gradient_of_halves,
}
"""By operation what notes its steps for arrays of 16-bit floats."""
