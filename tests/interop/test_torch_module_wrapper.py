"""A module of PyTorch as a layer of trainkit."""

import copy

import numpy as np
import pytest

import trainkit as tk
from tests.interop.derivatives import second_derivative

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(3)
X = RNG.normal(size=(16, 4)).astype("float32")
Y = np.tanh(X.sum(1, keepdims=True))


def module(dropout=0.0):
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8),
        torch.nn.BatchNorm1d(8),
        torch.nn.ReLU(inplace=True),
        torch.nn.Dropout(dropout),
        torch.nn.Linear(8, 1),
    )


def loss_and_gradients(layer, x, **kwargs):
    with tk.GradientTape() as tape:
        tape.watch(x)
        loss = tk.reduce_mean((layer(x, **kwargs) - Y) ** 2)
    return tape.gradient(loss, [x, *layer.trainable_variables])


@pytest.mark.parametrize("in_graph", [False, True])
def test_gradients_and_buffers_are_those_of_pytorch(in_graph):
    reference = module()
    layer = tk.layers.TorchModuleWrapper(copy.deepcopy(reference))
    x = torch.tensor(X, requires_grad=True)
    (reference(x) - torch.tensor(Y)).square().mean().backward()
    run = tk.function(loss_and_gradients) if in_graph else loss_and_gradients
    found = run(layer, tk.constant(X), training=True)
    expected = [x.grad, *[p.grad for p in reference.parameters()]]
    for g, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(g.numpy(), e.numpy(), atol=1e-6)
    for v, b in zip(layer.non_trainable_variables, reference.buffers(), strict=True):
        np.testing.assert_allclose(v.numpy(), b.numpy(), atol=1e-6)


@pytest.mark.parametrize("in_graph", [False, True])
def test_the_gradient_drops_what_the_call_dropped(in_graph):
    layer = tk.layers.TorchModuleWrapper(torch.nn.Dropout(0.5))

    def fn(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=True)
        return y, tape.gradient(y, x)

    run = tk.function(fn) if in_graph else fn
    first, gradient = run(tk.ones(200))
    assert 0 < np.sum(first.numpy() == 0) < 200
    np.testing.assert_array_equal(first.numpy(), gradient.numpy())
    assert not np.array_equal(first.numpy(), run(tk.ones(200))[0].numpy())
    for off in (False, np.bool_(False), 0):
        assert (layer(tk.ones(200), training=off).numpy() == 1).all()


def test_what_the_module_writes_to_stays_of_each_side():
    layer = tk.layers.TorchModuleWrapper(torch.nn.ReLU(inplace=True))
    x = tk.constant([-1.0, 2.0])
    assert layer(x).numpy().tolist() == [0.0, 2.0]
    assert x.numpy().tolist() == [-1.0, 2.0]
    linear = torch.nn.Linear(2, 1)
    wrapped = tk.layers.TorchModuleWrapper(linear)
    with torch.no_grad():
        linear.weight.zero_()
    assert np.any(wrapped.get_weights()[0])
    wrapped.set_weights([np.full((1, 2), 3.0), np.ones(1)])
    assert wrapped.module.weight.tolist() == [[3.0, 3.0]]


