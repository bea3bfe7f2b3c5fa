"""Every operation under its `keras.ops` name, one line each."""

from typing import Any

# ------------------------------------------------------------------ shaping.py
from trainkit.ops.shaping import expand_dims as expand_dims
from trainkit.ops.shaping import moveaxis as moveaxis
from trainkit.ops.shaping import ndim as ndim
from trainkit.ops.shaping import ravel as ravel
from trainkit.ops.shaping import reshape as reshape
from trainkit.ops.shaping import shape as shape
from trainkit.ops.shaping import size as size
from trainkit.ops.shaping import squeeze as squeeze
from trainkit.ops.shaping import swap_last_axes as swap_last_axes
from trainkit.ops.shaping import swapaxes as swapaxes
from trainkit.ops.shaping import transpose as transpose

# ------------------------------------------------------------------ broadcasting.py
from trainkit.ops.broadcasting import broadcast_shapes as broadcast_shapes
from trainkit.ops.broadcasting import broadcast_to as broadcast_to
from trainkit.ops.broadcasting import copy_to_device as copy_to_device

# ------------------------------------------------------------------ joining.py
from trainkit.ops.joining import append as append
from trainkit.ops.joining import array_split as array_split
from trainkit.ops.joining import atleast_1d as atleast_1d
from trainkit.ops.joining import atleast_2d as atleast_2d
from trainkit.ops.joining import atleast_3d as atleast_3d
from trainkit.ops.joining import concatenate as concatenate
from trainkit.ops.joining import dsplit as dsplit
from trainkit.ops.joining import dstack as dstack
from trainkit.ops.joining import hsplit as hsplit
from trainkit.ops.joining import hstack as hstack
from trainkit.ops.joining import split as split
from trainkit.ops.joining import stack as stack
from trainkit.ops.joining import unstack as unstack
from trainkit.ops.joining import vsplit as vsplit
from trainkit.ops.joining import vstack as vstack

# ------------------------------------------------------------------ arranging.py
from trainkit.ops.arranging import flip as flip
from trainkit.ops.arranging import fliplr as fliplr
from trainkit.ops.arranging import flipud as flipud
from trainkit.ops.arranging import pad as pad
from trainkit.ops.arranging import repeat as repeat
from trainkit.ops.arranging import roll as roll
from trainkit.ops.arranging import rot90 as rot90
from trainkit.ops.arranging import tile as tile

# ------------------------------------------------------------------ products.py
from trainkit.ops.products import dot as dot
from trainkit.ops.products import inner as inner
from trainkit.ops.products import kron as kron
from trainkit.ops.products import matmul as matmul
from trainkit.ops.products import outer as outer
from trainkit.ops.products import tensordot as tensordot
from trainkit.ops.products import vdot as vdot

# ------------------------------------------------------------------ contraction.py
from trainkit.ops.contraction import einsum as einsum

# ------------------------------------------------------------------ diagonals.py
from trainkit.ops.diagonals import diag as diag
from trainkit.ops.diagonals import diagflat as diagflat
from trainkit.ops.diagonals import diagonal as diagonal
from trainkit.ops.diagonals import trace as trace
from trainkit.ops.diagonals import tril as tril
from trainkit.ops.diagonals import triu as triu

# ------------------------------------------------------------------ indexing.py
from trainkit.ops.indexing import get_item as get_item
from trainkit.ops.indexing import nonzero as nonzero

# ------------------------------------------------------------------ blocks.py
from trainkit.ops.blocks import slice as slice
from trainkit.ops.blocks import slice_update as slice_update

# ------------------------------------------------------------------ gathering.py
from trainkit.ops.gathering import gather as gather
from trainkit.ops.gathering import gather_nd as gather_nd
from trainkit.ops.gathering import take as take
from trainkit.ops.gathering import take_along_axis as take_along_axis
from trainkit.ops.gathering import unravel_index as unravel_index

# ------------------------------------------------------------------ scattering.py

