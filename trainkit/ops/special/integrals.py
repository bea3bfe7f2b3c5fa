"""Dawson's integral, the exponential integral, Fresnel's integrals, and Spence's function.

Values are good to 1e-15 of the largest ones nearby.
Source of the formulas: NIST Digital Library of Mathematical Functions, 6.2, 6.6, 6.12, 7.2, 7.5,
7.12 and 25.12.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import SPECIAL_FUNCTION
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import real_floats
from trainkit.core.tensor import Tensor
from trainkit.kernels.special.chebyshev import log_above_zero, series_at, series_between
from trainkit.ops.math.comparisons import equal
from trainkit.ops.math.elementwise import divide, exp, log, multiply, square, subtract, where
from trainkit.ops.math.trigonometry import cos, sin

_D_SMALL = (
    0.2954024494198404, -0.3686101010183668, 0.19573707613330618, -0.08879096156869916,
    0.03474695286653526, -0.011869296283072076, 0.0035806007478345527, -0.0009641999171742024,
    0.000233995670511025, -5.1608995394598965e-05, 1.0421076949031142e-05, -1.9389463805581323e-06,
    3.34303921197687e-07, -5.367925612250851e-08, 8.062713846388207e-09, -1.1373024279315408e-09,
    1.5118929297641922e-10, -1.900169309947957e-11, 2.2642905752488e-12, -2.564881089929297e-13,
    2.768364064375852e-14, -2.853233414038453e-15, 2.8136426898343644e-16, -2.6595536455748177e-17,
)  # fmt: skip
_D_MIDDLE = (
    0.5203145610495489, 0.013709479111854815, 0.0007164356550629098, 7.075952708870916e-05,
    4.150514902316849e-06, -1.7861564587902959e-06, -5.689529663093126e-07, 2.7774357681268896e-08,
    3.696894141443373e-08, -1.5468531109325238e-09, -2.548734643415614e-09, 3.281342176618435e-10,
    1.5695885264868672e-10, -5.072043783859163e-11, -3.477879397519972e-12, 5.030054915933158e-12,
    -8.994806247273984e-13, -2.0832456843253907e-13, 1.3922896065731817e-13, -2.28309391833648e-14,
    -5.595171457578947e-15, 3.99282660342542e-15, -8.590103045418117e-16, -7.049059918136341e-17,
    1.0883529340491625e-16, -3.5017217398058977e-17,
)  # fmt: skip
_D_LARGE = (
    0.5035876129645751, 0.0036272895370968276, 4.043227794147476e-05, 7.765781114870023e-07,
    2.1642658791578287e-08, 8.061553832188654e-10, 3.8293208699328153e-11, 2.253688704681202e-12,
    1.6150561891539438e-13, 1.3978659939493424e-14, 1.462595325998312e-15, 1.8626981994519345e-16,
    2.875450915602032e-17,
)  # fmt: skip
_EI_SMALL = (
    4.9111058843464575, 5.666113598608016, 2.3492626676137034, 0.7563543093844007,
    0.19920229382356897, 0.04442875265306707, 0.008598716638276844, 0.0014705025963922846,
    0.00022533301939463562, 3.1284662784803325e-05, 3.9711039220839795e-06, 4.643268488593228e-07,
    5.032918336954619e-08, 5.084550545442788e-09, 4.810144028835289e-10, 4.278742020424449e-11,
    3.5916634036991113e-12, 2.8542399260415613e-13, 2.1535115484481425e-14, 1.5466334313866187e-15,
)  # fmt: skip
_EI_MIDDLE = (
    1.186519731605943, 0.08867277799156566, 0.004538849615854891, -0.0007360917133533506,
    -0.0001311802094421383, 1.860281858277769e-05, 1.7610424153850599e-06, -6.410426692376372e-07,
    4.3431190977401596e-08, 9.457713014017885e-09, -2.804867660824966e-09, 2.9077513809389464e-10,
    1.5005396668585005e-11, -1.1038674953026538e-11, 2.0752769575841014e-12,
    -1.824894014255641e-13, -1.3060424323093775e-14, 8.22817443438954e-15, -1.7064640854405607e-15,
    2.0895115006185691e-16,
)  # fmt: skip
_EI_FAR = (
    1.060465984738911, 0.04044003974686163, 0.0018827933933886283, 0.0001661247091308257,
    1.9474518728065798e-05, 9.486496520647806e-07, -6.290783312138484e-07, -2.0453934370490606e-07,
    -2.073624869982355e-10, 1.2869458258869968e-08, 9.814330647881027e-10, -8.77112672841316e-10,
    -6.343456568946796e-11, 6.992389550036919e-11, -5.706763018380663e-13, -5.607263860231897e-12,
    8.186180082457199e-13, 3.4296049921026816e-13, -1.347335559540424e-13, -2.2460430546901835e-15,
    1.2567658183224806e-14, -2.885470288332907e-15, -3.964356034608175e-16, 3.7870458869716316e-16,
    -7.391218360505751e-17,
)  # fmt: skip
_EI_LARGE = (
    1.0107605092742287, 0.010878323438924555, 0.00011979560394849838, 2.026995752581765e-06,
    4.6900702245060815e-08, 1.3931421596912e-09, 5.108132848770682e-11, 2.251871069398116e-12,
    1.1717193052565767e-13, 7.102165089449786e-15, 4.968725666498446e-16, 3.988627092302658e-17,
)  # fmt: skip
_C_SMALL = (
    0.5282931311708557, -0.37676220250161824, 0.08537377549656906, -0.009010259972062552,
    0.0005393127720408215, -2.075044934605623e-05, 5.564687021283882e-07, -1.0999812843114444e-08,
    1.6696510396208076e-10, -2.00773053966069e-12, 1.9601599749420958e-14, -1.5849094421108914e-16,
)  # fmt: skip
_S_SMALL = (
    0.3142743195347836, -0.18188587850106117, 0.025424557742876257, -0.0019214582098450639,
    8.966525954745101e-05, -2.830802868181572e-06, 6.442546962604405e-08, -1.1068235106036057e-09,
    1.4862338485609142e-11, -1.6028109554824476e-13, 1.4188008517448966e-15,
    -1.0494270345038239e-17,
)  # fmt: skip
_F_MIDDLE = (
    0.9830793138395346, -0.015743451324243155, -0.0014367354482250313, 0.00018413199565588424,
    -1.1245652310044537e-05, -3.032790254593764e-07, 2.1513003220972224e-07,
    -3.9262901695857846e-08, 4.6826897637822294e-09, -2.7837038287685836e-10,
    -4.220591507374187e-11, 1.927115857839309e-11, -4.430966777617154e-12, 7.622910274617246e-13,
    -9.792591327296987e-14, 6.119062225462015e-15, 1.4148606821769174e-15, -7.139628702642209e-16,
    1.9815047439194558e-16, -4.3320391327812504e-17,
)  # fmt: skip
_F_LARGE = (
    0.9989379097865693, -0.0014096569723672158, -0.0003428361561269566, 5.298952675434986e-06,
    5.346923001228963e-07, -3.495303326118791e-08, -9.932917926618574e-10, 2.9162575770832355e-10,
    -1.289430113158058e-11, -1.971479055688955e-12, 3.654626622493659e-13, -1.296751980070219e-14,
    -4.5787704139713435e-15, 9.084043711349122e-16, -4.359158641143206e-17,
)  # fmt: skip
_G_MIDDLE = (
    0.9266022328381702, -0.06447544903709214, -0.003687613496432674, 0.0009907176003583168,
    -0.00010785660225489113, 4.4072035974492e-06, 1.097139029848634e-06, -3.5151068884039693e-07,
    6.247701047221066e-08, -7.578320962008248e-09, 3.754198469253473e-10, 1.1974965408859784e-10,
    -4.956199638970557e-11, 1.1933073308385934e-11, -2.2090496709226656e-12,
    3.1351466785816027e-13, -2.4965089700225286e-14, -3.533959177980785e-15, 2.32503314749671e-15,
    -7.20461166637461e-16, 1.7333855296548154e-16, -3.5016809564241865e-17,
)  # fmt: skip
_G_LARGE = (
    0.9947829648698477, -0.006900232861075718, -0.0016427534755932, 4.493254166440782e-05,
    4.097026835502644e-06, -4.0062656625273154e-07, -5.216990660384064e-09, 3.904667794011875e-09,
    -2.763040546392698e-10, -2.3585791455687686e-11, 6.92852001966451e-12, -4.738779717574278e-13,
    -7.031329681993653e-14, 2.1445854250974255e-14, -1.9040909365597085e-15,
    -2.2669789865523256e-16, 9.919483647762691e-17,
)  # fmt: skip
_LI2 = (
    1.0149416064096537, 0.13148012838765802, 0.015313452518102082, 0.002272188943655959,
    0.00038516199300815945, 7.103404374209115e-05, 1.3885622487404779e-05, 2.8323954583854513e-06,
    5.968314737835964e-07, 1.2902312437546724e-07, 2.8475309127972237e-08, 6.392641519505728e-09,
    1.4558235675968631e-09, 3.356030027905024e-10, 7.818019409066589e-11, 1.8379324194103908e-11,
    4.355524622917214e-12, 1.0395111785603755e-12, 2.496666278162975e-13, 6.030470288343577e-14,
    1.4640624936086265e-14, 3.570903196070032e-15, 8.746346791364233e-16, 2.1505456792131715e-16,
    5.3064798693556575e-17,
)  # fmt: skip
_EULER = 0.5772156649015329
_LEAST_WAVE = 1.6
_ENOUGH = 1e18  # the waves of Fresnel's integrals are below the rounding of 1/2 from here on

# ------------------------------------------------------------------ Dawson


def _dawson(xp: ArrayModule, size: Array) -> Array:
    """x times a series in x**2 up to 3, over x one in (3 / x)**2 up to 6, in (6 / x)**2 beyond."""
    low = xp.minimum(size, 3)
    middle = 3 / xp.minimum(xp.maximum(size, 3), 6)
    high = 6 / xp.maximum(size, 6)
    inner = low * series_between(xp, _D_SMALL, 0, 9, low * low)
    between = series_between(xp, _D_MIDDLE, 0.25, 1, middle * middle) * (middle / 3)
    outer = series_between(xp, _D_LARGE, 0, 1, high * high) * (high / 6)
    return xp.where(size <= 3, inner, xp.where(size <= 6, between, outer))


@primitive(shapes.floating, **SPECIAL_FUNCTION)
def dawsn(xp: ArrayModule, x: Array) -> Array:
    """Dawson's integral, exp(-x**2) times the integral of exp(t**2) from 0 to x.

    Example:
        >>> tk.math.special.dawsn([1.0]).numpy()
        array([0.5380795], dtype=float32)
    """
    floats = real_floats(x)
    return (xp.sign(floats) * _dawson(xp, xp.abs(floats))).astype(x.dtype)


dawsn.gradients(lambda g, y, x: multiply(g, subtract(1, multiply(multiply(2, x), y))))

# ------------------------------------------------------------------ the exponential integral


def _ei(xp: ArrayModule, x: Array) -> Array:
    """log(x) and a series in x up to 6; exp(x) / x times series in 1 / x beyond."""
    low = xp.minimum(x, 6)
    near = _EULER + xp.log(low) + low * series_between(xp, _EI_SMALL, 0, 6, low)
    finite = xp.minimum(xp.maximum(x, 6), xp.finfo(x.dtype).max)
    scaled = xp.where(
        x <= 12,
        series_between(xp, _EI_MIDDLE, 0.5, 1, 6 / xp.minimum(finite, 12)),
        xp.where(
            x <= 48,
            series_between(xp, _EI_FAR, 0.25, 1, 12 / xp.minimum(xp.maximum(finite, 12), 48)),
            series_between(xp, _EI_LARGE, 0, 1, 48 / xp.maximum(finite, 48)),
        ),
    )
    half = xp.exp(finite / 2)  # exp(x) alone overflows before the quotient does
    return xp.where(x <= 6, near, half * (scaled / finite) * half)


@primitive(shapes.floating, **SPECIAL_FUNCTION)
def expint(xp: ArrayModule, x: Array) -> Array:
    """The exponential integral Ei(x), that of exp(t) / t from -inf to x; NaN below 0.

    Example:
        >>> tk.math.special.expint([1.0]).numpy()
        array([1.8951179], dtype=float32)
    """
    floats = real_floats(x)
    return xp.where(floats < 0, xp.nan, _ei(xp, xp.maximum(floats, 0))).astype(x.dtype)


expint.gradients(lambda g, y, x: multiply(g, divide(exp(x), x)))

# ------------------------------------------------------------------ Fresnel


def _fresnel(xp: ArrayModule, size: Array, small: Callable[[Array], Array], sine: bool) -> Array:
    """1/2 and waves of slowly changing heights f and g from 1.6 on."""
    x = xp.minimum(xp.maximum(size, _LEAST_WAVE), _ENOUGH)
    ratio = (_LEAST_WAVE / x) ** 2
    far, near = xp.minimum(ratio, 0.25), xp.maximum(ratio, 0.25)
    f, g = (
        xp.where(
            ratio <= 0.25,
            series_between(xp, large, 0, 0.25, far),
            series_between(xp, middle, 0.25, 1, near),
        )
        for large, middle in ((_F_LARGE, _F_MIDDLE), (_G_LARGE, _G_MIDDLE))
    )
    f, g = f / (math.pi * x), g / (math.pi * x) / (math.pi * x) / x
    turn = xp.fmod(x * x, 4) * (math.pi / 2)  # the period is kept, and the argument small
    s, c = xp.sin(turn), xp.cos(turn)
    wave = -f * c - g * s if sine else f * s - g * c
    return xp.where(size <= _LEAST_WAVE, small(xp.minimum(size, _LEAST_WAVE)), 0.5 + wave)


@primitive(shapes.floating, **SPECIAL_FUNCTION)
def fresnel_cos(xp: ArrayModule, x: Array) -> Array:
    """Fresnel's integral of cos(pi t**2 / 2) from 0 to x.

    Example:
        >>> tk.math.special.fresnel_cos([1.0]).numpy()
        array([0.7798934], dtype=float32)
    """

    def small(u: Array) -> Array:
        return u * series_between(xp, _C_SMALL, 0, _LEAST_WAVE**4, u**4)

    floats = real_floats(x)
    return (xp.sign(floats) * _fresnel(xp, xp.abs(floats), small, sine=False)).astype(x.dtype)


@primitive(shapes.floating, **SPECIAL_FUNCTION)
def fresnel_sin(xp: ArrayModule, x: Array) -> Array:
    """Fresnel's integral of sin(pi t**2 / 2) from 0 to x.

    Example:
        >>> tk.math.special.fresnel_sin([1.0]).numpy()
        array([0.43825915], dtype=float32)
    """

    def small(u: Array) -> Array:
        return u**3 * series_between(xp, _S_SMALL, 0, _LEAST_WAVE**4, u**4)

    floats = real_floats(x)
    return (xp.sign(floats) * _fresnel(xp, xp.abs(floats), small, sine=True)).astype(x.dtype)


fresnel_cos.gradients(lambda g, y, x: multiply(g, cos(multiply(math.pi / 2, square(x)))))
fresnel_sin.gradients(lambda g, y, x: multiply(g, sin(multiply(math.pi / 2, square(x)))))

# ------------------------------------------------------------------ Spence


def _dilogarithm(xp: ArrayModule, z: Array) -> Array:
    """Li2(z) for z in [-1/2, 1/2]."""
    return z * series_at(xp, _LI2, 2 * z)


def _spence(xp: ArrayModule, x: Array) -> Array:
    """Li2(1 - x) for x in [0, 3/2]: of 1 - x from 1/2 on, of x below."""
    low, high = xp.minimum(x, 0.5), xp.maximum(x, 0.5)
    logs = log_above_zero(xp, low) * xp.log1p(-low)
    below = math.pi**2 / 6 - logs - _dilogarithm(xp, low)
    return xp.where(x < 0.5, below, _dilogarithm(xp, 1 - high))


@primitive(shapes.floating, **SPECIAL_FUNCTION)
def spence(xp: ArrayModule, x: Array) -> Array:
    """Spence's function, the dilogarithm of 1 - x; NaN below 0.

    Example:
        >>> tk.math.special.spence([2.0]).numpy()
        array([-0.82246703], dtype=float32)
    """
    floats = real_floats(x)
    size = xp.maximum(floats, 0)
    beyond = xp.maximum(size, 1.5)
    # by the value at 1 / x, since Li2(1 - x) + Li2(1 - 1 / x) = -log(x)**2 / 2
    y = _spence(xp, xp.where(size <= 1.5, size, 1 / beyond))
    y = xp.where(size <= 1.5, y, -(xp.log(beyond) ** 2) / 2 - y)
    return xp.where(floats < 0, xp.nan, y).astype(x.dtype)


def _spence_slope(x: Tensor) -> Tensor:
    """log(x) / (1 - x), whose limit at 1 is -1."""
    at_one = equal(x, 1)
    slope = divide(log(x), where(at_one, 1, subtract(1, x)))
    return where(at_one, -1, slope)


spence.gradients(lambda g, y, x: multiply(g, _spence_slope(x)))
