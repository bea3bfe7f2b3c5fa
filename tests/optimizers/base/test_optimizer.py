import warnings

import numpy as np
import pytest

import trainkit as tk
from trainkit import optimizers
from trainkit.core.trackable import traverse
from trainkit.kernels.jit import kernel_family
from trainkit.optimizers.gradient_descent import GradientDescentOptimizer

ADAM_AFTER_ONE = 0.999  # whatever the gradient, the first step of Adam is the learning rate


def weight(value=1.0, name="w"):
    return tk.Variable(np.asarray(value, np.float32), name=name)


def grad(value=0.5):
    return tk.convert_to_tensor(np.asarray(value, np.float32))


# ------------------------------------------------------------------ learning rate


def test_learning_rate_is_a_variable_that_can_be_set():
    sgd = optimizers.SGD(0.1)
    assert float(sgd.learning_rate) == np.float32(0.1)
    sgd.learning_rate = 0.5
    w = weight(1.0)
    sgd.apply_gradients([(grad(1.0), w)])
    assert float(w) == 0.5
    sgd.learning_rate.assign(0.25)
    sgd.apply_gradients([(grad(1.0), w)])
    assert float(w) == 0.25


@pytest.mark.parametrize("rate", [0.5, np.float64(0.5), "variable", "tensor", "function"])
def test_learning_rate_may_be_given_in_many_ways(rate):
    made = {
        "variable": lambda: tk.Variable(0.5),
        "tensor": lambda: tk.convert_to_tensor(0.5),
        "function": lambda: lambda: 0.5,
    }
    rate = made[rate]() if isinstance(rate, str) else rate
    w = weight(1.0)
    optimizers.SGD(rate).apply_gradients([(grad(1.0), w)])
    assert float(w) == 0.5


def test_a_variable_as_learning_rate_is_followed():
    rate = tk.Variable(0.5)
    sgd, w = optimizers.SGD(rate), weight(1.0)
    rate.assign(0.25)
    sgd.apply_gradients([(grad(1.0), w)])
    assert float(w) == 0.75


def test_lr_is_another_name_for_learning_rate():
    assert float(optimizers.Adam(lr=0.25).learning_rate) == 0.25
    assert float(optimizers.Adam(lr=0.25).lr) == 0.25
    with pytest.raises(TypeError, match=r"learning_rate=0\.1 and lr=0\.2 are the same setting"):
        optimizers.Adam(0.1, lr=0.2)


def test_a_schedule_counts_steps_and_cannot_be_set():
    schedule = optimizers.schedules.PiecewiseConstantDecay([0], [1.0, 0.5])
    sgd, w = optimizers.SGD(schedule), weight(0.0)
    seen = []
    for _ in range(2):
        sgd.apply_gradients([(grad(1.0), w)])
        seen.append(float(w))
    assert seen == [-1.0, -1.5]
    with pytest.raises(TypeError, match="follows PiecewiseConstantDecay"):
        sgd.learning_rate = 0.1
    sgd.learning_rate = optimizers.schedules.ExponentialDecay(0.25, 1, 1.0)
    assert float(sgd.learning_rate) == 0.25


@pytest.mark.parametrize(
    ("rate", "word"), [(-0.1, "at least 0"), ([0.1, 0.2], "one number"), (np.nan, "at least 0")]
)
def test_a_bad_learning_rate_is_an_error(rate, word):
    with pytest.raises(ValueError, match=word):
        optimizers.SGD(rate)


