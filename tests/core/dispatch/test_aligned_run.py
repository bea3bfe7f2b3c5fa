"""Arrays that are made while a graph runs, and eager results, begin where a cache line does."""

import asyncio
import gc
import os
import threading
import tracemalloc

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.dispatch import native
from trainkit.graph.runtime import program

LINE = 64

pytestmark = pytest.mark.skipif(native.NATIVE is None, reason="there is no compiled half")


def run(function, *arguments):
    return native.aligned_run(function)(*arguments)


def allocator():
    return np._core.multiarray.get_handler_name()


def begins_at_a_line(array):
    return array.ctypes.data % LINE == 0


@pytest.mark.parametrize("make", [np.empty, np.zeros, np.ones])
@pytest.mark.parametrize("size", [0, 1, 3, 100, 5000, 100_003, 3_000_001])
def test_new_arrays_begin_at_a_line(make, size):
    arrays = run(lambda: [make(size, "float32") for _ in range(5)])
    assert all(map(begins_at_a_line, arrays))
    if make is not np.empty:
        assert all((array == make(1)).all() for array in arrays)


def test_results_and_arguments_are_those_of_the_function():
    assert run(lambda *xs: xs, 1, 2) == (1, 2)
    assert run(lambda: None) is None


def test_afterwards_numpy_allocates_as_before():
    assert run(allocator) == "trainkit_lines"
    assert allocator() == "default_allocator"

    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run(fail)
    assert allocator() == "default_allocator"


def test_one_inside_another_ends_with_the_outer_one():
    inside = native.aligned_run(allocator)
    assert run(lambda: (inside(), allocator())) == ("trainkit_lines", "trainkit_lines")
    assert allocator() == "default_allocator"


def test_other_threads_and_tasks_are_left_alone():
    names = []

    def other():
        thread = threading.Thread(target=lambda: names.append(allocator()))
        thread.start()
        thread.join()

    run(other)
    assert names == ["default_allocator"]

    async def task():
        first = run(allocator)
        await asyncio.sleep(0)
        return first, allocator()

    async def both():
        return await asyncio.gather(task(), task())

    assert asyncio.run(both()) == [("trainkit_lines", "default_allocator")] * 2


@pytest.mark.parametrize("sizes", [(4, 5000), (5000, 3), (100_000, 2_000_000), (10, 0), (0, 10)])
def test_an_array_that_changes_its_size_keeps_its_numbers(sizes):
    before, after = sizes
    array = run(np.arange, before)
    array.resize(after, refcheck=False)
    count = min(sizes)
    np.testing.assert_array_equal(array[:count], np.arange(count))
    assert not array[count:].any()
    assert begins_at_a_line(array)


def test_numbers_of_unknown_count_are_gathered():
    array = run(lambda: np.fromiter((i * i for i in range(10_001)), np.int64))
    np.testing.assert_array_equal(array, np.arange(10_001) ** 2)


def test_memory_that_can_not_be_had_is_an_error():
    with pytest.raises(MemoryError):
        run(np.empty, (1 << 62,), np.uint8)
    with pytest.raises(MemoryError):
        run(np.zeros, (1 << 62,), np.uint8)


def test_memory_is_counted_once_and_given_back():
    big = 10_000_000
    tracemalloc.start()
    try:
        arrays = run(lambda: [np.empty(big, np.uint8) for _ in range(3)])
        held = tracemalloc.get_traced_memory()[0]
        del arrays
        gc.collect()
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held - left == pytest.approx(3 * big, rel=0.01)


def test_arrays_live_on_in_a_child():
    array = run(np.arange, 10_000)
    child = os.fork()
    if child == 0:
        right = array.sum() == 49_995_000
        del array
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0


