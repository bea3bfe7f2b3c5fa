"""What GPUs of one process hand to each other: by NCCL, as by copies, and beside other work."""

import json

import ml_dtypes
import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from tests.distribution import fit_cases
from tests.stand_in import nccl, stream_log, transfers
from trainkit.collectives import replica as replicas
from trainkit.collectives.device_sums import Message

DISTRIBUTE = tk.distribute
DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool"]
DTYPES += ["complex64"]


@pytest.fixture(params=[2, 3])
def gpus(request):
    """So many GPUs with NCCL; what NCCL was called for."""
    with stand_in.in_place(gpus=request.param), nccl.in_place() as library:
        yield library


def strategies():
    """One that hands on by NCCL, and one that copies."""
    copies = DISTRIBUTE.ReductionToOneDevice()
    return DISTRIBUTE.MirroredStrategy(), DISTRIBUTE.MirroredStrategy(cross_device_ops=copies)


def placed(strategy, values):
    parts = []
    for x, place in zip(values, strategy.devices, strict=False):
        with tk.device(place):
            parts.append(tk.constant(x))
    return DISTRIBUTE.PerReplica(tuple(parts))


def made(shape, dtype, count):
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    rng = np.random.default_rng(1)
    return [(rng.normal(size=shape) * 3).astype(kind) for _ in range(count)]


def same_bits(mine, theirs):
    assert mine.device == theirs.device == "/device:GPU:0"
    assert mine.dtype == theirs.dtype
    assert mine.shape == theirs.shape
    assert mine.numpy().tobytes() == theirs.numpy().tobytes()


# ---------------------------------------------------------------------- outside of replicas


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("how", "axis"), [("SUM", None), ("MEAN", None), ("SUM", 0), ("MEAN", 0)])
def test_reduce_gives_what_copies_give(gpus, how, axis, dtype):
    if dtype == "bool" and (how == "MEAN" or axis is not None):
        pytest.skip("bools have no mean")
    mine, theirs = strategies()
    count = len(mine.devices)
    shapes = [(3,), (2, 3), (20_001,), (1, 0)]
    values = [made(shape, dtype, count) for shape in shapes]
    value = {str(i): placed(mine, some) for i, some in enumerate(values)}
    with transfers.noted() as ledger:
        found = mine.reduce(how, value, axis)
    expected = theirs.reduce(how, value, axis)
    for name in value:
        same_bits(found[name], expected[name])
    for name, some in zip(value, values, strict=True):  # what was given stays as it is
        for part, x in zip(value[name].values, some, strict=True):
            assert part.numpy().tobytes() == x.tobytes()
    assert ledger.to_host == []
    if dtype in ("bool", "complex64"):
        assert gpus.sums == []
    else:
        assert ledger.between == []
        assert gpus.groups == 1
        assert len(gpus.sums) == 3


def test_reduce_of_what_differs_is_copied(gpus):
    mine, theirs = strategies()
    count = len(mine.devices)
    for value in (2.5, tk.ones(3), DISTRIBUTE.PerReplica(tuple(range(count)))):
        same_bits(mine.reduce("SUM", value), theirs.reduce("SUM", value))
    mixed = made((3,), "float32", count)
    mixed[1] = mixed[1].astype("float64")
    value = placed(mine, mixed)
    same_bits(mine.reduce("SUM", value), theirs.reduce("SUM", value))
    assert gpus.sums == []


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1])
def test_gather_gives_what_copies_give(gpus, axis, dtype):
    mine, theirs = strategies()
    count = len(mine.devices)
    shapes = [tuple(k + 2 if i == axis else 3 for i in range(2)) for k in range(count)]
    shapes[-1] = tuple(0 if i == axis else 3 for i in range(2))
    values = [made(shape, dtype, 1)[0] for shape in shapes]
    value = [placed(mine, values), placed(mine, made((2, 2), dtype, count))]
    with transfers.noted() as ledger:
        found = mine.gather(value, axis)
    for x, y in zip(found, theirs.gather(value, axis), strict=True):
        same_bits(x, y)
    assert (ledger.to_host, ledger.between) == ([], [])
    assert len(gpus.handed) == (count - 2) + (count - 1)  # those without elements are not sent
    assert gpus.groups == 1


