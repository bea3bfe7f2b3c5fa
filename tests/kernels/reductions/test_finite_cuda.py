"""Whether all of many arrays is finite, on a GPU by one launch."""

import numpy as np
import pytest

import trainkit as tk
from tests.stand_in.kernels import has_compiler
from trainkit.kernels.cuda import pointer_table
from trainkit.kernels.reductions import finite_cuda
from trainkit.ops.math.finiteness import all_finite

pytestmark = pytest.mark.skipif(not has_compiler(), reason="no g++ for this machine is here")
DTYPES = ["float16", "bfloat16", "float32", "float64"]
SIZES = [(1,), (7,), (33, 5), (pointer_table.PIECE + 3,), ()]


def filled(dtype, sizes=SIZES):
    limits = tk.as_dtype(dtype)
    some = np.array([0.0, -0.0, 1.5, float(limits.max), float(limits.min), 1e-8])
    numpy_dtype = limits.as_numpy_dtype
    return [np.resize(some, size).astype(numpy_dtype) for size in sizes]


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_place_is_looked_at(device, dtype):
    with tk.device(device):
        arrays = filled(dtype)
        assert bool(all_finite(*map(tk.constant, arrays)))
        for k, array in enumerate(arrays):
            places = {0, 1, 2, 3, 4, 5, 6, array.size // 2, array.size - 2, array.size - 1}
            for place in sorted(p for p in places if 0 <= p < array.size):
                for value in (np.nan, -np.inf, np.inf):
                    spoilt = array.copy()
                    spoilt.reshape(-1)[place] = value
                    given = [*arrays[:k], spoilt, *arrays[k + 1 :]]
                    assert not bool(all_finite(*map(tk.constant, given)))


@pytest.mark.parametrize("bad", [None, 0, 130, 299])
def test_many_arrays_of_several_dtypes(device, bad):
    with tk.device(device):
        arrays = [np.full(k % 5, 2.0, DTYPES[k % 2 * 2]) for k in range(300)]
        if bad is not None:
            arrays[bad] = np.array([1.0, np.inf], "float32")
        found = all_finite(*map(tk.constant, arrays))
        assert (found.dtype, found.shape, bool(found)) == ("bool", [], bad is None)


def test_views_turned_arrays_and_nothing(device):
    with tk.device(device):
        x = np.ones((6, 8), "float32")
        x[0, 0] = x[:, 1] = np.inf
        t = tk.constant(x)
        assert not bool(all_finite(tk.transpose(t)))
        assert bool(all_finite(tk.transpose(t)[2:]))
        assert bool(all_finite(t[1:, 2:], t[::2, 3::2]))
        assert not bool(all_finite(t[::2, 3::2], t[1:, ::-1]))
        assert bool(all_finite(tk.zeros([0, 4])))


def test_values_beside_floats_of_a_gpu(any_gpu):
    with tk.device("/cpu:0"):
        here = tk.constant([1.0, 2.0]), tk.constant([1.0, np.nan])
    there = tk.constant([3.0, 4.0])
    assert bool(all_finite(here[0], there))
    assert not bool(all_finite(here[1], there))
    assert not bool(all_finite(tk.constant([1.0, np.inf]), here[0]))
    assert bool(all_finite(tk.constant([1, 2]), there))


def test_without_a_compiler_arrays_are_asked_one_by_one(inside, monkeypatch):
    monkeypatch.setattr(finite_cuda.RawKernel, "is_there", lambda self, xp: False)
    assert bool(all_finite(tk.ones((3,)), tk.zeros((2, 2))))
    assert not bool(all_finite(tk.ones((3,)), tk.constant([np.nan])))


@pytest.mark.parametrize("policy", ["mixed_float16", "float32"])
@pytest.mark.parametrize("layers", [2, 12])
def test_a_step_with_a_loss_scale_is_captured_whatever_the_number_of_weights(
    inside, layers, policy
):
    tk.random.set_seed(1)
    model = tk.Sequential(
        [tk.layers.Dense(4, activation="tanh", dtype=policy) for _ in range(layers)]
    )
    rule = tk.optimizers.LossScaleOptimizer(tk.optimizers.Adam(0.01), initial_scale=8.0)

    def step(x):
        with tk.GradientTape() as tape:
            y = tk.cast(model(x), "float32")
            loss = rule.scale_loss(tk.reduce_mean(y * y))
        weights = model.trainable_variables
        rule.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    x = tk.constant(np.ones((2, 4), "float32"))
    model(x)
    function = tk.function(step)
    losses = [float(function(x)) for _ in range(8)]
    assert losses[-1] < losses[0]
    assert "4 replays of 1 CUDA graph" in function.explain()
    before = [w.numpy() for w in model.weights]
    function(tk.constant(np.full((2, 4), np.inf, "float32")))
    for a, b in zip(before, model.weights, strict=True):
        np.testing.assert_array_equal(a, b.numpy())
    assert float(rule.dynamic_scale) == 4.0
