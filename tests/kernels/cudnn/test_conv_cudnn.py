"""Convolutions on a GPU go to cuDNN, and give what the CPU gives."""

import numpy as np
import pytest

import trainkit as tk

# shape of the input, window, filters, groups, settings
CASES = {
    "plain": ((2, 7, 6, 4), (3, 3), 6, 1, {}),
    "same, uneven": ((2, 8, 6, 4), (3, 2), 6, 1, {"padding": "same", "strides": 2}),
    "pairs": ((2, 5, 6, 3), (3, 3), 2, 1, {"padding": ((2, 0), (1, 3))}),
    "pointwise": ((2, 4, 4, 8), (1, 1), 3, 1, {}),
    "dilated": ((1, 9, 9, 2), (3, 2), 4, 1, {"dilation_rate": (2, 3)}),
    "grouped": ((2, 6, 6, 6), (3, 3), 9, 3, {"padding": "same"}),
    "depthwise": ((2, 6, 6, 5), (3, 3), 10, 5, {"padding": "same"}),
    "one axis": ((3, 11, 4), (4,), 5, 1, {"strides": 3}),
    "three axes": ((2, 5, 4, 6, 3), (2, 3, 2), 4, 1, {"padding": "same", "strides": (1, 2, 2)}),
    "causal": ((2, 9, 3), (3,), 4, 1, {"padding": ((4, 0),), "dilation_rate": 2}),
}
BOUND = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}


def arrays(name, dtype="float32"):
    shape, window, filters, groups, settings = CASES[name]
    rng = np.random.default_rng(1)
    kernel = (*window, shape[-1] // groups, filters)
    made = [rng.standard_normal(dims).astype(np.float32) for dims in (shape, kernel, (filters,))]
    return [tk.cast(tk.constant(x), dtype).cpu() for x in made], settings


def results(given, settings, activation="relu"):
    x, kernel, bias = (tk.Variable(a) for a in given)
    with tk.GradientTape() as tape:
        y = tk.ops.conv_with_bias(x, kernel, bias, activation=activation, **settings)
        loss = tk.reduce_sum(tk.cast(y, "float32") ** 2)
    found = [y, *tape.gradient(loss, [x, kernel, bias])]
    return [tk.cast(part, "float32").numpy() for part in found]


def close(found, wanted, bound):
    for one, two in zip(found, wanted, strict=True):
        assert np.abs(one - two).max() <= bound * max(1.0, np.abs(two).max())


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_the_cpu(name, dtype, cudnn_state):
    given, settings = arrays(name, dtype)
    with tk.device("/cpu:0"):
        wanted = results(given, settings)
    close(results([x.gpu() for x in given], settings), wanted, BOUND[dtype])
    nodes = [node for graph, _ in cudnn_state.executed for node in graph]
    assert nodes == ["conv_fprop", "bias", "relu", "conv_dgrad", "conv_wgrad"]


@pytest.mark.parametrize("refused", [{"bias"}, {"relu"}, {"uneven padding"}])
@pytest.mark.parametrize("name", ["same, uneven", "causal", "three axes"])
def test_what_has_no_single_plan_is_done_in_parts(name, refused, cudnn_state):
    given, settings = arrays(name)
    with tk.device("/cpu:0"):
        wanted = results(given, settings)
    cudnn_state.refused = refused
    close(results([x.gpu() for x in given], settings), wanted, 1e-5)
    nodes = {node for graph, _ in cudnn_state.executed for node in graph}
    assert {"conv_fprop", "conv_dgrad", "conv_wgrad"} <= nodes
    assert not nodes & refused


def test_what_cudnn_refuses_the_body_does_and_it_is_asked_once(cudnn_state):
    given, settings = arrays("grouped")
    with tk.device("/cpu:0"):
        wanted = results(given, settings)
    cudnn_state.refused = {"conv_fprop", "conv_dgrad", "conv_wgrad"}
    on_gpu = [x.gpu() for x in given]
    close(results(on_gpu, settings), wanted, 1e-5)
    cudnn_state.refused = set()  # it is remembered
    close(results(on_gpu, settings), wanted, 1e-5)
    assert cudnn_state.executed == []


@pytest.mark.parametrize("padding", ["valid", "same"])
def test_a_transposed_convolution_and_its_gradients(padding, cudnn_state):
    rng = np.random.default_rng(3)
    x, kernel = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((2, 5, 4, 3), (3, 3, 6, 3))
    )

    def run():
        one, two = tk.Variable(x), tk.Variable(kernel)
        with tk.GradientTape() as tape:
            y = tk.ops.conv_transpose(one, two, strides=2, padding=padding)
            loss = tk.reduce_sum(y**2)
        return [part.numpy() for part in (y, *tape.gradient(loss, [one, two]))]

    with tk.device("/cpu:0"):
        wanted = run()
    close(run(), wanted, 1e-5)
    nodes = [node for graph, _ in cudnn_state.executed for node in graph]
    assert nodes == ["conv_dgrad", "conv_fprop", "conv_wgrad"]


