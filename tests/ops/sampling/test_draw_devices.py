"""Random numbers go where they are used, whatever device a generator was made on."""

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from trainkit.ops.sampling import generators
from trainkit.ops.sampling.draw_devices import beside

DRAWS = {
    "normal": lambda seed: tk.keras.random.normal((3, 4), seed=seed),
    "uniform": lambda seed: tk.keras.random.uniform((3, 4), seed=seed),
    "randint": lambda seed: tk.keras.random.randint((9,), 0, 5, seed=seed),
    "gamma": lambda seed: tk.keras.random.gamma((3,), 2.0, seed=seed),
}
USES = {
    "dropout": lambda x, seed: tk.keras.random.dropout(x, 0.5, seed=seed),
    "dropout with a mask of rows": lambda x, seed: tk.keras.random.dropout(x, 0.5, (4, 1), seed),
    "dropout of tk.nn": lambda x, seed: tk.nn.dropout(x, 0.5),
    "shuffle": lambda x, seed: tk.keras.random.shuffle(x, seed=seed),
    "categorical": lambda x, seed: tk.keras.random.categorical(x, 3, seed=seed),
}
LAYERS = {
    "Dropout": lambda: tk.layers.Dropout(0.5, seed=1),
    "SpatialDropout1D": lambda: tk.layers.SpatialDropout1D(0.5, seed=1),
    "GaussianNoise": lambda: tk.layers.GaussianNoise(1.0, seed=1),
    "GaussianDropout": lambda: tk.layers.GaussianDropout(0.5, seed=1),
    "AlphaDropout": lambda: tk.layers.AlphaDropout(0.5, seed=1),
}


@pytest.fixture
def gpu():
    with stand_in.in_place():
        yield "/gpu:0"


@pytest.mark.parametrize("name", DRAWS)
def test_a_generator_of_a_gpu_draws_on_the_current_device(gpu, name):
    seeds = tk.random.SeedGenerator(3)
    first = DRAWS[name](seeds)
    with tk.device("/cpu:0"):
        second, twin = DRAWS[name](seeds), tk.random.SeedGenerator(3)
        again = [DRAWS[name](twin) for _ in range(2)]
    assert [x.device[-5:] for x in (first, second)] == ["GPU:0", "CPU:0"]
    assert "GPU" in seeds.state.value().device
    np.testing.assert_allclose(first.numpy(), again[0].numpy(), rtol=1e-6)
    np.testing.assert_allclose(second.numpy(), again[1].numpy(), rtol=1e-6)
    assert seeds.state.numpy().tolist() == twin.state.numpy().tolist()


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize(("lies", "current"), [("/cpu:0", "/gpu:0"), ("/gpu:0", "/cpu:0")])
def test_draws_follow_the_tensor_that_they_go_with(gpu, name, lies, current):
    seeds = tk.random.SeedGenerator(3)
    with tk.device(lies):
        x = tk.reshape(tk.range(20.0), (4, 5))
    with tk.device(current):
        y = USES[name](x, seeds)
        z = USES[name](x, seeds)
    assert y.device == z.device == x.device


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(("lies", "current"), [("/cpu:0", "/gpu:0"), ("/gpu:0", "/cpu:0")])
def test_layers_draw_where_their_inputs_are(gpu, name, lies, current):
    layer = LAYERS[name]()
    with tk.device(lies):
        x = tk.ones((2, 6, 5))
    with tk.device(current):
        y = layer(x, training=True)
    assert y.device == x.device
    assert y.shape == x.shape


def test_images_are_changed_on_the_cpu_by_a_layer_of_a_gpu(gpu):
    layer = tk.layers.RandomRotation(0.2, seed=1)
    assert "GPU" in layer(tk.ones((2, 6, 5, 3)), training=True).device
    with tk.device("/cpu:0"):
        assert "CPU" in layer(tk.ones((2, 6, 5, 3)), training=True).device


@pytest.mark.parametrize("made", [tk.layers.LSTMCell, tk.layers.GRUCell, tk.layers.SimpleRNNCell])
def test_masks_of_recurrent_cells(gpu, made):
    with tk.device("/cpu:0"):
        cell, x = made(4, dropout=0.5, recurrent_dropout=0.5, seed=1), tk.ones((2, 5))
        cell.build(x.shape)
        states = [tk.ones((2, 4))] * (2 if made is tk.layers.LSTMCell else 1)
    assert cell(x, states, training=True)[0].device == x.device


