"""Element-wise functions and their gradients over flat float32 arrays, spread over the cores."""

from __future__ import annotations

import numpy as np
from numba import boolean, float32

from trainkit.kernels.elementwise import vector_math
from trainkit.kernels.jit.builders import FLAT, by_element
from trainkit.kernels.jit.options import inlined

_MASK = boolean[::1]
_ZERO, _ONE, _SIX = np.float32(0), np.float32(1), np.float32(6)
_TANH_SCALE, _CUBIC = np.float32((2 / np.pi) ** 0.5), np.float32(0.044715)

# ------------------------------------------------------------------ exact ones


@by_element(FLAT, exact=True)
def relu(x):
    """max(x, 0); NaN stays."""
    return x if x > _ZERO or x != x else _ZERO


@by_element(FLAT, exact=True)
def relu6(x):
    """min(max(x, 0), 6); NaN stays."""
    value = x if x > _ZERO or x != x else _ZERO
    return _SIX if value > _SIX else value


@by_element(FLAT, FLAT, exact=True)
def relu_gradient(g, y):
    """The gradient g where y > 0, else g * 0."""
    return g * (_ONE if y > _ZERO else _ZERO)


@by_element(FLAT, float32, float32, exact=True)
def clip(x, low, high):
    """min(max(x, low), high)."""
    value = low if x < low else x
    return high if value > high else value


@by_element(_MASK, FLAT, FLAT, exact=True)
def where(mask, a, b):
    """The number a where the mask is true, else b."""
    return a if mask else b


@by_element(_MASK, FLAT, exact=True)
def keep_where(mask, x):
    """The number x where the mask is true, else 0."""
    return x if mask else _ZERO


# ------------------------------------------------------------------ of one array


@by_element(FLAT)
def sigmoid(x):
    """1 / (1 + e**-x)."""
    return vector_math.sigmoid(x)


@by_element(FLAT)
def softplus(x):
    """log(1 + e**x)."""
    return vector_math.softplus(x)


@by_element(FLAT)
def silu(x):
    """x * sigmoid(x)."""
    return x / (_ONE + vector_math.exponential(-x))


@by_element(FLAT)
def erf(x):
    """Error function."""
    return vector_math.erf(x)


@by_element(FLAT, ordered=True)
def gelu_erf(x):
    """X times the normal distribution function."""
    return vector_math.gelu(x)


@inlined
def _tanh_argument(x):
    return _TANH_SCALE * (x + _CUBIC * x * x * x)


@by_element(FLAT)
def gelu_tanh(x):
    """`gelu_erf` by tanh, x * sigmoid(2 * argument)."""
    inner = _tanh_argument(x)
    return x / (_ONE + vector_math.exponential(-inner - inner))


# ------------------------------------------------------------------ gradients


@by_element(FLAT, FLAT)
def silu_gradient(g, x):
    """g * s * (1 + x * (1 - s)) with s = sigmoid(x)."""
    s = vector_math.sigmoid(x)
    return g * s * (_ONE + x * (_ONE - s))


@by_element(FLAT, FLAT, ordered=True)
def gelu_erf_gradient(g, x):
    """The gradient g * (distribution(x) + x * density(x)) of the normal distribution."""
    return g * vector_math.gelu_slope(x)


@by_element(FLAT, FLAT)
def gelu_tanh_gradient(g, x):
    """That of `gelu_tanh`, with s = sigmoid(2 * argument)."""
    inner = _tanh_argument(x)
    s = vector_math.sigmoid(inner + inner)
    slope = _TANH_SCALE * (_ONE + np.float32(3) * _CUBIC * x * x)
    return g * s * (_ONE + np.float32(2) * x * slope * (_ONE - s))
