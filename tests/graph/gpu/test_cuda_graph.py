"""A function on a GPU is captured as a CUDA graph after a few calls, and means what it meant."""

import gc
import re

import numpy as np
import pytest

import trainkit as tk
from tests.stand_in import memory
from tests.stand_in.installing import CUBLAS
from tests.stand_in.kernels import has_compiler
from trainkit.graph.gpu.gpu_program import CALLS_BEFORE_CAPTURE

# the first call looks, the next ones run in parts, the last of them is captured
CALLS = CALLS_BEFORE_CAPTURE + 1
X = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")
Y = np.arange(8, dtype="int32") % 3


@pytest.fixture(autouse=True)
def _gpu(any_gpu):
    """Each test runs on the stand-in, and on a GPU where there is one."""


@pytest.fixture
def near(any_gpu):
    """How far results may be apart that are summed in another order."""
    return 1e-5 if any_gpu == "stand-in" else 1e-3


def replays(function):
    """How many CUDA graphs a function has launched; fails with the reason where there is none."""
    text = function.explain()
    found = re.findall(r"(\d+) replays of", text)
    assert found, text
    return sum(map(int, found))


def a_model(rate=0.0):
    layers = tk.layers
    return tk.Sequential([layers.Dense(5, "relu"), layers.Dropout(rate), layers.Dense(3)])


def a_step(model, rule):
    loss_of = tk.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(x, y):
        with tk.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        weights = model.trainable_variables
        rule.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    return step


OPTIMIZERS = {
    "sgd": lambda: tk.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: tk.optimizers.Adam(0.01),
    "clipped": lambda: tk.optimizers.AdamW(0.01, global_clipnorm=1.0, use_ema=True),
    "schedule": lambda: tk.optimizers.Adam(tk.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)),
    "nadam": lambda: tk.optimizers.Nadam(0.01),
}


def trained(device, optimizer, steps, rate=0.0, compiled=True):
    """Losses, weights and the function of some steps of training."""
    tk.random.set_seed(3)
    with tk.device(device):
        model, rule = a_model(rate), OPTIMIZERS[optimizer]()
        step = a_step(model, rule)
        step = tk.function(step) if compiled else step
        losses = []
        for i in range(steps):
            if optimizer == "adam":
                rule.learning_rate = 0.01 * (i + 1)
            losses.append(step(tk.constant(X), tk.constant(Y)))
        assert int(rule.iterations) == steps
        return [float(x) for x in losses], model.get_weights(), step


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_captured_step_trains_as_an_eager_one(optimizer, near):
    losses, weights, step = trained("/gpu:0", optimizer, 12)
    assert replays(step) == 12 - CALLS + 1
    same_losses, same_weights, _ = trained("/gpu:0", optimizer, 12, compiled=False)
    np.testing.assert_allclose(losses, same_losses, rtol=near)
    for a, b in zip(weights, same_weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=near, atol=near / 10)


def test_dropout_draws_anew_in_each_replay_and_the_same_bits_as_on_the_cpu():
    drop = tk.layers.Dropout(0.5, seed=4)
    here = tk.function(lambda x: drop(x, training=True))
    ones = np.ones((4, 6), "float32")
    found = [here(tk.constant(ones)).numpy() for _ in range(CALLS + 4)]
    assert replays(here) == 5
    assert len({f.tobytes() for f in found}) == len(found)
    with tk.device("/cpu:0"):
        drop = tk.layers.Dropout(0.5, seed=4)
        there = tk.function(lambda x: drop(x, training=True))
        for masked in found:
            np.testing.assert_array_equal(masked, there(tk.constant(ones)).numpy())


def test_training_with_dropout_is_that_of_the_cpu(near):
    losses, weights, step = trained("/gpu:0", "sgd", 10, rate=0.5)
    assert replays(step) > 0
    same_losses, same_weights, _ = trained("/cpu:0", "sgd", 10, rate=0.5)
    np.testing.assert_allclose(losses, same_losses, rtol=near)
    for a, b in zip(weights, same_weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=10 * near, atol=near)