# ------------------------------------------------------------------ sorting.py
from trainkit.ops.sorting import argpartition as argpartition
from trainkit.ops.sorting import argsort as argsort
from trainkit.ops.sorting import digitize as digitize
from trainkit.ops.sorting import in_top_k as in_top_k
from trainkit.ops.sorting import isin as isin
from trainkit.ops.sorting import searchsorted as searchsorted
from trainkit.ops.sorting import sort as sort
from trainkit.ops.sorting import top_k as top_k
from trainkit.ops.sorting import unique as unique

# ------------------------------------------------------------------ segments.py
from trainkit.ops.segments import segment_max as segment_max
from trainkit.ops.segments import segment_min as segment_min
from trainkit.ops.segments import segment_prod as segment_prod
from trainkit.ops.segments import segment_sum as segment_sum

# ------------------------------------------------------------------ scattering.py
from trainkit.ops.scattering import scatter as scatter
from trainkit.ops.scattering import scatter_nd_add as scatter_nd_add
from trainkit.ops.scattering import scatter_update as scatter_update

# ------------------------------------------------------------------ control_flow.py
from trainkit.ops.control_flow import associative_scan as associative_scan
from trainkit.ops.control_flow import cond as cond
from trainkit.ops.control_flow import fori_loop as fori_loop
from trainkit.ops.control_flow import map as map
from trainkit.ops.control_flow import scan as scan
from trainkit.ops.control_flow import switch as switch
from trainkit.ops.control_flow import while_loop as while_loop

# ------------------------------------------------------------------ solving.py
from trainkit.ops.solving import det as det
from trainkit.ops.solving import expm as expm
from trainkit.ops.solving import inv as inv
from trainkit.ops.solving import lstsq as lstsq
from trainkit.ops.solving import pinv as pinv
from trainkit.ops.solving import slogdet as slogdet
from trainkit.ops.solving import solve as solve
from trainkit.ops.solving import solve_triangular as solve_triangular

# ------------------------------------------------------------------ factorizations.py
from trainkit.ops.factorizations import cholesky as cholesky
from trainkit.ops.factorizations import cholesky_inverse as cholesky_inverse
from trainkit.ops.factorizations import eig as eig
from trainkit.ops.factorizations import eigh as eigh
from trainkit.ops.factorizations import logdet as logdet
from trainkit.ops.factorizations import lu_factor as lu_factor
from trainkit.ops.factorizations import qr as qr

# ------------------------------------------------------------------ singular_values.py
from trainkit.ops.singular_values import matrix_rank as matrix_rank
from trainkit.ops.singular_values import svd as svd

# ------------------------------------------------------------------ norms.py
from trainkit.ops.norms import cdist as cdist
from trainkit.ops.norms import norm as norm

# ------------------------------------------------------------------ differences.py
from trainkit.ops.differences import corrcoef as corrcoef
from trainkit.ops.differences import correlate as correlate
from trainkit.ops.differences import cross as cross
from trainkit.ops.differences import diff as diff
from trainkit.ops.differences import trapezoid as trapezoid

# ------------------------------------------------------------------ rearranging.py
from trainkit.ops.rearranging import depth_to_space as depth_to_space
from trainkit.ops.rearranging import rearrange as rearrange
from trainkit.ops.rearranging import space_to_depth as space_to_depth

# ------------------------------------------------------------------ namespaces
from trainkit.ops import image as image
from trainkit.ops import linalg as linalg
from trainkit.ops import nn as nn
from trainkit.ops import numpy as numpy

# ------------------------------------------------------------------ fourier.py
from trainkit.ops.fourier import fft as fft
from trainkit.ops.fourier import fft2 as fft2
from trainkit.ops.fourier import ifft2 as ifft2
from trainkit.ops.fourier import irfft as irfft
from trainkit.ops.fourier import rfft as rfft

# ------------------------------------------------------------------ spectrograms.py
from trainkit.ops.spectrograms import extract_sequences as extract_sequences
from trainkit.ops.spectrograms import istft as istft
from trainkit.ops.spectrograms import overlap_add as overlap_add
from trainkit.ops.spectrograms import stft as stft

