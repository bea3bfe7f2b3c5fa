"""Which nodes are traced, and how: by their own kernel, or by a rule where that decides on values.

A kernel is traced (its facet `lowering` says so) when it computes nothing but from its inputs and
settings, and looks at no value. Those with a tuned version for large arrays are left alone where
that may be used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.compiler.ir import Unsupported, is_half, kind_of
from trainkit.compiler.tracer import KernelTracer, Namespace, TracedArray, as_traced, check_labels
from trainkit.core.dispatch.facets import FLOATS, TRACE
from trainkit.graph.ir.graph import GraphTensor, Node
from trainkit.graph.runtime.half_products import HALF_PRODUCTS
from trainkit.kernels.softmax.softmax_reference import shifted_powers, softmax
from trainkit.ops.neural.dropout import dropped
from trainkit.ops.neural.softmax_cross_entropy import (
    sparse_loss,
    sparse_pair,
    sparse_softmax_cross_entropy_gradient,
)

_XP: Any = Namespace()
_KINDS = "biuf"


def may_be_traced(node: Node) -> bool:
    """Whether a node is of a kind that is traced; the trace itself may still refuse it."""
    if node.kind != "op" or node.effect or node.subgraphs():
        return False
    # bounds and strides of loops are numbers in the text; graphs of unknown sizes are fused at
    # a few known ones, see `general_fusion`
    return bool(node.primitive.facets.lowering) and all(
        None not in x._spec.shape and kind_of(x.dtype.dtype) in _KINDS
        for x in (*node.outputs, *(x for x in node.inputs if isinstance(x, GraphTensor)))
    )


def traced(trace: KernelTracer, node: Node, arrays: tuple[Any, ...]) -> tuple[TracedArray, ...]:
    """The outputs of a node, its kernel run on arrays that take notes.

    Raises:
        Unsupported: it does what can't be compiled.
    """
    try:
        result = _run(trace, node, arrays)
    except Unsupported:
        raise
    except Exception as error:  # the kernel did what a traced array does not know
        raise Unsupported(f"{type(error).__name__}: {error}") from None
    results = tuple(as_traced(trace, y) for y in (result if node.many else (result,)))
    # the nodes behind were traced for what the graph promises, and so are their loops
    for y, symbol in zip(results, node.outputs, strict=True):
        if y.array.shape != symbol._spec.shape or y.array.dtype != symbol.dtype.dtype:
            raise Unsupported("a result that differs from what was promised")
    return results


def _run(trace: KernelTracer, node: Node, arrays: tuple[Any, ...]) -> Any:
    of_halves = HALF_PRODUCTS.get(node.primitive)
    if of_halves is not None and trace.calls_kernels and is_half(arrays[0].dtype):
        return of_halves(trace, *arrays, **node.settings)
    tuned = node.primitive.facets.tuned
    # an eager call may take the tuned kernel, which adds up in another order: other bits
    if trace.tuned and tuned and tuned.may_round_otherwise(arrays, node.settings):
        raise Unsupported("arrays for which there may be a tuned kernel")
    lowering = node.primitive.facets.lowering
    if lowering is not TRACE:
        return lowering(trace, *arrays, **node.settings)
    if not node.primitive.is_ufunc:
        if node.primitive.facets.promotion == FLOATS and (short := _short_dtype(arrays)):
            return _in_float32(node, arrays, short)
        return node.primitive.body(_XP, *arrays, **node.settings)
    if _is_rounded_once(trace, node, arrays):
        wide_result = node.primitive.kernel(arrays[0].astype(np.float32))
        return _round(wide_result, arrays[0].dtype)
    # NumPy's function may give a wider type than the operation does, as in `bound_kernel`
    y = node.primitive.kernel(*arrays)
    return y.astype(node.outputs[0].dtype.dtype, copy=False)


def _short_dtype(arrays: tuple[Any, ...]) -> Any:
    """The dtype of 16-bit floats among the arrays, `None` where there are none."""
    return next((x.dtype for x in arrays if _is_short(x)), None)


def _is_short(x: Any) -> bool:
    return hasattr(x, "dtype") and is_half(x.dtype)


def _in_float32(node: Node, arrays: tuple[Any, ...], dtype: Any) -> Any:
    """The body on 16-bit floats, which is worked on in float32 from its start to its end."""
    operands = [x.astype(np.float32) if _is_short(x) else x for x in arrays]
    results = node.primitive.body(_XP, *operands, **node.settings)
    if isinstance(results, tuple):
        return tuple(_round(y, dtype) for y in results)
    return _round(results, dtype)


def _round(y: TracedArray, dtype: Any) -> TracedArray:
    """float32 as `dtype`; what is none, such as the bools of a comparison, was not widened."""
    return y.astype(dtype) if y.dtype == np.float32 else y


def _is_rounded_once(trace: KernelTracer, node: Node, arrays: tuple[Any, ...]) -> bool:
    """Whether NumPy's function of one array of 16-bit floats is that of float32, then rounded."""
    if len(arrays) != 1 or not _is_short(arrays[0]):
        return False
    # what is compiled here rounds its own result, to the same bits
    return not trace.is_expression(node.primitive.kernel.__name__, (arrays[0].view,))


# ------------------------------------------------------------------ rules


def _classes(trace: KernelTracer, labels: TracedArray, logits: TracedArray) -> Any:
    """Where the class of an element is its row's label."""
    tuned = sparse_loss.primitive.facets.tuned
    is_large = tuned is not None and tuned.may_round_otherwise((labels, logits), {})
    if is_large or logits.dtype.itemsize < 4:
        raise Unsupported("logits for which there may be a tuned kernel")
    # a label out of range leaves the code at its start, and the interpreted run names it
    check_labels(trace, labels, logits.shape[-1])
    return np.expand_dims(labels, -1) == np.arange(logits.shape[-1], dtype=labels.dtype)


@sparse_loss.lower_by
def _sparse_loss(trace: KernelTracer, labels: TracedArray, logits: TracedArray) -> Any:
    one_hot = _classes(trace, labels, logits)
    shifted, powers = shifted_powers(np, logits)
    picked = np.where(one_hot, shifted, 0).sum(axis=-1)  # one number and zeros: exact
    return np.log(powers.sum(axis=-1)) - picked


@sparse_pair.lower_by
def _sparse_pair(trace: KernelTracer, labels: TracedArray, logits: TracedArray) -> Any:
    one_hot = _classes(trace, labels, logits)
    shifted, powers = shifted_powers(np, logits)
    # one sum serves the loss and the gradient
    sums = powers.sum(axis=-1, keepdims=True)
    picked = np.where(one_hot, shifted, 0).sum(axis=-1)
    shares = powers / sums
    return np.log(sums[..., 0]) - picked, np.where(one_hot, shares - 1, shares)


@sparse_softmax_cross_entropy_gradient.lower_by
def _sparse_gradient(
    trace: KernelTracer, g: TracedArray, labels: TracedArray, logits: TracedArray
) -> Any:
    one_hot = _classes(trace, labels, logits)
    shares = softmax(np, logits)
    return np.where(one_hot, shares - 1, shares) * np.expand_dims(g, -1)


@dropped.lower_by
def _dropped(trace: KernelTracer, x: TracedArray, mask: TracedArray, scale: float) -> Any:
    return x * np.where(mask, x.dtype.type(scale), x.dtype.type(0))
