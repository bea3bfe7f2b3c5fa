"""What programs written for Keras 3 and TensorFlow 2 do with optimizers."""

import pickle

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops, optimizers
from trainkit.core.names import reset_names

G = np.array([[1.0, 2.0], [3.0, 4.0]], "float32")


def weight(value=G, name="w"):
    return tk.Variable(np.array(value, "float32"), name=name)


def runner(optimizer, weights, compiled):
    """A function of the gradients that makes a step."""
    if not compiled:
        return lambda *grads: optimizer.apply(list(grads), weights)
    return tk.function(lambda *grads: optimizer.apply(list(grads), weights))


both = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])


# ------------------------------------------------------------------ classes of users


class KerasStyle(optimizers.Optimizer):
    """Heavy ball, as Keras 3's guide writes it."""

    def __init__(self, learning_rate=0.1, momentum=0.5, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum = momentum

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self.balls, self.counts = self.add_optimizer_variables(variables, ["ball", "count"])

    def update_step(self, gradient, variable, learning_rate):
        ball = self.balls[self._get_variable_index(variable)]
        self.assign(ball, ops.subtract(ops.multiply(ball, self.momentum), gradient))
        self.assign_add(self.counts[self._get_variable_index(variable)], 1.0)
        self.assign_add(variable, ops.multiply(ball, ops.cast(learning_rate, variable.dtype)))

    def get_config(self):
        return {**super().get_config(), "momentum": self.momentum}


class TensorFlowStyle(optimizers.Optimizer):
    """The same as TensorFlow 2.11 to 2.15 had it: no learning rate in `update_step`."""

    def __init__(self, learning_rate=0.1, momentum=0.5, name="ball", **kwargs):
        super().__init__(learning_rate, name=name, **kwargs)
        self.momentum = momentum

    def build(self, var_list):
        super().build(var_list)
        if hasattr(self, "_built") and self._built:
            return
        self.balls = []
        for var in var_list:
            self.balls.append(
                self.add_variable_from_reference(model_variable=var, variable_name="m")
            )
        self._built = True

    def update_step(self, gradient, variable):
        lr = tk.cast(self.learning_rate, variable.dtype)
        ball = self.balls[self._index_dict[self._var_key(variable)]]
        ball.assign(ball * self.momentum - gradient)
        variable.assign_add(ball * lr)


class PassedOn(optimizers.SGD):
    """A built-in optimizer whose step is only looked at."""

    def update_step(self, gradient, variable, learning_rate):
        super().update_step(gradient, variable, learning_rate)


@both
@pytest.mark.parametrize("kind", [KerasStyle, TensorFlowStyle])
@pytest.mark.parametrize(
    "options",
    [{}, {"gradient_accumulation_steps": 2}, {"weight_decay": 0.1, "global_clipnorm": 1.0}],
    ids=str,
)
def test_classes_of_users_step_as_sgd_with_momentum(kind, options, compiled):
    mine, w = kind(momentum=0.5, **options), weight()
    theirs, v = optimizers.SGD(0.1, momentum=0.5, **options), weight()
    one, two = runner(mine, [w], compiled), runner(theirs, [v], False)
    for k in range(5):
        one(tk.constant(G * (k + 1)))
        two(tk.constant(G * (k + 1)))
    np.testing.assert_allclose(w, v, rtol=1e-5)


@both
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (optimizers.SGD, {"momentum": 0.9, "nesterov": True}),
        (optimizers.Adam, {"amsgrad": True}),
        (optimizers.Nadam, {}),
        (optimizers.Muon, {"rms_rate": None}),
        (optimizers.Adafactor, {}),
        (optimizers.ScheduleFreeAdamW, {}),
    ],
)
def test_a_subclass_may_pass_a_step_on(kind, settings, compiled):
    calls = []

    class Watched(kind):
        def update_step(self, gradient, variable, learning_rate):
            calls.append(variable.path)
            super().update_step(gradient, variable, learning_rate)

    mine, w = Watched(0.1, **settings), weight()
    theirs, v = kind(0.1, **settings), weight()
    one, two = runner(mine, [w], compiled), runner(theirs, [v], False)
    for k in range(4):
        one(tk.constant(G * (k + 1)))
        two(tk.constant(G * (k + 1)))
    np.testing.assert_allclose(w, v, rtol=2e-5, atol=1e-6)
    assert calls


