"""Formulas of modified Bessel functions over `xp`, orders 0 and 1: I0, I1, K0, K1.

The scaled functions exp(-|x|) I0(x) and exp(-|x|) I1(x) / x are Chebyshev series in x / 4 - 1 up to
x = 8; times sqrt(x) the scaled functions are series in 16 / x - 1 beyond. The coefficients come
from interpolation at 200 Chebyshev nodes; values are good to 3e-14 of their size.

K0 and K1 up to x = 2 are series in x**2, without their poles and -log(x / 2) I0(x) or
log(x / 2) I1(x); times sqrt(x) exp(x) they are series in 2 / x beyond.
Source of the functions: Abramowitz and Stegun 1964, chapter 9.
"""

from __future__ import annotations

import math
from typing import Any

from trainkit.kernels.special.chebyshev import log_above_zero, series_at, series_between

Array = Any

_I0_SMALL = (
    0.338397637204738, -0.30468267234319835, 0.17162090152220863, -0.09490109704804749,
    0.049305284239670545, -0.023737414805899353, 0.010546460394594748, -0.004324309995050515,
    0.001639475616941317, -0.0005763755745385569, 0.00018850288509575486, -5.754195010051921e-05,
    1.644844807049961e-05, -4.416738358531402e-06, 1.1173875389114407e-06, -2.6707938531211896e-07,
    6.046995004727052e-08, -1.3000250169148409e-08, 2.659823703510256e-09, -5.18979322849944e-10,
    9.675803380737591e-11, -1.726826348580346e-11, 2.954790856435352e-12, -4.85346207668158e-13,
    7.646439037500841e-14, -1.1679268663300491e-14, 1.5376588891058418e-15,
    -1.0880185641326534e-16, -4.662936703425657e-17, -8.895661984809067e-17,
    -2.0539125955565397e-16, 4.818367926873179e-16, 2.2759572004815707e-16, -7.577272143066693e-17,
    -2.3092638912203257e-16, 3.6415315207705137e-16, -9.43689570931383e-17, 2.586819647376615e-16,
    -3.469446951953614e-16, 4.590772206825022e-16,
)  # fmt: skip
_I0_LARGE = (
    0.40224520550705434, 0.003369116478255698, 6.889758346915187e-05, 2.891370520892167e-06,
    2.048918588570814e-07, 2.266668996497856e-08, 3.396231893493251e-09, 4.940602815750595e-10,
    1.1889156326105876e-11, -3.149915883682297e-11, -1.3215872840532938e-11,
    -1.7940782193193173e-12, 7.179368211041038e-13, 3.8527847578961885e-13, 1.5307755063531658e-14,
    -4.1466829969749597e-14, -9.658940314238862e-15, 3.733680031814402e-15, 1.8118839761882555e-15,
)  # fmt: skip
_I1_SMALL = (
    0.1262935932218168, -0.176416518357834, 0.10264365868984704, -0.05294598120809491,
    0.02472644903062644, -0.010564084894626142, 0.004156422944312771, -0.0015135724506312276,
    0.0005122859561685564, -0.00016176081582588043, 4.781565107545474e-05, -1.3273163655881659e-05,
    3.470251308021477e-06, -8.568720265031416e-07, 2.0032947525422396e-07, -4.4450591245304154e-08,
    9.38153729673763e-09, -1.887249776177935e-09, 3.625590050404526e-10, -6.663478213653207e-11,
    1.1736166483089506e-11, -1.9839861697956705e-12, 3.2226415980218806e-13,
    -5.028963356856764e-14, 7.457368056407177e-15, -1.1096332186433244e-15,
)  # fmt: skip
_I1_LARGE = (
    0.3892881175091401, -0.009761097491361425, -0.00011058893876265907, -3.8825648088014475e-06,
    -2.512236238816357e-07, -2.631468840164075e-08, -3.835380517624998e-09, -5.589743112821566e-10,
    -1.8974946058847308e-11, 3.2526044080327665e-11, 1.4125753899918436e-11, 2.035722701521081e-12,
    -7.199396634405275e-13, -4.0836001247157586e-13, -2.111644192837048e-14, 4.275690912436403e-14,
    1.0311751452718453e-14, -3.884670363163423e-15, -1.8407497748285097e-15, 4.440892098500626e-16,
)  # fmt: skip


