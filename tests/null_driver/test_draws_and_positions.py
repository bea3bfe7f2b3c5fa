"""Draws, sorted rows and rows by position: NVRTC takes the texts, and a call launches few."""

import numpy as np
import pytest

import trainkit as tk
from tests.kernels.cuda.every_kernel import FAMILIES, raw_kernels
from tests.null_driver.counting import counted
from trainkit.kernels.indexing.rows_gpu import FEW
from trainkit.kernels.threads import pools

SOURCE = tk.keras.random.SeedGenerator(1)
MANY = FEW + 1


@pytest.mark.parametrize("family", FAMILIES, ids=lambda m: m.__name__.rpartition(".")[2])
def test_the_compiler_takes_every_text(cupy, family):
    for kernel in raw_kernels(family):
        assert kernel.is_there(cupy), kernel.name


def ones(*shape, dtype="float32"):
    return tk.constant(np.ones(shape, dtype))


def table_gradient(count):
    ids, table = ones(count, dtype="int32"), tk.Variable(ones(50, 8))

    def call():
        with tk.GradientTape() as tape:
            y = tk.nn.embedding_lookup(table, ids)
        return tape.gradient(y, table)

    return call


ONES = ones(3, 1)
X, ROWS, IMAGE = ones(4, 300), ones(3, 1, dtype="int32"), ones(1, 5, 5, 2)
LONG, UPDATES = ones(4096), ones(3, 300)
ALPHA, LOW, HIGH = ones(100), ones(dtype="int32"), tk.constant(9)
CALLS = {
    "gamma": (lambda: tk.keras.random.gamma((100,), ALPHA, seed=SOURCE), 7),
    "poisson": (lambda: tk.random.poisson((4,), ALPHA, seed=SOURCE), 10),
    "binomial": (lambda: tk.keras.random.binomial((100,), ALPHA, ALPHA, seed=SOURCE), 10),
    "counts": (lambda: tk.math.bincount(ROWS, minlength=4, maxlength=4), 2),
    "sums": (lambda: tk.math.bincount(ROWS, ONES, minlength=4, maxlength=4), 4),
    "histogram": (lambda: tk.histogram_fixed_width(X, [0.0, 2.0], 5), 12),
    "randint": (lambda: tk.keras.random.randint((100,), LOW, HIGH, seed=SOURCE), 3),
    "uniform": (lambda: SOURCE.uniform((100,)), 1),
    "bfloat16": (lambda: tk.keras.random.uniform((9,), dtype="bfloat16", seed=SOURCE), 1),
    "normal": (lambda: SOURCE.normal((100,)), 3),
    "truncated": (lambda: SOURCE.truncated_normal((100,)), 7),
    "dropout": (lambda: tk.keras.random.dropout(X, 0.5, seed=SOURCE), 2),
    "sort": (lambda: tk.ops.sort(X), 2),
    "argsort": (lambda: tk.ops.argsort(X), 1),
    "top_k": (lambda: tk.ops.top_k(X, 5), 3),
    "long rows": (lambda: tk.ops.argsort(LONG), 2),
    "gather": (lambda: tk.gather(X, ROWS), 1),
    "gather_nd": (lambda: tk.gather_nd(X, ROWS), 3),  # one finds the positions below 0
    "scatter": (lambda: tk.tensor_scatter_nd_update(X, ROWS, UPDATES), 4),
    "few rows": (table_gradient(40), 3),
    "many rows": (table_gradient(MANY), 3),
    "pooling": (lambda: tk.nn.avg_pool2d(IMAGE, 3, 1, "SAME"), 1),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_launches_few_and_neither_copies_nor_waits(name):
    call, most = CALLS[name]
    call()
    with counted() as counts:
        call()
    assert (counts.to_device, counts.to_host, counts.waits) == (0, 0, 0)
    assert counts.launches <= most, dict(counts.names)


@pytest.mark.parametrize("weights", [None, ONES], ids=["counts", "sums"])
def test_counts_of_any_length_wait_once(weights):
    tk.ops.bincount(ROWS, weights)
    with counted() as counts:
        tk.ops.bincount(ROWS, weights)
    assert (counts.to_device, counts.to_host, counts.waits) == (0, 1, 1)


def test_many_rows_in_order_are_sorted_first():
    call = table_gradient(MANY)
    pools.determine()
    try:
        call()
        with counted() as counts:
            call()
    finally:
        pools.determine(False)
    assert (counts.to_device, counts.to_host, counts.waits) == (0, 0, 0)
    assert {"sorted_tiles", "add_runs"} <= set(counts.names)
    assert "sums_in_any_order" not in counts.names


@pytest.mark.parametrize("name", CALLS)
def test_a_function_with_it_becomes_a_graph(name):
    call, x = CALLS[name][0], ones(2)
    f = tk.function(lambda x: (x * 2, call()))
    for _ in range(6):
        f(x)
    assert "1 CUDA graph" in f.explain(), f.explain()