def test_keras_step_makes_the_step_of_one_weight():
    muon, w = optimizers.Muon(), weight([1.0, 2.0, 3.0, 4.0])
    muon.build([w])
    muon.update_step(tk.constant([1.0, 6.0, 7.0, 2.0]), w, 0.5)
    np.testing.assert_allclose(w, [0.5, 1.5, 2.5, 3.5], rtol=1e-4)


def test_slots_of_one_name_are_kept_apart():
    optimizer, w = KerasStyle(), weight()
    first = optimizer.add_variable_from_reference(w)
    second = optimizer.add_variable_from_reference(w, initializer="ones")
    assert first is not second
    assert [name for name, _, _ in optimizer.slot_variables()] == ["var", "var_1"]
    with pytest.raises(ValueError, match="2 names and 1 initializers"):
        optimizer.add_optimizer_variables([w], ["a", "b"], ["zeros"])
    with pytest.raises(TypeError, match="needs a reference_variable"):
        optimizer.add_variable_from_reference()


# ------------------------------------------------------------------ state given out and taken in


def stepped(kind=optimizers.Adam, steps=3, **options):
    optimizer, w = kind(0.1, **options), weight()
    for _ in range(steps):
        optimizer.apply([tk.constant(G)], [w])
    return optimizer, w


@pytest.mark.parametrize("how", ["variables", "arrays", "store"])
def test_a_state_moves_to_another_optimizer(how):
    first, w = stepped()
    second, v = optimizers.Adam(0.5), weight(w.numpy())
    second.build([v])
    if how == "store":
        store = {}
        first.save_own_variables(store)
        second.load_own_variables(store)
    else:
        second.set_weights(first.variables if how == "variables" else first.get_weights())
    for a, b in zip(first.variables, second.variables, strict=True):
        np.testing.assert_array_equal(a, b)
    first.apply([tk.constant(G)], [w])
    second.apply([tk.constant(G)], [v])
    np.testing.assert_array_equal(w, v)


def test_a_state_that_does_not_fit_changes_nothing():
    first, _ = stepped()
    second = optimizers.Adam(0.1)
    with pytest.raises(ValueError, match="call build"):
        second.set_weights(first.variables)
    second.build([weight([1.0])])
    with pytest.raises(ValueError, match="3 values for 4 variables"):
        second.set_weights(first.get_weights()[:3])
    with pytest.raises(ValueError, match=r"(?s)another shape.*\(1,\).*\(2, 2\)"):
        second.set_weights(first.get_weights())
    assert int(second.iterations) == 0
    with pytest.warns(UserWarning, match="has 4 variables, the saved one 0"):
        second.load_own_variables({})


