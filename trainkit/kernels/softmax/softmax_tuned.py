"""When compiled softmax and its cross-entropy pay, and how arrays are laid out for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.kernel_family import owned
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32 = np.dtype(np.float32)
SOFTMAX = kernel_family.Family("softmax", "softmax.softmax_compiled", "softmax")
SOFTMAX_GRADIENT = kernel_family.Family(
    "softmax_rows_gradient", "softmax.softmax_compiled", "softmax_gradient"
)
LOSS = kernel_family.Family("softmax_loss", "softmax.softmax_compiled", "loss")
BOTH = kernel_family.Family(
    "softmax_loss_and_slopes", "softmax.softmax_compiled", "loss_and_slopes"
)
GRADIENT = kernel_family.Family("softmax_gradient", "softmax.softmax_compiled", "gradient")
SCALED_ROWS = kernel_family.Family(
    "scaled_rows", "softmax.softmax_compiled", "scaled_rows", exact=True
)
DENSE_LOSS = kernel_family.Family("softmax_dense_loss", "softmax.softmax_compiled", "dense_loss")
DENSE_BOTH = kernel_family.Family(
    "softmax_dense_both", "softmax.softmax_compiled", "dense_loss_and_slopes"
)

_EXPONENTIALS, _PRODUCTS = 0.35, 0.12
"""Nanoseconds that the compiled kernels take for an element."""

FEWEST = 1 << 13
"""Smaller arrays are left to the plain softmax, and to the plain loss with dense labels, without a
further look."""


def _found(family: kernel_family.Family, x: Array, passes: int = 8) -> Any:
    if x.dtype is not _F32 or not x.size or not x.ndim:
        return None
    return family.find((), passes * x.nbytes / kernel_family.BYTES_PER_SECOND)


def _rows(logits: Array, labels: Array) -> tuple[Array, Array]:
    """Logits as a matrix, and labels as the kernels take them."""
    flat = owned(logits).reshape(-1, logits.shape[-1])
    return flat, owned(labels.reshape(-1).astype(np.int64, copy=False))


def _is_last(axis: Any, x: Array) -> bool:
    return axis in (-1, x.ndim - 1, (-1,), (x.ndim - 1,)) and type(x) is np.ndarray


def softmax(x: Array, axis: Any) -> Array | None:
    """exp(x) over its sum along `axis`, or `None` where the plain version is to do it."""
    run = _found(SOFTMAX, x, 5) if _is_last(axis, x) else None
    if run is None:
        return None
    y = np.empty(x.shape, np.float32)
    run(
        *shared(_EXPONENTIALS * x.size),
        owned(x).reshape(-1, x.shape[-1]),
        y.reshape(-1, x.shape[-1]),
    )
    return y


def softmax_gradient(g: Array, y: Array, axis: Any) -> Array | None:
    """Its gradient from its output, y * (g - sum(g * y)), or `None`."""
    run = _found(SOFTMAX_GRADIENT, y, 3) if _is_last(axis, y) else None
    if run is None or g.dtype is not _F32 or g.shape != y.shape:
        return None
    result, width = np.empty(y.shape, np.float32), y.shape[-1]
    run(
        *shared(_PRODUCTS * y.size),
        owned(g).reshape(-1, width),
        owned(y).reshape(-1, width),
        result.reshape(-1, width),
    )
    return result


def loss(labels: Array, logits: Array) -> Array | None:
    """Cross-entropy along the last axis, or `None`; labels have been checked."""
    run = _found(LOSS, logits)
    if run is None:
        return None
    losses = np.empty(labels.shape, np.float32)
    run(*shared(_EXPONENTIALS * logits.size), *_rows(logits, labels), losses.reshape(-1))
    return losses


def loss_and_slopes(labels: Array, logits: Array) -> tuple[Array, Array] | None:
    """The same, and softmax less one at the label; or `None`."""
    run = _found(BOTH, logits)
    if run is None:
        return None
    losses, slopes = np.empty(labels.shape, np.float32), np.empty(logits.shape, np.float32)
    flat, numbers = _rows(logits, labels)
    run(
        *shared(_EXPONENTIALS * logits.size),
        flat,
        numbers,
        losses.reshape(-1),
        slopes.reshape(flat.shape),
    )
    return losses, slopes


def _dense_found(family: kernel_family.Family, labels: Array, logits: Array) -> Any:
    if logits.size < FEWEST or labels.dtype is not _F32:
        return None
    return _found(family, logits)


def dense_loss(labels: Array, logits: Array) -> Array | None:
    """Cross-entropy with the chance of each class along the last axis, or `None`."""
    run = _dense_found(DENSE_LOSS, labels, logits)
    if run is None:
        return None
    losses, width = np.empty(logits.shape[:-1], np.float32), logits.shape[-1]
    run(
        *shared(_EXPONENTIALS * logits.size),
        owned(logits).reshape(-1, width),
        owned(labels).reshape(-1, width),
        losses.reshape(-1),
    )
    return losses


def dense_loss_and_slopes(labels: Array, logits: Array) -> tuple[Array, Array] | None:
    """The same, and softmax times the sum of labels less the labels; or `None`."""
    run = _dense_found(DENSE_BOTH, labels, logits)
    if run is None:
        return None
    losses, width = np.empty(logits.shape[:-1], np.float32), logits.shape[-1]
    slopes = np.empty(logits.shape, np.float32)
    given = (owned(x).reshape(-1, width) for x in (logits, labels))
    run(*shared(_EXPONENTIALS * logits.size), *given, losses.reshape(-1), slopes.reshape(-1, width))
    return losses, slopes


def scaled_rows(g: Array, slopes: Array) -> Array | None:
    """Rows of slopes times the numbers `g`, or `None`; the same bits as NumPy's."""
    if slopes.size < FEWEST or g.dtype is not _F32:
        return None
    run = _found(SCALED_ROWS, slopes, 3)
    if run is None:
        return None
    result, width = np.empty(slopes.shape, np.float32), slopes.shape[-1]
    run(
        *shared(_PRODUCTS * slopes.size),
        owned(g).reshape(-1),
        owned(slopes).reshape(-1, width),
        result.reshape(-1, width),
    )
    return result


def gradient(g: Array, labels: Array, logits: Array) -> Array | None:
    """Its gradient by the logits, times `g`, or `None`."""
    run = _found(GRADIENT, logits)
    if run is None or g.dtype is not _F32:
        return None
    result = np.empty(logits.shape, np.float32)
    flat, numbers = _rows(logits, labels)
    run(
        *shared(_EXPONENTIALS * logits.size),
        owned(g).reshape(-1),
        flat,
        numbers,
        result.reshape(flat.shape),
    )
    return result
