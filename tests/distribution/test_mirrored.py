"""`MirroredStrategy`: threads of one process step as one replica does."""

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(24, 5)).astype("float32")
Y = RANDOM.normal(size=(24, 1)).astype("float32")


def made(strategy):
    tk.random.set_seed(3)
    with strategy.scope():
        model = tk.keras.Sequential(
            [tk.keras.Input((5,)), tk.keras.layers.Dense(8, "tanh"), tk.keras.layers.Dense(1)]
        )
        return model, tk.keras.optimizers.Adam(0.01)


def trained(strategy, compiled, epochs=4):
    model, optimizer = made(strategy)

    def step(x, y):
        with tk.GradientTape() as tape:
            loss = tk.reduce_sum((model(x) - y) ** 2) / 8
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    step = tk.function(step) if compiled else step
    dataset = tk.data.Dataset.from_tensor_slices((X, Y)).batch(8)
    batches = strategy.experimental_distribute_dataset(dataset)
    for _ in range(epochs):
        for batch in batches:
            loss = strategy.reduce("SUM", strategy.run(step, batch))
    return float(loss), [w.numpy() for w in model.weights], optimizer


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("count", [2, 3])
def test_replicas_of_one_process_step_as_one_does(count, compiled):
    loss, weights, optimizer = trained(tk.distribute.MirroredStrategy(["/cpu:0"] * count), compiled)
    expected, expected_weights, _ = trained(tk.distribute.OneDeviceStrategy("/cpu:0"), compiled)
    assert loss == pytest.approx(expected, rel=1e-5)
    for mine, theirs in zip(weights, expected_weights, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)
    assert int(optimizer.iterations) == 12


@pytest.fixture
def two_gpus():
    with stand_in.in_place(gpus=2):
        yield


def test_two_gpus_step_as_one_does(two_gpus):
    loss, weights, _ = trained(tk.distribute.MirroredStrategy(), compiled=False)
    expected, expected_weights, _ = trained(tk.distribute.OneDeviceStrategy("/gpu:1"), False)
    assert loss == pytest.approx(expected, rel=1e-5)
    for mine, theirs in zip(weights, expected_weights, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)


def test_two_gpus_have_a_copy_each(two_gpus):
    strategy = tk.distribute.MirroredStrategy()
    seen = []

    def step(x):
        seen.append((x.device, v.value().device))
        v.assign_add(tk.distribute.get_replica_context().all_reduce("SUM", tk.reduce_sum(x)))

    v = tk.Variable(1.0)
    dataset = tk.data.Dataset.from_tensor_slices(np.ones(4, "float32")).batch(4)
    for batch in strategy.experimental_distribute_dataset(dataset):
        strategy.run(step, (batch,))
    assert sorted(seen) == [("/device:GPU:0",) * 2, ("/device:GPU:1",) * 2]
    assert float(v) == 5.0


def test_a_variable_that_was_assigned_outside_is_read_anew():
    strategy = tk.distribute.MirroredStrategy(["/cpu:0", "/cpu:0"])
    v = tk.Variable([1.0, 2.0])
    strategy.run(lambda: v.assign_add([1.0, 1.0]))
    assert v.numpy().tolist() == [2.0, 3.0]
    v.assign([10.0, 10.0])
    strategy.run(lambda: v.assign_add([1.0, 1.0]))
    assert v.numpy().tolist() == [11.0, 11.0]


def test_metrics_count_all_replicas():
    strategy = tk.distribute.MirroredStrategy(["/cpu:0", "/cpu:0"])
    metric = tk.keras.metrics.Mean()

    def step(x):
        metric.update_state(x)

    for k in range(2):
        values = tk.distribute.PerReplica((tk.constant([1.0 + k]), tk.constant([3.0 + k])))
        strategy.run(step, (values,))
    assert float(metric.result()) == 2.5
    assert float(metric.count) == 4.0


def test_results_are_joined():
    strategy = tk.distribute.MirroredStrategy(["/cpu:0", "/cpu:0"])
    values = tk.distribute.PerReplica((tk.ones((1, 2)), 4.0 * tk.ones((2, 2))))
    assert strategy.gather(values, 0).shape == (3, 2)
    assert strategy.reduce("MEAN", values, axis=0).numpy().tolist() == [3.0, 3.0]
    assert len(strategy.experimental_local_results(values)) == 2
    assert "0: " in repr(values)


