"""Counting numbers: a kernel of a GPU beside the CPU."""

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from tests.stand_in import cuda_on_cpu
from trainkit.core.errors import InvalidArgumentError
from trainkit.kernels.indexing import bins_cuda
from trainkit.kernels.threads import pools

pytestmark = pytest.mark.skipif(
    not cuda_on_cpu.has_compiler(), reason="no g++ for this machine is here"
)

KERNELS = [(bins_cuda.counted_bins, dtype, w) for dtype in bins_cuda.INTEGERS for w in (0, 1)]
SETTINGS = [
    {},
    {"minlength": 40},
    {"maxlength": 5},
    {"minlength": 9, "maxlength": 9},
    {"minlength": 3, "maxlength": 5, "binary_output": True},
    {"minlength": 30, "maxlength": 30},
]
SHAPES = [(0,), (1,), (700,), (4, 900), (3, 0)]
FIXED = {"minlength": 6, "maxlength": 6}


def on_both(function, *arrays):
    found = []
    for name in ("/cpu:0", "/gpu:0"):
        with tk.device(name):
            found.append(function(*map(tk.constant, arrays)).numpy())
    return found


@pytest.fixture(params=[False, True], ids=["any order", "in order"])
def order(request):
    pools.determine(request.param)
    yield
    pools.determine(False)


@pytest.mark.usefixtures("any_gpu", "order")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_counts_are_those_of_the_cpu(dtype, settings, shape, rng):
    numbers = rng.integers(0, 20, shape).astype(dtype)
    settings = {**settings, "axis": -1}
    here, there = on_both(lambda x: tk.math.bincount(x, **settings), numbers)
    assert (here.dtype, here.shape) == (there.dtype, there.shape)
    np.testing.assert_array_equal(there, here)
    for kind in ("float32", "float64", "int32"):
        weights = rng.integers(-9, 9, shape).astype(kind)
        here, there = on_both(lambda x, w: tk.math.bincount(x, w, **settings), numbers, weights)
        assert (here.dtype, here.shape) == (there.dtype, there.shape)
        np.testing.assert_array_equal(there, here)


@pytest.mark.usefixtures("any_gpu")
def test_a_negative_number_raises_where_numbers_are_waited_for():
    with tk.device("/gpu:0"):
        x = tk.constant([1, -2, 3])
        with pytest.raises(InvalidArgumentError, match="negative value -2"):
            tk.math.bincount(x)
        np.testing.assert_array_equal(tk.math.bincount(x, **FIXED), [0, 1, 0, 1, 0, 0])


@pytest.mark.parametrize("dtype", ["int8", "uint64"])
def test_numbers_beyond_the_greatest_length_are_left_out(dtype):
    x = np.array([100, 2, 2, 6, 5], dtype)
    np.testing.assert_array_equal(tk.math.bincount(x, **FIXED), [0, 0, 2, 0, 0, 1])
    np.testing.assert_array_equal(tk.math.bincount(x, maxlength=3), [0, 0, 2])


def test_a_graph_knows_the_shape_beforehand():
    x = tk.constant([3, 3, 9])
    f = tk.function(lambda x: tk.math.bincount(x, **FIXED) * 2)
    np.testing.assert_array_equal(f(x), [0, 0, 0, 4, 0, 0])
    assert f.get_concrete_function(x).structured_outputs.shape == (6,)


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize(
    ("settings", "waits"),
    [(FIXED, 0), ({"minlength": 6}, 1), ({}, 1)],
    ids=["length known", "least length known", "any length"],
)
def test_a_count_waits_once_at_most(settings, waits):
    x, weights = tk.constant([[1, 2], [4, 4]]), tk.ones((2, 2))
    for given in ((x,), (x, weights)):
        with stand_in.transfers.noted() as ledger:
            tk.math.bincount(*given, **settings, axis=-1)
        assert len(ledger.to_host) == waits, ledger.to_host
        assert not ledger.to_device


@pytest.mark.usefixtures("inside")
def test_a_histogram_waits_for_nothing():
    x = tk.constant([0.0, 0.5, 1.5, 9.0])
    with stand_in.transfers.noted() as ledger:
        counts = tk.histogram_fixed_width(x, [0.0, 2.0], nbins=2)
    assert not ledger.to_host
    np.testing.assert_array_equal(counts.numpy(), [2, 2])
