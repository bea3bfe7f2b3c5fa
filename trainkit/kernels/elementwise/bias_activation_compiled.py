"""GELU of rows plus a bias, and its gradients: the sum itself is not written to memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, void

from trainkit.kernels.elementwise import vector_math
from trainkit.kernels.jit.options import compiled
from trainkit.kernels.threads.parallel_for import TEAM, spread, stretch

_MATRIX, _VECTOR = float32[:, ::1], float32[::1]
_HALF, _ONE = np.float32(0.5), np.float32(1)
_ROOT_HALF, _DENSITY = np.float32(0.5**0.5), np.float32((2 * np.pi) ** -0.5)


@compiled(parallel=False)
def _gelu_part(part, parts, z, bias, y):
    first, last = stretch(part, parts, z.shape[0], 1)
    for row in range(first, last):
        for f in range(z.shape[1]):
            x = z[row, f] + bias[f]
            y[row, f] = _HALF * x * (_ONE + vector_math.erf(x * _ROOT_HALF))


def gelu() -> Any:
    """`run(team, parts, z, bias, y)`."""

    @compiled(parallel=False)
    def run(team, parts, z, bias, y):
        spread(team, parts, _gelu_part, (z, bias, y))

    run.compile(void(*TEAM, _MATRIX, _VECTOR, _MATRIX))
    return run


@compiled(parallel=False)
def _gelu_gradient_part(part, parts, g, z, bias, result, by_bias):
    workers = by_bias.shape[0]
    first, last = stretch(part, parts, workers, 1)
    for worker in range(first, last):
        for f in range(z.shape[1]):
            by_bias[worker, f] = 0
        first_row, last_row = stretch(np.int64(worker), workers, z.shape[0], 1)
        for row in range(first_row, last_row):
            for f in range(z.shape[1]):
                x = z[row, f] + bias[f]
                share = _HALF + _HALF * vector_math.erf(x * _ROOT_HALF)
                density = _DENSITY * vector_math.exponential(-_HALF * x * x)
                slope = g[row, f] * (share + x * density)
                result[row, f] = slope
                by_bias[worker, f] += slope


def gelu_gradient() -> Any:
    """`run(team, parts, g, z, bias, result, by_bias)`; the last are sums of each worker's rows."""

    @compiled(parallel=False)
    def run(team, parts, g, z, bias, result, by_bias):
        spread(team, parts, _gelu_gradient_part, (g, z, bias, result, by_bias))

    run.compile(void(*TEAM, _MATRIX, _MATRIX, _VECTOR, _MATRIX, _MATRIX))
    return run
