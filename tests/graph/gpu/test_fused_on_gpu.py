"""Fused kernels of a GPU, compiled as C++ and run by the stand-in for CuPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainkit as tk
from tests import stand_in
from tests.graph.test_differential import programs, run_program
from tests.stand_in.kernels import has_compiler
from trainkit.graph.gpu.fused_on_gpu import CUDA, CudaKernel
from trainkit.graph.gpu.gpu_program import CALLS_BEFORE_CAPTURE
from trainkit.graph.ir.passes import optimised
from trainkit.graph.runtime.fusion import fuse
from trainkit.kernels.cuda import raw_kernel

pytestmark = pytest.mark.skipif(not has_compiler(), reason="g++ is not here")


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


def test_short_floats_and_texts_of_other_types_are_left_alone():
    x = tk.cast(numbers(3), "float16")
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
    assert 2 <= len(launched) <= 6
    assert (ledger.to_host, ledger.to_device) == ([], [])


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