# ------------------------------------------------------------------ activations.py
from trainkit.ops.activations import celu as celu
from trainkit.ops.activations import elu as elu
from trainkit.ops.activations import gelu as gelu
from trainkit.ops.activations import hard_shrink as hard_shrink
from trainkit.ops.activations import hard_sigmoid as hard_sigmoid
from trainkit.ops.activations import hard_silu as hard_silu
from trainkit.ops.activations import hard_silu as hard_swish
from trainkit.ops.activations import hard_tanh as hard_tanh
from trainkit.ops.activations import leaky_relu as leaky_relu
from trainkit.ops.activations import log_sigmoid as log_sigmoid
from trainkit.ops.activations import mish as mish
from trainkit.ops.activations import relu as relu
from trainkit.ops.activations import relu6 as relu6
from trainkit.ops.activations import selu as selu
from trainkit.ops.activations import sigmoid as sigmoid
from trainkit.ops.activations import silu as silu
from trainkit.ops.activations import silu as swish
from trainkit.ops.activations import soft_shrink as soft_shrink
from trainkit.ops.activations import softplus as softplus
from trainkit.ops.activations import softsign as softsign
from trainkit.ops.activations import sparse_plus as sparse_plus
from trainkit.ops.activations import sparse_sigmoid as sparse_sigmoid
from trainkit.ops.activations import squareplus as squareplus
from trainkit.ops.activations import tanh_shrink as tanh_shrink
from trainkit.ops.activations import threshold as threshold

# ------------------------------------------------------------------ axis_activations.py
from trainkit.ops.axis_activations import glu as glu
from trainkit.ops.axis_activations import log_softmax as log_softmax
from trainkit.ops.axis_activations import softmax as softmax
from trainkit.ops.axis_activations import sparsemax as sparsemax

# ------------------------------------------------------------------ bessel.py
from trainkit.ops.bessel import i0 as i0
from trainkit.ops.bessel import i0e as i0e
from trainkit.ops.bessel import i1 as i1
from trainkit.ops.bessel import i1e as i1e

# ------------------------------------------------------------------ bitwise.py
from trainkit.ops.bitwise import bitwise_and as bitwise_and
from trainkit.ops.bitwise import bitwise_not as bitwise_invert
from trainkit.ops.bitwise import bitwise_not as bitwise_not
from trainkit.ops.bitwise import bitwise_or as bitwise_or
from trainkit.ops.bitwise import bitwise_xor as bitwise_xor
from trainkit.ops.bitwise import left_shift as bitwise_left_shift
from trainkit.ops.bitwise import left_shift as left_shift
from trainkit.ops.bitwise import right_shift as bitwise_right_shift
from trainkit.ops.bitwise import right_shift as right_shift

# ------------------------------------------------------------------ complex_parts.py
from trainkit.ops.complex_parts import angle as angle
from trainkit.ops.complex_parts import conj as conj
from trainkit.ops.complex_parts import conj as conjugate
from trainkit.ops.complex_parts import imag as imag
from trainkit.ops.complex_parts import isreal as isreal
from trainkit.ops.complex_parts import polar as polar
from trainkit.ops.complex_parts import real as real
from trainkit.ops.complex_parts import view_as_complex as view_as_complex
from trainkit.ops.complex_parts import view_as_real as view_as_real
from trainkit.ops.complex_parts import complex_from as complex_from

# ------------------------------------------------------------------ creation.py
from trainkit.ops.creation import arange as arange
from trainkit.ops.creation import empty as empty
from trainkit.ops.creation import empty_like as empty_like
from trainkit.ops.creation import eye as eye
from trainkit.ops.creation import full as full
from trainkit.ops.creation import full_like as full_like
from trainkit.ops.creation import identity as identity
from trainkit.ops.creation import linspace as linspace
from trainkit.ops.creation import one_hot as one_hot
from trainkit.ops.creation import ones as ones
from trainkit.ops.creation import ones_like as ones_like
from trainkit.ops.creation import tri as tri
from trainkit.ops.creation import zeros as zeros
from trainkit.ops.creation import zeros_like as zeros_like