def test_fit_moves_the_parameters_and_lowers_the_loss():
    layer = tk.layers.TorchModuleWrapper(module())
    model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(4), layer])
    before = model.get_weights()
    assert model.output_shape == (None, 1)
    model.compile(tk.optimizers.Adam(0.03), "mse")
    history = model.fit(X, Y, epochs=15, batch_size=6, verbose=0).history["loss"]
    assert history[-1] < 0.7 * history[0]
    assert all(not np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
    assert int(layer.torch_buffers["1.num_batches_tracked"].numpy()) == 45
    assert model.predict(X, verbose=0).shape == (16, 1)


def test_fit_eagerly_and_in_graphs_agree():
    results = []
    for eager in (False, True):
        model = tk.Sequential([tk.Input((4,)), tk.layers.TorchModuleWrapper(module())])
        model.compile(tk.optimizers.SGD(0.1), "mse", run_eagerly=eager)
        model.fit(X, Y, epochs=3, batch_size=8, shuffle=False, verbose=0)
        results.append(model.get_weights())
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_weights_and_checkpoints_come_back(tmp_path):
    def made():
        return tk.Sequential([tk.Input((4,)), tk.layers.TorchModuleWrapper(module())])

    model = made()
    model.set_weights([w + 1 for w in model.get_weights()])
    model.save_weights(str(tmp_path / "w.weights.h5"))
    path = tk.train.Checkpoint(model=model).save(str(tmp_path / "c"))
    one, two = made(), made()
    one.load_weights(str(tmp_path / "w.weights.h5"))
    tk.train.Checkpoint(model=two).restore(path)
    for other in (one, two):
        for a, b in zip(model.get_weights(), other.get_weights(), strict=True):
            np.testing.assert_array_equal(a, b)
    with pytest.raises(tk.errors.ConfigError, match="has no config; save weights"):
        model.save(str(tmp_path / "m.keras"))


def test_nested_arguments_and_results():
    class Pair(torch.nn.Module):
        def forward(self, x, scale=1.0):
            return {"sum": x["a"] + x["b"], "scaled": (x["a"] * scale, None)}

    layer = tk.layers.TorchModuleWrapper(Pair())
    x = {"a": tk.constant([1.0]), "b": tk.constant([2.0])}
    for run in (layer, tk.function(lambda x, scale: layer(x, scale=scale))):
        y = run(x, scale=3.0)
        assert y["sum"].numpy().tolist() == [3.0]
        assert y["scaled"][0].numpy().tolist() == [3.0]
        assert y["scaled"][1] is None


def test_integers_go_to_an_embedding_and_frozen_parameters_stay():
    table = torch.nn.Embedding(5, 2)
    table.weight.requires_grad_(False)
    layer = tk.layers.TorchModuleWrapper(table)
    assert not layer.trainable_variables
    assert len(layer.non_trainable_variables) == 1
    y = layer(tk.constant([1, 4]))
    np.testing.assert_array_equal(y.numpy(), table.weight.numpy()[[1, 4]])


def test_a_module_without_shapes_says_output_shape():
    class Host(torch.nn.Module):
        def forward(self, x):
            return torch.from_numpy(np.tanh(x.detach().numpy()))

    with pytest.raises(Exception, match="meta") as raised:
        tk.Sequential([tk.Input((3,)), tk.layers.TorchModuleWrapper(Host())])
    notes = getattr(raised.value, "__notes__", [])
    assert any("output_shape=" in note for note in notes)
    layer = tk.layers.TorchModuleWrapper(Host(), output_shape=(None, 3))
    model = tk.Sequential([tk.Input((3,)), layer])
    assert model.output_shape == (None, 3)
    np.testing.assert_allclose(model.predict(X[:, :3], verbose=0), np.tanh(X[:, :3]), rtol=1e-6)


@pytest.mark.parametrize("in_graph", [False, True])
def test_second_derivatives_are_refused(in_graph):
    layer = tk.layers.TorchModuleWrapper(torch.nn.Tanh())
    with pytest.raises(tk.errors.UnimplementedError, match="second derivative"):
        second_derivative(layer, in_graph)


def test_copies_and_refusals():
    layer = tk.layers.TorchModuleWrapper(module(), name="inner")
    twin = copy.deepcopy(layer)
    twin.set_weights([w * 0 for w in twin.get_weights()])
    assert np.any(layer(X, training=False).numpy())
    assert not np.any(twin(X, training=False).numpy())
    with pytest.raises(TypeError, match=r"must be a torch\.nn\.Module, got 3"):
        tk.layers.TorchModuleWrapper(3)
    with pytest.raises(tk.errors.InvalidArgumentError, match="has no shape yet"):
        tk.layers.TorchModuleWrapper(torch.nn.LazyLinear(3))
    with pytest.raises(tk.errors.DeviceError, match="meta"):
        tk.layers.TorchModuleWrapper(torch.nn.Linear(2, 1, device="meta"))


def test_inputs_are_cast_to_the_dtype_of_the_parameters():
    layer = tk.layers.TorchModuleWrapper(torch.nn.Linear(4, 1).double(), dtype="float64")
    assert layer(X).dtype == "float64"
    tk.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        layer = tk.layers.TorchModuleWrapper(module())
        assert layer(tk.cast(X, "bfloat16")).dtype == "float32"
    finally:
        tk.mixed_precision.set_global_policy("float32")


def test_two_tied_parameters_are_one_variable():
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    net[1].weight = net[0].weight
    layer = tk.layers.TorchModuleWrapper(net)
    assert len(layer.trainable_variables) == 3
    with tk.GradientTape() as tape:
        y = tk.reduce_sum(layer(X) ** 2)
    gradients = tape.gradient(y, layer.trainable_variables)
    net(torch.tensor(X)).square().sum().backward()
    for g, p in zip(gradients, net.parameters(), strict=True):
        np.testing.assert_allclose(g.numpy(), p.grad.numpy(), rtol=1e-4)
