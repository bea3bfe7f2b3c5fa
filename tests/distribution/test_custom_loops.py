"""`Strategy.run` in a custom loop: N processes step as one does with the same global batch."""

import json

import numpy as np
import pytest

from tests.distribution.processes import needs_mpi, run_processes

pytestmark = needs_mpi

LOOP = """
random = np.random.default_rng(0)
inputs = random.normal(size=(24, 5)).astype("float32")
targets = random.normal(size=(24, 1)).astype("float32")
low, high = 24 * rank // size, 24 * (rank + 1) // size
tk.random.set_seed(3)
with strategy.scope():
    model = tk.keras.Sequential(
        [tk.keras.Input((5,)), tk.keras.layers.Dense(8, "tanh"), tk.keras.layers.Dense(1)]
    )
    optimizer = tk.keras.optimizers.Adam(0.01)

def step(x, y):
    with tk.GradientTape() as tape:
        loss = tk.reduce_sum((model(x) - y) ** 2) / 24
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

if sys.argv[1] == "compiled":
    step = tk.function(step)
for _ in range(10):
    loss = strategy.run(step, (tk.constant(inputs[low:high]), tk.constant(targets[low:high])))
total = float(strategy.reduce("SUM", loss))
import json, pathlib
weights = [w.numpy().tolist() for w in model.weights]
pathlib.Path(sys.argv[2], f"{rank}.json").write_text(json.dumps([total, weights]))
"""


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_two_and_three_processes_step_as_one_does(tmp_path, mode):
    results = {}
    for size in (1, 2, 3):
        folder = tmp_path / str(size)
        folder.mkdir()
        run_processes(size, LOOP, (mode, folder))
        ranks = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(size)]
        assert all(rank == ranks[0] for rank in ranks)  # to the bit
        results[size] = ranks[0]
    for size in (2, 3):
        assert results[size][0] == pytest.approx(results[1][0], rel=1e-5)
        for mine, one in zip(results[size][1], results[1][1], strict=True):
            np.testing.assert_allclose(mine, one, rtol=1e-4, atol=1e-6)
