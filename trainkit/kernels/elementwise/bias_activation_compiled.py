"""GELU of rows plus a bias, and its gradients: the sum itself is not written to memory."""

from __future__ import annotations

import numpy as np

from trainkit.kernels.elementwise import vector_math
from trainkit.kernels.jit.builders import MATRIX, VECTOR, by_parts
from trainkit.kernels.threads.parallel_for import chunk_range


@by_parts(MATRIX, VECTOR, MATRIX, ordered=True)
def gelu(part, parts, z, bias, y):
    """GELU of z + bias."""
    first, last = chunk_range(part, parts, z.shape[0], 1)
    for row in range(first, last):
        for f in range(z.shape[1]):
            y[row, f] = vector_math.gelu(z[row, f] + bias[f])


@by_parts(MATRIX, MATRIX, VECTOR, MATRIX, MATRIX, ordered=True)
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
                slope = vector_math.gelu_gradient(g[row, f], z[row, f] + bias[f])
                result[row, f] = slope
                by_bias[worker, f] += slope