def test_results_of_two_calls_do_not_share_memory():
    double = tk.function(lambda x: (x * 2, x * 2 + 1))
    kept = [double(tk.constant(np.full(3, i, "float32"))) for i in range(CALLS + 3)]
    assert replays(double) == 4
    for i, (one, two) in enumerate(kept):
        assert one.numpy().tolist() == [2 * i] * 3
        assert two.numpy().tolist() == [2 * i + 1] * 3


def test_an_argument_that_is_a_result_is_a_copy():
    same = tk.function(lambda x: (x, tk.reshape(x, (3, 1))))
    for i in range(CALLS + 2):
        x = tk.constant(np.full(3, i, "float32"))
        one, two = same(x)
        assert one.numpy().tolist() == two.numpy()[:, 0].tolist() == [i] * 3
    assert replays(same) == 3


def test_each_shape_has_a_graph_of_its_own():
    total = tk.function(tk.reduce_sum)
    for n in (3, 5, 3, 5):
        for i in range(CALLS):
            assert float(total(tk.constant(np.full(n, i, "float32")))) == n * i
    assert "2 replays of 1 CUDA graph\n" not in total.explain()
    assert total.explain().count("replays of 1 CUDA graph") == 2


def test_one_graph_for_open_shapes_is_captured_for_those_that_come_often():
    total = tk.function(
        lambda x: tk.reshape(x, (-1, 1)) * tk.cast(tk.shape(x)[0], "float32"),
        input_signature=[tk.TensorSpec([None], tk.float32)],
    )
    for n in (3, 5):
        for i in range(CALLS + 3):
            y = total(tk.constant(np.full(n, i, "float32"))).numpy()
            assert y.tolist() == [[i * n]] * n
    assert replays(total) > 0
    assert "2 CUDA graphs" in total.explain()


def test_a_read_on_the_host_is_told_and_the_function_runs_without_a_graph():
    def halves(x):
        while tk.reduce_sum(x) > 1:
            x = x / 2
        return x

    halved = tk.function(halves)
    for _ in range(CALLS + 2):
        assert halved(tk.constant([4.0, 4.0])).numpy().tolist() == [0.5, 0.5]
    text = halved.explain()
    assert "operation by operation, not as a CUDA graph: while_loop" in text
    assert "test_cuda_graph.py" in text
    assert "capturing" in text


def test_an_effect_is_told(capsys):
    def shown(x):
        tk.print(x)
        return x + 1

    shown = tk.function(shown)
    for _ in range(CALLS + 2):
        shown(tk.constant(1.0))
    assert capsys.readouterr().err.count("1\n") == CALLS + 2
    assert "print, at" in shown.explain()
    assert "does something besides its result" in shown.explain()


def test_before_the_capture_it_says_what_will_come():
    double = tk.function(lambda x: x * 2)
    double(tk.constant(1.0))
    assert "a CUDA graph is captured after a few calls" in double.explain()


def test_without_fusion_there_is_no_graph():
    double = tk.function(lambda x: x * 2, jit_compile=False)
    for _ in range(CALLS + 2):
        double(tk.constant(1.0))
    assert "CUDA graphs are turned off" in double.explain()


# ---------------------------------------------------------------------- variables


def a_counter():
    count = tk.Variable(np.zeros(3, "float32"))

    @tk.function
    def step(x):
        count.assign_add(x)
        return count * 10

    return count, step


ONES = np.ones(3, "float32")


def test_variables_are_written_in_place():
    count, step = a_counter()
    places = set()
    for i in range(CALLS + 5):
        assert step(tk.constant(ONES)).numpy().tolist() == [10 * (i + 1)] * 3
        places.add(count._value._array.data.ptr)
    assert replays(step) == 6
    assert len(places) <= CALLS
    assert count.numpy().tolist() == [CALLS + 5] * 3


@pytest.mark.parametrize("every", [1, 2, 3, 7])
def test_a_value_that_was_read_stays_what_it_was(every):
    count, step = a_counter()
    kept = []
    for i in range(40):
        if i % every == 0:
            kept.append((i, count.value(), count.value()[1:]))
        step(tk.constant(ONES))
    for i, whole, part in kept:
        assert whole.numpy().tolist() == [i] * 3
        assert part.numpy().tolist() == [i] * 2
    assert count.numpy().tolist() == [40] * 3


