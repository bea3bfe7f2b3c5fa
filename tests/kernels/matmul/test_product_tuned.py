"""Products of float32 in blocks, against sums of float64."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.errors import ShapeError
from trainkit.kernels.jit import target
from trainkit.kernels.jit.register_tiles import BLOCK_DEPTH
from trainkit.kernels.matmul import product_tuned
from trainkit.kernels.threads import thread_pool
from trainkit.ops.linear_algebra.matmul import tuned_product
from trainkit.ops.neural.dense import dense

pytestmark = pytest.mark.usefixtures("on_cpu")

RECTIFIED = [(3, 200), (23, 200), (24, 33), (61, 200), (300, 8), (300, 33)]
SIZES = [
    (128, 64, 48),
    (33, 600, 130),
    (5, 2000, 64),
    (700, 30, 60),
    (257, 1030, 200),
    (2000, 64, 10),
    (23, 120, 300),  # weights are read where they lie
    (24, 120, 300),
    (27, 513, 333),  # tiles of all kinds, and one number that is left
    (45, 512, 160),
    (16, 784, 256),  # rows that tiles of other heights would cover in vain
    (30, 1030, 95),
    (400, 60, 48),  # one vector of columns is left
    (63, 600, 10),
]


def of_layout(rng, rows, columns, layout, dtype="float32"):
    """A matrix that lies by rows, by columns, or is a part of another."""
    if layout == "part":
        return rng.normal(size=(rows + 3, columns + 5)).astype(dtype)[2:-1, 4:-1]
    made = rng.normal(size=(rows, columns) if layout == "rows" else (columns, rows))
    return made.astype(dtype) if layout == "rows" else made.astype(dtype).T


def assert_is_product(found, x, w):
    """Within what the order of additions may change."""
    exact = x.astype("float64") @ w.astype("float64")
    bound = np.abs(x).astype("float64") @ np.abs(w).astype("float64")
    assert found.dtype == x.dtype
    assert found.shape == exact.shape
    half = 2.0**-24 if x.dtype == np.float32 else 2.0**-52  # `exact` has errors of its own
    assert (np.abs(found - exact) <= bound * x.shape[1] * half).all()


@pytest.mark.parametrize("second", ["rows", "columns", "part"])
@pytest.mark.parametrize("first", ["rows", "columns", "part"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_of_all_layouts(eager, rng, dtype, size, first, second):
    rows, depth, columns = size
    x = of_layout(rng, rows, depth, first, dtype)
    w = of_layout(rng, depth, columns, second, dtype)
    found = product_tuned.product(x, w)
    assert_is_product(found, x, w)
    np.testing.assert_array_equal(tk.matmul(x, w), found)
    np.testing.assert_array_equal(tuned_product(x, w), found)


@pytest.mark.parametrize("depth", [15, 16, 17, 513])
@pytest.mark.parametrize("rows", [14, 15, 27, 29, 45, 520])
def test_rows_and_columns_of_numbers_have_the_same_bits(eager, rng, rows, depth):
    x = np.full((rows + 2, depth + 2), np.nan, np.float32)  # what lies around is not multiplied
    x[1:-1, 1:-1] = rng.normal(size=(rows, depth))
    x = x[1:-1, 1:-1]
    w = rng.normal(size=(depth, 1500)).astype("float32")
    product = product_tuned.product(x, w)
    assert_is_product(product, x, w)
    for layout in (np.ascontiguousarray(x), np.ascontiguousarray(x.T).T):
        np.testing.assert_array_equal(product_tuned.product(layout, w), product)


def test_rows_that_are_turned_round_repeated_or_read_only(eager, rng):
    x = rng.normal(size=(256, 64)).astype("float32")
    w = rng.normal(size=(64, 64)).astype("float32")
    w.flags.writeable = False
    for given in (x[::-1], x[:, ::-1], x[::-1, ::2].repeat(2, 1), np.broadcast_to(x[:1], x.shape)):
        inner = np.broadcast_to(w[:1], w.shape) if given is x else w
        assert_is_product(product_tuned.product(given, inner), given, inner)


@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_the_bits_do_not_depend_on_the_blocks(eager, rng, monkeypatch, layout):
    x, w = of_layout(rng, 300, 1100, "rows"), of_layout(rng, 1100, 250, layout)
    whole = product_tuned.product(x, w)
    tall, vectors, lanes = product_tuned.block_tiling()
    for down, beside in [(1, 1), (tall, vectors * lanes), (10 * tall, 2 * vectors * lanes)]:
        height, width = (300, 250) if down == 1 else (down, beside)
        blocks = -(-300 // height) * -(-250 // width)
        cut = height, width, blocks
        monkeypatch.setattr(product_tuned, "block_sizes", lambda *_, cut=cut: cut)
        np.testing.assert_array_equal(product_tuned.product(x, w), whole)


def test_the_bits_do_not_depend_on_who_helps(eager, rng, monkeypatch):
    x, w = of_layout(rng, 400, 300, "rows"), of_layout(rng, 300, 256, "rows")
    together = product_tuned.product(x, w)
    monkeypatch.setattr(product_tuned, "thread_pool", lambda: None)
    np.testing.assert_array_equal(product_tuned.product(x, w), together)
    assert thread_pool.thread_pool() is None or product_tuned.block_sizes(400, 300, 256, 2)[2] > 1


@pytest.mark.parametrize("threads", [1, 3, 64])
def test_nor_on_how_many_there_are(eager, rng, monkeypatch, threads):
    pairs = [(of_layout(rng, 400, 500, "rows"), of_layout(rng, 500, 256, "rows"))]
    pairs += [tuple(rng.normal(size=(20, 150, 150)).astype("float32") for _ in range(2))]
    usual = [product_tuned.product_of(*pair) for pair in pairs]
    pool = SimpleNamespace(most=threads, run_address=0)
    monkeypatch.setattr(product_tuned, "thread_pool", lambda: pool)
    for pair, expected in zip(pairs, usual, strict=True):
        np.testing.assert_array_equal(product_tuned.product_of(*pair), expected)


def test_a_large_product_has_blocks_for_all_threads():
    blocks = [product_tuned.block_sizes(2000, 2000, 2000, n)[2] for n in (1, 4, 16, 64)]
    assert blocks == sorted(blocks)
    assert blocks[0] <= 16 <= blocks[1] <= 32  # of one thread: what its second cache asks for
    assert blocks[2] >= 32
    assert blocks[3] >= 128
    assert product_tuned.block_sizes(100, 100, 100, 64)[2] == 1  # too little to be shared


@pytest.mark.parametrize("sizes", [(2048, 512, 512), (512, 2048, 512), (512, 2048, 2048)])
def test_blocks_leave_two_threads_as_much_to_do(sizes):
    (rows, depth, columns), threads = sizes, 2
    height, width, blocks = product_tuned.block_sizes(rows, depth, columns, threads)
    across = -(-columns // width)
    shares = [0] * threads
    for block in range(blocks):
        top, left = block // across * height, block % across * width
        least = shares.index(min(shares))
        shares[least] += min(height, rows - top) * min(width, columns - left)
    assert max(shares) <= 1.06 * rows * columns / threads


def test_what_fits_the_second_cache_is_one_block_of_a_thread():
    rows = product_tuned.cache_bytes(2) // 4 // 512
    assert product_tuned.block_sizes(rows, 2048, 2048, 1) == (*_whole(rows, 2048), 1)


def test_blocks_leave_room_for_their_results():
    cache, tall = product_tuned.cache_bytes(2), product_tuned.block_tiling()[0]
    height, _, blocks = product_tuned.block_sizes(3136, 64, 256, 1)
    assert height % tall == 0
    assert height * 4 * (64 + 2 * 256) <= 2 * cache
    assert -(-3136 // height) == blocks > 1


def _whole(rows, columns):
    tall, vectors, lanes = product_tuned.block_tiling()
    return tall * -(-rows // tall), vectors * lanes * -(-columns // (vectors * lanes))


def test_nan_and_inf_stay_in_their_rows_and_columns(eager, rng):
    x, w = of_layout(rng, 64, 200, "rows"), of_layout(rng, 200, 120, "columns")
    x[7, 3], x[60, 199], w[50, 119] = np.nan, np.inf, -np.inf
    found = product_tuned.product(x, w)
    with np.errstate(invalid="ignore"):
        expected = x @ w
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))
    assert np.isfinite(found[8, :119]).all()


@pytest.mark.parametrize(
    ("x", "w"),
    [
        ((64, 64), (64, 64)),  # OpenBLAS takes one thread for it
        ((5000, 64), (64, 7)),  # most of a vector would be empty
        ((1 << 19,), (1 << 19, 1)),
        ((100, 100), (101, 100)),
        ((0, 1000), (1000, 1000)),
    ],
)
def test_what_is_left_to_blas(eager, x, w):
    assert product_tuned.product(np.ones(x, "float32"), np.ones(w, "float32")) is None


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", ">f4"])
def test_other_dtypes_are_left_to_blas(eager, dtype):
    x = np.ones((200, 200), dtype)
    assert product_tuned.product(x, np.ones((200, 200), "float32")) is None
    assert product_tuned.product(np.ones((200, 200), "float32"), x) is None


def test_sizes_that_differ_are_refused_as_ever(eager):
    with pytest.raises(ShapeError, match="300"):
        tk.matmul(np.ones((300, 300), "float32"), np.ones((301, 300), "float32"))


@pytest.mark.parametrize("shape", [(96, 200), (4, 24, 200)])
@pytest.mark.parametrize("activation", [None, "relu"])
def test_dense_layers(kernels, rng, shape, activation):
    x = rng.normal(size=shape).astype("float32")
    w, bias = rng.normal(size=(200, 120)).astype("float32"), np.ones(120, "float32")

    def both():
        given, weights = tk.constant(x), tk.Variable(w)
        with tk.GradientTape() as tape:
            tape.watch(given)
            y = dense(given, weights, bias, activation)
        return [y, *tape.gradient(y, [given, weights])]

    kernels("off")
    plain = both()
    kernels("eager")
    for found, expected in zip(both(), plain, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert product_tuned.PRODUCT.find((), 0.0) is not None


@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("shape", [(96, 200), (4, 24, 200)])
def test_bias_and_rectifier_of_a_dense_layer_are_the_kernels(
    eager, rng, monkeypatch, shape, activation
):
    x = rng.normal(size=shape).astype("float32")
    w, bias = (rng.normal(size=d).astype("float32") for d in ((200, 120), (240,)))
    bias = bias[::2]  # with gaps
    expected = x @ w + bias
    expected = np.maximum(expected, 0) if activation else expected
    module = sys.modules["trainkit.ops.neural.dense"]
    monkeypatch.setattr(module, "finished", lambda *a: pytest.fail("a pass by one core"))
    y = dense(tk.constant(x), w, bias, activation)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
    turned = np.ascontiguousarray(np.moveaxis(x, -1, 0))
    again = dense(tk.constant(np.moveaxis(turned, 0, -1)), w, bias, activation)
    np.testing.assert_array_equal(again, y)  # a layout changes no bit
    monkeypatch.undo()
    exact = dense(tk.constant(x.astype("float64")), w.astype("float64"), bias, activation)
    np.testing.assert_allclose(exact, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("rows", "columns", "depth"),
    [(61, 200, 40), (300, 200, 40), *((*sizes, BLOCK_DEPTH + 7) for sizes in RECTIFIED)],
)
def test_tiles_rectify_what_they_have_summed_and_nan_and_minus_zero_stay(
    eager, rng, rows, columns, depth
):
    x, w = rng.normal(size=(rows, depth)), rng.normal(size=(depth, columns))
    x, w, bias = (a.astype("float32") for a in (x, w, rng.normal(size=columns)))
    x[rows // 2, 0], x[-1] = np.nan, 0
    bias[:2] = -0.0, 0.0
    sums = product_tuned.product(x, w, bias)
    y = product_tuned.product(x, w, bias, rectify=True)
    assert y.tobytes() == np.where(sums < 0, np.float32(0), sums).tobytes()
    assert np.isnan(y[rows // 2]).all()
    assert (y[y == y] >= 0).all()
    assert (y == 0).any()


@pytest.mark.parametrize(("rows", "columns", "depth"), [(300, 200, 40), (61, 333, 519)])
def test_rows_laid_as_panels_change_no_bit(eager, rng, monkeypatch, rows, columns, depth):
    x, w = rng.normal(size=(rows, depth)), rng.normal(size=(depth, columns))
    x, w, bias = (a.astype("float32") for a in (x, w, rng.normal(size=columns)))
    stack = np.stack([x, 2 * x]), np.stack([w, w])
    results = []
    for panel_columns in (0, sys.maxsize):
        monkeypatch.setattr(product_tuned, "panel_columns", lambda n=panel_columns: n)
        products = [product_tuned.product(x, a) for a in (w, np.asfortranarray(w))]
        products.append(product_tuned.product(x, w, bias, rectify=True))
        products.append(product_tuned.stacked_product(*stack))
        results.append([y.tobytes() for y in products])
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("model", "lanes", "whole"),
    [
        ("AuthenticAMD 25 17", 16, False),
        ("AuthenticAMD 25 1", 8, True),
        ("AuthenticAMD 26 2", 16, True),
        ("GenuineIntel 6 207", 16, True),
        ("", 16, True),
    ],
)
def test_which_processors_multiply_vectors_in_halves(monkeypatch, model, lanes, whole):
    monkeypatch.setattr(target, "processor_facts", lambda: (model, frozenset()))
    monkeypatch.setattr(target, "vector_lanes", lambda: lanes)
    assert target.multiplies_whole_vectors() is whole


@pytest.mark.parametrize("rows", [20, 200])  # rectified by NumPy, and by the kernel
def test_a_rectified_dense_layer_sends_back_the_same_bits_eagerly_and_compiled(eager, rng, rows):
    x = tk.constant(rng.normal(size=(rows, 160)).astype("float32"))
    w, bias = tk.Variable(rng.normal(size=(160, 128)).astype("float32")), tk.Variable(tk.ones(128))
    factors = tk.constant(rng.normal(size=(rows, 128)).astype("float32"))

    def gradients(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            loss = tk.reduce_sum(dense(x, w, bias, "relu") * factors)
        return tape.gradient(loss, [x, w, bias])

    by_x, by_w, by_bias = (g.numpy() for g in gradients(x))
    for a, b in zip(tk.function(gradients)(x), (by_x, by_w, by_bias), strict=True):
        np.testing.assert_array_equal(a, b)
    passed = factors * (x.numpy() @ w.numpy() + 1 > 0)
    np.testing.assert_allclose(by_bias, passed.numpy().sum(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(by_w, x.numpy().T @ passed.numpy(), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(by_x, passed.numpy() @ w.numpy().T, rtol=1e-4, atol=1e-3)


def test_many_sizes(eager, rng):
    for _ in range(60):
        rows, depth, columns = (int(2.0 ** rng.uniform(3, 9)) for _ in range(3))
        first, second = rng.choice(["rows", "columns", "part"], 2)
        x, w = of_layout(rng, rows, depth, first), of_layout(rng, depth, columns, second)
        found = product_tuned.product(x, w)
        if found is not None:
            assert_is_product(found, x, w)
        height, width, blocks = product_tuned.block_sizes(
            rows, depth, columns, second != "columns", 2
        )
        assert blocks <= 32
        assert not blocks or -(-rows // height) * -(-columns // width) == blocks


STACKS = [
    ((6, 96, 40), (6, 40, 64)),
    ((3, 4, 70, 33), (3, 4, 33, 90)),
    ((3, 1, 70, 33), (1, 4, 33, 90)),
    ((70, 330), (4, 330, 90)),
    ((2, 2, 2, 64, 64), (2, 2, 2, 64, 64)),
    ((2, 300, 600), (2, 600, 300)),
    ((64, 24, 30), (64, 30, 24)),
]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("first", "second"), STACKS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_stacks_of_products(eager, rng, dtype, first, second, turned):
    x = rng.normal(size=first).astype(dtype)
    w = rng.normal(size=second).astype(dtype)
    if turned:
        w = np.ascontiguousarray(w.swapaxes(-1, -2)).swapaxes(-1, -2)
    found = product_tuned.product_of(x, w)
    assert found.flags.c_contiguous
    exact = np.matmul(x.astype("float64"), w.astype("float64"))
    bound = np.matmul(np.abs(x).astype("float64"), np.abs(w).astype("float64"))
    assert (found.dtype, found.shape) == (dtype, exact.shape)
    half = 2.0**-24 if dtype == "float32" else 2.0**-52
    assert (np.abs(found - exact) <= bound * x.shape[-1] * half).all()
    np.testing.assert_array_equal(tk.matmul(x, w), found)


def test_a_product_of_a_stack_has_the_bits_of_one_alone(eager, rng):
    x = rng.normal(size=(5, 200, 130)).astype("float32")
    w = rng.normal(size=(5, 130, 96)).astype("float32")
    found = product_tuned.stacked_product(x, w)
    for i in range(5):
        np.testing.assert_array_equal(found[i], product_tuned.product(x[i], w[i]))


def test_heads_that_lie_side_by_side_are_multiplied_where_they_lie(eager, rng):
    q, k = (rng.normal(size=(4, 64, 3, 32)).astype("float32") for _ in range(2))
    one, two = q.swapaxes(1, 2), k.transpose(0, 2, 3, 1)
    found = product_tuned.product_of(one, two)
    np.testing.assert_allclose(found, one.astype("float64") @ two, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("x", "w"),
    [
        ((500, 16, 16), (500, 16, 16)),  # small ones
        ((40, 200, 64), (40, 64, 7)),
        ((2, 200, 100), (3, 100, 100)),
        ((2, 200, 100), (2, 101, 100)),
        ((0, 200, 100), (0, 100, 100)),
        ((2, 1, 200, 100), (1 << 16,)),
    ],
)
def test_stacks_that_are_left_to_numpy(eager, x, w):
    assert product_tuned.product_of(np.ones(x, "float32"), np.ones(w, "float32")) is None


def test_stacks_of_other_dtypes_are_left_to_numpy(eager):
    x = np.ones((4, 100, 100), "float64")
    for dtype in ("float32", "float16", "int64", ">f8"):
        assert product_tuned.product_of(x.astype(dtype), x) is None
        assert product_tuned.product_of(x, x.astype(dtype)) is None


def test_gradients_of_stacks(kernels, rng):
    x = rng.normal(size=(4, 2, 96, 40)).astype("float32")
    w = rng.normal(size=(2, 40, 64)).astype("float32")

    weights = tk.Variable(w)

    def both():
        given = tk.constant(x)
        with tk.GradientTape() as tape:
            tape.watch(given)
            y = tk.matmul(given, weights)
            loss = tk.reduce_sum(y * y)
        return [y, *tape.gradient(loss, [given, weights])]

    kernels("off")
    plain = both()
    kernels("eager")
    for found, expected in zip([*both(), *tk.function(both)()], plain * 2, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-3)
    assert product_tuned.STACK._ready