def test_second_gradients_go_the_same_way(cudnn_state):
    given, settings = arrays("same, uneven")

    def run(x, kernel):
        with tk.GradientTape() as outer:
            outer.watch([x, kernel])
            with tk.GradientTape() as inner:
                inner.watch(x)
                y = tk.reduce_sum(tk.ops.conv(x, kernel, **settings) ** 2)
            loss = tk.reduce_sum(inner.gradient(y, x) ** 2)
        return [part.numpy() for part in outer.gradient(loss, [x, kernel])]

    with tk.device("/cpu:0"):
        wanted = run(*given[:2])
    close(run(*(x.gpu() for x in given[:2])), wanted, 1e-5)


@pytest.mark.parametrize("dtype", ["float64", "complex64", "int32"])
def test_other_dtypes_are_left_to_the_body(dtype, cudnn_state):
    x = tk.cast(tk.ones((1, 4, 4, 2)), dtype)
    kernel = tk.cast(tk.ones((2, 2, 2, 1)), dtype)
    assert tk.cast(tk.ops.conv(x, kernel), "float32").numpy().tolist() == [[[[8.0]] * 3] * 3]
    assert cudnn_state.executed == []


@pytest.mark.parametrize("shape", [(0, 4, 4, 2), (1, 4, 4, 2)])
def test_empty_arrays_and_views_of_odd_places(shape, cudnn_state):
    kernel = tk.ones((2, 2, 2, 1))
    x = tk.ones((shape[0], 4, 4, 3))[..., 1:]
    flat = tk.ones((9,))[1:]  # begins 4 bytes behind a place that cuDNN takes
    assert tk.ops.conv(x, kernel).shape == (shape[0], 3, 3, 1)
    y = tk.ops.conv(x, tk.reshape(flat, (2, 2, 2, 1)))
    assert np.all(y.numpy() == 8.0)


def test_an_empty_result_of_a_window_as_large_as_the_input_is_one_place(cudnn_state):
    y = tk.ops.conv(tk.ones((2, 3, 3, 1)), tk.ones((3, 3, 1, 2)))
    assert y.numpy().tolist() == [[[[9.0, 9.0]]]] * 2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_training_step_is_captured_and_replayed(dtype, cudnn_state):
    layers = tk.layers
    rng = np.random.default_rng(5)
    x, labels = rng.standard_normal((4, 8, 8, 3)).astype(np.float32), np.arange(4) % 3

    def losses(compiled):
        tk.random.set_seed(3)
        policy = "mixed_bfloat16" if dtype == "bfloat16" else dtype
        model = tk.Sequential(
            [
                layers.Conv2D(8, 3, 2, padding="same", activation="relu", dtype=policy),
                layers.DepthwiseConv2D(3, dtype=policy),
                layers.Flatten(),
                layers.Dense(3),
            ]
        )
        rule = tk.optimizers.SGD(0.1)
        loss_of = tk.losses.SparseCategoricalCrossentropy(from_logits=True)

        def step(x, labels):
            with tk.GradientTape() as tape:
                loss = loss_of(labels, model(x, training=True))
            weights = model.trainable_variables
            rule.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            return loss

        run = tk.function(step) if compiled else step
        given = tk.constant(x), tk.constant(labels)
        found = [float(run(*given)) for _ in range(8)]
        return found, (run.explain() if compiled else "")

    wanted, _ = losses(False)
    executed = len(cudnn_state.executed)
    assert executed
    found, text = losses(True)
    assert np.allclose(found, wanted, rtol=1e-5 if dtype == "float32" else 3e-2)
    assert "replays of 1 CUDA graph" in text
    assert found[-1] < found[0]
