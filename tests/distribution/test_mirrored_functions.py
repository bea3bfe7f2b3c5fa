"""`MirroredStrategy.run` with traced functions, given to it or around it, in each replica."""

import contextlib
import threading

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from tests.stand_in import nccl
from trainkit import keras
from trainkit.graph.tracing import concrete

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(22, 5)).astype("float32")
Y = RANDOM.normal(size=(22, 1)).astype("float32")
HOW = ["eager", "given", "around", "around both"]
DEVICES = ["cpu 2", "cpu 3", "gpu 2", "gpu 3"]


@contextlib.contextmanager
def devices_of(name):
    """The names of so many devices, while they are there."""
    kind, count = name.split()
    if kind == "cpu":
        yield ["/cpu:0"] * int(count)
        return
    with stand_in.in_place(gpus=int(count)), nccl.in_place():
        yield [f"/gpu:{k}" for k in range(int(count))]


@pytest.fixture
def compiled_alone(monkeypatch):
    """A graph that is run operation by operation fails."""

    def refused(graph, tensors):
        raise AssertionError(f"{graph} runs operation by operation")

    monkeypatch.setattr(concrete, "replay", refused)


def plain():
    return [keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)]


def normalized():
    meets = keras.layers.BatchNormalization(synchronized=True, momentum=0.5)
    return [keras.layers.Dense(8, "tanh"), meets, keras.layers.Dense(1)]


class Loop:
    """A loop of a program's own, whose numbers do not depend on the number of replicas."""

    def __init__(self, names, layers=plain, optimizer=None):
        self.strategy = tk.distribute.MirroredStrategy(names)
        tk.random.set_seed(3)
        with self.strategy.scope():
            self.model = keras.Sequential([keras.Input((5,)), *layers()])
            self.optimizer = optimizer() if optimizer else keras.optimizers.Adam(0.01)
            self.metric = keras.metrics.Mean()
        self.python_calls = 0

    def step(self, x, y):
        self.python_calls += 1
        with tk.GradientTape() as tape:
            errors = (tk.cast(self.model(x, training=True), "float32") - y) ** 2
            loss = tk.reduce_sum(errors) / 8
            scaled = self.optimizer.scale_loss(loss)
        weights = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(scaled, weights), weights, strict=True))
        self.metric.update_state(errors)
        return loss

    def run(self, how, epochs=3):
        """The loss of each step, the metric of each epoch and the weights."""
        step = tk.function(self.step) if how in ("given", "around both") else self.step

        def outer(batch):
            return self.strategy.reduce("SUM", self.strategy.run(step, batch))

        outer = tk.function(outer) if how.startswith("around") else outer
        data = tk.data.Dataset.from_tensor_slices((X, Y)).batch(8)
        found = []
        for _ in range(epochs):
            self.metric.reset_state()
            for batch in self.strategy.experimental_distribute_dataset(data):
                found.append(float(outer(batch)))
            found.append(float(self.metric.result()))
        weights = [w.numpy().ravel() for w in self.model.weights]
        return np.concatenate([found, *weights])


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("layers", [plain, normalized])
def test_replicas_step_as_one_device_does(request, layers, devices, how):
    expected = Loop(["/cpu:0"], layers).run("eager")
    if how != "eager":
        request.getfixturevalue("compiled_alone")
    with devices_of(devices) as names:
        loop = Loop(names, layers)
        found = loop.run(how)
        assert int(loop.optimizer.iterations) == 9
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)
    count = len(names)
    # the batches of 8 and of 6 rows, in parts of up to two sizes, and once more for new variables
    assert loop.python_calls == 9 * count if how == "eager" else loop.python_calls <= 4 * count + 1


def scaled_and_accumulated():
    inner = keras.optimizers.SGD(0.05, momentum=0.5, gradient_accumulation_steps=2)
    return keras.optimizers.LossScaleOptimizer(inner, initial_scale=64.0, dynamic_growth_steps=3)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("devices", ["cpu 2", "gpu 2"])
def test_scaled_losses_and_accumulated_gradients(devices, how):
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        expected = Loop(["/cpu:0"], optimizer=scaled_and_accumulated).run("eager")
        with devices_of(devices) as names:
            found = Loop(names, optimizer=scaled_and_accumulated).run(how)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    np.testing.assert_allclose(found, expected, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("how", HOW[1:])
def test_an_overflow_in_one_replica_leaves_the_step_out_in_all(how):
    def scaled():
        return keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=64.0)

    loop = Loop(["/cpu:0"] * 2, optimizer=scaled)
    step = tk.function(loop.step) if how != "around" else loop.step
    run = loop.strategy.run
    outer = tk.function(lambda batch: run(step, batch)) if how != "given" else None
    before = [w.numpy() for w in loop.model.weights]
    values = [np.ones((2, 5), "float32"), np.full((2, 5), np.inf, "float32")]
    x = tk.distribute.PerReplica(tuple(map(tk.constant, values)))
    y = tk.distribute.PerReplica((tk.zeros((2, 1)),) * 2)
    outer((x, y)) if outer else run(step, (x, y))
    for weight, old in zip(loop.model.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), old)
    assert float(loop.optimizer.dynamic_scale) == 32.0


