"""Replicas in threads over real CuPy: what a step of `fit` launches, copies and waits for."""

import numpy as np
import pytest

import trainkit as tk
from tests.null_driver import nccl
from tests.null_driver.counting import counted
from tests.null_driver.installing import SEEN
from trainkit.collectives.replica import current
from trainkit.core import devices

STEPS = 10


def counts_of(strategy):
    """What an epoch of `fit` does, of STEPS steps, after two others."""
    with strategy.scope():
        layers = [tk.keras.layers.Dense(32, "relu"), tk.keras.layers.Dense(1)]
        model = tk.keras.Sequential([tk.keras.Input((16,)), *layers])
        model.compile("adam", "mse")
    x, y = np.ones((32 * STEPS, 16), "float32"), np.ones((32 * STEPS, 1), "float32")
    model.fit(x, y, batch_size=32, epochs=2, verbose=0)
    with counted() as counts:
        model.fit(x, y, batch_size=32, epochs=1, verbose=0)
    return counts


def replicas(count):
    """So many on one GPU."""
    return tk.distribute.MirroredStrategy(["/gpu:0"] * count)


def test_a_step_of_two_replicas_copies_batches_once_and_hardly_waits(cupy):
    counts = counts_of(replicas(2))
    assert counts.to_device == 2 * STEPS  # x and y of a batch; its parts are views
    assert counts.waits <= 7 * STEPS  # metrics, of which each replica reads its own
    assert counts.launches <= 65 * STEPS
    assert counts.graphs == 0  # sums over replicas can't be captured


def test_three_replicas_do_what_two_do_half_as_much_again(cupy):
    two, three = counts_of(replicas(2)), counts_of(replicas(3))
    assert three.to_device == two.to_device
    assert two.library < three.library <= 1.5 * two.library


@pytest.fixture(params=[2, 3])
def gpus(request, cupy):
    """So many GPUs, of which none reads the memory of another, and NCCL."""
    nccl.install()
    SEEN.gpus = request.param
    _look_again()
    yield request.param
    SEEN.gpus = 1
    _look_again()


def _look_again():
    for found in (devices.parse, devices.several_gpus):
        found.cache_clear()


