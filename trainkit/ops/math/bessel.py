"""Modified Bessel functions of the first kind, orders 0 and 1.

The scaled functions exp(-|x|) I0(x) and exp(-|x|) I1(x) / x are Chebyshev series in x / 4 - 1 up to
x = 8; times sqrt(x) the scaled functions are series in 16 / x - 1 beyond. The coefficients come
from interpolation at 200 Chebyshev nodes; values are good to 3e-14 of their size.
Source of the functions: Abramowitz and Stegun 1964, chapter 9.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import ELEMENTWISE, NO_LAYER, Absent
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.tensor import Tensor
from trainkit.ops.math.elementwise import (
    add,
    divide,
    equal,
    multiply,
    sign,
    subtract,
    where,
)

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


def _series(coefficients: Sequence[float], t: Array) -> Array:
    """The Chebyshev series at `t` in [-1, 1] by Clenshaw's recurrence."""
    twice = 2 * t
    one = two = 0 * t
    for c in reversed(coefficients[1:]):
        one, two = twice * one - two + c, one
    return t * one - two + coefficients[0]


def _scaled_i0(xp: ArrayModule, size: Array) -> Array:
    beyond = xp.maximum(size, 8)
    low = _series(_I0_SMALL, xp.minimum(size, 8) / 4 - 1)
    return xp.where(size <= 8, low, _series(_I0_LARGE, 16 / beyond - 1) / xp.sqrt(beyond))


def _scaled_i1(xp: ArrayModule, x: Array) -> Array:
    size = xp.abs(x)
    beyond = xp.maximum(size, 8)
    low = x * _series(_I1_SMALL, xp.minimum(size, 8) / 4 - 1)
    high = _series(_I1_LARGE, 16 / beyond - 1) / xp.sqrt(beyond)
    return xp.where(size <= 8, low, xp.sign(x) * high)


def _wide(xp: ArrayModule, x: Array) -> Array:
    """Halves as float32."""
    return x.astype(xp.float32) if x.dtype.itemsize < 4 else x


@primitive(
    shapes.floating,
    semantics=ELEMENTWISE,
    lowering=Absent("a long formula, not measured as one kernel"),
    export=NO_LAYER,
)
def i0e(xp: ArrayModule, x: Array) -> Array:
    """exp(-|x|) I0(x), which never overflows.

    Example:
        >>> tk.math.bessel_i0e([0.0]).numpy()
        array([1.], dtype=float32)
    """
    return _scaled_i0(xp, xp.abs(_wide(xp, x))).astype(x.dtype)


@primitive(
    shapes.floating,
    semantics=ELEMENTWISE,
    lowering=Absent("a long formula, not measured as one kernel"),
    export=NO_LAYER,
)
def i1e(xp: ArrayModule, x: Array) -> Array:
    """exp(-|x|) I1(x), which never overflows.

    Example:
        >>> tk.math.bessel_i1e([0.0]).numpy()
        array([0.], dtype=float32)
    """
    return _scaled_i1(xp, _wide(xp, x)).astype(x.dtype)


@primitive(
    shapes.floating,
    semantics=ELEMENTWISE,
    lowering=Absent("a long formula, not measured as one kernel"),
    export=NO_LAYER,
)
def i0(xp: ArrayModule, x: Array) -> Array:
    """Modified Bessel function of the first kind, order 0.

    Example:
        >>> tk.math.bessel_i0([0.0]).numpy()
        array([1.], dtype=float32)
    """
    size = xp.abs(_wide(xp, x))
    return (_scaled_i0(xp, size) * xp.exp(size)).astype(x.dtype)


@primitive(
    shapes.floating,
    semantics=ELEMENTWISE,
    lowering=Absent("a long formula, not measured as one kernel"),
    export=NO_LAYER,
)
def i1(xp: ArrayModule, x: Array) -> Array:
    """Modified Bessel function of the first kind, order 1.

    Example:
        >>> tk.math.bessel_i1([0.0]).numpy()
        array([0.], dtype=float32)
    """
    wide = _wide(xp, x)
    return (_scaled_i1(xp, wide) * xp.exp(xp.abs(wide))).astype(x.dtype)


def _over_argument(y: Tensor, x: Tensor) -> Tensor:
    """I1(x) / x, whose limit at 0 is 1/2."""
    at_zero = equal(x, 0)
    return where(at_zero, 0.5, divide(y, where(at_zero, 1, x)))  # type: ignore[no-any-return]


i0.gradients(lambda g, y, x: multiply(g, i1(x)))
i1.gradients(lambda g, y, x: multiply(g, subtract(i0(x), _over_argument(y, x))))
i0e.gradients(lambda g, y, x: multiply(g, subtract(i1e(x), multiply(sign(x), y))))
i1e.gradients(
    lambda g, y, x: multiply(g, subtract(i0e(x), add(_over_argument(y, x), multiply(sign(x), y))))
)
