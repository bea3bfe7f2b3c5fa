"""Eager code, interpreted and fused graphs agree: each primitive, and random programs of them."""

import functools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import trainkit as tk
from tests.conformance.table import all_cases
from trainkit.core.errors import OpError

WAYS = {"interpreted": {"jit_compile": False}, "fused": {"jit_compile": True}}
QUIET = pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")


def as_arrays(result):
    return [np.asarray(y) for y in tk.nest.flatten(result) if y is not None]


def on_gpu(result):
    """Whether a GPU computed it, where a fused kernel may round a function otherwise."""
    return any("GPU" in y.device for y in tk.nest.flatten(result) if y is not None)


def assert_same(expected, got, exact=True):
    gpu = on_gpu(got)
    expected, got = as_arrays(expected), as_arrays(got)
    assert len(expected) == len(got)
    for a, b in zip(expected, got, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        if exact and not gpu:
            np.testing.assert_array_equal(b, a)
        else:
            near = (1e-4, 1e-5) if gpu and a.dtype == np.float32 else (1e-9, 1e-10)
            np.testing.assert_allclose(b, a, *near)


def scalar(ys):
    """A smooth scalar of all differentiable results; its gradient differs for each element."""
    total = tk.constant(0.0, tk.float64)
    for y in tk.nest.flatten(ys):
        if tk.is_tensor(y) and y.dtype.is_differentiable:
            if y.dtype.is_complex:
                y = tk.math.real(y) + 0.5 * tk.math.imag(y)
            y = tk.cast(y, tk.float64)
            total = total + tk.reduce_sum(tk.sin(y) + y * y * 0.1)
    return total


def derivatives(f, order):
    """A function that gives the result of `f` and its gradients by the float inputs."""

    def run(*xs):
        floats = [x for x in xs if x is not None and x.dtype.is_differentiable]
        with tk.GradientTape() as outer:
            outer.watch(floats)
            with tk.GradientTape() as inner:
                inner.watch(floats)
                ys = f(*xs)
                loss = scalar(ys)
            first = inner.gradient(loss, floats)
            if order > 1:
                again = scalar([g for g in first if g is not None])
        if order < 2:
            return ys, first
        return ys, first, outer.gradient(again, floats)

    return run


CASES = [case for case in all_cases()]


@QUIET
@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_primitive_with_its_gradients(case):
    if case.name == "copy_to_device" and tk.config.list_physical_devices("GPU"):
        pytest.skip("its result is on the CPU, and the loss is not")
    f = functools.partial(case.op, **case.settings) if case.settings else case.op
    xs = [None if x is None else tk.constant(x) for x in case.inputs]
    run = derivatives(f, min(case.order, 2))
    expected = run(*xs)
    for options in WAYS.values():
        got = tk.function(run, autograph=False, **options)(*xs)
        assert_same(expected[:1], got[:1])
        # second gradients sum in the order in which a rule's own tape meets the terms
        assert_same(expected[1:], got[1:], exact=False)


# ---------------------------------------------------------------------- random programs

UNARY = {
    "negative": lambda x: -x,
    "square": tk.square,
    "relu": tk.nn.relu,
    "tanh": tk.tanh,
    "sigmoid": tk.sigmoid,
    "abs": tk.abs,
    "root": lambda x: tk.sqrt(tk.abs(x) + 1.0),
    "exp": lambda x: tk.exp(-tk.abs(x)),
    "sin": tk.sin,
    "double": lambda x: x * 2.0,
    "shift": lambda x: 1.0 - x,
    "identity": tk.identity,
    "transpose": lambda x: tk.transpose(x),
    "softmax": tk.nn.softmax,
    "mean row": lambda x: x - tk.reduce_mean(x, 0, keepdims=True),
    "sum column": lambda x: x + tk.reduce_sum(x, 1, keepdims=True),
    "flip": lambda x: x[::-1],
    "detached": lambda x: x * tk.stop_gradient(x),
    "nonzero": lambda x: x / (1.0 + x * x),
}
BINARY = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / (tk.abs(y) + 0.5),
    "maximum": tk.maximum,
    "matmul": lambda x, y: tk.matmul(x, y) * 0.25,
    "where": lambda x, y: tk.where(x > y, x, y * 0.5),
    "row": lambda x, y: x + y[0],
    "scalar": lambda x, y: x * y[1, 2],
    "cond": lambda x, y: tk.cond(tk.reduce_sum(x) > tk.reduce_sum(y), lambda: x + y, lambda: x * y),
}
SIZE = 4


@st.composite
def programs(draw):
    """A list of steps, each a name and the numbers of the values that it takes."""
    steps = []
    for number in range(2, 2 + draw(st.integers(1, 12))):
        earlier = st.integers(0, number - 1)
        if draw(st.booleans()):
            steps.append((draw(st.sampled_from(sorted(UNARY))), (draw(earlier),)))
        else:
            steps.append((draw(st.sampled_from(sorted(BINARY))), (draw(earlier), draw(earlier))))
    results = draw(st.lists(st.integers(2, 1 + len(steps)), min_size=1, max_size=3))
    return steps, results


def run_program(program, x, y):
    steps, results = program
    values = [x, y]
    for name, places in steps:
        values.append({**UNARY, **BINARY}[name](*[values[i] for i in places]))
    return [values[i] for i in results]


def inputs(seed, dtype):
    rng = np.random.default_rng(seed)
    return [tk.constant(rng.normal(size=(SIZE, SIZE)).astype(dtype)) for _ in range(2)]


SLOW = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@QUIET
@SLOW
@given(programs(), st.integers(0, 100), st.sampled_from(["float32", "float64"]))
def test_random_programs_agree_bit_for_bit(program, seed, dtype):
    xs = inputs(seed, dtype)
    expected = run_program(program, *xs)
    for options in WAYS.values():
        f = tk.function(lambda x, y: run_program(program, x, y), autograph=False, **options)
        assert_same(expected, f(*xs))


@QUIET
@SLOW
@given(programs(), st.integers(0, 100))
def test_gradients_of_random_programs_agree(program, seed):
    run = derivatives(lambda x, y: run_program(program, x, y), 2)
    xs = inputs(seed, "float64")
    expected = run(*xs)
    for options in WAYS.values():
        got = tk.function(run, autograph=False, **options)(*xs)
        # sums of gradients may come in another order through branches
        assert_same(tk.nest.flatten(expected), tk.nest.flatten(got), exact=False)


@QUIET
@SLOW
@given(programs(), st.integers(0, 100))
def test_gradients_around_a_function_agree(program, seed):
    xs = inputs(seed, "float64")
    f = functools.partial(run_program, program)
    expected = derivatives(f, 2)(*xs)
    got = derivatives(tk.function(lambda x, y: f(x, y), autograph=False), 2)(*xs)
    assert_same(tk.nest.flatten(expected), tk.nest.flatten(got), exact=False)


@pytest.mark.usefixtures("on_cpu")
def test_the_comparison_itself_finds_a_difference():
    with pytest.raises(AssertionError):
        assert_same([tk.constant([1.0])], [tk.constant([1.0000001])])
    with pytest.raises(AssertionError):
        assert_same([tk.constant([1.0])], [tk.constant([1.0], tk.float64)])
    with pytest.raises((OpError, ValueError, AssertionError)):
        assert_same([tk.constant([1.0])], [tk.constant([[1.0]])])
