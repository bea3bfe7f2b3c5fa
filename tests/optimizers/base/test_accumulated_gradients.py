"""Sums of gradients over the steps of a period, in which not every weight has a gradient."""

import numpy as np
import pytest

import trainkit as tk
from tests.optimizers.base.test_keras_step import KerasMomentum
from trainkit import optimizers
from trainkit.core.variable import OVERWRITTEN

OPTIMIZERS = {
    "sgd": lambda: optimizers.SGD(0.5, momentum=0.9, gradient_accumulation_steps=3),
    "decay": lambda: optimizers.AdamW(0.1, gradient_accumulation_steps=3),
    "joint norm": lambda: optimizers.Nadam(0.1, gradient_accumulation_steps=3, global_clipnorm=0.7),
    "average": lambda: optimizers.Adam(0.1, gradient_accumulation_steps=3, use_ema=True),
    "scaled": lambda: optimizers.LossScaleOptimizer(
        optimizers.Adam(0.1, gradient_accumulation_steps=3)
    ),
    "keras": lambda: KerasMomentum(0.1, gradient_accumulation_steps=3),
}
SIZES = (3, 4, 5, 2)
# which weights have a gradient; the last has none in any step of the first period
PRESENT = [(1, 1, 0, 0), (0, 1, 1, 0), (1, 0, 0, 0), (1, 0, 0, 1), (1, 1, 1, 0), (0, 0, 1, 0)]
# as far as a step of zeros goes: those of a weight that has a gradient in the period
ZEROS = [(1, 1, 1, 0)] * 3 + [(1, 1, 1, 1)] * 3

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*no gradient for"),
    pytest.mark.filterwarnings("ignore:.*is being traced for the 5th time"),
]


def run(name, steps=6, zeros=None, traced=False, resumed_after=None):
    """The values of weights and of the optimizer's variables after some steps."""
    rng = np.random.default_rng(0)
    weights = [tk.Variable(rng.normal(size=n).astype("f"), name=f"w{n}") for n in SIZES]
    weights[1].constraint = lambda x: tk.clip_by_norm(x, 0.5)
    all_grads = [[rng.normal(size=n).astype("f") for n in SIZES] for _ in range(steps)]

    def made():
        optimizer = OPTIMIZERS[name]()
        optimizer.build(weights)
        return optimizer, tk.function(lambda grads, o=optimizer: o.apply(grads, weights))

    optimizer, compiled = made()
    for i, values in enumerate(all_grads):
        grads = [tk.constant(g) if has else None for g, has in zip(values, PRESENT[i], strict=True)]
        if zeros is not None:
            is_zero = [z and g is None for z, g in zip(zeros[i], grads, strict=True)]
            grads = [tk.zeros(n) if z else g for n, z, g in zip(SIZES, is_zero, grads, strict=True)]
        compiled(grads) if traced else optimizer.apply(grads, weights)
        if i == resumed_after:
            store = {}
            optimizer.save_own_variables(store)
            optimizer, compiled = made()
            optimizer.load_own_variables(store)
    return [v.numpy() for v in (*weights, *optimizer.variables)]


def assert_equal(values, others):
    for x, y in zip(values, others, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_without_a_gradient_counts_as_one_of_zeros(name, traced):
    assert_equal(run(name, traced=traced), run(name, zeros=ZEROS, traced=traced))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_in_a_graph_it_is_the_same(name):
    assert_equal(run(name), run(name, traced=True))


@pytest.mark.parametrize("name", ["sgd", "average", "scaled"])
def test_a_run_that_goes_on_within_a_period_does_the_same(name):
    for step in (0, 1, 3):
        assert_equal(run(name), run(name, resumed_after=step))


@pytest.mark.parametrize("traced", [False, True])
def test_a_weight_without_any_gradient_in_a_period_stays(traced):
    before = run("decay", steps=0)[3]
    np.testing.assert_array_equal(run("decay", steps=3, traced=traced)[3], before)
    assert not np.array_equal(run("decay", steps=6, traced=traced)[3], before)


def test_by_hand():
    a, b = tk.Variable(0.0), tk.Variable(0.0)
    sgd = optimizers.SGD(1.0, gradient_accumulation_steps=2)
    sgd.apply([tk.constant(3.0), tk.constant(1.0)], [a, b])
    sgd.apply([None, tk.constant(2.0)], [a, b])
    assert (float(a), float(b)) == (-1.5, -1.5)
    # the sum has begun anew
    sgd.apply([tk.constant(1.0), None], [a, b])
    sgd.apply([tk.constant(1.0), tk.constant(1.0)], [a, b])
    assert (float(a), float(b)) == (-2.5, -2.0)


def test_a_weight_that_was_frozen_meanwhile_stays():
    a, b = tk.Variable(1.0), tk.Variable(1.0)
    sgd = optimizers.SGD(1.0, gradient_accumulation_steps=2)
    sgd.apply([tk.constant(3.0), tk.constant(1.0)], [a, b])
    a.trainable = False
    sgd.apply([tk.constant(1.0)], [b])
    assert (float(a), float(b)) == (1.0, 0.0)


@pytest.mark.parametrize("traced", [False, True])
def test_the_greatest_gradient_is_kept_where_a_weight_becomes_it(traced):
    scale, w = tk.Variable(0.5, name="scale"), tk.Variable(0.0, name="w")
    OVERWRITTEN[id(scale)] = scale
    sgd = optimizers.SGD(1.0, gradient_accumulation_steps=2)
    apply = tk.function(lambda grads: sgd.apply(grads, [scale, w])) if traced else None
    seen = []
    for g in (3.0, None, 1.0, 2.0, 1.0, 1.5):
        grads = [None if g is None else tk.constant(g), tk.constant(1.0)]
        apply(grads) if traced else sgd.apply(grads, [scale, w])
        seen.append(float(scale))
    assert seen == [0.5, 0.5, 0.5, 3.0, 3.0, 1.5]