def test_a_value_that_is_held_for_good_costs_one_more_capture():
    count, step = a_counter()
    for _ in range(CALLS + 1):
        step(tk.constant(ONES))
    first = count.value()
    for _ in range(3 * CALLS):
        step(tk.constant(ONES))
    assert first.numpy().tolist() == [CALLS + 1] * 3
    assert "of 2 CUDA graphs" in step.explain()


def test_a_variable_whose_value_is_held_at_every_call_is_told():
    count, step = a_counter()
    kept = []
    for _ in range(80):
        kept.append(count.value())
        step(tk.constant(ONES))
    assert [int(k.numpy()[0]) for k in kept] == list(range(80))
    assert "no more since the value of 'Variable:0' is held by another tensor" in step.explain()


def test_assignments_between_calls_are_seen():
    count, step = a_counter()
    for i in range(20):
        if i == 10:
            count.assign(np.full(3, 100, "float32"))
        if i == 13:
            count.assign(tk.constant(np.full(3, 1000, "float32")))
        if i == 16:
            count._take(tk.constant(np.full(3, 5, "float32"))._array)
        step(tk.constant(ONES))
    assert count.numpy().tolist() == [9] * 3
    assert replays(step) == 20 - CALLS + 1


def test_variables_can_change_places():
    a, b = tk.Variable([1.0, 2.0]), tk.Variable([3.0, 4.0])

    @tk.function
    def swap():
        old = a.value()
        a.assign(b)
        b.assign(old)
        return old

    for _ in range(CALLS):
        before = a.numpy().tolist()
        assert swap().numpy().tolist() == before
        assert b.numpy().tolist() == before
    for _ in range(4):
        before = a.numpy().tolist()
        assert swap().numpy().tolist() == before
        assert b.numpy().tolist() == before
    assert replays(swap) > 0


def test_two_functions_may_use_the_same_variables():
    weight = tk.Variable([1.0, 2.0])

    @tk.function
    def grow(x):
        weight.assign_add(x)

    @tk.function
    def read(x):
        return weight * x

    for i in range(30):
        grow(tk.constant([1.0, 1.0]))
        assert read(tk.constant([1.0, 10.0])).numpy().tolist() == [i + 2, 10 * (i + 3)]
    assert replays(grow) > 20
    assert replays(read) > 10


def test_a_scalar_variable_of_the_gpu_and_one_of_the_cpu():
    there = tk.Variable(0.0)
    with tk.device("/cpu:0"):
        here = tk.Variable(0.0)

    @tk.function
    def step(x):
        here.assign_add(2.0)
        there.assign_add(here * x)
        return there.value(), here * 10

    for i in range(CALLS + 3):
        one, two = step(tk.constant(1.0))
        assert float(one) == (i + 1) * (i + 2)
        assert float(two) == 20 * (i + 1)
    assert here.device == "/device:CPU:0"
    assert there.device == "/device:GPU:0"
    assert replays(step) == 4


def test_a_checkpoint_of_a_captured_run_goes_on_with_the_same_bits(tmp_path):
    tk.random.set_seed(5)
    model, rule = a_model(0.5), tk.optimizers.Adam(0.01)
    step = tk.function(a_step(model, rule))
    kept = tk.train.Checkpoint(model=model, optimizer=rule)
    for _ in range(8):
        step(tk.constant(X), tk.constant(Y))
    path = kept.save(str(tmp_path / "run"))
    after = [float(step(tk.constant(X), tk.constant(Y))) for _ in range(6)]
    kept.restore(path).assert_consumed()
    assert int(rule.iterations) == 8
    assert [float(step(tk.constant(X), tk.constant(Y))) for _ in range(6)] == after


