"""Calls of a drawn model that repeat: by a program, which nobody can tell but by the time."""

import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

import trainkit as tk
from tests.conformance.layer_table import ROWS
from trainkit.core.dispatch import trace_state
from trainkit.models import repeated_calls
from trainkit.models.repeated_calls import EAGER_CALLS, repeated_calls_of

layers = tk.layers
ENOUGH = EAGER_CALLS + 40
"""Calls after which a model that may run by a program does."""


def policy(*more):
    tk.utils.set_random_seed(3)
    return tk.Sequential(
        [tk.Input((4,)), layers.Dense(8, activation="relu"), *more, layers.Dense(2)]
    )


def residual():
    tk.utils.set_random_seed(3)
    x = tk.Input((6, 6, 3))
    y = layers.BatchNormalization()(layers.Conv2D(3, 3, padding="same")(x))
    y = layers.Add()([layers.ReLU()(y), x])
    return tk.Model(x, layers.Dense(2)(layers.GlobalAveragePooling2D()(y)))


def batch(model, rows=3, seed=0):
    shape = (rows, *model.input_shape[1:])
    return tk.constant(np.random.default_rng(seed).normal(size=shape).astype("float32"))


def call_often(model, x, count=ENOUGH, **kwargs):
    for _ in range(count):
        y = model(x, **kwargs)
    return y


def uses_programs(model):
    programs = repeated_calls_of(model)._programs
    return any(program is not None for program in programs.values())


def layer_by_layer(model, x):
    with tk.GradientTape():  # which sees each layer
        return model(x)


def same(a, b):
    a, b = tk.nest.flatten(a), tk.nest.flatten(b)
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x.numpy(), y.numpy())


@pytest.mark.parametrize("make", [policy, residual])
def test_calls_that_repeat_run_a_program_and_give_the_same_bits(make):
    model = make()
    x = batch(model)
    first = model(x)
    y = call_often(model, x)
    assert uses_programs(model)
    assert type(y) is tk.Tensor
    same(y, first)
    other = batch(model, seed=1)
    same(model(other), layer_by_layer(model, other))


def test_few_calls_and_calls_within_a_tape_run_layer_by_layer():
    model = policy()
    x = batch(model)
    call_often(model, x, EAGER_CALLS)
    assert not uses_programs(model)
    for _ in range(ENOUGH):
        with tk.GradientTape():
            model(x)
    assert not uses_programs(model)


def test_gradients_flow_after_a_program_has_served():
    model = policy()
    x = batch(model)
    call_often(model, x)
    with tk.GradientTape() as tape:
        loss = tk.reduce_sum(model(x))
    grads = tape.gradient(loss, model.trainable_variables)
    assert all(g is not None for g in grads)
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = model(x)
    assert tape.gradient(y, x).shape == x.shape
    with tk.autodiff.ForwardAccumulator(x, tk.ones_like(x)) as accumulator:
        y = model(x)
    assert accumulator.jvp(y).shape == y.shape


def test_new_values_of_weights_count_at_once():
    model = residual()
    x = batch(model)
    call_often(model, x)
    model.compile("sgd", "mse")
    model.set_weights([w * 2 for w in model.get_weights()])
    same(model(x), layer_by_layer(model, x))
    for v in model.variables:
        v.assign_add(tk.ones_like(v))
        same(model(x), layer_by_layer(model, x))
    model.train_on_batch(x, tk.zeros((3, 2)))
    same(model(x), layer_by_layer(model, x))


def _set_activation(model):
    model.layers[0].activation = tk.nn.tanh


def _set_call(model):
    model.layers[0].call = lambda x, training=None: x[:, :1] * 0 + tk.ones((1, 8))


def _add_layer(model):
    model.add(layers.Dense(5, kernel_initializer="ones"))


def _pop_layer(model):
    model.pop()


@pytest.mark.parametrize("change", [_set_activation, _set_call, _add_layer, _pop_layer])
def test_what_is_set_in_a_layer_counts_at_once(change):
    model = policy()
    x = batch(model)
    call_often(model, x)
    change(model)
    expected = layer_by_layer(model, x)
    for _ in range(2 * ENOUGH):
        same(model(x), expected)


def test_what_is_set_elsewhere_does_not_end_the_program():
    model, other = policy(), policy()
    x = batch(model)
    call_often(model, x)
    program = next(iter(repeated_calls_of(model)._programs.values()))
    other.layers[0].activation = tk.nn.tanh
    call_often(model, x)
    assert next(iter(repeated_calls_of(model)._programs.values())) is program


