"""How several devices of one process add up: by NCCL on GPUs, by copies elsewhere."""

import json

import ml_dtypes
import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from tests.distribution import fit_cases
from tests.distribution.test_fit import numbers
from tests.stand_in import memory, nccl, transfers
from trainkit.collectives.communication import Communication, split_messages
from trainkit.collectives.device_sums import TreeSums
from trainkit.collectives.nccl_devices import NcclDeviceSums

DISTRIBUTE = tk.distribute
X, Y = fit_cases.X, fit_cases.Y
ALL_OPS = ["NcclAllReduce", "HierarchicalCopyAllReduce", "ReductionToOneDevice"]


@pytest.fixture
def gpus():
    """Three GPUs with NCCL; what NCCL was called for."""
    with stand_in.in_place(gpus=3), nccl.in_place() as library:
        yield library


def sums_of(strategy):
    return strategy.groups[0]._sums


def reduced(strategy, values, reduction="SUM"):
    """What each replica has after a sum of the values of all."""

    def step(x):
        context = DISTRIBUTE.get_replica_context()
        return context.all_reduce(reduction, x)

    given = []
    for x, place in zip(values, strategy.devices, strict=True):
        with tk.device(place):
            given.append(tk.constant(x))
    found = strategy.run(step, (DISTRIBUTE.PerReplica(tuple(given)),)).values
    assert [y.device for y in found] == [place.name for place in strategy.devices]
    return [y.numpy() for y in found]


DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "uint32", "int64"]


@pytest.mark.parametrize("dtype", [*DTYPES, "uint64", "complex64", "bool"])
@pytest.mark.parametrize("name", [None, *ALL_OPS])
@pytest.mark.parametrize("count", [2, 3])
def test_all_ways_add_up_alike(gpus, name, count, dtype):
    ops = None if name is None else getattr(DISTRIBUTE, name)()
    names = [f"/gpu:{k}" for k in range(count)]
    strategy = DISTRIBUTE.MirroredStrategy(names, cross_device_ops=ops)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    rng = np.random.default_rng(0)
    for shape in [(), (1,), (7, 3), (0, 4), (20_001,)]:
        values = [rng.integers(0, 4, shape).astype(kind) for _ in range(count)]
        found = reduced(strategy, values)
        for y in found:
            assert y.dtype == kind
            np.testing.assert_array_equal(y, np.add.reduce(values).astype(kind))
    by_nccl = name in (None, "NcclAllReduce") and dtype not in ("complex64", "bool")
    assert gpus.sums == ([(dtype, "NCCL_SUM", n) for n in (1, 1, 21, 20_001)] if by_nccl else [])
    assert gpus.made == ([tuple(range(count))] if by_nccl else [])


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("name", [None, *ALL_OPS[1:]])
def test_the_cpu_stands_for_any_number_of_devices(name, count):
    ops = None if name is None else getattr(DISTRIBUTE, name)()
    strategy = DISTRIBUTE.MirroredStrategy(["/cpu:0"] * count, cross_device_ops=ops)
    values = [np.full(3, 10.0**k, "float32") for k in range(count)]
    if count > 1:
        for y in reduced(strategy, values):
            np.testing.assert_array_equal(y, np.add.reduce(values))


@pytest.mark.parametrize("place", ["/cpu:0", "/gpu:2", "/gpu:0"])
def test_one_device_may_be_any(gpus, place):
    ops = DISTRIBUTE.ReductionToOneDevice(place)
    strategy = DISTRIBUTE.MirroredStrategy(["/gpu:0", "/gpu:1"], cross_device_ops=ops)
    values = [np.ones(5, "float32"), np.full(5, 2.0, "float32")]
    found = reduced(strategy, values, "MEAN")
    assert [y.tolist() for y in found] == [[1.5] * 5] * 2
    assert gpus.sums == []


def test_what_is_taken_where_nothing_is_asked_for(gpus):
    make = DISTRIBUTE.MirroredStrategy
    assert type(sums_of(make())) is NcclDeviceSums
    assert type(sums_of(make(["/gpu:2", "/gpu:0"]))) is NcclDeviceSums
    others = [["/gpu:0"] * 2, ["/cpu:0"] * 2, ["/gpu:0", "/cpu:0"]]
    for names in others:
        strategy = make(names)
        values = [np.ones(2, "float32"), np.ones(2, "float32")]
        assert [y.tolist() for y in reduced(strategy, values)] == [[2.0, 2.0]] * 2
    assert gpus.sums == []


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["/gpu:0", "/gpu:0"], "/device:GPU:0 is that of several"),
        (["/cpu:0", "/cpu:0"], "/device:CPU:0 is no GPU"),
        (["/gpu:0", "/cpu:0"], "/device:CPU:0 is no GPU"),
    ],
)
def test_nccl_is_refused_where_it_can_not_be_had(gpus, names, reason):
    with pytest.raises(ValueError, match=f"{reason}; take HierarchicalCopyAllReduce or Reduction"):
        DISTRIBUTE.MirroredStrategy(names, cross_device_ops=DISTRIBUTE.NcclAllReduce())