@pytest.mark.parametrize(
    "layer",
    [
        lambda: tk.layers.Conv2D(3, 3),
        lambda: tk.layers.Conv2D(4, 3, groups=2),
        lambda: tk.layers.DepthwiseConv2D(3),
        lambda: tk.layers.BatchNormalization(),
        lambda: tk.layers.MaxPooling2D(),
        lambda: tk.Sequential([tk.layers.Reshape((9, 8)), tk.layers.LSTM(3)]),
        lambda: tk.Sequential([tk.layers.Reshape((9, 8)), tk.layers.GRU(3)]),
        lambda: tk.Sequential([tk.layers.Reshape((9, 8)), tk.layers.LayerNormalization()]),
        lambda: tk.layers.Dense(3, activation="gelu"),
    ],
    ids="conv grouped depthwise batch-norm max-pool lstm gru layer-norm dense".split(),
)
def test_layers_train_by_replays(layer, near):
    images = np.random.default_rng(1).normal(size=(2, 6, 6, 2)).astype("float32")

    def run(compiled):
        tk.random.set_seed(1)
        made = layer()
        made(tk.constant(images))
        weights = made.trainable_variables
        rule = tk.optimizers.SGD(0.1)

        def step(x):
            with tk.GradientTape() as tape:
                tape.watch(x)
                loss = tk.reduce_mean(tk.square(made(x, training=True)))
            by_x, *grads = tape.gradient(loss, [x, *weights])
            if weights:
                rule.apply_gradients(zip(grads, weights, strict=True))
            return loss, by_x

        step = tk.function(step) if compiled else step
        found = [step(tk.constant(images)) for _ in range(CALLS + 3)]
        if compiled:
            assert replays(step) == 4
        return [(float(loss), by_x.numpy()) for loss, by_x in found]

    for (loss, by_x), (same, same_by_x) in zip(run(True), run(False), strict=True):
        np.testing.assert_allclose(loss, same, rtol=near)
        np.testing.assert_allclose(by_x, same_by_x, rtol=10 * near, atol=near / 10)


