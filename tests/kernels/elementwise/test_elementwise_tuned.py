"""Compiled element-wise kernels against the plain formulas."""

import math

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.core.tensor import PRIMITIVES
from trainkit.kernels.elementwise import elementwise_tuned
from trainkit.kernels.elementwise.elementwise_tuned import PARALLEL
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.array_kernel import ArrayKernel
from trainkit.ops.math.elementwise import keep_where
from trainkit.ops.neural.activations import relu_gradient

KERNELS = {
    name: kernel
    for name, kernel in vars(elementwise_tuned).items()
    if isinstance(kernel, ArrayKernel)
}
LARGE = (5, PARALLEL // 5 + 1)
SHAPES = [LARGE, (3, 7), (1, 13)]
ENDS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30, -1e-30, 88.5, -88.5, 300, -300, 6, -6]
SETTINGS = {
    "clip": {"x_min": -0.5, "x_max": 0.25},
    "leaky_relu": {"negative_slope": 0.3},
    "elu_gradient": {"alpha": 0.7},
    "soft_shrink": {"threshold": 0.3},
    "hard_shrink": {"threshold": 0.3},
    "huber_penalty": {"delta": 0.7},
    "nan_to_num": {"nan": 0.5, "posinf": 3.0e38, "neginf": -7.0},
}


def inputs_of(name, rng, shape):
    """Arrays with all kinds of numbers; gradients come first."""
    x = (rng.normal(size=shape) * 4).astype("float32")
    x.flat[: len(ENDS)] = ENDS
    if name == "where":
        return x > 0.5, x, rng.normal(size=shape).astype("float32")
    if name == "keep_where":
        return x, x > 0.5
    if name.endswith("gradient"):
        return rng.normal(size=shape).astype("float32"), x
    return (x,)


def both(name, rng, shape):
    """What the compiled kernel gives, and what the plain one does."""
    arrays, settings = inputs_of(name, rng, shape), SETTINGS.get(name, {})
    results = []
    for mode in ("eager", "off"):
        kernel_family.set_mode(mode)
        results.append(PRIMITIVES[name].run(arrays, settings))
        large = np.prod(shape) >= KERNELS[name].fewest
        assert bool(KERNELS[name]._ready) == (mode == "eager" and large)
    return results


@pytest.mark.parametrize("name", [name for name in KERNELS if KERNELS[name].exact])
@pytest.mark.parametrize("shape", [*SHAPES, (64, 64)])
def test_kernels_said_to_be_exact_give_the_bits_of_the_plain_version(name, shape, rng):
    found, expected = both(name, rng, shape)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", [name for name in KERNELS if not KERNELS[name].exact])
@pytest.mark.parametrize("shape", SHAPES)
def test_kernels_equal_the_formula_in_float64_to_float32(name, shape, rng):
    arrays, settings = inputs_of(name, rng, shape), SETTINGS.get(name, {})
    expected = PRIMITIVES[name].run([x.astype("float64") for x in arrays], settings)
    kernel_family.set_mode("eager")
    found = PRIMITIVES[name].run(arrays, settings)
    assert bool(KERNELS[name]._ready) == (found.size >= KERNELS[name].fewest)
    np.testing.assert_allclose(found, expected, rtol=4e-6, atol=1.5e-6)


@pytest.mark.parametrize(
    ("name", "exact", "below", "above"),
    [("softplus", lambda x: np.logaddexp(0, x), 0, np.inf), ("erf", np.vectorize(math.erf), -1, 1)],
)
def test_small_results_have_the_digits_of_float32(name, exact, below, above):
    x = np.concatenate([np.linspace(-87, 88, 40001), np.linspace(-1, 1, 40001), [0.0]])
    kernel_family.set_mode("eager")
    y = KERNELS[name](x.astype("float32"))
    np.testing.assert_allclose(y, exact(x.astype("float32").astype("float64")), rtol=4e-7)
    x = np.tile(np.float32([-np.inf, -200, np.inf, 200, np.nan]), PARALLEL)
    ends = np.float32([below, below, above, min(above, 200), np.nan])
    np.testing.assert_array_equal(KERNELS[name](x)[:5], ends)


@pytest.mark.parametrize("limits", [(0.0, 1), (-0.0, 1), (-1, 0.0), (-1, -0.0), (np.nan, 1)])
def test_limits_that_are_zero_or_nan_give_the_bits_of_the_plain_version(limits):
    x = np.tile(np.float32([-0.0, 0.0, np.nan, 1, -1, 2]), 100)
    settings = dict(zip(("x_min", "x_max"), limits, strict=True))
    results = []
    for mode in ("eager", "off"):
        kernel_family.set_mode(mode)
        results.append(PRIMITIVES["clip"].run((x,), settings).tobytes())
    assert results[0] == results[1]


