"""Reductions of rows in the loops that make the rows: NumPy's bits, and no array in between."""

import numpy as np
import pytest

import trainkit as tk
from tests.compiler.llvm.test_llvm_kernel import assert_same_bits
from trainkit.compiler.ir import Loop, Reduction
from trainkit.compiler.schedule import parallel, rows
from trainkit.kernels.threads import thread_pool


@pytest.fixture(autouse=True)
def _small_arrays_count(monkeypatch):
    monkeypatch.setattr(rows, "FEWEST_BYTES", 1)


def numbers(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def kinds(code):
    return [type(step) for step in code.steps]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [32, 33, 127, 128, 129, 1000, 2000])
def test_sums_and_extremes_of_rows(width, dtype):
    x, row, column = numbers(7, width, dtype=dtype), numbers(width), numbers(7, 1, seed=1)
    row, column = row.astype(dtype), column.astype(dtype)
    for reduce in (np.add, np.maximum, np.minimum):
        code = assert_same_bits(
            lambda x, r, c, reduce=reduce: reduce.reduce((x * r - c) * x, -1), x, row, column
        )
        assert kinds(code) == [Loop]
        assert not code.scratch


def test_zeros_and_what_is_no_number():
    x = np.resize(np.array([0.0, -0.0, np.inf, np.nan, -np.inf, 1.0], np.float32), (5, 40))
    x[0], x[1], x[2] = 0.0, -0.0, np.inf
    for reduce in (np.add, np.maximum, np.minimum):
        assert_same_bits(lambda x, reduce=reduce: reduce.reduce(x * 1, -1), x)


def test_several_reductions_of_several_results():
    def f(x, y):
        a, b = x * y, x + y
        return a.sum(-1), a.max(-1, keepdims=True), (b * b).sum(-1, keepdims=True), b

    code = assert_same_bits(f, numbers(6, 50), numbers(6, 50, seed=1))
    assert kinds(code) == [Loop]
    assert len(code.steps[0].ends) == 3


def test_rows_of_several_axes_and_axes_of_one_element():
    for axes in [(1, 2), (1, 2, 3), (2, 3), (2,), -2]:
        code = assert_same_bits(lambda x, axes=axes: (x * 2).sum(axes), numbers(3, 4, 40, 1))
        assert kinds(code) == [Loop]


def test_integers_and_truths():
    x = np.random.default_rng(0).integers(-9, 9, (5, 77)).astype(np.int32)
    code = assert_same_bits(lambda x: ((x * x).sum(-1), (x > 3).sum(-1)), x)
    assert kinds(code) == [Loop]


def test_what_follows_reads_the_result():
    def normalised(x):
        centred = x - x.sum(-1, keepdims=True) / x.dtype.type(x.shape[-1])
        spread = (centred * centred).sum(-1, keepdims=True)
        return centred / np.sqrt(spread)

    code = assert_same_bits(normalised, numbers(9, 64))
    assert [k for k in kinds(code) if k is Reduction] == [Reduction]  # that of the input


@pytest.mark.parametrize(
    ("f", "shape"),
    [
        (lambda x: (x * 2).sum(), (8, 64)),
        (lambda x: (x * 2).sum(0), (8, 64)),
        (lambda x: (x * 2).sum(1), (4, 40, 40)),
        (lambda x: (x * 2).sum(-1), (8, 31)),
        (lambda x: (x * 2).sum(-1), (2, 4097)),
        (lambda x: (x * 2).sum(-1), (1, 4096)),
        (lambda x: np.exp(x).sum(-1), (8, 64)),
        (lambda x: (x * 2).reshape(16, 32).sum(-1), (8, 64)),
    ],
    ids=["all", "first", "middle", "short", "long", "one row", "no loop", "other rows"],
)
def test_what_stays_apart(f, shape):
    assert Reduction in kinds(assert_same_bits(f, numbers(*shape)))


def test_rows_of_two_lengths_stay_apart():
    def f(x):
        y = x * 2
        return y.sum(-1), y.sum((1, 2))

    assert sorted(k.__name__ for k in kinds(assert_same_bits(f, numbers(3, 4, 40)))) == [
        "Loop",
        "Reduction",
    ]


def test_small_arrays_stay_as_they_were(monkeypatch):
    monkeypatch.setattr(rows, "FEWEST_BYTES", 1 << 17)
    code = assert_same_bits(lambda x: (x * 2).sum(-1), numbers(8, 64))
    assert kinds(code) == [Loop, Reduction]


@pytest.mark.skipif(thread_pool.thread_pool() is None, reason="one core, or no pool here")
@pytest.mark.parametrize("shape", [(300, 40), (3, 200, 40), (2000, 33)])
def test_rows_are_shared_out_to_threads(monkeypatch, shape):
    monkeypatch.setattr(parallel, "FEWEST_BYTES", 1)
    monkeypatch.setattr("trainkit.compiler.llvm.entry.PART_BYTES", 1 << 10)

    def f(x, column):
        y = x * column
        return y.sum(-1), y, (y - y.max(-1, keepdims=True)).sum(-1)

    code = assert_same_bits(f, numbers(*shape), numbers(*shape[:-1], 1))
    assert "@pool_run" in code.text


@pytest.mark.parametrize("reduce", [tk.reduce_sum, tk.reduce_mean])
@pytest.mark.parametrize("axis", [-1, 1, [1], 0, None])
def test_a_function_of_large_arrays_gives_the_bits_of_eager_calls(reduce, axis):
    x, y = tk.constant(numbers(80, 300)), tk.constant(numbers(80, 300, seed=1))

    def f(x, y):
        return reduce(tk.square(x - y) * 0.5, axis)

    graph = tk.function(f, jit_compile=True)
    np.testing.assert_array_equal(graph(x, y).numpy(), f(x, y).numpy())
    program = graph.get_concrete_function(x, y).graph.program()
    left = [node.type for node in program.fused.graph.nodes if node.kind == "op"]
    by_blas = axis is None or axis == 0
    assert (left == ["Fused"]) != by_blas


@pytest.mark.parametrize("reduce", [np.add, np.maximum])
def test_rows_of_a_large_input_are_a_loop_of_their_own(monkeypatch, reduce):
    monkeypatch.setattr(parallel, "FEWEST_BYTES", 1 << 14)
    monkeypatch.setattr("trainkit.compiler.llvm.entry.PART_BYTES", 1 << 10)

    def f(x):
        return reduce.reduce(np.exp(x), -1) * 2, reduce.reduce(x, -1, keepdims=True) - x

    code = assert_same_bits(f, numbers(100, 50))
    assert kinds(code).count(Loop) == 4
    assert Reduction not in kinds(code)
    assert kinds(assert_same_bits(f, numbers(10, 50))).count(Reduction) == 2