@pytest.mark.parametrize("devices", DEVICES)
def test_variables_of_all_replicas_are_equal_and_on_their_devices(compiled_alone, devices):
    with devices_of(devices) as names:
        loop = Loop(names)
        loop.run("given")
        strategy, seen = loop.strategy, []

        def look():
            values = [v.value() for v in (*loop.model.weights, *loop.optimizer.variables)]
            seen.append([(v.numpy(), v.device) for v in values if v.shape.rank])

        strategy.run(look)
    first, *others = seen
    for rank, other in enumerate(others, 1):
        for (mine, _), (theirs, device) in zip(first, other, strict=True):
            np.testing.assert_array_equal(mine, theirs)
            assert device == strategy.devices[rank].name


@pytest.mark.parametrize("how", HOW)
def test_values_of_each_replica_and_sums_within_a_step(how):
    strategy = tk.distribute.MirroredStrategy(["/cpu:0"] * 3)
    v = tk.Variable([1.0, 2.0])

    def step(x):
        context = tk.distribute.get_replica_context()
        total = context.all_reduce("SUM", x + v)
        mean = context.all_reduce("MEAN", {"x": x})["x"]
        v.assign_add(total)
        return {"mean": mean, "own": x * v, "rank": context.replica_id_in_sync_group, "none": None}

    given = tk.function(step) if how in ("given", "around both") else step
    run = tk.function(strategy.run) if how.startswith("around") else strategy.run
    for turn in range(2):
        x = tk.distribute.PerReplica(tuple(tk.constant([k, 1.0]) for k in range(3)))
        start = v.numpy()
        found = run(given, (x,))
        after = start + 3.0 + 3 * start
        np.testing.assert_allclose(v.numpy(), after, err_msg=str(turn))
        assert [y.numpy().tolist() for y in found["mean"].values] == [[1.0, 1.0]] * 3
        for k, own in enumerate(found["own"].values):
            np.testing.assert_allclose(own.numpy(), [k, 1.0] * after)
        assert [int(r) for r in found["rank"].values] == [0, 1, 2]
        assert found["none"].values == (None, None, None)


