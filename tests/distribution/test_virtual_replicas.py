"""`virtual_replicas`: the same bits whatever the number of processes."""

import json
import pathlib
import re

import numpy as np
import pytest

import trainkit as tk
from tests.distribution.processes import needs_mpi, run_processes, run_program
from trainkit import keras
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.threads import pools

HERE = pathlib.Path(__file__).parent
L = keras.layers


def by_rank(folder, size):
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(size)]


@needs_mpi
def test_any_number_of_processes_gives_the_same_bits(tmp_path):
    """Each program makes all cases; the one of four writes what the others go on with."""
    found = {}
    for size in (4, 2, 1):
        folder = tmp_path / str(size)
        folder.mkdir()
        run_program(size, HERE / "virtual_cases.py", (folder, tmp_path))
        found[size] = by_rank(folder, size)
    for name, alone in found[1][0].items():
        for size, ranks in found.items():
            for rank, values in enumerate(ranks):
                assert values[name] == alone, (name, size, rank)


@needs_mpi
def test_kernels_and_threads_do_not_change_the_bits(tmp_path):
    """One process of three threads, with the turns of both, beside two processes of one."""
    found = {}
    for size, threads in ((1, 3), (2, 1)):
        folder = tmp_path / str(size)
        folder.mkdir()
        environment = {"TRAINKIT_JIT": "1", "OMP_NUM_THREADS": str(threads)}
        run_program(size, HERE / "virtual_kernels.py", (folder,), environment=environment)
        found[size] = by_rank(folder, size)
    assert found[2][0] == found[2][1] == found[1][0]


@pytest.fixture
def strategy():
    """A strategy of four virtual replicas; what it sets for the whole process is taken back."""
    determined, mode = pools.determined(), kernel_family.mode()
    made = tk.distribute.MultiWorkerMirroredStrategy(virtual_replicas=4)
    yield made
    pools.determine(determined)
    if kernel_family.mode() != mode:
        kernel_family.set_mode(mode)


X = np.random.default_rng(0).normal(size=(24, 3)).astype("float32")
Y = X[:, :1]


def made(strategy, *layers, **settings):
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), *layers, L.Dense(1)])
        model.compile("sgd", "mse", **settings)
    return model


def test_replicas_count_and_say_so(strategy):
    assert strategy.num_replicas_in_sync == 4
    assert list(strategy.virtual.own) == [0, 1, 2, 3]
    assert strategy.group.communication.in_order
    assert pools.determined()


def test_weights_are_those_of_the_whole_batch_to_rounding(strategy):
    weights = []
    for kind in (strategy, tk.distribute.get_strategy()):
        tk.random.set_seed(1)
        model = made(kind, L.Dense(5, "tanh", kernel_regularizer="l2"), L.Dropout(0.4))
        model.fit(X, Y, batch_size=7, epochs=3, verbose=0, shuffle=False)
        weights.append([w.numpy() for w in model.weights])
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_likely_mistakes_are_still_seen(strategy):
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), L.Dense(2)])
        model.compile("sgd", "mse")
    with pytest.warns(UserWarning, match="compares targets of shape"):
        model.fit(X, Y, batch_size=8, verbose=0)


def test_what_cannot_be_done_says_what_to_do(strategy):
    data = tk.data.Dataset.from_tensor_slices((X, Y)).batch(8)

    def refused(text, call):
        with pytest.raises(Exception, match=text):
            call()

    whole = made(strategy, L.BatchNormalization(synchronized=True))
    refused(r"BatchNormalization\(synchronized=True\) needs .*as BatchNormalization",
            lambda: whole.fit(X, Y, verbose=0))  # fmt: skip
    refused("Strategy.run with virtual_replicas=4.*train_step of a Model",
            lambda: strategy.run(lambda: None))  # fmt: skip
    refused("Strategy.replica with", strategy.replica)
    refused("Strategy.distribute_datasets_from_function with",
            lambda: strategy.distribute_datasets_from_function(lambda _: data))  # fmt: skip
    options = tk.data.Options()
    options.experimental_distribute.auto_shard_policy = tk.data.experimental.AutoShardPolicy.OFF
    refused("use AutoShardPolicy.DATA",
            lambda: made(strategy).fit(data.with_options(options), verbose=0))  # fmt: skip
    refused("the first batch has 3 rows for 4 replicas",
            lambda: made(strategy).train_on_batch(X[:3], Y[:3]))  # fmt: skip
    kind = tk.distribute.MultiWorkerMirroredStrategy
    rounded = tk.distribute.CommunicationOptions(gradient_dtype="bfloat16")
    refused("virtual_replicas=4 and gradient_dtype='bfloat16' do not go together",
            lambda: kind(communication_options=rounded, virtual_replicas=4))  # fmt: skip
    refused("virtual_replicas=0 can't be shared out", lambda: kind(virtual_replicas=0))
    refused("virtual_replicas must be a whole number or None, got 2.5",
            lambda: kind(virtual_replicas=2.5))  # fmt: skip
    refused("virtual_replicas must be a whole number or None, got True",
            lambda: kind(virtual_replicas=True))  # fmt: skip


class Twice(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = L.Dense(1)

    def call(self, x):
        return self.inner(x)

    def train_step(self, data):
        for _ in range(2):
            with tk.GradientTape() as tape:
                loss = tk.reduce_mean((self(data[0]) - data[1]) ** 2)
            weights = self.trainable_variables
            self.optimizer.apply(tape.gradient(loss, weights), weights)
        return {"loss": loss}


@pytest.mark.parametrize("eagerly", [False, True])
def test_a_step_that_updates_twice_is_refused(strategy, eagerly):
    with strategy.scope():
        model = Twice()
        model.compile("sgd", run_eagerly=eagerly)
    with pytest.raises(Exception, match="updates weights for a second time"):
        model.fit(X, Y, verbose=0)


@pytest.mark.parametrize("count", [1, 4])
def test_a_number_of_one_s_own_counts_all_rows(count):
    determined, mode = pools.determined(), kernel_family.mode()
    try:
        kind = tk.distribute.MultiWorkerMirroredStrategy(virtual_replicas=count)
        model = made(kind, run_eagerly=True)
        found = model.evaluate(X, Y, batch_size=24, verbose=0)
        expected = float(np.mean((model.predict(X, verbose=0) - Y) ** 2))
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    finally:
        pools.determine(determined)
        kernel_family.set_mode(mode)


@needs_mpi
def test_processes_that_do_not_divide_the_replicas():
    code = """
    try:
        tk.distribute.MultiWorkerMirroredStrategy(virtual_replicas=4)
    except ValueError as error:
        print(error)
    """
    said = run_processes(3, code).stdout
    text = "virtual_replicas=4 can't be shared out to 3 processes.*?start 1, 2, 4 of them"
    assert len(re.findall(text, said)) == 3
