"""Bessel functions and integrals: on both sides of each place where their series change."""

import numpy as np

from tests.conformance.table import case
from trainkit.ops.special import bessel, integrals, modified_bessel

X = np.array([0.3, 1.1, 1.9, 2.4, 3.7, 6.5, 8.3, 13.0])

CASES = [
    *[
        case(name, getattr(bessel, name), X)
        for name in ("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1")
    ],
    *[
        case(name, getattr(modified_bessel, name), X)
        for name in ("bessel_k0", "bessel_k0e", "bessel_k1", "bessel_k1e")
    ],
    case("dawsn", integrals.dawsn, X - 4),
    case("expint", integrals.expint, X),
    case("fresnel_cos", integrals.fresnel_cos, X / 3 - 1),
    case("fresnel_sin", integrals.fresnel_sin, X / 3 - 1),
    case("spence", integrals.spence, X / 3),
]
