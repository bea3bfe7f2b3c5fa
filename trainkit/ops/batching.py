"""Batching rules: an operation on n stacked values at once, in place of n operations.

A `BatchedTensor` stands for one value, but holds n of them along a new first axis. Operations hand
over to it, and it runs them on the stack: by a rule that keeps the first axis out of the way, or,
for an operation without a rule, once per value. `GradientTape.jacobian` sends all output gradients
back in one such walk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit.core import recorder
from trainkit.core.errors import NoValueError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import PRIMITIVES, SymbolicTensor, Tensor


class NeedsValue(NoValueError, AttributeError):
    """A function looked at the value of a `BatchedTensor`, which stands for many."""


_VALUES = frozenset({"numpy", "item", "tolist", "_array"})


class BatchedTensor(SymbolicTensor):
    """n values of one shape, seen as one.

    Attributes:
        stacked: the tensor (n, ...) that holds them.
    """

    __slots__ = ("stacked",)

    def __init__(self, stacked: Tensor) -> None:
        super().__init__(Spec(tuple(stacked.shape)[1:], stacked.dtype))
        self.stacked = stacked

    def _no_value(self, what: str) -> NoValueError:
        return NeedsValue(f"{what} needs one value, and {self!r} stands for many")

    def __getattribute__(self, name: str) -> Any:
        if name in _VALUES:
            raise NeedsValue(f"{self!r} stands for many values and has no {name!r}")
        return object.__getattribute__(self, name)

    def __str__(self) -> str:
        return f"BatchedTensor(shape={tuple(self.shape)}, dtype={self.dtype.name})"

    __repr__ = __str__
    __hash__ = object.__hash__

    @staticmethod
    def apply_primitive(primitive: Any, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """One operation on the stacks; tapes that track one of the inputs take note of it."""
        count = next(x.stacked.shape[0] for x in inputs if isinstance(x, BatchedTensor))
        rule = RULES.get(primitive.name)
        if rule is None and primitive.facets.fusible:
            rule = _elementwise
        result = rule(primitive, inputs, settings, count) if rule else NotImplemented
        if result is NotImplemented:
            result = _one_by_one(primitive, inputs, settings, count)
        if isinstance(result, tuple):
            y: Any = tuple(BatchedTensor(part) for part in result)
        else:
            y = BatchedTensor(result)
        if recorder.TAPES:
            recorder.record(primitive, inputs, y, settings or None)
        return y


Rule = Callable[[Any, tuple[Any, ...], dict[str, Any], int], Any]


def _one_by_one(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """The operation once per value, results stacked."""
    rows = []
    for i in range(count):
        given = [x.stacked[i] if isinstance(x, BatchedTensor) else x for x in inputs]
        rows.append(primitive.op(*given, **settings))
    stack = PRIMITIVES["stack"].op
    if isinstance(rows[0], tuple):
        return tuple(stack(*column, axis=0) for column in zip(*rows, strict=True))
    return stack(*rows, axis=0)


def _reshaped(x: Tensor, dims: tuple[Any, ...]) -> Tensor:
    if tuple(x.shape) == dims:
        return x
    result: Tensor = PRIMITIVES["reshape"].op(x, shape=dims)
    return result


def _with_rank(x: Any, rank: int, count: int) -> Any:
    """A stack whose values have `rank` axes, by axes of size 1 in front of theirs."""
    if not isinstance(x, BatchedTensor):
        return x
    dims = tuple(x.shape)
    return _reshaped(x.stacked, (count, *(1,) * (rank - len(dims)), *dims))


def _spread(x: Any, count: int) -> Any:
    """The stack of `x`; a tensor that is the same for all is repeated, as a view."""
    if isinstance(x, BatchedTensor):
        return x.stacked
    if not isinstance(x, Tensor):
        return x
    return PRIMITIVES["broadcast_to"].op(x, shape=(count, *x.shape))


def _elementwise(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    ranks = [len(x.shape) for x in inputs if isinstance(x, Tensor)]
    return primitive.op(*[_with_rank(x, max(ranks), count) for x in inputs], **settings)


def _later(axis: int) -> int:
    """An axis of a value as an axis of the stack."""
    return axis + 1 if axis >= 0 else axis


def _along_axis(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """Operations with a setting `axis`."""
    axis = settings["axis"]
    if axis is None:
        if primitive.name not in _REDUCTIONS:
            return NotImplemented
        rank = max(len(x.shape) for x in inputs if isinstance(x, Tensor))
        axis = tuple(range(1, rank + 1))
    elif isinstance(axis, tuple):
        axis = tuple(_later(a) for a in axis)
    else:
        axis = _later(axis)
    stacks = [_spread(x, count) for x in inputs]
    return primitive.op(*stacks, **{**settings, "axis": axis})


_REDUCTIONS = {"sum", "mean", "max", "min", "prod", "all", "any", "logsumexp", "spread", "var"}


def _last_axes(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """Operations on the last axes, for which all axes before these are a batch."""
    return primitive.op(*[_spread(x, count) for x in inputs], **settings)


def _matmul(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    a, b = inputs
    if len(a.shape) < 2 or len(b.shape) < 2:
        return NotImplemented
    if not isinstance(b, BatchedTensor) and len(b.shape) == 2:
        # One large product in place of many small ones.
        dims = tuple(a.stacked.shape)
        flat = _reshaped(a.stacked, (-1, dims[-1])) if len(dims) > 2 else a.stacked
        return _reshaped(primitive.op(flat, b), (*dims[:-1], b.shape[-1]))
    rank = max(len(a.shape), len(b.shape))
    return primitive.op(_with_rank(a, rank, count), _with_rank(b, rank, count))


def _to_shape(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """`reshape` and `broadcast_to`."""
    (x,) = inputs
    shape = tuple(settings["shape"])
    if -1 in shape:
        return NotImplemented
    if primitive.name == "broadcast_to":
        stacked = _with_rank(x, len(shape), count)
    else:
        stacked = x.stacked
    return primitive.op(stacked, shape=(count, *shape))


def _reshape_like(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    return _reshaped(_spread(inputs[0], count), (count, *inputs[1].shape))


def _sum_to_like(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    g, x = inputs
    rank = len(g.shape)
    like = _reshaped(_spread(x, count), (count, *(1,) * (rank - len(x.shape)), *x.shape))
    return _reshaped(primitive.op(_spread(g, count), like), (count, *x.shape))


def _broadcast_like(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    x, like = inputs
    lifted = x if isinstance(x, BatchedTensor) else BatchedTensor(_spread(x, count))
    return primitive.op(_with_rank(lifted, len(like.shape), count), _spread(like, count))


def _transpose(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    (x,) = inputs
    rank = len(x.shape)
    axes = settings.get("axes")
    axes = tuple(range(rank))[::-1] if axes is None else tuple(a % rank for a in axes)
    return primitive.op(x.stacked, axes=(0, *(a + 1 for a in axes)))


def _take(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    x, indices = inputs
    if isinstance(indices, BatchedTensor):
        return NotImplemented
    return primitive.op(x.stacked, indices, **{**settings, "axis": _later(settings["axis"])})


def _get_item(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    return primitive.op(inputs[0].stacked, key=(_ALL, *settings["key"]))


def _put_item(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    stacks = [_spread(x, count) for x in inputs]
    return primitive.op(*stacks, key=(_ALL, *settings["key"]))


_ALL = (None, None, None)  # a slice of everything, as `get_item` has it


def _pad(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    width = ((0, 0), *settings["pad_width"])
    return primitive.op(inputs[0].stacked, **{**settings, "pad_width": width})


def _folded(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """Operations whose first input has a batch axis, and whose further ones have none."""
    x, *rest = inputs
    if not isinstance(x, BatchedTensor) or any(isinstance(r, BatchedTensor) for r in rest):
        return NotImplemented
    if len(x.shape) < 2:
        return NotImplemented
    dims = tuple(x.stacked.shape)
    y = primitive.op(_reshaped(x.stacked, (dims[0] * dims[1], *dims[2:])), *rest, **settings)
    return _reshaped(y, (*dims[:2], *tuple(y.shape)[1:]))


def _attention(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """Query, key and value that are all stacks, and a mask that is none and has no batch axis."""
    *heads, mask = inputs
    if not all(isinstance(x, BatchedTensor) for x in heads) or isinstance(mask, BatchedTensor):
        return NotImplemented
    if mask is not None and mask.shape[0] != 1:
        return NotImplemented
    dims = tuple(heads[0].stacked.shape)
    flat = [_reshaped(x.stacked, (dims[0] * dims[1], *x.stacked.shape[2:])) for x in heads]
    y = primitive.op(*flat, mask, **settings)
    return _reshaped(y, (*dims[:2], *tuple(y.shape)[1:]))


def _like(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    return primitive.op(inputs[0].stacked, **settings)


RULES: dict[str, Rule] = {
    **dict.fromkeys(
        [
            *_REDUCTIONS,
            "softmax",
            "log_softmax",
            "softmax_gradient",
            "cumsum",
            "cumprod",
            "cumulative_logsumexp",
            "flip",
            "squeeze",
            "concatenate",
            "stack",
            "unstack",
            "sort",
            "argsort",
            "expand_dims",
            "argmax",
            "argmin",
        ],
        _along_axis,
    ),
    **dict.fromkeys(
        "real imag conj angle complex erf erfc erfinv erfcinv ndtri gelu_erf rectified_gradient "
        "floor_divide mod fmod i0e i1e i0 i1 lgamma digamma zeta polygamma isclose "
        "sigmoid_cross_entropy_with_logits copy".split(),
        _elementwise,
    ),
    **dict.fromkeys(["dense", "biased_gelu", "conv", "max_pool", "average_pool"], _folded),
    "attention": _attention,
    "get_item": _get_item,
    "put_item": _put_item,
    "pad": _pad,
    **dict.fromkeys(
        "cholesky inv det solve solve_triangular slogdet expm eigh qr tril triu fft ifft".split(),
        _last_axes,
    ),
    "matmul": _matmul,
    "reshape": _to_shape,
    "broadcast_to": _to_shape,
    "reshape_like": _reshape_like,
    "sum_to_like": _sum_to_like,
    "broadcast_like": _broadcast_like,
    "transpose": _transpose,
    "take": _take,
    "identity": _like,
    "stop_gradient": _like,
    "zeros_like": _like,
    "ones_like": _like,
    "copy_to_device": _like,
}
"""The rules by the names of primitives; element-wise ones need none."""


def unbatched(y: Any, count: int) -> Tensor:
    """The stack (n, ...) behind `y`, which is repeated if it is the same for all."""
    stacked: Tensor = _spread(y, count)
    return stacked
