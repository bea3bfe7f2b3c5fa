"""Images whose pixels are weighted sums of others, along their rows and their columns.

Each axis is a product with a matrix of weights. Most of these are zeros, which kernels leave out:
which they are follows from the method and the sizes. The gradient is the same operation by the
transposed matrices.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from trainkit.core.devices import CPU, Array, ArrayModule, current
from trainkit.core.dispatch.facets import WINDOW, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, wrap
from trainkit.kernels.resizing.resize_tuned import Bands, bands_of, resize
from trainkit.ops.images.pixel_weights import fixed_weights
from trainkit.ops.vmap_rules.shared_rules import folded


def _matrix(
    old: int, new: int, method: str, antialias: bool, transposed: bool, dtype: str = "float32"
) -> Array:
    """Weights (new, old); where `transposed`, those that resize `new` pixels into `old` ones."""
    if transposed:
        return fixed_weights(new, old, method, antialias, dtype).T
    return fixed_weights(old, new, method, antialias, dtype)


@lru_cache(maxsize=256)
def _bands(old: int, new: int, method: str, antialias: bool, transposed: bool) -> Bands:
    return bands_of(_matrix(old, new, method, antialias, transposed))


def _by_bands(
    x: Array, rows: Array, columns: Array, *, method: str, antialias: bool, transposed: bool
) -> Array | None:
    if x.ndim != 4 or x.shape[1:3] != (rows.shape[1], columns.shape[1]):
        return None
    settings = method, antialias, transposed
    return resize(x, _bands(*rows.shape[::-1], *settings), _bands(*columns.shape[::-1], *settings))


def _spec(
    x: Spec, rows: Spec, columns: Spec, *, method: str, antialias: bool, transposed: bool
) -> Spec:
    if len(x.shape) != 4 or x.shape[1:3] != (rows.shape[1], columns.shape[1]):
        raise ShapeError(
            f"resize: weights {tuple(rows.shape)} and {tuple(columns.shape)} do not fit images "
            f"{tuple(x.shape)}"
        )
    return Spec((x.shape[0], rows.shape[0], columns.shape[0], x.shape[3]), x.dtype)


@primitive(_spec, semantics=WINDOW, memory="fresh", tuned=Tuned(_by_bands))
def weighted_pixels(
    xp: ArrayModule,
    x: Array,
    rows: Array,
    columns: Array,
    *,
    method: str,
    antialias: bool,
    transposed: bool,
) -> Array:
    """Images (batch, height, width, channels) by weights (new size, size).

    Settings say what the matrices hold, see `_matrix`.
    """
    batch, height, width, channels = x.shape
    x = xp.matmul(rows, x.reshape(batch, height, width * channels))
    return xp.matmul(columns, x.reshape(batch, len(rows), width, channels))


@lru_cache(maxsize=256)
def _weights_on_cpu(
    old: int, new: int, method: str, antialias: bool, transposed: bool, dtype: str
) -> Tensor:
    return wrap(_matrix(old, new, method, antialias, transposed, dtype))


def _weights_here(*facts: Any) -> Tensor:
    """The matrix as a tensor of the current device."""
    device = current()
    if device is CPU:
        return _weights_on_cpu(*facts)
    return wrap(device.xp.asarray(_matrix(*facts)))


def _weigh(
    x: Tensor, size: tuple[int, int], method: str, antialias: bool, transposed: bool
) -> Tensor:
    _, height, width, _ = x.shape
    settings = method, antialias, transposed, x.dtype.name
    rows = _weights_here(height, size[0], *settings)
    columns = _weights_here(width, size[1], *settings)
    return weighted_pixels(
        x, rows, columns, method=method, antialias=antialias, transposed=transposed
    )


def resized_images(x: Tensor, size: tuple[int, int], method: str, antialias: bool) -> Tensor:
    """Images (batch, height, width, channels) of float32 or float64 in another size."""
    return _weigh(x, size, method, antialias, False)


weighted_pixels.gradients(
    lambda g, y, x, rows, columns, *, method, antialias, transposed: _weigh(
        g, (rows.shape[1], columns.shape[1]), method, antialias, not transposed
    ),
    None,
    None,
)
weighted_pixels.batch_by(folded(0))
