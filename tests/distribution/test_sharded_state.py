"""The state of an optimizer in shares: the weights are those of whole state, as are the files."""

import json

import numpy as np
import pytest

from tests.distribution.processes import needs_mpi, run_processes
from trainkit.optimizers.base.sharded_state import owners_of

TRAIN = """
import json, os, pathlib
kind, folder, shards, steps, restores = json.loads(sys.argv[1])
strategy = tk.distribute.MultiWorkerMirroredStrategy(shard_optimizer_state=shards)
random = np.random.default_rng(0)
inputs = random.normal(size=(24, 5)).astype("float32")
targets = random.normal(size=(24, 1)).astype("float32")
low, high = 24 * rank // size, 24 * (rank + 1) // size
tk.random.set_seed(3)
with strategy.scope():
    model = tk.keras.Sequential([tk.keras.Input((5,)), tk.keras.layers.Dense(16, "tanh"),
                                 tk.keras.layers.Dense(8, "tanh"), tk.keras.layers.Dense(1)])
    optimizer = tk.keras.optimizers.Adam(0.01, global_clipnorm=0.5)
    checkpoint = tk.train.Checkpoint(model=model, optimizer=optimizer)
if restores:
    checkpoint.restore(os.path.join(folder, "ckpt")).expect_partial()

def step(x, y):
    with tk.GradientTape() as tape:
        loss = tk.reduce_sum((model(x) - y) ** 2) / 24
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))

if kind == "compiled":
    step = tk.function(step)
for _ in range(steps):
    strategy.run(step, (tk.constant(inputs[low:high]), tk.constant(targets[low:high])))
held = sum(s.numpy().nbytes for _, _, s in optimizer.slot_variables()
           if any(s._value._array.strides) or s.shape.num_elements() == 1)
if not restores:
    checkpoint.write(os.path.join(folder, "ckpt"))
after = sum(s.numpy().nbytes for _, _, s in optimizer.slot_variables()
            if any(s._value._array.strides) or s.shape.num_elements() == 1)
assert after == held
weights = [w.numpy().tolist() for w in model.weights]
pathlib.Path(folder, f"{rank}.json").write_text(json.dumps([held, weights]))
"""


def train(folder, size, kind="eager", shards=True, steps=6, restores=False):
    folder.mkdir(exist_ok=True)
    run_processes(size, TRAIN, (json.dumps([kind, str(folder), shards, steps, restores]),))
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(size)]


@needs_mpi
@pytest.mark.parametrize("kind", ["eager", "compiled"])
def test_weights_are_those_of_whole_state_and_each_rank_holds_its_share(tmp_path, kind):
    whole = train(tmp_path / "whole", 2, kind, shards=False)
    shared = train(tmp_path / "shared", 2, kind)
    assert [weights for _, weights in shared] == [weights for _, weights in whole]
    assert sum(held for held, _ in shared) < 1.1 * whole[0][0]
    assert max(held for held, _ in shared) < 0.7 * whole[0][0]


@needs_mpi
def test_a_checkpoint_of_shares_goes_on_with_another_number_of_processes(tmp_path):
    folder = tmp_path / "run"
    train(folder, 3, steps=4)
    results = {}
    for size in (1, 2):
        results[size] = train(folder, size, steps=3, restores=True)[0][1]
    through = train(tmp_path / "through", 1, shards=False, steps=7)[0][1]
    for found in results.values():
        for mine, expected in zip(found, through, strict=True):
            np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-6)


def test_shares_are_of_like_size():
    sizes = [100, 1, 50, 50, 7, 0]
    owners = owners_of(sizes, 2)
    loads = [sum(s for s, o in zip(sizes, owners, strict=True) if o == rank) for rank in (0, 1)]
    assert abs(loads[0] - loads[1]) <= 10
    assert owners_of([3], 4) == [0]
