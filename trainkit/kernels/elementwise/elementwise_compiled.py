"""Element-wise functions and their gradients over flat float32 arrays, spread over the cores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, float32, void

from trainkit.kernels.elementwise import vector_math
from trainkit.kernels.jit.options import compiled, inlined
from trainkit.kernels.threads.parallel_for import TEAM, spread, stretch

_FLAT, _MASK = float32[::1], boolean[::1]
_HALF, _ZERO, _ONE = np.float32(0.5), np.float32(0), np.float32(1)
_ROOT_HALF = np.float32(0.5**0.5)
_DENSITY = np.float32((2 * np.pi) ** -0.5)
_TANH_SCALE, _CUBIC = np.float32((2 / np.pi) ** 0.5), np.float32(0.044715)

# ------------------------------------------------------------------ exact ones


@compiled(parallel=False, exact=True)
def _relu_part(part, parts, x, y):
    first, last = stretch(part, parts, x.size, 16)
    for i in range(first, last):
        y[i] = x[i] if x[i] > _ZERO or x[i] != x[i] else _ZERO


def relu() -> Any:
    """`run(team, parts, x, y)`: max(x, 0)."""

    @compiled(parallel=False)
    def run(team, parts, x, y):
        spread(team, parts, _relu_part, (x, y))

    run.compile(void(*TEAM, _FLAT, _FLAT))
    return run


@compiled(parallel=False, exact=True)
def _relu_gradient_part(part, parts, g, y, result):
    first, last = stretch(part, parts, g.size, 16)
    for i in range(first, last):
        result[i] = g[i] * (_ONE if y[i] > _ZERO else _ZERO)


def relu_gradient() -> Any:
    """`run(team, parts, g, y, result)`: g where y > 0, else g * 0."""

    @compiled(parallel=False)
    def run(team, parts, g, y, result):
        spread(team, parts, _relu_gradient_part, (g, y, result))

    run.compile(void(*TEAM, _FLAT, _FLAT, _FLAT))
    return run


@compiled(parallel=False, exact=True)
def _clip_part(part, parts, x, low, high, y):
    first, last = stretch(part, parts, x.size, 16)
    for i in range(first, last):
        value = low if x[i] < low else x[i]
        y[i] = high if value > high else value


def clip() -> Any:
    """`run(team, parts, x, low, high, y)`: min(max(x, low), high)."""

    @compiled(parallel=False)
    def run(team, parts, x, low, high, y):
        spread(team, parts, _clip_part, (x, low, high, y))

    run.compile(void(*TEAM, _FLAT, float32, float32, _FLAT))
    return run


@compiled(parallel=False, exact=True)
def _where_part(part, parts, mask, a, b, y):
    first, last = stretch(part, parts, mask.size, 16)
    for i in range(first, last):
        y[i] = a[i] if mask[i] else b[i]


def where() -> Any:
    """`run(team, parts, mask, a, b, y)`: a where the mask is true, else b."""

    @compiled(parallel=False)
    def run(team, parts, mask, a, b, y):
        spread(team, parts, _where_part, (mask, a, b, y))

    run.compile(void(*TEAM, _MASK, _FLAT, _FLAT, _FLAT))
    return run


@compiled(parallel=False, exact=True)
def _keep_where_part(part, parts, mask, x, y):
    first, last = stretch(part, parts, mask.size, 16)
    for i in range(first, last):
        y[i] = x[i] if mask[i] else _ZERO


def keep_where() -> Any:
    """`run(team, parts, mask, x, y)`: x where the mask is true, else 0."""

    @compiled(parallel=False)
    def run(team, parts, mask, x, y):
        spread(team, parts, _keep_where_part, (mask, x, y))

    run.compile(void(*TEAM, _MASK, _FLAT, _FLAT))
    return run


# ------------------------------------------------------------------ of one array


@compiled(parallel=False)
def _sigmoid_part(part, parts, x, y):
    first, last = stretch(part, parts, x.size, 16)
    for i in range(first, last):
        y[i] = vector_math.sigmoid(x[i])


def sigmoid() -> Any:
    """`run(team, parts, x, y)`."""

    @compiled(parallel=False)
    def run(team, parts, x, y):
        spread(team, parts, _sigmoid_part, (x, y))

    run.compile(void(*TEAM, _FLAT, _FLAT))
    return run


@compiled(parallel=False)
def _softplus_part(part, parts, x, y):
    first, last = stretch(part, parts, x.size, 16)
    for i in range(first, last):
        y[i] = vector_math.softplus(x[i])


def softplus() -> Any:
    """`run(team, parts, x, y)`: log(1 + e**x)."""

    @compiled(parallel=False)
    def run(team, parts, x, y):
        spread(team, parts, _softplus_part, (x, y))

    run.compile(void(*TEAM, _FLAT, _FLAT))
    return run


@compiled(parallel=False)
def _silu_part(part, parts, x, y):
    first, last = stretch(part, parts, x.size, 16)
    for i in range(first, last):
        y[i] = x[i] / (_ONE + vector_math.exponential(-x[i]))


def silu() -> Any:
    """`run(team, parts, x, y)`: x * sigmoid(x)."""

    @compiled(parallel=False)
    def run(team, parts, x, y):
        spread(team, parts, _silu_part, (x, y))

    run.compile(void(*TEAM, _FLAT, _FLAT))
    return run


@compiled(parallel=False)
def _erf_part(part, parts, x, y):
    first, last = stretch(part, parts, x.size, 16)
    for i in range(first, last):
        y[i] = vector_math.erf(x[i])


def erf() -> Any:
    """`run(team, parts, x, y)`."""

    @compiled(parallel=False)
    def run(team, parts, x, y):
        spread(team, parts, _erf_part, (x, y))

    run.compile(void(*TEAM, _FLAT, _FLAT))
    return run


@compiled(parallel=False)
def _gelu_erf_part(part, parts, x, y):
    first, last = stretch(part, parts, x.size, 16)
    for i in range(first, last):
        y[i] = _HALF * x[i] * (_ONE + vector_math.erf(x[i] * _ROOT_HALF))


def gelu_erf() -> Any:
    """`run(team, parts, x, y)`: x times the normal distribution function."""

    @compiled(parallel=False)
    def run(team, parts, x, y):
        spread(team, parts, _gelu_erf_part, (x, y))

    run.compile(void(*TEAM, _FLAT, _FLAT))
    return run


@inlined
def _tanh_argument(x):
    return _TANH_SCALE * (x + _CUBIC * x * x * x)


@compiled(parallel=False)
def _gelu_tanh_part(part, parts, x, y):
    first, last = stretch(part, parts, x.size, 16)
    for i in range(first, last):
        inner = _tanh_argument(x[i])
        y[i] = x[i] / (_ONE + vector_math.exponential(-inner - inner))


def gelu_tanh() -> Any:
    """`run(team, parts, x, y)`: `gelu_erf` by tanh, x * sigmoid(2 * argument)."""

    @compiled(parallel=False)
    def run(team, parts, x, y):
        spread(team, parts, _gelu_tanh_part, (x, y))

    run.compile(void(*TEAM, _FLAT, _FLAT))
    return run


# ------------------------------------------------------------------ gradients


@compiled(parallel=False)
def _silu_gradient_part(part, parts, g, x, result):
    first, last = stretch(part, parts, g.size, 16)
    for i in range(first, last):
        s = vector_math.sigmoid(x[i])
        result[i] = g[i] * s * (_ONE + x[i] * (_ONE - s))


def silu_gradient() -> Any:
    """`run(team, parts, g, x, result)`: g * s * (1 + x * (1 - s)) with s = sigmoid(x)."""

    @compiled(parallel=False)
    def run(team, parts, g, x, result):
        spread(team, parts, _silu_gradient_part, (g, x, result))

    run.compile(void(*TEAM, _FLAT, _FLAT, _FLAT))
    return run


@compiled(parallel=False)
def _gelu_erf_gradient_part(part, parts, g, x, result):
    first, last = stretch(part, parts, g.size, 16)
    for i in range(first, last):
        share = _HALF + _HALF * vector_math.erf(x[i] * _ROOT_HALF)
        density = _DENSITY * vector_math.exponential(-_HALF * x[i] * x[i])
        result[i] = g[i] * (share + x[i] * density)


def gelu_erf_gradient() -> Any:
    """`run(team, parts, g, x, result)`: g * (distribution(x) + x * density(x))."""

    @compiled(parallel=False)
    def run(team, parts, g, x, result):
        spread(team, parts, _gelu_erf_gradient_part, (g, x, result))

    run.compile(void(*TEAM, _FLAT, _FLAT, _FLAT))
    return run


@compiled(parallel=False)
def _gelu_tanh_gradient_part(part, parts, g, x, result):
    first, last = stretch(part, parts, g.size, 16)
    for i in range(first, last):
        inner = _tanh_argument(x[i])
        s = vector_math.sigmoid(inner + inner)
        slope = _TANH_SCALE * (_ONE + np.float32(3) * _CUBIC * x[i] * x[i])
        result[i] = g[i] * s * (_ONE + np.float32(2) * x[i] * slope * (_ONE - s))


def gelu_tanh_gradient() -> Any:
    """`run(team, parts, g, x, result)`: that of `gelu_tanh`, with s = sigmoid(2 * argument)."""

    @compiled(parallel=False)
    def run(team, parts, g, x, result):
        spread(team, parts, _gelu_tanh_gradient_part, (g, x, result))

    run.compile(void(*TEAM, _FLAT, _FLAT, _FLAT))
    return run
