"""What the least time of a training step is counted from."""

import numpy as np
import pytest

import trainkit as tk


@pytest.fixture
def limits(bench_modules):
    return bench_modules("limits")


def nodes_of(limits, model, x, classes=4):
    """The nodes of a step as they are traced, before anything is fused."""
    y = np.zeros(len(x), "int32")
    _, graph = limits.step_of(model, x, y)
    return [node for node in graph.nodes if node.kind == "op"]


def work(limits, nodes, kind):
    return sum(limits.operations(node) for node in nodes if node.primitive.name == kind)


def test_products_of_dense_layers_are_counted(limits):
    model = tk.Sequential([tk.layers.Dense(7), tk.layers.Dense(4, "softmax")])
    nodes = nodes_of(limits, model, np.ones((5, 3), "float32"))
    forward = 2 * 5 * (3 * 7 + 7 * 4)
    assert work(limits, nodes, "dense") == forward
    # the first layer sends nothing back to the data
    assert work(limits, nodes, "dense_gradient") == 2 * forward - 2 * 5 * 3 * 7


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_products_of_convolutions_are_counted(limits, groups):
    layers = tk.layers
    model = tk.Sequential(
        [
            layers.Conv2D(4, 1),
            layers.Conv2D(8, 3, groups=groups, strides=2),
            layers.Flatten(),
            layers.Dense(4, "softmax"),
        ]
    )
    nodes = nodes_of(limits, model, np.ones((2, 9, 9, 3), "float32"))
    first, second = 2 * 2 * 81 * 4 * 3, 2 * 2 * 16 * 8 * 9 * 4 // groups
    assert (
        work(limits, nodes, "conv") == work(limits, nodes, "conv_kernel_gradient") == first + second
    )
    assert work(limits, nodes, "conv_input_gradient") == second


def test_memory_counts_beyond_the_cache(limits):
    model = tk.Sequential([tk.layers.Dense(4, "softmax")])
    small = nodes_of(limits, model, np.ones((8, 3), "float32"))
    assert {limits.moved_bytes(node) for node in small} == {0}
    model = tk.Sequential([tk.layers.Dense(600), tk.layers.Dense(4, "softmax")])
    large = nodes_of(limits, model, np.ones((600, 600), "float32"))
    (first, _) = [node for node in large if node.primitive.name == "dense"]
    assert limits.moved_bytes(first) == 3 * 600 * 600 * 4


def test_each_network_can_be_built(limits):
    for make in (limits._unet, limits._gru, limits._wide):
        model, x, y = make()
        assert len(x) == len(y)
        assert model.compute_output_shape(x.shape)[0] == len(x)


def test_rates_are_above_nothing(limits):
    assert limits.rate_of_products() > 0
    assert limits.rate_of_copies() > 0
