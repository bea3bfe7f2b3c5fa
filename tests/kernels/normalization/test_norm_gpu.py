"""Normalization on a GPU: the values of its kernels, and that all layers' layouts get there."""

import contextlib

import ml_dtypes
import numpy as np
import pytest

import trainkit as tk
from tests.stand_in import cuda_on_cpu
from tests.stand_in.kernels import has_compiler
from trainkit.core import devices
from trainkit.kernels.normalization import (
    norm_columns_cuda,
    norm_gpu,
    norm_reference,
    norm_rows_cuda,
)
from trainkit.ops.neural.fused_normalization import (
    fused_normalization,
    fused_normalization_gradient,
)
from trainkit.ops.neural.standardization import standardized, standardized_gradient

pytestmark = pytest.mark.skipif(not has_compiler(), reason="no g++ for this machine is here")

EPSILON = 1e-3
NEAR = {"float32": 3e-5, "float64": 1e-11, "float16": 4e-3, "bfloat16": 3e-2}
DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]


@pytest.fixture
def xp(any_gpu):
    return devices.parse("/gpu:0").xp


def numbers(rng, dtype, *shape, mean=0.0):
    return (rng.normal(size=shape) * 2 + mean).astype(dtype)


def wide(x):
    return None if x is None else x.astype(np.float64)


def assert_near(found, wanted, dtype, factor=4):
    near = NEAR[np.dtype(dtype).name]
    largest = max(1.0, float(np.abs(wanted).max()))
    found = found.get()
    assert found.dtype == dtype
    assert found.shape == wanted.shape
    np.testing.assert_allclose(wide(found), wanted, rtol=near, atol=factor * near * largest)


def on(xp, *arrays):
    return [None if a is None else xp.asarray(a) for a in arrays]


def reference_gradient(g, x, scale, by_mean, by_variance, axes, shape):
    """What the reference gives in float64: gradients by x, scale and offset."""
    vectors = [None if v is None else wide(v).reshape(shape) for v in (scale, by_mean, by_variance)]
    by_x, product = norm_reference.normalized_gradient(
        np, wide(g), wide(x), *vectors, axes, EPSILON
    )
    over = tuple(i for i, n in enumerate(shape) if n == 1)
    return by_x, product.sum(over).reshape(-1), wide(g).sum(over).reshape(-1)


SIZES = [(1, 1), (1, 33), (31, 1), (33, 31), (1023, 3), (257, 64), (1500, 2), (5, 1025), (3, 4096)]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize(("rows", "columns"), SIZES)
@pytest.mark.parametrize("affine", [True, False])
def test_columns_are_those_of_the_reference(rng, xp, dtype, rows, columns, affine):
    x, g = numbers(rng, dtype, rows, columns, mean=5), numbers(rng, dtype, rows, columns)
    scale, offset = (numbers(rng, dtype, columns) if affine else None for _ in range(2))
    moments = [numbers(rng, dtype, columns) if affine else None for _ in range(2)]
    wanted, mean, variance = norm_reference.normalized(
        np, wide(x), wide(scale), wide(offset), (0,), EPSILON
    )
    found = norm_gpu.normalized(xp, *on(xp, x, scale, offset), (1,), EPSILON, True)
    for y, z in zip(found, (wanted, mean[0], variance[0]), strict=True):
        assert_near(y, z, dtype)
    found = norm_gpu.normalized_gradient(xp, *on(xp, g, x, scale, *moments), (1,), EPSILON, True)
    wanted = reference_gradient(g, x, scale, *moments, (0,), (1, columns))
    for y, z in zip(found, wanted, strict=True):
        assert_near(y, z, dtype, 8)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize(("rows", "columns"), SIZES)
@pytest.mark.parametrize("affine", [True, False])
def test_rows_are_those_of_the_reference(rng, xp, dtype, rows, columns, affine):
    x, g = numbers(rng, dtype, rows, columns, mean=5), numbers(rng, dtype, rows, columns)
    scale, offset = (numbers(rng, dtype, columns) if affine else None for _ in range(2))
    wanted = norm_reference.normalized(np, wide(x), wide(scale), wide(offset), (1,), EPSILON)[0]
    found = norm_gpu.normalized(xp, *on(xp, x, scale, offset), (1,), EPSILON, False)
    assert_near(found, wanted, dtype)
    found = norm_gpu.normalized_gradient(xp, *on(xp, g, x, scale, None, None), (1,), EPSILON, False)
    wanted = reference_gradient(g, x, scale, None, None, (1,), (1, columns))
    for y, z in zip(found, wanted, strict=True):
        assert_near(y, z, dtype, 8)