@both
def test_a_stateless_step_leaves_weights_and_state(compiled):
    optimizer, w = stepped(steps=1)
    before = [w.numpy(), *optimizer.get_weights()]
    step = optimizer.stateless_apply
    step = tk.function(step) if compiled else step
    values = [v.value() for v in optimizer.variables]
    new, state = step(values, [tk.constant(G)], [w.value()])
    for a, b in zip(before, [w.numpy(), *optimizer.get_weights()], strict=True):
        np.testing.assert_array_equal(a, b)
    optimizer.apply([tk.constant(G)], [w])
    np.testing.assert_allclose(new[0], w, rtol=1e-6)
    for a, b in zip(state, optimizer.variables, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    with pytest.raises(ValueError, match="optimizer_variables has 1 values"):
        optimizer.stateless_apply(values[:1], [tk.constant(G)], [w.value()])


# ------------------------------------------------------------------ learning rates


@pytest.mark.parametrize("rate", ["0.01", None, True, [0.1], {"rate": 0.1}, np.nan, -1.0])
@pytest.mark.parametrize("kind", [optimizers.SGD, optimizers.Adam, optimizers.Muon])
def test_what_is_no_learning_rate_is_shown(kind, rate):
    with pytest.raises(ValueError, match="learning_rate must be"):
        kind(rate)
    optimizer = kind(0.5)
    with pytest.raises(ValueError, match="learning_rate must be"):
        optimizer.learning_rate = rate
    assert float(optimizer.learning_rate) == 0.5


@pytest.mark.parametrize("option", ["loss_scale_factor", "weight_decay", "ema_momentum"])
@pytest.mark.parametrize("value", ["0.1", True, [0.1]])
def test_what_is_no_number_is_shown(option, value):
    with pytest.raises(ValueError, match=f"{option} must be"):
        optimizers.SGD(0.1, use_ema=True, **{option: value})


def test_decay_is_warned_of():
    with pytest.warns(UserWarning, match=r"decay .*give learning_rate a schedule"):
        optimizers.Adam(0.1, decay=1e-6)


def test_a_rate_becomes_a_schedule_or_a_function():
    optimizer = optimizers.Adam(0.1)
    optimizer.learning_rate = lambda: 0.25
    assert float(optimizer.learning_rate) == 0.25
    assert len(optimizer.variables) == 1
    optimizer.learning_rate = optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
    assert float(optimizer.learning_rate) == 0.5


@both
def test_schedules_count_every_step_of_an_accumulation(compiled):
    # Keras 3.15: SGD(PiecewiseConstantDecay([1, 3], [1.0, 0.1, 0.01]), accumulation over 2 steps)
    rate = optimizers.schedules.PiecewiseConstantDecay([1, 3], [1.0, 0.1, 0.01])
    optimizer, w = optimizers.SGD(rate, gradient_accumulation_steps=2), weight([10.0])
    step = runner(optimizer, [w], compiled)
    path = []
    for _ in range(6):
        step(tk.constant([1.0]))
        path.append(float(w[0]))
    np.testing.assert_allclose(path, [10.0, 9.0, 9.0, 8.9, 8.9, 8.89], rtol=1e-6)
    assert int(optimizer.iterations) == 3


# ------------------------------------------------------------------ gradients


@both
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_an_infinite_joint_length_shows_in_all_weights(bad, compiled):
    optimizer = optimizers.SGD(0.1, global_clipnorm=1.0)
    a, b = weight([1.0, 2.0]), weight([3.0])
    runner(optimizer, [a, b], compiled)(tk.constant([bad, 1.0]), tk.constant([1.0]))
    assert np.isnan(a).all()
    assert np.isnan(b).all()
    clipped, length = tk.clip_by_global_norm([tk.constant([bad, 1.0]), None, tk.constant([1.0])], 1)
    assert np.isnan(clipped[0]).all()
    assert clipped[1] is None
    assert np.isnan(clipped[2]).all()
    assert not np.isfinite(length)


def test_no_gradients_at_all_are_no_step():
    optimizer = optimizers.SGD(0.1)
    optimizer.apply([])
    optimizer.apply([], [])
    assert int(optimizer.iterations) == 0


@both
def test_a_weight_without_gradient_at_the_last_step_is_updated_by_what_it_had(compiled):
    optimizer = optimizers.SGD(1.0, gradient_accumulation_steps=2)
    a, b = weight([1.0]), weight([1.0], "b")
    optimizer.build([a, b])
    one = tk.constant([1.0])
    run = tk.function if compiled else lambda f: f
    run(lambda: optimizer.apply([one, one], [a, b]))()
    with pytest.warns(UserWarning, match="no gradient for b"):
        run(lambda: optimizer.apply([one, None], [a, b]))()
    run(lambda: optimizer.apply([0 * one, 0 * one], [a, b]))()
    run(lambda: optimizer.apply([0 * one, 0 * one], [a, b]))()
    assert (float(a[0]), float(b[0])) == (0.0, 0.5)


@both
@pytest.mark.parametrize("wrapped", [False, True])
def test_variables_that_become_their_gradient(compiled, wrapped):
    one = tk.keras.Variable(np.array([1.0, 2.0], "float32"))
    one.overwrite_with_gradient = True
    two = weight([1.0, 2.0])
    optimizer = optimizers.SGD(1.0, use_ema=True, gradient_accumulation_steps=2)
    scale = 4.0 if wrapped else 1.0
    outer = optimizers.LossScaleOptimizer(optimizer, initial_scale=4.0) if wrapped else optimizer
    step = runner(outer, [one, two], compiled)
    step(tk.constant([5.0, 7.0]), scale * tk.constant([1.0, 1.0]))
    np.testing.assert_array_equal(one, [1.0, 2.0])
    step(tk.constant([6.0, 3.0]), scale * tk.constant([3.0, 3.0]))
    np.testing.assert_array_equal(one, [6.0, 7.0])  # the greatest
    np.testing.assert_array_equal(two, [-1.0, 0.0])  # less the mean
    assert optimizer._model_variables_moving_average[0] is None
    assert int(optimizer._iterations) == 2


# ------------------------------------------------------------------ loss scales


def test_variables_of_a_loss_scale_optimizer_are_those_of_keras():
    inner = optimizers.SGD(0.5, momentum=0.9, name="inner")
    outer, w = optimizers.LossScaleOptimizer(inner, initial_scale=8.0, name="outer"), weight([1.0])
    outer.apply([tk.constant([8.0])], [w])
    own = ["iteration", "learning_rate", "step_counter", "dynamic_scale"]
    assert [v.path for v in outer.variables[:4]] == [f"outer/{name}" for name in own]
    assert outer.variables[4:] == inner.variables
    assert [float(v) for v in outer.variables[:6]] == [0.0, 0.0, 1.0, 8.0, 1.0, 0.5]
    assert repr(outer) == "<LossScaleOptimizer 'outer' around <SGD 'inner', 1 steps>>"
    state = {}
    outer.save_own_variables(state)
    again = optimizers.LossScaleOptimizer(optimizers.SGD(0.1, momentum=0.9))
    again.build([w])
    again.load_own_variables(state)
    assert (float(again.dynamic_scale), int(again.iterations)) == (8.0, 1)
    assert float(again.learning_rate) == 0.5


@both
def test_a_wrapped_optimizer_has_no_factor_of_its_own(compiled):
    inner = optimizers.SGD(0.5, loss_scale_factor=100.0)
    outer, w = optimizers.LossScaleOptimizer(inner, initial_scale=8.0), weight([1.0, 2.0])
    assert inner.loss_scale_factor is None
    assert float(outer.scale_loss(2.0)) == 16.0
    runner(outer, [w], compiled)(tk.constant([8.0, 16.0]))
    np.testing.assert_allclose(w, [0.5, 1.0])


@both
@pytest.mark.parametrize(
    "options",
    [
        {"use_ema": True, "ema_momentum": 0.5},
        {"use_ema": True, "ema_overwrite_frequency": 2},
        {"gradient_accumulation_steps": 2},
        {"gradient_accumulation_steps": 2, "use_ema": True, "ema_momentum": 0.5},
    ],
    ids=str,
)
def test_a_step_that_is_left_out_changes_nothing(options, compiled):
    inner, w = optimizers.Adam(0.1, **options), weight([1.0, 2.0])
    outer = optimizers.LossScaleOptimizer(inner, initial_scale=4.0)
    plain, v = optimizers.Adam(0.1, **options), weight([1.0, 2.0])
    step = runner(outer, [w], compiled)
    for k, good in enumerate([True, False, True, True, False, True]):
        g = np.array([1.0, 2.0 + k], "float32")
        scale = float(outer.dynamic_scale)
        step(tk.constant(g * scale if good else g * np.inf))
        if good:
            plain.apply([tk.constant(g)], [v])
        np.testing.assert_allclose(w, v, rtol=1e-5)
    for a, b in zip(inner.variables, plain.variables, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
    assert float(outer.dynamic_scale) == 1.0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"dynamic": False}, "set `loss_scale_factor`"),
        ({"foo": True, "bar": 3}, "arguments: `foo`, `bar`"),
        ({"clipnorm": 0.5}, r"clipnorm=0.5; set `clipnorm` on the `inner_optimizer`"),
        ({"use_ema": True}, "set `use_ema` on the `inner_optimizer`"),
        ({"gradient_accumulation_steps": 2}, "gradient_accumulation_steps"),
    ],
)
def test_options_of_the_inner_optimizer_are_refused(options, text):
    with pytest.raises(ValueError, match=text):
        optimizers.LossScaleOptimizer(optimizers.SGD(), **options)


