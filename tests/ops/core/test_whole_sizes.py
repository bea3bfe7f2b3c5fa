"""Sizes, counts and bounds of loops with a fraction are refused, and not cut off."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.core.errors import InvalidArgumentError

IMAGE = np.ones((1, 6, 6, 3), "float32")
ROWS = np.ones((3, 4), "float32")


def counted(lower, upper):
    return ops.fori_loop(lower, upper, lambda i, n: n + 1, tk.constant(0))


FRACTIONS = {
    "zeros": lambda: ops.zeros((2.5,)),
    "ones": lambda: tk.ones([2.5]),
    "full": lambda: ops.full((1.5, 2), 1.0),
    "tri": lambda: ops.tri(2.5),
    "a weight": lambda: tk.layers.Layer().add_weight(shape=(2.5,)),
    "resize": lambda: ops.image.resize(IMAGE, (2.5, 3)),
    "crop": lambda: ops.image.crop_images(IMAGE, 1.5, 1, target_height=2, target_width=2),
    "frame": lambda: ops.image.pad_images(IMAGE, 1, 1, target_height=8.5, target_width=8),
    "draws": lambda: tk.random.categorical(ROWS, 1.5),
    "argpartition": lambda: ops.argpartition(ROWS, 1.5),
    "loop": lambda: counted(0, 2.5),
    "loop from": lambda: counted(0.5, 2),
    "traced loop": lambda: tk.function(lambda: counted(0, 2.5))(),
}


@pytest.mark.parametrize("name", FRACTIONS)
def test_fractions_are_no_sizes(name):
    with pytest.raises(InvalidArgumentError, match=r"whole numbers?, got \d?\.?\d"):
        FRACTIONS[name]()


def test_whole_numbers_of_all_kinds_are():
    assert ops.zeros((np.int64(2), tk.constant(3))).shape == (2, 3)
    assert ops.image.resize(IMAGE, tk.constant([2, 3])).shape == (1, 2, 3, 3)
    assert int(counted(np.int32(1), tk.constant(3))) == 2
    assert int(tk.function(counted)(tk.constant(1), tk.constant(3))) == 2
    cropped = ops.image.crop_images(IMAGE, np.int64(1), 1, target_height=2, target_width=2)
    assert cropped.shape == (1, 2, 2, 3)
