"""Gradients travel in buckets while a compiled backward pass still runs; sums are the same."""

import json
import warnings

import numpy as np
import pytest

import trainkit as tk
from tests.distribution.processes import needs_mpi, run_processes
from trainkit.collectives.communication import buckets
from trainkit.collectives.process_group import ProcessGroup
from trainkit.collectives.replica import GlobalRows, Replica
from trainkit.optimizers.base.sharded_state import sharded_state


def test_buckets_hold_what_fits_and_the_first_is_small():
    assert buckets([10, 10, 10, 300, 20, 20], 100) == [[0], [1, 2], [3], [4, 5]]
    assert buckets([], 100) == []
    assert buckets([4 << 20, 1], 8 << 20) == [[0], [1]]


class Echo(ProcessGroup):
    """Two ranks that have the same values; notes the sizes of what is joined."""

    size = 2

    def __init__(self):
        self.sizes = []

    def all_reduce(self, array, reduction="SUM", label=""):
        self.sizes.append(array.size)
        array *= 2
        return array

    def start_all_reduce(self, array, reduction="SUM", label=""):
        from trainkit.collectives.process_group import Work

        self.all_reduce(array, reduction, label)
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


class Noted(tk.keras.layers.Layer):
    """Passes its input on, and notes when the backward pass comes by."""

    def __init__(self, events, **kwargs):
        super().__init__(**kwargs)
        self.note = events.append

    def call(self, x):
        @tk.custom_gradient
        def noted(x):
            def grad(upstream):
                self.note(self.name)
                return upstream

            return tk.identity(x), grad

        return noted(x)


class Noting(Echo):
    """Notes sums among the events of a backward pass."""

    def __init__(self, events):
        super().__init__()
        self.events = events

    def all_reduce(self, array, reduction="SUM", label=""):
        self.events.append(label)
        return super().all_reduce(array, reduction, label)


def deep(events, bucket_bytes=400):
    """Four layers, between which the backward pass is noted, and the group that joins them."""
    tk.random.set_seed(1)
    parts = [tk.keras.Input((7,))]
    for i in range(4):
        parts += [tk.keras.layers.Dense(7, "tanh"), Noted(events, name=f"after_{i}")]
    group = Noting(events)
    group.communication = group.communication._replace(bucket_bytes=bucket_bytes)
    return tk.keras.Sequential(parts), group


def minimized(model, optimizer):
    def loss():
        return tk.reduce_sum(model(X) ** 2)

    return lambda: optimizer.minimize(loss, model.trainable_variables)


def minimized_from_tape(model, optimizer, persistent=False):
    def step():
        with tk.GradientTape(persistent=persistent) as tape:
            loss = tk.reduce_sum(model(X) ** 2)
        optimizer.minimize(loss, model.trainable_variables, tape=tape)

    return step


def fitted(model, optimizer):
    def loss(y_true, y_pred):
        return tk.reduce_sum((y_pred - y_true) ** 2)

    model.compile(optimizer, loss, run_eagerly=True)
    data = X, tk.zeros((5, 7))
    return lambda: model.train_step(data)


EAGER = {
    "minimize": minimized,
    "minimize of a tape": minimized_from_tape,
    "minimize of a persistent tape": lambda m, o: minimized_from_tape(m, o, True),
    "fit": fitted,
}


@pytest.mark.parametrize("how", EAGER)
@pytest.mark.parametrize("kind", ["SGD", "Adam", "scaled"])
def test_an_eager_step_sends_buckets_while_it_goes_back(how, kind):
    def optimizer():
        if kind == "scaled":
            return tk.keras.optimizers.LossScaleOptimizer(tk.keras.optimizers.SGD(0.01), 8.0)
        return getattr(tk.keras.optimizers, kind)(0.01)

    events = []
    model, group = deep(events)
    step = EAGER[how](model, optimizer())
    with Replica(group):
        step()
        events.clear()
        step()
    sums = [i for i, event in enumerate(events) if event == "the gradients"]
    back = [event for event in events[sums[0] :] if event != "the gradients"]
    assert len(sums) >= 4
    assert back[-3:] == ["after_2", "after_1", "after_0"]  # the first sum was before
    assert events[-1] == "the gradients"
    other, whole = deep([], 1 << 20)
    plain = EAGER[how](other, optimizer())
    with Replica(whole):
        plain()
        plain()
    for mine, one in zip(model.weights, other.weights, strict=True):
        np.testing.assert_array_equal(mine.numpy(), one.numpy())


def test_gradients_of_a_tape_are_those_of_the_replica_and_are_sent_by_the_optimizer():
    """A program may clip them, or ask again, in one replica alone."""
    events = []
    model, group = deep(events)
    alone, _ = deep([])
    weights = model.trainable_variables
    optimizer = tk.keras.optimizers.SGD(0.01)
    with Replica(group):
        minimized(model, optimizer)()
        for own, other in zip(alone.weights, model.weights, strict=True):
            own.assign(other)
        events.clear()
        with tk.GradientTape(persistent=True) as tape:
            loss = tk.reduce_sum(model(X) ** 2)
        first, second = tape.gradient(loss, weights), tape.gradient(loss, weights)
        assert "the gradients" not in events
        clipped, _ = tk.clip_by_global_norm(first, 0.1)
        optimizer.apply_gradients(zip(clipped, weights, strict=True))
    with tk.GradientTape() as tape:
        loss = tk.reduce_sum(alone(X) ** 2)
    expected = tape.gradient(loss, alone.trainable_variables)
    for mine, again, one in zip(first, second, expected, strict=True):
        np.testing.assert_array_equal(mine.numpy(), one.numpy())
        np.testing.assert_array_equal(again.numpy(), one.numpy())
    clipped, _ = tk.clip_by_global_norm(expected, 0.1)
    for mine, own, g in zip(weights, alone.trainable_variables, clipped, strict=True):
        np.testing.assert_allclose(mine.numpy(), own.numpy() - 0.01 * 2 * g.numpy(), rtol=1e-6)