def test_configs_of_older_versions_are_read():
    made = optimizers.LossScaleOptimizer(optimizers.SGD(0.5), dynamic=True, clipnorm=None)
    config = {**made.get_config(), "use_ema": False, "ema_momentum": 0.99, "weight_decay": None}
    assert float(optimizers.LossScaleOptimizer.from_config(config).learning_rate) == 0.5


# ------------------------------------------------------------------ several optimizers


def two_layers(optimizer, **options):
    kernel = {"kernel_initializer": "ones", "use_bias": False}
    model = tk.keras.Sequential(
        [
            tk.keras.Input((1,)),
            tk.keras.layers.Dense(2, name="encoder", **kernel),
            tk.keras.layers.Dense(1, name="head", **kernel),
        ]
    )
    model.compile(optimizer, "mse", **options)
    return model


def shared_out(**options):
    return optimizers.MultiOptimizer(
        optimizers.OptimizerMap(
            optimizers.SGD(0.1, name="rest"), {".*encoder/.*": optimizers.SGD(0.01, name="first")}
        ),
        **options,
    )


@pytest.mark.parametrize("run_eagerly", [True, False])
@pytest.mark.parametrize("scaled", [False, True])
def test_each_layer_is_trained_by_its_optimizer(run_eagerly, scaled):
    multi = shared_out(loss_scale_factor=2.0)
    optimizer = optimizers.LossScaleOptimizer(multi) if scaled else multi
    model = two_layers(optimizer, run_eagerly=run_eagerly)
    x = np.ones((2, 1), "float32")
    model.fit(x, x, batch_size=2, epochs=1, verbose=0)
    # y = 2, so the loss falls along 2 for each of the weights, all of which are 1
    np.testing.assert_allclose(model.layers[0].kernel, [[0.98, 0.98]], rtol=1e-6)
    np.testing.assert_allclose(model.layers[1].kernel, [[0.8], [0.8]], rtol=1e-6)
    assert [int(one.iterations) for one in (multi, *multi.optimizers)] == [1, 1, 1]
    assert {one.loss_scale_factor for one in multi.optimizers} == {None if scaled else 2.0}


