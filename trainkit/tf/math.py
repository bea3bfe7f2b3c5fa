"""`tk.math`: TensorFlow's names for arithmetic and reductions.

Most are the operations themselves. The functions written out here are those to which TensorFlow
gives another meaning or other arguments than Keras: reductions keep the dtype of integers, `argmax`
goes along axis 0 and gives int64, `floordiv` and friends.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from trainkit import ops
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.docstrings import describe_arguments as _describe_arguments
from trainkit.ops import abs as abs
from trainkit.ops import add as add
from trainkit.ops import arccos as acos
from trainkit.ops import arccosh as acosh
from trainkit.ops import arcsin as asin
from trainkit.ops import arcsinh as asinh
from trainkit.ops import arctan as atan
from trainkit.ops import arctanh as atanh
from trainkit.ops import ceil as ceil
from trainkit.ops import cos as cos
from trainkit.ops import cosh as cosh
from trainkit.ops import digamma as digamma
from trainkit.ops import equal as equal
from trainkit.ops import erf as erf
from trainkit.ops import erfc as erfc
from trainkit.ops import erfcinv as erfcinv
from trainkit.ops import erfinv as erfinv
from trainkit.ops import exp as exp
from trainkit.ops import expm1 as expm1
from trainkit.ops import floor as floor
from trainkit.ops import floor_divide as floordiv
from trainkit.ops import greater as greater
from trainkit.ops import greater_equal as greater_equal
from trainkit.ops import i0 as bessel_i0
from trainkit.ops import i0e as bessel_i0e
from trainkit.ops import i1 as bessel_i1
from trainkit.ops import i1e as bessel_i1e
from trainkit.ops import isfinite as is_finite
from trainkit.ops import isinf as is_inf
from trainkit.ops import isnan as is_nan
from trainkit.ops import less as less
from trainkit.ops import less_equal as less_equal
from trainkit.ops import lgamma as lgamma
from trainkit.ops import log as log
from trainkit.ops import log1p as log1p
from trainkit.ops import log_sigmoid as log_sigmoid
from trainkit.ops import logical_and as logical_and
from trainkit.ops import logical_not as logical_not
from trainkit.ops import logical_or as logical_or
from trainkit.ops import logical_xor as logical_xor
from trainkit.ops import maximum as maximum
from trainkit.ops import minimum as minimum
from trainkit.ops import mod as floormod
from trainkit.ops import mod as mod
from trainkit.ops import multiply as multiply
from trainkit.ops import ndtri as ndtri
from trainkit.ops import negative as negative
from trainkit.ops import nextafter as nextafter
from trainkit.ops import not_equal as not_equal
from trainkit.ops import polygamma as polygamma
from trainkit.ops import reciprocal as reciprocal
from trainkit.ops import rsqrt as rsqrt
from trainkit.ops import sigmoid as sigmoid
from trainkit.ops import sign as sign
from trainkit.ops import sin as sin
from trainkit.ops import sinh as sinh
from trainkit.ops import sqrt as sqrt
from trainkit.ops import square as square
from trainkit.ops import subtract as subtract
from trainkit.ops import tan as tan
from trainkit.ops import tanh as tanh
from trainkit.ops import xdivy as xdivy
from trainkit.ops import xlog1py as xlog1py
from trainkit.ops import xlogy as xlogy
from trainkit.ops import zeta as zeta
from trainkit.ops.arrays.counting import bincount as bincount
from trainkit.ops.arrays.counting import confusion_matrix as confusion_matrix
from trainkit.ops.arrays.counting import count_nonzero as count_nonzero
from trainkit.ops.arrays.counting import zero_fraction as zero_fraction
from trainkit.ops.arrays.ordering import invert_permutation as invert_permutation
from trainkit.ops.arrays.ordering import is_non_decreasing as is_non_decreasing
from trainkit.ops.arrays.ordering import is_strictly_increasing as is_strictly_increasing
from trainkit.ops.arrays.running_totals import cumprod as cumprod
from trainkit.ops.arrays.running_totals import cumsum as cumsum
from trainkit.ops.arrays.running_totals import cumulative_logsumexp as cumulative_logsumexp
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.core.axis_numbers import reduced
from trainkit.ops.linear_algebra.lengths import l2_normalize as l2_normalize
from trainkit.ops.linear_algebra.lengths import reduce_euclidean_norm as reduce_euclidean_norm
from trainkit.ops.math.arithmetic import accumulate_n as accumulate_n
from trainkit.ops.math.arithmetic import add_n as add_n
from trainkit.ops.math.arithmetic import lbeta as lbeta
from trainkit.ops.math.arithmetic import multiply_no_nan as multiply_no_nan
from trainkit.ops.math.arithmetic import polyval as polyval
from trainkit.ops.math.arithmetic import squared_difference as squared_difference
from trainkit.ops.math.complex_parts import phase as _phase
from trainkit.ops.math.incomplete_gamma import betainc as betainc
from trainkit.ops.math.incomplete_gamma import igamma as igamma
from trainkit.ops.math.incomplete_gamma import igammac as igammac
from trainkit.ops.math.nan_reductions import mean_in_dtype, prod_in_dtype, sum_in_dtype
from trainkit.ops.math.segment_reductions import segment_max as segment_max
from trainkit.ops.math.segment_reductions import segment_mean as segment_mean
from trainkit.ops.math.segment_reductions import segment_min as segment_min
from trainkit.ops.math.segment_reductions import segment_prod as segment_prod
from trainkit.ops.math.segment_reductions import segment_sum as segment_sum
from trainkit.ops.math.segment_reductions import unsorted_segment_max as unsorted_segment_max
from trainkit.ops.math.segment_reductions import unsorted_segment_mean as unsorted_segment_mean
from trainkit.ops.math.segment_reductions import unsorted_segment_min as unsorted_segment_min
from trainkit.ops.math.segment_reductions import unsorted_segment_prod as unsorted_segment_prod
from trainkit.ops.math.segment_reductions import unsorted_segment_sqrt_n as unsorted_segment_sqrt_n
from trainkit.ops.math.segment_reductions import unsorted_segment_sum as unsorted_segment_sum
from trainkit.ops.neural.softmax import powers_share as _powers_share
from trainkit.ops.special import bessel as _bessel
from trainkit.ops.special import integrals as _integrals
from trainkit.ops.special import modified_bessel as _modified_bessel
from trainkit.tf.left_out import explain_unknown_names as _explain_unknown_names
from trainkit.tf.left_out import namespace as _namespace
from trainkit.tf.positions import argmax as argmax
from trainkit.tf.positions import argmin as argmin
from trainkit.tf.positions import in_top_k as in_top_k
from trainkit.tf.positions import top_k as top_k

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import Axis, TensorLike


def truediv(x: Any, y: Any, name: Any = None) -> Tensor:
    """`x / y`; integers are divided in float64 (8 and 16 bit ones in float32).

    Example:
        >>> tk.math.truediv([1, 3], [2, 2]).numpy()
        array([0.5, 1.5])
    """
    left = x if isinstance(x, Tensor) or not isinstance(y, Tensor) else None
    if left is None and isinstance(y, Tensor):
        return y.__rtruediv__(x)
    return convert_to_tensor(x).__truediv__(y)


divide = truediv


def reciprocal_no_nan(x: TensorLike, name: str | None = None) -> Tensor:
    """1 / x, and 0 where x is 0.

    Args:
        x: tensor of floats or complex numbers.

    Example:
        >>> tk.math.reciprocal_no_nan([2.0, 0.0]).numpy()
        array([0.5, 0. ], dtype=float32)
    """
    x = convert_to_tensor(x)
    return ops.divide_no_nan(ops.ones_like(x), x)


def rint(x: TensorLike, name: str | None = None) -> Tensor:
    """The nearest whole number, as a float; halves go to even.

    Args:
        x: tensor of floats.

    Example:
        >>> tk.math.rint([0.5, 1.5, 1.7]).numpy()
        array([0., 2., 2.], dtype=float32)
    """
    return ops.round(x)


def divide_no_nan(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """x / y, and 0 where `y` is 0; integers are divided as by `truediv`.

    Example:
        >>> tk.math.divide_no_nan([1.0, 1.0], [2.0, 0.0]).numpy()
        array([0.5, 0. ], dtype=float32)
    """
    like = next((v.dtype for v in (x, y) if isinstance(v, Tensor)), None)
    x, y = convert_to_tensor(x, dtype_hint=like), convert_to_tensor(y, dtype_hint=like)
    widens = x.dtype.is_integer and y.dtype.is_integer and max(x.dtype.size, y.dtype.size) > 2
    return ops.divide_no_nan(ops.cast(x, "float64") if widens else x, y)


# ---------------------------------------------------------------------- reductions


def reduce_sum(
    input_tensor: TensorLike,
    axis: Axis | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """Sum over the axes `axis`, all by default; the dtype stays.

    Example:
        >>> x = tk.constant([[1.0, 2.0], [3.0, 4.0]])
        >>> tk.math.reduce_sum(x, axis=0).numpy()
        array([4., 6.], dtype=float32)
        >>> tk.math.reduce_sum(x, axis=1, keepdims=True).shape
        TensorShape([2, 1])
    """
    x = input_tensor
    if type(x) is Tensor and x._array.dtype.kind == "f":
        if axis is None or type(axis) is int:
            return ops.sum(x, axis, keepdims)
        return reduced(ops.sum, x, axis, keepdims)
    return reduced(sum_in_dtype, as_tensor(x), axis, keepdims)


def reduce_prod(
    input_tensor: TensorLike,
    axis: Axis | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """Product over the axes `axis`, all by default; the dtype stays.

    Example:
        >>> float(tk.math.reduce_prod([2.0, 3.0, 4.0]))
        24.0
    """
    return reduced(prod_in_dtype, as_tensor(input_tensor), axis, keepdims)


def reduce_mean(
    input_tensor: TensorLike,
    axis: Axis | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """Mean over the axes `axis`, all by default; of integers an integer, rounded to zero.

    Example:
        >>> tk.math.reduce_mean([[1.0, 5.0], [2.0, 4.0]], axis=1).numpy()
        array([3., 3.], dtype=float32)
    """
    x = input_tensor
    if type(x) is Tensor and x._array.dtype.kind == "f":
        if axis is None or type(axis) is int:
            return ops.mean(x, axis, keepdims)
        return reduced(ops.mean, x, axis, keepdims)
    return reduced(mean_in_dtype, as_tensor(x), axis, keepdims)


def reduce_max(
    input_tensor: TensorLike,
    axis: Axis | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """Greatest value over the axes `axis`, all by default; the least there is, of no elements.

    Example:
        >>> tk.math.reduce_max([[1.0, 5.0], [2.0, 3.0]], axis=0).numpy()
        array([2., 5.], dtype=float32)
    """
    x = as_tensor(input_tensor)
    if _has_elements(x):
        return reduced(ops.max, x, axis, keepdims)
    start = -np.inf if x.dtype.is_floating else x.dtype.limits[0]
    return reduced(functools.partial(ops.max, initial=start), x, axis, keepdims)


def reduce_min(
    input_tensor: TensorLike,
    axis: Axis | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """Least value over the axes `axis`, all by default; the greatest there is, of no elements.

    Example:
        >>> tk.math.reduce_min([[1.0, 5.0], [2.0, 3.0]], axis=0).numpy()
        array([1., 3.], dtype=float32)
    """
    x = as_tensor(input_tensor)
    if _has_elements(x):
        return reduced(ops.min, x, axis, keepdims)
    start = np.inf if x.dtype.is_floating else x.dtype.limits[1]
    return reduced(functools.partial(ops.min, initial=start), x, axis, keepdims)


def _has_elements(x: Tensor) -> bool:
    """Whether there are any, as far as is known while tracing."""
    return bool(x._array.size) if type(x) is Tensor else all(x.shape)


def reduce_all(
    input_tensor: TensorLike,
    axis: Axis | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """Whether all elements hold.

    Args:
        input_tensor: bool tensor.

    Example:
        >>> tk.math.reduce_all([[True, True], [True, False]], axis=1).numpy()
        array([ True, False])
    """
    return reduced(ops.all, input_tensor, axis, keepdims)


def reduce_any(
    input_tensor: TensorLike,
    axis: Axis | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """Whether any element holds.

    Args:
        input_tensor: bool tensor.

    Example:
        >>> tk.math.reduce_any([[False, False], [True, False]], axis=1).numpy()
        array([False,  True])
    """
    return reduced(ops.any, input_tensor, axis, keepdims)


def reduce_logsumexp(
    input_tensor: TensorLike,
    axis: Axis | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """log(sum(exp(x))) without overflow.

    Args:
        input_tensor: tensor of floats.

    Example:
        >>> tk.math.reduce_logsumexp([0.0, 0.0]).numpy().round(4)
        np.float32(0.6931)
    """
    return reduced(ops.logsumexp, input_tensor, axis, keepdims)


def reduce_variance(
    input_tensor: TensorLike,
    axis: Axis | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """Variance over the axes `axis`, divided by n.

    Args:
        input_tensor: tensor of floats or complex numbers.

    Example:
        >>> float(tk.math.reduce_variance([1.0, 3.0]))
        1.0
    """
    return reduced(ops.var, input_tensor, axis, keepdims)


def reduce_std(
    input_tensor: TensorLike,
    axis: Axis | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """Standard deviation over the axes `axis`, divided by n.

    Args:
        input_tensor: tensor of floats or complex numbers.

    Example:
        >>> float(tk.math.reduce_std([1.0, 3.0]))
        1.0
    """
    return reduced(ops.std, input_tensor, axis, keepdims)


def log_softmax(logits: TensorLike, axis: int = -1, name: str | None = None) -> Tensor:
    """`x - log(sum(exp(x)))` along `axis`.

    Args:
        logits: tensor of floats.
        axis: int.

    Example:
        >>> tk.math.log_softmax([0.0, 0.0]).numpy().round(4)
        array([-0.6931, -0.6931], dtype=float32)
    """
    return ops.log_softmax(logits, axis=axis)


def softmax(logits: TensorLike, axis: int = -1, name: str | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along `axis`.

    Args:
        logits: tensor of floats.
        axis: int.

    Example:
        >>> tk.math.softmax([[0.0, 0.0]]).numpy()
        array([[0.5, 0.5]], dtype=float32)
    """
    return _powers_share(logits, axis=axis)


