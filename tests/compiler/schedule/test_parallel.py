"""Large loops on several threads: the same bits, and nobody writes what another still reads."""

import numpy as np
import pytest

from trainkit.compiler.ir import Buffer, Elementwise, Loop, NumpyLoop, View
from trainkit.compiler.llvm.llvm_kernel import LlvmCode, LlvmTracer
from trainkit.compiler.schedule import parallel
from trainkit.kernels.threads.thread_pool import thread_pool

pytestmark = pytest.mark.skipif(thread_pool() is None, reason="one core, or no pool here")


@pytest.fixture(autouse=True)
def _small_loops_count(monkeypatch):
    monkeypatch.setattr(parallel, "FEWEST_BYTES", 1)
    monkeypatch.setattr("trainkit.compiler.llvm.entry.PART_BYTES", 1 << 10)


def assert_same_bits(function, *arrays):
    trace = LlvmTracer()
    results = function(*(trace.input(np.shape(a), a.dtype) for a in arrays))
    code = LlvmCode.of(trace, results if isinstance(results, tuple) else (results,))
    outs = [make() for make in code.makers]
    given = (*arrays, *code.constants, *outs, np.empty(code.scratch, np.uint8))
    assert code.compiled()(*given)
    expected = function(*arrays)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for got, wanted in zip(outs, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    return code


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize(
    "shape", [(3,), (64,), (1000,), (100_003,), (7, 5), (300, 301), (2, 3, 999)]
)
def test_parts_together_are_the_whole(shape):
    x, y = numbers(*shape), numbers(*shape, seed=1)
    code = assert_same_bits(lambda x, y: (x * y + 2, np.sqrt(np.abs(y)) - x), x, y)
    assert "@pool_run" in code.text or x.size < 200


def test_rows_columns_and_other_layouts():
    x, row, column = numbers(301, 203), numbers(203), numbers(301, 1)
    assert_same_bits(lambda x, r, c: (x * r + c, x.T / 3, (x - c).T * 2), x, row, column)


def test_a_loop_that_reads_what_another_writes_waits_for_it():
    x = numbers(400, 400)

    def twice(x):
        y = x * 2
        return y, y.T + y  # elements that other threads write

    code = assert_same_bits(twice, x)
    assert code.text.count("call void @pool_run") == 2


def test_unrelated_loops_go_on_at_once():
    code = assert_same_bits(lambda x, y: (x * 2, y + 1), numbers(5000), numbers(6000))
    assert code.text.count("call void @pool_run") == 1


def test_results_over_inputs_that_another_loop_reads():
    x = numbers(400, 400)
    code = assert_same_bits(lambda x: (x.T + 1, x * 2), x)
    assert code.reusable == {(1, 0)}
    assert code.text.count("call void @pool_run") == 2
    turned, twice, outs = x.T + 1, x * 2, [make() for make in code.makers]
    assert code.compiled()(x, outs[0], x, np.empty(code.scratch, np.uint8))
    np.testing.assert_array_equal(outs[0], turned)
    np.testing.assert_array_equal(x, twice)


def views(*sizes, kind="temporary"):
    buffers = [Buffer(kind, size) for size in sizes]
    return [View(b, 0, (b.size,), (1,), np.dtype("uint8")) for b in buffers]


def loop(source, out):
    return Loop([Elementwise("copy", (source,), out)])


def test_temporaries_in_one_place_keep_loops_apart():
    a, b, c, d = views(100, 100, 100, 100)
    places = {a.buffer: 0, b.buffer: 128, c.buffer: 64, d.buffer: 256}
    held = set(places)
    apart = parallel.in_parallel([loop(a, b), loop(d, c)], held, places, [])  # c lies over a and b
    assert [len(x.loops) for x in apart] == [1, 1]
    places[c.buffer] = 512
    (together,) = parallel.in_parallel([loop(a, b), loop(d, c)], held, places, [])
    assert len(together.loops) == 2


def test_a_result_over_an_input_keeps_loops_apart():
    x, y = views(100, 100, kind="input")
    one, two = views(100, 100, kind="output")
    held = {v.buffer for v in (x, y, one, two)}
    steps = [loop(x, one), loop(y, two)]
    assert len(parallel.in_parallel(steps, held, {}, [])) == 1
    assert len(parallel.in_parallel(steps, held, {}, [(two.buffer, x.buffer)])) == 2


def test_loops_that_share_no_array_are_cut_as_one():
    x, y = views(100, 100, kind="input")
    one, two = views(100, 100, kind="output")
    (number,) = views(1, kind="input")
    held = {v.buffer for v in (x, y, one, two, number)}

    def add(a, b, out):
        return Loop([Elementwise("add", (a, b), out)])

    (apart,) = parallel.in_parallel([loop(x, one), loop(y, two)], held, {}, [])
    assert apart.apart
    (scaled,) = parallel.in_parallel([add(x, number, one), add(y, number, two)], held, {}, [])
    assert scaled.apart
    (shared,) = parallel.in_parallel([loop(x, one), add(x, y, two)], held, {}, [])
    assert not shared.apart


@pytest.mark.parametrize("sizes", [(5000, 3, 70_001), (1, 2, 100_000), (1025,) * 40, (64, 9, 9000)])
def test_arrays_of_several_sizes_are_cut_into_the_same_bits(sizes):
    arrays = [numbers(n, seed=i) for i, n in enumerate(sizes)]
    code = assert_same_bits(lambda *xs: tuple(x * 3 - 1 for x in xs), *arrays)
    assert code.text.count("call void @pool_run") == 1


def test_arrays_with_rows_are_cut_into_the_same_bits():
    x, y = numbers(301, 203), numbers(7, 9000, seed=1)
    assert_same_bits(lambda x, y: (x.sum(axis=1) * 2, y * 3, y.T - 1), x, y)


def test_small_loops_stay_with_the_caller(monkeypatch):
    monkeypatch.setattr(parallel, "FEWEST_BYTES", 1 << 23)
    x, one = views(100, 100)
    steps = [loop(x, one), NumpyLoop(np.exp, (x,), one)]
    assert parallel.in_parallel(steps, {x.buffer, one.buffer}, {}, []) == steps


def test_without_a_pool_there_is_the_same_code_as_before(monkeypatch):
    monkeypatch.setattr("trainkit.compiler.llvm.entry.thread_pool", lambda: None)
    code = assert_same_bits(lambda x: x * 2 + 1, numbers(5000))
    assert "pool_run" not in code.text
