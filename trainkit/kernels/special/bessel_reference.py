"""Formulas of Bessel functions of the first and second kind over `xp`: J0, J1, Y0, Y1.

Up to x = 8 they are series in x**2; those of Y without 2 / pi log(x / 2) J(x), and without the pole
of Y1. Beyond, J = sqrt(2 / (pi x)) (P cos w - Q sin w) and Y = sqrt(2 / (pi x)) (P sin w + Q cos w)
with w = x - order pi / 2 - pi / 4, where P and Q x are series in (8 / x)**2.
Source: NIST Digital Library of Mathematical Functions, 10.2, 10.4, 10.8 and 10.17.
"""

from __future__ import annotations

import math
from typing import Any

from trainkit.kernels.special.chebyshev import log_above_zero, series_between

Array = Any

_LEAST_LARGE = 8.0
_PHASE = math.sqrt(0.5)

_J0_SMALL = (
    0.15772797147489012, -0.008723442352852221, 0.2651786132033368, -0.37009499387264977,
    0.15806710233209725, -0.034893769411408884, 0.004819180069467605, -0.00046062616620627504,
    3.246032882100508e-05, -1.7619469077621507e-06, 7.608163592418782e-08, -2.679253530557673e-09,
    7.848696314479465e-11, -1.9438346867370164e-12, 4.125320595634374e-14, -7.588508125447546e-16,
    1.2218515873961411e-17,
)  # fmt: skip
_J1_SMALL = (
    0.08104484632565812, -0.1489751450676521, 0.1609992623572097, -0.08268049176681791,
    0.022213639654966037, -0.003646940600769276, 0.0004050337728354822, -3.255554866857259e-05,
    1.9858774049915165e-06, -9.521984756750436e-08, 3.687133759097148e-09, -1.178026622695885e-10,
    3.160154580348003e-12, -7.221755239651773e-14, 1.4232144003513942e-15, -2.4441972916190464e-17,
)  # fmt: skip
_Y0_SMALL = (
    0.03645469809116044, -0.2783237094075825, 0.2960499990207148, 0.09825508408187864,
    -0.10755155280627783, 0.031799074084414514, -0.005161397105810715, 0.0005498525320039012,
    -4.1996983149420134e-05, 2.4290361107923793e-06, -1.1049969793472957e-07, 4.06651736597911e-09,
    -1.2374148898289854e-10, 3.1685725528945945e-12, -6.926956032431002e-14,
    1.3086308625876684e-15, -2.1586201986914482e-17,
)  # fmt: skip
_Y1_SMALL = (
    0.038300769852423776, -0.08182561412732826, -0.0248677076121964, 0.047967452752746984,
    -0.01852588451089802, 0.003680607687823511, -0.0004627254060293369, 4.06940026958087e-05,
    -2.6617695125295625e-06, 1.350602691325434e-07, -5.483524110336276e-09, 1.8245086841229007e-10,
    -5.070666636591129e-12, 1.1956162517587948e-13, -2.423162442712473e-15, 4.268126513072962e-17,
)  # fmt: skip
_P0 = (
    0.9994603493475187, -0.0005365220468132117, 3.0751847875194745e-06, -5.1705945376060975e-08,
    1.6306464635151382e-09, -7.86409137723707e-11, 5.168262387349193e-12, -4.3045788699253914e-13,
    4.3265957431549404e-14, -5.069034095935236e-15, 6.748072215733873e-16, -1.0011513723467786e-16,
)  # fmt: skip
_Q0 = (
    -0.015555854605337009, 6.838519942611649e-05, -7.414498411060647e-07, 1.7972457247968992e-08,
    -7.27191593686632e-10, 4.2201219046687385e-11, -3.206747420996635e-12, 3.006145125351706e-13,
    -3.336328185322427e-14, 4.255225040245461e-15, -6.09993013164005e-16, 9.662128970303257e-17,
    -1.6686065214378146e-17, 3.1082440486738143e-18, -6.191115787358145e-19,
)  # fmt: skip
_P1 = (
    1.0009030408600137, 0.0008989898330859408, -3.987284300488908e-06, 6.177633960644299e-08,
    -1.8718907491063067e-09, 8.816898659582339e-11, -5.704863640395645e-12, 4.699195515230542e-13,
    -4.6842237839904895e-14, 5.452674896044717e-15, -7.221180842274018e-16, 1.0667689114335412e-16,
)  # fmt: skip
_Q1 = (
    0.04677778706953532, -9.62772354915708e-05, 9.138615257955454e-07, -2.0959781384083424e-08,
    8.229193327650554e-10, -4.686363688176945e-11, 3.5152187949686082e-12, -3.2643156743279e-13,
    3.5967765829165294e-14, -4.5612523950772974e-15, 6.508282957783384e-16,
    -1.0269147531823243e-16, 1.767635548776479e-17, -3.2834519872981614e-18,
)  # fmt: skip


