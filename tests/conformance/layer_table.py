"""One row per layer: how to make it, and what goes in."""

import atexit
import dataclasses
import functools
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit import keras, layers


@dataclasses.dataclass
class Row:
    """A layer and an input.

    Attributes:
        name: of the class.
        make: function of keyword arguments for the base (dtype, name) that gives the layer.
        inputs: function of a NumPy generator that gives the first argument of a call.
        call: keyword arguments of the call.
        more: functions for further positional arguments.
        gradient: whether the output is checked against central differences.
        training: whether that is done in training mode as well.
        shape: whether the layer finds its output shape from the first argument's.
    """

    name: str
    make: Callable[..., Any]
    inputs: Callable[[np.random.Generator], Any]
    call: dict[str, Any] = dataclasses.field(default_factory=dict)
    more: tuple[Callable[[np.random.Generator], Any], ...] = ()
    gradient: bool = True
    training: bool = False
    shape: bool = True


def normal(*shape):
    return lambda rng: rng.normal(size=shape)


def away_from_zero(*shape):
    """Numbers at which kinks at 0 do no harm."""

    def draw(rng):
        x = rng.normal(size=shape)
        return x + 0.2 * np.sign(x)

    return draw


def distinct(*shape):
    """Numbers far enough apart that no maximum changes hands."""
    return lambda rng: rng.permutation(np.linspace(-2, 2, int(np.prod(shape)))).reshape(shape)


def ints(high, *shape):
    return lambda rng: rng.integers(0, high, shape).astype("int32")


def words(*shape):
    return lambda rng: rng.choice(np.array(["a", "b", "z"], object), shape)


def several(*draws):
    return lambda rng: [draw(rng) for draw in draws]


def exported(**base):
    """A layer over a folder with an embedding of nine rows in it."""
    return L.TFSMLayer(folder(), **base)


@functools.cache
def folder():
    path = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, path)
    table = keras.Sequential([keras.Input((4,), dtype="int32"), L.Embedding(9, 5)])
    table.export(path, verbose=False)
    return path


def row(
    kind,
    inputs,
    *args,
    name=None,
    call=None,
    more=(),
    gradient=True,
    training=False,
    shape=True,
    **settings,
):
    """A row for a class that is called with `args` and `settings`."""

    def make(**base):
        return kind(*args, **settings, **base)

    return Row(name or kind.__name__, make, inputs, call or {}, more, gradient, training, shape)


def wrapped(kind, inputs, inside, **settings):
    """A row for a layer around another, which gets the same dtype."""

    def make(**base):
        dtype = {k: v for k, v in base.items() if k == "dtype"}
        made = inside(**dtype)
        return kind(made, **settings.get("own", {}), **base)

    return Row(kind.__name__, make, inputs, training=settings.get("training", False))


def boxes_along(rng):
    """Two images with two boxes each."""
    boxes = rng.uniform(0, 5, (2, 2, 4))
    return {
        "images": rng.normal(size=(2, 6, 5, 2)),
        "bounding_boxes": {"boxes": boxes, "labels": rng.integers(0, 3, (2, 2))},
    }


def pipeline(dtype=None, **base):
    """Two layers in a pipeline, which has no dtype of its own."""
    return layers.Pipeline(
        [layers.CenterCrop(3, 4, dtype=dtype), layers.RandomBrightness(0.2, dtype=dtype)], **base
    )


L = layers
OFF = {"training": False}
sequence = normal(2, 4, 3)
image = normal(2, 6, 5, 2)
photo = normal(2, 6, 5, 3)
volume = normal(2, 4, 3, 5, 2)
distinct_sequence = distinct(2, 5, 3)
distinct_image = distinct(2, 6, 5, 2)
distinct_volume = distinct(2, 4, 3, 4, 2)
two = several(normal(2, 3), normal(2, 3))
cells = {"dropout": 0.0}