def test_settings_that_change_with_each_call_keep_it_eager():
    model, other = policy(), policy()
    x = batch(model)
    for i in range(2 * ENOUGH):
        other.note = i
        model(x)
    assert not uses_programs(model)


class Counted(layers.Layer):
    calls = 0

    def call(self, x):
        Counted.calls += 1
        return x


class Named(layers.Dense):
    """A user's layer that adds nothing."""


@pytest.mark.parametrize(
    "layer",
    [
        lambda: Counted(),
        lambda: Named(8),
        lambda: layers.Lambda(lambda x: x + 1),
        lambda: layers.Dense(8, activation=lambda x: x * 2),
        lambda: layers.Dense(8, activity_regularizer="l2"),
        lambda: layers.ActivityRegularization(l2=0.1),
    ],
)
def test_models_with_code_or_losses_of_others_stay_eager(layer):
    model = policy(layer())
    x = batch(model)
    Counted.calls = 0
    same(call_often(model, x), layer_by_layer(model, x))
    assert not uses_programs(model)
    assert Counted.calls in (0, ENOUGH + 1)


def test_losses_of_each_call_are_there():
    model = policy(layers.ActivityRegularization(l2=0.1))
    x = batch(model)
    model(x)
    first = [float(loss) for loss in model.losses]
    call_often(model, x)
    assert [float(loss) for loss in model.losses] == first


def test_what_draws_or_counts_stays_eager():
    x = tk.Input((4,))
    noisy = tk.Model(x, layers.Dropout(0.5, seed=1)(x, training=True))
    ones = tk.ones((2, 4))
    draws = {noisy(ones).numpy().tobytes() for _ in range(ENOUGH)}
    assert len(draws) > 100 // 16
    assert not uses_programs(noisy)
    stateful = tk.Sequential([tk.Input(batch_shape=(2, 3, 4)), layers.LSTM(3, stateful=True)])
    steps = tk.ones((2, 3, 4))
    values = [stateful(steps).numpy() for _ in range(ENOUGH)]
    assert not uses_programs(stateful)
    assert not np.array_equal(values[0], values[1])


def test_training_calls_run_layer_by_layer_beside_programs():
    model = policy(layers.Dropout(0.5, seed=1))
    x = batch(model)
    call_often(model, x)
    assert uses_programs(model)
    results = {model(x, training=True).numpy().tobytes() for _ in range(8)}
    assert len(results) > 1
    same(model(x, training=False), layer_by_layer(model, x))


def test_a_subclass_that_only_trains_otherwise_may_use_them():
    class Trained(tk.Model):
        def train_step(self, data):
            return super().train_step(data)

    x = tk.Input((4,))
    model = Trained(x, layers.Dense(2)(x))
    model.compile("sgd", loss=lambda y, p: tk.reduce_mean((y - p) ** 2))
    data = batch(model)
    same(call_often(model, data), layer_by_layer(model, data))
    assert uses_programs(model)


def test_a_subclass_with_a_call_stays_eager():
    class Called(tk.Sequential):
        def call(self, inputs, mask=None):
            return super().call(inputs, mask) + 1

    model = Called([tk.Input((4,)), layers.Dense(2)])
    x = batch(model)
    same(call_often(model, x), layer_by_layer(model, x))
    assert not uses_programs(model)


def two_inputs(structure):
    a, b = tk.Input((4,), name="a"), tk.Input((3,), name="b")
    y = layers.Concatenate()([layers.Dense(2)(a), layers.Dense(2)(b)])
    ends = {"list": [a, b], "tuple": (a, b), "dict": {"a": a, "b": b}}[structure]
    return tk.Model(ends, {"sum": layers.Dense(1)(y), "parts": [y, y]})


@pytest.mark.parametrize("structure", ["list", "tuple", "dict"])
def test_nested_inputs_and_outputs(structure):
    model = two_inputs(structure)
    a, b = tk.random.normal((2, 4)), tk.random.normal((2, 3))
    forms = [[a, b], (a, b), {"a": a, "b": b}, {"b": b, "a": a}]
    expected = layer_by_layer(model, forms[0] if structure != "dict" else forms[2])
    for form in forms[2:] if structure == "dict" else forms:
        y = call_often(model, form)
        assert sorted(y) == ["parts", "sum"]
        same(y, expected)
    assert sum(p is not None for p in repeated_calls_of(model)._programs.values()) >= 2


def test_batches_of_many_sizes():
    model = residual()
    for _ in range(3):
        for rows in (1, 2, 7, 8, 1, 5):
            for _ in range(12):
                x = batch(model, rows, seed=rows)
                same(model(x), layer_by_layer(model, x))
    assert uses_programs(model)


