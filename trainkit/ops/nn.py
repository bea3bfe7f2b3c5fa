"""Neural-network operations under the names of `keras.ops.nn`, one line each."""

from trainkit.ops.arrays.creation import one_hot as one_hot
from trainkit.ops.arrays.rearranging import depth_to_space as depth_to_space
from trainkit.ops.arrays.rearranging import space_to_depth as space_to_depth
from trainkit.ops.convolutional.convolution import conv as conv
from trainkit.ops.convolutional.convolution import depthwise_conv as depthwise_conv
from trainkit.ops.convolutional.convolution import separable_conv as separable_conv
from trainkit.ops.convolutional.im2col import fold as fold
from trainkit.ops.convolutional.im2col import unfold as unfold
from trainkit.ops.convolutional.pooling import adaptive_average_pool as adaptive_average_pool
from trainkit.ops.convolutional.pooling import adaptive_max_pool as adaptive_max_pool
from trainkit.ops.convolutional.pooling import average_pool as average_pool
from trainkit.ops.convolutional.pooling import max_pool as max_pool
from trainkit.ops.convolutional.transposed_convolution import conv_transpose as conv_transpose
from trainkit.ops.math.complex_parts import polar as polar
from trainkit.ops.neural.activations import celu as celu
from trainkit.ops.neural.activations import elu as elu
from trainkit.ops.neural.activations import hard_shrink as hard_shrink
from trainkit.ops.neural.activations import hard_sigmoid as hard_sigmoid
from trainkit.ops.neural.activations import hard_tanh as hard_tanh
from trainkit.ops.neural.activations import leaky_relu as leaky_relu
from trainkit.ops.neural.activations import log_sigmoid as log_sigmoid
from trainkit.ops.neural.activations import relu as relu
from trainkit.ops.neural.activations import relu6 as relu6
from trainkit.ops.neural.activations import selu as selu
from trainkit.ops.neural.activations import sigmoid as sigmoid
from trainkit.ops.neural.activations import soft_shrink as soft_shrink
from trainkit.ops.neural.activations import softplus as softplus
from trainkit.ops.neural.activations import softsign as softsign
from trainkit.ops.neural.activations import sparse_plus as sparse_plus
from trainkit.ops.neural.activations import sparse_sigmoid as sparse_sigmoid
from trainkit.ops.neural.activations import squareplus as squareplus
from trainkit.ops.neural.activations import tanh_shrink as tanh_shrink
from trainkit.ops.neural.activations import threshold as threshold
from trainkit.ops.neural.attention import dot_product_attention as dot_product_attention
from trainkit.ops.neural.cross_entropy import binary_crossentropy as binary_crossentropy
from trainkit.ops.neural.cross_entropy import categorical_crossentropy as categorical_crossentropy
from trainkit.ops.neural.cross_entropy import multi_hot as multi_hot
from trainkit.ops.neural.cross_entropy import psnr as psnr
from trainkit.ops.neural.cross_entropy import (
    sparse_categorical_crossentropy as sparse_categorical_crossentropy,
)
from trainkit.ops.neural.ctc import ctc_loss as ctc_loss
from trainkit.ops.neural.ctc_decoding import ctc_decode as ctc_decode
from trainkit.ops.neural.gated_activations import gelu as gelu
from trainkit.ops.neural.gated_activations import hard_silu as hard_silu
from trainkit.ops.neural.gated_activations import hard_silu as hard_swish  # noqa: F401  (another name)
from trainkit.ops.neural.gated_activations import silu as silu
from trainkit.ops.neural.gated_activations import silu as swish  # noqa: F401  (another name)
from trainkit.ops.neural.normalization import batch_normalization as batch_normalization
from trainkit.ops.neural.normalization import layer_normalization as layer_normalization
from trainkit.ops.neural.normalization import moments as moments
from trainkit.ops.neural.normalization import normalize as normalize
from trainkit.ops.neural.normalization import rms_normalization as rms_normalization
from trainkit.ops.neural.softmax import glu as glu
from trainkit.ops.neural.softmax import log_softmax as log_softmax
from trainkit.ops.neural.softmax import softmax as softmax
from trainkit.ops.neural.softmax import sparsemax as sparsemax