def test_a_function_chooses_optimizers():
    one, two = optimizers.SGD(1.0), optimizers.SGD(0.5)
    multi = optimizers.MultiOptimizer(lambda v: one if "a" in v.path else two)
    a, b = weight([1.0], "a"), weight([1.0], "b")
    multi.apply([tk.constant([1.0]), tk.constant([1.0])], [a, b])
    assert (float(a[0]), float(b[0])) == (0.0, 0.5)
    with pytest.raises(ValueError, match="c were not among the variables"):
        multi.apply([tk.constant([1.0])], [weight([1.0], "c")])


def test_a_config_makes_equal_optimizers():
    again = optimizers.deserialize(optimizers.serialize(shared_out(loss_scale_factor=8.0)))
    assert [one.name for one in again.optimizers] == ["first", "rest"]
    assert again.optimizers[0].loss_scale_factor == 8.0
    assert [float(one.learning_rate) for one in again.optimizers] == pytest.approx([0.01, 0.1])


def test_state_of_several_optimizers_is_restored(tmp_path):
    model = two_layers(shared_out())
    x = np.ones((2, 1), "float32")
    model.fit(x, x, verbose=0)
    saved = tk.train.Checkpoint(model=model, optimizer=model.optimizer)
    path = saved.save(str(tmp_path / "state"))
    other = two_layers(shared_out())
    tk.train.Checkpoint(model=other, optimizer=other.optimizer).restore(path)
    other.train_on_batch(x, x)
    model.train_on_batch(x, x)
    np.testing.assert_array_equal(model.layers[0].kernel, other.layers[0].kernel)
    assert [int(one.iterations) for one in other.optimizer.optimizers] == [2, 2]


def test_maps_of_optimizers_refuse_what_does_not_step_by_itself():
    sgd = optimizers.SGD()
    chosen = optimizers.OptimizerMap(sgd, {"a/.*": optimizers.Adam(), "b": optimizers.Adam()})
    assert len(chosen) == 2
    assert chosen["c"] is sgd
    with pytest.raises(ValueError, match="'b' has an optimizer already"):
        chosen["b"] = sgd
    with pytest.raises(ValueError, match="can't be a LossScaleOptimizer"):
        chosen["c"] = optimizers.LossScaleOptimizer(optimizers.SGD())
    with pytest.raises(ValueError, match="must be an optimizer, got 'sgd'"):
        chosen["c"] = "sgd"
    with pytest.raises(TypeError, match="default_optimizer must be an optimizer"):
        optimizers.OptimizerMap("sgd")
    chosen[".*/kernel"] = optimizers.SGD()
    with pytest.raises(ValueError, match=r"'a/kernel' is fitted by several keys: 'a/\.\*'"):
        chosen["a/kernel"]
    del chosen[".*/kernel"]
    assert list(chosen) == ["a/.*", "b"]
    multi = optimizers.MultiOptimizer(chosen)
    with pytest.raises(AttributeError, match="has no learning_rate"):
        multi.learning_rate = 0.1
    assert not hasattr(multi, "learning_rate")


# ------------------------------------------------------------------ names


