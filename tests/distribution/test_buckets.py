"""Gradients travel in buckets while a compiled backward pass still runs; sums are the same."""

import json

import numpy as np
import pytest

import trainkit as tk
from tests.distribution.processes import needs_mpi, run_processes
from trainkit.collectives.communication import buckets
from trainkit.collectives.process_group import ProcessGroup
from trainkit.collectives.replica import GlobalRows, Replica


def test_buckets_hold_what_fits_and_the_first_is_small():
    assert buckets([10, 10, 10, 300, 20, 20], 100) == [[0], [1, 2], [3], [4, 5]]
    assert buckets([], 100) == []
    assert buckets([4 << 20, 1], 8 << 20) == [[0], [1]]


class Echo(ProcessGroup):
    """Two ranks that have the same values; notes the sizes of what is joined."""

    size = 2

    def __init__(self):
        self.sizes = []

    def all_reduce(self, array, reduction="SUM", what=""):
        self.sizes.append(array.size)
        array *= 2
        return array

    def start_all_reduce(self, array, reduction="SUM", what=""):
        from trainkit.collectives.process_group import Work

        self.all_reduce(array, reduction, what)
        return Work(lambda: array)


def step_of(model, optimizer, x):
    def step():
        with tk.GradientTape() as tape:
            loss = tk.reduce_sum(model(x) ** 2)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        return loss

    return step


def made(layers=4):
    tk.random.set_seed(1)
    dense = [tk.keras.layers.Dense(7, "tanh") for _ in range(layers)]
    return tk.keras.Sequential([tk.keras.Input((7,)), *dense])


X = tk.constant(np.random.default_rng(0).normal(size=(5, 7)).astype("float32"))


def test_a_compiled_step_starts_buckets_before_its_backward_pass_ends():
    group, model = Echo(), made()
    group.communication = group.communication._replace(bucket_bytes=400)
    step = tk.function(step_of(model, tk.keras.optimizers.SGD(0.01), X))
    with Replica(group):
        step()
    names = [
        node.primitive.name
        for node in step.concrete_functions()[0].graph.nodes
        if node.kind == "op"
    ]
    starts = [i for i, name in enumerate(names) if name == "start_bucket"]
    finishes = [i for i, name in enumerate(names) if name == "finish_bucket"]
    assert len(starts) == len(finishes) >= 4
    between = names[starts[0] : starts[-1]]
    assert len([name for name in between if "matmul" in name or "dense" in name]) >= 2
    assert finishes[0] > starts[-1]
    assert len(group.sizes) == len(starts)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("size", [1, 400, 1 << 20])
@pytest.mark.parametrize("weight", [None, GlobalRows(0, 3, 4), GlobalRows(0, 0, 4)])
def test_sums_do_not_depend_on_buckets(compiled, size, weight):
    group, model, other = Echo(), made(), made()
    group.communication = group.communication._replace(bucket_bytes=size)
    step = step_of(model, tk.keras.optimizers.SGD(0.01), X)
    step = tk.function(step) if compiled else step
    with Replica(group, weight, averages=weight is not None):
        for _ in range(3):
            step()
    factor = 2 if weight is None else 2 * weight.size / weight.total
    plain = step_of(other, tk.keras.optimizers.SGD(0.01 * factor), X)
    for _ in range(3):
        plain()
    for mine, one in zip(model.weights, other.weights, strict=True):
        np.testing.assert_allclose(mine.numpy(), one.numpy(), rtol=2e-5, atol=1e-6)


def test_gradients_in_half_precision_come_back_in_their_own():
    group, model = Echo(), made()
    group.communication = group.communication._replace(gradient_dtype="bfloat16")
    before = [w.numpy() for w in model.weights]
    with Replica(group):
        step_of(model, tk.keras.optimizers.SGD(0.01), X)()
    other = made()
    step_of(other, tk.keras.optimizers.SGD(0.02), X)()
    for mine, one, start in zip(model.weights, other.weights, before, strict=True):
        np.testing.assert_allclose(mine.numpy() - start, one.numpy() - start, rtol=1e-2, atol=1e-6)
        assert mine.dtype == "float32"


@pytest.mark.parametrize(
    "settings",
    [{"bytes_per_pack": -1}, {"timeout_seconds": 3}, {"implementation": "NCCL"},
     {"gradient_dtype": "int8"}],
)  # fmt: skip
def test_options_that_do_nothing_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        tk.distribute.CommunicationOptions(**settings)


def test_only_options_are_options():
    with pytest.raises(TypeError, match="CommunicationOptions, got dict"):
        tk.distribute.MultiWorkerMirroredStrategy(communication_options={})


def test_each_strategy_has_settings_of_its_own():
    options = tk.distribute.CommunicationOptions(bytes_per_pack=4000, gradient_dtype="float16")
    make = tk.distribute.MultiWorkerMirroredStrategy
    first = make(communication_options=options, deterministic=True)
    second = make()
    assert tuple(first.group.communication) == (4000, "float16", True)
    assert tuple(second.group.communication) == (8 << 20, None, False)


REDUCED = """
import json, pathlib
import ml_dtypes
options = tk.distribute.CommunicationOptions(bytes_per_pack=5000)
strategy = tk.distribute.MultiWorkerMirroredStrategy(
    communication_options=options, deterministic=sys.argv[1] == "in order"
)
other = tk.distribute.MultiWorkerMirroredStrategy()  # leaves the settings of the first alone
assert strategy.group.communication.bucket_bytes == 5000 != other.group.communication.bucket_bytes
assert strategy.group.communication.in_order == (sys.argv[1] == "in order")
found = []
for dtype in ("float32", "float64", "float16", ml_dtypes.bfloat16, "int32"):
    for count in (0, 1, 2, 7, 20001):
        array = (np.random.default_rng(rank).normal(size=count) * 9).astype(dtype)
        work = strategy._group.start_all_reduce(array.copy(), "SUM", "one")
        assert other.group.exchange(rank, "between") == list(range(size))
        twice = strategy._group.all_reduce(array.copy(), "SUM", "two")
        assert np.array_equal(work.wait(), twice)
        found.append(twice.astype("float64").tolist())
pathlib.Path(sys.argv[2], f"{rank}.json").write_text(json.dumps(found))
"""


@needs_mpi
@pytest.mark.parametrize("how", ["in order", "as it comes"])
@pytest.mark.parametrize("size", [2, 3])
def test_sums_of_processes(tmp_path, how, size):
    import ml_dtypes

    run_processes(size, REDUCED, (how, tmp_path))
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(size)]
    assert all(rank == ranks[0] for rank in ranks)
    found = iter(ranks[0])
    for dtype in ("float32", "float64", "float16", ml_dtypes.bfloat16, "int32"):
        for count in (0, 1, 2, 7, 20001):
            arrays = [
                (np.random.default_rng(rank).normal(size=count) * 9).astype(dtype)
                for rank in range(size)
            ]
            total = np.sum([a.astype("float64") for a in arrays], axis=0)
            rtol = {2: 1e-2, 4: 1e-5, 8: 1e-13}[arrays[0].itemsize]
            np.testing.assert_allclose(next(found), total, rtol=rtol, atol=10 * rtol)