def test_attention_trains_by_replays(near):
    layer = tk.layers.MultiHeadAttention(2, 4)
    x = tk.constant(np.random.default_rng(2).normal(size=(2, 5, 6)).astype("float32"))
    layer(x, x)

    def gradient(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            loss = tk.reduce_sum(tk.square(layer(x, x)))
        return tape.gradient(loss, x)

    compiled = tk.function(gradient)
    for _ in range(CALLS + 1):
        found = compiled(x)
    assert replays(compiled) == 2
    np.testing.assert_allclose(found.numpy(), gradient(x).numpy(), rtol=10 * near, atol=near)


def test_a_loop_of_a_known_number_of_steps_is_captured():
    @tk.function
    def sums(x):
        total = tk.zeros([3])
        for i in tk.range(4):
            total = total + x * tk.cast(i, "float32")
        return total

    for i in range(CALLS + 2):
        assert sums(tk.constant(np.full(3, i, "float32"))).numpy().tolist() == [6 * i] * 3
    assert replays(sums) == 3


def test_fit_replays_its_training_step():
    model = a_model(0.2)
    model.compile("adam", tk.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = np.repeat(X, 10, 0), np.repeat(Y, 10, 0)
    history = model.fit(x, y, batch_size=8, epochs=3, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]


def test_a_profile_shows_replays():
    double = tk.function(lambda x: x * 2 + 1)
    for _ in range(CALLS):
        double(tk.constant(1.0))
    with tk.profiler.profile() as p:
        double(tk.constant(1.0))
    assert [row.name for row in p.rows if row.kind == "node"] == ["CUDA graph"]


def test_replays_keep_no_memory(inside):
    _count, step = a_counter()
    for _ in range(CALLS + 1):
        step(tk.constant(ONES))
    gc.collect()
    before = memory.count()
    for _ in range(50):
        step(tk.constant(ONES))
    gc.collect()
    assert memory.count() == before
    assert replays(step) == 52


def test_a_function_gives_its_memory_back(inside):
    found = []
    for _ in range(3):
        count = tk.Variable(np.zeros(3, "float32"))
        step = tk.function(count.assign_add, autograph=False)
        for _ in range(CALLS + 1):
            step(tk.constant(ONES))
        assert replays(step) == 2
        del count, step
        gc.collect()
        found.append((memory.count(), len(CUBLAS.open)))
    assert found[1] == found[2]


def test_products_take_tensor_float_32_where_it_is_asked_for(inside):
    chosen = tk.config.experimental
    x = tk.ones((4, 4))
    for enabled, compute in ((False, 68), (True, 77), (False, 68)):
        chosen.enable_tensor_float_32_execution(enabled)
        assert chosen.tensor_float_32_execution_enabled() is enabled
        product = tk.function(lambda x: x @ x)
        CUBLAS.computed_in.clear()
        for _ in range(CALLS):
            assert float(product(x)[0, 0]) == 4
        assert CUBLAS.computed_in == {compute}
    with pytest.raises(TypeError, match="enabled must be a bool, got 1"):
        chosen.enable_tensor_float_32_execution(1)


# ---------------------------------------------------------------------- written in place


def captured_calls(function):
    """The names of what the CUDA graph of a function does."""
    plans = function._history[0][1].graph._program.gpu._plans
    (plan,) = plans.values()
    return [step[0].__qualname__ for step in plan._capture._graph._steps]


needs_compiler = pytest.mark.skipif(not has_compiler(), reason="no g++ for this machine is here")


@needs_compiler
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_kernels_write_new_values_over_the_old_ones(optimizer, any_gpu):
    weights = [tk.Variable(np.full(n, 2.0, "float32")) for n in (3, 5)]
    twins = [tk.Variable(w) for w in weights]
    rule, other = OPTIMIZERS[optimizer](), OPTIMIZERS[optimizer]()

    @tk.function(jit_compile=True)
    def step(x):
        grads = [w * x + 1.0 for w in weights]
        rule.apply(grads, weights)

    for i in range(CALLS + 4):
        x = tk.constant(float(i))
        step(x)
        other.apply([w * x + 1.0 for w in twins], twins)
    assert replays(step) == 5
    if any_gpu == "stand-in":
        assert not any("setitem" in name for name in captured_calls(step))
    for w, twin in zip(weights, twins, strict=True):
        np.testing.assert_allclose(w.numpy(), twin.numpy(), rtol=1e-5)


@needs_compiler
@pytest.mark.parametrize(
    ("change", "result"),
    [
        (lambda a, b, x: (a * x + 1.0, b * x + a), lambda a, b: None),
        (lambda a, b, x: (b * x + 1.0, a * x + 1.0), lambda a, b: None),
        (lambda a, b, x: (a * x + 1.0, tk.reshape(a, (3,)) * x - 1.0), lambda a, b: None),
        (lambda a, b, x: (a[::-1] * x + 1.0, b), lambda a, b: None),
        (lambda a, b, x: (a * x + 1.0, b * x + 1.0), lambda a, b: (a, tk.reshape(b, (3, 1)))),
        (lambda a, b, x: (a * x + 1.0, tk.reduce_sum(a) * x + b), lambda a, b: a[1:]),
        (lambda a, b, x: (tk.cumsum(a) * x + a, a), lambda a, b: b),
        (lambda a, b, x: (a, b), lambda a, b: None),
    ],
)
def test_old_values_are_written_over_only_where_nothing_reads_them(change, result):
    def run(wrap):
        a, b = tk.Variable([1.0, 2.0, 3.0]), tk.Variable([4.0, 5.0, 6.0])

        def step(x):
            old = result(a.value(), b.value())
            new = change(a.value(), b.value(), x)
            a.assign(new[0])
            b.assign(new[1])
            return old

        step = wrap(step)
        found = []
        for i in range(CALLS + 4):
            results = step(tk.constant(0.1 * i))
            found += [
                y.numpy().tolist() for y in (*tk.nest.flatten(results), a, b) if y is not None
            ]
        return found, step

    found, step = run(lambda f: tk.function(f, jit_compile=True, autograph=False))
    assert replays(step) == 5
    for got, expected in zip(found, run(lambda f: f)[0], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


@needs_compiler
def test_a_whole_step_of_training_copies_no_weight(inside):
    layers = tk.layers
    model = tk.Sequential(
        [layers.Conv2D(3, 3, activation="relu"), layers.Flatten(), layers.Dense(3)]
    )
    rule = tk.optimizers.Adam(0.01)
    step = tk.function(a_step(model, rule), jit_compile=True)
    images = tk.constant(np.random.default_rng(1).normal(size=(3, 5, 5, 2)).astype("float32"))
    labels = tk.constant([0, 1, 2])
    for _ in range(CALLS + 1):
        step(images, labels)
    assert replays(step) == 2
    weights = model.trainable_variables
    homes = {w._value._array.data.ptr for w in weights}
    plans = step._history[0][1].graph._program.gpu._plans
    (plan,) = plans.values()
    copied = [
        args[0]._host.ctypes.data
        for function, args, *_ in plan._capture._graph._steps
        if "setitem" in function.__qualname__
    ]
    assert homes.isdisjoint(copied)