ROWS = [
    row(L.Dense, normal(3, 4), 2, activation="tanh", training=True),
    row(L.Dense, normal(3, 2, 4), 2, use_bias=False),
    row(L.EinsumDense, sequence, "abc,cd->abd", (None, 2), bias_axes="d"),
    row(L.TernaryDense, normal(3, 4), 2, activation="tanh", gradient=False),
    row(L.Embedding, ints(5, 3, 2), 5, 3, gradient=False),
    row(L.ReversibleEmbedding, normal(2, 3), 5, 3, call={"reverse": True}, shape=False),
    row(L.InputLayer, normal(3, 4), (4,), gradient=False),
    row(L.Identity, normal(3, 4)),
    row(L.Masking, sequence),
    row(L.ActivityRegularization, normal(3, 4), l1=0.1, l2=0.2),
    row(L.Activation, normal(3, 4), "softplus"),
    row(L.ReLU, away_from_zero(3, 4), negative_slope=0.1),
    row(L.LeakyReLU, away_from_zero(3, 4)),
    row(L.ThresholdedReLU, away_from_zero(3, 4), 0.1),
    row(L.PReLU, away_from_zero(3, 4), alpha_initializer="ones"),
    row(L.ELU, away_from_zero(3, 4), alpha=0.5),
    row(L.Softmax, normal(3, 4)),
    row(L.Conv1D, sequence, 2, 2, padding="causal"),
    row(L.Conv2D, image, 4, 3, strides=2, padding="same", groups=2),
    row(L.Conv3D, volume, 2, 2),
    row(L.Conv1DTranspose, sequence, 2, 3, strides=2),
    row(L.Conv2DTranspose, image, 2, 3, strides=2, padding="same"),
    row(L.Conv3DTranspose, volume, 2, 2),
    row(L.DepthwiseConv1D, sequence, 2, depth_multiplier=2),
    row(L.DepthwiseConv2D, image, 3),
    row(L.SeparableConv1D, sequence, 2, 2),
    row(L.SeparableConv2D, image, 3, 2, depth_multiplier=2),
    row(L.MaxPooling1D, distinct_sequence),
    row(L.MaxPooling2D, distinct_image, 2, strides=1, padding="same"),
    row(L.MaxPooling3D, distinct_volume),
    row(L.AveragePooling1D, sequence),
    row(L.AveragePooling2D, image, 3, padding="same"),
    row(L.AveragePooling3D, volume),
    row(L.GlobalMaxPooling1D, distinct_sequence),
    row(L.GlobalMaxPooling2D, distinct_image),
    row(L.GlobalMaxPooling3D, distinct_volume),
    row(L.GlobalAveragePooling1D, sequence),
    row(L.GlobalAveragePooling2D, image, keepdims=True),
    row(L.GlobalAveragePooling3D, volume),
    row(L.AdaptiveAveragePooling1D, sequence, 2),
    row(L.AdaptiveAveragePooling2D, image, 2),
    row(L.AdaptiveAveragePooling3D, volume, 2),
    row(L.AdaptiveMaxPooling1D, distinct_sequence, 2),
    row(L.AdaptiveMaxPooling2D, distinct_image, 2),
    row(L.AdaptiveMaxPooling3D, distinct_volume, 2),
    row(L.Flatten, sequence),
    row(L.Reshape, sequence, (6, -1)),
    row(L.Permute, sequence, (2, 1)),
    row(L.RepeatVector, normal(2, 3), 4),
    row(L.ZeroPadding1D, sequence, (1, 2)),
    row(L.ZeroPadding2D, image, ((1, 0), (0, 2))),
    row(L.ZeroPadding3D, volume),
    row(L.Cropping1D, sequence, (1, 2)),
    row(L.Cropping2D, image, ((1, 0), (0, 2))),
    row(L.Cropping3D, volume, (1, 0, 1)),
    row(L.UpSampling1D, sequence),
    row(L.UpSampling2D, image, (2, 3)),
    row(L.UpSampling3D, volume),
    row(L.Dropout, normal(3, 4), 0.4),
    row(L.SpatialDropout1D, sequence, 0.4),
    row(L.SpatialDropout2D, image, 0.4),
    row(L.SpatialDropout3D, volume, 0.4),
    row(L.GaussianNoise, normal(3, 4), 0.4),
    row(L.GaussianDropout, normal(3, 4), 0.4),
    row(L.AlphaDropout, normal(3, 4), 0.4),
    row(L.BatchNormalization, normal(6, 4), momentum=0.7, training=True),
    row(L.LayerNormalization, sequence, training=True),
    row(L.RMSNormalization, sequence),
    row(L.UnitNormalization, sequence),
    row(L.GroupNormalization, normal(2, 3, 6), groups=3),
    row(L.Add, two),
    row(L.Subtract, two),
    row(L.Multiply, two),
    row(L.Average, two),
    row(L.Maximum, two),
    row(L.Minimum, two),
    row(L.Concatenate, several(normal(2, 3), normal(2, 2))),
    row(L.Dot, several(normal(2, 3, 4), normal(2, 4, 5)), (2, 1), normalize=True),
    row(L.SimpleRNNCell, normal(2, 3), 4, more=(several(normal(2, 4)),), shape=False),
    row(L.GRUCell, normal(2, 3), 4, more=(several(normal(2, 4)),), shape=False),
    row(L.LSTMCell, normal(2, 3), 4, more=(several(normal(2, 4), normal(2, 4)),), shape=False),
    Row(
        "StackedRNNCells",
        lambda **base: L.StackedRNNCells(
            [L.GRUCell(3, **_dtype(base)), L.SimpleRNNCell(2, **_dtype(base))], **base
        ),
        normal(2, 3),
        more=(several(normal(2, 3), normal(2, 2)),),
        shape=False,
    ),
    wrapped(L.RNN, sequence, lambda **base: L.GRUCell(2, **base)),
    row(L.SimpleRNN, sequence, 2, return_sequences=True, training=True),
    row(L.GRU, sequence, 2, go_backwards=True),
    row(L.GRU, sequence, 2, reset_after=False, return_sequences=True),
    row(L.LSTM, sequence, 2, return_state=True),
    row(L.LSTM, sequence, 2, return_sequences=True, training=True),
    wrapped(L.Bidirectional, sequence, lambda **base: L.LSTM(2, return_sequences=True, **base)),
    row(L.ConvLSTM1D, normal(2, 3, 5, 2), 2, 2),
    row(L.ConvLSTM2D, normal(2, 3, 4, 3, 2), 2, 2, padding="same", return_sequences=True),
    row(L.ConvLSTM3D, normal(1, 2, 3, 3, 2, 1), 1, 2),
    wrapped(L.TimeDistributed, sequence, lambda **base: L.Dense(2, **base)),
    wrapped(L.Wrapper, sequence, lambda **base: L.Dense(2, **base)),
    wrapped(L.SpectralNormalization, normal(3, 4), lambda **base: L.Dense(2, **base)),
    row(L.Attention, several(normal(2, 3, 4), normal(2, 5, 4)), use_scale=True),
    row(L.AdditiveAttention, several(normal(2, 3, 4), normal(2, 5, 4))),
    row(L.MultiHeadAttention, normal(2, 3, 4), 2, 3, more=(normal(2, 5, 4),), shape=False),
    row(L.GroupedQueryAttention, normal(2, 3, 4), 2, 4, 2, more=(normal(2, 5, 4),), shape=False),
    row(L.IntegerLookup, ints(4, 3, 2), vocabulary=[0, 2], output_mode="count", gradient=False),
    row(L.Hashing, words(3, 2), 5, output_mode="count", gradient=False),
    row(L.HashedCrossing, several(words(3, 1), words(3, 1)), 5, gradient=False),
    row(L.StringLookup, words(3, 2), vocabulary=["a", "b"], gradient=False),
    row(
        L.TextVectorization,
        words(3, 1),
        vocabulary=["a", "b"],
        output_sequence_length=3,
        gradient=False,
    ),
    row(L.CategoryEncoding, ints(4, 3, 2), 4, gradient=False),
    row(L.Discretization, normal(3, 2), [-1.0, 0.0, 1.0], gradient=False),
    row(L.Normalization, normal(3, 4), mean=[0.5] * 4, variance=[2.0] * 4),
    row(L.Normalization, normal(3, 4), axis=None),
    row(L.Rescaling, normal(3, 4), 0.5, offset=1.0),
    row(L.Resizing, image, 4, 4, gradient=False),
    row(L.CenterCrop, image, 3, 4),
    row(L.RandomFlip, image, seed=1, call=OFF),
    row(L.RandomTranslation, image, 0.2, 0.1, seed=1, call=OFF),
    row(L.RandomRotation, image, 0.2, seed=1, call=OFF),
    row(L.RandomZoom, image, 0.2, seed=1, call=OFF),
    row(L.RandomHeight, image, 0.2, seed=1, call=OFF, shape=False),
    row(L.RandomWidth, image, 0.2, seed=1, call=OFF, shape=False),
    row(L.RandomShear, image, 0.2, 0.1, seed=1, call=OFF),
    row(L.RandomPerspective, image, 0.5, seed=1, call=OFF),
    row(L.RandomElasticTransform, image, 0.5, seed=1, call=OFF),
    row(L.RandomCrop, image, 3, 4, seed=1, call=OFF, shape=False),
    row(L.RandomContrast, image, 0.2, seed=1, call=OFF),
    row(L.RandomBrightness, image, 0.2, seed=1, call=OFF),
    row(L.RandomInvert, image, 0.5, seed=1, call=OFF),
    row(L.RandomSharpness, image, 0.5, seed=1, call=OFF),
    row(L.RandomGaussianBlur, image, 0.5, seed=1, call=OFF),
    row(L.RandomHue, photo, 0.5, seed=1, call=OFF),
    row(L.RandomSaturation, photo, 0.5, seed=1, call=OFF),
    row(L.RandomGrayscale, photo, 0.5, seed=1, call=OFF),
    row(L.RandomColorDegeneration, photo, 0.5, seed=1, call=OFF),
    row(L.RandomColorJitter, photo, (0, 1), 0.1, 0.1, 0.1, 0.1, seed=1, call=OFF),
    row(L.RandomPosterization, photo, (1, 8), (0, 1), seed=1, call=OFF),
    row(L.Solarization, photo, 0.5, 0.5, (0, 1), seed=1, call=OFF),
    row(L.RandomErasing, image, seed=1, call=OFF),
    row(L.CutMix, image, seed=1, call=OFF),
    row(L.MixUp, image, seed=1, call=OFF),
    row(L.AugMix, photo, (0, 1), seed=1, call=OFF),
    row(L.RandAugment, photo, (0, 1), seed=1, call=OFF),
    row(L.AutoContrast, image, (-3, 3), gradient=False),
    row(L.Equalization, image, (-3, 3), gradient=False),
    row(L.ContrastLimitedAdaptiveHistogramEqualization, image, (-3, 3), 2.0, 2, gradient=False),
    row(L.MaxNumBoundingBoxes, image, 3),
    row(
        L.MaxNumBoundingBoxes,
        boxes_along,
        3,
        bounding_box_format="xyxy",
        gradient=False,
        shape=False,
    ),
    row(L.STFTSpectrogram, normal(2, 40, 2), "magnitude", 16, 8),
    row(L.MelSpectrogram, normal(2, 200), 64, 32, num_mel_bins=6, min_freq=100.0),
    Row("Pipeline", pipeline, image, call=OFF),
    Row("TFSMLayer", exported, ints(9, 3, 4), gradient=False, shape=False),
    Row("Lambda", lambda **base: L.Lambda(double, **base), normal(3, 4)),
]


def _dtype(base):
    return {k: v for k, v in base.items() if k == "dtype"}


def double(x):
    return x * 2.0
