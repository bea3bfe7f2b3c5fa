"""Layers, one line each."""

from trainkit.core.names import explain_unknown_names as _explain_unknown_names
from trainkit.core.values.docstrings import describe_arguments as _describe_arguments
from trainkit.layers import experimental as experimental
from trainkit.layers import residual_branches as residual_branches
from trainkit.layers.activation import ELU as ELU
from trainkit.layers.activation import Activation as Activation
from trainkit.layers.activation import LeakyReLU as LeakyReLU
from trainkit.layers.activation import PReLU as PReLU
from trainkit.layers.activation import ReLU as ReLU
from trainkit.layers.activation import Softmax as Softmax
from trainkit.layers.activation import ThresholdedReLU as ThresholdedReLU
from trainkit.layers.attention.dot_product import AdditiveAttention as AdditiveAttention
from trainkit.layers.attention.dot_product import Attention as Attention
from trainkit.layers.attention.multi_head import GroupedQueryAttention as GroupedQueryAttention
from trainkit.layers.attention.multi_head import GroupQueryAttention as GroupQueryAttention
from trainkit.layers.attention.multi_head import MultiHeadAttention as MultiHeadAttention
from trainkit.layers.augmentation.affine import RandomRotation as RandomRotation
from trainkit.layers.augmentation.affine import RandomShear as RandomShear
from trainkit.layers.augmentation.affine import RandomTranslation as RandomTranslation
from trainkit.layers.augmentation.affine import RandomZoom as RandomZoom
from trainkit.layers.augmentation.filters import RandomGaussianBlur as RandomGaussianBlur
from trainkit.layers.augmentation.filters import RandomSharpness as RandomSharpness
from trainkit.layers.augmentation.flips_and_crops import RandomCrop as RandomCrop
from trainkit.layers.augmentation.flips_and_crops import RandomFlip as RandomFlip
from trainkit.layers.augmentation.histograms import (
    ContrastLimitedAdaptiveHistogramEqualization as ContrastLimitedAdaptiveHistogramEqualization,
)
from trainkit.layers.augmentation.histograms import Equalization as Equalization
from trainkit.layers.augmentation.hues import RandomColorDegeneration as RandomColorDegeneration
from trainkit.layers.augmentation.hues import RandomColorJitter as RandomColorJitter
from trainkit.layers.augmentation.hues import RandomGrayscale as RandomGrayscale
from trainkit.layers.augmentation.hues import RandomHue as RandomHue
from trainkit.layers.augmentation.hues import RandomSaturation as RandomSaturation
from trainkit.layers.augmentation.image_resizing import CenterCrop as CenterCrop
from trainkit.layers.augmentation.image_resizing import Resizing as Resizing
from trainkit.layers.augmentation.light import RandomBrightness as RandomBrightness
from trainkit.layers.augmentation.light import RandomContrast as RandomContrast
from trainkit.layers.augmentation.light import RandomInvert as RandomInvert
from trainkit.layers.augmentation.max_num_bounding_boxes import (
    MaxNumBoundingBoxes as MaxNumBoundingBoxes,
)
from trainkit.layers.augmentation.mixing import CutMix as CutMix
from trainkit.layers.augmentation.mixing import MixUp as MixUp
from trainkit.layers.augmentation.mixing import RandomErasing as RandomErasing
from trainkit.layers.augmentation.perspective import (
    RandomElasticTransform as RandomElasticTransform,
)
from trainkit.layers.augmentation.perspective import RandomPerspective as RandomPerspective
from trainkit.layers.augmentation.policies import AugMix as AugMix
from trainkit.layers.augmentation.policies import RandAugment as RandAugment
from trainkit.layers.augmentation.random_sizes import RandomHeight as RandomHeight
from trainkit.layers.augmentation.random_sizes import RandomWidth as RandomWidth
from trainkit.layers.augmentation.tones import AutoContrast as AutoContrast
from trainkit.layers.augmentation.tones import RandomPosterization as RandomPosterization
from trainkit.layers.augmentation.tones import Solarization as Solarization
from trainkit.layers.base.autocast import AutocastVariable as AutocastVariable
from trainkit.layers.base.config import deserialize as deserialize
from trainkit.layers.base.config import get as get
from trainkit.layers.base.config import serialize as serialize
from trainkit.layers.base.dtype_policy import DTypePolicy as DTypePolicy
from trainkit.layers.base.input_spec import InputSpec as InputSpec
from trainkit.layers.base.keras_tensor import Input as Input
from trainkit.layers.base.keras_tensor import KerasTensor as KerasTensor
from trainkit.layers.base.layer import Layer as Layer
from trainkit.layers.convolution import Conv1D as Conv1D
from trainkit.layers.convolution import Conv1DTranspose as Conv1DTranspose
from trainkit.layers.convolution import Conv2D as Conv2D
from trainkit.layers.convolution import Conv2DTranspose as Conv2DTranspose
from trainkit.layers.convolution import Conv3D as Conv3D
from trainkit.layers.convolution import Conv3DTranspose as Conv3DTranspose
from trainkit.layers.convolution import Convolution1D as Convolution1D
from trainkit.layers.convolution import Convolution1DTranspose as Convolution1DTranspose
from trainkit.layers.convolution import Convolution2D as Convolution2D
from trainkit.layers.convolution import Convolution2DTranspose as Convolution2DTranspose
from trainkit.layers.convolution import Convolution3D as Convolution3D
from trainkit.layers.convolution import Convolution3DTranspose as Convolution3DTranspose
from trainkit.layers.convolution import DepthwiseConv1D as DepthwiseConv1D
from trainkit.layers.convolution import DepthwiseConv2D as DepthwiseConv2D
from trainkit.layers.convolution import SeparableConv1D as SeparableConv1D
from trainkit.layers.convolution import SeparableConv2D as SeparableConv2D
from trainkit.layers.convolution import SeparableConvolution1D as SeparableConvolution1D
from trainkit.layers.convolution import SeparableConvolution2D as SeparableConvolution2D
from trainkit.layers.core import ActivityRegularization as ActivityRegularization
from trainkit.layers.core import Identity as Identity
from trainkit.layers.core import InputLayer as InputLayer
from trainkit.layers.core import Lambda as Lambda
from trainkit.layers.core import Masking as Masking
from trainkit.layers.dense import Dense as Dense
from trainkit.layers.dense import EinsumDense as EinsumDense
from trainkit.layers.dropout import AlphaDropout as AlphaDropout
from trainkit.layers.dropout import Dropout as Dropout
from trainkit.layers.dropout import GaussianDropout as GaussianDropout
from trainkit.layers.dropout import GaussianNoise as GaussianNoise
from trainkit.layers.dropout import SpatialDropout1D as SpatialDropout1D
from trainkit.layers.dropout import SpatialDropout2D as SpatialDropout2D
from trainkit.layers.dropout import SpatialDropout3D as SpatialDropout3D
from trainkit.layers.embedding import Embedding as Embedding
from trainkit.layers.embedding import ReversibleEmbedding as ReversibleEmbedding
from trainkit.layers.foreign import FlaxLayer as FlaxLayer
from trainkit.layers.foreign import JaxLayer as JaxLayer
from trainkit.layers.foreign import TorchModuleWrapper as TorchModuleWrapper
from trainkit.layers.merging import Add as Add
from trainkit.layers.merging import Average as Average
from trainkit.layers.merging import Concatenate as Concatenate
from trainkit.layers.merging import Dot as Dot
from trainkit.layers.merging import Maximum as Maximum
from trainkit.layers.merging import Minimum as Minimum
from trainkit.layers.merging import Multiply as Multiply
from trainkit.layers.merging import Subtract as Subtract
from trainkit.layers.merging import add as add
from trainkit.layers.merging import average as average
from trainkit.layers.merging import concatenate as concatenate
from trainkit.layers.merging import dot as dot
from trainkit.layers.merging import maximum as maximum
from trainkit.layers.merging import minimum as minimum
from trainkit.layers.merging import multiply as multiply
from trainkit.layers.merging import subtract as subtract
from trainkit.layers.normalization import BatchNormalization as BatchNormalization
from trainkit.layers.normalization import GroupNormalization as GroupNormalization
from trainkit.layers.normalization import LayerNormalization as LayerNormalization
from trainkit.layers.normalization import RMSNormalization as RMSNormalization
from trainkit.layers.normalization import UnitNormalization as UnitNormalization
from trainkit.layers.pooling import AdaptiveAveragePooling1D as AdaptiveAveragePooling1D
from trainkit.layers.pooling import AdaptiveAveragePooling2D as AdaptiveAveragePooling2D
from trainkit.layers.pooling import AdaptiveAveragePooling3D as AdaptiveAveragePooling3D
from trainkit.layers.pooling import AdaptiveMaxPooling1D as AdaptiveMaxPooling1D
from trainkit.layers.pooling import AdaptiveMaxPooling2D as AdaptiveMaxPooling2D
from trainkit.layers.pooling import AdaptiveMaxPooling3D as AdaptiveMaxPooling3D
from trainkit.layers.pooling import AveragePooling1D as AveragePooling1D
from trainkit.layers.pooling import AveragePooling2D as AveragePooling2D
from trainkit.layers.pooling import AveragePooling3D as AveragePooling3D
from trainkit.layers.pooling import AvgPool1D as AvgPool1D
from trainkit.layers.pooling import AvgPool2D as AvgPool2D
from trainkit.layers.pooling import AvgPool3D as AvgPool3D
from trainkit.layers.pooling import GlobalAveragePooling1D as GlobalAveragePooling1D
from trainkit.layers.pooling import GlobalAveragePooling2D as GlobalAveragePooling2D
from trainkit.layers.pooling import GlobalAveragePooling3D as GlobalAveragePooling3D
from trainkit.layers.pooling import GlobalAvgPool1D as GlobalAvgPool1D
from trainkit.layers.pooling import GlobalAvgPool2D as GlobalAvgPool2D
from trainkit.layers.pooling import GlobalAvgPool3D as GlobalAvgPool3D
from trainkit.layers.pooling import GlobalMaxPool1D as GlobalMaxPool1D
from trainkit.layers.pooling import GlobalMaxPool2D as GlobalMaxPool2D
from trainkit.layers.pooling import GlobalMaxPool3D as GlobalMaxPool3D
from trainkit.layers.pooling import GlobalMaxPooling1D as GlobalMaxPooling1D
from trainkit.layers.pooling import GlobalMaxPooling2D as GlobalMaxPooling2D
from trainkit.layers.pooling import GlobalMaxPooling3D as GlobalMaxPooling3D
from trainkit.layers.pooling import MaxPool1D as MaxPool1D
from trainkit.layers.pooling import MaxPool2D as MaxPool2D
from trainkit.layers.pooling import MaxPool3D as MaxPool3D
from trainkit.layers.pooling import MaxPooling1D as MaxPooling1D
from trainkit.layers.pooling import MaxPooling2D as MaxPooling2D
from trainkit.layers.pooling import MaxPooling3D as MaxPooling3D
from trainkit.layers.preprocessing.categorical import CategoryEncoding as CategoryEncoding
from trainkit.layers.preprocessing.categorical import Discretization as Discretization
from trainkit.layers.preprocessing.feature_normalization import Normalization as Normalization
from trainkit.layers.preprocessing.feature_normalization import Rescaling as Rescaling
from trainkit.layers.preprocessing.hashing import HashedCrossing as HashedCrossing
from trainkit.layers.preprocessing.hashing import Hashing as Hashing
from trainkit.layers.preprocessing.layer_pipeline import Pipeline as Pipeline
from trainkit.layers.preprocessing.lookup import IntegerLookup as IntegerLookup
from trainkit.layers.preprocessing.lookup import StringLookup as StringLookup
from trainkit.layers.preprocessing.spectrograms import MelSpectrogram as MelSpectrogram
from trainkit.layers.preprocessing.spectrograms import STFTSpectrogram as STFTSpectrogram
from trainkit.layers.preprocessing.text_vectorization import TextVectorization as TextVectorization
from trainkit.layers.reshaping import Cropping1D as Cropping1D
from trainkit.layers.reshaping import Cropping2D as Cropping2D
from trainkit.layers.reshaping import Cropping3D as Cropping3D
from trainkit.layers.reshaping import Flatten as Flatten
from trainkit.layers.reshaping import Permute as Permute
from trainkit.layers.reshaping import RepeatVector as RepeatVector
from trainkit.layers.reshaping import Reshape as Reshape
from trainkit.layers.reshaping import UpSampling1D as UpSampling1D
from trainkit.layers.reshaping import UpSampling2D as UpSampling2D
from trainkit.layers.reshaping import UpSampling3D as UpSampling3D
from trainkit.layers.reshaping import ZeroPadding1D as ZeroPadding1D
from trainkit.layers.reshaping import ZeroPadding2D as ZeroPadding2D
from trainkit.layers.reshaping import ZeroPadding3D as ZeroPadding3D
from trainkit.layers.rnn.bidirectional import Bidirectional as Bidirectional
from trainkit.layers.rnn.cells import GRUCell as GRUCell
from trainkit.layers.rnn.cells import LSTMCell as LSTMCell
from trainkit.layers.rnn.cells import SimpleRNNCell as SimpleRNNCell
from trainkit.layers.rnn.cells import StackedRNNCells as StackedRNNCells
from trainkit.layers.rnn.conv_lstm import ConvLSTM1D as ConvLSTM1D
from trainkit.layers.rnn.conv_lstm import ConvLSTM2D as ConvLSTM2D
from trainkit.layers.rnn.conv_lstm import ConvLSTM3D as ConvLSTM3D
from trainkit.layers.rnn.recurrent_layers import GRU as GRU
from trainkit.layers.rnn.recurrent_layers import LSTM as LSTM
from trainkit.layers.rnn.recurrent_layers import SimpleRNN as SimpleRNN
from trainkit.layers.rnn.rnn import RNN as RNN
from trainkit.layers.rnn.time_distributed import TimeDistributed as TimeDistributed
from trainkit.layers.rnn.time_distributed import Wrapper as Wrapper
from trainkit.layers.saved_model_layer import TFSMLayer as TFSMLayer
from trainkit.layers.spectral_normalization import SpectralNormalization as SpectralNormalization
from trainkit.layers.ternary_dense import TernaryDense as TernaryDense

_describe_arguments(
    globals(),
    """
    fill_mode: what comes in from outside: `"reflect"`, `"constant"`, `"wrap"`, `"nearest"` or
        `"mirror"`.
    interpolation: `"bilinear"` or `"nearest"`.
    seed: int, by default derived from `set_seed`.
    fill_value: the value outside in mode `"constant"`.
    data_format: `"channels_last"` (the default) or `"channels_first"`.
    value_range: the least and greatest value of a pixel.
    use_bias: whether to add a bias.
    activity_regularizer: penalty on the output.
    quantization_config: a `QuantizationConfig`, for a quantized `dtype`.
    sparse: must be false: there are only dense tensors.
    """,
)

_explain_unknown_names(globals())
