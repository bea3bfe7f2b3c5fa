"""Normalization of a batch and its rectifier by one kernel: the bits of two operations."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.graph.ir.passes import optimised, prune
from trainkit.graph.runtime import joined_normalization
from trainkit.graph.runtime.joined_normalization import with_joined_normalization
from trainkit.graph.runtime.sized_graphs import at_sizes
from trainkit.kernels.jit import kernel_family

pytestmark = pytest.mark.usefixtures("eager")


def step(behind, axis=-1, moments=False, also=False):
    """A function of (x, scale, offset): a rectified normalization, and gradients."""

    def run(x, scale, offset):
        with tk.GradientTape() as tape:
            tape.watch([v for v in (x, scale, offset) if v is not None])
            y, mean, variance = tk.ops.fused_batch_normalization(x, scale, offset, axis)
            z = behind(y)
            loss = tk.reduce_sum(z * tk.sin(3.0 * z))
            if moments:
                loss = loss + tk.reduce_sum(mean * variance)
            if also:
                loss = loss + tk.reduce_sum(y * y)
        given = [v for v in (x, scale, offset) if v is not None]
        return z, mean, variance, tape.gradient(loss, given)

    return run


def names(run, *given):
    graph = optimised(tk.function(run).get_concrete_function(*given).graph)
    nodes = prune(with_joined_normalization(graph)).nodes
    return [node.primitive.name for node in nodes if node.kind == "op"]


def arrays(rng, shape=(3, 5, 7, 12), vectors=True):
    x = tk.constant(2 + 3 * rng.normal(size=shape).astype("float32"))
    if not vectors:
        return x, None, None
    scale, offset = rng.normal(size=(2, shape[-1])).astype("float32")
    scale[0] = 0.0  # where all results are the offset, also -0.0
    offset[0] = -0.0
    return x, tk.constant(scale), tk.constant(3 * offset)


def assert_same_bits(run, *given):
    for options in ({"jit_compile": True}, {"jit_compile": False}):
        results = [tk.nest.flatten(f(*given)) for f in (run, tk.function(run, **options))]
        for a, b in zip(*results, strict=True):
            np.testing.assert_array_equal(b.numpy().view("int32"), a.numpy().view("int32"))


RECTIFIERS = {"relu": tk.nn.relu, "relu6": tk.nn.relu6, "none": tk.identity}


@pytest.mark.parametrize("behind", RECTIFIERS)
@pytest.mark.parametrize(
    ("shape", "vectors", "moments"),
    [((3, 5, 7, 12), True, True), ((37, 16), False, False), ((2, 9, 33), True, False)],
)
def test_the_bits_are_those_of_two_operations(rng, behind, shape, vectors, moments):
    run, given = step(RECTIFIERS[behind], moments=moments), arrays(rng, shape, vectors)
    assert_same_bits(run, *given)
    done = names(run, *given)
    assert done.count("rectified_normalization") == 1
    assert done.count("rectified_normalization_gradient") == 1
    assert not {"relu", "relu6", "keep_between", "relu_gradient"} & set(done)


@pytest.mark.parametrize("behind", ["relu", "relu6"])
@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_numbers_that_are_none(rng, behind):
    x, scale, offset = arrays(rng)
    broken = x.numpy()
    broken[0, 0, 0, :3] = np.nan, np.inf, -np.inf

    def gradient_of_nan(x, scale, offset):
        with tk.GradientTape() as tape:
            tape.watch(x)
            z = RECTIFIERS[behind](tk.ops.fused_batch_normalization(x, scale, offset)[0])
        weights = tk.constant([np.nan, np.inf, -1.0, *[-0.0] * 9])
        return z, tape.gradient(z, x, output_gradients=tk.zeros_like(z) + weights)

    for run, given in ((step(RECTIFIERS[behind]), broken), (gradient_of_nan, x)):
        expected, joined = (
            [y.numpy() for y in tk.nest.flatten(f(tk.constant(given), scale, offset))]
            for f in (run, tk.function(run))
        )
        for a, b in zip(expected, joined, strict=True):
            np.testing.assert_array_equal(b, a)


def test_what_is_read_by_others_stays(rng):
    given = arrays(rng)
    for behind in (tk.nn.relu, tk.nn.relu6):
        run = step(behind, also=True)
        assert {"relu", "relu6"} & set(names(run, *given))
        assert_same_bits(run, *given)

    def result_too(x, scale, offset):
        y, *_ = tk.ops.fused_batch_normalization(x, scale, offset)
        return y, tk.nn.relu(y)

    assert_same_bits(result_too, *given)

    def masked_otherwise(x, scale, offset):
        y, *_ = tk.ops.fused_batch_normalization(x, scale, offset)
        return tk.nn.relu6(y), y > 0.0, y < 5.0

    assert "relu6" in names(masked_otherwise, *given)


def test_other_axes_dtypes_and_sizes(rng):
    x, scale, offset = arrays(rng, (4, 6, 5))
    assert "rectified_normalization" not in names(step(tk.nn.relu, axis=1), x, None, None)
    wide = [tk.cast(v, "float64") for v in (x, scale, offset)]
    assert "rectified_normalization" not in names(step(tk.nn.relu), *wide)
    run = tk.function(
        step(tk.nn.relu),
        input_signature=[tk.TensorSpec((None, 6, 5), tk.float32), *[tk.TensorSpec((5,))] * 2],
    )
    for rows in (1, 4):
        for a, b in zip(
            tk.nest.flatten(run(x[:rows], scale, offset)),
            tk.nest.flatten(step(tk.nn.relu)(x[:rows], scale, offset)),
            strict=True,
        ):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_without_compiled_kernels_operations_stay(rng, monkeypatch):
    given = arrays(rng)
    run = step(tk.nn.relu6)
    joined = tk.function(run)
    expected = joined(*given)
    kernel_family.set_mode("off")
    assert "rectified_normalization" not in names(run, *given)
    plain = run(*given)
    for a, b in zip(*map(tk.nest.flatten, (plain, joined(*given))), strict=True):
        np.testing.assert_array_equal(b.numpy(), a.numpy())
    for a, b in zip(*map(tk.nest.flatten, (plain, expected)), strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-3, atol=1e-4)
    assert joined_normalization.FORWARD.name == "rectified_normalization"


def test_sizes_that_are_not_known_follow_from_those_of_a_call(rng):
    x, scale, offset = arrays(rng, (4, 6, 5))
    specs = tk.TensorSpec((None, 6, 5), tk.float32), tk.TensorSpec((5,)), tk.TensorSpec((5,))
    graph = optimised(tk.function(step(tk.nn.relu6)).get_concrete_function(*specs).graph)
    sized = at_sizes(with_joined_normalization(graph), [4])
    assert [tuple(y.shape) for y in sized.outputs] == [
        y.shape for y in tk.nest.flatten(step(tk.nn.relu6)(x, scale, offset))
    ]


@pytest.mark.parametrize("short", ["bfloat16", "float16"])
@pytest.mark.parametrize("behind", RECTIFIERS)
def test_16_bits_beside_parameters_of_float32(behind, rng, short):
    def run(x, scale, offset):
        with tk.GradientTape() as tape:
            tape.watch([x, scale, offset])
            y, mean, variance = tk.ops.fused_batch_normalization(x, scale, offset)
            z = RECTIFIERS[behind](y)
            loss = tk.reduce_sum(tk.cast(z, "float32") ** 2) + tk.reduce_sum(mean * variance)
        return z, mean, variance, tape.gradient(loss, [x, scale, offset])

    x, scale, offset = arrays(rng, (3, 9, 7, 40))
    x = tk.cast(x, short)
    expected = [] if behind == "none" else [behind]
    graph_names = names(run, x, scale, offset)
    assert "rectified_normalization_gradient" in graph_names
    assert not set(expected) & set(graph_names)
    for compiled in (tk.function(run, jit_compile=True), tk.function(run)):
        results = [tk.nest.flatten(f(x, scale, offset)) for f in (run, compiled)]
        for a, b in zip(*results, strict=True):
            assert a.dtype == b.dtype
            bits = f"u{a.dtype.size}"
            np.testing.assert_array_equal(b.numpy().view(bits), a.numpy().view(bits))


@pytest.mark.parametrize("short", ["bfloat16", "float16"])
def test_moments_of_16_bits_are_not_joined(rng, short):
    x = tk.cast(arrays(rng)[0], short)
    assert "rectified_normalization" not in names(step(tk.nn.relu), x, None, None)


@pytest.mark.parametrize("short", ["bfloat16", "float16"])
@pytest.mark.parametrize("behind", RECTIFIERS)
def test_a_layer_of_16_bits_is_one_kernel_with_its_rectifier(behind, rng, short):
    layer = tk.layers.BatchNormalization(dtype=f"mixed_{short}")
    wide = tk.layers.BatchNormalization(dtype="float32")
    x = tk.cast(arrays(rng, (3, 9, 7, 40))[0], short)

    def run(x, layer=layer):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = RECTIFIERS[behind](tk.cast(layer(x, training=True), short))
            loss = tk.reduce_sum(tk.cast(y, "float32") ** 2)
        return y, loss, tape.gradient(loss, [x, *layer.trainable_variables])

    expected = tk.nest.flatten(run(x, wide))
    for compiled in (run, tk.function(run, jit_compile=True), tk.function(run)):
        for a, b in zip(expected, tk.nest.flatten(compiled(x)), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(b.numpy().astype("f4"), a.numpy().astype("f4"))
    done = names(run, x)
    assert done.count("rectified_normalization") == 1
    assert done.count("rectified_normalization_gradient") == 1
    assert behind not in done
