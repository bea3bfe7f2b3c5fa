"""A variable stays where it was made, whatever a traced function assigns to it."""

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from trainkit.kernels.jit import kernel_family

PLACES = [("/cpu:0", "/gpu:0"), ("/gpu:0", "/cpu:0")]


@pytest.fixture
def gpu():
    with stand_in.in_place():
        yield


def _assigned(v, x):
    v.assign(x)
    return v * 2


def _computed(v, x):
    v.assign(tk.sqrt(x) + 1)
    return v.read_value()


def _number_added(v, x):
    v.assign_add(tk.reduce_sum(x))
    return v + 1


def _number_taken_away(v, x):
    v.assign_sub(tk.reduce_max(x))
    return v + 1


def _twice(v, x):
    v.assign(x)
    before = v * 3
    v.assign_add(before)
    return v - before


def _in_a_branch(v, x):
    if tk.reduce_sum(x) > 0:
        v.assign(x)
    else:
        v.assign(v * 2)
    return v * 2


def _in_a_loop(v, x):
    total = v * 0
    for _ in tk.range(3):
        total = total + v
        v.assign(x)
    return total + v


def _in_a_function(v, x):
    return tk.function(_assigned)(v, x) + v


ACTIONS = {
    "assigned": _assigned,
    "computed": _computed,
    "a number is added": _number_added,
    "a number is taken away": _number_taken_away,
    "twice": _twice,
    "in a branch": _in_a_branch,
    "in a loop": _in_a_loop,
    "in a function": _in_a_function,
}


def _made(home, lies, value=(1.0, 2.0, 4.0)):
    with tk.device(home):
        pair = tk.Variable([7.0, 8.0, 9.0]), tk.Variable([7.0, 8.0, 9.0])
    with tk.device(lies):
        return *pair, tk.constant(value)


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize(("home", "lies"), [*PLACES, ("/gpu:0", "/gpu:0"), ("/cpu:0", "/cpu:0")])
@pytest.mark.parametrize("current", ["/cpu:0", "/gpu:0"])
def test_a_graph_leaves_a_variable_where_an_eager_program_does(gpu, name, home, lies, current):
    v, twin, x = _made(home, lies)
    f, device = tk.function(ACTIONS[name]), v.device
    with tk.device(current):
        if home == "/cpu:0" != lies and name.startswith("a number"):
            for run in (f, ACTIONS[name]):  # an array of the CPU and a number of the GPU
                with pytest.raises(tk.errors.InvalidArgumentError, match="bring them to one dev"):
                    run(v, x)
            return
        for _ in range(6):
            found, expected = f(v, x), ACTIONS[name](twin, x)
            assert v.device == device == twin.device
            assert found.device == expected.device
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
            np.testing.assert_allclose(v.numpy(), twin.numpy(), rtol=1e-6)


@pytest.mark.parametrize(("home", "lies"), PLACES)
def test_under_a_tape(gpu, home, lies):
    v, _, x = _made(home, lies)

    @tk.function
    def f(x):
        v.assign(x * x)
        return tk.reduce_sum(v.read_value() * 3)

    for _ in range(4):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        tape.gradient(y, x)
        assert y.device == v.device
        assert v.device[-5:].lower() == home[1:]
    assert v.numpy().tolist() == [1.0, 4.0, 16.0]


@pytest.mark.parametrize(("home", "lies"), PLACES)
def test_jit_compiled(gpu, home, lies):
    v, _, x = _made(home, lies)
    f = tk.function(lambda x: _computed(v, x), jit_compile=True)
    assert {(f(x).device, v.device) for _ in range(6)} == {(v.device, v.device)}
    assert v.device[-5:].lower() == home[1:]
    np.testing.assert_allclose(v.numpy(), np.sqrt([1.0, 2.0, 4.0]) + 1)


@pytest.mark.parametrize(("home", "lies"), [("/gpu:0", "/gpu:1"), ("/gpu:1", "/gpu:0")])
def test_of_two_gpus(home, lies):
    with stand_in.in_place(gpus=2):
        v, twin, x = _made(home, lies)
        f, device = tk.function(_assigned), v.device
        for _ in range(6):
            found, expected = f(v, x), _assigned(twin, x)
            assert v.device == device
            assert found.device == expected.device == device
            assert found.numpy().tolist() == [2.0, 4.0, 8.0]


def test_arrays_of_one_gpu_after_those_of_two():
    with stand_in.in_place(gpus=2):
        v, _, x = _made("/gpu:0", "/gpu:0")
        f = tk.function(lambda x: _assigned(v, x))
        for _ in range(6):
            for y in (x, x.gpu(1)):
                assert f(y).device == v.device == "/device:GPU:0"


def test_what_stays_on_one_gpu_is_captured(gpu):
    v, _, x = _made("/gpu:0", "/gpu:0")
    f = tk.function(_in_a_function)
    for _ in range(6):
        f(v, x)
    assert "3 replays of 1 CUDA graph" in f.explain()


def _source():
    with tk.device("/cpu:0"):
        v, x = tk.Variable([1.0]), tk.constant([2.0])
        return tk.function(_twice).get_concrete_function(v, x).graph.program().source


def test_a_program_of_the_cpu_is_no_longer_beside_a_gpu():
    with stand_in.in_place():
        beside = _source()
    assert len(beside.splitlines()) == len(_source().splitlines())


