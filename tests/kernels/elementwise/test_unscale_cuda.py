"""Gradients of a scaled loss are unscaled by one launch in an eager step on a GPU."""

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from tests.stand_in.kernels import has_compiler
from trainkit.kernels.cuda import pointer_table
from trainkit.kernels.elementwise import unscale_cuda

pytestmark = pytest.mark.skipif(not has_compiler(), reason="no g++ for this machine is here")
SHAPES = [(), (5,), (3, 4), (0,), (pointer_table.PIECE + 3,), (7, 2, 2)]


@pytest.fixture
def launches(kernel_names):
    with stand_in.in_place():
        yield kernel_names


def stepped(device, bad=None, dtype="float32", steps=3):
    """Weights, scale and counter after some steps, one of which has a gradient that is `bad`."""
    rng = np.random.default_rng(0)
    with tk.device(device):
        rule = tk.optimizers.LossScaleOptimizer(tk.optimizers.SGD(0.1), initial_scale=8.0)
        weights = [tk.Variable(rng.normal(size=s).astype(dtype)) for s in SHAPES]
        for step in range(steps):
            grads = [rng.normal(size=s).astype(dtype) for s in SHAPES]
            if bad is not None and step == 1:
                grads[2][1, 1] = bad
            grads[2] = np.ascontiguousarray(grads[2].T).T
            rule.apply([tk.constant(g) for g in grads], weights)
        return [w.numpy() for w in weights], float(rule.dynamic_scale), int(rule.step_counter)


@pytest.mark.parametrize("bad", [None, np.inf, -np.inf, np.nan])
def test_weights_scale_and_counter_are_those_of_the_cpu(launches, bad):
    weights, *numbers = stepped("/gpu:0", bad)
    assert launches.count("unscaled") == 3
    assert not any(name.startswith("all_finite") for name in launches)
    same, *other = stepped("/cpu:0", bad)
    assert numbers == other
    for a, b in zip(weights, same, strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_overflows_by_the_division_counts_as_not_finite(launches):
    with tk.device("/gpu:0"):
        rule = tk.optimizers.LossScaleOptimizer(tk.optimizers.SGD(0.1), initial_scale=2.0**-20)
        weight = tk.Variable([1.0, 2.0])
        rule.apply([tk.constant([1e38, 1.0])], [weight])
        assert weight.numpy().tolist() == [1.0, 2.0]
        assert float(rule.dynamic_scale) == 2.0**-21


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_dtypes_go_one_by_one(launches, dtype):
    weights, *_ = stepped("/gpu:0", dtype=dtype)
    assert "unscaled" not in launches
    for a, b in zip(weights, stepped("/cpu:0", dtype=dtype)[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3)


def test_without_a_compiler_it_goes_one_by_one(launches, monkeypatch):
    monkeypatch.setattr(unscale_cuda.RawKernel, "is_there", lambda self, xp: False)
    weights, *_ = stepped("/gpu:0")
    assert launches == []
    for a, b in zip(weights, stepped("/cpu:0")[0], strict=True):
        np.testing.assert_array_equal(a, b)