def test_nccl_is_refused_where_cupy_lacks_it():
    with stand_in.in_place(gpus=2):
        assert type(sums_of(DISTRIBUTE.MirroredStrategy())) is not NcclDeviceSums
        with pytest.raises(ValueError, match=r"CuPy finds no NCCL .* nvidia-nccl-cu13"):
            DISTRIBUTE.MirroredStrategy(cross_device_ops=DISTRIBUTE.NcclAllReduce())


def test_other_settings_are_refused():
    with pytest.raises(ValueError, match=r"HierarchicalCopyAllReduce or .* got 'NCCL'"):
        DISTRIBUTE.MirroredStrategy(["/cpu:0"] * 2, cross_device_ops="NCCL")
    with pytest.raises(ValueError, match="accumulation_fn must be None"):
        DISTRIBUTE.ReductionToOneDevice(accumulation_fn=sum)
    with pytest.raises(tk.errors.DeviceError):
        DISTRIBUTE.ReductionToOneDevice("/gpu:99")
    for kind in (DISTRIBUTE.NcclAllReduce, DISTRIBUTE.HierarchicalCopyAllReduce):
        for value in (-1, 1.5, True, "2"):
            with pytest.raises(ValueError, match=f"{kind.__name__}: num_packs must be a whole"):
                kind(num_packs=value)


def test_packs_have_about_the_same_size():
    assert split_messages([4, 4, 4, 4], Communication(packs=2)) == [[0, 1], [2, 3]]
    assert split_messages([100, 1, 1], Communication(packs=2)) == [[0], [1, 2]]
    assert split_messages([1, 1, 1], Communication(packs=9)) == [[0], [1], [2]]
    assert split_messages([1, 2, 3], Communication(packs=1)) == [[0, 1, 2]]
    assert split_messages([1, 2, 3], Communication(packs=0)) == [[0], [1], [2]]
    assert split_messages([0, 0], Communication(packs=2)) == [[0, 1]]
    assert split_messages([], Communication(packs=2)) == []
    assert split_messages([10, 10, 10], Communication(bucket_bytes=20)) == [[0], [1, 2]]


def test_a_tree_adds_neighbours_first():
    strategy = DISTRIBUTE.MirroredStrategy(
        ["/cpu:0"] * 4, cross_device_ops=DISTRIBUTE.HierarchicalCopyAllReduce()
    )
    assert type(sums_of(strategy)) is TreeSums
    big = 2.0**24  # to which 1 can't be added in float32
    values = [np.float32(v) for v in (big, 0.0, 1.0, 1.0)]
    assert [float(y) for y in reduced(strategy, values)] == [big + 2.0] * 4
    one = DISTRIBUTE.MirroredStrategy(["/cpu:0"] * 4)
    assert [float(y) for y in reduced(one, values)] == [big] * 4


def loop(strategy):
    """A step of a program's own, a model of six variables, and a batch for each replica."""
    tk.random.set_seed(3)
    with strategy.scope():
        layers = [tk.keras.layers.Dense(16, "tanh") for _ in range(2)]
        model = tk.keras.Sequential([tk.keras.Input((6,)), *layers, tk.keras.layers.Dense(1)])
        optimizer = tk.keras.optimizers.SGD(0.1)

    def step(x, y):
        with tk.GradientTape() as tape:
            loss = tk.reduce_sum((model(x) - y) ** 2) / 24
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    data = tk.data.Dataset.from_tensor_slices((X[:24], Y[:24])).batch(24)
    (batch,) = strategy.experimental_distribute_dataset(data)
    return step, model, batch


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("packs", "messages"), [(None, 1), (1, 1), (2, 2), (3, 3), (0, 6)])
def test_a_step_has_a_message_for_each_bucket(gpus, compiled, packs, messages):
    ops = None if packs is None else DISTRIBUTE.NcclAllReduce(packs)
    strategy = DISTRIBUTE.MirroredStrategy(cross_device_ops=ops)
    step, model, batch = loop(strategy)
    step = tk.function(step) if compiled else step
    for _ in range(3):
        strategy.run(step, batch)
        gpus.sums.clear()
        gpus.groups = 0
    strategy.run(step, batch)
    assert len(gpus.sums) <= messages
    assert sum(count for *_, count in gpus.sums) >= model.count_params()
    assert gpus.groups == len(gpus.sums)  # the first need not wait for what the others wait for
    assert gpus.made == [(0, 1, 2)]
    other = DISTRIBUTE.OneDeviceStrategy("/gpu:0")
    step, expected, batch = loop(other)
    for _ in range(4):
        other.run(step, batch)
    for mine, theirs in zip(model.weights, expected.weights, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-6)


