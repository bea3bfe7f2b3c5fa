"""Element-wise functions and their gradients over flat float32 arrays, spread over the cores.

Most are written from the formulas of their operations. GELU has formulas of its own, with other
last digits: its tail is exact, and takes half of the divisions.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, float32

from trainkit.kernels.elementwise import elementwise_reference, vector_math
from trainkit.kernels.elementwise.formula_text import by_formula
from trainkit.kernels.elementwise.vector_math import exponential, log_one_plus
from trainkit.kernels.jit.builders import FLAT, by_element
from trainkit.kernels.jit.options import inlined

_MASK = boolean[::1]
_ZERO, _ONE = np.float32(0), np.float32(1)
_TANH_SCALE, _CUBIC = np.float32((2 / np.pi) ** 0.5), np.float32(0.044715)

# ------------------------------------------------------------------ by the operation's formula

relu = by_formula(elementwise_reference.relu, FLAT, exact=True)
relu6 = by_formula(elementwise_reference.relu6, FLAT, exact=True)
relu_gradient = by_formula(elementwise_reference.relu_gradient, FLAT, FLAT, exact=True)
clip = by_formula(elementwise_reference.clip, FLAT, float32, float32, exact=True)
sigmoid = by_formula(elementwise_reference.sigmoid, FLAT, exp=exponential)
# what log1p is given here lies between 0 and 1
softplus = by_formula(elementwise_reference.softplus, FLAT, exp=exponential, log1p=log_one_plus)
silu = by_formula(elementwise_reference.silu, FLAT, exp=exponential)
silu_gradient = by_formula(elementwise_reference.silu_gradient, FLAT, FLAT, exp=exponential)
erf = by_formula(elementwise_reference.erf, FLAT)

# ------------------------------------------------------------------ choice


@by_element(_MASK, FLAT, FLAT, exact=True)
def where(mask, a, b):
    """The number a where the mask is true, else b."""
    return a if mask else b


@by_element(_MASK, FLAT, exact=True)
def keep_where(mask, x):
    """The number x where the mask is true, else 0."""
    return x if mask else _ZERO


# ------------------------------------------------------------------ GELU


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
