"""Training with `mixed_bfloat16` on the CPU: losses beside float32, and bits of eager steps."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.kernels.jit import bfloat16_pairs

pytestmark = pytest.mark.usefixtures("on_cpu")

STEPS, BATCH, FEATURES, CLASSES = 50, 64, 128, 10
MOST_APART = 0.01
"""Of losses of 50 steps: PyTorch's autocast to bfloat16 is 0.004 from its float32 here."""


@pytest.fixture
def policy():
    """A function that sets the policy; afterwards it is as before."""
    before = tk.mixed_precision.global_policy()
    yield tk.mixed_precision.set_global_policy
    tk.mixed_precision.set_global_policy(before)


def batches(steps):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(steps, BATCH, FEATURES)).astype("float32")
    return list(zip(x, (x @ rng.normal(size=(FEATURES, CLASSES))).argmax(-1), strict=True))


def perceptron(run_eagerly=False):
    tk.random.set_seed(3)
    layers = tk.layers
    model = tk.Sequential(
        [
            layers.Input((FEATURES,)),
            layers.Dense(256, activation="relu"),
            layers.Dense(256, activation="relu"),
            layers.Dense(CLASSES),
        ]
    )
    loss = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tk.optimizers.Adam(1e-3), loss, run_eagerly=run_eagerly)
    return model


def losses_of(model, steps):
    return np.array([float(model.train_on_batch(x, y)) for x, y in batches(steps)])


@pytest.mark.parametrize("has_pairs", [True, False])
def test_losses_are_near_those_of_float32(mode, policy, monkeypatch, has_pairs):
    if has_pairs and not bfloat16_pairs.has_bfloat16_pairs():
        pytest.skip("this processor has no AVX512-BF16")
    monkeypatch.setattr(bfloat16_pairs, "has_bfloat16_pairs", lambda: has_pairs)
    policy("float32")
    exact = losses_of(perceptron(), STEPS)
    policy("mixed_bfloat16")
    model = perceptron()
    losses = losses_of(model, STEPS)
    assert (np.abs(losses - exact) <= MOST_APART * exact).all()
    assert losses[-1] < 0.8 * losses[0]
    assert (losses != exact).any()
    assert {w.dtype.name for w in model.weights} == {"float32"}
    assert model(batches(1)[0][0]).dtype.name == "bfloat16"


def test_eager_steps_have_the_bits_of_compiled_ones(mode, policy):
    policy("mixed_bfloat16")
    eager, compiled = perceptron(run_eagerly=True), perceptron()
    np.testing.assert_array_equal(losses_of(eager, 8), losses_of(compiled, 8))
    for a, b in zip(eager.get_weights(), compiled.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
