"""Rows picked and added up by a GPU's kernels beside what NumPy does."""

import ml_dtypes
import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from tests.stand_in import cuda_on_cpu
from trainkit.kernels.indexing import rows_gpu
from trainkit.kernels.threads import pools
from trainkit.ops.indexing.scattering import scatter_max, scatter_min, scatter_multiply

pytestmark = pytest.mark.skipif(
    not cuda_on_cpu.has_compiler(), reason="no g++ for this machine is here"
)

DTYPES = ["int8", "int32", "uint64", "float16", "bfloat16", "float32", "float64", "complex64"]
MANY = rows_gpu.FEW + 500


@pytest.fixture
def determined():
    pools.determine()
    yield
    pools.determine(False)


def numbers(rng, shape, dtype):
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if kind.kind in "iu":
        return rng.integers(0, 100, shape).astype(kind)
    x = rng.normal(size=shape).astype(kind)
    return x + 1j * rng.normal(size=shape).astype(np.float32) if kind.kind == "c" else x


def on_both(f, *arrays):
    found = []
    for name in ("/cpu:0", "/gpu:0"):
        with tk.device(name):
            found.append(f(*map(tk.constant, arrays)).numpy())
    return found


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("dtype", [*DTYPES, "bool", "complex128"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("index", ["int32", "int64", "uint8"])
def test_take_picks_what_it_picks_on_the_cpu(rng, dtype, axis, index):
    x = numbers(rng, (5, 6, 7), dtype) if dtype != "bool" else rng.normal(size=(5, 6, 7)) > 0
    low = 0 if index == "uint8" else -5
    where = rng.integers(low, 5, (2, 3)).astype(index)
    here, there = on_both(lambda x, i: tk.ops.take(x, i, axis), x, where)
    np.testing.assert_array_equal(there, here)


@pytest.mark.usefixtures("any_gpu")
def test_positions_outside_pick_zeros_and_add_nothing():
    x = tk.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tk.GradientTape() as tape:
        y = tk.ops.take(x, [1, -2, 2, -3], 0)
        z = tk.gather_nd(x, [[1, -1], [2, 0], [1, 0]])
        total = tk.reduce_sum(y) + tk.reduce_sum(z)
    assert y.numpy().tolist() == [[3, 4], [1, 2], [0, 0], [0, 0]]
    assert z.numpy().tolist() == [0, 0, 3]
    assert tape.gradient(total, x).numpy().tolist() == [[1, 1], [2, 1]]


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_gather_nd_and_its_gradient(rng, depth, index):
    x = numbers(rng, (4, 5, 6), "float32")
    where = rng.integers(-4, 4, (3, 7, depth)).astype(index)

    def f(x, i):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.ops.gather_nd(x, i)  # which counts from the end, too
            loss = tk.reduce_sum(y * y)
        return tk.concat([tk.reshape(y, (-1,)), tk.reshape(tape.gradient(loss, x), (-1,))], 0)

    here, there = on_both(f, x, where)
    np.testing.assert_allclose(there, here, rtol=1e-6)


@pytest.mark.usefixtures("any_gpu", "determined")
@pytest.mark.parametrize("count", [0, 1, 40, MANY])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_in_order_have_the_bits_of_numpy(rng, dtype, count):
    rows, where = numbers(rng, (count, 3), dtype), rng.integers(0, 7, count)
    x = numbers(rng, (7, 3), dtype)
    wide = np.float32 if rows.itemsize == 2 and rows.dtype.kind != "i" else rows.dtype
    wanted = x.astype(wide)
    np.add.at(wanted, where, rows.astype(wide))
    found = tk.tensor_scatter_nd_add(tk.constant(x), tk.constant(where[:, None]), tk.constant(rows))
    np.testing.assert_array_equal(found.numpy(), wanted.astype(x.dtype))


SCATTERS = {
    "update": lambda *given: tk.ops.scatter_update(*given),
    "max": lambda *given: scatter_max(*given),
    "min": lambda *given: scatter_min(*given),
    "multiply": lambda *given: scatter_multiply(*given),
}


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("count", [0, 1, 40, MANY])
@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
@pytest.mark.parametrize("name", SCATTERS)
def test_scattering_takes_rows_in_as_the_cpu_does(rng, name, dtype, count):
    x, rows = numbers(rng, (4, 5, 3), dtype), numbers(rng, (count, 3), dtype)
    where = np.stack([rng.integers(-4, 4, count), rng.integers(0, 5, count)], -1)
    if name == "multiply" and dtype != "int32":
        rows = np.sign(rows) * np.exp2(np.rint(rows)).astype(dtype)  # whose products don't overflow
    here, there = on_both(SCATTERS[name], x, where, rows)
    np.testing.assert_array_equal(there, here)


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_positions_of_tensorflows_names_count_from_the_start_alone(index):
    x, rows = tk.ones((2, 2)), tk.constant([[5.0, 5.0], [6.0, 6.0], [7.0, 7.0]])
    lowest = np.iinfo(index).min
    where = tk.constant(np.array([[1], [-1], [lowest]], index))
    assert tk.tensor_scatter_nd_update(x, where, rows).numpy().tolist() == [[1, 1], [5, 5]]
    assert tk.tensor_scatter_nd_add(x, where, rows).numpy().tolist() == [[1, 1], [6, 6]]
    assert tk.gather_nd(x, where).numpy().tolist() == [[1, 1], [0, 0], [0, 0]]


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("name", SCATTERS)
def test_scattering_waits_for_nothing_and_leaves_out_what_is_outside(name):
    x, where = tk.ones((2, 2)), tk.constant([[0], [2], [-3]])
    with stand_in.transfers.noted() as ledger:
        y = SCATTERS[name](x, where, tk.fill((3, 2), 5.0))
    assert [ledger.to_host, ledger.to_device, ledger.waits] == [[], [], []]
    assert y.numpy().tolist() == [[1 if name == "min" else 5] * 2, [1, 1]]


def gradients(rng, count):
    """Functions whose gradients add up where positions repeat, and what they take."""
    ids = rng.integers(0, 9, count).astype(np.int32)
    table = numbers(rng, (9, 5), "float32")
    some = numbers(rng, (count, 5), "float32")
    return {
        "embedding": (lambda t: tk.nn.embedding_lookup(t, ids) * some, table),
        "take": (lambda t: tk.gather(t, ids) * some, table),
        "gather_nd": (lambda t: tk.gather_nd(t, ids[:, None]) * some, table),
        "get_item": (lambda t: t[tk.constant(ids)] * some, table),
        "take_along_axis": (
            lambda t: tk.ops.take_along_axis(t, np.tile(ids[:, None], 5), 0) * some,
            table,
        ),
    }


@pytest.mark.usefixtures("any_gpu", "determined")
@pytest.mark.parametrize("count", [300, MANY])
@pytest.mark.parametrize("name", sorted(gradients(np.random.default_rng(0), 1)))
def test_gradients_of_repeated_positions_have_the_bits_of_the_cpu(rng, name, count):
    f, table = gradients(rng, count)[name]

    def gradient(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    here, there = on_both(gradient, table)
    np.testing.assert_array_equal(there, here)


@pytest.mark.usefixtures("any_gpu", "determined")
def test_segments_are_summed_in_order(rng):
    data, ids = numbers(rng, (MANY, 4), "float32"), np.sort(rng.integers(0, 6, MANY))
    here, there = on_both(lambda x, i: tk.math.unsorted_segment_sum(x, i, 6), data, ids)
    np.testing.assert_array_equal(there, here)


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize(
    ("count", "is_determined", "names"),
    [
        (40, False, ["add_few"]),
        (MANY, False, ["sums_in_any_order"]),
        (MANY, True, ["sorted_tiles", "add_runs"]),
    ],
)
def test_few_rows_are_always_summed_in_order(rng, kernel_names, count, is_determined, names):
    table = tk.Variable(numbers(rng, (50, 8), "float32"))
    ids = tk.constant(rng.integers(0, 50, count))
    with tk.GradientTape() as tape:
        y = tk.nn.embedding_lookup(table, ids)
    assert kernel_names == ["picked_rows"]
    kernel_names.clear()
    pools.determine(is_determined)
    try:
        with stand_in.transfers.noted() as ledger:
            grad = tape.gradient(y, table)
    finally:
        pools.determine(False)
    assert kernel_names == names
    assert [ledger.to_host, ledger.to_device, ledger.waits] == [[], [], []]
    wanted = np.repeat(np.bincount(ids.numpy(), minlength=50)[:, None], 8, 1)
    np.testing.assert_array_equal(tk.convert_to_tensor(grad).numpy(), wanted)


@pytest.mark.parametrize("order", ["forward", "backward"])
def test_weights_are_counted_in_order(rng, order, determined):
    x, weights = rng.integers(0, 6, MANY), numbers(rng, (MANY,), "float32")
    with stand_in.in_place(), getattr(cuda_on_cpu, order)():
        found = tk.ops.bincount(tk.constant(x), weights=tk.constant(weights)).numpy()
    wanted = np.bincount(x, weights.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.usefixtures("any_gpu", "determined")
def test_what_has_no_ordered_sum_is_refused(rng, monkeypatch):
    monkeypatch.setattr("trainkit.kernels.cuda.raw_kernel.RawKernel.is_there", lambda *_: False)
    x, where = tk.zeros((3, 2)), tk.constant([[0], [0]])
    with pytest.raises(tk.errors.UnimplementedError, match="float32 can't be added up in order"):
        tk.tensor_scatter_nd_add(x, where, tk.ones((2, 2)))


@pytest.mark.usefixtures("any_gpu")
def test_positions_and_their_gradients_are_captured(rng):
    table = tk.Variable(numbers(rng, (9, 5), "float32"))

    @tk.function
    def f(ids):
        with tk.GradientTape() as tape:
            y = tk.nn.embedding_lookup(table, ids) + tk.gather_nd(table, ids[:, None])
            loss = tk.reduce_sum(y * y)
        return tk.convert_to_tensor(tape.gradient(loss, table))

    for _ in range(5):
        ids = rng.integers(0, 9, 20)
        wanted = 8 * table.numpy() * np.bincount(ids, minlength=9)[:, None]
        np.testing.assert_allclose(f(tk.constant(ids)).numpy(), wanted, rtol=1e-5)
    assert "replays of 1 CUDA graph" in f.explain(), f.explain()


@pytest.mark.parametrize("order", ["forward", "backward"])
def test_no_sum_depends_on_the_order_of_threads(rng, order, determined):
    rows, where = numbers(rng, (MANY, 3), "float32"), rng.integers(0, 7, MANY)
    wanted = np.zeros((7, 3), np.float32)
    np.add.at(wanted, where, rows)
    with stand_in.in_place(), getattr(cuda_on_cpu, order)():
        given = map(tk.constant, (np.zeros((7, 3), np.float32), where[:, None], rows))
        np.testing.assert_array_equal(tk.tensor_scatter_nd_add(*given).numpy(), wanted)