# ------------------------------------------------------------------ elementwise.py
from trainkit.ops.elementwise import absolute as abs
from trainkit.ops.elementwise import absolute as absolute
from trainkit.ops.elementwise import add as add
from trainkit.ops.elementwise import cast as cast
from trainkit.ops.elementwise import clip as clip
from trainkit.ops.elementwise import divide as divide
from trainkit.ops.elementwise import divide as true_divide
from trainkit.ops.elementwise import divide_no_nan as divide_no_nan
from trainkit.ops.elementwise import equal as equal
from trainkit.ops.elementwise import exp as exp
from trainkit.ops.elementwise import expm1 as expm1
from trainkit.ops.elementwise import fabs as fabs
from trainkit.ops.elementwise import fmax as fmax
from trainkit.ops.elementwise import fmin as fmin
from trainkit.ops.elementwise import greater as greater
from trainkit.ops.elementwise import greater_equal as greater_equal
from trainkit.ops.elementwise import isfinite as isfinite
from trainkit.ops.elementwise import isinf as isinf
from trainkit.ops.elementwise import isnan as isnan
from trainkit.ops.elementwise import less as less
from trainkit.ops.elementwise import less_equal as less_equal
from trainkit.ops.elementwise import log as log
from trainkit.ops.elementwise import log1p as log1p
from trainkit.ops.elementwise import logical_and as logical_and
from trainkit.ops.elementwise import logical_not as logical_not
from trainkit.ops.elementwise import logical_or as logical_or
from trainkit.ops.elementwise import logical_xor as logical_xor
from trainkit.ops.elementwise import maximum as maximum
from trainkit.ops.elementwise import minimum as minimum
from trainkit.ops.elementwise import multiply as multiply
from trainkit.ops.elementwise import negative as negative
from trainkit.ops.elementwise import not_equal as not_equal
from trainkit.ops.elementwise import power as power
from trainkit.ops.elementwise import reciprocal as reciprocal
from trainkit.ops.elementwise import rsqrt as rsqrt
from trainkit.ops.elementwise import sign as sign
from trainkit.ops.elementwise import sqrt as sqrt
from trainkit.ops.elementwise import square as square
from trainkit.ops.elementwise import subtract as subtract
from trainkit.ops.elementwise import tanh as tanh
from trainkit.ops.elementwise import where as where

# ------------------------------------------------------------------ exponentials.py
from trainkit.ops.exponentials import cbrt as cbrt
from trainkit.ops.exponentials import exp2 as exp2
from trainkit.ops.exponentials import hypot as hypot
from trainkit.ops.exponentials import ldexp as ldexp
from trainkit.ops.exponentials import log2 as log2
from trainkit.ops.exponentials import log10 as log10
from trainkit.ops.exponentials import logaddexp as logaddexp
from trainkit.ops.exponentials import logaddexp2 as logaddexp2
from trainkit.ops.exponentials import xdivy as xdivy
from trainkit.ops.exponentials import xlog1py as xlog1py
from trainkit.ops.exponentials import xlogy as xlogy

# ------------------------------------------------------------------ finiteness.py
from trainkit.ops.finiteness import allclose as allclose
from trainkit.ops.finiteness import isclose as isclose
from trainkit.ops.finiteness import isneginf as isneginf
from trainkit.ops.finiteness import isposinf as isposinf
from trainkit.ops.finiteness import nan_to_num as nan_to_num

# ------------------------------------------------------------------ gamma.py
from trainkit.ops.gamma import digamma as digamma
from trainkit.ops.gamma import lgamma as lgamma
from trainkit.ops.gamma import polygamma as polygamma
from trainkit.ops.gamma import zeta as zeta

# ------------------------------------------------------------------ reductions.py
from trainkit.ops.reductions import argmax as argmax
from trainkit.ops.reductions import argmin as argmin
from trainkit.ops.reductions import broadcast_like as broadcast_like
from trainkit.ops.reductions import logsumexp as logsumexp
from trainkit.ops.reductions import max as max
from trainkit.ops.reductions import max as amax
from trainkit.ops.reductions import mean as mean
from trainkit.ops.reductions import min as min
from trainkit.ops.reductions import min as amin
from trainkit.ops.reductions import std as std
from trainkit.ops.reductions import sum as sum
from trainkit.ops.reductions import sum_to_like as sum_to_like
from trainkit.ops.reductions import var as var

