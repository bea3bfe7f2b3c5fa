"""What can't be trained by several processes ends with a sentence that says what to do."""

import re
import sys

import pytest

import trainkit as tk
from tests.distribution.processes import needs_mpi, run_processes
from trainkit import keras

D = tk.data.Dataset


@needs_mpi
def test_mistakes_are_told_in_all_processes_and_nothing_hangs():
    code = r"""
    import re
    keras = tk.keras
    D = tk.data.Dataset
    x = np.ones((20, 3), np.float32)

    def made():
        with strategy.scope():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
            model.compile("sgd", "mse")
        return model

    def told(text, call):
        try:
            call()
        except Exception as error:
            assert re.search(text, str(error)), (type(error), str(error))
        else:
            raise AssertionError(f"no error, for {text}")

    def endless():
        while True:
            yield x[:4], x[:4, :1]

    def some(count):
        for _ in range(count):
            yield x[:4], x[:4, :1]

    def own_batches(context):
        count = 4 if context.input_pipeline_id == 0 else 0
        return D.from_tensor_slices((x, x[:, :1])).take(count).batch(2)

    model = made()
    told("a batch of 1 can't be divided among 2 replicas.*make it 2 or more",
         lambda: model.fit(x, x[:, :1], batch_size=1, verbose=0))
    told("a batch of 1 can't be divided among 2", lambda: model.fit(
        D.from_tensor_slices((x, x[:, :1])).batch(1), verbose=0))
    told("the first batch has 1 rows for 2 replicas",
         lambda: model.train_on_batch(x[:1], x[:1, :1]))
    told("the first batch has 1 rows for 2 replicas", lambda: model.fit(
        iter([(x[:1], x[:1, :1])]), verbose=0))
    told("the data set has no end: say how many batches make an epoch", lambda: model.fit(
        D.from_tensor_slices((x, x[:, :1])).batch(4).repeat(), verbose=0))
    told("the data has ended in rank 1 of 2, and goes on in others",
         lambda: model.fit(some(5 - rank), verbose=0))
    told(r"different numbers of batches \(rank 0: 3; rank 1: 4\)", lambda: model.fit(
        endless(), steps_per_epoch=3 + rank, verbose=0))
    told("must be divisible|is no multiple of the 2 replicas",
         lambda: tk.distribute.InputContext(2, rank, 2).get_per_replica_batch_size(5))
    told("TypeError|distributes a tk.data.Dataset, got list",
         lambda: strategy.experimental_distribute_dataset([1]))
    with strategy.scope():
        other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1 + rank)])
        other.compile("sgd", "mse")
    told("not the same in ranks 0 and 1.*make and build it in all of them alike",
         lambda: other.fit(x, x[:, :1], verbose=0))
    told(r"3 devices for 2 processes.*mpiexec -n 3",
         lambda: keras.distribution.DataParallel(devices=["cpu:0", "cpu:1", "cpu:2"]))
    assert keras.distribution.list_devices("cpu") == ["cpu:0", "cpu:1"]

    # ranks that part: settings, data, and what a callback does in one of them
    with strategy.scope():
        lossy = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        lossy.compile("sgd", ["mse", "mae"][rank])
    told("loss of compile is not the same in all ranks. rank 0: 'mse'; rank 1: 'mae'",
         lambda: lossy.fit(x, x[:, :1], verbose=0))
    with strategy.scope():
        bent = keras.layers.Dense(1, ["relu", "elu"][rank])
        slanted = keras.Sequential([keras.Input((3,)), bent])
        slanted.compile("sgd", "mse")
    told("layer 1 .Dense. is not the same.*rank 0: .*relu.*rank 1: .*elu",
         lambda: slanted.fit(x, x[:, :1], verbose=0))
    told("the data is not the same in all ranks.*seed what is drawn",
         lambda: made().fit(x + rank, x[:, :1], verbose=0))
    data = D.from_tensor_slices((x * (rank + 1), x[:, :1])).batch(4)
    told("the data is not the same in all ranks", lambda: made().fit(data, verbose=0))
    told("after epoch 1 the ranks have read other data", lambda: made().fit(
        iter([(x[:4] + rank, x[:4, :1])] * 2), verbose=0))

    def only_in_last(change):
        def at_end(epoch, logs):
            if rank and epoch == 1:
                change()
        return [keras.callbacks.LambdaCallback(on_epoch_end=at_end)]

    model = made()
    told("after epoch 2 the ranks do not hold the same: optimizer/learning_rate in rank 1 is not "
         r"that of rank 0 .rank 0: 0.00999\d*, rank 1: 0.5.\. A callback", lambda: model.fit(
         x, x[:, :1], epochs=3, verbose=0,
         callbacks=only_in_last(lambda: setattr(model.optimizer, "learning_rate", 0.5))))
    told("layers/1/kernel in rank 1 is not that of rank 0", lambda: model.fit(
         x, x[:, :1], epochs=3, verbose=0,
         callbacks=only_in_last(lambda: model.weights[0].assign_add(x[:3, :1]))))

    # and afterwards all goes on
    before = model.evaluate(x, x[:, :1], verbose=0)
    model.fit(x, x[:, :1], verbose=0)
    assert model.evaluate(x, x[:, :1], verbose=0) < before

    # data of each process's own: one that has less takes part until all are done
    def uneven(context):
        rows = D.from_tensor_slices((x, x[:, :1]))
        return rows.shard(context.num_input_pipelines, rank).take(8 - 6 * rank).batch(2)
    data = strategy.distribute_datasets_from_function(uneven)
    assert [len(b) for b, _ in data] == ([2, 2, 2, 2] if rank == 0 else [2, 0, 0, 0])
    history = model.fit(data, epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2

    # Keras's own way
    distribution = keras.distribution.DataParallel(auto_shard_dataset=False)
    keras.distribution.set_distribution(distribution)
    assert (distribution.num_data_shards, distribution.data_shard_id) == (2, rank)
    seen = []
    hears = keras.callbacks.LambdaCallback(on_train_batch_end=lambda b, logs: seen.append(b))
    plain = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    plain.compile("sgd", "mse")
    plain.fit(D.from_tensor_slices((x, x[:, :1])).shard(2, rank).batch(5), verbose=0,
              callbacks=[hears])
    assert seen == [0, 1], seen
    told("is inside of MultiWorkerMirroredStrategy.scope", made)
    keras.distribution.set_distribution(None)

    # a weight that becomes its gradient gets the greatest of all
    weight = keras.Variable(0.0)
    weight.overwrite_with_gradient = True
    plain = keras.Variable(0.0)
    optimizer = keras.optimizers.SGD(1.0)
    strategy.run(lambda: optimizer.apply(
        [tk.constant(3.0 - rank), tk.constant(1.0)], [weight, plain]))
    assert (float(weight), float(plain)) == (3.0, -2.0), (weight, plain)
    told("the data of rank 1 has no batch, that of others has", lambda: model.fit(
        strategy.distribute_datasets_from_function(own_batches), verbose=0))
    """
    run_processes(2, code)