@pytest.mark.parametrize("persistent", [False, True])
def test_weights_without_gradient_used_twice_and_read_in_another_order(persistent):
    """Buckets go off in the order of the list, whatever the order in which a loss reads weights."""
    values = np.random.default_rng(5).normal(size=(6, 7, 7)).astype("float32")

    def made():
        return [tk.Variable(v) for v in values]

    def loss_of(w):
        h = tk.matmul(X, w[3])
        h = tk.tanh(tk.matmul(h, w[0])) + tk.matmul(X, w[5])
        w[4].assign(w[4] * 2.0)
        h = tk.matmul(h, w[4]) + tk.matmul(h, w[3])  # w[1] and w[2] are not used
        w[4].assign(w[4] * 0.5)
        return tk.reduce_sum(tk.matmul(h, w[4]) ** 2)

    def trained(replica, early):
        weights, optimizer = made(), tk.keras.optimizers.SGD(1e-4)
        with replica, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(2):
                with tk.GradientTape(persistent=persistent) as tape:
                    loss = loss_of(weights)
                if early:
                    optimizer.minimize(loss, weights, tape=tape)
                else:
                    grads = tape.gradient(loss, weights)
                    assert [g is None for g in grads] == [i in (1, 2) for i in range(6)]
                    optimizer.apply_gradients(zip(grads, weights, strict=True))
        return [w.numpy() for w in weights]

    group = Echo()
    group.communication = group.communication._replace(bucket_bytes=200)
    early, plain = trained(Replica(group), True), trained(Replica(Echo()), False)
    for mine, one in zip(early, plain, strict=True):
        np.testing.assert_allclose(mine, one, rtol=1e-6)
    assert group.sizes == [64] * 4 * 2


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_accumulated_gradients_are_sent_once_in_a_period(compiled, shares):
    group, model, other = Echo(), made(), made()
    gathered = []
    group.all_gather = lambda array, label="": gathered.append(label) or [array, array[:0]]
    optimizer = tk.keras.optimizers.Adam(0.01, gradient_accumulation_steps=3)
    step = step_of(model, optimizer, X)
    step = tk.function(step) if compiled else step
    sent = []
    rows = GlobalRows(0, 3, 6)
    with Replica(group, rows, averages=True, shards_state=shares):
        if shares:  # rank 0 has all of them
            optimizer.build(model.trainable_variables)
            sharded_state(optimizer).owners = {id(w): 0 for w in model.trainable_variables}
        for _ in range(6):
            step()
            sent.append((len(group.sizes), len(gathered)))
    assert sent == [(i // 3, i // 3 * shares) for i in range(1, 7)]
    plain = step_of(other, tk.keras.optimizers.Adam(0.01, gradient_accumulation_steps=3), X)
    for _ in range(6):
        plain()
    for mine, one in zip(model.weights, other.weights, strict=True):
        np.testing.assert_allclose(mine.numpy(), one.numpy(), rtol=2e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*no gradient for")
@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_what_replicas_accumulated_counts_without_a_gradient_in_the_last_step(compiled, shares):
    group = Echo()
    group.all_gather = lambda array, label="": [array, array[:0]]

    def made_weights():
        return [tk.Variable(np.ones(n, "f"), name=f"w{n}") for n in (3, 4, 5)]

    def train(weights, optimizer, none):
        optimizer.build(weights)
        apply = optimizer.apply
        apply = tk.function(lambda grads: optimizer.apply(grads, weights)) if compiled else apply
        if shares:  # rank 0 has all of them
            sharded = sharded_state(optimizer)
            if sharded is not None:
                sharded.owners = {id(w): 0 for w in weights}
        for factor, present in ((1.0, (1, 1, 0)), (2.0, (1, 0, 0)), (3.0, (1, 0, 1))):
            values = [tk.constant(factor * w.numpy()) for w in made_weights()]
            apply([g if has else none(g) for g, has in zip(values, present, strict=True)])
        return [w.numpy() for w in weights]

    def adam():
        return tk.keras.optimizers.Adam(0.01, weight_decay=0.1, gradient_accumulation_steps=3)

    with Replica(group, GlobalRows(0, 3, 6), averages=True, shards_state=shares):
        found = train(made_weights(), adam(), lambda g: None)
    expected = train(made_weights(), adam(), tk.zeros_like)
    for mine, one in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, one, rtol=1e-6)


def test_an_error_on_the_way_leaves_nothing_under_way():
    from trainkit.ops.collective.buckets import _UNDER_WAY

    model, group = made(), Echo()
    group.communication = group.communication._replace(bucket_bytes=400)
    optimizer = tk.keras.optimizers.SGD(0.01)

    @tk.custom_gradient
    def fails(x):
        def grad(upstream):
            raise ArithmeticError("no gradient today")

        return tk.identity(x), grad

    before = [w.numpy() for w in model.weights]
    first, *rest = model.layers

    def loss():
        h = fails(first(X))
        for layer in rest:
            h = layer(h)
        return tk.reduce_sum(h)

    with Replica(group), pytest.raises(ArithmeticError, match="today"):
        optimizer.minimize(loss, model.trainable_variables)
    assert group.sizes
    assert not _UNDER_WAY
    for weight, old in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), old)
    with Replica(group):
        optimizer.minimize(lambda: tk.reduce_sum(model(X)), model.trainable_variables)


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
    assert first.group.communication[:3] == (4000, "float16", True)
    assert second.group.communication[:3] == (8 << 20, None, False)


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
