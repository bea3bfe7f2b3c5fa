"""Many arrays copied at a time on a GPU."""

import numpy as np
import pytest

from tests.stand_in.kernels import has_compiler
from trainkit.core.devices import parse
from trainkit.kernels.concat.copies_cuda import Copies
from trainkit.kernels.cuda import pointer_table

pytestmark = [
    pytest.mark.skipif(not has_compiler(), reason="no g++ for this machine is here"),
    pytest.mark.usefixtures("any_gpu"),
]
SHAPES = [(3, 5), (), (0, 4), (7,), (pointer_table.PIECE,), (2, pointer_table.PIECE + 3), (1,)]
DTYPES = ["float32", "int8", "float64", "bool", "complex128", "float16"]


def made(xp, rng, count):
    arrays = []
    for k in range(count):
        values = rng.integers(0, 100, SHAPES[k % len(SHAPES)])
        arrays.append(xp.asarray(values.astype(DTYPES[k % len(DTYPES)])))
    return arrays


@pytest.mark.parametrize("count", [0, 1, 2, len(SHAPES) * len(DTYPES), 3 * pointer_table.MOST])
def test_each_array_comes_to_its_place(count, rng):
    xp = parse("/gpu:0").xp
    copies = Copies(xp, made(xp, rng, count))
    for _ in range(2):
        sources = made(xp, rng, count)
        targets = [xp.zeros(x.shape, x.dtype) for x in sources]
        copies(sources, targets)
        for source, target in zip(sources, targets, strict=True):
            np.testing.assert_array_equal(target.get(), source.get())


def test_sources_may_lie_anywhere_and_in_any_order(rng):
    xp = parse("/gpu:0").xp
    table = xp.asarray(rng.integers(0, 100, (40, 50)).astype(np.int8))
    sources = [table.T, table[1:, 3:], table.reshape(-1)[5:1000], table[::2]]
    targets = [xp.zeros(x.shape, x.dtype) for x in sources]
    Copies(xp, sources)(sources, targets)
    for source, target in zip(sources, targets, strict=True):
        np.testing.assert_array_equal(target.get(), source.get())
