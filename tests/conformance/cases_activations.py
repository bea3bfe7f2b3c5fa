"""Activations of neural networks."""

import numpy as np

from tests.conformance.table import away_from, case, distinct, normal
from trainkit import ops
from trainkit.ops.neural import activations, gated_activations, softmax

GRADIENT, INPUT = np.cos(np.arange(12.0)), np.linspace(-2.3, 2.1, 12)
KINKS = [-3, -1, -0.5, 0, 0.5, 1, 3]

CASES = [
    case("relu", ops.relu, away_from(KINKS, 3, 4)),
    case("relu_gradient", activations.relu_gradient, normal(3, 4), away_from([0], 3, 4)),
    case(
        "keep_between",
        activations.keep_between,
        normal(10),
        away_from([-1, 2], 10),
        low=-1.0,
        high=2.0,
    ),
    case(
        "leaky_relu_gradient",
        activations.leaky_relu_gradient,
        normal(8),
        away_from([0], 8),
        negative_slope=0.3,
    ),
    case("relu6", ops.relu6, away_from([0, 6], 10, low=-3, high=9)),
    case("leaky_relu", ops.leaky_relu, away_from(KINKS, 8), negative_slope=0.3),
    case("sigmoid", ops.sigmoid, normal(3, 4), order=3),
    case("log_sigmoid", ops.log_sigmoid, normal(3, 4), order=3),
    case("softplus", ops.softplus, normal(3, 4), order=3),
    case("softsign", ops.softsign, away_from([0], 8)),
    case("hard_sigmoid", ops.hard_sigmoid, away_from(KINKS, 8, low=-4, high=4)),
    case("sparse_sigmoid", ops.sparse_sigmoid, away_from(KINKS, 8)),
    case("hard_tanh", ops.hard_tanh, away_from(KINKS, 8)),
    case("silu", ops.silu, normal(3, 4), order=3),
    case("hard_silu", ops.hard_silu, away_from(KINKS, 12, low=-4, high=4)),
    case("mish", ops.mish, normal(3, 4)),
    case("gelu_tanh", ops.gelu, normal(3, 4), order=3),
    case("gelu_erf", ops.gelu, normal(3, 4), approximate=False, order=3),
    case("elu", ops.elu, away_from(KINKS, 8), alpha=1.3),
    case("selu", ops.selu, away_from(KINKS, 8)),
    case("celu", ops.celu, away_from(KINKS, 8), alpha=0.7),
    case("squareplus", ops.squareplus, normal(8), b=2),
    case("sparse_plus", ops.sparse_plus, away_from(KINKS, 8)),
    case("soft_shrink", ops.soft_shrink, away_from(KINKS, 8)),
    case("hard_shrink", ops.hard_shrink, away_from(KINKS, 8)),
    case("tanh_shrink", ops.tanh_shrink, normal(8)),
    case("softmax", ops.softmax, normal(3, 4), order=3),
    case("softmax", ops.softmax, normal(3, 4, 2), axis=(0, 2)),
    case("softmax_gradient", softmax.softmax_gradient, normal(3, 4), normal(3, 4), axis=0),
    case("log_softmax", ops.log_softmax, normal(3, 4), axis=0, order=3),
    case("log_softmax_gradient", softmax.log_softmax_gradient, normal(3, 4), normal(3, 4), axis=0),
    case("sparsemax", ops.sparsemax, distinct(3, 4) * 1.07),  # away from kinks
    case("silu_gradient", gated_activations.silu_gradient, GRADIENT, INPUT),
    case("hard_silu_gradient", gated_activations.hard_silu_gradient, GRADIENT, INPUT * 1.9),
    case("elu_gradient", activations.elu_gradient, GRADIENT, INPUT, alpha=1.3),
    case("selu_gradient", activations.selu_gradient, GRADIENT, INPUT),
    case("gelu_tanh_gradient", gated_activations.gelu_tanh_gradient, GRADIENT, INPUT),
    case("gelu_erf_gradient", gated_activations.gelu_erf_gradient, GRADIENT, INPUT),
]
