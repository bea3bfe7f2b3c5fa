"""The stand-in captures as CUDA does: nothing is done, nothing is read, all is done at a launch."""

import gc

import numpy as np
import pytest

from tests import stand_in
from tests.stand_in import stream_log


@pytest.fixture
def cupy():
    with stand_in.in_place():
        import cupy

        yield cupy


class Captured:
    """A context in which the current stream captures, with memory of its own."""

    def __init__(self, cupy):
        self.stream, self.pool = cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool()
        self._pool = cupy.cuda.using_allocator(self.pool.malloc)

    def __enter__(self):
        self.stream.begin_capture()
        self.stream.__enter__()
        self._pool.__enter__()
        return self

    def __exit__(self, *error):
        self._pool.__exit__(None, None, None)
        self.stream.__exit__(None, None, None)
        if error[0] is None:
            self.graph = self.stream.end_capture()


def test_a_launch_does_what_was_captured(cupy):
    x, total = cupy.zeros(3), cupy.zeros(())
    with Captured(cupy) as run:
        y = cupy.exp(x) * 2 + cupy.asarray(np.float64(1))
        y[1:] += 1
        total[...] = y.sum()
    assert total.get() == 0
    for value in (0.0, 1.0):
        x.fill(value)
        run.graph.launch()
        expected = np.exp(value) * 2 + np.array([1, 2, 2])
        np.testing.assert_allclose(y.get(), expected)
        np.testing.assert_allclose(total.get(), expected.sum())


def test_nothing_is_known_of_values_while_capturing(cupy):
    x = cupy.ones(3)
    with Captured(cupy):
        y = x + 1
        x *= 3
        cupy.copyto(x, y)
    assert x.get().tolist() == [1, 1, 1]
    assert np.isnan(y.get()).all()


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda cupy, x: x.get(), "D2H transfers are disallowed"),
        (lambda cupy, x: float(x[0]), "D2H transfers are disallowed"),
        (lambda cupy, x: cupy.asarray(np.ones(3)), "H2D transfers are disallowed"),
        (lambda cupy, x: cupy.stack([x] * 9), "H2D transfers are disallowed"),
        (lambda cupy, x: x[x > 0], "cudaErrorStreamCaptureUnsupported"),
        (lambda cupy, x: cupy.nonzero(x), "cudaErrorStreamCaptureUnsupported"),
        (lambda cupy, x: cupy.argsort(x), "cudaErrorStreamCaptureUnsupported"),
        (lambda cupy, x: x.sort(), "cudaErrorStreamCaptureUnsupported"),
        (lambda cupy, x: cupy.cuda.Device().synchronize(), "cudaErrorStreamCaptureUnsupported"),
        (lambda cupy, x: cupy.matmul(x, x), "calling cuBLAS API during stream capture"),
        (lambda cupy, x: x @ x, "calling cuBLAS API during stream capture"),
        (lambda cupy, x: cupy.linalg.inv(x), "calling cuBLAS API during stream capture"),
    ],
)
def test_what_a_capture_refuses(cupy, use, text):
    x = cupy.ones((3, 3))
    run = Captured(cupy)
    with pytest.raises((RuntimeError, NotImplementedError), match=text), run:
        use(cupy, x)
    if "Unsupported" in text:
        with pytest.raises(RuntimeError, match="Invalidated"):
            run.stream.end_capture()


def test_sums_and_copies_of_few_arrays_are_no_calls_of_libraries(cupy):
    x = cupy.ones((3, 3))
    with Captured(cupy) as run:
        y = cupy.concatenate([x, x]).sum(axis=0) + cupy.matmul(x.astype(int), x.astype(int))[0]
    run.graph.launch()
    assert y.get().tolist() == [9, 9, 9]


def test_memory_of_a_capture_comes_from_its_pool(cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.begin_capture()
    with pytest.raises(AssertionError, match="from the default pool"), stream:
        cupy.zeros(3)


def test_memory_that_the_graph_works_in_has_to_stay(cupy):
    x, total = cupy.ones(3), cupy.zeros(())
    with Captured(cupy) as run:
        total[...] = x.sum()
    run.graph.launch()
    kept = x.data
    del x
    gc.collect()
    run.graph.launch()
    assert total.get() == 3
    del kept
    gc.collect()
    with pytest.raises(RuntimeError, match="cudaErrorIllegalAddress"):
        run.graph.launch()


def test_the_pool_has_to_stay(cupy):
    x, total = cupy.ones(3), cupy.zeros(())
    with Captured(cupy) as run:
        total[...] = (x + 1).sum()
    graph = run.graph
    graph.launch()
    del run
    gc.collect()
    with pytest.raises(RuntimeError, match="cudaErrorIllegalAddress"):
        graph.launch()


def test_an_array_on_memory_that_is_there(cupy):
    x = cupy.arange(6, dtype="float32")
    y = cupy.ndarray((2, 3), "float32", x.data)
    y[0] = 7
    assert x.get().tolist() == [7, 7, 7, 3, 4, 5]
    with pytest.raises(ValueError, match="larger than its memory"):
        cupy.ndarray((3, 3), "float32", x.data)


def test_only_a_stream_of_its_own_captures(cupy):
    with pytest.raises(RuntimeError, match="default"):
        cupy.cuda.get_current_stream().begin_capture()
    with pytest.raises(RuntimeError, match="Implicit"):
        cupy.cuda.Stream().begin_capture()


# ---------------------------------------------------------------------- the order of streams


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("second", ["reads", "writes"])
def test_a_write_and_another_use_have_to_be_in_order(cupy, second, waits):
    other, x = cupy.cuda.Stream(non_blocking=True), cupy.zeros(3)
    with stream_log.written() as log:
        x += 1
        if waits:
            other.wait_event(cupy.cuda.get_current_stream().record())
        with other:
            if second == "reads":
                x + 1
            else:
                x.fill(2)
    assert bool(log.races) != waits


def test_two_streams_may_read_at_the_same_time(cupy):
    other, x = cupy.cuda.Stream(non_blocking=True), cupy.zeros(3)
    with stream_log.written() as log:
        x + 1
        with other:
            x + 2
    assert log.races == []


def test_an_event_knows_what_came_before_it_alone(cupy):
    other, x, y = cupy.cuda.Stream(non_blocking=True), cupy.zeros(3), cupy.zeros(3)
    event = cupy.cuda.Event(disable_timing=True)
    with stream_log.written() as log:
        x += 1
        event.record()
        y += 1
        other.wait_event(event)
        with other:
            x + 1
        assert log.races == []
        with other:
            y + 1
    assert len(log.races) == 1


def test_what_one_stream_knows_of_another_it_hands_on(cupy):
    first, second = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    x = cupy.zeros(3)
    with stream_log.written() as log:
        with first:
            x += 1
        second.wait_event(first.record())
        cupy.cuda.get_current_stream().wait_event(second.record())
        x + 1
    assert log.races == []


def test_an_event_without_times_gives_none(cupy):
    events = [cupy.cuda.Event(disable_timing=disabled) for disabled in (False, True)]
    for event in events:
        event.record()
    with pytest.raises(RuntimeError, match="without times"):
        cupy.cuda.get_elapsed_time(*events)
