"""Shapes, joining and taking apart, repeating, mirroring and padding."""

import numpy as np

from tests.conformance.table import case, complex_normal, normal
from trainkit import ops
from trainkit.ops.arrays import (
    broadcasting,
    concat_and_split,
    conversion,
    pad_and_roll,
    shaping,
    tile_and_repeat,
)

TWO, THREE = np.array(2), np.array(3)


def joined(*xs, **settings):
    return ops.concatenate(xs, **settings)


def stacked(*xs, **settings):
    return ops.stack(xs, **settings)


def to_cpu(x):
    return broadcasting.copy_to_device(x, device="/cpu:0")


CASES = [
    case("reshape", ops.reshape, normal(2, 6), newshape=(3, -1)),
    case("ensure_shape", conversion._ensure_shape, normal(2, 6), shape=(None, 6)),
    case("reshape", ops.ravel, complex_normal(2, 3)),
    case("reshape_like", shaping._reshape_like, normal(2, 6), normal(3, 4)),
    case("transpose", ops.transpose, normal(2, 3, 4), axes=(2, 0, 1)),
    case("transpose", ops.transpose, complex_normal(2, 3)),
    case("transpose", ops.moveaxis, normal(2, 3, 4), source=(0, 1), destination=(-1, 0)),
    case("transpose", ops.swapaxes, normal(2, 3, 4), axis1=0, axis2=-1),
    case("expand_dims", ops.expand_dims, normal(2, 3), axis=(0, -1)),
    case("squeeze", ops.squeeze, normal(1, 3, 1), axis=-1),
    case("squeeze", ops.squeeze, normal(1, 3, 1)),
    case("broadcast_to", ops.broadcast_to, normal(3, 1), shape=(2, 3, 4)),
    case("copy_to_device", to_cpu, normal(2, 3)),
    case("copy_to_device_of", broadcasting.copy_to_device_of, normal(2, 3), np.ones(2, np.int32)),
    case("concatenate", joined, normal(2, 3), normal(2, 1), axis=1),
    case("concatenate", joined, complex_normal(2), complex_normal(3), axis=None),
    case(
        "split_like", concat_and_split.split_like, normal(5, 2), normal(2, 2), normal(3, 2), axis=0
    ),
    case("split", ops.split, normal(2, 6), indices_or_sections=3, axis=-1),
    case("split", ops.split, normal(6, 2), indices_or_sections=[1, 4]),
    case("split", ops.array_split, normal(5, 2), indices_or_sections=3),
    case("stack", stacked, normal(2, 3), normal(2, 3), axis=1),
    case("unstack", ops.unstack, normal(2, 3), axis=-1),
    case("tile", ops.tile, normal(2, 3), repeats=(2, 1, 3)),
    case("tile", ops.tile, normal(2, 3), repeats=2),
    case("tile_sum", tile_and_repeat.tile_sum, normal(2, 4, 3), repeats=(2, 2, 1), rank=2),
    case("repeat", ops.repeat, normal(2, 3), repeats=2),
    case("repeat", ops.repeat, normal(2, 3), repeats=(1, 0, 3), axis=1),
    case("repeat_sum", tile_and_repeat.repeat_sum, normal(2, 6), repeats=3, axis=-1),
    case("repeat_sum", tile_and_repeat.repeat_sum, normal(4, 2), repeats=(3, 0, 1), axis=0),
    case("flip", ops.flip, normal(2, 3), axis=(0, 1)),
    case("flip", ops.flip, normal(2, 3)),
    case("flip", ops.rot90, normal(2, 3), k=3),
    case("roll", ops.roll, normal(2, 3), shift=(1, -1), axis=(0, 1)),
    case("roll", ops.roll, normal(2, 3), shift=2),
    *(
        case("pad", ops.pad, normal(3, 4), pad_width=((1, 2), (0, 2)), mode=mode)
        for mode in ("constant", "reflect", "symmetric", "edge", "wrap")
    ),
    case("pad_sum", pad_and_roll.pad_sum, normal(4, 5), pad_width=((1, 0), (0, 2)), mode="reflect"),
    case(
        "pad_sum", pad_and_roll.pad_sum, normal(4, 5), pad_width=((1, 0), (0, 2)), mode="constant"
    ),
    case("reshape_sized", shaping.reshape_sized, normal(2, 6), THREE, shape=(None, -1)),
    case(
        "broadcast_to_sized", broadcasting.broadcast_to_sized, normal(3, 1), TWO, shape=(None, 3, 4)
    ),
    case("tile_sized", tile_and_repeat.tile_sized, normal(2, 3), TWO, repeats=(None, 2)),
    case(
        "tile_sum_sized",
        tile_and_repeat.tile_sum_sized,
        normal(4, 6),
        normal(2, 3),
        TWO,
        repeats=(None, 2),
    ),
]