def counts_of_a_loop(strategy, how, layers=2):
    """What a step of a program's own does, once it is compiled and variables are in place."""
    with strategy.scope():
        dense = [tk.keras.layers.Dense(32, "relu") for _ in range(layers)]
        model = tk.keras.Sequential([tk.keras.Input((16,)), *dense])
        optimizer = tk.keras.optimizers.SGD(0.1)

    def step(x):
        with tk.GradientTape() as tape:
            loss = tk.reduce_sum(model(x) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    given = tk.function(step) if how == "given" else step
    run = tk.function(strategy.run) if how == "around" else strategy.run
    data = tk.data.Dataset.from_tensor_slices(np.ones((48, 16), "float32")).batch(48)
    (batch,) = strategy.experimental_distribute_dataset(data)
    for _ in range(5):
        run(given, (batch,))
    with counted() as counts:
        run(given, (batch,))
    return counts


@pytest.mark.parametrize("how", ["eager", "given", "around"])
@pytest.mark.parametrize(("packs", "messages"), [(None, 1), (2, 2), (0, 4)])
def test_a_step_calls_nccl_once_for_each_bucket_and_device(gpus, how, packs, messages):
    ops = None if packs is None else tk.distribute.NcclAllReduce(packs)
    counts = counts_of_a_loop(tk.distribute.MirroredStrategy(cross_device_ops=ops), how)
    assert 0 < counts.names["ncclAllReduce"] <= messages * gpus
    assert (counts.to_host, counts.to_device, counts.waits) == (0, 0, 0)
    assert counts.graphs == 0


@pytest.mark.parametrize("name", ["HierarchicalCopyAllReduce", "ReductionToOneDevice"])
def test_without_nccl_sums_are_copied_from_device_to_device(gpus, name):
    ops = getattr(tk.distribute, name)()
    counts = counts_of_a_loop(tk.distribute.MirroredStrategy(cross_device_ops=ops), "given")
    assert counts.names["ncclAllReduce"] == 0
    assert (counts.to_host, counts.to_device, counts.waits) == (0, 0, 0)
    by_nccl = counts_of_a_loop(tk.distribute.MirroredStrategy(), "given")
    # to where they are added up, back, and there into their place
    assert counts.on_device <= by_nccl.on_device + 3 * (gpus - 1)


def test_a_step_of_fit_calls_nccl_once_for_each_device(gpus):
    counts = counts_of(tk.distribute.MirroredStrategy())
    assert counts.names["ncclAllReduce"] == STEPS * gpus
    assert counts.to_device == 2 * STEPS
    assert counts.to_host <= (3 * gpus + 1) * STEPS  # metrics, of which each replica reads its own


def calls_of(counts):
    """How often each function of NCCL was called."""
    return {name: n for name, n in counts.names.items() if name.startswith("nccl")}


def test_values_of_replicas_come_together_by_nccl(gpus):
    strategy = tk.distribute.MirroredStrategy()

    def step():
        x = tk.ones((4, 3))
        return [x, x + 1.0]

    for _ in range(2):
        values = strategy.run(step)
        with counted() as counts:
            strategy.reduce("SUM", values)
        assert calls_of(counts) == {"ncclReduce": 2 * gpus}
        assert (counts.to_host, counts.to_device, counts.on_device, counts.waits) == (0, 0, 0, 0)
        with counted() as counts:
            strategy.gather(values, 0)
        others = 2 * (gpus - 1)
        assert calls_of(counts) == {"ncclSend": others, "ncclRecv": others}
        assert (counts.to_host, counts.to_device, counts.waits) == (0, 0, 0)


def test_variables_reach_all_gpus_by_broadcasts(gpus):
    strategy = tk.distribute.MirroredStrategy()
    with strategy.scope():
        variables = [tk.Variable(tk.ones((4, 3))) for _ in range(5)]

    def step():
        return sum(variables[1:], variables[0])

    found = []
    for _ in range(3):
        with counted() as counts:
            strategy.run(step)
        found.append(calls_of(counts).get("ncclBroadcast", 0))
        assert (counts.to_host, counts.to_device, counts.on_device, counts.waits) == (0, 0, 0, 0)
        variables[0].assign(variables[0] + 1.0)
    assert found == [5 * gpus, gpus, gpus]


def test_a_step_within_replicas_hands_on_by_nccl(gpus):
    strategy = tk.distribute.MirroredStrategy()

    def step():
        group = current().group
        x = tk.ones((4, 3))._array
        group.broadcast(x, 1)
        return len(group.all_gather(x))

    strategy.run(step)
    with counted() as counts:
        assert strategy.run(step).values == (gpus,) * gpus
    assert calls_of(counts) == {"ncclBroadcast": gpus + gpus * gpus}
    assert (counts.to_host, counts.to_device, counts.on_device, counts.waits) == (0, 0, 0, 0)


def test_the_library_refuses_what_would_wait_for_ever(gpus, cupy):
    module = cupy.cuda.nccl
    first, second, *others = module.NcclCommunicator.initAll(list(range(gpus)))
    x = cupy.ones(3, "float32")
    call = (x.data.ptr, x.data.ptr, 3, module.NCCL_FLOAT32, module.NCCL_SUM, 0)
    with pytest.raises(module.NcclError):
        first.allReduce(*call)
    module.groupStart()
    first.allReduce(*call)
    with pytest.raises(module.NcclError):
        module.groupEnd()
    module.groupStart()
    for communicator in (first, second, *others):
        communicator.allReduce(*call)
    module.groupEnd()
    with pytest.raises(module.NcclError):
        module.NcclCommunicator.initAll([0, 0])
