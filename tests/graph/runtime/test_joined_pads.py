"""Zeros around images that depthwise convolutions see: none in the program, the same bits."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.graph.ir.passes import optimised, prune
from trainkit.graph.runtime.joined_pads import without_pads

ZEROS = [[0, 0], [0, 1], [2, 1], [0, 0]]


def step(pads=ZEROS, op=tk.ops.depthwise_conv, constant=0.0, mode="constant", **settings):
    """A function of (x, kernel): a convolution of the padded image, and gradients."""

    def run(x, kernel):
        with tk.GradientTape() as tape:
            tape.watch((x, kernel))
            filling = {"constant_values": constant} if mode == "constant" else {}
            y = op(tk.ops.pad(x, pads, mode, **filling), kernel, **settings)
            loss = tk.reduce_sum(y * tk.sin(y))
        return y, tape.gradient(loss, (x, kernel))

    return run


def names(run, *given):
    """The operations of a graph for a CPU."""
    graph = tk.function(run).get_concrete_function(*given).graph
    nodes = prune(without_pads(optimised(graph))).nodes
    return [node.primitive.name for node in nodes if node.kind == "op"]


def arrays(rng, channels, multiplier=1, window=3):
    shapes = (3, 13, 14, channels), (window, window, channels, multiplier)
    return [tk.constant(rng.normal(size=shape).astype("float32")) for shape in shapes]


CASES = [
    ("off", 5, 1, 3, {"strides": 2}),
    ("off", 4, 2, 3, {"dilation_rate": 2}),
    ("eager", 5, 1, 3, {"strides": 2}),
    ("eager", 24, 1, 3, {"strides": 2, "padding": [[1, 0], [0, 1]]}),
    ("eager", 16, 1, 5, {}),
]


@pytest.mark.parametrize(("mode", "channels", "multiplier", "window", "settings"), CASES, ids=str)
def test_the_bits_stay_and_nothing_is_padded(
    kernels, rng, mode, channels, multiplier, window, settings
):
    kernels(mode)
    run, given = step(**settings), arrays(rng, channels, multiplier, window)
    eager, graph = (tk.nest.flatten(f(*given)) for f in (run, tk.function(run)))
    for a, b in zip(eager, graph, strict=True):
        np.testing.assert_array_equal(b.numpy(), a.numpy())
    assert not {"pad", "pad_sum"} & set(names(run, *given))
    function = tk.function(run).get_concrete_function(*given)
    joined = without_pads(optimised(function.graph))
    assert [y.shape for y in joined.outputs] == [y.shape for y in eager]


def test_a_batch_of_any_size_is_padded_nowhere(rng):
    x, kernel = arrays(rng, 4)
    batches = tk.TensorSpec((None, *x.shape[1:]), tk.float32)
    assert not {"pad", "pad_sum"} & set(names(step(), batches, kernel))


@pytest.mark.parametrize(
    "changed",
    [
        {"constant": 1.0},
        {"mode": "reflect"},
        {"padding": "same"},
        {"pads": [[0, 0], [1, 1], [1, 1], [0, 1]]},
        {"op": tk.ops.conv},
    ],
    ids=",".join,
)
def test_other_pads_stay(rng, changed):
    x, kernel = arrays(rng, 4)
    if "pads" in changed:
        kernel = tk.ones((3, 3, 5, 1))
    run = step(**changed)
    assert {"pad", "pad_sum"} <= set(names(run, x, kernel))
    for a, b in zip(*(tk.nest.flatten(f(x, kernel)) for f in (run, tk.function(run))), strict=True):
        np.testing.assert_array_equal(b.numpy(), a.numpy())


def test_infinite_weights_meet_the_zeros(kernels, rng):
    kernels("eager")
    x, kernel = arrays(rng, 8)
    kernel = kernel * tk.constant([np.inf, *[1.0] * 7], shape=(8, 1))
    run = step(strides=2)
    for a, b in zip(*(tk.nest.flatten(f(x, kernel)) for f in (run, tk.function(run))), strict=True):
        np.testing.assert_array_equal(np.isnan(b.numpy()), np.isnan(a.numpy()))


@pytest.mark.parametrize("mode", ["off", "eager"])
def test_bfloat16_is_not_padded_either(kernels, rng, mode):
    kernels(mode)
    x, kernel = (tk.cast(a, "bfloat16") for a in arrays(rng, 24))

    def run(x, kernel):
        with tk.GradientTape() as tape:
            tape.watch((x, kernel))
            y = tk.ops.depthwise_conv(tk.ops.pad(x, ZEROS), kernel, strides=2)
        return y, tape.gradient(y, (x, kernel), output_gradients=y)

    eager, graph = (tk.nest.flatten(f(x, kernel)) for f in (run, tk.function(run)))
    for a, b in zip(eager, graph, strict=True):
        assert a.dtype == b.dtype == "bfloat16"
        np.testing.assert_array_equal(b.numpy().view("u2"), a.numpy().view("u2"))
    assert not {"pad", "pad_sum"} & set(names(run, x, kernel))
