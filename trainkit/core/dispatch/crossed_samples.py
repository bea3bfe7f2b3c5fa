"""Targets (n,) that meet outputs (n, 1) element by element: a likely mistake of a training loop.

The result has a number for each pair of samples, (n, n), and trains without an error.
"""

from __future__ import annotations

import warnings
from typing import Any

from trainkit.core.dispatch.facets import CONTRACTION, ELEMENTWISE, PRODUCT
from trainkit.core.user_frames import Line, line_text, user_line

ADVICE = "reshape one like the other, as with tk.squeeze(y_pred, -1)"

# Lines that were warned of, since a loop passes them in each step; the registries of `warnings`
# forget whenever filters are changed, as a step does.
SHOWN: set[Line | None] = set()


def are_crossed(vector: tuple[int | None, ...], column: tuple[int | None, ...]) -> bool:
    """Whether shapes are (n,) and (n, 1), of more than one sample."""
    return len(vector) == 1 and len(column) == 2 and column == (vector[0], 1) and vector[0] != 1


def warn_of_crossed_samples(
    primitive: Any, x1: Any, x2: Any, tracked: dict[Any, Any], trace: Any
) -> None:
    """Warn where one input is a constant (n,), and the other (n, 1) comes from a layer's product.

    Columns that were made on purpose, by `x[:, None]` or a sum that keeps its axis, are none.

    Args:
        primitive: what combines the two, element by element.
        x1: a tensor.
        x2: another.
        tracked: the entries of a tape, by tensor.
        trace: the graph being traced, or `None`.
    """
    vector, column = sorted((x1, x2), key=lambda x: len(x.shape))
    # Targets are constants; a tracked vector was shaped by whoever wrote the model.
    if not are_crossed(tuple(vector.shape), tuple(column.shape)) or vector in tracked:
        return
    if primitive.facets.semantics is ELEMENTWISE and _is_of_a_product(column, tracked):
        if trace is not None:
            trace.crossing_was_shown = True
        # Not before it is needed, as it goes through the frames of the call.
        line = user_line()
        if line in SHOWN:
            return
        warnings.warn_explicit(
            f"{primitive.name}: tensors of shapes {tuple(x1.shape)} and {tuple(x2.shape)}, one a "
            "constant and one computed from variables, are combined to a number for each pair of "
            f"samples, at {line_text(line)}: {ADVICE}",
            UserWarning,
            *(line or ("<unknown>", 0))[:2],
        )
        SHOWN.add(line)


def _is_of_a_product(column: Any, tracked: dict[Any, Any]) -> bool:
    """Whether a tensor is a product of matrices, or made of one element by element."""
    shape = column.shape
    # Back over activations and biases to what made the column. It ends, since an entry leads to
    # tensors that were there before it.
    while (entry := tracked.get(column)) is not None:
        semantics = entry[0].facets.semantics
        if semantics is not ELEMENTWISE:
            return semantics in (CONTRACTION, PRODUCT)
        before = [x for x in entry[2:] if x in tracked and x.shape == shape]
        if not before:
            return False
        column = before[0]
    return False