# ------------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    ("options", "error", "word"),
    [
        ({"decays": 0.1}, TypeError, "unexpected argument 'decays'.*weight_decay"),
        ({"clipnorm": 1.0, "clipvalue": 1.0}, ValueError, "only one of"),
        ({"clipnorm": 0.0}, ValueError, "clipnorm must be above 0"),
        ({"clipvalue": "1"}, TypeError, "clipvalue must be a number"),
        ({"ema_momentum": 1.5, "use_ema": True}, ValueError, "ema_momentum"),
        ({"ema_overwrite_frequency": 0}, ValueError, "ema_overwrite_frequency"),
        ({"gradient_accumulation_steps": 1}, ValueError, "at least 2"),
        ({"loss_scale_factor": 0.0}, ValueError, "loss_scale_factor"),
        ({"weight_decay": -1.0}, ValueError, "weight_decay"),
    ],
    ids=lambda x: str(x)[:30],
)
def test_bad_options_are_errors(options, error, word):
    with pytest.raises(error, match=word):
        optimizers.SGD(0.1, **options)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: optimizers.SGD(0.1, momentum=2.0), "momentum"),
        (lambda: optimizers.Adam(beta_1=1.0), "Adam: beta_1"),
        (lambda: optimizers.AdamW(weight_decay=None), "use Adam"),
        (lambda: optimizers.Nadam(beta_2=-0.1), "Nadam: beta_2"),
        (lambda: optimizers.RMSprop(rho=1.0), "rho"),
        (lambda: optimizers.Adagrad(initial_accumulator_value=-1), "initial_accumulator_value"),
        (lambda: optimizers.Ftrl(learning_rate_power=1.0), "learning_rate_power"),
        (lambda: optimizers.Ftrl(beta=-1.0), "beta"),
        (lambda: optimizers.Lion(beta_1=0.0), "Lion: beta_1"),
        (lambda: optimizers.Adafactor(clip_threshold=0.0), "clip_threshold"),
        (lambda: optimizers.Muon(momentum=1.0), "momentum"),
        (lambda: optimizers.ScheduleFreeAdamW(warmup_steps=-1), "warmup_steps"),
        (lambda: optimizers.LossScaleOptimizer(optimizers.SGD(), initial_scale=0), "initial_scale"),
    ],
)
def test_settings_out_of_range_are_errors(make, word):
    with pytest.raises(ValueError, match=word):
        make()


# ------------------------------------------------------------------ gradients


