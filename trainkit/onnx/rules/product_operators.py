"""Matrix products and reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.tensor import Tensor
from trainkit.onnx.imported_values import ChannelsLast, axes_of, live_sizes, rank, tensor
from trainkit.onnx.operator_rules import NodeCall, onnx_rule

onnx_rule("MatMul")(lambda call, a, b: ops.matmul(tensor(a), tensor(b)))


@onnx_rule("Gemm")
def _gemm(call: NodeCall, a: Any, b: Any, c: Any = None) -> Tensor:
    a = ops.transpose(tensor(a)) if call.flag("transA") else tensor(a)
    b = ops.transpose(tensor(b)) if call.flag("transB") else tensor(b)
    alpha, beta = call.float("alpha", 1.0), call.float("beta", 1.0)
    y = ops.matmul(a, b)
    y = y if alpha == 1 else y * alpha
    if c is None or not beta:
        return y
    return ops.cast(y + (tensor(c) if beta == 1 else tensor(c) * beta), a.dtype)


onnx_rule("Einsum")(lambda call, *xs: ops.einsum(call.text("equation"), *[tensor(x) for x in xs]))
onnx_rule("Det")(lambda call, x: ops.det(tensor(x)))


def _sum_square(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return ops.sum(x * x, axis=axis, keepdims=keepdims)


def _l1(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return ops.sum(ops.abs(x), axis=axis, keepdims=keepdims)


def _l2(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return ops.sqrt(_sum_square(x, axis, keepdims))


def _log_sum(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return ops.log(ops.sum(x, axis=axis, keepdims=keepdims))


_REDUCTIONS: dict[str, Any] = {
    "ReduceSum": ops.sum, "ReduceMean": ops.mean, "ReduceMax": ops.max, "ReduceMin": ops.min,
    "ReduceProd": ops.prod, "ReduceL1": _l1, "ReduceL2": _l2, "ReduceSumSquare": _sum_square,
    "ReduceLogSum": _log_sum, "ReduceLogSumExp": ops.logsumexp,
}  # fmt: skip


@onnx_rule(*_REDUCTIONS)
def _reduce(call: NodeCall, x: Any, axes: Any = None) -> Any:
    if isinstance(x, ChannelsLast) and tuple(axes_of(call.axes(axes) or (), rank(x))) == tuple(
        range(2, rank(x))
    ):
        y = _reduced(call, x.tensor, tuple(range(1, rank(x) - 1)))
        return ChannelsLast(y) if call.flag("keepdims", True) else y
    y, reduced_axes = tensor(x), call.axes(axes)
    if not reduced_axes:
        if call.flag("noop_with_empty_axes"):
            return _noop(call, y)
        return _reduced(call, y, tuple(range(rank(y))))
    return _reduced(call, y, axes_of(reduced_axes, rank(y)))


def _reduced(call: NodeCall, y: Tensor, axes: tuple[int, ...]) -> Tensor:
    if y.dtype.name == "bool":
        function: Any = ops.any if call.op_type == "ReduceMax" else ops.all
        return function(y, axis=axes, keepdims=call.flag("keepdims", True))
    if not y.dtype.is_floating and call.op_type in (
        "ReduceMean",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
    ):
        doubles = ops.cast(y, "float64")
        return ops.cast(
            _REDUCTIONS[call.op_type](doubles, axis=axes, keepdims=call.flag("keepdims", True)),
            y.dtype,
        )
    if not axes:
        return _noop(call, y)
    if call.op_type in ("ReduceMax", "ReduceMin") and 0 in tuple(y.shape):
        y = _with_least(call, y, axes)
    result = _REDUCTIONS[call.op_type](y, axis=axes, keepdims=call.flag("keepdims", True))
    return ops.cast(result, y.dtype)


def _with_least(call: NodeCall, y: Tensor, axes: tuple[int, ...]) -> Tensor:
    """With one more element on empty axes, which no other is less or more than."""
    sign = -1 if call.op_type == "ReduceMax" else 1
    if y.dtype.is_floating:
        value: Any = sign * np.inf
    else:
        bounds = np.iinfo(y.dtype.dtype)
        value = bounds.min if sign < 0 else bounds.max
    pairs = [(0, int(i in axes and n == 0)) for i, n in enumerate(y.shape)]
    return ops.pad(y, pairs, "constant", ops.cast(value, y.dtype))


def _noop(call: NodeCall, y: Tensor) -> Tensor:
    """A reduction over no axis: each element by itself."""
    if call.op_type in ("ReduceL1", "ReduceL2"):
        return ops.abs(y)
    if call.op_type == "ReduceSumSquare":
        return y * y
    return ops.log(y) if call.op_type == "ReduceLogSum" else y


@onnx_rule("MatMulInteger")
def _matmul_integer(
    call: NodeCall, a: Any, b: Any, a_zero: Any = None, b_zero: Any = None
) -> Tensor:
    left, right = ops.cast(tensor(a), "int32"), ops.cast(tensor(b), "int32")
    if a_zero is not None:
        zero = ops.cast(tensor(a_zero), "int32")
        left = left - (
            zero[:, None]
            if rank(a_zero) == 1 and rank(left) > 1 and live_sizes(zero)[0] != 1
            else zero
        )
    if b_zero is not None:
        right = right - ops.cast(tensor(b_zero), "int32")
    return ops.matmul(left, right)
