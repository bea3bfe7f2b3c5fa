"""Whether the best of several scores is that of the true class."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import COMPOSITE, LEADING_AXES, Absent
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import Spec


def check_classes(
    name: str, y_true: Any, y_pred: Any, fewer: int, other: tuple[Any, ...] = (None,)
) -> None:
    """Raise unless y_true has the shape of y_pred less the last `fewer` axes.

    Sizes that are among `other` fit all.
    """
    a, b = tuple(y_true.shape), tuple(y_pred.shape)
    b = b[: len(b) - fewer]
    pairs = list(zip(a, b, strict=False))
    if len(a) != len(b) or not all(m == n or m in other or n in other for m, n in pairs):
        family = "SparseCategorical" if fewer == 0 else "Categorical"
        kind = "one-hot labels" if fewer == 0 else "class numbers"
        raise ShapeError(
            f"{name}: the shapes of {kind} and scores do not fit.\n  y_true  "
            f"{tuple(y_true.shape)}\n"
            f"  y_pred  {tuple(y_pred.shape)}\nThe metrics named {family}... take the other kind."
        )


def _hits_rule(labels: Spec, scores: Spec) -> Spec:
    check_classes("sparse_categorical_accuracy", labels, scores, 1, (None, 1))
    return Spec(shapes.broadcast_dims(labels.shape, scores.shape[:-1]), dtypes.floatx())


@primitive(
    _hits_rule,
    name="sparse_categorical_hits",
    semantics=COMPOSITE,
    no_gradient=Absent("counts of hits are flat"),
    lowering=Absent("positions of maxima are found in order"),
)
def class_hits(xp: ArrayModule, labels: Array, scores: Array) -> Array:
    """1 where the first of the best scores is that of the class `labels`, else 0."""
    if labels.shape != scores.shape[:-1] and labels.ndim != scores.ndim - 1:
        raise ValueError("the labels do not fit")  # the shape rule has the words
    best = scores.argmax(axis=-1).astype(np.int32, copy=False)
    hits = labels.astype(np.int32, copy=False) == best
    return hits.astype(dtypes.as_dtype(dtypes.floatx()).dtype)


class_hits.declare(batch=LEADING_AXES, stackable=True)
