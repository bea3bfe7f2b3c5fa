"""N processes give the weights that one gives, with dropout and synchronised batch norm."""

import functools
import json
import textwrap

import numpy as np
import pytest

from tests.distribution.processes import needs_mpi, run_processes

pytestmark = needs_mpi

BEFORE = """
import json, pathlib
from trainkit.collectives.replica import GlobalRows

L = tk.keras.layers
folder, *modes = sys.argv[1:]

def rows_of(total):  # uneven on purpose
    cuts = [round(total * (rank / size) ** 1.2) for rank in range(size)] + [total]
    return GlobalRows(cuts[rank], cuts[rank + 1] - cuts[rank], total)

def write(values):
    text = json.dumps([np.asarray(v).tolist() for v in values])
    pathlib.Path(folder, f"{mode}-{rank}.json").write_text(text)

def run():
"""
AFTER = """
for mode in modes:
    random = np.random.default_rng(0)
    run()
"""

MODELS = """
tk.random.set_seed(3)
with strategy.scope():
    if mode.startswith("cnn"):
        inputs = random.normal(3, 2, size=(24, 6, 6, 2)).astype("float32")
        model = tk.keras.Sequential([
            tk.keras.Input((6, 6, 2)), L.Conv2D(4, 3, use_bias=False),
            L.BatchNormalization(synchronized=True, momentum=0.9), L.ReLU(),
            L.SpatialDropout2D(0.2), L.Flatten(), L.Dense(8, "relu"), L.Dropout(0.3),
            L.BatchNormalization(synchronized=True), L.Dense(1),
        ])
    else:
        inputs = random.normal(size=(24, 5, 3)).astype("float32")
        model = tk.keras.Sequential([
            tk.keras.Input((5, 3)), L.GaussianNoise(0.1),
            L.LSTM(6, dropout=0.2, recurrent_dropout=0.1), L.Dropout(0.3), L.Dense(1),
        ])
    optimizer = tk.keras.optimizers.SGD(0.02, momentum=0.9)
targets = random.normal(size=(24, 1)).astype("float32")

def step(x, y):
    with tk.GradientTape() as tape:
        loss = tk.reduce_mean((model(x, training=True) - y) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

if mode.endswith("compiled"):
    step = tk.function(step)
for i in range(50):
    total = 24 if i % 5 else 22
    rows = rows_of(total)
    part = slice(rows.start, rows.start + rows.size)
    with strategy.replica(rows, averages=True):
        loss = step(tk.constant(inputs[part]), tk.constant(targets[part]))
write([w.numpy() for w in model.weights])
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A function that gives what a program writes, by the mode and the number of processes.

    All modes run in the same processes, which are started once.
    """

    @functools.cache
    def of(code, modes, sizes):
        found = {mode: {} for mode in modes}
        for size in sizes:
            folder = tmp_path_factory.mktemp(f"of_{size}")
            program = BEFORE + textwrap.indent(code, "    ") + AFTER
            run_processes(size, program, (folder, *modes))
            for mode in modes:
                files = [folder / f"{mode}-{rank}.json" for rank in range(size)]
                ranks = [json.loads(file.read_text()) for file in files]
                assert all(rank == ranks[0] for rank in ranks)  # to the bit
                found[mode][size] = [np.array(value) for value in ranks[0]]
        return found

    return of


def assert_those_of_one(found, atol):
    for size in set(found) - {1}:
        for mine, other in zip(found[size], found[1], strict=True):
            np.testing.assert_allclose(mine, other, rtol=2e-3, atol=atol)


@pytest.mark.parametrize("mode", ["cnn-eager", "cnn-compiled", "lstm-eager", "lstm-compiled"])
def test_weights_are_those_of_one_process(results, mode):
    how = mode.partition("-")[2]
    sizes = (1, 2, 4) if how == "compiled" else (1, 3)
    found = results(MODELS, (f"cnn-{how}", f"lstm-{how}"), sizes)
    assert_those_of_one(found[mode], atol=2e-4)


FIT = """
tk.random.set_seed(3)
with strategy.scope():
    if mode.startswith("cnn"):
        inputs = random.normal(3, 2, size=(22, 6, 6, 2)).astype("float32")
        model = tk.keras.Sequential([
            tk.keras.Input((6, 6, 2)), L.RandomFlip(), L.Conv2D(4, 3, use_bias=False),
            L.BatchNormalization(synchronized=True, momentum=0.9), L.ReLU(),
            L.Flatten(), L.Dropout(0.3), L.Dense(1),
        ])
    else:
        inputs = random.normal(size=(22, 5, 3)).astype("float32")
        model = tk.keras.Sequential([
            tk.keras.Input((5, 3)), L.GaussianNoise(0.1), L.LSTM(6, dropout=0.2), L.Dense(1),
        ])
    model.compile(tk.keras.optimizers.SGD(0.02, momentum=0.9), "mse",
                  run_eagerly=mode.endswith("eager"))
targets = random.normal(size=(22, 1)).astype("float32")
model.fit(inputs, targets, batch_size=8, epochs=4, verbose=0)
write([w.numpy() for w in model.weights])
"""


FITTED = ("cnn-eager", "cnn-compiled", "lstm-compiled")


@pytest.mark.parametrize("mode", FITTED)
def test_fit_gives_the_weights_of_one_process(results, mode):
    assert_those_of_one(results(FIT, FITTED, (1, 2, 3))[mode], atol=2e-4)


MOMENTS = """
x = random.normal(1000, 1, size=(13, 4, 3)).astype("float32")
mask = random.random((13, 4)) < 0.7
weight = tk.constant(random.normal(size=(13, 4, 3)).astype("float32"))
rows = rows_of(13)
part = slice(rows.start, rows.start + rows.size)
if rank == 1 and size == 3:  # a replica without rows: its neighbour has them
    rows, part = GlobalRows(part.start, 0, 13), slice(part.start, part.start)
elif rank == 0 and size == 3:
    cut = round(13 * (2 / 3) ** 1.2)
    rows, part = GlobalRows(0, cut, 13), slice(0, cut)
which = mode.split("-")[0]
layer = L.BatchNormalization(
    synchronized=True, momentum=0.5, renorm=which == "renorm", epsilon=1e-5
)
layer.build((None, 4, 3))
variables = layer.trainable_variables

def step(x, m, w):
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = layer(x, training=True, mask=m) if which == "masked" else layer(x, training=True)
        loss = tk.reduce_sum(y * w + tk.sin(y))
    return y, *tape.gradient(loss, [x, *variables])

if mode.endswith("compiled"):
    step = tk.function(step)
with strategy.replica(rows):
    for _ in range(2):
        y, by_x, *rest = step(tk.constant(x[part]), tk.constant(mask[part]), weight[part])
    context = tk.distribute.get_replica_context()
    rest = [g.numpy() for g in context.all_reduce("SUM", rest)]
whole = [strategy.gather(t, 0).numpy() for t in (y, by_x)]
write([*whole, *rest, *(w.numpy() for w in layer.non_trainable_variables)])
"""


NORMALIZED = tuple(
    f"{which}-{how}" for which in ("plain", "masked", "renorm") for how in ("eager", "compiled")
)


@pytest.mark.parametrize("mode", NORMALIZED)
def test_synchronized_batch_norm_sees_the_global_batch(results, mode):
    assert_those_of_one(results(MOMENTS, NORMALIZED, (1, 2, 3))[mode], atol=2e-3)
