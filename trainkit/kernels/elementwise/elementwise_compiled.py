"""Element-wise functions and their gradients over flat float32 arrays, spread over the cores."""

from __future__ import annotations

import numpy as np
from numba import boolean, float32

from trainkit.kernels.elementwise import elementwise_reference
from trainkit.kernels.elementwise.formula_text import by_formula
from trainkit.kernels.elementwise.vector_math import (
    bell,
    exponential,
    gelu_formula,
    gelu_gradient_formula,
    log_one_plus,
)
from trainkit.kernels.jit.builders import FLAT, by_element

_MASK = boolean[::1]

# ------------------------------------------------------------------ by the operation's formula

relu = by_formula(elementwise_reference.relu, FLAT, exact=True)
relu6 = by_formula(elementwise_reference.relu6, FLAT, exact=True)
relu_gradient = by_formula(elementwise_reference.relu_gradient, FLAT, FLAT, exact=True)
leaky_relu = by_formula(elementwise_reference.leaky_relu, FLAT, float32, exact=True)
clip = by_formula(elementwise_reference.clip, FLAT, float32, float32, exact=True)
soft_shrink = by_formula(elementwise_reference.soft_shrink, FLAT, float32, exact=True)
hard_shrink = by_formula(elementwise_reference.hard_shrink, FLAT, float32, exact=True)
sparse_plus = by_formula(elementwise_reference.sparse_plus, FLAT, exact=True)
huber_penalty = by_formula(elementwise_reference.huber_penalty, FLAT, float32, exact=True)
nan_to_num = by_formula(
    elementwise_reference.nan_to_num, FLAT, float32, float32, float32, exact=True
)
sigmoid = by_formula(elementwise_reference.sigmoid, FLAT, exp=exponential)
hard_sigmoid = by_formula(elementwise_reference.hard_sigmoid, FLAT, exact=True)
hard_silu = by_formula(elementwise_reference.hard_silu, FLAT, exact=True)
hard_silu_gradient = by_formula(elementwise_reference.hard_silu_gradient, FLAT, FLAT, exact=True)
# what log1p is given here lies between 0 and 1
softplus = by_formula(elementwise_reference.softplus, FLAT, exp=exponential, log1p=log_one_plus)
silu = by_formula(elementwise_reference.silu, FLAT, exp=exponential)
silu_gradient = by_formula(elementwise_reference.silu_gradient, FLAT, FLAT, exp=exponential)
elu_gradient = by_formula(elementwise_reference.elu_gradient, FLAT, FLAT, float32, exp=exponential)
selu_gradient = by_formula(elementwise_reference.selu_gradient, FLAT, FLAT, exp=exponential)
rsqrt = by_formula(elementwise_reference.rsqrt, FLAT, exact=True)
erf = by_formula(elementwise_reference.erf, FLAT)
gelu_tanh = by_formula(elementwise_reference.gelu_tanh, FLAT, exp=exponential)
gelu_tanh_gradient = by_formula(
    elementwise_reference.gelu_tanh_gradient, FLAT, FLAT, exp=exponential
)
gelu_erf = by_formula(gelu_formula, FLAT, ordered=True, bell=bell)
gelu_erf_gradient = by_formula(gelu_gradient_formula, FLAT, FLAT, ordered=True, bell=bell)

# ------------------------------------------------------------------ choice


@by_element(_MASK, FLAT, FLAT, exact=True)
def where(mask, a, b):
    """The number a where the mask is true, else b."""
    return a if mask else b


@by_element(_MASK, FLAT, float32, exact=True)
def where_or_number(mask, a, number):
    """The number a where the mask is true, else one that all share."""
    return a if mask else number


@by_element(_MASK, float32, FLAT, exact=True)
def number_where(mask, number, b):
    """One number where the mask is true, else that of b."""
    return number if mask else b


@by_element(_MASK, FLAT, exact=True)
def keep_where(mask, x):
    """The number x where the mask is true, else 0."""
    return x if mask else np.float32(0)
