"""Batching rules that several operations share, made from what sets one operation apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit.core.dispatch import late_ops
from trainkit.core.tensor import Tensor
from trainkit.ops.core.vmap import (
    NoBatch,
    Rule,
    aligned,
    any_stacks,
    as_items,
    moved,
    reshaped,
    stacked,
    stacks_of,
)


def with_settings(
    change: Callable[[dict[str, Any], int, int], dict[str, Any]], shared: int | None = None
) -> Rule:
    """The operation on whole stacks, with other settings.

    Args:
        change: from the settings for one item, the rank of its first input and the number of items
            to the settings that differ for the stack.
        shared: the place of the first input of those that all items must share, such as sizes.
    """

    def rule(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
        shared_inputs = () if shared is None else inputs[shared:]
        if any_stacks(shared_inputs):
            return NotImplemented
        changed = change(settings, len(inputs[0].shape), count)
        stacks = [stacked(x, count) for x in inputs[: len(inputs) - len(shared_inputs)]]
        return primitive.op(*stacks, *shared_inputs, **{**settings, **changed})

    return rule


def folded(*places: int, likes: tuple[int, ...] = ()) -> Rule:
    """The batch axis that the operation has takes in that of the stack.

    Args:
        places: of the inputs, and as many results as there are, whose first axis is a batch.
        likes: places of inputs with such an axis whose shape alone counts.
    """

    def rule(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
        operands = list(inputs)
        for i in places:
            operands[i] = with_one_batch(operands[i], count)
        for i in likes:
            operands[i] = blank(
                (_times(count, operands[i].shape[0]), *operands[i].shape[1:]), operands[i]
            )
        if any_stacks(operands):
            return NotImplemented
        return with_two_batches(primitive.op(*operands, **settings), count)

    return rule


def _times(count: int, n: int | None) -> int | None:
    return None if n is None else count * n


def with_one_batch(x: Any, count: int) -> Any:
    """Values (batch, ...) of all items as one tensor (count * batch, ...)."""
    if x is None:
        return None
    y = stacked(x, count)
    return reshaped(y, (_times(count, y.shape[1]), *tuple(y.shape)[2:]))


def with_two_batches(y: Any, count: int) -> Any:
    """Results (count * batch, ...) as (count, batch, ...)."""
    if isinstance(y, tuple | list):
        return tuple(with_two_batches(part, count) for part in y)
    batch = None if y.shape[0] is None else y.shape[0] // count
    return reshaped(y, (count, batch, *tuple(y.shape)[1:]))


def blank(dims: tuple[Any, ...], like: Any) -> Tensor:
    """A tensor of the dtype of `like` in place of one whose shape alone counts; it has no memory.

    Raises:
        NoBatch: a size is unknown.
    """
    if None in dims:
        raise NoBatch
    zero = late_ops.cast(0, dtype=like.dtype.name)
    result: Tensor = late_ops.broadcast_to(zero, shape=dims)
    return result


def by_formula(formula: Callable[..., Any]) -> Rule:
    """What the operation computes as other operations, each of which goes by its own rule.

    Args:
        formula: takes the inputs and settings of the operation for one item.
    """

    def rule(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
        return stacks_of(formula(*as_items(inputs), **settings), inputs, count)

    return rule


def of_matrices(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """Operations on matrices, inputs whose axes in front of these broadcast."""
    rank = max(len(x.shape) for x in inputs)
    return primitive.op(*[aligned(x, rank) for x in inputs], **settings)


def behind_rows(*places: int, shared: int, rows: bool = True) -> Rule:
    """The axis of the items goes behind the first axis, which counts rows.

    Args:
        places: of the inputs that have rows; of the others the items are the first axis.
        shared: the place of an input that all items must share.
        rows: whether the result has rows, too.
    """

    def rule(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
        if any_stacks([inputs[shared]]):
            return NotImplemented
        operands = [x if i == shared else stacked(x, count) for i, x in enumerate(inputs)]
        operands = [moved(x, 1, 0) if i in places else x for i, x in enumerate(operands)]
        y = primitive.op(*operands, **settings)
        return moved(y, 1, 0) if rows else y

    return rule