# ------------------------------------------------------------------ rounding.py
from trainkit.ops.rounding import ceil as ceil
from trainkit.ops.rounding import copysign as copysign
from trainkit.ops.rounding import floor as floor
from trainkit.ops.rounding import floor_divide as floor_divide
from trainkit.ops.rounding import fmod as fmod
from trainkit.ops.rounding import gcd as gcd
from trainkit.ops.rounding import heaviside as heaviside
from trainkit.ops.rounding import lcm as lcm
from trainkit.ops.rounding import mod as mod
from trainkit.ops.rounding import nextafter as nextafter
from trainkit.ops.rounding import round as round
from trainkit.ops.rounding import saturate_cast as saturate_cast
from trainkit.ops.rounding import signbit as signbit
from trainkit.ops.rounding import trunc as trunc

# ------------------------------------------------------------------ special.py
from trainkit.ops.special import erf as erf
from trainkit.ops.special import erfc as erfc
from trainkit.ops.special import erfcinv as erfcinv
from trainkit.ops.special import erfinv as erfinv
from trainkit.ops.special import ndtri as ndtri

# ------------------------------------------------------------------ trigonometry.py
from trainkit.ops.trigonometry import arccos as arccos
from trainkit.ops.trigonometry import arccosh as arccosh
from trainkit.ops.trigonometry import arcsin as arcsin
from trainkit.ops.trigonometry import arcsinh as arcsinh
from trainkit.ops.trigonometry import arctan as arctan
from trainkit.ops.trigonometry import arctan2 as arctan2
from trainkit.ops.trigonometry import arctanh as arctanh
from trainkit.ops.trigonometry import cos as cos
from trainkit.ops.trigonometry import cosh as cosh
from trainkit.ops.trigonometry import deg2rad as deg2rad
from trainkit.ops.trigonometry import rad2deg as rad2deg
from trainkit.ops.trigonometry import sin as sin
from trainkit.ops.trigonometry import sinc as sinc
from trainkit.ops.trigonometry import sinh as sinh
from trainkit.ops.trigonometry import tan as tan

# ------------------------------------------------------------------ cumulative.py
from trainkit.ops.cumulative import cumprod as cumprod
from trainkit.ops.cumulative import cumsum as cumsum
from trainkit.ops.cumulative import cumulative_logsumexp as cumulative_logsumexp
from trainkit.ops.cumulative import prod as prod

# ------------------------------------------------------------------ nan_reductions.py
from trainkit.ops.nan_reductions import nanargmax as nanargmax
from trainkit.ops.nan_reductions import nanargmin as nanargmin
from trainkit.ops.nan_reductions import nancumprod as nancumprod
from trainkit.ops.nan_reductions import nancumsum as nancumsum
from trainkit.ops.nan_reductions import nanmax as nanmax
from trainkit.ops.nan_reductions import nanmean as nanmean
from trainkit.ops.nan_reductions import nanmedian as nanmedian
from trainkit.ops.nan_reductions import nanmin as nanmin
from trainkit.ops.nan_reductions import nanpercentile as nanpercentile
from trainkit.ops.nan_reductions import nanprod as nanprod
from trainkit.ops.nan_reductions import nanquantile as nanquantile
from trainkit.ops.nan_reductions import nanstd as nanstd
from trainkit.ops.nan_reductions import nansum as nansum
from trainkit.ops.nan_reductions import nanvar as nanvar

# ------------------------------------------------------------------ statistics.py
from trainkit.ops.statistics import average as average
from trainkit.ops.statistics import bincount as bincount
from trainkit.ops.statistics import count_nonzero as count_nonzero
from trainkit.ops.statistics import histogram as histogram
from trainkit.ops.statistics import median as median
from trainkit.ops.statistics import percentile as percentile
from trainkit.ops.statistics import ptp as ptp
from trainkit.ops.statistics import quantile as quantile

