"""Activations: formulas in float64, tails, integers and halves."""

import math

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.ops.neural import gated_activations

X = np.linspace(-4, 4, 33)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def normal_share(x):
    return np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x])


FORMULAS = [
    ("relu", {}, lambda x: np.where(x > 0, x, 0)),
    ("relu6", {}, lambda x: np.clip(x, 0, 6)),
    ("leaky_relu", {}, lambda x: np.where(x > 0, x, 0.2 * x)),
    ("leaky_relu", {"negative_slope": 0.5}, lambda x: np.where(x > 0, x, 0.5 * x)),
    ("threshold", {"threshold": 1.0, "default_value": 7.0}, lambda x: np.where(x > 1, x, 7)),
    ("sigmoid", {}, sigmoid),
    ("log_sigmoid", {}, lambda x: np.log(sigmoid(x))),
    ("softplus", {}, lambda x: np.log(1 + np.exp(x))),
    ("softsign", {}, lambda x: x / (1 + abs(x))),
    ("silu", {}, lambda x: x * sigmoid(x)),
    ("swish", {}, lambda x: x * sigmoid(x)),
    ("hard_sigmoid", {}, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    ("hard_silu", {}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    ("hard_swish", {}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    ("hard_tanh", {}, lambda x: np.clip(x, -1, 1)),
    ("sparse_sigmoid", {}, lambda x: np.clip((x + 1) / 2, 0, 1)),
    ("mish", {}, lambda x: x * np.tanh(np.log(1 + np.exp(x)))),
    ("gelu", {"approximate": False}, lambda x: x * normal_share(x)),
    ("gelu", {}, lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    ("elu", {"alpha": 0.5}, lambda x: np.where(x > 0, x, 0.5 * (np.exp(x) - 1))),
    ("celu", {"alpha": 2.0}, lambda x: np.where(x > 0, x, 2 * (np.exp(x / 2) - 1))),
    (
        "selu",
        {},
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1)),
    ),
    ("squareplus", {"b": 2}, lambda x: (x + np.sqrt(x * x + 2)) / 2),
    ("sparse_plus", {}, lambda x: np.where(x <= -1, 0, np.where(x >= 1, x, (x + 1) ** 2 / 4))),
    ("soft_shrink", {}, lambda x: np.sign(x) * np.maximum(abs(x) - 0.5, 0)),
    ("hard_shrink", {"threshold": 1.0}, lambda x: np.where(abs(x) > 1, x, 0)),
    ("tanh_shrink", {}, lambda x: x - np.tanh(x)),
]


@pytest.mark.parametrize(
    ("name", "settings", "formula"), FORMULAS, ids=lambda v: "" if callable(v) else str(v)[:30]
)
def test_activation_follows_its_formula(name, settings, formula):
    result = getattr(ops, name)(X, **settings)
    assert result.dtype == "float64"
    np.testing.assert_allclose(result.numpy(), formula(X), rtol=1e-12, atol=1e-14)
    single = getattr(ops, name)(X.astype("float32"), **settings)
    assert single.dtype == "float32"
    np.testing.assert_allclose(single.numpy(), formula(X), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("name", "settings", "formula"), FORMULAS, ids=lambda v: "" if callable(v) else str(v)[:30]
)
def test_activation_keeps_halves(name, settings, formula, dtype):
    result = getattr(ops, name)(ops.cast(X, dtype), **settings)
    assert result.dtype == dtype
    error = np.abs(ops.cast(result, "float64").numpy() - formula(X))
    assert error.max() < 0.02


@pytest.mark.parametrize("name", ["sigmoid", "softplus", "silu", "gelu", "elu", "log_sigmoid"])
def test_activation_of_integers_is_a_float(name):
    result = getattr(ops, name)([-1, 0, 2])
    assert result.dtype == "float32"
    np.testing.assert_array_equal(result.numpy(), getattr(ops, name)([-1.0, 0.0, 2.0]).numpy())


def test_tails_neither_overflow_nor_vanish():
    big = np.array([-500.0, -90.0, 90.0, 500.0], "float32")
    np.testing.assert_allclose(ops.sigmoid(big).numpy(), [0, 0, 1, 1], atol=1e-30)
    np.testing.assert_allclose(ops.softplus(big).numpy(), [0, 0, 90, 500], atol=1e-30)
    np.testing.assert_allclose(ops.log_sigmoid(big).numpy(), [-500, -90, 0, 0], atol=1e-30)
    np.testing.assert_allclose(ops.silu(big).numpy(), [0, 0, 90, 500], atol=1e-30)
    assert float(ops.sigmoid(np.float32(-20))) == pytest.approx(math.exp(-20), rel=1e-5)
    assert float(ops.softplus(np.float32(-20))) == pytest.approx(math.exp(-20), rel=1e-5)


# ---------------------------------------------------------------------- along an axis


@pytest.mark.parametrize("axis", [-1, 0, (0, 1), None])
def test_softmax_sums_to_one(axis, rng):
    x = rng.normal(size=(3, 4)) * 100
    y = ops.softmax(x, axis).numpy()
    np.testing.assert_allclose(y.sum(axis), 1)
    assert (y >= 0).all()
    logs = ops.log_softmax(x, axis).numpy()
    np.testing.assert_allclose(np.exp(logs), y, rtol=1e-9, atol=1e-300)
    assert np.isfinite(logs).all()


def test_softmax_of_integers_and_halves():
    assert ops.softmax([1, 2]).dtype == "float32"
    assert ops.softmax(ops.cast([1.0, 2.0], "bfloat16")).dtype == "bfloat16"
    np.testing.assert_array_equal(ops.softmax([1e30, 0.0]).numpy(), [1, 0])


def test_softmax_axis_out_of_range_raises():
    with pytest.raises(InvalidArgumentError, match="softmax"):
        ops.softmax(np.zeros((2, 3)), axis=2)


def test_sparsemax_has_zeros_and_the_threshold_of_keras():
    np.testing.assert_allclose(ops.sparsemax([3.0, 0.0, 0.5]).numpy(), [1, 0, 0])
    # Running sums 0.6 and 0.9, support 2: the threshold is (0.6 + 0.9 - 1) / 2.
    np.testing.assert_allclose(ops.sparsemax([0.3, 0.6]).numpy(), [0.05, 0.35], rtol=1e-6)
    np.testing.assert_allclose(
        ops.sparsemax([[0.3], [0.6]], axis=0).numpy(), [[0.05], [0.35]], rtol=1e-6
    )


def test_glu_gates_one_half_by_the_other():
    np.testing.assert_allclose(
        ops.glu([[1.0, 2.0, 0.0, 1.0]]).numpy(), [[0.5, 2 * sigmoid(1.0)]], rtol=1e-6
    )
    with pytest.raises(ShapeError, match="odd size 3"):
        ops.glu([1.0, 2.0, 3.0])


def test_softmax_of_single_scores_warns():
    for x in (np.ones((3, 1)), ops.ones((3, 1)), tk.keras.KerasTensor((None, 1))):
        with pytest.warns(UserWarning, match=r"axis -1 of a tensor of shape \(.*, 1\) has size 1"):
            ops.softmax(x)
    one = ops.ones((2, 1))
    assert tk.keras.activations.softmax(one).numpy().tolist() == [[1], [1]]  # none of these warns
    assert tk.nn.softmax(one).numpy().tolist() == [[1], [1]]
    assert ops.softmax(one, axis=0).numpy().tolist() == [[0.5], [0.5]]
    assert ops.softmax(one, axis=(0, 1)).numpy().tolist() == [[0.5], [0.5]]
    attend = tk.keras.layers.MultiHeadAttention(1, 2)
    assert attend(ops.ones((1, 1, 2)), ops.ones((1, 1, 2))).shape == (1, 1, 2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("approximate", [False, True])
def test_the_gradient_of_gelu_has_the_dtype_of_its_input(device, dtype, compiled, approximate):
    def gradient(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = ops.gelu(x, approximate=approximate)
        return tape.gradient(y, x)

    gradient = tk.function(gradient) if compiled else gradient
    with tk.device(device):
        found = gradient(ops.cast([-1.0, 0.0, 2.0], dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(
        ops.cast(found, "float32").numpy(), [-0.0833, 0.5, 1.0852], atol=0.02
    )


@pytest.mark.parametrize("approximate", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(("rows", "shared"), [((4, 5), (5,)), ((5,), (4, 5)), ((3, 1), (1, 4))])
def test_the_gradient_of_gelu_broadcasts(device, dtype, rows, shared, approximate):
    name = "gelu_tanh_gradient" if approximate else "gelu_erf_gradient"
    op = getattr(gated_activations, name)
    g = tk.cast(tk.reshape(tk.linspace(-1.0, 2.0, math.prod(rows)), rows), dtype)
    x = tk.cast(tk.reshape(tk.linspace(-2.0, 3.0, math.prod(shared)), shared), dtype)
    shape = np.broadcast_shapes(rows, shared)
    found, wanted = op(g, x), op(tk.broadcast_to(g, shape), tk.broadcast_to(x, shape))
    assert (found.shape, found.dtype) == (shape, dtype)
    assert found.numpy().tobytes() == wanted.numpy().tobytes()


@pytest.mark.parametrize("approximate", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_jacobian_of_gelu_is_diagonal(device, dtype, approximate):
    x = tk.cast(tk.linspace(-2.0, 3.0, 7), dtype)
    with tk.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tk.nn.gelu(x, approximate=approximate)
    slopes = tape.gradient(y, x)
    np.testing.assert_allclose(tape.jacobian(y, x).numpy(), np.diag(slopes.numpy()), rtol=1e-6)


def test_slopes_at_the_limits_are_those_of_keras():
    x = tk.constant([-3.0, -1.0, 0.0, 1.0, 3.0, 6.0])
    for op, slopes in (
        (tk.ops.hard_tanh, [0, 1, 1, 1, 0, 0]),
        (tk.ops.hard_sigmoid, [0, 1 / 6, 1 / 6, 1 / 6, 0, 0]),
        (tk.ops.relu6, [0, 0, 0, 1, 1, 0]),
    ):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = op(x)
        np.testing.assert_allclose(tape.gradient(y, x), slopes, rtol=1e-6)
