"""Compiled softmax and its cross-entropy, and what they and the plain versions cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import FIRST_FLOATS
from trainkit.kernels.jit.array_kernel import ArrayKernel

Array = Any

FEWEST = FIRST_FLOATS
"""Fewer elements are left to the plain versions, which graphs make a part of their fused loops."""


def _kernel(name: str, builder: str, takes: str, gives: str, **facts: Any) -> ArrayKernel:
    file = "softmax.softmax_compiled"
    return ArrayKernel(name, file, builder, takes, gives, **{"asked": FEWEST, **facts})


SOFTMAX = _kernel("softmax", "softmax", "rows", "rows")
SOFTMAX_GRADIENT = _kernel("softmax_rows_gradient", "softmax_gradient", "rows rows", "rows")
LOG_SOFTMAX = _kernel("log_softmax", "log_softmax", "rows", "rows")
LOG_SOFTMAX_GRADIENT = _kernel("log_softmax_gradient", "log_softmax_gradient", "rows rows", "rows")

loss = _kernel("softmax_loss", "loss", "ids rows", "each")
"""Cross-entropy along the last axis of (labels, logits), or `None`; labels have been checked."""

loss_and_gradients = _kernel(
    "softmax_loss_and_slopes", "loss_and_gradients", "ids rows", "each rows"
)
"""The same, and softmax less one at the label; or `None`."""

gradient = _kernel("softmax_gradient", "gradient", "each ids rows", "rows")
"""Gradient of (g, labels, logits) by the logits, times `g`, or `None`."""

dense_loss = _kernel("softmax_dense_loss", "dense_loss", "rows rows", "each", fewest=FEWEST)
"""Cross-entropy with the chance of each class along the last axis, or `None`."""

dense_loss_and_gradients = _kernel(
    "softmax_dense_both", "dense_loss_and_gradients", "rows rows", "each rows", fewest=FEWEST
)
"""The same, and softmax times the sum of labels less the labels; or `None`."""

scaled_rows = _kernel(
    "scaled_rows", "scaled_rows", "each rows", "rows",
    asked=1, exact=True,
)  # fmt: skip
"""Rows of (g, gradients) times the numbers g, or `None`; the same bits as NumPy's."""


def _is_last(axis: Any, x: Array) -> bool:
    return axis in (-1, x.ndim - 1, (-1,), (x.ndim - 1,)) and type(x) is np.ndarray


def softmax(x: Array, axis: Any) -> Array | None:
    """exp(x) over its sum along `axis`, or `None` where the plain version is to do it."""
    return SOFTMAX(x) if _is_last(axis, x) else None


def softmax_gradient(g: Array, y: Array, axis: Any) -> Array | None:
    """Its gradient from its output, y * (g - sum(g * y)), or `None`."""
    return SOFTMAX_GRADIENT(g, y) if _is_last(axis, y) else None


def log_softmax(x: Array, axis: Any) -> Array | None:
    """`x` less the logarithm of the sum of exponentials along `axis`, or `None`."""
    return LOG_SOFTMAX(x) if _is_last(axis, x) else None


def log_softmax_gradient(g: Array, y: Array, axis: Any) -> Array | None:
    """Its gradient from its output, g - exp(y) * sum(g), or `None`."""
    return LOG_SOFTMAX_GRADIENT(g, y) if _is_last(axis, y) else None