def test_a_size_that_is_left_half_way_keeps_no_other_from_a_program():
    model = policy()
    x, other = batch(model, 2), batch(model, 5)
    call_often(model, x, EAGER_CALLS + 2)  # its graph is there, and no program
    assert not uses_programs(model)
    same(call_often(model, other), layer_by_layer(model, other))
    assert uses_programs(model)
    same(call_often(model, x), layer_by_layer(model, x))


def test_how_training_is_given_counts():
    model = policy()
    x = batch(model)
    for training in (None, False, tk.constant(False), np.False_, 0):
        same(call_often(model, x, training=training), layer_by_layer(model, x))


@pytest.mark.parametrize("dtype", ["float64", "int32", "bfloat16", "bool"])
def test_inputs_of_other_dtypes_and_arrays(dtype):
    model = policy()
    x = np.arange(8).reshape(2, 4) % 2
    x = tk.cast(tk.constant(x), dtype)
    same(call_often(model, x), layer_by_layer(model, x))
    array = x.numpy()
    same(call_often(model, array), layer_by_layer(model, array))


def test_masks_inside_and_outside():
    words = tk.constant([[1, 2, 0, 0], [3, 0, 0, 0]])
    inside = tk.Sequential(
        [tk.Input((4,), dtype="int32"), layers.Embedding(5, 3, mask_zero=True), layers.LSTM(2)]
    )
    same(call_often(inside, words), layer_by_layer(inside, words))
    outside = tk.Sequential(
        [tk.Input((4,), dtype="int32"), layers.Embedding(5, 3, mask_zero=True), layers.Dense(2)]
    )
    y = call_often(outside, words)
    np.testing.assert_array_equal(y._keras_mask.numpy(), words.numpy() != 0)
    recurrent = tk.Sequential([tk.Input((4, 3)), layers.Masking(), layers.LSTM(2)])
    steps = tk.constant(np.eye(4, 3, dtype="float32")[None])
    same(call_often(recurrent, steps), layer_by_layer(recurrent, steps))
    plain = tk.Sequential([tk.Input((4, 3)), layers.LSTM(2)])
    call_often(plain, steps)
    mask = tk.constant([[True, False, True, False]])
    with tk.GradientTape():
        expected = plain(tk.identity(steps), mask=mask)
    assert not np.array_equal(expected.numpy(), plain(steps).numpy())
    same(plain(tk.identity(steps), mask=mask), expected)
    steps._keras_mask = mask
    same(plain(steps), expected)


def test_an_error_names_the_layer_as_ever():
    model = tk.Sequential(
        [tk.Input((2,), dtype="int32"), layers.Embedding(5, 3, name="words"), layers.Flatten()]
    )
    call_often(model, tk.constant([[1, 2]]))
    assert uses_programs(model)
    with pytest.raises(Exception, match="words") as stopped:
        model(tk.constant([[1, 7]]))
    with pytest.raises(type(stopped.value)) as expected, tk.GradientTape():
        model(tk.constant([[1, 7]]))
    assert str(stopped.value) == str(expected.value)


def test_within_functions_and_maps():
    model = policy()
    x = batch(model)
    call_often(model, x)
    same(tk.function(model)(x), layer_by_layer(model, x))
    rows = tk.vectorized_map(lambda row: model(row[None])[0], x)
    np.testing.assert_allclose(rows.numpy(), model(x).numpy(), rtol=1e-6)


def test_what_looks_into_layers_sees_each():
    model = policy()
    x = batch(model)
    call_often(model, x)
    with tk.profiler.profile() as profile:
        model(x)
    assert any("dense" in str(row) for row in profile.rows)
    assert not trace_state.STAND_INS
    wrong = tk.constant(np.full((3, 4), np.nan, "float32"))
    tk.debugging.enable_check_numerics()
    try:
        with pytest.raises(Exception, match="dense"):
            model(wrong)
    finally:
        tk.debugging.disable_check_numerics()
    assert not trace_state.STAND_INS
    same(model(x), layer_by_layer(model, x))


def test_run_eagerly_runs_eagerly():
    model = policy()
    x = batch(model)
    tk.config.run_functions_eagerly(True)
    try:
        call_often(model, x)
        assert not uses_programs(model)
    finally:
        tk.config.run_functions_eagerly(False)
    model = policy()
    model.compile(run_eagerly=True)
    call_often(model, x)
    assert not uses_programs(model)


def test_copies_have_calls_of_their_own():
    model = policy()
    x = batch(model)
    y = call_often(model, x)
    twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for twin in twins:
        assert not uses_programs(twin)
        twin.set_weights([w + 1 for w in twin.get_weights()])
        same(call_often(twin, x), layer_by_layer(twin, x))
    same(model(x), y)