def test_a_mean_far_from_zero_costs_no_figures(rng, xp):
    x = (rng.normal(size=(700, 40)) + 3e4).astype(np.float32)
    for over_batch, axis in ((True, 0), (False, 1)):
        found = norm_gpu.normalized(xp, *on(xp, x, None, None), (1,), 0.0, over_batch)
        y = found[0].get() if over_batch else found.get()
        wanted = norm_reference.normalized(np, wide(x), None, None, (axis,), 0.0)[0]
        np.testing.assert_allclose(y, wanted, atol=4e-3)  # an ulp of 3e4 is 2e-3


def test_the_order_of_threads_changes_no_bit(rng):
    x, g = (rng.normal(size=(1100, 40)).astype(np.float32) for _ in range(2))
    rows, columns = x.shape
    results = []
    for order in (contextlib.nullcontext, cuda_on_cpu.backward):
        plan = norm_columns_cuda._plan(1, rows, columns, 1)
        found, y = np.zeros((4, 1, plan.parts, columns), np.float32), np.zeros_like(x)
        one, two = np.zeros((2, columns), np.float32)
        by_scale, by_offset = np.zeros((2, columns), np.float32)
        with order():
            for kernel, args, launch in (
                (norm_columns_cuda.PRODUCTS, (g, x, found), plan.first),
                (norm_columns_cuda.BACK, (g, x, None, None, None, y, one, two, found), plan.second),
            ):
                run = cuda_on_cpu.built(kernel.source(x.dtype), kernel.name)
                tail = (plan.part_rows, np.float32(1e-3)) if kernel.name.endswith("back") else ()
                run((launch[0],), (512,), [*args, launch[1], *tail])
            threads, blocks, tail = norm_rows_cuda._plan(
                rows, columns, norm_rows_cuda.EACH_BACK, x.dtype, True, 1e-3
            )
            parts, z = np.zeros((2, blocks, columns), np.float32), np.zeros_like(x)
            name = "normalized_rows_back"
            run = cuda_on_cpu.built(norm_rows_cuda.BACK.source(x.dtype), name)
            run((blocks,), (threads,), [g, x, None, z, parts, *tail])
            run = cuda_on_cpu.built(norm_rows_cuda.SUMMED.source(x.dtype), "summed_parts")
            sizes = (np.int32(blocks), np.int32(columns))
            run((4,), (256,), [parts, by_scale, by_offset, *sizes])
        results.append((found, y, one, two, parts, z, by_scale, by_offset))
    assert plan.parts > 1
    assert blocks > 1
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
    assert results[0][-1].all()


# ------------------------------------------------------------------ the operation


