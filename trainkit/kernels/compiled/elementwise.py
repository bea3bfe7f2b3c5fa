"""Element-wise functions and their gradients over flat float32 arrays, spread over the cores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, float32, prange, void

from trainkit.kernels.compiled import activations
from trainkit.kernels.compiled.options import compiled, inlined

_FLAT, _MASK = float32[::1], boolean[::1]
_HALF, _ZERO, _ONE = np.float32(0.5), np.float32(0), np.float32(1)
_ROOT_HALF = np.float32(0.5**0.5)
_DENSITY = np.float32((2 * np.pi) ** -0.5)
_TANH_SCALE, _CUBIC = np.float32((2 / np.pi) ** 0.5), np.float32(0.044715)

# ------------------------------------------------------------------ exact ones


def relu() -> Any:
    """`run(x, y)`: max(x, 0)."""

    @compiled(exact=True)
    def run(x, y):
        for i in prange(x.size):
            y[i] = x[i] if x[i] > _ZERO or x[i] != x[i] else _ZERO

    run.compile(void(_FLAT, _FLAT))
    return run


def relu_gradient() -> Any:
    """`run(g, y, result)`: g where y > 0, else g * 0."""

    @compiled(exact=True)
    def run(g, y, result):
        for i in prange(g.size):
            result[i] = g[i] * (_ONE if y[i] > _ZERO else _ZERO)

    run.compile(void(_FLAT, _FLAT, _FLAT))
    return run


def clip() -> Any:
    """`run(x, low, high, y)`: min(max(x, low), high)."""

    @compiled(exact=True)
    def run(x, low, high, y):
        for i in prange(x.size):
            value = low if x[i] < low else x[i]
            y[i] = high if value > high else value

    run.compile(void(_FLAT, float32, float32, _FLAT))
    return run


def where() -> Any:
    """`run(mask, a, b, y)`: a where the mask is true, else b."""

    @compiled(exact=True)
    def run(mask, a, b, y):
        for i in prange(mask.size):
            y[i] = a[i] if mask[i] else b[i]

    run.compile(void(_MASK, _FLAT, _FLAT, _FLAT))
    return run


def keep_where() -> Any:
    """`run(mask, x, y)`: x where the mask is true, else 0."""

    @compiled(exact=True)
    def run(mask, x, y):
        for i in prange(mask.size):
            y[i] = x[i] if mask[i] else _ZERO

    run.compile(void(_MASK, _FLAT, _FLAT))
    return run


# ------------------------------------------------------------------ of one array


def sigmoid() -> Any:
    """`run(x, y)`."""

    @compiled()
    def run(x, y):
        for i in prange(x.size):
            y[i] = activations.sigmoid(x[i])

    run.compile(void(_FLAT, _FLAT))
    return run


def softplus() -> Any:
    """`run(x, y)`: log(1 + e**x)."""

    @compiled()
    def run(x, y):
        for i in prange(x.size):
            y[i] = activations.softplus(x[i])

    run.compile(void(_FLAT, _FLAT))
    return run


def silu() -> Any:
    """`run(x, y)`: x * sigmoid(x)."""

    @compiled()
    def run(x, y):
        for i in prange(x.size):
            y[i] = x[i] / (_ONE + activations.exponential(-x[i]))

    run.compile(void(_FLAT, _FLAT))
    return run


def erf() -> Any:
    """`run(x, y)`."""

    @compiled()
    def run(x, y):
        for i in prange(x.size):
            y[i] = activations.erf(x[i])

    run.compile(void(_FLAT, _FLAT))
    return run


def gelu_erf() -> Any:
    """`run(x, y)`: x times the normal distribution function."""

    @compiled()
    def run(x, y):
        for i in prange(x.size):
            y[i] = _HALF * x[i] * (_ONE + activations.erf(x[i] * _ROOT_HALF))

    run.compile(void(_FLAT, _FLAT))
    return run


@inlined
def _tanh_argument(x):
    return _TANH_SCALE * (x + _CUBIC * x * x * x)


def gelu_tanh() -> Any:
    """`run(x, y)`: `gelu_erf` with the tanh approximation, x * sigmoid(2 * argument)."""

    @compiled()
    def run(x, y):
        for i in prange(x.size):
            inner = _tanh_argument(x[i])
            y[i] = x[i] / (_ONE + activations.exponential(-inner - inner))

    run.compile(void(_FLAT, _FLAT))
    return run


# ------------------------------------------------------------------ gradients


def silu_gradient() -> Any:
    """`run(g, x, result)`: g * s * (1 + x * (1 - s)) with s = sigmoid(x)."""

    @compiled()
    def run(g, x, result):
        for i in prange(g.size):
            s = activations.sigmoid(x[i])
            result[i] = g[i] * s * (_ONE + x[i] * (_ONE - s))

    run.compile(void(_FLAT, _FLAT, _FLAT))
    return run


def gelu_erf_gradient() -> Any:
    """`run(g, x, result)`: g * (distribution(x) + x * density(x))."""

    @compiled()
    def run(g, x, result):
        for i in prange(g.size):
            share = _HALF + _HALF * activations.erf(x[i] * _ROOT_HALF)
            density = _DENSITY * activations.exponential(-_HALF * x[i] * x[i])
            result[i] = g[i] * (share + x[i] * density)

    run.compile(void(_FLAT, _FLAT, _FLAT))
    return run


def gelu_tanh_gradient() -> Any:
    """`run(g, x, result)`: the gradient of `gelu_tanh`, with s = sigmoid(2 * argument)."""

    @compiled()
    def run(g, x, result):
        for i in prange(g.size):
            inner = _tanh_argument(x[i])
            s = activations.sigmoid(inner + inner)
            slope = _TANH_SCALE * (_ONE + np.float32(3) * _CUBIC * x[i] * x[i])
            result[i] = g[i] * s * (_ONE + np.float32(2) * x[i] * slope * (_ONE - s))

    run.compile(void(_FLAT, _FLAT, _FLAT))
    return run