def _small(xp: Any, size: Array) -> tuple[Array, Array]:
    """`size` up to 8, and its square."""
    x = xp.minimum(size, _LEAST_LARGE)
    return x, x * x


def _waves(xp: Any, order: int, size: Array) -> tuple[Array, Array]:
    """J and Y from 8 on; 0 at infinity."""
    x = xp.minimum(xp.maximum(size, _LEAST_LARGE), xp.finfo(size.dtype).max)
    ratio = _LEAST_LARGE / x
    t = ratio * ratio
    p = series_between(xp, (_P0, _P1)[order], 0, 1, t)
    q = series_between(xp, (_Q0, _Q1)[order], 0, 1, t) * ratio
    sine, cosine = xp.sin(x), xp.cos(x)
    # sin(w) and cos(w) without the rounding of x - pi / 4
    sin_w, cos_w = (sine - cosine) * _PHASE, (sine + cosine) * _PHASE
    if order:
        sin_w, cos_w = -cos_w, sin_w
    height = xp.sqrt(2 / (math.pi * x))
    waves = height * (p * cos_w - q * sin_w), height * (p * sin_w + q * cos_w)
    at_end = size == math.inf
    return xp.where(at_end, 0, waves[0]), xp.where(at_end, 0, waves[1])


def bessel_j0(xp: Any, x: Array) -> Array:
    """J0(x)."""
    size = xp.abs(x)
    _, square = _small(xp, size)
    low = series_between(xp, _J0_SMALL, 0, 64, square)
    return xp.where(size <= _LEAST_LARGE, low, _waves(xp, 0, size)[0])


def bessel_j1(xp: Any, x: Array) -> Array:
    """J1(x)."""
    size = xp.abs(x)
    low, square = _small(xp, size)
    low = low * series_between(xp, _J1_SMALL, 0, 64, square)
    value = xp.where(size <= _LEAST_LARGE, low, _waves(xp, 1, size)[0])
    return xp.where(x < 0, -value, value)


def bessel_y0(xp: Any, x: Array) -> Array:
    """Y0(x), NaN below 0."""
    size = xp.maximum(x, 0)
    low, square = _small(xp, size)
    smooth = series_between(xp, _Y0_SMALL, 0, 64, square)
    low = smooth + 2 / math.pi * xp.log(low / 2) * series_between(xp, _J0_SMALL, 0, 64, square)
    value = xp.where(size <= _LEAST_LARGE, low, _waves(xp, 0, size)[1])
    return xp.where(x < 0, math.nan, value)


def bessel_y1(xp: Any, x: Array) -> Array:
    """Y1(x), NaN below 0."""
    size = xp.maximum(x, 0)
    low, square = _small(xp, size)
    first = low * series_between(xp, _J1_SMALL, 0, 64, square)
    low = low * series_between(xp, _Y1_SMALL, 0, 64, square) + 2 / math.pi * (
        log_above_zero(xp, low / 2) * first - 1 / low
    )
    value = xp.where(size <= _LEAST_LARGE, low, _waves(xp, 1, size)[1])
    return xp.where(x < 0, math.nan, value)