def test_quantizing_adapters_and_loading_count_at_once(tmp_path):
    model, other = policy(), policy()
    x = batch(model)
    other.set_weights([w * 3 for w in other.get_weights()])
    other.save_weights(tmp_path / "other.weights.h5")
    call_often(model, x)
    model.load_weights(tmp_path / "other.weights.h5")
    same(model(x), layer_by_layer(other, x))
    model.layers[0].enable_lora(2)
    model.layers[0].lora_kernel_b.assign(tk.ones((2, 8)))
    expected = layer_by_layer(model, x)
    assert not np.array_equal(expected.numpy(), layer_by_layer(other, x).numpy())
    same(call_often(model, x), expected)
    other = policy()
    call_often(other, x)
    other.quantize("int8")
    same(call_often(other, x), layer_by_layer(other, x))


def test_a_model_that_nobody_uses_any_more_goes():
    model = policy()
    call_often(model, batch(model))
    calls = weakref.ref(repeated_calls_of(model))
    del model
    gc.collect()
    assert calls() is None


def test_models_within_models():
    inner = policy()
    x = tk.Input((4,))
    outer = tk.Model(x, layers.Dense(3)(inner(x)))
    data = batch(outer)
    same(call_often(outer, data), layer_by_layer(outer, data))
    assert uses_programs(outer)
    assert not uses_programs(inner)
    inner.layers[0].activation = tk.nn.tanh
    same(outer(data), layer_by_layer(outer, data))


def test_a_stack_within_a_model_of_the_users():
    class Agent(tk.Model):
        def __init__(self):
            super().__init__()
            self.network, self.calls = policy(), 0
            self.noisy = policy(layers.ActivityRegularization(l2=0.1))

        def call(self, x):
            return self.network(x) + self.noisy(x)

    agent = Agent()
    x = tk.ones((1, 4))
    agent(x)
    losses = [float(loss) for loss in agent.losses]
    same(call_often(agent, x), layer_by_layer(agent, x))
    assert uses_programs(agent.network)
    assert not uses_programs(agent.noisy)
    assert losses == [float(loss) for loss in agent.losses]


def test_augmentation_is_on_by_itself_and_off_within():
    """What it does depends on the model that is called, here in the same program."""
    augmentation = tk.Sequential([tk.Input((4, 4, 1)), layers.RandomFlip(seed=1)])

    class Classifier(tk.Model):
        def __init__(self):
            super().__init__()
            self.augmentation, self.head = augmentation, layers.Dense(2)

        def call(self, x):
            return self.head(self.augmentation(x)), self.augmentation(x)

    images = batch(augmentation, 8)
    classifier = Classifier()
    for _ in range(2 * ENOUGH):
        same(classifier(images)[1], images)
    assert len({augmentation(images).numpy().tobytes() for _ in range(ENOUGH)}) > 8
    same(classifier(images)[1], images)


ALONE = ("InputLayer", "Wrapper")
"""Rows whose layers no model can be drawn up of."""


@pytest.mark.parametrize("row", [r for r in ROWS if r.name not in ALONE], ids=lambda r: r.name)
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_every_layer_gives_the_same_bits_and_dtypes(row, policy, monkeypatch):
    if row.name == "STFTSpectrogram" and policy != "float32":
        pytest.skip("it takes no bfloat16")
    monkeypatch.setattr(repeated_calls, "EAGER_CALLS", 2)
    rng = np.random.default_rng(0)
    inputs = [row.inputs(rng), *(make(rng) for make in row.more)]
    inputs = tk.nest.map_structure(float32_tensor, inputs)
    symbols = tk.nest.map_structure(
        lambda x: tk.Input(tuple(x.shape[1:]), dtype=x.dtype.name), inputs
    )
    model = tk.Model(tk.nest.flatten(symbols), row.make(dtype=policy)(*symbols, **row.call))
    leaves = tk.nest.flatten(inputs)
    expected = layer_by_layer(model, leaves)
    for _ in range(8):
        y = model(leaves)
    same(y, expected)


def float32_tensor(x):
    x = np.asarray(x)
    return tk.constant(x.astype("float32") if x.dtype == np.float64 else x)


def test_several_threads_at_once():
    model = residual()
    inputs = [batch(model, rows, seed=rows) for rows in (1, 2, 3, 4)]
    expected = [layer_by_layer(model, x).numpy() for x in inputs]
    failures = []

    def run(index):
        for _ in range(ENOUGH):
            if not np.array_equal(model(inputs[index]).numpy(), expected[index]):
                failures.append(index)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
