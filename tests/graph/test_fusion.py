"""Fused loops: which operations join, and that they give the bits of separate ones."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.graph.fusion import FusedKernel, fuse
from trainkit.graph.passes import optimised


def fused(function, *specs):
    graph = optimised(tk.function(function).get_concrete_function(*specs).graph)
    new = fuse(graph)
    kernels = [n for n in new.nodes if n.kind == "op" and isinstance(n.primitive, FusedKernel)]
    rest = [n.primitive.name for n in new.nodes if n.kind == "op" and n not in kernels]
    return kernels, rest


X = tk.TensorSpec([4, 3], tk.float32)


def test_a_chain_of_elementwise_operations_is_one_loop():
    kernels, rest = fused(lambda x: tk.nn.relu(x * 2.0 + 1.0) / 3.0 - tk.sqrt(tk.abs(x)), X)
    assert len(kernels) == 1
    assert rest == []
    assert len(kernels[0].outputs) == 1


def test_what_is_used_outside_is_stored_too():
    def f(x):
        y = x * 2.0
        z = y + 1.0
        return z * z, tk.matmul(y, tk.transpose(y))

    kernels, rest = fused(f, X)
    assert len(kernels) == 1
    assert len(kernels[0].outputs) == 2
    assert "matmul" in rest


def test_rows_and_scalars_are_spread_inside_the_loop(rng):
    b = tk.constant(rng.normal(size=3).astype("float32"))
    s = tk.constant(1.7)

    def f(x):
        return (x + b) * s - x / 2

    kernels, _rest = fused(f, X)
    assert len(kernels) == 1
    x = tk.constant(rng.normal(size=(4, 3)).astype("float32"))
    np.testing.assert_array_equal(tk.function(f, jit_compile=True)(x).numpy(), f(x).numpy())


def test_a_group_never_contains_a_path_that_leaves_it():
    def f(x):
        y = x * 2.0
        z = tk.reduce_sum(y)  # leaves the group, and comes back
        return (y + 1.0) * z

    kernels, _ = fused(f, X)
    for node in kernels:
        assert all(x.node is not node for x in node.inputs if hasattr(x, "node"))
    x = tk.ones([4, 3])
    np.testing.assert_array_equal(tk.function(f, jit_compile=True)(x).numpy(), f(x).numpy())


def test_groups_never_wait_for_one_another():
    # a1 -> b1 and b2 -> a2: as wholes {a1, a2} and {b1, b2} would each need the other first
    def f(x):
        a1 = x * 2.0
        b1 = tk.reshape(tk.exp(a1), [3, 4]) + 1.0
        seed = tk.reshape(x, [3, 4]) * 3.0
        b2 = seed - 1.0
        joined = b1 * seed
        a2 = tk.reshape(tk.exp(b2), [4, 3]) * x + a1
        return a2, joined

    x = tk.ones([4, 3])
    for a, b in zip(f(x), tk.function(f, jit_compile=True)(x), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_integers_and_unknown_sizes_are_left_alone():
    assert fused(lambda x: x * 2 + 1, tk.TensorSpec([3], tk.int32))[0] == []
    assert fused(lambda x: x * 2.0 + 1.0, tk.TensorSpec([None], tk.float32))[0] == []


SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, 3e38, -3e38, 1e-3]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: x + y - x * y,
        lambda x, y: x / y + 1.0,
        lambda x, y: tk.nn.relu(x) * tk.nn.relu(-y),
        lambda x, y: tk.sqrt(tk.abs(x)) - tk.square(y),
        lambda x, y: -(x + 2.5) / (y * 3.0),
    ],
)
@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_special_values_come_out_bit_for_bit(f, dtype):
    grid = np.array(np.meshgrid(SPECIAL, SPECIAL), dtype).reshape(2, -1)
    x, y = tk.constant(grid[0]), tk.constant(grid[1])
    expected = f(x, y).numpy()
    got = tk.function(f, jit_compile=True)(x, y).numpy()
    np.testing.assert_array_equal(got, expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(expected)[known])


@pytest.mark.parametrize("optimizer", ["Adam", "SGD", "RMSprop"])
def test_a_fused_training_step_gives_the_eager_bits(optimizer, rng):
    x = tk.constant(rng.normal(size=(16, 6)).astype("float32"))
    y = tk.constant(rng.integers(0, 3, 16).astype("int32"))

    def train(jit_compile):
        tk.random.set_seed(1)
        model = tk.Sequential([tk.layers.Dense(8, activation="relu"), tk.layers.Dense(3)])
        model(x)
        opt = getattr(tk.optimizers, optimizer)(0.05)
        opt.build(model.trainable_variables)
        loss_fn = tk.losses.SparseCategoricalCrossentropy(from_logits=True)

        def step(x, y):
            with tk.GradientTape() as tape:
                loss = loss_fn(y, model(x, training=True))
            grads = tape.gradient(loss, model.trainable_variables)
            opt.apply_gradients(zip(grads, model.trainable_variables, strict=True))
            return loss

        run = step if jit_compile == "eager" else tk.function(step, jit_compile=jit_compile)
        losses = [float(run(x, y)) for _ in range(5)]
        return losses, [v.numpy() for v in model.trainable_variables]

    plain, weights = train(False)
    fused_losses, fused_weights = train(True)
    assert fused_losses == plain
    for a, b in zip(weights, fused_weights, strict=True):
        np.testing.assert_array_equal(a, b)
    eager_losses, _ = train("eager")
    np.testing.assert_allclose(eager_losses, plain, rtol=1e-5)
