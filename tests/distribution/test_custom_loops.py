"""`Strategy.run` in a custom loop: N processes step as one does with the same global batch."""

import json

import numpy as np
import pytest

from tests.distribution.processes import needs_mpi, run_processes

pytestmark = needs_mpi

LOOP = """
import json, pathlib

random = np.random.default_rng(0)
inputs = random.normal(size=(24, 5)).astype("float32")
targets = random.normal(size=(24, 1)).astype("float32")
low, high = 24 * rank // size, 24 * (rank + 1) // size

def trained(compiled):
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

    step = tk.function(step) if compiled else step
    for _ in range(10):
        loss = strategy.run(step, (tk.constant(inputs[low:high]), tk.constant(targets[low:high])))
    total = float(strategy.reduce("SUM", loss))
    return total, [w.numpy().tolist() for w in model.weights]

found = {"eager": trained(False), "compiled": trained(True)}
pathlib.Path(sys.argv[1], f"{rank}.json").write_text(json.dumps(found))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What each rank found, by the number of processes, which are started once."""
    found = {}
    for size in (1, 2, 3):
        folder = tmp_path_factory.mktemp(f"of_{size}")
        run_processes(size, LOOP, (folder,))
        found[size] = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(size)]
    return found


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_two_and_three_processes_step_as_one_does(results, mode):
    total, weights = results[1][0][mode]
    for size in (2, 3):
        ranks = [rank[mode] for rank in results[size]]
        assert all(rank == ranks[0] for rank in ranks)  # to the bit
        assert ranks[0][0] == pytest.approx(total, rel=1e-5)
        for mine, one in zip(ranks[0][1], weights, strict=True):
            np.testing.assert_allclose(mine, one, rtol=1e-4, atol=1e-6)
