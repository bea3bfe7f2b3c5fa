"""An optimizer's step of many weights as one node: the bits of eager steps, in place, anywhere."""

import warnings

import numpy as np
import pytest

import trainkit as tk
from trainkit.graph.ir.written_out_updates import with_updates_written_out
from trainkit.kernels.jit import kernel_family
from trainkit.ops.math.update_weights import update_weights
from trainkit.optimizers.base.clipping import ClipLimits, ClippingRule
from trainkit.optimizers.base.weight_update import WeightUpdate

pytestmark = pytest.mark.usefixtures("on_cpu")

SHAPES = [(3, 4), (4,), (4, 2), (), (4,), (1, 5), (3, 4), (2, 3, 4), (7,), (1,)]
STEPS = 5


def made_weights(seed=0):
    rng = np.random.default_rng(seed)
    return [
        tk.Variable(rng.normal(size=shape).astype("float32"), name=f"w{i}")
        for i, shape in enumerate(SHAPES)
    ]


def state_of(optimizer, weights):
    return [v.numpy() for v in (*weights, *optimizer.variables)]


def stepper(optimizer, weights, function):
    """`weights` moved along gradients that depend on them and on an argument."""
    optimizer.build(weights)

    @function
    def step(scale):
        optimizer.apply([tk.sin(w) * scale for w in weights], weights)
        return scale + 0.0

    return step


def update_nodes(compiled, *args):
    """The nodes that update weights; clipping before them is a node of the same kind."""
    graph = compiled.get_concrete_function(*args).graph
    nodes = [node for node in graph.nodes if node.primitive is update_weights.primitive]
    return [node for node in nodes if isinstance(node.settings["rule"], WeightUpdate)]


OPTIMIZERS = {
    "adam": lambda: tk.optimizers.Adam(0.1),
    "amsgrad": lambda: tk.optimizers.Adam(0.1, amsgrad=True),
    "decay": lambda: tk.optimizers.AdamW(0.1, weight_decay=0.3),
    "sgd": lambda: tk.optimizers.SGD(0.1),
    "nesterov": lambda: tk.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "rmsprop": lambda: tk.optimizers.RMSprop(0.1, centered=True, momentum=0.9),
    "nadam": lambda: tk.optimizers.Nadam(0.1),
    "adamax": lambda: tk.optimizers.Adamax(0.1),
    "adagrad": lambda: tk.optimizers.Adagrad(0.1),
    "adadelta": lambda: tk.optimizers.Adadelta(0.1),
    "lion": lambda: tk.optimizers.Lion(0.1),
    "clipnorm": lambda: tk.optimizers.Adam(0.1, clipnorm=0.5),
    "clipvalue": lambda: tk.optimizers.Adam(0.1, clipvalue=0.1),
    "global_clipnorm": lambda: tk.optimizers.Adam(0.1, global_clipnorm=0.5),
    "periods": lambda: tk.optimizers.Adam(0.1, gradient_accumulation_steps=2),
    "factor": lambda: tk.optimizers.Adam(0.1, loss_scale_factor=8.0),
    "average": lambda: tk.optimizers.Adam(0.1, use_ema=True),
    "average of decay": lambda: tk.optimizers.AdamW(0.1, use_ema=True, ema_momentum=0.5),
    "averages as weights": lambda: tk.optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency=2),
    "average and joint norm": lambda: tk.optimizers.Adam(0.1, use_ema=True, global_clipnorm=0.5),
    "schedule": lambda: tk.optimizers.Adam(tk.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)),
}


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_node_gives_the_bits_of_eager_steps(name, jit_compile):
    results = []
    for function in (lambda f: f, tk.function(jit_compile=jit_compile)):
        optimizer, weights = OPTIMIZERS[name](), made_weights()
        step = stepper(optimizer, weights, function)
        for i in range(STEPS):
            step(tk.constant(1.0 + i))
        results.append(state_of(optimizer, weights))
    assert len(update_nodes(step, tk.constant(1.0))) == 1
    for eager, compiled in zip(*results, strict=True):
        np.testing.assert_array_equal(eager, compiled)


