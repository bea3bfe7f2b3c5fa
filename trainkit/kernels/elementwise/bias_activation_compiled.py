"""GELU of rows plus a bias, and its gradients: the sum itself is not written to memory."""

from __future__ import annotations

import numpy as np

from trainkit.kernels.elementwise import vector_math
from trainkit.kernels.jit.builders import MATRIX, VECTOR, by_parts
from trainkit.kernels.threads.parallel_for import chunk_range

_HALF, _ONE = np.float32(0.5), np.float32(1)
_ROOT_HALF, _DENSITY = np.float32(0.5**0.5), np.float32((2 * np.pi) ** -0.5)


@by_parts(MATRIX, VECTOR, MATRIX)
def gelu(part, parts, z, bias, y):
    """GELU of z + bias."""
    first, last = chunk_range(part, parts, z.shape[0], 1)
    for row in range(first, last):
        for f in range(z.shape[1]):
            x = z[row, f] + bias[f]
            y[row, f] = _HALF * x * (_ONE + vector_math.erf(x * _ROOT_HALF))


@by_parts(MATRIX, MATRIX, VECTOR, MATRIX, MATRIX)
def gelu_gradient(part, parts, g, z, bias, result, by_bias):
    """Gradients by z, and by bias as sums of each worker's share of the rows."""
    workers = by_bias.shape[0]
    first, last = chunk_range(part, parts, workers, 1)
    for worker in range(first, last):
        for f in range(z.shape[1]):
            by_bias[worker, f] = 0
        first_row, last_row = chunk_range(np.int64(worker), workers, z.shape[0], 1)
        for row in range(first_row, last_row):
            for f in range(z.shape[1]):
                x = z[row, f] + bias[f]
                share = _HALF + _HALF * vector_math.erf(x * _ROOT_HALF)
                density = _DENSITY * vector_math.exponential(-_HALF * x * x)
                slope = g[row, f] * (share + x * density)
                result[row, f] = slope
                by_bias[worker, f] += slope