def test_an_error_of_one_replica_is_raised_and_the_next_run_works():
    strategy = tk.distribute.MirroredStrategy(["/cpu:0", "/cpu:0"])
    v = tk.Variable(1.0)

    def step(fails):
        context = tk.distribute.get_replica_context()
        v.assign_add(1.0)
        if fails and context.replica_id_in_sync_group == 1:
            raise RuntimeError("of replica 1")
        return context.all_reduce("SUM", tk.ones(()))

    with pytest.raises(RuntimeError, match="of replica 1"):
        strategy.run(step, (True,))
    assert float(v) == 1.0
    assert float(strategy.reduce("MEAN", strategy.run(step, (False,)))) == 2.0
    assert float(v) == 2.0


def test_replicas_that_go_different_ways_are_told_apart():
    strategy = tk.distribute.MirroredStrategy(["/cpu:0", "/cpu:0"])

    def step():
        context = tk.distribute.get_replica_context()
        return context.all_reduce("SUM", tk.ones(1 + context.replica_id_in_sync_group))

    with pytest.raises(tk.errors.FailedPreconditionError, match=r"rank 0: .* of 1 float32; rank 1"):
        strategy.run(step)


def test_what_does_not_go():
    strategy = tk.distribute.MirroredStrategy(["/cpu:0", "/cpu:0"])
    with pytest.raises(tk.errors.FailedPreconditionError, match="has no graph of its own"):
        tk.function(lambda: strategy.run(lambda: tk.ones(1))).get_concrete_function()
    with pytest.raises(tk.errors.FailedPreconditionError, match="can't be called in a replica"):
        strategy.run(lambda: strategy.run(lambda: tk.ones(1)))
    dataset = tk.data.Dataset.from_tensor_slices(X).batch(1)
    with pytest.raises(tk.errors.FailedPreconditionError, match=r"1 rows .* 2 replicas"):
        next(iter(strategy.experimental_distribute_dataset(dataset)))
    with pytest.raises(ValueError, match="cross_device_ops"):
        tk.distribute.MirroredStrategy(cross_device_ops=1)
    with pytest.raises(ValueError, match="list of names"):
        tk.distribute.MirroredStrategy("/cpu:0")
    with pytest.raises(tk.errors.DeviceError):
        tk.distribute.OneDeviceStrategy("/gpu:99")


def test_values_are_made_for_each_replica():
    strategy = tk.distribute.MirroredStrategy(["/cpu:0", "/cpu:0"])
    values = strategy.experimental_distribute_values_from_function(
        lambda context: tk.constant(context.replica_id_in_sync_group + 1.0)
    )
    total = strategy.reduce("SUM", strategy.run(lambda x: x * 10.0, (values,)))
    assert float(total) == 30.0
    assert tk.distribute.Strategy().experimental_distribute_values_from_function(
        lambda context: tuple(context)
    ) == (0, 1)


def test_devices_may_be_those_of_a_list_or_none():
    assert tk.distribute.MirroredStrategy([]).num_replicas_in_sync >= 1
    cpus = tk.config.list_logical_devices("CPU")
    assert tk.distribute.MirroredStrategy(cpus).num_replicas_in_sync == len(cpus)
    with pytest.raises(ValueError, match="a list of names"):
        tk.distribute.MirroredStrategy("/cpu:0")


def test_earlier_names():
    experimental = tk.distribute.experimental
    options = experimental.CommunicationOptions(
        implementation=experimental.CommunicationImplementation.AUTO
    )
    strategy = experimental.MultiWorkerMirroredStrategy(communication_options=options)
    assert strategy.cluster_resolver == ("worker", 0)
    with pytest.raises(AttributeError, match="MirroredStrategy keeps a copy"):
        _ = experimental.CentralStorageStrategy
    with pytest.raises(AttributeError, match="cross_device_ops takes NcclAllReduce"):
        _ = tk.distribute.CrossDeviceOps


@pytest.mark.parametrize(
    "name", ["TPUStrategy", "ParameterServerStrategy", "CentralStorageStrategy", "coordinator"]
)
def test_strategies_that_are_not_here_name_those_that_are(name):
    with pytest.raises(AttributeError, match=r"MirroredStrategy trains on all GPUs .* mpiexec"):
        getattr(tk.distribute, name)


def test_one_device_strategies_work_on_their_gpu(two_gpus):
    for strategy in (
        tk.distribute.OneDeviceStrategy("/gpu:1"),
        tk.distribute.MirroredStrategy(["/gpu:1"]),
    ):
        model, optimizer = made(strategy)
        model.compile(optimizer, "mse")
        model.fit(X, Y, batch_size=8, epochs=2, verbose=0)
        model.train_on_batch(X, Y)
        slots = {v.device for v in optimizer.variables if v.shape.rank}
        assert {w.device for w in model.weights} == slots == {"/device:GPU:1"}
        assert model.predict(X, verbose=0).shape == (24, 1)