def test_optimizers_without_a_name_are_numbered():
    reset_names()
    names = [kind().name for kind in (optimizers.Adam, optimizers.AdamW, optimizers.Adam)]
    assert names == ["adam", "adam_w", "adam_1"]
    assert optimizers.RMSprop().name == "rm_sprop"
    assert optimizers.Adam(name="mine").name == "mine"
    kept = pickle.loads(pickle.dumps(optimizers.Adam()))
    assert kept.name == optimizers.deserialize(optimizers.serialize(kept)).name == "adam_2"


@pytest.mark.parametrize("name", ["Adagrad", "Adam", "Ftrl", "Optimizer", "RMSprop", "SGD"])
def test_legacy_optimizers_name_their_successors(name):
    with pytest.raises(ImportError, match=f"use optimizers.{name}, .*decay= give learning_rate"):
        getattr(tk.keras.optimizers.legacy, name)(0.1, decay=1e-4)
    with pytest.raises(ImportError, match="is no more"):
        getattr(optimizers.legacy, name).from_config({})


def test_muon_makes_matrices_orthogonal():
    x = np.array([[0.2499, 0.9105], [0.2655, 0.8824]], "float32")
    found = optimizers.Muon().zeropower_via_newtonschulz5(x, 5)
    np.testing.assert_allclose(found, [[-0.4422, 0.6457], [0.7285, 0.2968]], atol=1e-3)


def test_callbacks_know_each_of_several_optimizers(tmp_path):
    model = two_layers(shared_out())
    x = np.ones((2, 1), "float32")
    logs = model.fit(
        x,
        x,
        epochs=3,
        verbose=0,
        callbacks=[
            tk.keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5),
            tk.keras.callbacks.TensorBoard(str(tmp_path)),
        ],
    ).history
    assert logs["learning_rate_first"] == pytest.approx([0.005, 0.0025, 0.00125])
    assert logs["learning_rate_rest"] == pytest.approx([0.05, 0.025, 0.0125])
    lowering = tk.keras.callbacks.ReduceLROnPlateau("loss", 0.1, patience=0, min_lr=0.005)
    lowering.set_model(model)
    lowering.on_train_begin()
    lowering.on_epoch_end(0, {"loss": 1.0})
    lowering.on_epoch_end(1, {"loss": 1.0})
    rates = [float(one.learning_rate) for one in model.optimizer.optimizers]
    assert rates == pytest.approx([0.00125, 0.005])


def test_averages_of_one_of_several_optimizers_are_swapped():
    first = optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5)
    chosen = optimizers.OptimizerMap(optimizers.SGD(0.1), {".*encoder/.*": first})
    model = two_layers(optimizers.LossScaleOptimizer(optimizers.MultiOptimizer(chosen)))
    x = np.ones((2, 1), "float32")
    model.train_on_batch(x, x)
    model.train_on_batch(x, x)
    swap = tk.keras.callbacks.SwapEMAWeights()
    swap.set_model(model)
    kernels = [layer.kernel.numpy() for layer in model.layers]
    swap.on_test_begin()
    average = first._model_variables_moving_average[0]
    np.testing.assert_array_equal(average, kernels[0])
    assert not np.array_equal(model.layers[0].kernel, kernels[0])
    np.testing.assert_array_equal(model.layers[1].kernel, kernels[1])
    swap.on_test_end()
    np.testing.assert_array_equal(model.layers[0].kernel, kernels[0])


