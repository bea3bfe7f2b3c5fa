"""A processor gives what others give: losses of training, and fused loops what eager calls give."""

import os
import subprocess
import sys

import numpy as np
import pytest

import trainkit as tk
from trainkit.kernels.jit import target

STEPS, BATCH = 20, 16


def convnet(layers):
    return [
        layers.Conv2D(16, 3, padding="same", activation="relu"),
        layers.BatchNormalization(),
        layers.MaxPooling2D(),
        layers.DepthwiseConv2D(3),
        layers.Conv2D(24, 3, strides=2, activation="relu"),
        layers.Flatten(),
        layers.Dense(10),
    ], (12, 12, 3)


def lstm(layers):
    return [layers.LSTM(32, return_sequences=True), layers.LSTM(16), layers.Dense(10)], (10, 12)


LOSSES = {
    convnet: [
        *(2.206876, 2.423021, 2.38682, 2.487056, 2.349469, 2.376425, 2.353029, 2.246696),
        *(2.349014, 2.262608, 2.349723, 2.345583, 2.317851, 2.576024, 2.191856, 2.395259),
        *(2.434465, 2.38894, 2.327866, 2.365172),
    ],
    lstm: [
        *(2.331985, 2.291306, 2.319099, 2.352597, 2.314741, 2.317149, 2.299798, 2.310001),
        *(2.287676, 2.280736, 2.303487, 2.308607, 2.357859, 2.297651, 2.306155, 2.294625),
        *(2.283253, 2.333382, 2.296161, 2.296344),
    ],
}
"""By the plain bodies, on x86 with AVX-512."""


@pytest.mark.parametrize("mode", ["off", "eager"])
@pytest.mark.parametrize("kind", LOSSES, ids=lambda kind: kind.__name__)
def test_steps_have_the_losses_of_other_processors(kind, mode, kernels):
    kernels(mode)
    tk.random.set_seed(1)
    rng = np.random.default_rng(0)
    stack, shape = kind(tk.layers)
    x = rng.standard_normal((STEPS, BATCH, *shape)).astype(np.float32)
    y = rng.integers(0, 10, (STEPS, BATCH))
    model = tk.Sequential(stack)
    loss = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tk.optimizers.Adam(1e-3), loss)
    found = [float(model.train_on_batch(*batch)) for batch in zip(x, y, strict=True)]
    assert found == pytest.approx(LOSSES[kind], rel=1e-5)


FUSED = """
import sys
sys.modules.update(dict.fromkeys(sys.argv[1:]))  # which can't be imported then
import numpy as np
import trainkit as tk

def chain(a, b):
    c = tk.tanh(a * 2.0 + b) * a - b
    return tk.reduce_sum(tk.exp(-c * c) + tk.sqrt(tk.abs(c)) * 0.5, 1)

rng = np.random.default_rng(0)
a, b = (tk.constant(rng.standard_normal((300, 400)).astype("float32")) for _ in range(2))
fused = tk.function(chain)
values = [fused(a, b).numpy() for _ in range(4)]
for value in values:
    np.testing.assert_allclose(value, chain(a, b).numpy(), rtol=1e-6)
"""


@pytest.mark.skipif(not target.level(), reason="no library of kernels is for this processor")
@pytest.mark.parametrize("missing", [(), ("numba", "llvmlite")], ids=["all", "no compiler"])
def test_fused_loops_give_what_eager_calls_give(missing, tmp_path):
    given = {"TRAINKIT_CACHE": str(tmp_path), "TRAINKIT_JIT": "eager", "TRAINKIT_NATIVE": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore::RuntimeWarning", "-c", FUSED, *missing],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert any(tmp_path.rglob("*.o")) == (not missing)  # what LLVM has compiled, here or in a child