# ---------------------------------------------------------------------- within replicas


def in_replicas(strategy, function):
    """What `function(group, rank)` gives in each replica: lists of arrays."""

    def step():
        group = replicas.current().group
        return [tk.constant(x) for x in function(group, group.rank)]

    found = strategy.run(step)
    return [[x.values[rank].numpy() for x in found] for rank in range(len(strategy.devices))]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("root", [0, 1])
def test_broadcast_within_a_step(gpus, root, dtype):
    mine, theirs = strategies()
    values = made((4, 3), dtype, len(mine.devices))

    def broadcast(group, rank):
        array = tk.constant(values[rank])._array
        return [group.broadcast(array, root)]

    with transfers.noted() as ledger:
        mine.run(lambda: broadcast(replicas.current().group, replicas.current().rank) and None)
    assert (ledger.to_host, ledger.between) == ([], [])
    for strategy in (mine, theirs):
        for (x,) in in_replicas(strategy, broadcast):
            assert x.tobytes() == values[root].tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_gather_within_a_step(gpus, dtype):
    mine, theirs = strategies()
    values = [made((k, 3), dtype, 1)[0] for k in range(len(mine.devices))]

    def gather(group, rank):
        array = tk.constant(values[rank])._array
        found = group.all_gather(array)
        array[...] = 0  # copies are given
        return found

    for strategy in (mine, theirs):
        for found in in_replicas(strategy, gather):
            assert [x.tobytes() for x in found] == [x.tobytes() for x in values]
            assert [x.dtype for x in found] == [x.dtype for x in values]
    assert len(gpus.handed) == len(mine.devices) - 1  # the first one's is empty


# ---------------------------------------------------------------------- variables


def counted(strategy):
    """A step with variables of several kinds, and what it gives."""
    with strategy.scope():
        kernel = tk.Variable(np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3))
        table = tk.Variable(np.arange(3, dtype="int32"))
        mask = tk.Variable(np.array([True, False, True]))
        seen = tk.Variable(np.zeros(3, "float32"), trainable=False, aggregation="sum")

    def step(x):
        y = tk.matmul(x, kernel) * tk.cast(mask, "float32") + tk.cast(table, "float32")
        seen.assign_add(tk.reduce_sum(y, 0))
        return y

    return step, (kernel, table, mask, seen)


@pytest.mark.parametrize("compiled", [False, True])
def test_variables_reach_all_replicas_by_broadcasts(gpus, compiled):
    mine, theirs = strategies()
    count = len(mine.devices)
    given = made((2, 4), "float32", count)
    results = []
    for strategy in (mine, theirs):
        step, variables = counted(strategy)
        step = tk.function(step) if compiled else step
        parts = placed(strategy, given)
        gpus.handed.clear()
        with transfers.noted() as ledger:
            found = [strategy.run(step, (parts,)) for _ in range(3)]
        if strategy is mine:
            assert ledger.between == []
            sizes = sorted(size for name, size in gpus.handed if name == "broadcast")
            # what is a sum over replicas begins anew in each step
            assert sizes == sorted([48, 12, 3, 12, 12, 12])
            sends = [size for name, size in gpus.handed if name == "send"]
            assert sends == [12] * 3 * (count - 1)
        variables[0].assign(variables[0] * 2.0)
        gpus.handed.clear()
        found.append(strategy.run(step, (parts,)))
        if strategy is mine:
            assert ("broadcast", 48) in gpus.handed
            assert ("broadcast", 3) not in gpus.handed
        ys = [y.numpy().tobytes() for each in found for y in each.values]
        results.append((ys, [v.numpy().tobytes() for v in variables]))
    assert results[0] == results[1]


def fitted(strategy, tmp_path):
    tk.random.set_seed(3)
    return json.dumps(fit_cases.CASES["arrays"]())


