"""Calls that mean the same to TensorFlow 2 and to trainkit: name, arguments, settings.

A row runs on either; `record_values.py` stores what TensorFlow gives.
"""

import operator
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Case:
    name: str
    args: tuple
    settings: dict = field(default_factory=dict)
    wrt: int | None = None
    rtol: float = 2e-5
    atol: float = 2e-6
    note: str = ""

    @property
    def id(self) -> str:
        return self.name + (f"-{self.note}" if self.note else "")


def case(name: str, *args: Any, wrt=None, note="", rtol=2e-5, atol=2e-6, **settings: Any) -> Case:
    """`wrt`: also the gradient of the sum of the first result by this argument."""
    return Case(name, args, settings, wrt, rtol, atol, note)


def normal(*shape, seed=0, dtype="float32"):
    return np.random.RandomState(seed).normal(size=shape).astype(dtype).round(3)


def uniform(low, high, *shape, seed=0, dtype="float32"):
    return np.random.RandomState(seed).uniform(low, high, shape).astype(dtype).round(3)


def integers(low, high, *shape, seed=0, dtype="int32"):
    return np.random.RandomState(seed).randint(low, high, shape).astype(dtype)


def run_case(library, row: Case):
    """The results of a row, and the gradient where one is asked for."""
    function = operator.attrgetter(row.name)(library)
    args = [library.constant(a) if isinstance(a, np.ndarray) else a for a in row.args]
    if row.wrt is None:
        return function(*args, **row.settings)
    with library.GradientTape() as tape:
        tape.watch(args[row.wrt])
        result = function(*args, **row.settings)
        first = result[0] if isinstance(result, tuple | list) else result
        total = library.reduce_sum(first * weights_like(first))
    return result, tape.gradient(total, args[row.wrt])


def weights_like(x):
    """Numbers of the shape of `x`, so that no gradient cancels."""
    count = int(np.prod(tuple(x.shape), dtype=int))
    return np.cos(np.arange(count)).reshape(tuple(x.shape)).astype(x.dtype.as_numpy_dtype)


def result_arrays(result) -> list:
    """All arrays of a nested result, in order."""
    if isinstance(result, tuple | list):
        return [array for item in result for array in result_arrays(item)]
    if result is None:
        return []
    return [np.asarray(result)]


IMAGE = uniform(0, 1, 2, 6, 5, 3)
PIXELS = integers(0, 256, 2, 6, 5, 3, dtype="uint8")
SYMMETRIC = (lambda a: a @ a.swapaxes(-1, -2) + 3 * np.eye(4))(normal(2, 4, 4, dtype="float64"))
SQUARE = normal(2, 4, 4, seed=3, dtype="float64")