def test_strategies_are_not_nested():
    outer, inner = tk.distribute.Strategy(), tk.distribute.Strategy()
    with outer.scope(), outer.scope():
        with pytest.raises(tk.errors.FailedPreconditionError, match="leave one of them out"):
            with inner.scope():
                pass


def test_launcher_without_mpi4py_is_told(monkeypatch):
    from trainkit.collectives import world

    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.delitem(sys.modules, "trainkit.collectives.mpi_group", raising=False)
    world.world.cache_clear()
    try:
        with pytest.raises(tk.errors.UnavailableError, match=r"pip install 'mpi4py"):
            tk.distribute.MultiWorkerMirroredStrategy()
    finally:
        world.world.cache_clear()


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"RANK": "1", "WORLD_SIZE": "2"}, "torchrun .*started 2 processes .RANK=1"),
        (
            {"TF_CONFIG": '{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, '
                          '"task": {"type": "worker", "index": 0}}'},
            "TF_CONFIG names 2 workers .this one is worker 0.*mpiexec -n N",
        ),
        ({"TF_CONFIG": "[1"}, "TF_CONFIG can't be read"),
    ],
)  # fmt: skip
def test_processes_of_launchers_that_are_not_served_do_not_train_alone(
    monkeypatch, variables, text
):
    from trainkit.collectives import world

    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    world.world.cache_clear()
    try:
        with pytest.raises(tk.errors.UnavailableError, match=text):
            tk.distribute.MultiWorkerMirroredStrategy()
    finally:
        world.world.cache_clear()


def test_first_of_two_strategies_stays_with_its_model():
    strategy = tk.distribute.Strategy()
    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(1)])
    assert model.distribute_strategy is strategy
    assert keras.Sequential().distribute_strategy is tk.distribute.get_strategy()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: keras.distribution.list_devices("tpu"), "must be one of ('cpu', 'gpu')"),
        (lambda: keras.distribution.initialize("10.0.0.1:80", 2, 0), "leave them out"),
        (lambda: keras.distribution.initialize(num_processes=2), "mpiexec -n 2"),
        (lambda: keras.distribution.initialize(process_id=1), "leave process_id out"),
        (lambda: keras.distribution.DeviceMesh((), []), "must have an axis"),
        (lambda: keras.distribution.DeviceMesh((1, 1), ["a"]), "the same length"),
        (lambda: keras.distribution.DeviceMesh((2,), ["a"], ["cpu:0"]), "2 places for 1 devices"),
        (lambda: keras.distribution.DataParallel("cpu"), "must be a DeviceMesh"),
        (
            lambda: keras.distribution.DataParallel(
                keras.distribution.DeviceMesh((1, 1), ["a", "b"], ["cpu:0"])
            ),
            "one axis",
        ),
        (lambda: keras.distribution.DataParallel(devices=["cpu:0", "cpu:1"]), "mpiexec -n 2"),
        (lambda: keras.distribution.set_distribution("all"), "takes a DataParallel or None"),
        (
            lambda: tk.distribute.Strategy().distribute_datasets_from_function(lambda c: [1]),
            "must give a tk.data.Dataset, it gave list",
        ),
    ],
)
def test_message(call, message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        call()


def test_programs_that_try_for_a_tpu_go_on_without():
    resolver = tk.distribute.cluster_resolver.TPUClusterResolver
    for ask in (resolver, lambda: resolver(tpu="local"), resolver.connect):
        with pytest.raises(ValueError, match=r"no TPUs; use tk.distribute.MirroredStrategy"):
            ask()
    with pytest.raises(AttributeError, match=r"the launcher, such as mpiexec"):
        _ = tk.distribute.cluster_resolver.SlurmClusterResolver
