"""Vectors of float32 in LLVM's language: rows whose end is cut off."""

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from numba.core import types  # noqa: E402
from numba.extending import intrinsic  # noqa: E402

from trainkit.kernels.jit.options import compiled  # noqa: E402
from trainkit.kernels.jit.simd import Tile  # noqa: E402
from trainkit.kernels.jit.target import vector_lanes  # noqa: E402

ROWS, VECTORS = 3, 2


def _copier(lanes, is_cut):
    """A function that copies rows of `VECTORS * lanes` numbers, all of them or some."""

    @intrinsic
    def copy(typing, source, target, step, count):
        def codegen(context, builder, signature, arguments):
            source, target, step, count = arguments
            tile = Tile(builder, ROWS, VECTORS, lanes)
            values, addresses = [], []
            for row in range(ROWS):
                distance = builder.mul(tile.word(row), step)
                values += tile.weights(tile.plus(source, distance))
                at = tile.plus(target, distance)
                addresses += [tile.plus(at, v * tile.width) for v in range(VECTORS)]
            tile.store_rows(values, addresses, tile.masks(count) if is_cut else None)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 4), codegen

    @compiled(parallel=False)
    def run(source, target, step, count):
        copy(source, target, step, count)

    run.compile(types.void(*[types.intp] * 4))
    return run


@pytest.fixture(params=sorted({4, vector_lanes(), min(8, vector_lanes())}))
def lanes(request):
    return request.param


def test_rows_are_written_up_to_any_count_and_not_beyond(lanes, rng):
    run, width = _copier(lanes, is_cut=True), VECTORS * lanes
    source = rng.normal(size=(ROWS, width)).astype("float32")
    for count in range(width + 3):
        target = np.full((ROWS, width), -7, np.float32)
        run(source.ctypes.data, target.ctypes.data, 4 * width, count)
        expected = np.where(np.arange(width) < count, source, -7)
        np.testing.assert_array_equal(target, expected)


def test_without_masks_all_is_written(lanes, rng):
    run, width = _copier(lanes, is_cut=False), VECTORS * lanes
    source = rng.normal(size=(ROWS, width)).astype("float32")
    target = np.zeros_like(source)
    run(source.ctypes.data, target.ctypes.data, 4 * width, 0)
    np.testing.assert_array_equal(target, source)


@pytest.mark.skipif(vector_lanes() != 8, reason="other vectors have no slow masks")
def test_whole_vectors_are_stored_without_a_mask():
    (assembly,) = _copier(8, is_cut=True).inspect_asm().values()
    lines = assembly.splitlines()
    masked = [x for x in lines if "vmaskmovps" in x and x.rstrip().endswith(")")]
    plain = [x for x in lines if "vmovups" in x and x.rstrip().endswith(")") and "%ymm" in x]
    assert len(masked) == ROWS * VECTORS
    assert len(plain) >= ROWS * VECTORS
