"""Incomplete gamma and beta functions: gradients by their last argument."""

import numpy as np

from tests.conformance.table import case
from trainkit.ops.math.incomplete_gamma import betainc, igamma, igamma_slope, igammac

A = np.array([0.7, 1.9, 3.1])
X = np.array([[0.4, 1.3, 5.2], [2.1, 0.6, 2.8]])

CASES = [
    case("igamma", lambda x: igamma(A, x), X, tolerance=1e-6),
    case("igammac", lambda x: igammac(A, x), X, tolerance=1e-6),
    case("igamma", igamma, A, X, order=1, tolerance=1e-6),
    case("igammac", igammac, A, X, order=1, tolerance=1e-6),
    case("igamma_slope", lambda x: igamma_slope(A, x), X, order=1, tolerance=1e-6),
    case("betainc", lambda x: betainc(A, A[::-1].copy(), x), X / 6, tolerance=1e-6),
]