MATH = [
    case("math.igamma", uniform(0.2, 5, 7), uniform(0, 6, 7, seed=1), wrt=1),
    case("math.igammac", uniform(0.2, 5, 7), uniform(0, 6, 7, seed=1), wrt=1),
    case("math.betainc", uniform(0.2, 5, 7), uniform(0.2, 5, 7, seed=2), uniform(0.02, 0.98, 7)),
    case("math.bessel_i0", normal(5), wrt=0),
    case("math.bessel_i1e", normal(5), wrt=0),
    case("math.special.bessel_i0e", normal(5), wrt=0),
    case("math.erfcinv", uniform(0.1, 1.9, 5)),
    case("math.softsign", normal(5), wrt=0),
    case("math.reciprocal_no_nan", np.array([2.0, 0.0, -0.5], "float32"), wrt=0),
    case("math.rint", np.array([0.5, 1.5, -0.5, 2.4], "float32")),
    case("math.invert_permutation", np.array([3, 1, 0, 2], "int32")),
    case("math.is_non_decreasing", np.array([1, 1, 2], "int32"), note="true"),
    case("math.is_non_decreasing", np.array([1, 0, 2], "int32"), note="false"),
    case("math.is_strictly_increasing", np.array([1, 1, 2], "int32")),
    case("math.polyval", [2.0, -1.0, 3.0], normal(4), wrt=1),
    case("math.unsorted_segment_sqrt_n", normal(5, 2), np.array([0, 2, 0, 2, 2]), 4, wrt=0),
    case("histogram_fixed_width", normal(30), [-1.0, 1.5], nbins=7),
    case("histogram_fixed_width_bins", normal(30), [-1.0, 1.5], nbins=7),
    case("dynamic_partition", normal(5, 2), np.array([1, 0, 2, 1, 1], "int32"), 4),
    case("dynamic_stitch", [np.array([0, 3]), np.array([[1, 0]])], [normal(2, 2), normal(1, 2, 2)]),
    case("unique_with_counts", np.array([3, 1, 3, 7, 1, 3], "int32")),
]
NN = [
    case("nn.space_to_depth", normal(2, 4, 6, 3), 2, wrt=0),
    case("nn.depth_to_space", normal(2, 2, 3, 8), 2, wrt=0),
    case("nn.space_to_batch", normal(2, 3, 5, 2), [2, 3], [[1, 0], [0, 1]], wrt=0),
    case("batch_to_space", normal(12, 2, 2, 2), [2, 3], [[1, 0], [0, 1]], wrt=0),
    case("nn.conv1d_transpose", normal(2, 4, 3), normal(3, 2, 3, seed=1), [2, 8, 2], 2, wrt=0),
    case(
        "nn.conv1d_transpose",
        normal(2, 4, 3),
        normal(3, 2, 3, seed=1),
        [2, 7, 2],
        2,
        wrt=1,
        note="odd",
    ),
    case(
        "nn.conv1d_transpose",
        normal(2, 4, 3),
        normal(3, 2, 3, seed=1),
        [2, 10, 2],
        2,
        "VALID",
        note="valid",
    ),
    case(
        "nn.conv2d_transpose",
        normal(2, 3, 4, 3),
        normal(2, 3, 2, 3, seed=1),
        [2, 5, 8, 2],
        2,
        wrt=0,
    ),
    case(
        "nn.conv2d_transpose",
        normal(2, 3, 4, 3),
        normal(1, 1, 2, 3, seed=1),
        [2, 6, 8, 2],
        2,
        note="window-below-stride",
    ),
    case(
        "nn.conv3d_transpose",
        normal(1, 2, 3, 2, 3),
        normal(2, 3, 2, 2, 3, seed=1),
        [1, 4, 6, 4, 2],
        2,
        wrt=1,
    ),
    case("nn.conv_transpose", normal(2, 3, 4, 3), normal(2, 3, 2, 3, seed=1), [2, 6, 8, 2], 2),
    case("nn.atrous_conv2d", normal(2, 7, 6, 3), normal(2, 3, 3, 2, seed=1), 2, "SAME", wrt=0),
    case(
        "nn.atrous_conv2d_transpose",
        normal(2, 7, 6, 2),
        normal(2, 3, 3, 2, seed=1),
        [2, 7, 6, 3],
        2,
        "SAME",
    ),
    case(
        "nn.dilation2d",
        normal(2, 6, 5, 2),
        normal(2, 3, 2, seed=1),
        [1, 2, 1, 1],
        "SAME",
        "NHWC",
        [1, 1, 2, 1],
        wrt=0,
    ),
    case(
        "nn.erosion2d",
        normal(2, 6, 5, 2),
        normal(2, 3, 2, seed=1),
        [1, 1, 1, 1],
        "VALID",
        "NHWC",
        [1, 1, 1, 1],
        wrt=1,
    ),
    case("nn.max_pool_with_argmax", normal(2, 5, 6, 3), 2, 2, "SAME", wrt=0),
    case(
        "nn.max_pool_with_argmax",
        normal(2, 5, 6, 3),
        3,
        1,
        "VALID",
        include_batch_in_index=True,
        note="batch",
    ),
    case("nn.pool", normal(2, 6, 5, 3), [2, 3], "MAX", [1, 2], "SAME", wrt=0),
    case("nn.pool", normal(2, 6, 3), [2], "AVG", note="1d"),
    case("nn.local_response_normalization", normal(2, 3, 3, 9), 2, 1.5, 0.7, 0.4, wrt=0),
    case("nn.weighted_moments", normal(4, 3), [0], uniform(0, 2, 4, 1), wrt=0),
    case("nn.sufficient_statistics", normal(4, 3), [0], 0.5),
    case("nn.normalize_moments", np.float32(4), normal(3), uniform(3, 5, 3), 0.5),
    case(
        "nn.batch_norm_with_global_normalization",
        normal(2, 3, 3, 4),
        normal(4),
        uniform(1, 2, 4),
        normal(4, seed=2),
        normal(4, seed=4),
        0.01,
        True,
    ),
]
LINALG = [
    case("linalg.lu", SQUARE, rtol=1e-9),
    case(
        "linalg.lu_solve",
        np.asarray(np.tril(SQUARE) + 4 * np.eye(4) + np.triu(SQUARE)),
        np.array([[1, 0, 3, 2], [0, 2, 1, 3]], "int32"),
        normal(2, 4, 3, dtype="float64"),
    ),
    case("linalg.lu_reconstruct", SQUARE, np.array([[1, 0, 3, 2], [0, 2, 1, 3]], "int32")),
    case(
        "linalg.lu_matrix_inverse",
        SQUARE + 4 * np.eye(4),
        np.array([[1, 0, 3, 2], [0, 2, 1, 3]], "int32"),
    ),
    case("linalg.sqrtm", SYMMETRIC, wrt=0, rtol=1e-8),
    case("linalg.logm", SYMMETRIC.astype("complex128"), rtol=1e-8),
    case("linalg.tridiagonal_matmul", normal(2, 3, 5), normal(2, 5, 2, seed=1), wrt=0),
    case(
        "linalg.tridiagonal_solve",
        normal(2, 3, 5, dtype="float64") + np.array([[0], [4], [0]]),
        normal(2, 5, 2, seed=1, dtype="float64"),
        wrt=0,
    ),
    case(
        "linalg.tridiagonal_solve",
        SYMMETRIC[0] * np.tri(4, k=1) * np.tri(4, k=1).T,
        normal(4, dtype="float64"),
        diagonals_format="matrix",
        note="matrix",
    ),
    case("linalg.eigh_tridiagonal", normal(5), normal(4, seed=1)),
    case(
        "linalg.eigh_tridiagonal",
        normal(5),
        normal(4, seed=1),
        select="i",
        select_range=(1, 3),
        note="some",
    ),
    case("linalg.banded_triangular_solve", uniform(1, 2, 2, 2, 4), normal(2, 4, 3), wrt=0),
    case(
        "linalg.banded_triangular_solve",
        uniform(1, 2, 2, 2, 4),
        normal(2, 4, 3),
        lower=False,
        note="upper",
    ),
]
BOXES = np.array(
    [
        [0, 0, 1, 1],
        [0, 0.1, 1, 1.1],
        [0, -0.1, 1, 0.9],
        [0, 10, 1, 11],
        [0, 10.1, 1, 11.1],
        [1, 100.9, 0, 100],
    ],
    "float32",
)
SCORES = np.array([0.9, 0.75, 0.6, 0.95, 0.5, 0.3], "float32")
CROPS = np.array([[0.1, 0.2, 0.8, 0.9], [0.9, 0.1, -0.2, 1.3], [0.3, 0.3, 0.3, 0.3]], "float32")
IMAGES = [
    case("image.adjust_brightness", IMAGE, 0.2),
    case("image.adjust_brightness", PIXELS, 0.2, note="uint8"),
    case("image.adjust_contrast", IMAGE, 1.7),
    case("image.adjust_contrast", PIXELS, 1.7, note="uint8"),
    case("image.adjust_gamma", IMAGE, 1.7, 0.9, wrt=0),
    case("image.adjust_gamma", PIXELS, 0.6, note="uint8"),
    case("image.adjust_hue", IMAGE, 0.3, rtol=2e-4, atol=2e-5),
    case("image.adjust_hue", PIXELS, -0.2, note="uint8", atol=1),
    case("image.adjust_saturation", IMAGE, 1.6, rtol=2e-4, atol=2e-5),
    case("image.adjust_saturation", PIXELS, 0.3, note="uint8", atol=1),
    case("image.convert_image_dtype", PIXELS, "uint16"),
    case("image.convert_image_dtype", PIXELS, "int32", note="int32"),
    case("image.convert_image_dtype", np.array([[-5, 2**30]], "int32"), "uint8", True, note="cut"),
    case(
        "image.convert_image_dtype",
        np.array([[-0.5, 0.3, 2]], "float32"),
        "uint8",
        True,
        note="saturate",
    ),
    case("image.rgb_to_yiq", IMAGE, wrt=0),
    case("image.rgb_to_yuv", IMAGE, wrt=0),
    case("image.yiq_to_rgb", IMAGE - 0.4),
    case("image.yuv_to_rgb", IMAGE - 0.4),
    case("image.resize_with_crop_or_pad", IMAGE, 3, 9),
    case("image.resize_with_crop_or_pad", IMAGE[0], 9, 2, note="single"),
    case("image.resize_with_pad", IMAGE, 8, 12),
    case("image.resize_with_pad", IMAGE[0], 4, 3, "nearest", note="single"),
    case("image.crop_and_resize", IMAGE, CROPS, np.array([0, 1, 1], "int32"), [4, 3], wrt=0),
    case(
        "image.crop_and_resize",
        IMAGE,
        CROPS,
        np.array([0, 1, 1], "int32"),
        [4, 3],
        wrt=1,
        note="boxes",
        rtol=1e-3,
        atol=1e-4,
    ),
    case(
        "image.crop_and_resize",
        IMAGE,
        CROPS,
        np.array([0, 1, 1], "int32"),
        [1, 4],
        "nearest",
        0.7,
        note="nearest",
    ),
    case("image.sobel_edges", IMAGE, wrt=0),
    case("image.image_gradients", IMAGE),
    case("image.total_variation", IMAGE, wrt=0),
    case("image.total_variation", IMAGE[0], note="single"),
    case(
        "image.ssim", uniform(0, 1, 2, 14, 12, 3), uniform(0, 1, 2, 14, 12, 3, seed=1), 1.0, wrt=0
    ),
    case(
        "image.ssim",
        integers(0, 256, 12, 12, 1, dtype="uint8"),
        integers(0, 256, 12, 12, 1, seed=1, dtype="uint8"),
        255,
        filter_size=4,
        note="uint8",
    ),
    case(
        "image.ssim",
        uniform(0, 1, 2, 14, 12, 3),
        uniform(0, 1, 2, 14, 12, 3, seed=1),
        1.0,
        return_index_map=True,
        note="map",
    ),
    case(
        "image.ssim_multiscale",
        uniform(0, 1, 1, 21, 18, 2),
        uniform(0, 1, 1, 21, 18, 2) * 0.8 + 0.1,
        1.0,
        (0.3, 0.5),
        7,
    ),
    case("image.non_max_suppression", BOXES, SCORES, 3),
    case("image.non_max_suppression", BOXES, SCORES, 9, 0.9, 0.4, note="thresholds"),
    case("image.non_max_suppression_with_scores", BOXES, SCORES, 6, 0.9, 0.1, 0.5),
    case("image.non_max_suppression_overlaps", uniform(0, 1, 6, 6), SCORES, 4, 0.6),
    case("image.non_max_suppression_padded", BOXES, SCORES, 5, pad_to_max_output_size=True),
    case(
        "image.draw_bounding_boxes",
        IMAGE,
        np.array([[[0.1, 0.2, 0.7, 0.9], [-0.5, 0, 0.4, 2]]] * 2, "float32"),
        np.array([[1, 0, 0], [0, 0.5, 1]], "float32"),
    ),
    case(
        "image.draw_bounding_boxes",
        IMAGE,
        np.array([[[0.1, 0.2, 0.7, 0.9], [-0.5, 0, 0.4, 2]]] * 2, "float32"),
        None,
        note="colors",
    ),
]
WAVES = normal(2, 37)
SIGNALS = [
    case("signal.fft", normal(2, 5).astype("complex64")),
    case("signal.ifft2d", normal(2, 5, 4).astype("complex64")),
    case("signal.fft3d", normal(2, 3, 4).astype("complex64")),
    case("signal.rfft", normal(2, 7), [6], note="cut"),
    case("signal.rfft", normal(2, 7)),
    case("signal.irfft", normal(2, 5).astype("complex64")),
    case("signal.rfft2d", normal(2, 4, 7), [5, 6]),
    case("signal.irfft2d", normal(2, 4, 5).astype("complex64"), [4, 7]),
    case("signal.rfft3d", normal(3, 4, 7)),
    case("signal.irfft3d", normal(3, 4, 5).astype("complex64")),
    case("signal.fftshift", normal(3, 4), [1]),
    case("signal.ifftshift", normal(3, 5)),
    case("signal.dct", normal(2, 6), 1, note="1"),
    case("signal.dct", normal(2, 6), wrt=0),
    case("signal.dct", normal(2, 6), 3, 8, note="3"),
    case("signal.dct", normal(2, 6), 2, norm="ortho", note="2-ortho"),
    case("signal.dct", normal(2, 6), 3, norm="ortho", note="3-ortho"),
    case("signal.dct", normal(2, 6), 4, norm="ortho", note="4-ortho"),
    case("signal.idct", normal(2, 6)),
    case("signal.hann_window", 6),
    case("signal.hann_window", 5, note="odd"),
    case("signal.hamming_window", 6, periodic=False),
    case("signal.kaiser_window", 7, 5.0),
    case("signal.vorbis_window", 6),
    case("signal.frame", WAVES, 8, 5, wrt=0),
    case("signal.frame", WAVES, 8, 5, True, 1.5, note="end"),
    case("signal.frame", normal(9, 2), 3, 2, axis=0, note="axis"),
    case("signal.overlap_and_add", normal(2, 4, 6), 2, wrt=0),
    case("signal.stft", WAVES, 8, 4, atol=1e-5),
    case("signal.stft", WAVES, 10, 4, 16, pad_end=True, note="end", atol=1e-5),
    case("signal.inverse_stft", normal(2, 4, 5).astype("complex64"), 8, 4),
    case("signal.linear_to_mel_weight_matrix", 6, 33, 8000, 80.0, 3800.0, atol=1e-5),
    case("signal.mfccs_from_log_mel_spectrograms", normal(2, 3, 6)),
]
CTC = [
    case(
        "nn.ctc_loss",
        np.array([[1, 2, 2], [3, 1, 0]], "int32"),
        normal(8, 2, 5),
        np.array([3, 2], "int32"),
        np.array([8, 6], "int32"),
        wrt=1,
        blank_index=0,
    ),
    case(
        "nn.ctc_loss",
        np.array([[1, 2, 2], [3, 1, 0]], "int32"),
        normal(2, 8, 5),
        np.array([3, 2], "int32"),
        np.array([8, 6], "int32"),
        False,
        None,
        -1,
        note="last",
    ),
    case(
        "nn.collapse_repeated",
        np.array([[1, 1, 2, 2, 1], [3, 3, 3, 0, 0]], "int32"),
        np.array([5, 3], "int32"),
    ),
]
OTHERS = [
    case("bitcast", normal(2, 3), "int32"),
    case("bitcast", normal(2, 3), "uint8", note="smaller"),
    case("bitcast", integers(0, 9, 3, 4, dtype="uint8"), "int32", note="larger"),
    case("truncatediv", np.array([7, -7, 7, -7], "int32"), np.array([2, 2, -2, -2], "int32")),
    case("truncatemod", np.array([7, -7, 7, -7], "int32"), np.array([2, 2, -2, -2], "int32")),
    case("realdiv", normal(3), normal(3, seed=1), wrt=1),
    case("broadcast_dynamic_shape", np.array([3, 1], "int32"), np.array([2, 1, 4], "int32")),
    case("shape_n", [normal(2, 3), normal(4)]),
    case("required_space_to_batch_paddings", [5, 6], [2, 4]),
]
CASES = MATH + NN + LINALG + IMAGES + SIGNALS + CTC + OTHERS
