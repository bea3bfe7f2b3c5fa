"""Batching: an operation on n stacked values at once, in place of n operations (vmap).

A `BatchedTensor` stands for one value, but holds n of them along a new first axis. Operations hand
over to it, and it runs them on the stack by the operation's `batch` facet: a rule that keeps the
first axis out of the way, or, for an operation that has a reason to go without one, once per
value. `GradientTape.jacobian` sends all output gradients back in one such pass.

Maps nest: each has a level of its own, a later one is inside of an earlier one. An operation on
tensors of several levels goes by the rule of the innermost; to it, those of the others are values
that all items share.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from itertools import count as numbers
from typing import Any

from trainkit.core.dispatch import late_ops, trace_state
from trainkit.core.dispatch.facets import BY_ELEMENT, LEADING_AXES, Absent, Batch
from trainkit.core.dtypes import DType
from trainkit.core.errors import NoValueError
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor


class NeedsValue(NoValueError, AttributeError):
    """A function looked at the value of a `BatchedTensor`, which stands for many."""


_LEVELS = numbers()


def is_symbol(x: Any) -> bool:
    """Whether `x` belongs to a graph, be it as the items of a map."""
    while isinstance(x, BatchedTensor):
        x = x.stacked
    return isinstance(x, SymbolicTensor)


def new_level() -> int:
    """The level of a map that begins now, inside of those that have begun."""
    return next(_LEVELS)


class BatchedTensor(SymbolicTensor):
    """n values of one shape, seen as one.

    Args:
        stacked: the tensor (n, ...) that holds them.
        level: the map whose items they belong to; by default a new one.

    Attributes:
        stacked: the tensor (n, ...) that holds them.
        level: the map whose items they belong to.
    """

    __slots__ = ("level", "stacked")

    def __init__(self, stacked: Tensor, level: int | None = None) -> None:
        super().__init__(Spec(tuple(stacked.shape)[1:], stacked.dtype))
        self.stacked = stacked
        self.level = new_level() if level is None else level

    def _no_value(self, what: str) -> NoValueError:
        return NeedsValue(f"{what} needs one value, and {self!r} stands for many")

    @property
    def _none(self) -> Any:
        """What stands in place of a value, so that looking for one ends in `__getattr__`."""
        raise AttributeError

    numpy = item = tolist = _array = _none

    def __getattr__(self, name: str) -> Any:
        raise NeedsValue(f"{self!r} stands for many values and has no {name!r}")

    def __str__(self) -> str:
        return f"BatchedTensor(shape={tuple(self.shape)}, dtype={self.dtype.name})"

    __repr__ = __str__
    __hash__ = object.__hash__

    @staticmethod
    def apply_primitive(primitive: Any, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """One operation on the stacks; tapes that track one of the inputs take note of it."""
        level, count = -1, 0
        for x in inputs:
            if isinstance(x, BatchedTensor) and x.level > level:
                level, count = x.level, x.stacked.shape[0]
        operands = [
            ItemStack(x) if isinstance(x, BatchedTensor) and x.level == level else x for x in inputs
        ]
        rule = rule_of(primitive) or one_after_the_other
        try:
            result = rule(primitive, operands, settings, count)
        except NoBatch:
            result = NotImplemented
        if result is NotImplemented:
            result = one_after_the_other(primitive, operands, settings, count)
        if isinstance(result, tuple):
            y: Any = tuple(_lift(part, level) for part in result)
        else:
            y = _lift(result, level)
        if trace_state.TAPES:
            trace_state.record(primitive, inputs, y, settings or None)
        return y


def _lift(result: Any, level: int) -> Tensor:
    return result.value if isinstance(result, SameForAll) else BatchedTensor(result, level)


class SameForAll:
    """A result of a batching rule that is the same for all items.

    Attributes:
        value: as one item sees it.
    """

    __slots__ = ("value",)

    def __init__(self, value: Tensor) -> None:
        self.value = value


class ItemStack:
    """An input of a batching rule that holds a value for each item; the others are shared.

    Attributes:
        stacked: the tensor (n, ...) of the values.
        value: the same as one item sees it, for rules that are written as operations on items.
    """

    __slots__ = ("stacked", "value")

    def __init__(self, value: BatchedTensor) -> None:
        self.value = value
        self.stacked = value.stacked

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The sizes of one value."""
        return tuple(self.value.shape)

    @property
    def dtype(self) -> DType:
        """The element type of the values."""
        return self.value.dtype


class NoBatch(Exception):
    """A rule met inputs that it has no way for, as sizes that are not known."""


Rule = Callable[[Any, Sequence[Any], dict[str, Any], int], Any]
"""From the primitive, its inputs, settings and the number of items to the stacked result.

What is the same for all items may be given as `SameForAll`.

It gives `NotImplemented`, or raises `NoBatch`, for inputs that it has no way for; they go one by
one.
"""


RULE_FILES = ("convolution", "fused", "gather", "index", "order", "shape")
"""Files of `ops.vmap_rules` that declare longer rules; starting does not wait for them."""


@functools.cache
def load_rules() -> None:
    """Have all batching rules declared."""
    for name in RULE_FILES:
        importlib.import_module(f"trainkit.ops.vmap_rules.{name}_rules")


@functools.cache
def rule_of(primitive: Any) -> Rule | None:
    """The batching rule that an operation's `batch` facet gives, `None` for one by one."""
    load_rules()
    way = primitive.facets.batch
    if isinstance(way, Batch):
        return _axis_rule(way) if way.kind == "axis" else _KINDS[way.kind]
    return None if isinstance(way, Absent) else way


