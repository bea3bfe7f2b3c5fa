"""The sizes of caches decide how work is cut, and on no bit of a result."""

import numpy as np
import pytest

from trainkit.core.cpu import processor
from trainkit.core.tensor import PRIMITIVES
from trainkit.kernels.convolution import conv_layout, depthwise_tuned
from trainkit.kernels.jit.target import vector_lanes
from trainkit.kernels.matmul import product_tuned
from trainkit.kernels.reductions import reductions_tuned

_PLANS = conv_layout.forward, conv_layout.backward, conv_layout.weights, product_tuned.block_sizes
_WHERE = {"strides": (1, 1), "padding": "same", "dilation_rate": (1, 1)}


@pytest.fixture
def cached(monkeypatch):
    """A function that sets the bytes of the first and the second cache."""

    def with_caches(first, second):
        for module in (conv_layout, depthwise_tuned, product_tuned, reductions_tuned):
            monkeypatch.setattr(module, "cache_bytes", {1: first, 2: second}.get)
        for plan in _PLANS:
            plan.cache_clear()

    yield with_caches
    monkeypatch.undo()
    for plan in _PLANS:
        plan.cache_clear()


def results(rng, channels, filters):
    """Convolutions, gradients, products and reductions of columns, by the compiled kernels."""
    x, g = (rng.normal(size=(5, 14, 14, n)).astype("float32") for n in (channels, filters))
    kernel = rng.normal(size=(3, 3, channels, filters)).astype("float32")
    wide = [rng.normal(size=(2, 9, 9, 10 * filters)).astype("float32") for _ in range(2)]
    a, b = (rng.normal(size=shape).astype("float32") for shape in ((300, 500), (500, 700)))

    def tuned(name, *arrays, **settings):
        return PRIMITIVES[name].facets.tuned.run(*arrays, **settings)

    return [
        tuned("conv", x, kernel, None, activation=None, **_WHERE),
        tuned("conv_input_gradient", g, kernel, x, **_WHERE),
        tuned("conv_kernel_gradient", x, g, kernel_size=(3, 3), groups=1, **_WHERE),
        tuned("conv_kernel_gradient", *wide, kernel_size=(5, 5), groups=10 * filters, **_WHERE),
        product_tuned.product(a, b),
        product_tuned.product(np.asfortranarray(a), b),
        reductions_tuned.axis_extreme("max", b, 0, False),
        reductions_tuned.running_sum(b, 0),
    ]


@pytest.mark.parametrize("filters", [24, 128])
@pytest.mark.parametrize("sizes", [(1 << 9, 1 << 12), (1 << 14, 1 << 17), (1 << 20, 1 << 26)])
def test_results_are_the_same_bits_whatever_the_caches(eager, cached, filters, sizes):
    cached(48 << 10, 1 << 20)
    wanted = results(np.random.default_rng(0), 70, filters)
    cached(*sizes)
    found = results(np.random.default_rng(0), 70, filters)
    for one, other in zip(found, wanted, strict=True):
        assert one is not None
        np.testing.assert_array_equal(one, other)


def filters_of_a_task(elements=9, filters=4096, parts=8, threads=2):
    """How many filters the gradient of a depthwise kernel takes at a time."""
    return vector_lanes() * depthwise_tuned._chunk(elements, filters, parts, threads)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 1), (1 << 10, 1 << 12)])
def test_a_depthwise_task_never_reads_few_filters_whatever_the_caches(cached, first, second):
    cached(first, second)
    assert filters_of_a_task(49) == 128


def test_a_depthwise_task_grows_with_the_second_cache_up_to_all_filters(cached):
    found = []
    for second in (256 << 10, 1 << 20, 4 << 20, 16 << 20):
        cached(32 << 10, second)
        found.append(filters_of_a_task(49, 4096))
    assert found == sorted(found)
    assert len(set(found)) > 2
    assert found[-1] == 4096
    assert filters_of_a_task(9, 64) == 128  # more than there are


def test_depthwise_tasks_are_enough_for_all_threads(cached):
    cached(32 << 10, 16 << 20)
    assert filters_of_a_task(parts=8, threads=32) == 1024
    assert filters_of_a_task(parts=1, threads=4) == 1024
    assert filters_of_a_task(parts=8, threads=4096) == 128


def test_without_the_systems_facts_a_depthwise_task_has_a_usual_size(monkeypatch):
    monkeypatch.setattr(processor, "_CACHES", "/no/such/folder")
    monkeypatch.setattr(depthwise_tuned, "cache_bytes", processor.cache_bytes.__wrapped__)
    usual = (512 << 10) // 2 // (4 * 49)
    assert usual - vector_lanes() < filters_of_a_task(49) <= usual


def columns_of_a_task(outer=1, inner=100_000, parts=8):
    return reductions_tuned._columns_each(outer, inner, parts)


def test_columns_of_a_task_fill_an_eighth_of_the_first_cache(cached):
    found = []
    for first in (0, 4 << 10, 16 << 10, 48 << 10, 128 << 10):
        cached(first, 1 << 20)
        found.append(columns_of_a_task())
    assert found == [256, 256, 512, 1536, 4096]


def test_tasks_of_columns_are_enough_for_all_threads(cached, monkeypatch):
    cached(48 << 10, 1 << 20)
    monkeypatch.setattr(reductions_tuned.pools, "compute_threads", lambda: 4)
    assert columns_of_a_task(inner=2000) == 500
    assert columns_of_a_task(inner=2000, parts=2) == 1000
    assert columns_of_a_task(inner=2000, parts=1) == 1536  # for the caller alone
    assert columns_of_a_task(inner=2000, outer=4) == 1536
    assert columns_of_a_task(inner=600) == 256