def test_no_copy_to_the_host_in_a_step(gpus):
    strategy = DISTRIBUTE.MirroredStrategy()
    step, _, batch = loop(strategy)
    step = tk.function(step)
    strategy.run(step, batch)
    strategy.run(step, batch)
    with transfers.noted() as ledger:
        strategy.run(step, batch)
    assert ledger.to_host == []


CASES = ["arrays", "operation_by_operation", "convolutions", "recurrent_layers", "scaled_losses"]
CASES += ["accumulated_gradients", "several_steps_an_execution"]


@pytest.mark.parametrize(("count", "name"), [(2, name) for name in CASES] + [(3, "arrays")])
def test_fit_with_nccl_gives_the_numbers_of_one_gpu(monkeypatch, tmp_path, gpus, name, count):
    monkeypatch.setattr(fit_cases, "FOLDER", tmp_path)

    def found_by(names):
        monkeypatch.setattr(fit_cases, "STRATEGY", DISTRIBUTE.MirroredStrategy(names))
        tk.random.set_seed(3)
        return numbers(json.loads(json.dumps(fit_cases.CASES[name]())))

    found = found_by([f"/gpu:{k}" for k in range(3 - count, 3)])
    assert gpus.made == [tuple(range(3 - count, 3))]
    assert gpus.sums
    np.testing.assert_allclose(found, found_by(["/gpu:0"]), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_where_nccl_fails_nothing_is_left_and_the_next_step_works(gpus, compiled):
    strategy = DISTRIBUTE.MirroredStrategy()
    step, model, batch = loop(strategy)
    step = tk.function(step) if compiled else step
    strategy.run(step, batch)
    before = [w.numpy() for w in model.weights]
    gpus.fails = 1
    with pytest.raises(nccl.NcclError, match="unhandled cuda error"):
        strategy.run(step, batch)
    assert gpus.aborted == [0, 1, 2]
    for weight, old in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), old)
    strategy.run(step, batch)
    assert gpus.made == [(0, 1, 2)] * 2
    assert any((w.numpy() != old).any() for w, old in zip(model.weights, before, strict=True))


def test_a_replica_that_fails_leaves_no_group_open(gpus):
    strategy = DISTRIBUTE.MirroredStrategy()

    def step(fails):
        context = DISTRIBUTE.get_replica_context()
        if fails and context.replica_id_in_sync_group == 1:
            raise ArithmeticError("of replica 1")
        return context.all_reduce("SUM", tk.ones(3))

    with pytest.raises(ArithmeticError, match="of replica 1"):
        strategy.run(step, (True,))
    assert gpus.sums == []
    assert gpus.groups == 0
    assert [y.numpy().tolist() for y in strategy.run(step, (False,)).values] == [[3.0] * 3] * 3


def test_a_sum_in_a_capture_is_refused(gpus):
    strategy = DISTRIBUTE.MirroredStrategy()

    def step(captures):
        import cupy

        x = tk.ones(3)
        stream = cupy.cuda.Stream(non_blocking=True)
        if captures:
            stream.begin_capture()
        try:
            with stream:
                return DISTRIBUTE.get_replica_context().all_reduce("SUM", x)
        finally:
            if captures:
                stream.end_capture()

    strategy.run(step, (False,))
    with memory.using_allocator(memory.MemoryPool().malloc):
        with pytest.raises(tk.errors.FailedPreconditionError, match="part of a CUDA graph"):
            strategy.run(step, (True,))
    strategy.run(step, (False,))


def test_a_graph_with_a_sum_is_not_captured_and_one_without_is(gpus):
    strategy = DISTRIBUTE.MirroredStrategy()
    with strategy.scope():
        v = tk.Variable(tk.ones((4, 4)))

    @tk.function
    def joins(x):
        return DISTRIBUTE.get_replica_context().all_reduce("SUM", tk.tanh(x * v) + 1.0)

    @tk.function
    def alone(x):
        return tk.tanh(x * v) + 1.0

    parts = []
    for k in range(3):
        with tk.device(f"/gpu:{k}"):
            parts.append(tk.fill((4, 4), float(k)))
    x = DISTRIBUTE.PerReplica(tuple(parts))
    for _ in range(6):
        joined, own = strategy.run(joins, (x,)), strategy.run(alone, (x,))
        expected = [np.tanh(np.full((4, 4), float(k))) + 1.0 for k in range(3)]
        for k in range(3):
            np.testing.assert_allclose(joined.values[k].numpy(), sum(expected), rtol=1e-6)
            np.testing.assert_allclose(own.values[k].numpy(), expected[k], rtol=1e-6)
            assert own.values[k].device == f"/device:GPU:{k}"
    assert joins.explain().count("does something besides its result") == 3
    assert alone.explain().count("3 replays of 1 CUDA graph") == 3
