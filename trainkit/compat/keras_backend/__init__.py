"""What `keras.backend` held before Keras 3, for programs that call it `K`: `K.mean(K.square(x))`.

`trainkit.keras.backend` gives these names beside its own, as TensorFlow's `tf.keras.backend` does.
They compute what `trainkit.ops` does, under the names and with the defaults of the time.
"""

from typing import TYPE_CHECKING

from trainkit.compat.keras_backend.mathematics import argmax as argmax
from trainkit.compat.keras_backend.mathematics import argmin as argmin
from trainkit.compat.keras_backend.mathematics import batch_dot as batch_dot
from trainkit.compat.keras_backend.mathematics import clip as clip
from trainkit.compat.keras_backend.mathematics import cumprod as cumprod
from trainkit.compat.keras_backend.mathematics import cumsum as cumsum
from trainkit.compat.keras_backend.mathematics import dot as dot
from trainkit.compat.keras_backend.mathematics import gradients as gradients
from trainkit.compat.keras_backend.mathematics import map_fn as map_fn
from trainkit.compat.keras_backend.mathematics import pow as pow
from trainkit.compat.keras_backend.mathematics import round as round
from trainkit.compat.keras_backend.mathematics import stop_gradient as stop_gradient
from trainkit.compat.keras_backend.mathematics import switch as switch
from trainkit.compat.keras_backend.networks import batch_normalization as batch_normalization
from trainkit.compat.keras_backend.networks import (
    binary_focal_crossentropy as binary_focal_crossentropy,
)
from trainkit.compat.keras_backend.networks import (
    categorical_focal_crossentropy as categorical_focal_crossentropy,
)
from trainkit.compat.keras_backend.networks import ctc_batch_cost as ctc_batch_cost
from trainkit.compat.keras_backend.networks import ctc_decode as ctc_decode
from trainkit.compat.keras_backend.networks import hard_sigmoid as hard_sigmoid
from trainkit.compat.keras_backend.networks import in_top_k as in_top_k
from trainkit.compat.keras_backend.networks import relu as relu
from trainkit.compat.keras_backend.networks import (
    sparse_categorical_crossentropy as sparse_categorical_crossentropy,
)
from trainkit.compat.keras_backend.shapes import arange as arange
from trainkit.compat.keras_backend.shapes import batch_flatten as batch_flatten
from trainkit.compat.keras_backend.shapes import cast_to_floatx as cast_to_floatx
from trainkit.compat.keras_backend.shapes import concatenate as concatenate
from trainkit.compat.keras_backend.shapes import dtype as dtype
from trainkit.compat.keras_backend.shapes import expand_dims as expand_dims
from trainkit.compat.keras_backend.shapes import flatten as flatten
from trainkit.compat.keras_backend.shapes import gather as gather
from trainkit.compat.keras_backend.shapes import int_shape as int_shape
from trainkit.compat.keras_backend.shapes import is_sparse as is_sparse
from trainkit.compat.keras_backend.shapes import ndim as ndim
from trainkit.compat.keras_backend.shapes import one_hot as one_hot
from trainkit.compat.keras_backend.shapes import permute_dimensions as permute_dimensions
from trainkit.compat.keras_backend.shapes import repeat as repeat
from trainkit.compat.keras_backend.shapes import repeat_elements as repeat_elements
from trainkit.compat.keras_backend.shapes import reshape as reshape
from trainkit.compat.keras_backend.shapes import reverse as reverse
from trainkit.compat.keras_backend.shapes import shape as shape
from trainkit.compat.keras_backend.shapes import squeeze as squeeze
from trainkit.compat.keras_backend.shapes import tile as tile
from trainkit.compat.keras_backend.shapes import to_dense as to_dense
from trainkit.compat.keras_backend.shapes import transpose as transpose
from trainkit.compat.keras_backend.variables import batch_get_value as batch_get_value
from trainkit.compat.keras_backend.variables import batch_set_value as batch_set_value
from trainkit.compat.keras_backend.variables import constant as constant
from trainkit.compat.keras_backend.variables import count_params as count_params
from trainkit.compat.keras_backend.variables import dropout as dropout
from trainkit.compat.keras_backend.variables import eval as eval
from trainkit.compat.keras_backend.variables import eye as eye
from trainkit.compat.keras_backend.variables import get_value as get_value
from trainkit.compat.keras_backend.variables import moving_average_update as moving_average_update
from trainkit.compat.keras_backend.variables import ones as ones
from trainkit.compat.keras_backend.variables import random_bernoulli as random_bernoulli
from trainkit.compat.keras_backend.variables import random_normal as random_normal
from trainkit.compat.keras_backend.variables import random_normal_variable as random_normal_variable
from trainkit.compat.keras_backend.variables import random_uniform as random_uniform
from trainkit.compat.keras_backend.variables import (
    random_uniform_variable as random_uniform_variable,
)
from trainkit.compat.keras_backend.variables import set_value as set_value
from trainkit.compat.keras_backend.variables import truncated_normal as truncated_normal
from trainkit.compat.keras_backend.variables import update as update
from trainkit.compat.keras_backend.variables import update_add as update_add
from trainkit.compat.keras_backend.variables import update_sub as update_sub
from trainkit.compat.keras_backend.variables import variable as variable
from trainkit.compat.keras_backend.variables import zeros as zeros
from trainkit.compat.keras_backend.windows import bias_add as bias_add
from trainkit.compat.keras_backend.windows import conv1d as conv1d
from trainkit.compat.keras_backend.windows import conv2d as conv2d
from trainkit.compat.keras_backend.windows import conv2d_transpose as conv2d_transpose
from trainkit.compat.keras_backend.windows import conv3d as conv3d
from trainkit.compat.keras_backend.windows import depthwise_conv2d as depthwise_conv2d
from trainkit.compat.keras_backend.windows import pool2d as pool2d
from trainkit.compat.keras_backend.windows import pool3d as pool3d
from trainkit.compat.keras_backend.windows import resize_images as resize_images
from trainkit.compat.keras_backend.windows import resize_volumes as resize_volumes
from trainkit.compat.keras_backend.windows import separable_conv2d as separable_conv2d
from trainkit.compat.keras_backend.windows import spatial_2d_padding as spatial_2d_padding
from trainkit.compat.keras_backend.windows import spatial_3d_padding as spatial_3d_padding
from trainkit.compat.keras_backend.windows import temporal_padding as temporal_padding
from trainkit.layers.base.keras_variable import KerasNameScope
from trainkit.ops import abs as abs
from trainkit.ops import all as all
from trainkit.ops import any as any
from trainkit.ops import binary_crossentropy as binary_crossentropy
from trainkit.ops import cast as cast
from trainkit.ops import categorical_crossentropy as categorical_crossentropy
from trainkit.ops import cos as cos
from trainkit.ops import elu as elu
from trainkit.ops import equal as equal
from trainkit.ops import exp as exp
from trainkit.ops import greater as greater
from trainkit.ops import greater_equal as greater_equal
from trainkit.ops import less as less
from trainkit.ops import less_equal as less_equal
from trainkit.ops import log as log
from trainkit.ops import max as max
from trainkit.ops import maximum as maximum
from trainkit.ops import mean as mean
from trainkit.ops import min as min
from trainkit.ops import minimum as minimum
from trainkit.ops import not_equal as not_equal
from trainkit.ops import ones_like as ones_like
from trainkit.ops import prod as prod
from trainkit.ops import sigmoid as sigmoid
from trainkit.ops import sign as sign
from trainkit.ops import sin as sin
from trainkit.ops import softmax as softmax
from trainkit.ops import softplus as softplus
from trainkit.ops import softsign as softsign
from trainkit.ops import sqrt as sqrt
from trainkit.ops import square as square
from trainkit.ops import stack as stack
from trainkit.ops import std as std
from trainkit.ops import sum as sum
from trainkit.ops import tanh as tanh
from trainkit.ops import var as var
from trainkit.ops import zeros_like as zeros_like
from trainkit.ops.core.folds import foldl as foldl
from trainkit.ops.core.folds import foldr as foldr
from trainkit.ops.linear_algebra.lengths import l2_normalize as l2_normalize

name_scope = KerasNameScope

if not TYPE_CHECKING:  # who runs nothing takes all names by a star
    __all__ = sorted(
        name
        for name, value in globals().items()
        if name.islower() and not name.startswith("_") and callable(value)
    )
