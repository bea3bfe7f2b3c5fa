"""When compiled softmax cross-entropy pays, and how arrays are laid out for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.kernels import registry
from trainkit.kernels.registry import owned

Array = Any

_F32 = np.dtype(np.float32)
LOSS = registry.Family("softmax_loss", "softmax", "loss")
GRADIENT = registry.Family("softmax_gradient", "softmax", "gradient")


def _found(family: registry.Family, logits: Array) -> Any:
    if logits.dtype is not _F32 or not logits.size:
        return None
    return family.find((), 8 * logits.nbytes / registry.BYTES_PER_SECOND)


def _rows(logits: Array, labels: Array) -> tuple[Array, Array, Array]:
    """Logits as a matrix, the largest number of each row, and labels as the kernels take them."""
    flat = owned(logits).reshape(-1, logits.shape[-1])
    return flat, flat.max(axis=1), owned(labels.reshape(-1).astype(np.int64, copy=False))


def loss(labels: Array, logits: Array) -> Array | None:
    """Cross-entropy along the last axis, or `None`; labels have been checked."""
    run = _found(LOSS, logits)
    if run is None:
        return None
    losses = np.empty(labels.shape, np.float32)
    run(*_rows(logits, labels), losses.reshape(-1))
    return losses


def gradient(g: Array, labels: Array, logits: Array) -> Array | None:
    """Its gradient by the logits, times `g`, or `None`."""
    run = _found(GRADIENT, logits)
    if run is None or g.dtype is not _F32:
        return None
    result = np.empty(logits.shape, np.float32)
    flat, tops, numbers = _rows(logits, labels)
    run(owned(g).reshape(-1), flat, tops, numbers, result.reshape(flat.shape))
    return result