def test_a_missing_gradient_leaves_the_weight_and_warns_once():
    adam, a, b = optimizers.Adam(), weight(1.0, "a"), weight(1.0, "b")
    with pytest.warns(UserWarning, match=r"adam\w*: no gradient for b"):
        adam.apply_gradients([(grad(), a), (None, b)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        adam.apply_gradients([(grad(), a), (None, b)])
    assert float(b) == 1.0
    assert float(a) < ADAM_AFTER_ONE


def test_no_gradient_at_all_is_an_error_that_names_weights_and_reasons():
    with pytest.raises(ValueError, match=r"(?s)weights a, b.*outside the `with GradientTape"):
        optimizers.SGD().apply_gradients([(None, weight(1.0, "a")), (None, weight(1.0, "b"))])
    with pytest.raises(ValueError, match="list of pairs is empty"):
        optimizers.SGD().apply_gradients([])


def test_a_gradient_of_another_shape_changes_nothing():
    sgd, a, b = optimizers.SGD(1.0), weight([1.0, 1.0], "a"), weight([1.0], "b")
    with pytest.raises(
        tk.errors.InvalidArgumentError, match=r"(?s)'b' differ in shape.*\(2,\).*\(1,\)"
    ):
        sgd.apply_gradients([(grad([1.0, 1.0]), a), (grad([1.0, 1.0]), b)])
    np.testing.assert_array_equal(a.numpy(), [1.0, 1.0])
    assert int(sgd.iterations) == 0


def test_pairs_the_wrong_way_round_are_an_error():
    with pytest.raises(TypeError, match="wrong way round"):
        optimizers.SGD().apply_gradients([(weight(), grad())])
    with pytest.raises(ValueError, match="takes pairs"):
        optimizers.SGD().apply_gradients([weight()])


def test_an_integer_weight_or_gradient_is_an_error():
    with pytest.raises(TypeError, match="'n' has dtype int32"):
        optimizers.SGD().build([tk.Variable(1, name="n")])
    with pytest.raises(tk.errors.InvalidArgumentError, match="gradients are floating"):
        optimizers.SGD().apply_gradients([(tk.convert_to_tensor(1), weight())])


def test_lists_and_arrays_are_gradients_too():
    w = weight([1.0, 2.0])
    optimizers.SGD(1.0).apply_gradients([([1.0, 1.0], w)])
    optimizers.SGD(1.0).apply_gradients([(np.array([0.0, 1.0]), w)])
    np.testing.assert_array_equal(w.numpy(), [0.0, 0.0])


# ------------------------------------------------------------------ what is read stays


def test_what_was_read_of_a_weight_or_slot_never_changes():
    adam, w = optimizers.Adam(0.1), weight([1.0, 2.0])
    adam.build([w])
    before, slot = w.value(), adam.slot_variables()[0][2].value()
    array = w.numpy()
    for _ in range(3):
        adam.apply_gradients([(grad([1.0, 1.0]), w)])
    np.testing.assert_array_equal(before.numpy(), [1.0, 2.0])
    np.testing.assert_array_equal(array, [1.0, 2.0])
    np.testing.assert_array_equal(slot.numpy(), [0.0, 0.0])
    assert not np.array_equal(w.numpy(), array)


def test_the_gradient_may_be_the_weight_itself():
    sgd, w = optimizers.SGD(0.5), weight([4.0])
    sgd.apply_gradients([(w.value(), w)])
    np.testing.assert_array_equal(w.numpy(), [2.0])


def test_views_and_transposed_arrays_are_updated_alike(rng):
    g = rng.normal(size=(3, 4)).astype("float32")
    start = rng.normal(size=(3, 4)).astype("float32")
    plain, odd = weight(start), tk.Variable(tk.convert_to_tensor(np.asfortranarray(start)))
    one, two = optimizers.Adam(0.1), optimizers.Adam(0.1)
    for _ in range(2):
        one.apply_gradients([(tk.convert_to_tensor(g), plain)])
        two.apply_gradients([(tk.convert_to_tensor(np.asfortranarray(g)), odd)])
    np.testing.assert_array_equal(plain.numpy(), odd.numpy())


@pytest.mark.usefixtures("on_cpu")
def test_an_update_writes_in_place():
    sgd, w = optimizers.SGD(0.5, momentum=0.9), weight([4.0, 1.0])
    sgd.apply_gradients([(grad([1.0, 1.0]), w)])
    address = np.asarray(w).ctypes.data
    sgd.apply_gradients([(grad([1.0, 1.0]), w)])
    assert np.asarray(w).ctypes.data == address


@pytest.mark.usefixtures("on_cpu")
def test_a_scalar_weight_is_updated_in_place_too():
    sgd, w = optimizers.SGD(0.5), weight(4.0)
    address = w._value._array.ctypes.data
    for _ in range(2):
        with tk.GradientTape() as tape:
            loss = w * w
        sgd.apply_gradients([(tape.gradient(loss, w), w)])
        del loss, tape
    assert float(w) == 0.0
    assert w._value._array.ctypes.data == address


def test_a_compiled_rule_goes_on_with_the_same_bits(rng):
    start, g = rng.normal(size=50).astype("float32"), rng.normal(size=50).astype("float32")
    cold, hot = weight(start), weight(start)
    one, two = optimizers.Adam(0.1), optimizers.Adam(0.1)
    for step in range(6):
        one.apply_gradients([(tk.convert_to_tensor(g), cold)])
        if step == 3:
            kernel_family.set_mode("eager")
        two.apply_gradients([(tk.convert_to_tensor(g), hot)])
        kernel_family.set_mode("hot")
    np.testing.assert_array_equal(cold.numpy(), hot.numpy())


def test_a_read_only_gradient_is_taken_by_compiled_rules(rng):
    w = weight(np.ones(4))
    kernel_family.set_mode("eager")
    try:
        for _ in range(2):
            g = np.broadcast_to(np.float32(1.0), (4,))
            optimizers.SGD(0.25).apply_gradients([(tk.ops.broadcast_to(tk.constant(g), (4,)), w)])
    finally:
        kernel_family.set_mode("hot")
    np.testing.assert_array_equal(w.numpy(), 0.5)


def test_a_setting_that_changes_takes_effect():
    adam, w = optimizers.SGD(1.0, weight_decay=0.5), weight([2.0])
    adam.apply_gradients([(grad([0.0]), w)])
    adam.weight_decay = 0.25
    adam.apply_gradients([(grad([0.0]), w)])
    np.testing.assert_array_equal(w.numpy(), [0.75])


def test_a_tape_records_nothing_of_an_update():
    adam, w = optimizers.Adam(), weight([1.0])
    with tk.GradientTape(persistent=True) as tape:
        y = w * w
        g = tape.gradient(y, w)
        entries = len(tape.entries)
        adam.apply_gradients([(g, w)])
        assert len(tape.entries) == entries


# ------------------------------------------------------------------ apply, minimize


def test_apply_uses_the_weights_that_were_built():
    sgd, a, b = optimizers.SGD(1.0), weight(1.0, "a"), weight(2.0, "b")
    with pytest.raises(ValueError, match=r"give trainable_variables, or call build"):
        sgd.apply([grad()])
    sgd.build([a, b])
    sgd.apply([grad(1.0), grad(1.0)])
    assert (float(a), float(b)) == (0.0, 1.0)
    with pytest.raises(ValueError, match="1 gradients for 2 weights"):
        sgd.apply([grad()])


def test_minimize_updates_what_the_loss_read():
    sgd, a, unread = optimizers.SGD(0.5), weight(1.0), weight(1.0)
    fixed = tk.Variable(3.0, trainable=False)
    sgd.minimize(lambda: a * a * fixed)
    assert float(a) == 1.0 - 0.5 * 2 * 3
    assert (float(unread), float(fixed)) == (1.0, 3.0)


def test_minimize_takes_variables_and_tapes():
    sgd, a, b = optimizers.SGD(0.5), weight(1.0), weight(1.0)
    sgd.minimize(lambda: a * b, [a])
    assert (float(a), float(b)) == (0.5, 1.0)
    with tk.GradientTape() as tape:
        loss = a * b
    sgd.minimize(loss, [b], tape=tape)
    assert float(b) == 0.75
    with pytest.raises(ValueError, match="needs the tape"):
        sgd.minimize(loss, [b])


def test_iterations_counts_and_is_returned():
    sgd = optimizers.SGD()
    assert int(sgd.apply_gradients([(grad(), weight())])) == 1
    assert int(sgd.iterations) == 1


# ------------------------------------------------------------------ clipping, decay, averages


def step_of(g, **options):
    w = weight(np.zeros(np.shape(g)))
    optimizers.SGD(1.0, **options).apply_gradients([(grad(g), w)])
    return -w.numpy()


@pytest.mark.parametrize("make", [lambda: optimizers.SGD(0.5), lambda: optimizers.SGD(0.5, 0.9)])
def test_steps_over_other_weights_than_the_last_one(make):
    def trained(steps, weights):
        optimizer = make()
        for step in steps:
            pairs = [(grad(np.full(weights[i].shape, g)), weights[i]) for i, g in step]
            optimizer.apply_gradients(pairs)
        return [w.numpy().tolist() for w in weights]

    def fresh():
        return [weight(1.0, "a"), weight([1.0, 2.0], "b"), weight([[3.0]], "c")]

    steps = [[(0, 1.0), (1, 2.0)], [(1, 2.0), (0, 1.0)], [(1, 2.0)], [(0, 1.0), (1, 2.0), (2, 3.0)]]
    one_by_one = []
    for i in range(3):
        mine = [[(0, g) for j, g in step if j == i] for step in steps]
        one_by_one += trained([step for step in mine if step], [fresh()[i]])
    assert trained(steps, fresh()) == one_by_one


def test_a_step_that_fails_after_others_changes_nothing():
    adam, a, b = optimizers.Adam(), weight([1.0, 2.0], "a"), weight(3.0, "b")
    for _ in range(2):
        adam.apply_gradients([(grad([0.5, 0.5]), a), (grad(), b)])
    before = [v.numpy().tolist() for v in (a, b, *adam.variables)]
    with pytest.raises(tk.errors.ShapeError, match=r"gradient  \(2,\)\n  weight    \(\)"):
        adam.apply_gradients([(grad([0.5, 0.5]), a), (grad([0.5, 0.5]), b)])
    with pytest.raises(ValueError, match="takes pairs"):
        adam.apply_gradients([(grad([0.5, 0.5]), a), grad()])
    with pytest.raises(TypeError, match="the wrong way round"):
        adam.apply_gradients([(a, grad([0.5, 0.5])), (grad(), b)])
    assert [v.numpy().tolist() for v in (a, b, *adam.variables)] == before


def test_a_constraint_that_comes_later_holds():
    sgd, w = optimizers.SGD(1.0), weight([1.0, 1.0])
    sgd.apply_gradients([(grad([0.5, 0.5]), w)])
    w.constraint = lambda x: tk.ops.maximum(x, 0.0)
    sgd.apply_gradients([(grad([0.5, 2.0]), w)])
    assert w.numpy().tolist() == [0.0, 0.0]


def test_a_graph_after_eager_steps_steps_alike():
    sgd, w = optimizers.SGD(1.0), weight(1.0)
    g = grad(0.25)
    sgd.apply_gradients([(g, w)])
    step = tk.function(lambda: sgd.apply_gradients([(g, w)]))
    for _ in range(2):
        step()
    assert float(w) == 0.25
    assert int(sgd.iterations) == 3


def test_clipping():
    np.testing.assert_allclose(step_of([3.0, 4.0], clipnorm=1.0), [0.6, 0.8], rtol=1e-6)
    np.testing.assert_array_equal(step_of([3.0, 4.0], clipnorm=10.0), [3.0, 4.0])
    np.testing.assert_array_equal(step_of([3.0, -4.0], clipvalue=1.0), [1.0, -1.0])
    a, b = weight([0.0]), weight([0.0])
    optimizers.SGD(1.0, global_clipnorm=1.0).apply_gradients([(grad([3.0]), a), (grad([4.0]), b)])
    np.testing.assert_allclose([a.numpy()[0], b.numpy()[0]], [-0.6, -0.8], rtol=1e-6)


def test_weight_decay_leaves_out_what_is_excluded():
    sgd = optimizers.SGD(0.5, weight_decay=0.5)
    kernel, bias, other = weight([1.0], "kernel"), weight([1.0], "bias"), weight([1.0], "other")
    sgd.exclude_from_weight_decay(var_list=[other], var_names=["bia"])
    sgd.apply_gradients([(grad([0.0]), w) for w in (kernel, bias, other)])
    assert [float(w.numpy()[0]) for w in (kernel, bias, other)] == [0.75, 1.0, 1.0]
    with pytest.raises(ValueError, match="before build"):
        sgd.exclude_from_weight_decay(var_names=["kernel"])


def test_accumulated_gradients_step_once_by_their_mean():
    sgd, w = optimizers.SGD(1.0, gradient_accumulation_steps=2), weight(0.0)
    seen, counts = [], []
    for g in (1.0, 3.0, 5.0, 7.0):
        sgd.apply_gradients([(grad(g), w)])
        seen.append(float(w))
        counts.append(int(sgd.iterations))
    assert seen == [0.0, -2.0, -2.0, -8.0]
    assert counts == [0, 1, 1, 2]


def test_moving_averages_are_kept_and_handed_over():
    sgd, w = optimizers.SGD(1.0, use_ema=True, ema_momentum=0.5), weight(0.0)
    for _ in range(3):
        sgd.apply_gradients([(grad(-1.0), w)])
    assert float(w) == 3.0
    sgd.finalize_variable_values([w])
    assert float(w) == 2.25  # 1, 1.5, 2.25


@pytest.mark.parametrize("traced", [False, True])
def test_averages_and_accumulation_do_the_same_in_a_graph(traced, rng):
    from trainkit.graph.tracing.function import function

    gs = rng.normal(size=(7, 3)).astype("float32")
    options = {
        "gradient_accumulation_steps": 2,
        "use_ema": True,
        "ema_overwrite_frequency": 2,
        "clipnorm": 0.5,
    }
    results = []
    for how in (False, traced):
        adam, w = optimizers.Nadam(0.1, **options), weight([1.0, 2.0, 3.0])
        run = function(lambda g, o=adam, v=w: o.apply([g], [v]))
        for g in gs:
            if how:
                run(tk.convert_to_tensor(g))
            else:
                adam.apply_gradients([(tk.convert_to_tensor(g), w)])
        results.append([w.numpy(), *[v.numpy() for v in adam.variables]])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_constraint_holds_after_the_step():
    w = weight([1.0, 1.0])
    w.constraint = lambda x: tk.ops.maximum(x, 0.0)
    optimizers.SGD(1.0).apply_gradients([(grad([3.0, 0.5]), w)])
    np.testing.assert_array_equal(w.numpy(), [0.0, 0.5])


# ------------------------------------------------------------------ slots and parts


def test_slots_are_announced_and_are_no_parts():
    announced = []

    class Pending:
        def slot_added(self, optimizer, name, of, slot):
            announced.append((optimizer.name, name, of.path, tuple(slot.shape)))

        def part_added(self, owner, name, part): ...

    adam, w = optimizers.Adam(name="adam"), weight([1.0, 2.0], "kernel")
    adam._pending_restore = Pending()
    adam.build([w])
    assert announced == [("adam", "momentum", "kernel", (2,)), ("adam", "velocity", "kernel", (2,))]
    assert [(n, of) for n, of, _ in adam.slot_variables()] == [("momentum", w), ("velocity", w)]
    assert list(adam.parts()) == ["iterations", "learning_rate"]
    assert {path for path, _ in traverse(adam)} == {(), ("iterations",), ("learning_rate",)}


def test_variables_are_count_rate_and_slots():
    adam = optimizers.Adam(amsgrad=True)
    assert len(adam.variables) == 2
    adam.build([weight()])
    assert len(adam.variables) == 5
    assert [v.name for v in optimizers.Nadam().variables][2:] == ["u_product"]


def test_a_new_weight_gets_its_slots_when_it_comes():
    adam, a, b = optimizers.Adam(), weight(1.0, "a"), weight(1.0, "b")
    adam.apply_gradients([(grad(), a)])
    adam.apply_gradients([(grad(), a), (grad(), b)])
    assert len(adam.slot_variables()) == 4


# ------------------------------------------------------------------ by name


def test_get_finds_names_in_any_case_and_rejects_others():
    assert type(optimizers.get("rmsprop")) is optimizers.RMSprop
    assert type(optimizers.get("AdamW")) is optimizers.AdamW
    kept = optimizers.SGD()
    assert optimizers.get(kept) is kept
    assert optimizers.get(None) is None
    with pytest.raises(ValueError, match="adamm"):
        optimizers.get("adamm")
    with pytest.raises(TypeError, match="3"):
        optimizers.get(3)
    with pytest.raises(ValueError, match="needs the optimizer it wraps"):
        optimizers.get("LossScaleOptimizer")


def test_a_schedule_survives_the_config():
    schedule = optimizers.schedules.CosineDecay(
        0.1, 10, alpha=0.2, warmup_target=0.3, warmup_steps=2
    )
    again = optimizers.deserialize(optimizers.serialize(optimizers.SGD(schedule, momentum=0.5)))
    assert again.momentum == 0.5
    assert again._learning_rate.get_config() == schedule.get_config()
    with pytest.raises(ValueError, match="use a schedule"):
        optimizers.SGD(lambda: 0.1).get_config()


# ------------------------------------------------------------------ loss scale


def test_loss_scale_skips_bad_steps_and_adapts():
    inner, w = optimizers.SGD(1.0), weight([1.0])
    scaled = optimizers.LossScaleOptimizer(inner, initial_scale=4.0, dynamic_growth_steps=2)
    assert float(scaled.scale_loss(tk.convert_to_tensor(2.0))) == 8.0
    seen = []
    for g in (4.0, np.inf, 2.0, 2.0, 4.0):
        scaled.apply_gradients([(grad([g]), w)])
        seen.append((float(w.numpy()[0]), float(scaled.dynamic_scale), int(scaled.step_counter)))
    assert seen == [(0.0, 4.0, 1), (0.0, 2.0, 0), (-1.0, 2.0, 1), (-2.0, 4.0, 0), (-3.0, 4.0, 1)]
    assert int(scaled.iterations) == 4
    again = optimizers.deserialize(optimizers.serialize(scaled))
    assert type(again.inner_optimizer) is optimizers.SGD
    with pytest.raises(TypeError, match="wraps another optimizer"):
        optimizers.LossScaleOptimizer(scaled)


@pytest.mark.filterwarnings("ignore:invalid value encountered")  # inf - inf, which is not used
def test_loss_scale_does_the_same_in_a_graph():
    from trainkit.graph.tracing.function import function

    inner, w = optimizers.Adam(0.1), weight([1.0])
    scaled = optimizers.LossScaleOptimizer(inner, initial_scale=4.0, dynamic_growth_steps=2)
    run = function(lambda g: scaled.apply([g], [w]))
    for g in (4.0, np.inf, 2.0):
        run(grad([g]))
    assert int(inner.iterations) == 2
    assert float(scaled.dynamic_scale) == 2.0
    assert np.isfinite(w.numpy()).all()


@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("options", [{}, {"gradient_accumulation_steps": 2}], ids=str)
def test_a_step_that_is_left_out_leaves_constraints_out(options, compiled):
    w = weight([4.0])
    w.constraint = tk.constraints.MinMaxNorm(0.0, 1.0, rate=0.5)  # half of the way at each call
    scaled = optimizers.LossScaleOptimizer(optimizers.SGD(0.0, **options))
    run = tk.function(lambda g: scaled.apply([g], [w])) if compiled else scaled.apply
    arguments = (grad([np.inf]),) if compiled else ([grad([np.inf])], [w])
    run(*arguments)
    assert w.numpy() == [4.0]


# ------------------------------------------------------------------ the first API


def test_gradient_descent_of_the_first_api():
    sgd, w, step = GradientDescentOptimizer(learning_rate=0.5), weight(1.0), tk.Variable(0)
    ((g, of),) = sgd.compute_gradients(lambda: w * w)
    assert of is w
    assert float(g) == 2.0
    sgd.apply_gradients([(g, w)], global_step=step)
    sgd.minimize(lambda: w * w + 1.0, global_step=step)
    assert (float(w), int(step)) == (0.0, 2)
    with pytest.raises(TypeError, match="wrap it in a lambda"):
        sgd.compute_gradients(tk.convert_to_tensor(1.0))


def test_muon_gives_adam_what_is_no_hidden_matrix():
    muon = optimizers.Muon(exclude_layers=["head"])
    names = {"dense/kernel": False, "head/kernel": True, "token_embedding/kernel": True}
    for path, adam in names.items():
        w = weight(np.eye(2), path)
        assert muon.takes_adam(w) is adam
    assert muon.takes_adam(weight([1.0, 2.0]))


@pytest.mark.parametrize("traced", [False, True])
def test_schedule_free_with_warm_up_and_decay(traced):
    # The formula of Keras 3.15 worked out for gradients 1, 2 and -1.
    free, w = optimizers.ScheduleFreeAdamW(0.1, warmup_steps=2, weight_decay=0.1), weight([1.0])
    step = tk.function(lambda g: free.apply([g], [w])) if traced else lambda g: free.apply([g], [w])
    path = []
    for g in (1.0, 2.0, -1.0):
        step(tk.constant([g]))
        path.append(float(w[0]))
    np.testing.assert_allclose(path, [0.95, 0.8756914, 0.8807503], rtol=1e-5)


def test_a_weight_that_is_given_twice_is_updated_twice(mode):
    weight = tk.Variable([1.0, 2.0])
    optimizer = tk.optimizers.SGD(0.5)
    optimizer.apply_gradients(
        [(tk.constant([1.0, 1.0]), weight), (tk.constant([2.0, 4.0]), weight)]
    )
    np.testing.assert_array_equal(weight.numpy(), [-0.5, -0.5])


class Refusing(tk.optimizers.Optimizer):
    """A rule with two slots, the second of which can't be made at first."""

    slots = ("s0", "s1")
    refuses = True

    def initial_slot(self, slot, weight, xp, dtype):
        if slot == "s1" and self.refuses:
            raise RuntimeError("no memory")
        return super().initial_slot(slot, weight, xp, dtype)

    def update(self, xp, weight, grad, lr, s0, s1):
        return weight - lr * grad, s0 + grad, s1 + grad


def test_slots_that_can_not_be_made_leave_the_optimizer_as_it_was():
    weight, optimizer = tk.Variable([1.0, 2.0]), Refusing(0.5)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no memory"):
            optimizer.apply([tk.ones(2)], [weight])
        np.testing.assert_array_equal(weight, [1.0, 2.0])
    optimizer.refuses = False
    optimizer.apply([tk.ones(2)], [weight])
    np.testing.assert_array_equal(weight, [0.5, 1.5])


@pytest.mark.parametrize("compiled", [False, True])
def test_a_zero_keeps_its_sign_in_a_rule(compiled):
    class Signs(tk.optimizers.Optimizer):
        slots = ()

        def update(self, xp, weight, grad, lr):
            return (xp.copysign(xp.copysign(weight, 0.0), -0.0),)

    weight, optimizer = tk.Variable([1.0, 2.0]), Signs(0.1)
    step = lambda: optimizer.apply([tk.ones(2)], [weight])  # noqa: E731
    (tk.function(step) if compiled else step)()
    np.testing.assert_array_equal(weight, [-1.0, -2.0])


def test_two_rules_of_one_name_are_two():
    def rule(factor):
        def update(xp, weight, grad, lr):
            return (weight - factor * lr * grad,)

        return update

    class Twofold(tk.optimizers.Optimizer):
        slots = ()
        rules = (rule(1.0), rule(10.0))

        def update(self, xp, weight, grad, lr):
            raise NotImplementedError

        def update_of(self, weight):
            return self.rules[len(weight.shape)]

    scalar, vector = tk.Variable(1.0), tk.Variable([1.0])
    optimizer = Twofold(0.1)
    for _ in range(2):
        optimizer.apply([tk.constant(1.0), tk.ones(1)], [scalar, vector])
    np.testing.assert_allclose(scalar, 0.8, rtol=1e-6)
    np.testing.assert_allclose(vector, [-1.0], rtol=1e-6)