@pytest.mark.parametrize("slope", [0.0, -0.5, 1.0, 1.5, np.nan])
def test_slopes_that_are_no_part_of_1_give_the_bits_of_the_plain_version(slope):
    x = np.tile(np.float32([-0.0, 0.0, np.nan, np.inf, -np.inf, 1, -1, 2]), PARALLEL // 8)
    results = []
    for mode in ("eager", "off"):
        kernel_family.set_mode(mode)
        with np.errstate(invalid="ignore"):
            results.append(PRIMITIVES["leaky_relu"].run((x,), {"negative_slope": slope}))
    assert results[0].tobytes() == results[1].tobytes()
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(results[0], np.where(x > 0, x, x * np.float32(slope)))


@pytest.mark.parametrize("name", ["sigmoid", "silu", "gelu", "softplus", "elu", "selu"])
def test_gradients_with_compiled_kernels_agree_with_differences(name, rng):
    kernel_family.set_mode("eager")
    x = tk.constant((rng.normal(size=LARGE) * 2).astype("float32"))
    for settings in ({"approximate": True}, {"approximate": False}) if name == "gelu" else ({},):
        op = getattr(ops, name)
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = op(x, **settings)
        slope = tape.gradient(y, x).numpy()
        above = op(tk.constant(x.numpy().astype("float64") + 1e-5), **settings).numpy()
        below = op(tk.constant(x.numpy().astype("float64") - 1e-5), **settings).numpy()
        np.testing.assert_allclose(slope, (above - below) / 2e-5, atol=2e-6)


@pytest.mark.parametrize("name", list(KERNELS))
def test_arrays_that_are_read_only_are_taken(name, rng):
    arrays, settings = inputs_of(name, rng, LARGE), SETTINGS.get(name, {})
    kernel_family.set_mode("off")
    expected = PRIMITIVES[name].run(arrays, settings)
    kernel_family.set_mode("eager")
    for array in arrays:
        array.flags.writeable = False
        found = PRIMITIVES[name].run(arrays, settings)
        np.testing.assert_allclose(found, expected, rtol=4e-6, atol=1.5e-6)


@pytest.mark.parametrize("name", list(KERNELS))
@pytest.mark.parametrize("taken", [-1, 0])
def test_the_layout_of_an_array_changes_no_bit(name, taken, rng):
    """A graph may pad an image inside of a kernel, and so be given whole arrays for views."""
    arrays, settings = list(inputs_of(name, rng, LARGE)), SETTINGS.get(name, {})
    kernel_family.set_mode("eager")
    expected = PRIMITIVES[name].run(arrays, settings)
    x = arrays[taken]
    framed = np.zeros((LARGE[0] + 2, LARGE[1] + 3), x.dtype)
    framed[1:-1, 2:-1] = x
    fixed = x.copy()
    fixed.flags.writeable = False
    for view in (framed[1:-1, 2:-1], x.T.copy().T, np.repeat(x, 2, axis=1)[:, ::2], fixed):
        arrays[taken] = view
        np.testing.assert_array_equal(PRIMITIVES[name].run(arrays, settings), expected)


def test_a_broadcast_gradient_that_is_contiguous_reaches_relu(rng):
    """The mean over axes of size 1 gives back a view that can't be written to."""
    kernel_family.set_mode("eager")
    x = tk.constant(rng.normal(size=(64, 1, 1, 2048)).astype("float32"))
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = tk.reduce_sum(tk.reduce_mean(tk.nn.relu(x), axis=(1, 2)) ** 2.0)
    np.testing.assert_allclose(tape.gradient(y, x), 2 * np.maximum(x.numpy(), 0), rtol=1e-6)


def test_small_arrays_other_dtypes_and_other_orders_are_left_to_the_plain_version(rng):
    kernel_family.set_mode("eager")
    x = rng.normal(size=(300, 300)).astype("float32")
    assert KERNELS["relu"](x) is not None
    assert KERNELS["relu"](x[:50, :50].copy()) is None
    assert KERNELS["relu"](x.astype("float64")) is None
    assert KERNELS["relu"](x[:, ::2]) is None
    assert KERNELS["where"](x > 0, x, x.T) is None
    assert KERNELS["where"](x > 0, x, x[:1].repeat(300, 0)) is not None
    assert KERNELS["where"](x[0] > 0, x, x) is None
    assert KERNELS["silu"](x.astype("float64")) is None
    assert KERNELS["silu_gradient"](x, x[:1]) is None


@pytest.mark.parametrize("name", [name for name in KERNELS if KERNELS[name].exact])
def test_transposes_are_worked_on_in_their_own_order(name, rng):
    arrays, settings = inputs_of(name, rng, (64, 3, 66)), SETTINGS.get(name, {})
    turned = [a.T for a in arrays]
    kernel_family.set_mode("eager")
    y = PRIMITIVES[name].run(turned, settings)
    assert KERNELS[name]._ready
    kernel_family.set_mode("off")
    expected = PRIMITIVES[name].run(turned, settings)
    assert y.strides == expected.strides
    np.testing.assert_array_equal(y, expected)


def test_transposes_that_nobody_may_write_to_are_left_to_the_plain_version(rng):
    kernel_family.set_mode("eager")
    x = rng.normal(size=(64, 66)).astype("float32").T
    assert KERNELS["relu"](x) is not None
    x.flags.writeable = False
    assert KERNELS["relu"](x) is None


OF_BFLOAT16 = {
    "relu": (tk.ops.relu, 1),
    "relu6": (tk.ops.relu6, 1),
    "relu_gradient": (relu_gradient, 2),
    "keep_where": (keep_where, 1),
}


@pytest.mark.parametrize("name", OF_BFLOAT16)
def test_bfloat16_has_the_bits_of_the_plain_version(kernels, name):
    op, count = OF_BFLOAT16[name]
    bits = np.arange(1 << 16, dtype=np.uint16).view(tk.bfloat16.dtype)  # all there are
    arrays = [bits.reshape(256, 256), bits[::-1].reshape(256, 256).T][:count]
    if name == "keep_where":
        arrays.append(np.arange(1 << 16).reshape(256, 256) % 3 == 0)
    results = []
    for mode in ("off", "eager"):
        kernels(mode)
        with np.errstate(all="ignore"):
            results.append(op(*map(tk.constant, arrays)).numpy())
    run = PRIMITIVES[op.primitive.name if hasattr(op, "primitive") else name].facets.tuned.run
    assert run(*arrays) is not None  # it was the kernel that gave the second result
    plain, tuned = results
    known = ~np.isnan(plain.astype("float32"))
    assert tuned.dtype == plain.dtype
    np.testing.assert_array_equal(np.isnan(tuned.astype("float32")), ~known)
    np.testing.assert_array_equal(tuned.view("u2")[known], plain.view("u2")[known])


@pytest.mark.parametrize("number", [0.0, -0.0, 2.5, np.nan, -np.inf])
@pytest.mark.parametrize("is_second", [False, True])
@pytest.mark.parametrize("shape", [(70, 90), (3, 5), (0, 4)])
@pytest.mark.usefixtures("mode")
def test_a_number_is_chosen_with_the_bits_of_numpy(rng, shape, is_second, number):
    x = rng.normal(size=shape).astype("float32")
    mask = x > 0.3
    chosen = [x, np.float32(number)] if is_second else [np.float32(number), x]
    expected = np.where(mask, *chosen)
    for turned in (False, True):
        operands = [a.T if turned else a for a in (mask, *chosen)]
        result = tk.where(*map(tk.constant, operands)).numpy()
        assert result.tobytes() == (expected.T if turned else expected).tobytes()
    weak = [float(a) if np.ndim(a) == 0 else a for a in chosen]
    assert tk.where(mask, *weak).numpy().tobytes() == expected.tobytes()
    assert tk.function(tk.where)(mask, *weak).numpy().tobytes() == expected.tobytes()


def test_numbers_are_chosen_by_kernels_of_their_own(eager, rng):
    x = rng.normal(size=(70, 90)).astype("float32")
    number = np.array(2.0, "float32")
    assert elementwise_tuned.choose(x > 0, x, number) is not None
    assert elementwise_tuned.choose(x > 0, number, x) is not None
    assert all(kernel._ready for kernel in elementwise_tuned.NUMBERS_CHOSEN)
    assert elementwise_tuned.choose(x > 0, x, number.astype("float64")) is None
    assert elementwise_tuned.choose(x[0] > 0, x, number) is None
    assert elementwise_tuned.choose(x[0, 0] > 0, number, number) is None
