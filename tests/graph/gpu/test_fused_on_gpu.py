"""Fused kernels of a GPU, compiled as C++ and run by the stand-in for CuPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainkit as tk
from tests import stand_in
from tests.graph.test_differential import programs, run_program
from tests.stand_in import cuda_on_cpu
from tests.stand_in.kernels import has_compiler
from trainkit.compiler.cuda import cuda_source
from trainkit.graph.gpu.fused_on_gpu import CUDA, CudaKernel
from trainkit.graph.gpu.gpu_program import CALLS_BEFORE_CAPTURE
from trainkit.graph.ir.passes import optimised
from trainkit.graph.runtime.fusion import fuse
from trainkit.kernels.cuda import raw_kernel

pytestmark = pytest.mark.skipif(not has_compiler(), reason="no g++ for this machine is here")


@pytest.fixture(autouse=True)
def _gpu(any_gpu):
    """Each test runs on the stand-in, and on a GPU where there is one."""


def fused(f, *xs):
    """The kernels that `f` becomes, and the names of the other operations."""
    graph = fuse(optimised(tk.function(f).get_concrete_function(*xs).graph), CUDA)
    nodes = [n for n in graph.nodes if n.kind == "op"]
    kernels = [n.primitive for n in nodes if isinstance(n.primitive, CudaKernel)]
    return kernels, [n.primitive.name for n in nodes if not isinstance(n.primitive, CudaKernel)]


def assert_same(f, *xs, exact=True):
    """`f` gives the same node by node, by kernels, and by a CUDA graph of these."""
    expected, function = f(*xs), tk.function(f, jit_compile=True, autograph=False)
    for _ in range(CALLS_BEFORE_CAPTURE + 2):
        assert_near(expected, function(*xs), exact)


def assert_near(expected, got, exact):
    for a, b in zip(tk.nest.flatten(expected), tk.nest.flatten(got), strict=True):
        assert (a.dtype, a.shape, a.device) == (b.dtype, b.shape, b.device)
        if a.dtype == "bfloat16":  # whose NaN NumPy takes for other numbers
            a, b = tk.cast(a, "float32"), tk.cast(b, "float32")
        if exact:
            np.testing.assert_array_equal(b.numpy(), a.numpy())
        else:
            near = 1e-5 if a.dtype == "float32" else 1e-12
            np.testing.assert_allclose(b.numpy(), a.numpy(), near, near)


def numbers(*shape, dtype="float32", seed=0):
    return tk.constant(np.random.default_rng(seed).normal(size=shape).astype(dtype))


# ---------------------------------------------------------------------- what is fused


def test_a_chain_is_one_kernel_of_one_loop():
    def f(x, y):
        return tk.nn.relu(x * 2.0 + y) - tk.sqrt(tk.abs(y))

    kernels, rest = fused(f, numbers(3, 4), numbers(3, 4))
    assert rest == []
    assert [len(k.code.kernels) for k in kernels] == [1]
    assert_same(f, numbers(3, 4), numbers(3, 4))


def test_what_is_not_element_wise_stays_with_cupy_between_kernels():
    def f(x):
        y = tk.matmul(x + 1.0, x * 2.0) * 0.5 + 1.0
        return y / tk.reduce_sum(y * y, 1, keepdims=True)

    kernels, rest = fused(f, numbers(3, 3))
    assert rest == ["matmul", "sum", "divide"]
    assert len(kernels) == 2
    assert_same(f, numbers(3, 3), exact=False)


def test_a_single_operation_is_left_alone():
    assert fused(lambda x: x + 1.0, numbers(3)) == ([], ["add"])


def test_complex_numbers_are_left_alone():
    x = tk.cast(numbers(3), "complex64")
    assert fused(lambda x: x * x + x, x) == ([], ["multiply", "add"])


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: x + y[0] * 2.0,
        lambda x, y: x * y[1, 2] - 1.0,
        lambda x, y: tk.transpose(x) * tk.transpose(y) + 1.0,
        lambda x, y: x * tk.transpose(y) + 1.0,
        lambda x, y: (x + y)[::-1, 1:3] * 2.0 - 1.0,
        lambda x, y: tk.reshape(x + y, [2, 8]) * tk.reshape(x, [2, 8]),
        lambda x, y: x[:, None] + y[None] * x[:, :, None],
        lambda x, y: tk.where(x > y, x, y * 0.5) - tk.maximum(x, 0.0),
        lambda x, y: (x[0] * 2.0 + y[:, 1], x[0] * 2.0 - 1.0),
        lambda x, y: tk.cast(tk.cast(x > 0.0, "int32") * 3 - tk.cast(y > x, "int32"), "float32"),
        lambda x, y: tk.broadcast_to(x[0] + 1.0, [3, 4]) * 2.0,
        lambda x, y: (x + 1.0) * tk.constant(np.arange(4, dtype="float32")),
        lambda x, y: tk.ones_like(x[:1, :1]) * y,
        lambda x, y: tk.sign(x) * tk.square(y) - tk.abs(x) / (y * y + 1.0),
    ],
)
def test_views_and_broadcasting(f):
    assert_same(f, numbers(4, 4), numbers(4, 4, seed=1))


FLOAT_FUNCTIONS = (
    "exp expm1 log log1p sin cos tan arcsin arctan sinh cosh arcsinh tanh sqrt rsqrt ceil floor "
    "round reciprocal sigmoid softplus silu relu relu6 elu selu leaky_relu hard_sigmoid "
    "log_sigmoid softsign square negative absolute isnan isinf isfinite log2 log10"
).split()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FLOAT_FUNCTIONS)
def test_functions_of_floats(name, dtype):
    values = [0.3, 0.0, -0.0, 1.0, 0.9, 2.5, -0.7, np.inf, -np.inf, np.nan, 1e-20]
    x = tk.constant(np.array(values, dtype))
    op = getattr(tk.ops, name)
    assert_same(lambda x: (op(x), op(x * 0.5)), x, exact=False)


@pytest.mark.parametrize("name", ["maximum", "minimum", "logaddexp", "arctan2", "hypot", "power"])
def test_functions_of_two_floats(name):
    values = np.array([0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 3.0], "float64")
    a, b = (tk.constant(x.ravel()) for x in np.meshgrid(values, values))
    op = getattr(tk.ops, name)
    assert_same(lambda a, b: op(a * 1.0, b) * 1.0, a, b, exact=False)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_integers_wrap_around(dtype):
    limits = np.iinfo(dtype)
    values = np.array([limits.min, limits.max, 0, 1, 7, limits.max // 2], dtype)
    a, b = (tk.constant(x.ravel()) for x in np.meshgrid(values, values))

    def f(a, b):
        total = a + b
        return (
            total * b,
            total - a * a,
            tk.abs(total) + tk.sign(b),
            tk.maximum(a, b) * tk.minimum(a, total),
            tk.ops.bitwise_xor(a & b, tk.ops.bitwise_not(a) | b),
            tk.cast(total < b, "float32") * 0.5,
            tk.cast(total, "float64") / 2.0,
            tk.cast(total, "int16") + tk.cast(1, "int16"),
        )

    assert_same(f, a, b)


SHORT_FUNCTIONS = {
    "arithmetic": lambda x, y: (x + y) * y - x / (y * y + 1.0),
    "selection": lambda x, y: tk.where(x > y, tk.abs(x), -y) + tk.maximum(x, y * 0.5),
    "relu and its gradient": lambda x, y: tk.nn.relu(x) * tk.cast(y > 0.0, x.dtype),
    "truth values": lambda x, y: tk.cast(x >= y, "int32") + tk.cast(tk.math.is_finite(x), "int32"),
    "from and to float32": lambda x, y: tk.cast(tk.cast(x, "float32") * 1.001 + 0.1, y.dtype) * y,
    "from and to float64": lambda x, y: tk.cast(tk.cast(x, "float64") * 1.001, y.dtype) * y,
    "from integers": lambda x, y: x * tk.cast(tk.cast(y > 0.0, "int32") * 2049, x.dtype),
    "roots": lambda x, y: tk.sqrt(tk.abs(x)) + tk.square(y) * tk.sign(x),
    "rounding": lambda x, y: tk.floor(x * 3.0) + tk.math.ceil(y) - tk.round(x),
    "broadcasting": lambda x, y: x[:, None] * y[None, :] + y,
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", SHORT_FUNCTIONS)
def test_short_floats_have_the_bits_of_single_operations(name, dtype):
    values = np.concatenate([numbers(1, 200).numpy()[0] * 10, [0, -0.0, 60000, 1e-7, np.inf]])
    x = tk.cast(tk.constant(values.astype("float32")), dtype)
    y = tk.cast(tk.constant(np.roll(values, 3).astype("float32")), dtype)
    f = SHORT_FUNCTIONS[name]
    kernels, rest = fused(f, x, y)
    assert (len(kernels), rest) == (1, [])
    assert_same(f, x, y)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", FLOAT_FUNCTIONS)
def test_functions_of_short_floats(name, dtype):
    values = [0.3, 0.0, -0.0, 1.0, 0.9, 2.5, -0.7, np.inf, -np.inf, np.nan, 1e-4]
    x = tk.cast(tk.constant(np.array(values, "float32")), dtype)
    op = getattr(tk.ops, name)
    expected = op(x)
    for _ in range(CALLS_BEFORE_CAPTURE + 2):
        function = tk.function(lambda x: (op(x), op(x * 0.5)), jit_compile=True, autograph=False)
        got = function(x)[0]
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(
            tk.cast(got, "float32").numpy(),
            tk.cast(expected, "float32").numpy(),
            rtol=1e-2 if dtype == "bfloat16" else 2e-3,
        )


def test_a_chain_of_two_short_floats_and_numbers():
    x, y = tk.cast(numbers(50), "float16"), tk.cast(numbers(50, seed=1), "bfloat16")

    def f(x, y):
        return tk.cast(x * 0.3, "float32") + tk.cast(y * 0.3, "float32"), x * x + 1.0

    kernels, rest = fused(f, x, y)
    assert (len(kernels), rest) == (1, [])
    assert_same(f, x, y)


def test_truth_values():
    a, b = tk.constant([True, True, False, False]), tk.constant([True, False, True, False])

    def f(a, b):
        both = tk.logical_and(a, b)
        return (
            tk.math.logical_xor(both, tk.logical_not(a)),
            tk.equal(both, a),
            tk.cast(tk.logical_or(a, both), "int32") + 1,
        )

    assert_same(f, a, b)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(programs(), st.integers(0, 100), st.sampled_from(["float32", "float64"]))
def test_random_programs_agree(program, seed, dtype):
    xs = [numbers(4, 4, dtype=dtype, seed=seed), numbers(4, 4, dtype=dtype, seed=seed + 1)]
    assert_same(lambda x, y: run_program(program, x, y), *xs, exact=False)


# ---------------------------------------------------------------------- how it is called


def chain(x):
    return tk.exp(-x) * 2.0 + 1.0


def test_large_arrays_take_more_than_one_block():
    assert_same(lambda x: x * 2.0 + 1.0, numbers(1000, 700))


LARGE = cuda_source.FEWEST_BY_FOUR


@pytest.mark.filterwarnings("error:fused kernels can't be compiled")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "bool"])
@pytest.mark.parametrize("size", [LARGE, LARGE + 3])
def test_large_arrays_go_by_vectors(size, dtype):
    values = np.random.default_rng(0).integers(-3, 4, size).astype("float32")
    x = tk.cast(tk.constant(values), dtype)

    def f(x):
        if dtype == "bool":
            return tk.math.logical_xor(tk.logical_not(x), tk.logical_and(x, x))
        return tk.cast(x * x - x, "int32") * tk.cast(x > 0, "int32"), x + x * x

    kernels, _ = fused(f, x)
    assert {source.each for k in kernels for source in k.code.kernels} == {4}
    assert_same(f, x)


def test_large_arrays_that_begin_within_a_word_go_one_by_one():
    x = numbers(LARGE + 5)
    f = tk.function(lambda x, y: x * 2.0 + y, jit_compile=True)
    for start in (1, 2, 4, 1):
        part = x[start : start + LARGE]
        for y in (part, x[:LARGE]):
            np.testing.assert_array_equal(f(part, y).numpy(), part.numpy() * 2 + y.numpy())


def test_large_arrays_beside_a_number_of_the_gpu_and_slices():
    x, rate = numbers(2 * LARGE), tk.reshape(numbers(1), [])

    def f(x, rate):
        return x[4 : LARGE + 4] * rate + 1.0, x[1 : LARGE + 1] * rate - 1.0

    assert_same(f, x, rate)


def test_arrays_in_another_order_are_computed_node_by_node():
    f = tk.function(lambda x: x * 2.0 + 1.0, jit_compile=True)
    x = numbers(3, 4)
    f(tk.transpose(x))
    f(tk.transpose(x))
    turned = tk.transpose(numbers(4, 3))
    np.testing.assert_array_equal(f(turned).numpy(), turned.numpy() * 2 + 1)


def test_numbers_of_the_cpu_go_along_and_other_arrays_do_not():
    f = tk.function(lambda x, rate: (x - rate * x) * rate, jit_compile=True)
    with tk.device("/cpu:0"):
        rate, wrong = tk.constant(0.5), tk.constant([0.5, 0.25])
    x = tk.constant([1.0, 2.0])
    assert f(x, rate).numpy().tolist() == [0.25, 0.5]
    with pytest.raises(tk.errors.InvalidArgumentError, match="on /device:CPU:0 and /device:GPU:0"):
        f(x, wrong)


def test_equal_kernels_are_compiled_once(inside, monkeypatch):
    monkeypatch.setattr(raw_kernel, "_COMPILED", {})
    for _ in range(2):
        f = tk.function(chain, jit_compile=True)
        f(numbers(3, 5))
        f(numbers(3, 5))  # the first call looks what lies where
    assert len(raw_kernel._COMPILED) == 1


def test_a_step_needs_few_kernels_and_no_copies(inside, monkeypatch):
    import cupy

    monkeypatch.setattr(raw_kernel, "_COMPILED", {})
    launched = []
    call = cupy.RawKernel.__call__
    monkeypatch.setattr(
        cupy.RawKernel, "__call__", lambda self, *a, **k: (launched.append(self), call(self, *a))
    )
    weights = [tk.Variable(numbers(4, 3)), tk.Variable(numbers(3))]
    rule = tk.optimizers.Adam(0.1)
    step = tk.function(lambda gs: rule.apply(gs, weights), jit_compile=True)
    with stand_in.in_place() as ledger:
        for _ in range(2):
            step([numbers(4, 3), numbers(3)])
        launched.clear()
        gs = [numbers(4, 3), numbers(3)]
        del ledger.to_device[:]
        step(gs)
    assert len(launched) == 1
    assert (ledger.to_host, ledger.to_device) == ([], [])


# ---------------------------------------------------------------------- the same with many arrays

SIZES = [5, 1, 300, 7, 7]


def alike(kernels):
    """How many loops each launch does."""
    return [len(getattr(s, "members", "1")) for k in kernels for s in k.code.kernels]


@pytest.mark.parametrize("sizes", [SIZES, [*SIZES, LARGE, 2 * LARGE + 3], [3] * 70])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_is_done_to_many_arrays_is_one_launch(sizes, dtype):
    xs = [numbers(n, dtype=dtype, seed=i) for i, n in enumerate(sizes)]

    def f(xs, rate):
        return [x * rate - x * x for x in xs]

    rate = tk.cast(0.5, dtype)
    kernels, rest = fused(f, xs, rate)
    assert rest == []
    assert max(alike(kernels)) == min(64, len([n for n in sizes if n > 1]))
    assert_same(f, xs, rate)


@pytest.mark.parametrize("order", ["forward", "backward"])
def test_arrays_done_alike_begin_anywhere(order):
    x = numbers(2 * LARGE)

    def f(x):
        return [x[i : LARGE + 5 * i] * 2.0 + 1.0 for i in range(8)]

    kernels, _ = fused(f, x)
    assert alike(kernels) == [8]
    with getattr(cuda_on_cpu, order)():
        assert_same(f, x)


def test_arrays_of_several_axes_are_done_alike_where_the_inner_ones_agree():
    xs, row = [numbers(n, 3, seed=n) for n in (2, 5, 9)], numbers(3)
    kernels, _ = fused(lambda xs, row: [x * row + 1.0 for x in xs], xs, row)
    assert alike(kernels) == [3]
    assert_same(lambda xs, row: [x * row + 1.0 for x in xs], xs, row)


def test_numbers_and_dtypes_that_differ_are_done_apart():
    xs = [numbers(4), numbers(5), tk.cast(numbers(6), "float64"), tk.cast(numbers(7), "int32")]

    def f(xs):
        a, b, c, d = xs
        return a * 2.0 + 1.0, b * 3.0 + 1.0, c * 2.0 + 1.0, d * 2 + 1

    kernels, _ = fused(f, xs)
    assert alike(kernels) == [1] * 4
    assert_same(f, xs)


def test_what_needs_a_result_of_what_is_like_it_comes_after_it():
    def f(x):
        found = [x * 2.0 + 1.0]
        for _ in range(4):
            found.append(found[-1][1:] * 2.0 + 1.0)
        return [*found, (x * 3.0)[2:] * 2.0 + 1.0]

    kernels, _ = fused(f, numbers(9))
    assert len(alike(kernels)) >= 5
    assert_same(f, numbers(9))


def test_empty_arrays_beside_others_are_left_out():
    xs = [tk.zeros([0]), numbers(3), tk.zeros([0]), numbers(4)]
    assert_same(lambda xs: [x * 2.0 + 1.0 for x in xs], xs)


@pytest.mark.parametrize("order", ["forward", "backward"])
def test_a_variable_is_not_written_over_where_another_update_reads_it(order):
    values = [numbers(299), numbers(300, seed=1)]

    def updated(variables):
        part, whole = variables
        value = whole.value()
        part.assign(value[1:] * 2.0 - 1.0)
        whole.assign(value * 2.0 - 1.0)
        return part.value()

    eager, compiled = ([tk.Variable(v) for v in values] for _ in range(2))
    step = tk.function(lambda: updated(compiled), jit_compile=True)
    with getattr(cuda_on_cpu, order)():
        for _ in range(CALLS_BEFORE_CAPTURE + 3):
            assert_near([updated(eager)], [step()], exact=True)
            assert_near([v.value() for v in eager], [v.value() for v in compiled], exact=True)


@pytest.mark.parametrize("order", ["forward", "backward"])
@pytest.mark.parametrize("optimizer", [tk.optimizers.SGD, tk.optimizers.Adam, tk.optimizers.Ftrl])
def test_many_weights_are_updated_as_one_by_one(optimizer, order):
    shapes = [[5, 7], [7], [], [LARGE + 1], [2, 3, 4], [1], [0], [64], [64]]
    eager, compiled = ([tk.Variable(numbers(*s, seed=9)) for s in shapes] for _ in range(2))
    rules = [optimizer(0.1), optimizer(0.1)]
    step = tk.function(lambda gs: rules[1].apply(gs, compiled), jit_compile=True)
    with getattr(cuda_on_cpu, order)():
        for i in range(CALLS_BEFORE_CAPTURE + 3):
            grads = [numbers(*s, seed=i) for s in shapes]
            rules[0].apply(grads, eager)
            step(grads)
            for a, b in zip(eager, compiled, strict=True):
                np.testing.assert_allclose(b.numpy(), a.numpy(), 2e-6, 1e-7)


def test_without_a_compiler_it_runs_node_by_node_and_says_so(inside, monkeypatch):
    import cupy

    def fails(self):
        raise RuntimeError("no NVRTC here")

    monkeypatch.setattr(raw_kernel, "_COMPILED", {})
    monkeypatch.setattr(cupy.RawKernel, "compile", fails)
    f, x = tk.function(chain, jit_compile=True), numbers(3)
    f(x)
    with pytest.warns(RuntimeWarning, match=r"can't be compiled here \(RuntimeError: no NVRTC"):
        first = f(x)
    np.testing.assert_array_equal(first.numpy(), chain(x).numpy())
    np.testing.assert_array_equal(f(x).numpy(), first.numpy())


def test_empty_arrays_launch_nothing():
    assert_same(lambda x: x * 2.0 + 1.0, tk.zeros([0, 3]))
