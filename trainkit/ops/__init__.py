"""Every operation under its `keras.ops` name, one line each."""

# ------------------------------------------------------------------ bitwise.py
from trainkit.ops.bitwise import bitwise_and as bitwise_and
from trainkit.ops.bitwise import bitwise_not as bitwise_not
from trainkit.ops.bitwise import bitwise_or as bitwise_or
from trainkit.ops.bitwise import bitwise_xor as bitwise_xor
from trainkit.ops.bitwise import left_shift as left_shift
from trainkit.ops.bitwise import right_shift as right_shift

# ------------------------------------------------------------------ elementwise.py
from trainkit.ops.elementwise import absolute as abs
from trainkit.ops.elementwise import absolute as absolute
from trainkit.ops.elementwise import add as add
from trainkit.ops.elementwise import cast as cast
from trainkit.ops.rounding import ceil as ceil
from trainkit.ops.elementwise import clip as clip
from trainkit.ops.elementwise import divide as divide
from trainkit.ops.elementwise import equal as equal
from trainkit.ops.elementwise import exp as exp
from trainkit.ops.elementwise import expm1 as expm1
from trainkit.ops.rounding import floor as floor
from trainkit.ops.rounding import floor_divide as floor_divide
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
from trainkit.ops.rounding import mod as mod
from trainkit.ops.elementwise import multiply as multiply
from trainkit.ops.elementwise import negative as negative
from trainkit.ops.elementwise import not_equal as not_equal
from trainkit.ops.elementwise import power as power
from trainkit.ops.elementwise import reciprocal as reciprocal
from trainkit.ops.rounding import round as round
from trainkit.ops.elementwise import rsqrt as rsqrt
from trainkit.ops.elementwise import sign as sign
from trainkit.ops.elementwise import sqrt as sqrt
from trainkit.ops.elementwise import square as square
from trainkit.ops.elementwise import subtract as subtract
from trainkit.ops.elementwise import tanh as tanh
from trainkit.ops.elementwise import where as where

# ------------------------------------------------------------------ activations.py
from trainkit.ops.activations import relu as relu
from trainkit.ops.activations import sigmoid as sigmoid

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

# ------------------------------------------------------------------ reductions.py
from trainkit.ops.reductions import all as all
from trainkit.ops.reductions import any as any
from trainkit.ops.reductions import argmax as argmax
from trainkit.ops.reductions import argmin as argmin
from trainkit.ops.reductions import broadcast_like as broadcast_like
from trainkit.ops.reductions import logsumexp as logsumexp
from trainkit.ops.reductions import max as max
from trainkit.ops.reductions import mean as mean
from trainkit.ops.reductions import min as min
from trainkit.ops.reductions import std as std
from trainkit.ops.reductions import sum as sum
from trainkit.ops.reductions import sum_to_like as sum_to_like
from trainkit.ops.reductions import var as var

# ------------------------------------------------------------------ shaping.py
from trainkit.ops.shaping import broadcast_shapes as broadcast_shapes
from trainkit.ops.shaping import broadcast_to as broadcast_to
from trainkit.ops.shaping import copy_to_device as copy_to_device
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
from trainkit.ops.scattering import scatter as scatter
from trainkit.ops.scattering import scatter_nd_add as scatter_nd_add
from trainkit.ops.scattering import scatter_update as scatter_update

# ------------------------------------------------------------------ operators.py
import trainkit.ops.operators  # noqa: F401  (gives tensors and variables their Python operators)
