"""Sums, means, extremes, running sums and order statistics."""

import numpy as np

from tests.conformance.table import case, complex_normal, distinct, normal, positive
from trainkit import ops
from trainkit.ops.linear_algebra.square_sums import square_sum
from trainkit.ops.math import cumulative, reductions, statistics

QUANTILE = {"q": (0.2, 0.7), "axis": 1, "method": "linear", "keepdims": False, "skip_nan": False}
WITH_ZEROS = np.array([[0.5, 0.0, -1.2, 2.0], [1.0, 0.0, 0.0, 3.0], [1.1, 0.4, -0.7, 0.9]])

CASES = [
    case("sum", ops.sum, normal(3, 4)),
    case("sum", ops.sum, normal(3, 4, 2), axis=(0, -1), keepdims=True),
    case("sum", ops.sum, complex_normal(3, 4), axis=1),
    case("square_sum", square_sum, normal(3, 4, 2), axis=(0, 2), keepdims=False, order=3),
    case("square_sum", square_sum, normal(3, 4), axis=None, keepdims=True),
    case("mean", ops.mean, normal(3, 4, 2), axis=(0, 2)),
    case("mean", ops.mean, normal(3, 4), keepdims=True),
    case("spread", reductions.spread, normal(3), normal(3, 4), axis=1, keepdims=False, mean=False),
    case("spread", reductions.spread, normal(1, 4), normal(3, 4), axis=0, keepdims=True, mean=True),
    case("sum_to_like", reductions.sum_to_like, normal(2, 3, 4), normal(3, 1)),
    case("broadcast_like", reductions.broadcast_like, normal(3, 1), normal(2, 3, 4)),
    case("var", ops.var, normal(3, 4), axis=1, order=3),
    case("var", ops.var, complex_normal(3, 4), axis=0, keepdims=True),
    case("logsumexp", ops.logsumexp, normal(3, 4), axis=1, order=3),
    case("logsumexp", ops.logsumexp, normal(3, 4), keepdims=True),
    case("max", ops.max, distinct(3, 4), axis=1),
    case("max", ops.max, distinct(3, 4), initial=0.25),
    case("min", ops.min, distinct(3, 4), axis=(0, 1), keepdims=True),
    case("prod", ops.prod, normal(3, 4), axis=(0, 1), order=3),
    case("prod", ops.prod, WITH_ZEROS, axis=1, order=3),
    case("prod", ops.prod, complex_normal(3, 2), axis=1),
    case("cumsum", ops.cumsum, normal(3, 4), axis=1),
    case("cumsum", cumulative.running_sum, normal(3, 4), axis=0, exclusive=True, reverse=True),
    case("cumprod", ops.cumprod, WITH_ZEROS, axis=1, order=3),
    case("cumprod", cumulative.running_product, WITH_ZEROS, axis=0, exclusive=True, reverse=True),
    case("cumprod", ops.cumprod, complex_normal(4), axis=0),
    case(
        "linear_recurrence",
        cumulative.linear_recurrence,
        normal(3, 4),
        normal(3, 4),
        axis=1,
        reverse=False,
        order=3,
    ),
    case("shift_along", cumulative.shift_along, normal(3, 4), axis=1, reverse=True),
    case("cumulative_logsumexp", ops.cumulative_logsumexp, normal(3, 4), axis=1),
    case(
        "cumulative_logsumexp",
        lambda x: ops.exp(ops.cumulative_logsumexp(x, exclusive=True, reverse=True)),
        normal(4),
    ),
    case("quantile", ops.quantile, distinct(3, 5), q=(0.2, 0.7), axis=1),
    case("quantile", ops.median, distinct(3, 4), axis=(0, 1), keepdims=True),
    case("quantile_spread", statistics.quantile_spread, normal(2, 3), distinct(3, 5), **QUANTILE),
    case("quantile_gather", statistics.quantile_gather, normal(3, 5), distinct(3, 5), **QUANTILE),
    # ---- made of several primitives
    case("var", ops.std, positive(3, 4), axis=1),
    case("where", ops.nanvar, np.array([[1.0, np.nan, 2.0], [0.5, 3.0, -1.0]]), axis=1),
    case("where", ops.nanmax, np.array([[1.0, np.nan, 2.0], [0.5, 3.0, -1.0]]), axis=1),
]