# ------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: optimizers.Adam(beta_1="0.9"), r"Adam: beta_1 must be in \[0, 1\), got '0.9'"),
        (lambda: optimizers.Adam(epsilon="a"), "epsilon must be a number of at least 0, got 'a'"),
        (lambda: optimizers.Adam(epsilon=np.nan), "epsilon must be a number of at least 0"),
        (lambda: optimizers.Adam(amsgrad="no"), "amsgrad must be True or False, got 'no'"),
        (lambda: optimizers.Adam(use_ema="no"), "use_ema must be True or False, got 'no'"),
        (lambda: optimizers.SGD(nesterov=None), "nesterov must be True or False, got None"),
        (lambda: optimizers.SGD(momentum="0.9"), "momentum must be in"),
        (lambda: optimizers.Adagrad(0.1, "a"), "initial_accumulator_value must be"),
        (lambda: optimizers.Ftrl(0.1, "a"), "learning_rate_power must be a number of at most 0"),
        (lambda: optimizers.Ftrl(0.1, beta=-1), "beta must be a number of at least 0, got -1"),
        (lambda: optimizers.Lion(beta_1="a"), "beta_1 must be above 0"),
        (lambda: optimizers.Adafactor(clip_threshold="a"), "clip_threshold must be a number above"),
        (lambda: optimizers.Muon(ns_steps=2.5), "ns_steps must be a whole number of at least 1"),
        (lambda: optimizers.Muon(rms_rate=0), "rms_rate must be a number above 0, got 0"),
        (lambda: optimizers.ScheduleFreeAdamW(warmup_steps="a"), "warmup_steps must be"),
        (lambda: optimizers.schedules.ExponentialDecay("0.1", 1, 0.5), "initial_learning_rate"),
        (lambda: optimizers.schedules.CosineDecay(0.1, "5"), "decay_steps must be above 0"),
        (lambda: optimizers.LossScaleOptimizer(optimizers.SGD(), "8"), "initial_scale must be"),
    ],
)
def test_what_a_setting_can_not_be_is_shown(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_a_setting_is_looked_at_when_it_is_set_later():
    adam = optimizers.Adam()
    with pytest.raises(ValueError, match="epsilon must be a number"):
        adam.epsilon = "1e-7"
    assert adam.epsilon == 1e-7


@pytest.mark.parametrize("number", [np.float32(0.5), np.float64(0.5)])
def test_numbers_of_numpy_are_numbers(number):
    adam = optimizers.Adam(number, beta_1=number, epsilon=number, clipnorm=number)
    adam.apply([tk.constant(G)], [weight()])
    assert optimizers.schedules.ExponentialDecay(number, np.int64(3), number)(3) == 0.25
    assert optimizers.SGD(momentum=number).momentum == 0.5


def test_misspelt_arguments_name_the_nearest():
    with pytest.raises(TypeError, match="'leraning_rate'; did you mean learning_rate"):
        optimizers.Adam(leraning_rate=0.1)
    with pytest.raises(TypeError, match="'amsgrd'; did you mean amsgrad"):
        optimizers.Adam(amsgrd=True)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("RMSProp", "RMSprop"), ("ADAM", "Adam"), ("Sgd", "SGD"), ("AdaGrad", "Adagrad")],
)
def test_names_of_optimizers_may_be_in_any_letters(name, kind):
    assert type(optimizers.get(name)).__name__ == kind
    model = tk.Sequential([tk.Input((2,)), tk.layers.Dense(1)])
    model.compile(optimizer=name, loss="mse")
    assert type(model.optimizer).__name__ == kind
    assert type(optimizers.deserialize({"class_name": name, "config": {}})).__name__ == kind


def test_a_users_optimizer_goes_before_one_in_other_letters():
    class ADAM(optimizers.SGD):
        pass

    with tk.utils.custom_object_scope({"ADAM": ADAM}):
        assert type(optimizers.get("ADAM")) is ADAM
    with pytest.raises(ValueError, match="'Adm' is no optimizer; did you mean 'adam'"):
        optimizers.get("Adm")


# ------------------------------------------------------------------ the order of the state


@pytest.mark.parametrize(
    ("optimizer", "names"),
    [
        (
            lambda: optimizers.Adam(amsgrad=True),
            "a_momentum a_velocity b_momentum b_velocity a_velocity_hat b_velocity_hat",
        ),
        (
            lambda: optimizers.RMSprop(momentum=0.5, centered=True),
            "a_velocity b_velocity a_momentum b_momentum a_average_gradient b_average_gradient",
        ),
        (lambda: optimizers.Nadam(), "a_momentum a_velocity b_momentum b_velocity u_product"),
        (lambda: optimizers.Adadelta(), None),
    ],
    ids=["amsgrad", "centered", "nadam", "adadelta"],
)
def test_variables_have_the_order_of_keras(optimizer, names):
    names = names or " ".join(
        f"{w}_accumulated_{slot}" for w in "ab" for slot in ("grad", "delta_var")
    )
    optimizer = optimizer()
    optimizer.build([weight(name="a"), weight([3.0], name="b")])
    own = [v.path.partition("/")[2] or v.path for v in optimizer.variables]
    assert own == ["iteration", "learning_rate", *names.split()]
    # weights set in this order, as scripts for Keras do, reach the same slots
    optimizer.set_weights([v.numpy() + 1 for v in optimizer.variables])
    assert [v.numpy().min() for v in optimizer.variables[2:-1]] == [1.0] * (len(own) - 3)
