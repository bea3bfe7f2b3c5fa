"""Nested shapes: those of nested tensors, and back from JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import Spec
from trainkit.ops.arrays.shaping import known_number


def known_sizes(layer: Any, label: str, shape: Any) -> tuple[int, ...]:
    """The shape of the weight `label`, all of it known.

    Raises:
        ShapeError: a size is not.
        InvalidArgumentError: a size is no whole number.
    """
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    weight = f"layer {layer.name!r} ({type(layer).__name__}): weight {label!r}"
    if any(n is None for n in sizes):
        raise ShapeError(
            f"{weight} would have shape {sizes}; the size of that axis of the input must be known "
            "when the layer is built"
        )
    return tuple(known_number(n, weight) for n in sizes)


def shapes_of(x: Any) -> Any:
    """The nest of shapes of nested tensors; `None` for what has none."""
    return nest.map_structure(lambda t: tuple(t.shape) if hasattr(t, "shape") else None, x)


def has_shape(x: Any) -> bool:
    """Whether any leaf of `x` is a tensor, or the like."""
    return any(hasattr(leaf, "shape") for leaf in nest.flatten(x))


def is_shape(x: Any) -> bool:
    """Whether `x` is one shape rather than a nest of them."""
    # The empty tuple is the shape of a scalar, not a nest of nothing.
    return isinstance(x, list | tuple) and all(
        n is None or isinstance(n, int | np.integer) for n in x
    )


def specs_of(shape: Any, dtype: Any) -> Any:
    """The nest of `Spec`s for nested shapes."""
    if isinstance(shape, dict):
        return {key: specs_of(value, dtype) for key, value in shape.items()}
    if shape is None:
        return None
    if is_shape(shape):
        return Spec(shape, dtype)
    return type(shape)(specs_of(item, dtype) for item in shape)


def tuples_of(shape: Any) -> Any:
    """Shapes that came from JSON as tuples."""
    if isinstance(shape, dict):
        return {key: tuples_of(value) for key, value in shape.items()}
    if is_shape(shape):
        return tuple(shape)
    return [tuples_of(item) for item in shape] if isinstance(shape, list | tuple) else shape