# ------------------------------------------------------------------ windows.py
from trainkit.ops.windows import bartlett as bartlett
from trainkit.ops.windows import blackman as blackman
from trainkit.ops.windows import geomspace as geomspace
from trainkit.ops.windows import hamming as hamming
from trainkit.ops.windows import hanning as hanning
from trainkit.ops.windows import kaiser as kaiser
from trainkit.ops.windows import logspace as logspace
from trainkit.ops.windows import meshgrid as meshgrid
from trainkit.ops.windows import vander as vander

# ------------------------------------------------------------------ conversion.py
from trainkit.ops.conversion import array as array
from trainkit.ops.conversion import convert_to_numpy as convert_to_numpy
from trainkit.core.tensor import is_tensor as is_tensor
from trainkit.ops.conversion import stop_gradient as stop_gradient
from trainkit.ops.conversion import convert_to_tensor as convert_to_tensor
from trainkit.ops.conversion import copy as copy
from trainkit.ops.conversion import dtype as dtype
from trainkit.ops.conversion import select as select
from trainkit.ops.conversion import view as view

# ------------------------------------------------------------------ predicates.py
from trainkit.ops.predicates import all as all
from trainkit.ops.predicates import any as any

# ------------------------------------------------------------------ operators.py
import trainkit.ops.interchange  # noqa: F401  (gives tensors their Array API members)
import trainkit.ops.operators  # noqa: F401, E402  (gives tensors and variables their operators)

# ------------------------------------------------------------------ attention.py
from trainkit.ops.attention import dot_product_attention as dot_product_attention

# ------------------------------------------------------------------ convolution.py
from trainkit.ops.convolution import conv as conv
from trainkit.ops.convolution import conv_with_bias as conv_with_bias
from trainkit.ops.convolution import depthwise_conv as depthwise_conv
from trainkit.ops.convolution import separable_conv as separable_conv

# ------------------------------------------------------------------ cross_entropy.py
from trainkit.ops.cross_entropy import binary_crossentropy as binary_crossentropy
from trainkit.ops.cross_entropy import categorical_crossentropy as categorical_crossentropy
from trainkit.ops.cross_entropy import multi_hot as multi_hot
from trainkit.ops.cross_entropy import psnr as psnr
from trainkit.ops.cross_entropy import (
    sparse_categorical_crossentropy as sparse_categorical_crossentropy,
)

# ------------------------------------------------------------------ ctc.py
from trainkit.ops.ctc import ctc_decode as ctc_decode
from trainkit.ops.ctc import ctc_loss as ctc_loss

# ------------------------------------------------------------------ affine.py
from trainkit.ops.affine import dense as dense

# ------------------------------------------------------------------ embedding.py
from trainkit.ops.embedding import embedding_lookup as embedding_lookup

# ------------------------------------------------------------------ normalization.py
from trainkit.ops.normalization import batch_normalization as batch_normalization
from trainkit.ops.normalization import fused_batch_normalization as fused_batch_normalization
from trainkit.ops.normalization import layer_normalization as layer_normalization
from trainkit.ops.normalization import moments as moments
from trainkit.ops.normalization import normalize as normalize
from trainkit.ops.normalization import rms_normalization as rms_normalization

# ------------------------------------------------------------------ pooling.py
from trainkit.ops.pooling import adaptive_average_pool as adaptive_average_pool
from trainkit.ops.pooling import adaptive_max_pool as adaptive_max_pool
from trainkit.ops.pooling import average_pool as average_pool
from trainkit.ops.pooling import max_pool as max_pool

# ------------------------------------------------------------------ transposed_convolution.py
from trainkit.ops.transposed_convolution import conv_transpose as conv_transpose

# ------------------------------------------------------------------ unfolding.py
from trainkit.ops.unfolding import fold as fold
from trainkit.ops.unfolding import unfold as unfold

# ------------------------------------------------------------------ vectorizing.py
from trainkit.ops.vectorizing import vectorized_map as vectorized_map

custom_gradient: Any  # set by trainkit.autodiff, which stands above
jvp: Any
