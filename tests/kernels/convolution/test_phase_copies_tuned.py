"""Images copied to their phases and back: by compiled kernels and by NumPy, to the bit."""

import ml_dtypes
import numpy as np
import pytest

from trainkit.kernels.convolution.phase_copies_tuned import image_to_phases, phases_to_image

CASES = [  # sizes of images and zeros before them
    ((8, 8), (0, 0)),
    ((7, 9), (0, 0)),
    ((6, 9), (1, 1)),
    ((5, 4), (1, 0)),
    ((1, 1), (0, 1)),
    ((2, 1), (1, 0)),
]


def phases_by_slices(x, start, sizes):
    padded = np.zeros((len(x), 2 * sizes[0], 2 * sizes[1], x.shape[-1]), x.dtype)
    padded[:, start[0] : start[0] + x.shape[1], start[1] : start[1] + x.shape[2]] = x
    return np.concatenate([padded[:, r::2, s::2] for r in (0, 1) for s in (0, 1)], -1)


@pytest.mark.parametrize("dtype", ["float32", ml_dtypes.bfloat16])
@pytest.mark.parametrize("channels", [1, 2, 5, 16, 33])
@pytest.mark.parametrize(("sizes", "start"), CASES)
def test_phases_are_slices_with_strides_and_go_back(mode, rng, dtype, channels, sizes, start):
    x = rng.normal(size=(3, *sizes, channels)).astype(dtype)
    x[0, 0, 0, 0] = -0.0
    x[-1, -1, -1, -1] = np.nan
    halves = tuple(-(-(n + s) // 2) for n, s in zip(sizes, start, strict=True))
    phases = image_to_phases(x, start, halves)
    expected = phases_by_slices(x, start, halves)
    assert phases.dtype == x.dtype
    assert phases.tobytes() == expected.tobytes()
    assert phases_to_image(phases, start, sizes).tobytes() == x.tobytes()


def test_arrays_in_another_order_or_read_only_are_taken(mode, rng):
    x = rng.normal(size=(2, 6, 7, 4)).astype("float32")
    expected = phases_by_slices(x, (0, 1), (3, 4))
    x.flags.writeable = False
    for same in (x, np.asfortranarray(x)):
        np.testing.assert_array_equal(image_to_phases(same, (0, 1), (3, 4)), expected)


def test_large_images_are_shared_out(mode, rng):
    x = rng.normal(size=(4, 65, 66, 24)).astype("float32")
    phases = image_to_phases(x, (1, 0), (33, 33))
    np.testing.assert_array_equal(phases, phases_by_slices(x, (1, 0), (33, 33)))
    np.testing.assert_array_equal(phases_to_image(phases, (1, 0), (65, 66)), x)