def test_fit_begins_with_broadcasts(gpus, monkeypatch, tmp_path):
    monkeypatch.setattr(fit_cases, "FOLDER", tmp_path)
    found = []
    for strategy in strategies():
        monkeypatch.setattr(fit_cases, "STRATEGY", strategy)
        gpus.handed.clear()
        found.append(fitted(strategy, tmp_path))
        assert bool(gpus.handed) == (len(found) == 1)
    if len(strategy.devices) == 2:  # a + b is b + a; of three, rings and copies may differ
        assert found[0] == found[1]


# ---------------------------------------------------------------------- beside other work


def training(strategy, compiled, layers=4):
    """A step whose sums begin during the backward pass."""
    tk.random.set_seed(3)
    with strategy.scope():
        dense = [tk.keras.layers.Dense(8, "tanh") for _ in range(layers)]
        model = tk.keras.Sequential([tk.keras.Input((6,)), *dense, tk.keras.layers.Dense(1)])
        optimizer = tk.keras.optimizers.SGD(0.1)

    def step(x):
        with tk.GradientTape() as tape:
            loss = tk.reduce_mean(model(x) ** 2)
        if compiled:
            grads = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        else:
            optimizer.minimize(loss, model.trainable_variables, tape=tape)

    count = len(strategy.devices)
    parts = placed(strategy, made((4, 6), "float32", count))
    return (tk.function(step) if compiled else step), parts, model


def logged(compiled, packs=0, steps=3):
    """The log of a step with a bucket for each variable, after others, and the variables."""
    strategy = DISTRIBUTE.MirroredStrategy(cross_device_ops=DISTRIBUTE.NcclAllReduce(packs))
    step, parts, model = training(strategy, compiled)
    for _ in range(steps):
        strategy.run(step, (parts,))
    with stream_log.written() as log:
        strategy.run(step, (parts,))
    return log, [w.numpy() for w in model.trainable_variables]


@pytest.mark.parametrize("compiled", [False, True])
def test_sums_run_beside_the_backward_pass(gpus, compiled):
    log, weights = logged(compiled)
    assert log.races == []
    for device in range(len(tk.config.list_physical_devices("GPU"))):
        mine = [step for step in log.steps if step[1] == device]
        sums = [step for step in mine if step[0] == "nccl"]
        assert len(sums) == 10  # a bucket for each variable
        assert len({ptr for _, _, ptr, _ in sums}) == 1
        assert sums[0][2] != 0  # a stream of its own
        known = [count for *_, count in sums]
        launched = sum(ptr == 0 for _, _, ptr, _ in mine)
        assert known == sorted(known)
        # the first waits for the first gradients alone: much is launched behind what it knows
        assert known[0] < known[-1] < launched
        assert known[0] <= 0.7 * known[-1]
    copied = DISTRIBUTE.MirroredStrategy(cross_device_ops=DISTRIBUTE.ReductionToOneDevice())
    step, parts, model = training(copied, compiled)
    for _ in range(4):
        copied.run(step, (parts,))
    for mine, weight in zip(weights, model.trainable_variables, strict=True):
        if len(copied.devices) == 2:
            np.testing.assert_array_equal(mine, weight.numpy())


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("size", "messages"), [(0, 1), (700, 3), (4, 10)])
def test_the_size_of_messages_is_a_setting(gpus, size, messages, compiled):
    options = DISTRIBUTE.CommunicationOptions(bytes_per_pack=size)
    strategy = DISTRIBUTE.MirroredStrategy(communication_options=options)
    step, parts, _ = training(strategy, compiled)
    for _ in range(3):
        gpus.sums.clear()
        strategy.run(step, (parts,))
    assert len(gpus.sums) == messages