_K0_SMALL = (
    -0.2676636966169514, 0.3442898999246285, 0.0359799365153615, 0.001264615411446926,
    2.286212103119452e-05, 2.5347910790261494e-07, 1.904516377220209e-09, 1.0349695257633625e-11,
    4.2598161427910826e-14, 1.3744654358807508e-16,
)  # fmt: skip
_K1_SMALL = (
    -0.06409034516866254, -0.10916919599320105, -0.006636878452817714, -0.00016822792382067343,
    -2.389559180803608e-06, -2.1853569024549695e-08, -1.3982271326113327e-10,
    -6.618562752976041e-13, -2.4134516242987822e-15, -6.990873731242567e-18,
)  # fmt: skip
_K0_LARGE = (
    1.2201515410329777, -0.0314481013119645, 0.0015698838857300533, -0.00012849549581627802,
    1.39498137188765e-05, -1.8317555227191195e-06, 2.766813639445015e-07, -4.660489897687948e-08,
    8.574034017414225e-09, -1.6975345093890614e-09, 3.5773972814003283e-10, -7.957489244477396e-11,
    1.8559491149549264e-11, -4.514597883374519e-12, 1.1403405882073441e-12,
    -2.9800969231481784e-13, 8.032890775068375e-14, -2.2275133267462965e-14, 6.340076476276646e-15,
    -1.848593377920907e-15, 5.5120559994043335e-16, -1.6782311257549006e-16,
    5.2103917776435543e-17,
)  # fmt: skip
_K1_LARGE = (
    1.3603130952422213, 0.10392373657681724, -0.002857816859622779, 0.00019521551847135162,
    -1.936197974166083e-05, 2.406484947837217e-06, -3.5019606030878126e-07, 5.7410841254500495e-08,
    -1.0345762465678097e-08, 2.0150497551970347e-09, -4.1903547593419254e-10,
    9.218315187605315e-11, -2.129967838427791e-11, 5.139639673482343e-12, -1.2891739609498229e-12,
    3.348419666052243e-13, -8.976705182010146e-14, 2.4771544242195988e-14, -7.0198370892147685e-15,
    2.038703166239861e-15, -6.057047270643018e-16, 1.8380935752430455e-16, -5.689462849193648e-17,
)  # fmt: skip


# Those named with an e are scaled: I by exp(-|x|), K by exp(x).


def bessel_i0e(xp: Any, x: Array) -> Array:
    """exp(-|x|) I0(x)."""
    size = xp.abs(x)
    beyond = xp.maximum(size, 8)
    low = series_at(xp, _I0_SMALL, xp.minimum(size, 8) / 4 - 1)
    return xp.where(size <= 8, low, series_at(xp, _I0_LARGE, 16 / beyond - 1) / xp.sqrt(beyond))


def bessel_i1e(xp: Any, x: Array) -> Array:
    """exp(-|x|) I1(x)."""
    size = xp.abs(x)
    beyond = xp.maximum(size, 8)
    low = x * series_at(xp, _I1_SMALL, xp.minimum(size, 8) / 4 - 1)
    high = series_at(xp, _I1_LARGE, 16 / beyond - 1) / xp.sqrt(beyond)
    return xp.where(size <= 8, low, xp.where(x < 0, -high, high))


def bessel_i0(xp: Any, x: Array) -> Array:
    """I0(x)."""
    return bessel_i0e(xp, x) * xp.exp(xp.abs(x))


def bessel_i1(xp: Any, x: Array) -> Array:
    """I1(x)."""
    return bessel_i1e(xp, x) * xp.exp(xp.abs(x))


def _small_k0(xp: Any, x: Array) -> Array:
    """K0 up to 2."""
    zero = xp.where(x == 0, math.inf, series_between(xp, _K0_SMALL, 0, 4, x * x))
    return zero - log_above_zero(xp, x / 2) * bessel_i0e(xp, x) * xp.exp(x)


def _small_k1(xp: Any, x: Array) -> Array:
    """K1 up to 2."""
    first = x * series_between(xp, _K1_SMALL, 0, 4, x * x) + 1 / x
    return first + log_above_zero(xp, x / 2) * bessel_i1e(xp, x) * xp.exp(x)


def _k(xp: Any, order: int, x: Array, scaled: bool) -> Array:
    """K of an order, times exp(x) if `scaled`; NaN below 0."""
    size = xp.maximum(x, 0)
    inside, beyond = xp.minimum(size, 2), xp.maximum(size, 2)
    low = (_small_k0, _small_k1)[order](xp, inside)
    high = series_between(xp, (_K0_LARGE, _K1_LARGE)[order], 0, 1, 2 / beyond) / xp.sqrt(beyond)
    if scaled:
        low = low * xp.exp(inside)
    else:
        high = high * xp.exp(-beyond)
    return xp.where(x < 0, math.nan, xp.where(size <= 2, low, high))


def bessel_k0(xp: Any, x: Array) -> Array:
    """K0(x); inf at 0."""
    return _k(xp, 0, x, scaled=False)


def bessel_k1(xp: Any, x: Array) -> Array:
    """K1(x); inf at 0."""
    return _k(xp, 1, x, scaled=False)


def bessel_k0e(xp: Any, x: Array) -> Array:
    """exp(x) K0(x); inf at 0."""
    return _k(xp, 0, x, scaled=True)


def bessel_k1e(xp: Any, x: Array) -> Array:
    """exp(x) K1(x); inf at 0."""
    return _k(xp, 1, x, scaled=True)