CALLS = {
    "batch, channels last": ((6, 5, 4, 3), (3,), True),
    "batch, channels first": ((6, 3, 5, 4), (1,), True),
    "layer": ((6, 5, 33), (2,), False),
    "layer, two axes": ((6, 5, 33), (1, 2), False),
    "layer, first axis": ((6, 5), (0,), False),
    "empty batch": ((0, 3), (1,), False),
    "wider than registers": ((2, 8200), (1,), False),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("compiled", [False, True])
def test_the_operation_gives_what_the_cpu_gives(rng, name, compiled, device):
    shape, axis, over_batch = CALLS[name]
    sizes = tuple(shape[a] for a in axis)
    x, g = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
    scale, offset = (rng.normal(size=sizes).astype(np.float32) for _ in range(2))
    settings = {"axis": axis, "epsilon": EPSILON, "over_batch": over_batch}

    def step(x, g, scale, offset):
        with tk.GradientTape() as tape:
            tape.watch((x, scale, offset))
            y = fused_normalization(x, scale, offset, **settings)
            parts = y if over_batch else (y,)
            weights = (g, scale, offset)[: len(parts)]
            loss = sum(tk.reduce_sum(a * b) for a, b in zip(parts, weights, strict=True))
        return (*parts, *tape.gradient(loss, (x, scale, offset)))

    def results(where):
        with tk.device(where):
            given = [tk.constant(a) for a in (x, g, scale, offset)]
            run = tk.function(step) if compiled else step
            run(*given)
            return [y.numpy() for y in run(*given)]  # the second call

    for found, wanted in zip(results(device), results("/cpu:0"), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("over_batch", [True, False])
def test_gradients_of_gradients_are_those_of_the_cpu(rng, over_batch, device):
    x = rng.normal(size=(5, 4))
    g = rng.normal(size=(5, 4))
    scale = rng.normal(size=4)

    def result(where):
        with tk.device(where):
            a, b, c = (tk.constant(v) for v in (x, g, scale))
            settings = {"axis": (1,), "epsilon": EPSILON, "over_batch": over_batch}
            with tk.GradientTape() as tape:
                tape.watch((a, b, c))
                found = fused_normalization_gradient(b, a, c, None, None, **settings)
                loss = sum(tk.reduce_sum(part * part) for part in found)
            return [y.numpy() for y in tape.gradient(loss, (a, b, c))]

    for found, wanted in zip(result(device), result("/cpu:0"), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.usefixtures("any_gpu")
def test_a_scale_of_another_size_is_refused():
    with pytest.raises(tk.errors.ShapeError, match="scale has shape"):
        fused_normalization(
            tk.zeros((3, 4)), tk.zeros(3), None, axis=(1,), epsilon=EPSILON, over_batch=True
        )


# ------------------------------------------------------------------ without parameters


STANDARDIZED = {
    "rows": ((33, 31), (1,), True),
    "root mean square": ((33, 31), (1,), False),
    "two axes": ((5, 3, 7), (1, 2), False),
    "groups": ((3, 5, 4, 2, 3), (1, 2, 4), True),
    "groups of one": ((3, 700, 33, 1), (1, 3), True),
    "large groups": ((2, 9, 3, 64), (1, 3), True),
    "groups beyond": ((2, 3, 2, 65), (1, 3), True),
    "another axis": ((4, 5, 6), (1,), True),
    "empty": ((0, 5, 4, 2), (1, 3), True),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", STANDARDIZED)
def test_standardized_values_are_those_of_the_cpu(rng, device, dtype, name):
    shape, axis, centred = STANDARDIZED[name]
    x, g = rng.normal(size=(2, *shape))
    settings = {"axis": axis, "epsilon": EPSILON, "centred": centred}

    def results(where):
        with tk.device(where):
            a, b = (tk.cast(tk.constant(v), dtype) for v in (x + 2, g))
            found = standardized(a, **settings), standardized_gradient(b, a, **settings)
            return [tk.cast(y, "float64").numpy() for y in found]

    near = NEAR[dtype] * 4
    for found, wanted in zip(results(device), results("/cpu:0"), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=near, atol=near)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_batch_of_short_floats_has_moments_of_the_dtype_of_the_scale(rng, device, dtype):
    x, g = rng.normal(size=(2, 40, 3)).astype(np.float32)
    v = rng.normal(size=3).astype(np.float32)
    settings = {"axis": (1,), "epsilon": EPSILON, "over_batch": True}

    def results(where, dtype):
        with tk.device(where):
            short, scale = tk.cast(tk.constant(x + 2), dtype), tk.constant(v)
            with tk.GradientTape() as tape:
                tape.watch((short, scale))
                y, mean, variance = fused_normalization(short, scale, scale, **settings)
                loss = tk.reduce_sum(tk.cast(y, "float32") * g + mean * 2.0 + variance)
            found = (y, mean, variance, *tape.gradient(loss, (short, scale)))
            assert [z.dtype.name for z in found] == [dtype, *["float32"] * 2, dtype, "float32"]
            return [tk.cast(z, "float32").numpy() for z in found]

    wanted = results("/cpu:0", "float32")
    for a, b in zip(results(device, dtype), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=NEAR[dtype] * 4, atol=NEAR[dtype] * 4)
    one, two = results(device, dtype)[1:3]
    np.testing.assert_allclose(one, wanted[1], atol=3e-3)
    np.testing.assert_allclose(two, wanted[2], atol=2e-2)


LAYERS = {
    "batch": lambda: tk.layers.BatchNormalization(),
    "batch without a scale": lambda: tk.layers.BatchNormalization(scale=False),
    "batch, channels first": lambda: tk.layers.BatchNormalization(axis=1),
    "rms": lambda: tk.layers.RMSNormalization(),
    "rms of two axes": lambda: tk.layers.RMSNormalization(axis=[-2, -1]),
    "groups": lambda: tk.layers.GroupNormalization(groups=2),
    "instances": lambda: tk.layers.GroupNormalization(groups=-1),
    "channels first": lambda: tk.layers.GroupNormalization(groups=2, axis=1),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("compiled", [False, True])
def test_layers_train_as_on_the_cpu(rng, device, name, policy, compiled):
    x, g = rng.normal(size=(2, 3, 4, 5, 6)).astype(np.float32)

    def results(where):
        with tk.device(where):
            layer = LAYERS[name]()
            layer.dtype_policy = policy
            layer.build(x.shape)
            more = {"training": True} if name.startswith("batch") else {}

            def step(x, g):
                with tk.GradientTape() as tape:
                    tape.watch(x)
                    y = tk.cast(layer(x, **more), "float32")
                weights = layer.trainable_variables
                return y, *tape.gradient(y, (x, *weights), output_gradients=g)

            run = tk.function(step) if compiled else step
            run(tk.constant(x), tk.constant(g))
            found = run(tk.constant(x), tk.constant(g))
            return [tk.cast(y, "float32").numpy() for y in (*found, *layer.non_trainable_variables)]

    near = 1e-4 if policy == "float32" else 0.1
    for found, wanted in zip(results(device), results("/cpu:0"), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=near, atol=near)