@pytest.mark.parametrize(
    ("settings", "ops", "text"),
    [
        ({"gradient_dtype": "bfloat16"}, None, "gradient_dtype must be None, got 'bfloat16'"),
        ({"bytes_per_pack": 9}, "NcclAllReduce", "says how many messages there are"),
        ({"implementation": "NCCL"}, "ReductionToOneDevice", r"ReductionToOneDevice\(\) is asked"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(gpus, settings, ops, text):
    options = DISTRIBUTE.CommunicationOptions(**settings)
    ops = None if ops is None else getattr(DISTRIBUTE, ops)()
    with pytest.raises(ValueError, match=text):
        DISTRIBUTE.MirroredStrategy(cross_device_ops=ops, communication_options=options)
    with pytest.raises(TypeError, match=r"must be a tk\.distribute\.Comm"):
        DISTRIBUTE.MirroredStrategy(communication_options={"bytes_per_pack": 9})


@pytest.mark.parametrize("compiled", [False, True])
def test_the_last_replica_starts_sums_while_it_still_goes_back(gpus, compiled):
    log, _ = logged(compiled)
    last = len(tk.config.list_physical_devices("GPU")) - 1
    mine = [(name, ptr) for name, device, ptr, _ in log.steps if device == last]
    first = mine.index(next(step for step in mine if step[0] == "nccl"))
    end = len(mine) - mine[::-1].index(next(s for s in mine[::-1] if s[0] == "nccl"))
    between = [name for name, ptr in mine[first:end] if ptr == 0]
    assert len(between) >= 9  # what gradients of other layers are made of


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("what", ["before", "behind"])
def test_a_wait_that_is_left_out_is_seen(gpus, monkeypatch, compiled, what):
    if what == "before":
        path = "trainkit.collectives.nccl_devices._follow"
        monkeypatch.setattr(path, lambda stream, messages: None)
    else:
        monkeypatch.setattr(Message, "settle", lambda self: None)
    log, _ = logged(compiled)
    assert log.races
    assert any("nccl" in race for race in log.races)


@pytest.mark.parametrize("left_out", [None, "before", "behind"])
def test_what_is_handed_on_is_ordered(gpus, monkeypatch, left_out):
    strategy = DISTRIBUTE.MirroredStrategy()
    if left_out == "before":
        monkeypatch.setattr("trainkit.collectives.nccl_devices._follow", lambda s, m: None)
    if left_out == "behind":
        monkeypatch.setattr(Message, "settle", lambda self: None)
    count = len(strategy.devices)
    with stream_log.written() as log:
        step, _ = counted(strategy)
        value = strategy.run(step, (placed(strategy, made((2, 4), "float32", count)),))
        strategy.reduce("MEAN", value)
        strategy.gather(value, 0)
    assert bool(log.races) == bool(left_out)


def test_what_a_failed_step_began_is_waited_for_before_the_next(gpus):
    strategy = DISTRIBUTE.MirroredStrategy()

    def step(fails):
        group = replicas.current().group
        array = tk.ones(3)._array
        work = group.start_all_reduce(array)
        if fails and group.rank == group.size - 1:
            raise ArithmeticError("of the last replica")
        return tk.constant(work.wait())

    with stream_log.written() as log:
        with pytest.raises(ArithmeticError, match="of the last replica"):
            strategy.run(step, (True,))
        assert len(gpus.sums) == 1  # the last one had started it
        found = strategy.run(step, (False,))
    assert [y.numpy().tolist() for y in found.values] == [[float(len(found.values))] * 3] * len(
        found.values
    )
    assert log.races == []


def test_replicas_that_differ_are_told_and_start_nothing(gpus):
    strategy = DISTRIBUTE.MirroredStrategy()

    def step():
        group = replicas.current().group
        size = 3 + (group.rank == group.size - 1)
        return group.start_all_reduce(tk.ones(size)._array).wait()

    with pytest.raises(tk.errors.FailedPreconditionError, match="all_reduce of 4 float32"):
        strategy.run(step)
    assert gpus.sums == []


def test_a_sum_that_was_lost_says_so(gpus):
    strategy = DISTRIBUTE.MirroredStrategy()

    def step():
        group = replicas.current().group
        first = group.start_all_reduce(tk.ones(3 + group.rank)._array)
        second = group.start_all_reduce(tk.ones(2)._array)
        with pytest.raises(tk.errors.FailedPreconditionError, match="ranks"):
            first.wait()
        with pytest.raises(tk.errors.FailedPreconditionError, match="begin it again"):
            second.wait()
        again = group.start_all_reduce(tk.ones(2)._array)
        return tk.constant(again.wait())

    found = strategy.run(step)
    count = float(len(strategy.devices))
    assert [y.numpy().tolist() for y in found.values] == [[count] * 2] * len(strategy.devices)