def scalar_mul(scalar: Any, x: TensorLike, name: str | None = None) -> Tensor:
    """`scalar` * x.

    Args:
        scalar: number, or scalar tensor.
        x: tensor.

    Example:
        >>> tk.math.scalar_mul(2.0, [1.0, 2.0]).numpy()
        array([2., 4.], dtype=float32)
    """
    return ops.multiply(scalar, x)


def angle(input: TensorLike, name: str | None = None) -> Tensor:
    """The angle of complex numbers in the plane, in radians.

    Example:
        >>> tk.math.angle([1.0 + 0.0j, -1.0 + 0.0j]).numpy().round(4)
        array([0.    , 3.1416])
    """
    return _phase(input)


def conj(x: TensorLike, name: str | None = None) -> Tensor:
    """Complex numbers with the other sign of the imaginary part.

    Example:
        >>> tk.math.conj([1.0 + 2.0j]).numpy()
        array([1.-2.j])
    """
    return ops.conj(x)


def imag(input: TensorLike, name: str | None = None) -> Tensor:
    """The imaginary part.

    Example:
        >>> tk.math.imag([1.0 + 2.0j]).numpy()
        array([2.])
    """
    return ops.imag(input)


def real(input: TensorLike, name: str | None = None) -> Tensor:
    """The real part.

    Example:
        >>> tk.math.real([1.0 + 2.0j]).numpy()
        array([1.])
    """
    return ops.real(input)


