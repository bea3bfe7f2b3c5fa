"""Batching rules of branches, loops and tensor arrays: each round goes over all items at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit.core.dispatch import late_ops
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.graph.control_flow.cond import cond_primitive
from trainkit.graph.control_flow.tensor_array_elements import (
    element_at,
    padded,
    placed,
    without,
    written,
)
from trainkit.graph.control_flow.while_loop import cut_to_sizes, scan_primitive, while_primitive
from trainkit.graph.ir.graph import Graph, replay
from trainkit.ops.arrays.broadcasting import copy_to_device_of
from trainkit.ops.core.vmap import ItemStack, as_items, is_symbol, stacks_of
from trainkit.ops.vmap_rules.shared_rules import behind_rows


@cond_primitive.batch_by
def _cond_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """The branch that all items take, its operations on all of them at once."""
    pred, *operands = inputs
    if type(pred) is not Tensor:
        return NotImplemented  # each item takes a branch of its own
    split = settings["split"]
    branch = settings["true"] if bool(pred) else settings["false"]
    # An effect happens for each item, and a replay on the stack would do it once.
    if branch.has_effects:
        return NotImplemented
    values = as_items(operands[:split] if branch is settings["true"] else operands[split:])
    return stacks_of(tuple(replay(branch, values)), operands, count)


def _is_replayable(numbers: Sequence[Any], inputs: Any, *graphs: Graph, padded: Any = ()) -> bool:
    """Whether rounds may be run as operations on all items: there are values, and no effects.

    Args:
        numbers: what says how many rounds there are.
        inputs: of the loop.
        graphs: of a round.
        padded: which rows may differ in size.
    """
    values = [x.value if isinstance(x, ItemStack) else x for x in inputs]
    # Symbolic values would make nodes of each round, where a loop is one node. Padded rows differ
    # in size from round to round, and `stack` takes one shape.
    return (
        all(type(n) is Tensor for n in numbers)
        and not padded
        and not any(map(is_symbol, values))
        and not any(graph.has_effects for graph in graphs)
    )


def _stacked_rows(rows: list[list[Any]]) -> list[Any]:
    return [late_ops.stack(*column, axis=0) for column in zip(*rows, strict=True)]


@scan_primitive.batch_by
def _scan_stack(primitive: Any, inputs: Any, settings: Any, items: int) -> Any:
    """Each round's operations on all items at once."""
    steps, *operands = inputs
    body, count, fed = settings["body"], settings["count"], settings["fed"]
    if not _is_replayable([steps], operands, body, padded=settings.get("padded", ())):
        return NotImplemented
    n, values = int(steps), as_items(operands)
    state, feeds, captured = values[:count], values[count : count + fed], values[count + fed :]
    # Without a round no replay shows what the stacked rows look like.
    if not n:
        return NotImplemented
    rows = []
    # The number of rounds is one for all items, since `steps` is no stack; so a round is a plain
    # sequence of operations, and tapes see each of them.
    for i in range(n - 1, -1, -1) if settings.get("reverse") else range(n):
        results = replay(body, [*state, *[x[i] for x in feeds], *captured])
        state = results[:count]
        rows.append(results[count:])
    if settings.get("reverse"):
        # Row i of the result belongs to row i of the input, in either direction.
        rows.reverse()
    return stacks_of((*state, *_stacked_rows(rows)), operands, items)


@while_primitive.batch_by
def _while_stack(primitive: Any, inputs: Any, settings: Any, items: int) -> Any:
    """Each round's operations on all items at once, while the number of rounds is one for all."""
    test, body = settings["cond"], settings["body"]
    count, split, limit = settings["count"], settings["split"], settings["limit"]
    if not _is_replayable([], inputs, test, body, padded=settings.get("padded", ())):
        return NotImplemented
    values = as_items(inputs)
    state, rows, round_count = values[:count], [], 0
    for_test, for_body = values[count : count + split], values[count + split :]
    while limit is None or round_count < limit:
        going = replay(test, [*state, *for_test])[0]
        if type(going) is not Tensor:
            return NotImplemented  # items take different numbers of rounds
        if not bool(going):
            break
        results = replay(body, [*state, *for_body])
        state = results[:count]
        rows.append(results[count:])
        round_count += 1
    if settings.get("stacked") is None:
        return stacks_of(tuple(state), inputs, items)
    # As above: no round has shown the shapes of rows.
    if not rows:
        return NotImplemented
    rounds = convert_to_tensor(round_count, "int32")
    return stacks_of((*state, *_stacked_rows(rows), rounds), inputs, items)


@cut_to_sizes.batch_by
def _cut_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    x, sizes = inputs
    if isinstance(sizes, ItemStack):
        return NotImplemented  # items are cut to different sizes
    # Sizes lie on the CPU where the stack is on a GPU, and arrays of two devices can't be joined.
    first = copy_to_device_of(convert_to_tensor([count], sizes.dtype), sizes)
    every = late_ops.concatenate(first, sizes, axis=0)
    return primitive.op(x.stacked, every, dims=(count, *settings["dims"]))


written.batch_by(behind_rows(0, shared=1))
element_at.batch_by(behind_rows(0, shared=1, rows=False))
placed.batch_by(behind_rows(2, shared=1))
for _like in (without, padded):
    _like.batch_by(behind_rows(0, 2, shared=1))
