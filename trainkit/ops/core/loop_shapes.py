"""Shapes that loop variables have in all rounds, as TensorFlow asks for them."""

from __future__ import annotations

from typing import Any

from trainkit.core import nest
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import TensorShape
from trainkit.core.symbolic_tensor import SymbolicTensor


def check_invariants(loop_vars: Any, results: Any, shape_invariants: Any) -> None:
    """Refuse shapes that change in a loop of a graph, other than as `shape_invariants` says.

    Args:
        loop_vars: nest of tensors before the loop.
        results: the same nest after it, whose shapes hold after any number of rounds.
        shape_invariants: the same nest of shapes, or `None` for those before the loop.

    Raises:
        ShapeError: a shape changes, or its invariant does not hold before the loop.
        ValueError: there are more or fewer invariants than loop variables.
    """
    before = nest.flatten(loop_vars, nest.above_arrays)
    after = nest.flatten(results, nest.above_arrays)
    shapes = [None] * len(before)
    if shape_invariants is not None:
        shapes = nest.flatten(shape_invariants, above_shapes)
    if len(shapes) != len(before):
        raise ValueError(
            f"while_loop: shape_invariants has {len(shapes)} shapes for {len(before)} loop "
            "variables"
        )
    for i, (x, y, shape) in enumerate(zip(before, after, shapes, strict=True)):
        if isinstance(y, SymbolicTensor):
            _check_invariant(i, TensorShape(getattr(x, "shape", ())), y.shape, shape)


def _check_invariant(i: int, before: TensorShape, after: TensorShape, said: Any) -> None:
    invariant = before if said is None else TensorShape(getattr(said, "shape", said))
    if not before.is_subtype_of(invariant):
        raise ShapeError(
            f"while_loop: loop variable {i} has shape {before} before the loop, its invariant is "
            f"{invariant}"
        )
    if not after.is_subtype_of(invariant):
        raise ShapeError(
            f"while_loop: loop variable {i} has shape {before} before the loop and {after} after "
            f"some rounds; its invariant is {invariant}. Give shape_invariants with None for each "
            "size that changes."
        )


def above_shapes(x: Any) -> Any:
    """How a nest of shapes is taken apart."""
    return None if isinstance(x, TensorShape) or hasattr(x, "shape") else nest.container(x)