def one_after_the_other(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """The operation once per item, results stacked."""
    if refuse := getattr(trace_state.current_trace(), "one_by_one", None):
        refuse(primitive)
    rows = []
    for i in range(count):
        operands = [x.stacked[i] if isinstance(x, ItemStack) else x for x in inputs]
        rows.append(primitive.op(*operands, **settings))
    stack = late_ops.stack
    if isinstance(rows[0], tuple):
        return tuple(stack(*column, axis=0) for column in zip(*rows, strict=True))
    return stack(*rows, axis=0)


# ------------------------------------------------------------------ what rules are made of


def reshaped(x: Tensor, dims: tuple[Any, ...]) -> Tensor:
    """`x` in another shape.

    Raises:
        NoBatch: more than one of its sizes is unknown.
    """
    if tuple(x.shape) == dims and None not in dims:
        return x
    shape = tuple(-1 if n is None else n for n in dims)
    if shape.count(-1) > 1:
        raise NoBatch
    result: Tensor = late_ops.reshape(x, shape=shape)
    return result


def transposed(x: Tensor, axes: Sequence[int]) -> Tensor:
    """`x` with its axes in another order."""
    if tuple(axes) == tuple(range(len(axes))):
        return x
    result: Tensor = late_ops.transpose(x, axes=tuple(axes))
    return result


def moved(x: Tensor, source: int, destination: int) -> Tensor:
    """`x` with the axis `source`, counted from the front, at the place `destination`."""
    order = [axis for axis in range(len(x.shape)) if axis != source]
    order.insert(destination, source)
    return transposed(x, order)


def stacked(x: Any, count: int) -> Any:
    """The values of all items (count, ...); one that they share is repeated, as a view."""
    if isinstance(x, ItemStack):
        return x.stacked
    if not isinstance(x, Tensor):
        return x
    return late_ops.broadcast_to(x, shape=(count, *_live_dims(x)))


def _live_dims(x: Tensor) -> tuple[Any, ...]:
    return tuple(-1 if n is None else n for n in x.shape)


def aligned(x: Any, rank: int) -> Any:
    """A stack whose values have `rank` axes, by axes of size 1 in front of theirs.

    What items share is given as it is, to broadcast.
    """
    if not isinstance(x, ItemStack):
        return x
    dims = x.shape
    if len(dims) == rank:
        return x.stacked
    return reshaped(x.stacked, (x.stacked.shape[0], *(1,) * (rank - len(dims)), *dims))


def in_front(x: Any) -> Tensor:
    """The stack; what items share with an axis of size 1 in front."""
    return x.stacked if isinstance(x, ItemStack) else reshaped(x, (1, *tuple(x.shape)))


def as_stack(x: Any, rank: int, count: int) -> Tensor:
    """`aligned`, with what items share repeated, as a view."""
    return reshaped(stacked(x, count), (count, *(1,) * (rank - len(x.shape)), *x.shape))


def any_stacks(inputs: Sequence[Any]) -> bool:
    """Whether items have values of their own for one of `inputs`."""
    return any(isinstance(x, ItemStack) for x in inputs)


def as_items(inputs: Sequence[Any]) -> list[Any]:
    """The inputs of a rule as one item sees them."""
    return [x.value if isinstance(x, ItemStack) else x for x in inputs]


def stack_like(stacked: Tensor, inputs: Sequence[Any]) -> ItemStack:
    """A tensor (n, ...) as values of the items that `inputs` of a rule belong to."""
    level = next(x.value.level for x in inputs if isinstance(x, ItemStack))
    return ItemStack(BatchedTensor(stacked, level))


def stacks_of(results: Any, inputs: Sequence[Any], count: int) -> Any:
    """What operations on `as_items(inputs)` gave, as a rule returns it."""
    level = next(x.value.level for x in inputs if isinstance(x, ItemStack))
    if isinstance(results, tuple | list):
        return tuple(unbatched(y, level, count) for y in results)
    return unbatched(results, level, count)


def unbatched(y: Any, level: int, count: int) -> Tensor:
    """The stack (count, ...) behind `y`, which is repeated if all items of the map share it."""
    if isinstance(y, BatchedTensor) and y.level == level:
        return y.stacked
    shared: Tensor = stacked(y, count)
    return shared


def later(axis: int) -> int:
    """An axis of a value as an axis of the stack."""
    return axis + 1 if axis >= 0 else axis


# ------------------------------------------------------------------ rules without code of their own


def elementwise(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """Inputs that broadcast: their values are brought to one rank."""
    if len(inputs) == 1:
        return primitive.op(inputs[0].stacked, **settings)
    ranks = [len(x.shape) for x in inputs if isinstance(x, Tensor | ItemStack)]
    return primitive.op(*[aligned(x, max(ranks)) for x in inputs], **settings)


def leading_axes(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """Operations on the last axes, for which all axes before these are a batch."""
    return primitive.op(*[stacked(x, count) for x in inputs], **settings)


@functools.cache
def _axis_rule(way: Batch) -> Rule:
    def apply_along(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
        axis = settings[way.setting]
        if axis is None:
            if not way.all_axes:
                return NotImplemented
            rank = max(len(x.shape) for x in inputs if isinstance(x, Tensor | ItemStack))
            axis = tuple(range(1, rank + 1))
        elif isinstance(axis, tuple):
            axis = tuple(later(a) for a in axis)
        else:
            axis = later(axis)
        return leading_axes(primitive, inputs, {**settings, way.setting: axis}, count)

    return apply_along


_KINDS: dict[str, Rule] = {BY_ELEMENT.kind: elementwise, LEADING_AXES.kind: leading_axes}
