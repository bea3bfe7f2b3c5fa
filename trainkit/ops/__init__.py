"""Every operation under its `keras.ops` name.

`numpy.py`, `nn.py` and `linalg.py` list those of Keras's namespaces, which all stand here too; the
lines below are those without one. The modules that are imported whole give tensors and variables
their operators.
"""

from typing import TYPE_CHECKING
from typing import Any as _Any

import trainkit.ops.arrays.dlpack
import trainkit.ops.core.operators
from trainkit.core.process.later_imports import later_members as _later_members
from trainkit.core.tensor import is_tensor as is_tensor
from trainkit.ops import linalg as linalg
from trainkit.ops import nn as nn
from trainkit.ops import numpy as numpy
from trainkit.ops.arrays.axes import swap_last_axes as swap_last_axes
from trainkit.ops.arrays.broadcasting import broadcast_shapes as broadcast_shapes
from trainkit.ops.arrays.broadcasting import copy_to_device as copy_to_device
from trainkit.ops.arrays.concat_and_split import atleast_1d as atleast_1d
from trainkit.ops.arrays.concat_and_split import atleast_2d as atleast_2d
from trainkit.ops.arrays.concat_and_split import atleast_3d as atleast_3d
from trainkit.ops.arrays.concat_and_split import unstack as unstack
from trainkit.ops.arrays.conversion import convert_to_numpy as convert_to_numpy
from trainkit.ops.arrays.conversion import convert_to_tensor as convert_to_tensor
from trainkit.ops.arrays.conversion import dtype as dtype
from trainkit.ops.arrays.conversion import stop_gradient as stop_gradient
from trainkit.ops.arrays.rearranging import rearrange as rearrange
from trainkit.ops.arrays.shaping import shape as shape
from trainkit.ops.arrays.sorting import in_top_k as in_top_k
from trainkit.ops.arrays.sorting import top_k as top_k
from trainkit.ops.convolutional.convolution import conv_with_bias as conv_with_bias
from trainkit.ops.convolutional.convolution import (
    depthwise_conv_with_bias as depthwise_conv_with_bias,
)
from trainkit.ops.core.control_flow import associative_scan as associative_scan
from trainkit.ops.core.control_flow import cond as cond
from trainkit.ops.core.control_flow import fori_loop as fori_loop
from trainkit.ops.core.control_flow import map as map
from trainkit.ops.core.control_flow import scan as scan
from trainkit.ops.core.control_flow import switch as switch
from trainkit.ops.core.control_flow import while_loop as while_loop
from trainkit.ops.core.vectorized_map import vectorized_map as vectorized_map
from trainkit.ops.indexing import counted_positions as counted_positions
from trainkit.ops.indexing import item_assignment as item_assignment
from trainkit.ops.indexing.dynamic_slice import slice as slice
from trainkit.ops.indexing.dynamic_slice import slice_update as slice_update
from trainkit.ops.indexing.gathering import gather as gather
from trainkit.ops.indexing.gathering import gather_nd as gather_nd
from trainkit.ops.indexing.scattering import scatter as scatter
from trainkit.ops.indexing.scattering import scatter_nd_add as scatter_nd_add
from trainkit.ops.indexing.scattering import scatter_update as scatter_update
from trainkit.ops.indexing.segments import segment_max as segment_max
from trainkit.ops.indexing.segments import segment_min as segment_min
from trainkit.ops.indexing.segments import segment_prod as segment_prod
from trainkit.ops.indexing.segments import segment_sum as segment_sum
from trainkit.ops.linalg import *
from trainkit.ops.linear_algebra.norms import cdist as cdist
from trainkit.ops.math.complex_parts import complex_from as complex_from
from trainkit.ops.math.complex_parts import view_as_complex as view_as_complex
from trainkit.ops.math.complex_parts import view_as_real as view_as_real
from trainkit.ops.math.cumulative import cumulative_logsumexp as cumulative_logsumexp
from trainkit.ops.math.elementwise import cast as cast
from trainkit.ops.math.elementwise import rsqrt as rsqrt
from trainkit.ops.math.error_functions import erf as erf
from trainkit.ops.math.error_functions import erfc as erfc
from trainkit.ops.math.error_functions import erfcinv as erfcinv
from trainkit.ops.math.error_functions import erfinv as erfinv
from trainkit.ops.math.error_functions import ndtri as ndtri
from trainkit.ops.math.exponentials import logsumexp as logsumexp
from trainkit.ops.math.exponentials import xdivy as xdivy
from trainkit.ops.math.exponentials import xlog1py as xlog1py
from trainkit.ops.math.exponentials import xlogy as xlogy
from trainkit.ops.math.gamma import digamma as digamma
from trainkit.ops.math.gamma import lgamma as lgamma
from trainkit.ops.math.gamma import polygamma as polygamma
from trainkit.ops.math.gamma import zeta as zeta
from trainkit.ops.math.incomplete_gamma import gammainc as gammainc
from trainkit.ops.math.reductions import broadcast_like as broadcast_like
from trainkit.ops.math.reductions import sum_to_like as sum_to_like
from trainkit.ops.math.rounding import copysign as copysign
from trainkit.ops.math.rounding import saturate_cast as saturate_cast
from trainkit.ops.neural.dense import dense as dense
from trainkit.ops.neural.embedding import embedding_lookup as embedding_lookup
from trainkit.ops.neural.fused_normalization import (
    fused_batch_normalization as fused_batch_normalization,
)
from trainkit.ops.neural.gated_activations import mish as mish
from trainkit.ops.nn import *
from trainkit.ops.numpy import *
from trainkit.ops.signal.fourier import fft as fft
from trainkit.ops.signal.fourier import fft2 as fft2
from trainkit.ops.signal.fourier import ifft2 as ifft2
from trainkit.ops.signal.fourier import irfft as irfft
from trainkit.ops.signal.fourier import rfft as rfft
from trainkit.ops.signal.stft import extract_sequences as extract_sequences
from trainkit.ops.signal.stft import istft as istft
from trainkit.ops.signal.stft import overlap_add as overlap_add
from trainkit.ops.signal.stft import stft as stft
from trainkit.ops.special.modified_bessel import i0e as i0e
from trainkit.ops.special.modified_bessel import i1 as i1
from trainkit.ops.special.modified_bessel import i1e as i1e

if TYPE_CHECKING:
    from trainkit.ops import image as image

custom_gradient: _Any  # set by trainkit.autodiff, which stands above


if not TYPE_CHECKING:  # the one namespace that is loaded when it is asked for
    __getattr__ = _later_members(globals(), {"image": "trainkit.ops.image"})


def __dir__() -> list[str]:
    return sorted({*globals(), "image"} - {"TYPE_CHECKING"})
