"""Compiled sums over neighbours against the plain ones: the same to the last bit."""

import numpy as np
import pytest

from trainkit.core.tensor import PRIMITIVES
from trainkit.kernels.jit import array_kernel
from trainkit.kernels.reductions.neighbour_sums_tuned import neighbour_sums
from trainkit.ops.convolutional import local_response

plain = PRIMITIVES[local_response.channel_window_sums.primitive.name].body


def numbers(rng, shape):
    x = rng.normal(size=shape).astype("float32")
    x.flat[::11], x.flat[3::17], x.flat[5::19] = np.nan, -0.0, np.inf
    return x


@pytest.mark.parametrize("radius", [0, 1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("shape", [(3, 7), (2, 3, 17), (5, 4, 64), (1, 100), (9,)])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_sums_have_the_bits_of_the_plain_version(eager, rng, shape, radius):
    x = numbers(rng, shape)
    assert neighbour_sums(x, radius).tobytes() == plain(np, x, radius=radius).tobytes()
    turned = np.repeat(x, 2, axis=-1)[..., ::2]
    assert neighbour_sums(turned, radius).tobytes() == plain(np, x, radius=radius).tobytes()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_same_bits_by_one_thread_and_by_several(eager, rng, monkeypatch):
    x = numbers(rng, (4096, 64))
    several = neighbour_sums(x, 5)
    monkeypatch.setattr(array_kernel, "shared", lambda work: (0, 1))
    assert several.tobytes() == neighbour_sums(x, 5).tobytes()


def test_other_dtypes_and_no_rows_are_left_to_the_plain_version(eager):
    assert neighbour_sums(np.ones((2, 3)), 1) is None
    assert neighbour_sums(np.ones((2, 3), "int32"), 1) is None
    assert neighbour_sums(np.ones((0, 3), "float32"), 1) is None