def atan2(y: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """The angle of the point (x, y), in radians.

    Args:
        y: tensor of floats.
        x: tensor that broadcasts with `y`.

    Example:
        >>> tk.math.atan2([0.0, 1.0], [1.0, 0.0]).numpy().round(4)
        array([0.    , 1.5708], dtype=float32)
    """
    return ops.arctan2(y, x)


def round(x: TensorLike, name: str | None = None) -> Tensor:
    """The nearest whole number; halves go to the even one.

    Example:
        >>> tk.math.round([0.5, 1.5, 1.7]).numpy()
        array([0., 2., 2.], dtype=float32)
    """
    return ops.round(x)


def pow(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """X to the power of y.

    Example:
        >>> tk.math.pow([2.0, 3.0], 2.0).numpy()
        array([4., 9.], dtype=float32)
    """
    return ops.power(x, y)


def softplus(features: TensorLike, name: str | None = None) -> Tensor:
    """log(1 + exp(x)).

    Args:
        features: tensor of floats.

    Example:
        >>> tk.math.softplus([0.0]).numpy().round(4)
        array([0.6931], dtype=float32)
    """
    return ops.softplus(features)


def softsign(features: TensorLike, name: str | None = None) -> Tensor:
    """x / (1 + |x|).

    Args:
        features: tensor of floats.

    Example:
        >>> tk.math.softsign([-1.0, 1.0]).numpy()
        array([-0.5,  0.5], dtype=float32)
    """
    return ops.softsign(features)


special = _namespace(
    "math.special",
    bessel_i0=bessel_i0,
    bessel_i0e=bessel_i0e,
    bessel_i1=bessel_i1,
    bessel_i1e=bessel_i1e,
    bessel_j0=_bessel.bessel_j0,
    bessel_j1=_bessel.bessel_j1,
    bessel_k0=_modified_bessel.bessel_k0,
    bessel_k0e=_modified_bessel.bessel_k0e,
    bessel_k1=_modified_bessel.bessel_k1,
    bessel_k1e=_modified_bessel.bessel_k1e,
    bessel_y0=_bessel.bessel_y0,
    bessel_y1=_bessel.bessel_y1,
    dawsn=_integrals.dawsn,
    expint=_integrals.expint,
    fresnel_cos=_integrals.fresnel_cos,
    fresnel_sin=_integrals.fresnel_sin,
    spence=_integrals.spence,
)
"""Integrals without a closed form: Bessel functions, Dawson's, Fresnel's and others.

Source of the formulas: NIST Digital Library of Mathematical Functions, chapters 6, 7, 10 and 25.
"""


_describe_arguments(
    globals(),
    """
    x: tensor of numbers.
    y: tensor that broadcasts with `x`.
    input_tensor: tensor of numbers.
    axis: int, ints, or a tensor of them; by default all.
    keepdims: keep the reduced axes with size 1.
    input: tensor of numbers.
    """,
)


_describe_arguments(globals(), "name: not kept.", package="trainkit")

_explain_unknown_names("math", globals())