@pytest.mark.parametrize("mode", ["off", "hot", "eager"])
def test_kernels_that_are_not_compiled_give_the_same(mode):
    before = kernel_family.mode()
    kernel_family.set_mode(mode)
    try:
        optimizer, weights = tk.optimizers.Adam(0.1), made_weights()
        step = stepper(optimizer, weights, tk.function)
        for _ in range(STEPS):
            step(tk.constant(2.0))
        results = state_of(optimizer, weights)
    finally:
        kernel_family.set_mode(before)
    optimizer, weights = tk.optimizers.Adam(0.1), made_weights()
    step = stepper(optimizer, weights, lambda f: f)
    for _ in range(STEPS):
        step(tk.constant(2.0))
    for a, b in zip(results, state_of(optimizer, weights), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_values_are_written_over_unless_somebody_holds_them(jit_compile):
    optimizer, weights = tk.optimizers.Adam(0.1), made_weights()
    step = stepper(optimizer, weights, tk.function(jit_compile=jit_compile))
    step(tk.constant(1.0))
    held, copy = weights[0].value(), weights[0].numpy().copy()
    slot = optimizer.state_of(weights[1]).held[0]
    slot_view = slot._value._array[1:]
    slot_copy = slot_view.copy()
    places = [v._value._array.ctypes.data for v in weights]
    step(tk.constant(1.0))
    np.testing.assert_array_equal(held.numpy(), copy)
    np.testing.assert_array_equal(slot_view, slot_copy)
    assert (weights[0].numpy() != copy).all()
    assert (slot.numpy()[1:] != slot_copy).all()
    assert [v._value._array.ctypes.data for v in weights[1:]] == places[1:]
    assert weights[0]._value._array.ctypes.data != places[0]


def test_a_weight_that_is_its_own_gradient_or_a_result_is_not_written_over():
    weights, twins = made_weights(), made_weights()
    optimizers = [tk.optimizers.SGD(0.5), tk.optimizers.SGD(0.5)]

    def step(optimizer, weights):
        before = [w.value() for w in weights]
        optimizer.apply([w.value() for w in weights], weights)
        return [*before, *[w * 1.0 for w in weights]]

    compiled = tk.function(lambda: step(optimizers[0], weights))
    for _ in range(3):
        got, expected = compiled(), step(optimizers[1], twins)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
    for a, b in zip(weights, twins, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def assert_compiled_as_eager(step, first, second):
    """Three steps of one optimizer in a function leave what those of another leave eagerly."""
    compiled = tk.function(lambda: step(*first))
    for _ in range(3):
        compiled()
        step(*second)
    for x, y in zip(state_of(*first), state_of(*second), strict=True):
        np.testing.assert_array_equal(x, y)


def test_two_steps_and_a_constraint_in_one_function():
    def made():
        weights = made_weights()
        for weight in weights:
            if weight.shape.rank == 2:
                weight.constraint = tk.constraints.MaxNorm(0.5, axis=0)
        return tk.optimizers.Adam(0.1), weights

    (a, mine), (b, twins) = made(), made()

    def step(optimizer, weights):
        optimizer.apply([tk.sin(w) for w in weights], weights)
        optimizer.apply([tk.cos(w) for w in weights], weights)

    assert_compiled_as_eager(step, (a, mine), (b, twins))


def test_a_weight_that_comes_twice_is_updated_twice():
    def step(optimizer, weights):
        twice = [*weights, weights[0]]
        optimizer.apply([tk.sin(w) for w in twice], twice)

    (a, mine), (b, twins) = [(tk.optimizers.Adam(0.1), made_weights()) for _ in range(2)]
    a.build(mine)
    b.build(twins)
    assert_compiled_as_eager(step, (a, mine), (b, twins))


def test_nothing_changes_where_a_gradient_is_not_finite():
    inner, weights = tk.optimizers.Adam(0.1), made_weights()
    optimizer = tk.optimizers.LossScaleOptimizer(inner)
    step = stepper(optimizer, weights, tk.function)
    step(tk.constant(1.0))
    before = state_of(inner, weights)
    step(tk.constant(np.inf))
    for a, b in zip(before, state_of(inner, weights), strict=True):
        np.testing.assert_array_equal(a, b)
    step(tk.constant(1.0))
    assert int(inner.iterations) == 2


def test_arrays_in_another_order_are_replaced():
    results = []
    for function in (lambda f: f, tk.function):
        optimizer, weights = tk.optimizers.Adam(0.1), made_weights()
        step = stepper(optimizer, weights, function)
        step(tk.constant(1.0))
        turned = np.asfortranarray(np.arange(12, dtype="float32").reshape(3, 4))
        weights[0]._value = tk.core.tensor.wrap(turned)
        slot = optimizer.state_of(weights[2]).held[1]
        slot._value = tk.core.tensor.wrap(np.asfortranarray(slot._value._array))
        del turned
        step(tk.constant(1.0))
        step(tk.constant(1.0))
        results.append(state_of(optimizer, weights))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_gradient_of_another_size_is_refused_when_it_comes():
    optimizer, weights = tk.optimizers.Adam(0.1), made_weights()
    optimizer.build(weights)

    @tk.function(input_signature=[tk.TensorSpec([None], "float32")])
    def step(g):
        grads = [tk.sin(w) for w in weights[:-2]]
        optimizer.apply([*grads, g, tk.sin(weights[-1])], weights)

    step(tk.ones([7]))
    before = state_of(optimizer, weights)
    with pytest.raises((tk.errors.InvalidArgumentError, ValueError), match="shape"):
        step(tk.ones([6]))
    for a, b in zip(before, state_of(optimizer, weights), strict=True):
        np.testing.assert_array_equal(a, b)


def test_few_small_weights_stay_operations():
    weights = made_weights()[:4]
    step = stepper(tk.optimizers.Adam(0.1), weights, tk.function)
    step(tk.constant(1.0))
    assert update_nodes(step, tk.constant(1.0)) == []


def test_a_large_weight_alone_is_one_node():
    weight = tk.Variable(tk.ones([513, 512]))
    step = stepper(tk.optimizers.Adam(0.1), [weight], tk.function)
    step(tk.constant(1.0))
    assert len(update_nodes(step, tk.constant(1.0))) == 1


CLIPPED = {"clipnorm": 0.5, "clipvalue": 0.1, "global_clipnorm": 0.5}


@pytest.mark.parametrize("setting", CLIPPED)
def test_clipping_is_one_node_whatever_the_number_of_weights(setting):
    counts = []
    for options in ({}, {setting: CLIPPED[setting]}):
        weights = made_weights()
        optimizer = tk.optimizers.AdamW(0.1, **options)
        # weights with and without decay have rules of their own, and one length together
        optimizer.exclude_from_weight_decay(weights[::2])
        step = stepper(optimizer, weights, tk.function)
        counts.append(len(step.get_concrete_function(tk.constant(1.0)).graph.nodes))
    assert counts[1] == counts[0] + 1


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("periods", [None, 2])
@pytest.mark.parametrize("setting", CLIPPED)
def test_large_gradients_are_clipped_to_the_bits_of_eager_steps(setting, periods, jit_compile):
    results = []
    for function in (lambda f: f, tk.function(jit_compile=jit_compile)):
        rng = np.random.default_rng(7)
        shapes = [(300, 300), (7,), (1, 40_000), ()]
        weights = [tk.Variable(rng.normal(size=shape).astype("float32")) for shape in shapes]
        options = {setting: CLIPPED[setting], "gradient_accumulation_steps": periods}
        optimizer = tk.optimizers.Adam(0.1, **options)
        results.append(stepped(optimizer, weights, function)[0])
    for eager, compiled in zip(*results, strict=True):
        np.testing.assert_array_equal(eager, compiled)


@pytest.mark.parametrize("setting", CLIPPED)
def test_gradients_that_are_not_finite_pass_clipping_as_in_eager_steps(setting):
    results = []
    for function in (lambda f: f, tk.function):
        optimizer, weights = tk.optimizers.SGD(0.1, **{setting: CLIPPED[setting]}), made_weights()
        step = stepper(optimizer, weights, function)
        with np.errstate(all="ignore"):
            for factor in (1.0, np.inf, np.nan):
                step(tk.constant(factor))
        results.append(state_of(optimizer, weights))
    for eager, compiled in zip(*results, strict=True):
        np.testing.assert_array_equal(eager, compiled)


@pytest.mark.parametrize("setting", CLIPPED)
def test_a_step_that_is_left_out_clips_nothing(setting):
    inner, weights = tk.optimizers.Adam(0.1, **{setting: CLIPPED[setting]}), made_weights()
    optimizer = tk.optimizers.LossScaleOptimizer(inner)
    step = stepper(optimizer, weights, tk.function)
    step(tk.constant(1.0))
    before = state_of(inner, weights)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(tk.constant(np.inf))
    for a, b in zip(before, state_of(inner, weights), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_branch_clips_by_operations():
    results = []
    for function in (lambda f: f, tk.function):
        optimizer, weights = tk.optimizers.Adam(0.1, global_clipnorm=0.5), made_weights()
        optimizer.build(weights)

        def moved(optimizer=optimizer, weights=weights):
            optimizer.apply([tk.sin(w) for w in weights], weights)
            return tk.constant(1.0)

        step = function(lambda x, moved=moved: tk.cond(x > 0, moved, lambda: tk.constant(0.0)))
        for x in (1.0, -1.0, 1.0):
            step(tk.constant(x))
        results.append(state_of(optimizer, weights))
    for eager, compiled in zip(*results, strict=True):
        np.testing.assert_array_equal(eager, compiled)


def test_new_values_of_weights_and_slots_have_no_nodes_of_their_own():
    step = stepper(tk.optimizers.Adam(0.1), made_weights(), tk.function)
    nodes = step.get_concrete_function(tk.constant(1.0)).graph.nodes
    (update,) = update_nodes(step, tk.constant(1.0))
    assert update.type != "Identity"
    assert not [x for n in nodes if n.type == "Identity" for x in n.inputs if x.node is update]


def test_a_weight_that_is_read_after_its_step_is_a_source_of_gradients():
    def gradients(function):
        optimizer, weights = tk.optimizers.Adam(0.1), made_weights()
        optimizer.build(weights)

        @function
        def step():
            with tk.GradientTape(persistent=True) as around:
                first = tk.add_n([tk.reduce_sum(tk.sin(w)) for w in weights])
                optimizer.apply([tk.cos(w) for w in weights], weights)
                with tk.GradientTape() as within:
                    second = tk.add_n([tk.reduce_sum(w * w) for w in weights])
            return (
                within.gradient(second, weights),
                around.gradient(first, weights),
                around.gradient(second, weights),
            )

        return [g.numpy() for part in step() for g in part]

    for a, b in zip(gradients(tk.function), gradients(lambda f: f), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("scaled", [False, True])
def test_sums_over_a_period_are_two_nodes_whatever_the_number_of_weights(scaled):
    counts = []
    for count in (1, 3):
        weights = [w for seed in range(count) for w in made_weights(seed)]
        optimizer = tk.optimizers.Adam(0.1, gradient_accumulation_steps=2)
        outer = tk.optimizers.LossScaleOptimizer(optimizer) if scaled else optimizer
        step = stepper(outer, weights, tk.function)
        graph = step.get_concrete_function(tk.constant(1.0)).graph
        rules = [n.settings["rule"] for n in graph.nodes if n.primitive is update_weights.primitive]
        counts.append([repr(rule) for rule in rules])
    assert counts == [["<means of a period>", "<sums of a period>", "<rule of Adam>"]] * 2


@pytest.mark.parametrize("jit_compile", [False, True])
def test_sums_over_a_period_are_written_where_they_lie_unless_somebody_holds_them(jit_compile):
    optimizer, weights = tk.optimizers.Adam(0.1, gradient_accumulation_steps=3), made_weights()
    step = stepper(optimizer, weights, tk.function(jit_compile=jit_compile))
    step(tk.constant(1.0))
    sums = [optimizer.state_of(w).slots["accumulated_gradient"] for w in weights]
    places = [v._value._array.ctypes.data for v in sums]
    held, copy = sums[0].value(), sums[0].numpy().copy()
    for _ in range(3):
        step(tk.constant(1.0))
    assert [v._value._array.ctypes.data for v in sums[1:]] == places[1:]
    np.testing.assert_array_equal(held.numpy(), copy)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("factor", [np.inf, np.nan])
def test_sums_stay_where_a_step_is_left_out(factor, jit_compile):
    inner, weights = tk.optimizers.Adam(0.1, gradient_accumulation_steps=3), made_weights()
    optimizer = tk.optimizers.LossScaleOptimizer(inner)
    step = stepper(optimizer, weights, tk.function(jit_compile=jit_compile))
    step(tk.constant(1.0))
    before = state_of(inner, weights)
    step(tk.constant(factor))
    for a, b in zip(before, state_of(inner, weights), strict=True):
        np.testing.assert_array_equal(a, b)
    for _ in range(2):
        step(tk.constant(1.0))
    assert all((v.numpy() == 0).all() for v in inner._states.accumulated())
    assert not np.array_equal(weights[0].numpy(), before[0])


def test_the_rule_of_clipping_shows_its_bound():
    rule = ClippingRule(ClipLimits(None, None, 0.5), is_conditional=False)
    assert repr(rule) == "<limits of global_clipnorm=0.5>"


def stepped(optimizer, weights, function, steps=STEPS):
    """What weights and slots come to, and the nodes of updates where there is a graph."""
    step = stepper(optimizer, weights, function)
    for i in range(steps):
        step(tk.constant(1.0 + i))
    values = state_of(optimizer, weights)
    return values, update_nodes(step, tk.constant(1.0)) if hasattr(step, "explain") else None


def constrained_weights(count):
    weights = made_weights() + made_weights(1)
    for weight in weights[:count]:
        weight.constraint = tk.constraints.MaxNorm(0.5, axis=None)
    return weights


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("count", [3, 2 * len(SHAPES)])
@pytest.mark.parametrize("options", [{}, {"use_ema": True, "ema_overwrite_frequency": 2}], ids=str)
def test_constraints_come_behind_the_node(options, count, jit_compile):
    results = []
    for function in (lambda f: f, tk.function(jit_compile=jit_compile)):
        optimizer = tk.optimizers.Adam(0.1, **options)
        values, nodes = stepped(optimizer, constrained_weights(count), function)
        results.append(values)
    assert [len(node.outputs) for node in nodes] == [20 * (4 if options else 3)]
    assert all(np.linalg.norm(w) <= 0.5 + 1e-6 for w in results[0][:count])
    for eager, compiled in zip(*results, strict=True):
        np.testing.assert_array_equal(eager, compiled)


@pytest.mark.parametrize(
    ("options", "nodes"),
    [
        ({}, [30 + 10]),
        ({"ema_overwrite_frequency": 3}, [30 + 10]),
        ({"gradient_accumulation_steps": 2}, [30, 10]),
        ({"gradient_accumulation_steps": 2, "ema_overwrite_frequency": 2}, [30, 10]),
    ],
    ids=str,
)
def test_averages_are_updated_by_nodes_too(options, nodes):
    optimizer = tk.optimizers.Adam(0.1, use_ema=True, **options)
    _, updates = stepped(optimizer, made_weights(), tk.function)
    assert [len(node.outputs) for node in updates] == nodes


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("options", [{}, {"gradient_accumulation_steps": 2}], ids=str)
def test_weights_are_written_over_where_averages_read_them(options, jit_compile):
    optimizer, weights = tk.optimizers.Adam(0.1, use_ema=True, **options), made_weights()
    step = stepper(optimizer, weights, tk.function(jit_compile=jit_compile))
    step(tk.constant(1.0))
    held, before = weights[1].value(), weights[1].numpy()
    variables = [v for v in (*weights, *optimizer.variables) if v.dtype == "float32" and v.ndim]
    addresses = [v._value._array.ctypes.data for v in variables]
    for _ in range(2):
        step(tk.constant(2.0))
    same = [v._value._array.ctypes.data == n for v, n in zip(variables, addresses, strict=True)]
    # that of somebody else stays as it is
    np.testing.assert_array_equal(held.numpy(), before)
    names = [v.path for v, is_same in zip(variables, same, strict=True) if not is_same]
    assert [n for n in names if "accumulated" not in n] == ["w1"]


@pytest.mark.parametrize("mode", ["off", "eager"])
@pytest.mark.parametrize("count", [0, 3])
def test_averages_are_those_of_the_formula(count, mode):
    kernel_family.set_mode(mode)
    try:
        optimizer = tk.optimizers.SGD(0.25, use_ema=True, ema_momentum=0.75)
        weights, averages, unbound = constrained_weights(count), None, {}
        for k, weight in enumerate(weights[:count]):

            def bound(value, k=k, to=weight.constraint):
                unbound[k] = value.numpy()
                return to(value)

            weight.constraint = bound
        step = stepper(optimizer, weights, lambda f: f)
        for i in range(STEPS):
            step(tk.constant(1.0 + i))
            values = [unbound.get(k, w.numpy()) for k, w in enumerate(weights)]
            averages = (
                [
                    np.float32(0.75) * a + np.float32(0.25) * w
                    for a, w in zip(averages, values, strict=True)
                ]
                if averages
                else values
            )
        slots = [slot for name, _, slot in optimizer.slot_variables() if name == "average"]
        for slot, average in zip(slots, averages, strict=True):
            np.testing.assert_array_equal(slot.numpy(), average)
    finally:
        kernel_family.set_mode("hot")


def test_a_constraint_that_comes_later_is_seen():
    results = []
    for function in (lambda f: f, tk.function):
        optimizer, weights = tk.optimizers.Adam(0.1, use_ema=True), made_weights()
        stepped(optimizer, weights, function, steps=2)
        weights[0].constraint = tk.constraints.NonNeg()
        results.append(stepped(optimizer, weights, function, steps=2)[0])
    for eager, compiled in zip(*results, strict=True):
        np.testing.assert_array_equal(eager, compiled)
    average = optimizer.state_of(weights[0]).slots["average"]
    assert np.all(weights[0].numpy() >= 0)
    assert not np.array_equal(average.numpy(), weights[0].numpy())


def test_weights_without_a_gradient_keep_their_averages_moving():
    results = []
    for function in (lambda f: f, tk.function):
        optimizer, weights = tk.optimizers.Adam(0.1, use_ema=True, ema_momentum=0.5), made_weights()
        optimizer.build(weights)

        @function
        def step(optimizer=optimizer, weights=weights):
            optimizer.apply([tk.sin(w) for w in weights[1:]], weights[1:])

        step()
        weights[0].assign(weights[0] + 1.0)
        step()
        results.append(state_of(optimizer, weights))
        average = optimizer.state_of(weights[0]).slots["average"]
        np.testing.assert_array_equal(average.numpy(), weights[0].numpy() - np.float32(0.5))
    for eager, compiled in zip(*results, strict=True):
        np.testing.assert_array_equal(eager, compiled)


def test_rules_that_look_at_more_than_elements_stay_operations():
    weights = made_weights()
    step = stepper(tk.optimizers.Lamb(0.1), weights, tk.function)
    step(tk.constant(1.0))
    assert update_nodes(step, tk.constant(1.0)) == []


def test_a_half_precision_weight_stays_operations_beside_the_node():
    results = []
    for function in (lambda f: f, tk.function):
        optimizer, weights = tk.optimizers.Adam(0.1), made_weights()
        weights.append(tk.Variable(tk.ones([3], "float16")))
        optimizer.build(weights)

        @function
        def step(optimizer=optimizer, weights=weights):
            optimizer.apply([tk.sin(w) for w in weights], weights)

        for _ in range(3):
            step()
        results.append(state_of(optimizer, weights))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


# ------------------------------------------------------------------ where there is no such node


@pytest.mark.parametrize("name", ["adam", "amsgrad", "decay", "lion", "rmsprop", "adadelta"])
def test_written_out_it_is_the_operations_of_the_rule(name):
    optimizer, weights = OPTIMIZERS[name](), made_weights()
    step = stepper(optimizer, weights, tk.function)
    step(tk.constant(1.0))
    graph = step.get_concrete_function(tk.constant(1.0)).graph
    written_out = with_updates_written_out(graph)
    assert len(written_out.nodes) > len(graph.nodes) + len(SHAPES)
    assert with_updates_written_out(written_out) is written_out
    twin, copies = OPTIMIZERS[name](), made_weights()
    eager = stepper(twin, copies, lambda f: f)
    eager(tk.constant(1.0))
    for _ in range(3):
        written_out.program()([np.float32(2.0)])
        eager(tk.constant(2.0))
    for a, b in zip(state_of(optimizer, weights), state_of(twin, copies), strict=True):
        np.testing.assert_array_equal(a, b)


def test_it_holds_the_settings_of_the_time_when_it_was_traced():
    optimizer, weights = tk.optimizers.Adam(0.1, beta_1=0.5), made_weights()
    step = stepper(optimizer, weights, tk.function)
    step(tk.constant(1.0))
    graph = step.get_concrete_function(tk.constant(1.0)).graph
    optimizer.beta_1 = 0.9
    written_out = with_updates_written_out(graph)
    written_out.program()([np.float32(2.0)])
    twin, copies = tk.optimizers.Adam(0.1, beta_1=0.5), made_weights()
    eager = stepper(twin, copies, lambda f: f)
    eager(tk.constant(1.0))
    eager(tk.constant(2.0))
    for a, b in zip(weights, copies, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("nested", [False, True])
def test_steps_in_loops_and_branches(nested):
    def step_of(optimizer, weights):
        def step():
            optimizer.apply([tk.sin(w) for w in weights], weights)

        return step

    optimizer, weights = tk.optimizers.Adam(0.1), made_weights()
    optimizer.build(weights)
    step = step_of(optimizer, weights)
    if nested:
        step = tk.function(step)
        step()
    else:
        step()

    @tk.function
    def several(n):
        for i in tk.range(n):
            if i != 1:
                step()

    several(tk.constant(4))
    twin, copies = tk.optimizers.Adam(0.1), made_weights()
    eager = step_of(twin, copies)
    twin.build(copies)
    for _ in range(4):
        eager()
    for a, b in zip(state_of(optimizer, weights), state_of(twin, copies), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_compiled_step_within_another_function_and_under_a_tape():
    optimizer, weights = tk.optimizers.Adam(0.1), made_weights()
    step = stepper(optimizer, weights, tk.function)
    step(tk.constant(1.0))
    outer = tk.function(lambda x: step(x) + 1.0)
    outer(tk.constant(1.0))
    assert len(update_nodes(outer, tk.constant(1.0))) == 1
    with tk.GradientTape() as tape:
        x = tk.constant(1.0)
        tape.watch(x)
        y = step(x)
    assert float(tape.gradient(y, x)) == 1.0
    twin, copies = tk.optimizers.Adam(0.1), made_weights()
    eager = stepper(twin, copies, lambda f: f)
    for _ in range(3):
        eager(tk.constant(1.0))
    for a, b in zip(state_of(optimizer, weights), state_of(twin, copies), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_saved_function_goes_on_training(tmp_path):
    class Training(tk.Module):
        def __init__(self):
            super().__init__()
            self.weights, self.optimizer = made_weights(), tk.optimizers.Adam(0.1)
            self.optimizer.build(self.weights)

        @tk.function(input_signature=[tk.TensorSpec([], "float32")])
        def step(self, scale):
            self.optimizer.apply([tk.sin(w) * scale for w in self.weights], self.weights)
            return tk.reduce_sum(self.weights[0])

    training = Training()
    training.step(tk.constant(1.0))
    tk.saved_model.save(training, str(tmp_path / "training"))
    loaded = tk.saved_model.load(str(tmp_path / "training"))
    for _ in range(3):
        a, b = training.step(tk.constant(2.0)), loaded.step(tk.constant(2.0))
        assert float(a) == float(b)


def test_listings_name_the_node():
    step = stepper(tk.optimizers.Adam(0.1), made_weights(), tk.function)
    step(tk.constant(1.0))
    graph = step.get_concrete_function(tk.constant(1.0)).graph
    assert "UpdateWeights" in str(graph)
    assert "rule of Adam" in str(graph)
    assert "UpdateWeights" in graph.to_dot()
    assert graph.as_graph_def() is not None


def _rule():
    optimizer, weights = tk.optimizers.Adam(0.1), made_weights()
    step = stepper(optimizer, weights, tk.function)
    step(tk.constant(1.0))
    (node,) = update_nodes(step, tk.constant(1.0))
    return node.settings["rule"]


@pytest.mark.parametrize("odd", [1, 2])
def test_arrays_of_several_shapes_are_refused(odd):
    arrays = [np.ones((2, 3), "float32") for _ in range(4)]
    arrays[odd] = np.ones((6,), "float32")
    numbers = [np.float32(0.1)] * 2
    with pytest.raises(tk.errors.ShapeError, match="weight of shape \\(2, 3\\)"):
        update_weights(*map(tk.constant, [*numbers, *arrays]), rule=_rule())


def test_arrays_of_another_type_are_refused():
    arrays = [np.ones(3, "float32"), np.ones(3, "float64"), np.ones(3), np.ones(3, "float32")]
    numbers = [np.float32(0.1)] * 2
    with pytest.raises(tk.errors.InvalidArgumentError, match="dtype float64"):
        update_weights(*map(tk.constant, [*numbers, *arrays]), rule=_rule())


def test_one_step_along_the_weights_of_another():
    def made():
        groups = made_weights(1), made_weights(2)
        optimizers = tk.optimizers.SGD(0.5), tk.optimizers.Adam(0.1)
        for optimizer, weights in zip(optimizers, groups, strict=True):
            optimizer.build(weights)
        return groups, optimizers

    def step(groups, optimizers):
        (a, b), (first, second) = groups, optimizers
        first.apply([w.value() for w in b], a)  # reads what the second changes
        second.apply([tk.fill(shape, 0.5) for shape in SHAPES], b)

    mine, twins = made(), made()
    compiled = tk.function(lambda: step(*mine))
    for _ in range(3):
        compiled()
        step(*twins)
    for k in range(2):
        mine_now, twin_now = (state_of(x[1][k], x[0][k]) for x in (mine, twins))
        for a, b in zip(mine_now, twin_now, strict=True):
            np.testing.assert_array_equal(a, b)


# of Keras 3.15 on TensorFlow: what the weight is after the fourth step
AVERAGED = {
    ("unit", None): [-0.4077, -0.90537, 0.1187],
    ("unit", 2): [0.17294, -0.87942, 0.44352],
    ("unit", 3): [-0.09621, -0.95494, 0.28078],
    ("positive", 2): [0.0, 0.0, 0.112],
    ("positive", 3): [0.0, 0.0, 0.0],
}


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(("kind", "frequency"), AVERAGED)
def test_averages_are_taken_before_constraints_and_constrained_where_they_replace_weights(
    kind, frequency, traced
):
    weight = tk.Variable([1.0, 0.0, 0.3])
    weight.constraint = {
        "unit": tk.constraints.UnitNorm(axis=0),
        "positive": tk.constraints.NonNeg(),
    }[kind]
    optimizer = tk.optimizers.SGD(
        0.5, use_ema=True, ema_momentum=0.6, ema_overwrite_frequency=frequency
    )
    step = optimizer.apply if not traced else tk.function(optimizer.apply)
    for k in range(4):
        step([tk.constant([0.9, 0.4, -0.2 + k * 0.3])], [weight])
    np.testing.assert_allclose(weight, AVERAGED[kind, frequency], atol=1e-5)