AGGREGATIONS = ["none", "only_first_replica", "sum", "mean"]
AGGREGATIONS += [*tk.VariableAggregation, None]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("devices", ["cpu 3", "gpu 2"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_variable_comes_out_of_a_step_as_its_aggregation_says(dtype, devices, how):
    with devices_of(devices) as names:
        strategy = tk.distribute.MirroredStrategy(names)
        with strategy.scope():
            made = [
                tk.Variable(np.array([0, 10], dtype), trainable=False, aggregation=a)
                for a in AGGREGATIONS
            ]

        def step(x):
            rank = tk.distribute.get_replica_context().replica_id_in_sync_group
            for v in made:
                v.assign_add(x * tk.cast(rank + 1, dtype))
            made[-1].assign(made[-1] * 1)

        given = tk.function(step) if how in ("given", "around both") else step
        run = tk.function(strategy.run) if how.startswith("around") else strategy.run
        for _ in range(3):
            run(given, (tk.constant(np.array([2, 4], dtype)),))
        by_first = [np.array([0, 10]) + 3 * np.array([2, 4])] * len(made)
        ranks = np.arange(1, len(names) + 1)
        mean = (ranks[:, None] * [2, 4]).mean(0).astype(dtype)  # integers lose their fraction
        times = {"sum": ranks.sum() * np.array([2, 4]), "mean": mean}
        for v, a, first in zip(made, AGGREGATIONS, by_first, strict=True):
            name = getattr(a, "name", a)
            change = times.get(str(name).lower())
            wanted = first if change is None else np.array([0, 10]) + 3 * change
            np.testing.assert_allclose(v.numpy(), wanted, err_msg=f"{a}")
            assert v.dtype == dtype


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("late", [False, True])
def test_an_error_of_one_replica_ends_all_and_changes_nothing(how, rank, late):
    strategy = tk.distribute.MirroredStrategy(["/cpu:0"] * 2)
    v, fails = tk.Variable(np.arange(20_000, dtype="float32")), [True]

    def check(x):
        context = tk.distribute.get_replica_context()
        if fails and context.replica_id_in_sync_group == rank:
            raise RuntimeError("of a replica")
        return x

    def inner(x):
        v.assign_add(x)
        return tk.distribute.get_replica_context().all_reduce("SUM", v * x)

    inner = tk.function(inner) if how in ("given", "around both") else inner

    def step(x):
        x = x if late else check(x)
        y = inner(x)
        return check(y) if late else y

    outer = tk.function(lambda x: strategy.run(step, (x,))) if how.startswith("around") else None
    x, start = tk.ones(()), v.numpy()
    threads = threading.active_count()
    with pytest.raises(RuntimeError, match="of a replica"):
        outer(x) if outer else strategy.run(step, (x,))
    assert threading.active_count() <= threads + 1  # that of the second replica is kept
    np.testing.assert_array_equal(v.numpy(), start)
    fails.clear()
    found = outer(x) if outer else strategy.run(step, (x,))
    np.testing.assert_array_equal(v.numpy(), start + 1)
    for y in found.values:
        np.testing.assert_array_equal(y.numpy(), 2 * (start + 1))


def test_a_variable_that_is_assigned_between_runs_is_read_anew_by_graphs(compiled_alone):
    strategy = tk.distribute.MirroredStrategy(["/cpu:0"] * 2)
    v = tk.Variable(np.zeros(20_000, "float32"))
    add = tk.function(lambda: v.assign_add(tk.ones(20_000)))
    for start in (0.0, 5.0, 7.0):
        v.assign(tk.fill([20_000], start))
        held = v.value()
        for k in range(1, 4):
            strategy.run(add)
            assert v.numpy()[[0, -1]].tolist() == [start + k] * 2
        assert held.numpy()[[0, -1]].tolist() == [start] * 2


@pytest.mark.parametrize("how", HOW)
def test_a_metric_that_was_reset_begins_anew(how):
    strategy = tk.distribute.MirroredStrategy(["/cpu:0"] * 2)
    with strategy.scope():
        metric = keras.metrics.Mean()

    def step(x):
        metric.update_state(x)

    given = tk.function(step) if how in ("given", "around both") else step
    run = tk.function(strategy.run) if how.startswith("around") else strategy.run
    for value in (4.0, 2.0, 3.0):
        metric.reset_state()
        for _ in range(2):
            run(given, (tk.constant([value]),))
        assert (float(metric.result()), float(metric.count)) == (value, 4.0)


class Steps:
    def __init__(self, factor):
        self.factor = factor

    def step(self, x):
        CALLS.append(self.factor)
        return x * self.factor

    __call__ = step


CALLS = []


@pytest.mark.parametrize("kind", ["method", "closure", "default", "object"])
def test_what_a_function_refers_to_belongs_to_what_is_compiled(kind):
    strategy = tk.distribute.MirroredStrategy(["/cpu:0"] * 2)
    three, four = Steps(3.0), Steps(4.0)

    @tk.function
    def outer(x, number):
        owner = {3: three, 4: four}[number]
        given = {
            "method": owner.step,
            "closure": lambda x: owner.step(x),
            "default": lambda x, owner=owner: owner.step(x),
            "object": owner,
        }[kind]
        return strategy.reduce("SUM", strategy.run(given, (x,)))

    CALLS.clear()
    for _ in range(3):
        assert float(outer(tk.ones(()), 3)) == 6.0
        assert float(outer(tk.ones(()), 4)) == 8.0
    assert len(CALLS) == (12 if kind == "object" else 4)


def test_a_function_that_refers_to_new_tensors_each_time_is_right_and_says_that_it_is_slow():
    strategy = tk.distribute.MirroredStrategy(["/cpu:0"] * 2)

    @tk.function
    def outer(x):
        y = x * 2.0
        return strategy.reduce("SUM", strategy.run(lambda: y + 1.0))

    for k in range(8):
        assert float(outer(tk.constant(float(k)))) == 2 * (2 * k + 1)
    with pytest.warns(UserWarning, match="Give them to run as arguments"):
        assert float(outer(tk.constant(9.0))) == 38.0
    assert float(outer(tk.constant(10.0))) == 42.0


def test_functions_around_that_make_their_variables_and_loop():
    strategy = tk.distribute.MirroredStrategy(["/cpu:0"] * 2)
    made = {}

    @tk.function
    def inner(values):
        if "v" not in made:
            made["v"] = tk.Variable(1.0)
        return strategy.run(lambda x: made["v"].assign_add(x), (values,))

    @tk.function
    def outer(count):
        total = tk.zeros(())
        for _ in tk.range(count):
            total += strategy.reduce("MEAN", inner(tk.ones(())))
        return total

    assert float(outer(tk.constant(3))) == 2.0 + 3.0 + 4.0
    assert float(outer(tk.constant(1))) == 5.0
    assert float(made["v"]) == 5.0


def test_a_gradient_over_a_graph_in_a_replica():
    """A tape around sees what is in the graph, so it goes operation by operation, as elsewhere."""
    strategy = tk.distribute.MirroredStrategy(["/cpu:0"] * 2)
    v = tk.Variable([2.0, 3.0])
    square = tk.function(lambda: tk.reduce_sum(v * v))

    def step():
        with tk.GradientTape() as tape:
            y = square()
        gradient = tape.gradient(y, v)
        v.assign_sub(tk.distribute.get_replica_context().all_reduce("MEAN", gradient))

    strategy.run(step)
    assert v.numpy().tolist() == [-2.0, -3.0]


def test_counts_on_the_host_stay_there():
    with devices_of("gpu 2") as names:
        loop = Loop(names)
        before = loop.optimizer.iterations.device
        loop.run("given", epochs=1)
        assert loop.optimizer.iterations.device == before == "/device:CPU:0"


@pytest.mark.parametrize("where", ["run", "fit"])
def test_replicas_that_would_wait_for_a_trace_do_not_hang(where):
    strategy = tk.distribute.MirroredStrategy(["/cpu:0"] * 2)
    meets = [True]

    class Meets(keras.layers.Layer):
        def call(self, x):
            context = tk.distribute.get_replica_context()
            with tk.init_scope():
                if context is not None and meets:
                    context.all_reduce("SUM", tk.ones(2))
            return x

    with strategy.scope():
        model = keras.Sequential([keras.Input((5,)), Meets(), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    if where == "fit":  # which goes on operation by operation
        with pytest.warns(UserWarning, match="can't be compiled .*while a function is traced"):
            model.fit(X, Y, batch_size=8, epochs=8, verbose=0)
        return
    call = tk.function(lambda x: model(x))
    with pytest.raises(tk.errors.FailedPreconditionError, match="while a function is traced"):
        strategy.run(call, (tk.ones((2, 5)),))
    meets.clear()
    assert strategy.run(call, (tk.ones((2, 5)),)).values[1].shape == (2, 1)


def test_explain_names_replicas_and_what_runs_as_python():
    strategy = tk.distribute.MirroredStrategy(["/cpu:0"] * 2)
    double = tk.function(lambda x: x * 2.0)
    outer = tk.function(lambda x: strategy.run(double, (x,)))
    outer(tk.ones(2))
    outer(tk.ones(3))
    assert outer.explain().endswith("runs as Python, as it calls run of a MirroredStrategy")
    text = double.explain()
    for rank in range(2):
        assert text.count(f"in replica {rank} of 2") == 2
    assert text.count("first call: x: tensor of shape (2,)") == 2
    assert text.count("x: tensor of shape (2,) and dtype float32 -> tensor of shape (3,)") == 2
    assert "arg_1" not in text


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("names", [["/gpu:0", "/gpu:1"], ["/cpu:0"] * 2, ["/cpu:0", "/gpu:1"]])
def test_arguments_come_to_the_device_of_each_replica(names, how):
    with stand_in.in_place(gpus=2), nccl.in_place():
        strategy = tk.distribute.MirroredStrategy(names)
        with strategy.scope():
            v = tk.Variable([1.0, 2.0])

        def step(x, text, *, more):
            y = x["one"] * v + more[0]
            assert text.dtype == "string"
            v.assign_add(more[0])
            return y, more[1]

        given = tk.function(step) if how in ("given", "around both") else step
        run = tk.function(strategy.run) if how.startswith("around") else strategy.run
        one, other = tk.constant([3.0, 4.0]), tk.constant([5.0, 6.0])  # on the first GPU
        text = tk.constant(["a", "b"])
        for turn in range(3):
            start, own = v.numpy(), tk.distribute.PerReplica((one, other))
            found = run(given, ({"one": own}, text), {"more": (one, None)})
            for y, x, place in zip(found[0].values, (one, other), strategy.devices, strict=True):
                assert y.device == place.name, turn
                np.testing.assert_allclose(y.numpy(), x.numpy() * start + one.numpy())
            assert found[1].values == (None, None)
            np.testing.assert_allclose(v.numpy(), start + one.numpy())
        assert one.device == other.device == "/device:GPU:0"