PLACES = [("/cpu:0", "/gpu:0"), ("/gpu:0", "/cpu:0")]


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize(("home", "current"), PLACES)
def test_draws_of_a_graph_go_to_the_device_of_its_trace(gpu, name, home, current):
    with tk.device(home):
        seeds, twin = tk.random.SeedGenerator(3), tk.random.SeedGenerator(3)
    f = tk.function(lambda: DRAWS[name](seeds))
    with tk.device(current):
        drawn = [f() for _ in range(6)]
        wanted = [DRAWS[name](twin) for _ in range(6)]
    for found, expected in zip(drawn, wanted, strict=True):
        assert found.device == expected.device
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
    assert seeds.state.device == twin.state.device
    assert seeds.state.numpy().tolist() == twin.state.numpy().tolist()


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("home", ["/cpu:0", "/gpu:0"])
@pytest.mark.parametrize(("lies", "current"), PLACES + [(x, x) for x, _ in PLACES])
def test_draws_of_a_graph_follow_the_tensor_that_they_go_with(
    gpu, name, home, lies, current, monkeypatch
):
    found = {}
    for wrapper in (tk.function, lambda f: f):
        with tk.device(home):
            seeds = tk.random.SeedGenerator(3)
            generator = tk.random.Generator.from_seed(4)
        monkeypatch.setattr(generators._Global, "generator", generator)
        with tk.device(lies):
            x = tk.reshape(tk.range(20.0), (4, 5))
        f = wrapper(lambda x, seeds=seeds: USES[name](x, seeds))
        with tk.device(current):
            drawn = [f(x) for _ in range(6)]
        assert [y.device for y in drawn] == [x.device] * 6
        assert seeds.state.device[-5:].lower() == home[1:]
        found[wrapper] = [y.numpy() for y in drawn], seeds.state.numpy()
        if wrapper is tk.function and not home == lies == "/gpu:0":
            assert "replays" not in f.explain()
    (drawn, state), (wanted, wanted_state) = found.values()
    np.testing.assert_array_equal(drawn, wanted)
    np.testing.assert_array_equal(state, wanted_state)
    assert len({y.tobytes() for y in drawn}) > 3


@pytest.mark.parametrize("lies", ["/cpu:0", "/gpu:0"])
@pytest.mark.parametrize("in_graph", [False, True])
def test_items_of_a_map_have_draws_where_they_are(gpu, lies, in_graph):
    def f(x):
        seeds = tk.random.SeedGenerator(3) if not in_graph else kept
        return tk.vectorized_map(lambda row: tk.keras.random.dropout(row, 0.5, seed=seeds), x)

    kept = tk.random.SeedGenerator(3)
    with tk.device(lies):
        x = tk.ones((4, 5))
    y = (tk.function(f) if in_graph else f)(x)
    assert y.device == x.device


def test_a_graph_of_a_cpu_tensor_is_called_where_the_gpu_is_current(gpu):
    with tk.device("/cpu:0"):
        x, seeds = tk.ones((4, 5)), tk.random.SeedGenerator(3)
    f = tk.function(lambda x: tk.keras.random.dropout(x, 0.5, seed=seeds))
    assert [f(x).device for _ in range(2)] == [x.device] * 2


@pytest.mark.parametrize("lies", ["/cpu:0", "/gpu:0"])
def test_draws_in_a_loop_of_a_graph(gpu, lies):
    seeds = tk.random.SeedGenerator(3)

    @tk.function
    def summed(x, n):
        for _ in tk.range(n):
            x = x + tk.keras.random.uniform((2,), seed=seeds)
        return x

    with tk.device(lies):
        twin = tk.random.SeedGenerator(3)
        wanted = sum(tk.keras.random.uniform((2,), seed=twin).numpy() for _ in range(5))
        found = summed(tk.zeros((2,)), tk.constant(5))
    assert found.device[-5:].lower() == lies[1:]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)


def test_what_a_layer_of_a_gpu_has_learned_goes_into_a_graph_of_the_cpu(gpu):
    layer = tk.layers.Normalization()
    layer.adapt(np.arange(12.0).reshape(6, 2))
    f = tk.function(layer)
    with tk.device("/cpu:0"):
        y = f(tk.ones((3, 2)))
    assert "CPU" in y.device
    np.testing.assert_allclose(y.numpy(), layer(tk.ones((3, 2))).numpy(), rtol=1e-6)


def test_where_nothing_is_elsewhere_nothing_is_chosen():
    x = tk.ones((2,))
    assert beside(x) is beside(x)
