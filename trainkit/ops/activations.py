"""Activation functions of neural networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.primitive import primitive
from trainkit.core.tensor import Tensor
from trainkit.ops.elementwise import along, greater, multiply, subtract

# ------------------------------------------------------------------ rectifiers


@primitive(shapes.unchanged, elementwise=True)
def _relu_gradient(xp: ArrayModule, g: Array, y: Array) -> Array:
    """`g` where the output of relu is above 0, else 0."""
    return g * (y > 0)


_relu_gradient.gradients(lambda g, y, before, output: _relu_gradient(g, output), None)


@primitive(shapes.unchanged, elementwise=True)
def relu(xp: ArrayModule, x: Array) -> Array:
    """Rectifier max(x, 0), element by element; the slope at 0 is 0.

    Source: Nair and Hinton 2010, "Rectified linear units improve restricted Boltzmann machines".
    """
    return xp.maximum(x, 0)


relu.gradients(lambda g, y, x: _relu_gradient(g, y))

# ------------------------------------------------------------------ sigmoids


@primitive(shapes.floating, elementwise=True)
def sigmoid(xp: ArrayModule, x: Array) -> Array:
    """Logistic function 1 / (1 + exp(-x)), as (1 + tanh(x / 2)) / 2, which never overflows."""
    return xp.tanh(x * 0.5) * 0.5 + 0.5


sigmoid.gradients(lambda g, y, x: along(g, multiply(y, subtract(1, y))))
