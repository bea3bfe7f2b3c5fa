"""The driver itself: CuPy is over it, the books are right, and a capture refuses what CUDA does."""

import numpy as np
import pytest

from tests.null_driver.counting import counted


def test_cupy_finds_one_gpu(cupy):
    assert cupy.cuda.runtime.getDeviceCount() == 1
    assert cupy.cuda.Device().compute_capability == "90"


def test_a_kernel_is_counted_by_its_name(cupy):
    x = cupy.ones(3, np.float32)
    with counted() as counts:
        x + x
        x + x
    assert counts.names == {"cupy_add__float32_float32_float32": 2}
    assert (counts.launches, counts.to_device, counts.to_host, counts.waits) == (2, 0, 0, 0)


def test_copies_are_counted_by_their_way(cupy):
    host = np.arange(4.0)
    with counted() as counts:
        x = cupy.asarray(host)
    assert (counts.to_device, counts.to_host, counts.on_device) == (1, 0, 0)
    y = cupy.empty_like(x)
    with counted() as counts:
        y[...] = x
    assert (counts.to_device, counts.to_host, counts.on_device) == (0, 0, 1)
    with counted() as counts:
        back = y.get()
    assert (counts.to_device, counts.to_host, counts.on_device) == (0, 1, 0)
    np.testing.assert_array_equal(back, host)


def test_waits_are_counted(cupy):
    event = cupy.cuda.Event()
    with counted() as counts:
        cupy.cuda.get_current_stream().synchronize()
        cupy.cuda.Device().synchronize()
        event.record()
        event.synchronize()
    assert counts.waits == 3


def test_products_are_counted_as_calls_of_a_library(cupy):
    x = cupy.ones((4, 5), np.float32)
    with counted() as counts:
        x @ x.T
    assert (counts.launches, counts.library) == (0, 1)


def test_a_capture_is_counted_apart_and_launched_as_one(cupy):
    x = cupy.ones(3, np.float32)
    stream = cupy.cuda.Stream(non_blocking=True)
    with counted() as counts:
        with stream:
            stream.begin_capture()
            x + x
            graph = stream.end_capture()
        graph.launch()
    assert (counts.launches, counts.captured, counts.graphs) == (0, 1, 1)
    assert counts.captured_names == {"cupy_add__float32_float32_float32": 1}


@pytest.fixture
def capturing(cupy):
    """A stream that captures and is the current one."""
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        yield stream
        end(cupy, stream)


def end(cupy, stream):
    try:
        return stream.end_capture()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return error.status


REFUSED = {
    "stream": lambda cupy, stream: stream.synchronize(),
    "device": lambda cupy, stream: cupy.cuda.Device().synchronize(),
    "copy to the device": lambda cupy, stream: cupy.asarray(np.ones(3)),
    "copy to the host": lambda cupy, stream: cupy.ones(3).get(),
    "sort": lambda cupy, stream: cupy.sort(cupy.empty(7)),
    "nine arrays": lambda cupy, stream: cupy.concatenate([cupy.empty(2) for _ in range(9)]),
    "product of cuBLAS": lambda cupy, stream: cupy.empty((2, 3)) @ cupy.empty((3, 2)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_capture_refuses(cupy, capturing, name):
    with pytest.raises((RuntimeError, NotImplementedError)):
        REFUSED[name](cupy, capturing)


def test_a_wait_breaks_a_capture(cupy, capturing):
    with pytest.raises(RuntimeError, match="StreamCaptureUnsupported"):
        capturing.synchronize()
    assert end(cupy, capturing) == 901


def test_the_legacy_stream_is_closed_while_an_ordered_stream_captures(cupy):
    x, stream = cupy.ones(3), cupy.cuda.Stream()
    with stream:
        stream.begin_capture()
    with cupy.cuda.Stream.null, pytest.raises(RuntimeError, match="906"):
        x + x
    assert end(cupy, stream) == 901


def test_another_stream_joins_a_capture_and_has_to_come_back(cupy):
    x = cupy.ones(3)
    first, second = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    for comes_back in (True, False):
        with first:
            first.begin_capture()
            fork = first.record()
        with second:
            second.wait_event(fork)
            x + x
            join = second.record()
        if comes_back:
            first.wait_event(join)
            assert end(cupy, first).__class__.__name__ == "Graph"
        else:
            assert end(cupy, first) == 904


def test_a_kernel_that_is_not_in_the_module_is_not_found(cupy):
    module = cupy.RawModule(code='extern "C" __global__ void there() {}')
    module.get_function("there")((1,), (1,), ())
    with pytest.raises(RuntimeError, match="500"):
        module.get_function("elsewhere")


def test_a_launch_larger_than_cuda_takes_is_refused(cupy):
    kernel = cupy.RawKernel('extern "C" __global__ void wide() {}', "wide")
    with pytest.raises(RuntimeError, match="CUDA_ERROR_1"):
        kernel((1,), (2048,), ())
