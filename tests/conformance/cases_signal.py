"""Fourier transforms, sliding windows, images."""

import numpy as np

from tests.conformance.table import between, case, complex_normal, distinct, normal
from trainkit import ops
from trainkit.ops.images import patches
from trainkit.ops.math import differences
from trainkit.ops.signal import fourier, stft

PATCH = {"size": (2, 2), "strides": (1, 2), "dilation": (2, 1)}
TURN = np.array([1.02, 0.21, -0.93, 0.13, 0.93, 0.52, 0.013, 0.021])
CORNERS = np.array([[0.0, 0.0], [0.0, 3.0], [4.0, 0.0], [4.0, 3.0]])


def pair(op):
    """`op` of a pair of real and imaginary parts."""
    return lambda re, im, **settings: op((re, im), **settings)


def resized(images, **settings):
    return ops.image.resize(images, **settings)


def between_pixels(images, coordinates):
    return ops.image.map_coordinates(images, coordinates, 1)


CASES = [
    case("fft", fourier.complex_fft, complex_normal(2, 5)),
    case("fft", fourier.complex_fft, complex_normal(2, 3, 4), rank=2),
    case("fft", pair(ops.fft), normal(2, 4), normal(2, 4)),
    case("ifft", fourier.complex_ifft, complex_normal(2, 5)),
    case("ifft", pair(ops.ifft2), normal(3, 4), normal(3, 4)),
    case("fft_transposed", fourier.fft_transposed, complex_normal(2, 5), rank=1),
    case("ifft_transposed", fourier.ifft_transposed, complex_normal(2, 3), rank=2),
    *(case("rfft", ops.rfft, normal(2, n)) for n in (1, 2, 5, 6)),
    case("rfft", ops.rfft, normal(2, 5), fft_length=8),
    *(
        case("irfft", fourier.complex_irfft, complex_normal(2, n // 2 + 1), fft_length=n)
        for n in (5, 6)
    ),
    case("rfft_transposed", fourier.rfft_transposed, complex_normal(2, 3), normal(2, 5)),
    case("rfft_transposed", fourier.rfft_transposed, complex_normal(2, 4), normal(2, 6)),
    case("irfft_transposed", fourier.irfft_transposed, normal(2, 6), n=6),
    case("irfft_transposed", fourier.irfft_transposed, normal(2, 5), n=5),
    case(
        "extract_sequences",
        ops.extract_sequences,
        normal(2, 8),
        sequence_length=3,
        sequence_stride=2,
    ),
    case(
        "extract_sequences", ops.extract_sequences, normal(9), sequence_length=2, sequence_stride=3
    ),
    case("sequences_sum", stft.sequences_sum, normal(2, 3, 3), normal(2, 8), stride=2),
    case("overlap_add", ops.overlap_add, normal(2, 4, 3), stride=2),
    case("rfft", ops.stft, normal(12), sequence_length=4, sequence_stride=2, fft_length=4),
    case(
        "overlap_add",
        pair(ops.istft),
        normal(5, 3),
        normal(5, 3),
        sequence_length=4,
        sequence_stride=2,
        fft_length=4,
    ),
    case("sliding_product", differences.sliding_product, normal(6), normal(3)),
    case("sliding_product", ops.correlate, complex_normal(4), complex_normal(6), mode="same"),
    case("subtract", ops.diff, normal(2, 5), n=2),
    case("stack", ops.cross, normal(2, 3), normal(2, 2)),
    case("extract_patches", ops.image.extract_patches, normal(1, 4, 5, 2), size=2, strides=1),
    case("extract_patches", patches._patches, normal(1, 4, 5, 2), **PATCH),
    case("patches_sum", patches.patches_sum, normal(1, 2, 2, 8), normal(1, 4, 5, 2), **PATCH),
    case("weighted_pixels", resized, normal(1, 3, 4, 2), size=(5, 3)),
    case(
        "weighted_pixels",
        resized,
        normal(3, 4, 1),
        size=(2, 6),
        interpolation="bicubic",
        antialias=True,
    ),
    case("take", resized, normal(1, 3, 4, 1), size=(5, 3), interpolation="nearest"),
    case("take", ops.image.affine_transform, between(0, 1, 2, 3, 4, 1), TURN),
    case(
        "solve",
        ops.image.perspective_transform,
        between(0, 1, 4, 5, 1),
        CORNERS,
        CORNERS * 0.93 + 0.17,
    ),
    case("take", between_pixels, normal(4, 5), between(1, 2, 2, 6)),
    case("multiply", ops.image.gaussian_blur, normal(4, 5, 1), kernel_size=(3, 2)),
    case("multiply", ops.image.ssim, between(0, 1, 5, 5, 1), between(0, 1, 5, 5, 1), filter_size=3),
    case("divide", ops.image.rgb_to_hsv, distinct(2, 2, 3) * 0.4 + 0.5, tolerance=1e-6),
    case("multiply", ops.image.hsv_to_rgb, distinct(2, 2, 3) * 0.3 + 0.41),
]