EAGER = {
    "one array": tk.exp,
    "two arrays": lambda x: x + x,
    "a number": lambda x: 2.0 * x,
    "a comparison": lambda x: x > 0.5,
    "rows and a row": lambda x: x - x[:1],
    "a formula": tk.nn.sigmoid,
    "a body": lambda x: tk.cast(x, "int32"),
    "a kernel": tk.nn.softmax,
    "two lists": lambda x: tk.stack([x, x]),
}


@pytest.mark.parametrize("call", EAGER.values(), ids=EAGER)
@pytest.mark.parametrize("size", [300, 700])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_large_results_of_eager_calls_begin_at_lines(call, size, is_transposed):
    x = tk.random.normal((size, size))
    results = [call(tk.transpose(x) if is_transposed else x)._array for _ in range(5)]
    assert all(map(begins_at_a_line, results))
    assert all(y.flags.owndata or y.base.flags.owndata for y in results)
    assert allocator() == "default_allocator"


@pytest.mark.parametrize("shape", [(3, 4), (0, 5), (1, 7), (90, 130), (300, 700)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_transposed_operands_have_the_bits_and_the_order_of_numpy(shape, dtype):
    generator = np.random.default_rng(2)
    a, b = (generator.random(shape).astype(dtype).T for _ in range(2))
    x, y = (tk.transpose(tk.constant(v.T)) for v in (a, b))
    number = np.dtype(dtype).type(0.3)
    for result, expected in [
        (tk.exp(x), np.exp(a)),
        (x + y, a + b),
        (x / tk.constant(b.copy()), a / b.copy()),
        (x**y, a**b),
        (x * 0.3, a * number),
        (0.3 - x, number - a),
        (x > 0.3, a > number),
        (x * tk.constant(number), a * number),
        (tk.sign(x), np.sign(a)),
    ]:
        array = result._array
        assert array.dtype == expected.dtype
        np.testing.assert_array_equal(array, expected, strict=True)
        assert array.strides == expected.strides


def test_memory_of_eager_results_is_counted_once_and_given_back():
    x = tk.zeros((1000, 1000))
    tracemalloc.start()
    try:
        results = [x + x for _ in range(3)]
        held = tracemalloc.get_traced_memory()[0]
        del results
        gc.collect()
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held - left == pytest.approx(3 * 4_000_000, rel=0.01)


@pytest.mark.parametrize("jit_compile", [None, True, False])
@pytest.mark.parametrize("size", [300, None])
def test_large_arrays_of_graphs_begin_at_lines(jit_compile, size):
    spec = [tk.TensorSpec([size, size], tk.float32)]
    places = []

    @tk.function(input_signature=spec, jit_compile=jit_compile)
    def f(x):
        y = tk.nn.softmax(tk.matmul(x, x) + 1.0)
        tk.numpy_function(lambda a: places.append(a.ctypes.data % LINE), [y], [])
        return y * 2.0

    x = tk.constant(np.random.default_rng(0).normal(size=(300, 300)).astype("float32"))
    for _ in range(3):
        result = f(x)
        assert begins_at_a_line(result._array)
    assert set(places) == {0}
    assert allocator() == "default_allocator"


def test_small_graphs_pay_nothing(monkeypatch):
    monkeypatch.setattr(program, "aligned_run", None)  # it would be called
    f = tk.function(lambda x: tk.matmul(x, x) + 1.0)
    assert f(tk.ones([3, 3])).numpy().tolist() == [[4.0] * 3] * 3


def test_without_the_compiled_half_the_function_runs_as_it_is(monkeypatch):
    monkeypatch.setattr(native, "NATIVE", None)
    assert native.aligned_run(np.empty) is np.empty


def test_bits_are_those_of_other_addresses():
    generator = np.random.default_rng(1)
    x = generator.normal(size=(130, 257)).astype("float32")

    def values(x):
        return [np.exp(x), x.sum(), x.sum(0), x.mean(1), np.tanh(x) @ x.T, x / (1 + x * x)]

    for one, other in zip(run(values, x), values(x), strict=True):
        np.testing.assert_array_equal(one, other)