NUMBERS = {
    "divided": lambda x: x / 2,
    "floor": lambda x: x // 2,
    "rest": lambda x: (x + 1) % 3,
    "backwards": lambda x: 7 % x,
    "scaled": lambda x: tk.cast(x, "float32") * 0.5 - 1,
    "clipped": lambda x: tk.clip_by_value(x, 2, 3),
    "of a power": lambda x: x**2 / 3,
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [3, [1, 2, 4]])
@pytest.mark.parametrize(("lies", "current"), PLACES)
def test_numbers_go_along_with_tensors_of_another_device(gpu, name, value, lies, current):
    with tk.device(lies):
        x = tk.constant(value)
    f = tk.function(NUMBERS[name])
    with tk.device(current):
        expected = NUMBERS[name](x)
        for _ in range(6):
            found = f(x)
            assert found.device == expected.device == x.device
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("current", ["/cpu:0", "/gpu:0"])
def test_what_is_made_of_numbers_lies_on_the_current_device(gpu, current):
    f = tk.function(lambda x: tk.fill([tk.shape(x)[0], 2], 0.5))
    with tk.device(current):
        for n in (1, 3, 3, 3):
            x = tk.zeros((n,))
            assert f(x).device == x.device
            np.testing.assert_array_equal(f(x), np.full((n, 2), 0.5))


def test_a_count_of_the_cpu_goes_round_beside_a_captured_graph(gpu):
    with tk.device("/cpu:0"):
        count = tk.Variable(0)

    @tk.function
    def f(x):
        count.assign((count + 1) % 4)
        return x * tk.cast(count // 2, "float32")

    x = tk.constant([1.0, 2.0])
    found = [f(x).numpy().tolist() for _ in range(8)]
    assert found == [[0.0, 0.0], [1.0, 2.0], [1.0, 2.0], [0.0, 0.0]] * 2
    assert "CPU" in count.device
    assert "5 replays of 1 CUDA graph" in f.explain()


def test_weights_of_both_devices_have_one_step(gpu, monkeypatch):
    monkeypatch.setattr(kernel_family, "mode", lambda: "auto")  # as where graphs are fused
    weights = []
    for wrapper in (tk.function, lambda f: f):
        v, _, _ = _made("/cpu:0", "/cpu:0")
        w, rule = tk.Variable([1.0, 2.0]), tk.optimizers.Adam(0.1)
        rule.build([v, w])

        @wrapper
        def step(v=v, w=w, rule=rule):
            with tk.GradientTape() as tape:
                loss = tk.reduce_sum(w * w) + tk.reduce_sum(v * v).gpu()
            rule.apply_gradients(zip(tape.gradient(loss, [v, w]), [v, w], strict=True))
            return loss

        for _ in range(6):
            step()
        assert [x.device[-5:] for x in (v, w, rule.iterations)] == ["CPU:0", "GPU:0", "CPU:0"]
        weights.append([v.numpy(), w.numpy()])
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


OPTIMIZERS = {
    "sgd": lambda: tk.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: tk.optimizers.Adam(0.1),
    "averages": lambda: tk.optimizers.AdamW(0.1, use_ema=True, ema_overwrite_frequency=2),
    "accumulated": lambda: tk.optimizers.Adam(0.1, gradient_accumulation_steps=2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(("home", "current"), PLACES)
def test_weights_and_slots_of_an_optimizer(gpu, name, home, current):
    v, twin, _ = _made(home, home)
    devices, weights = [], []
    for w, wrapper in ((v, tk.function), (twin, lambda f: f)):
        with tk.device(current):
            rule = OPTIMIZERS[name]()
            rule.build([w])

            @wrapper
            def step(w=w, rule=rule):
                with tk.GradientTape() as tape:
                    loss = tk.reduce_sum(w * w)
                rule.apply_gradients([(tape.gradient(loss, w), w)])
                return loss

            for _ in range(6):
                step()
        devices.append([x.device for x in (w, *rule.variables)])
        weights.append(w.numpy())
    assert devices[0] == devices[1]
    assert devices[0][0][-5:].lower() == home[1:]
    np.testing.assert_allclose(*weights, rtol=1e-5)


class Watching(tk.layers.Layer):
    """Keeps numbers of its inputs in variables of the CPU."""

    def build(self, shape):
        with tk.device("/cpu:0"):
            self.largest = self.add_weight(shape=(), initializer="zeros", trainable=False)
            self.sums = self.add_weight(shape=(3,), initializer="zeros", trainable=False)
            self.count = self.add_weight(shape=(), dtype="int32", trainable=False)

    def call(self, x):
        self.largest.assign(tk.maximum(self.largest, tk.reduce_max(x)))
        self.sums.assign(tk.reduce_sum(x, axis=0))
        self.count.assign_add(1)
        return x * tk.cast(self.count > 0, x.dtype)


@pytest.mark.parametrize("steps", [1, 2])
def test_variables_of_the_cpu_in_fit_of_a_gpu(gpu, steps, monkeypatch):
    monkeypatch.setattr(kernel_family, "mode", lambda: "auto")  # as where graphs are fused
    x = np.arange(24.0, dtype="float32").reshape(8, 3)
    found = []
    for eagerly in (True, False):
        tk.random.set_seed(1)
        model = tk.Sequential([Watching(), tk.layers.Dense(1)])
        per = 1 if eagerly else steps
        model.compile("adam", "mse", run_eagerly=eagerly, steps_per_execution=per)
        model.fit(x, x[:, :1], batch_size=2, epochs=2, shuffle=False, verbose=0)
        watching = model.layers[0]
        kept = [watching.largest, watching.sums, watching.count]
        assert {v.device for v in kept} == {"/device:CPU:0"}
        assert "GPU" in model.layers[1].kernel.device
        found.append([v.numpy().tolist() for v in kept])
        assert found[-1] == [23.0, [39.0, 41.0, 43.0], 8]
    assert found[0] == found[1]
