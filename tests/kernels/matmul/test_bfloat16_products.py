"""Products of bfloat16, against sums of float64 of the same numbers."""

import os
import subprocess
import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import trainkit as tk
from tests.kernels.matmul.half_products import assert_is_product, matrix_of
from trainkit.cli import kernels as kernels_command
from trainkit.core.cpu.processor import processor_facts
from trainkit.core.errors import ShapeError
from trainkit.kernels.jit import bfloat16_pairs, target
from trainkit.kernels.matmul import half_columns_tuned, half_product_tuned, product_tuned
from trainkit.ops.neural.dense import dense, dense_gradient

pytestmark = pytest.mark.usefixtures("on_cpu", "eager")

BF16 = np.dtype(ml_dtypes.bfloat16)
SIZES = [
    (1, 1, 1),
    (16, 32, 16),
    (48, 96, 33),
    (3, 5, 7),
    (13, 33, 31),
    (14, 32, 32),
    (128, 64, 48),
    (33, 600, 130),
    (5, 2000, 64),
    (257, 1031, 200),
    (27, 2051, 333),  # more than a block along the sum, and one number that is left
]
WAYS = {
    "tiles": bfloat16_pairs.has_bfloat16_tiles,
    "pairs": lambda: "avx512_bf16" in processor_facts()[1] and target.vector_lanes() == 16,
    "float32": lambda: True,
}


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """Products as processors with AMX-BF16, with AVX512-BF16 and with neither make them."""
    if not WAYS[request.param]():
        pytest.skip(f"this processor multiplies no {request.param} of bfloat16")
    monkeypatch.setattr(bfloat16_pairs, "has_bfloat16_pairs", lambda: request.param != "float32")
    monkeypatch.setattr(bfloat16_pairs, "has_bfloat16_tiles", lambda: request.param == "tiles")
    return request.param


@pytest.mark.parametrize("second", ["rows", "columns", "part"])
@pytest.mark.parametrize("first", ["rows", "columns", "part"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products_of_all_layouts(way, rng, monkeypatch, size, first, second):
    module = sys.modules["trainkit.ops.linear_algebra.matmul"]
    monkeypatch.setattr(module, "_matmul", lambda *a: pytest.fail("a product by BLAS"))
    rows, depth, columns = size
    x, w = matrix_of(rng, rows, depth, first, BF16), matrix_of(rng, depth, columns, second, BF16)
    y = half_product_tuned.product(x, w)
    assert_is_product(y, x, w)
    np.testing.assert_array_equal(tk.matmul(x, w).numpy(), y)
    wide = half_product_tuned.product(x, w, dtype=np.dtype(np.float32))
    np.testing.assert_array_equal(wide.astype(BF16), y)  # each sum is rounded once


def test_rows_that_are_turned_round_repeated_or_read_only(way, rng):
    x, w = matrix_of(rng, 70, 64, "rows", BF16), matrix_of(rng, 64, 40, "rows", BF16)
    w.flags.writeable = False
    for view in (x[::-1], x[:, ::-1], x[::2, ::2].repeat(2, 1), np.broadcast_to(x[:1], x.shape)):
        assert_is_product(half_product_tuned.product(view, w), view, w)
    column = np.broadcast_to(w[:, :1], w.shape)
    assert_is_product(half_product_tuned.product(x, column), x, column)


def test_bias_and_rectifier_are_the_kernels(way, rng):
    x, w = matrix_of(rng, 70, 65, "rows", BF16), matrix_of(rng, 65, 40, "rows", BF16)
    bias = rng.normal(size=80).astype(BF16)[::2]  # with gaps
    y = half_product_tuned.product(x, w, bias)
    assert_is_product(y, x, w, bias.astype("float64"))
    rectified = half_product_tuned.product(x, w, bias, True)
    np.testing.assert_array_equal(rectified, np.maximum(y, 0))
    assert not np.signbit(rectified.astype("float32")).any()
    np.testing.assert_array_equal(dense(x, w, bias, "relu").numpy(), rectified)


def test_nan_and_inf_stay_in_their_rows_and_columns(way, rng):
    x, w = matrix_of(rng, 64, 201, "rows", BF16), matrix_of(rng, 201, 120, "columns", BF16)
    x[7, 3], x[60, 200], w[50, 119] = np.nan, np.inf, -np.inf
    y = half_product_tuned.product(x, w).astype("float32")
    with np.errstate(invalid="ignore"):
        expected = x.astype("float32") @ w.astype("float32")
    np.testing.assert_array_equal(np.isnan(y), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(y), np.isinf(expected))
    rectified = half_product_tuned.product(x, w, None, True).astype("float32")
    np.testing.assert_array_equal(np.isnan(rectified), np.isnan(expected))
    assert np.nanmax(rectified) == np.inf
    assert np.nanmin(rectified) == 0


def test_rounding_is_to_the_nearest_and_of_two_to_the_even_one(way):
    one = np.ones((1, 2), BF16)
    cases = [(256, 1, 256), (258, 1, 260), (256, 1.5, 258), (-258, -1, -260), (3e38, 3e38, np.inf)]
    w = np.array([[a for a, _, _ in cases], [b for _, b, _ in cases]]).astype(BF16)
    y = half_product_tuned.product(one, w)
    np.testing.assert_array_equal(y[0].astype("float64"), [r for _, _, r in cases])


@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_the_bits_do_not_depend_on_the_blocks_or_on_threads(way, rng, monkeypatch, layout):
    x, w = matrix_of(rng, 300, 2100, layout, BF16), matrix_of(rng, 2100, 250, layout, BF16)
    whole = half_product_tuned.product(x, w)
    for threads in (1, 3, 64):
        pool = SimpleNamespace(most=threads, run_address=0)
        monkeypatch.setattr(product_tuned, "thread_pool", lambda pool=pool: pool)
        np.testing.assert_array_equal(half_product_tuned.product(x, w), whole)
    for height, width in [(14, 32), (140, 64)]:
        cut = height, width, -(-300 // height) * -(-250 // width)
        monkeypatch.setattr(product_tuned, "block_sizes", lambda *_, cut=cut: cut)
        np.testing.assert_array_equal(half_product_tuned.product(x, w), whole)


STACKS = [
    ((6, 96, 40), (6, 40, 64)),
    ((3, 4, 70, 33), (3, 4, 33, 90)),
    ((3, 1, 70, 33), (1, 4, 33, 90)),
    ((70, 330), (4, 330, 90)),
    ((2, 7, 30), (30, 5)),
    ((2, 2, 2, 64, 64), (2, 2, 2, 64, 64)),
    ((5, 1, 1), (5, 1, 1)),
]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("first", "second"), STACKS, ids=str)
def test_stacks_of_products(way, rng, first, second, turned):
    x, w = (rng.normal(size=shape).astype(BF16) for shape in (first, second))
    if turned:
        x, w = (np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2) for a in (x, w))
    y = half_product_tuned.product_of(x, w)
    assert_is_product(y, x, w)
    np.testing.assert_array_equal(tk.matmul(x, w).numpy(), y)


def test_a_product_of_a_stack_has_the_bits_of_one_alone(way, rng):
    x, w = rng.normal(size=(5, 200, 130)).astype(BF16), rng.normal(size=(5, 130, 96)).astype(BF16)
    stack = half_product_tuned.stacked_product(x, w)
    for one, a, b in zip(stack, x, w, strict=True):
        np.testing.assert_array_equal(half_product_tuned.product(a, b), one)


@pytest.mark.parametrize(
    ("first", "second"),
    [((0, 5), (5, 3)), ((4, 0), (0, 3)), ((2, 0, 5), (2, 5, 3)), ((4,), (4, 3))],
)
def test_products_without_elements_and_of_vectors(way, first, second):
    x, w = np.ones(first, BF16), np.ones(second, BF16)
    expected = np.matmul(x.astype("float32"), w.astype("float32"))
    y = tk.matmul(x, w)
    assert (y.dtype.name, tuple(y.shape)) == ("bfloat16", expected.shape)
    np.testing.assert_array_equal(y.numpy().astype("float32"), expected)


def test_shapes_that_do_not_fit_are_named(way):
    with pytest.raises(ShapeError, match="64"):
        tk.matmul(np.ones((3, 64), BF16), np.ones((65, 3), BF16))
    with pytest.raises(ShapeError, match="64"):
        dense(np.ones((3, 64), BF16), np.ones((65, 3), BF16))
    with pytest.raises(ShapeError, match="broadcast"):
        tk.matmul(np.ones((2, 3, 4), BF16), np.ones((5, 4, 3), BF16))


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint16"])
def test_other_types_are_not_for_the_kernel(dtype):
    x = np.ones((64, 64), dtype)
    assert half_product_tuned.product(x, x) is None
    assert half_product_tuned.product_of(x, x.astype(BF16)) is None


@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("shape", [(1, 7), (37, 70), (3, 20, 70)])
def test_gradients_of_a_dense_layer(way, rng, monkeypatch, shape, activation):
    module = sys.modules["trainkit.ops.neural.dense"]
    monkeypatch.setattr(module, "widen_halves", lambda *a: pytest.fail("a pass to make it float32"))
    w, bias = rng.normal(size=(shape[-1], 45)).astype(BF16), rng.normal(size=45).astype(BF16)
    x, g = rng.normal(size=shape).astype(BF16), rng.normal(size=(*shape[:-1], 45)).astype(BF16)
    variables = [tk.Variable(v) for v in (x, w, bias)]

    def gradients(factors):
        with tk.GradientTape() as tape:
            y = dense(*variables, activation)
            loss = tk.reduce_sum(tk.cast(y * factors, "float32"))
        return y, *tape.gradient(loss, variables)

    y, by_x, by_w, by_bias = (v.numpy() for v in gradients(tk.constant(g)))
    for eager, traced in zip((y, by_x, by_w, by_bias), tk.function(gradients)(g), strict=True):
        np.testing.assert_array_equal(traced.numpy(), eager)
    g = np.where(y > 0, g, 0).astype(BF16) if activation else g
    flat = g.reshape(-1, 45)
    assert_is_product(by_x, g, w.T)
    assert_is_product(by_w, x.reshape(-1, shape[-1]).T, flat)
    assert_is_product(by_bias[None], np.ones((1, len(flat)), BF16), flat)


def test_gradients_that_nobody_asks_for_are_not_made(way, rng):
    x, w, g = (rng.normal(size=s).astype(BF16) for s in ((20, 30), (30, 40), (20, 40)))
    for use in [(True, False, False), (False, True, True), (False, False, True)]:
        parts = dense_gradient(g, g, x, w, activation=None, wanted=use)
        assert [tuple(part.shape) for part in parts] == [
            shape
            for shape, is_used in zip(((20, 30), (30, 40), (40,)), use, strict=True)
            if is_used
        ]


def test_sums_of_columns_are_divided_for_no_threads(rng, monkeypatch):
    g, y = (rng.normal(size=(501, 37)).astype(BF16) for _ in range(2))
    usual = half_columns_tuned.rectified_gradient(g, y)
    monkeypatch.setattr(half_columns_tuned, "shared", lambda _: (0, 5))
    for a, b in zip(half_columns_tuned.rectified_gradient(g, y), usual, strict=True):
        np.testing.assert_array_equal(a, b)
    y[3], y[4], g[5] = np.nan, -0.0, np.nan
    result, sums = half_columns_tuned.rectified_gradient(g, y)
    is_positive = y.astype("float32") > 0
    np.testing.assert_array_equal(
        result.astype("float32"), np.where(is_positive, g, 0).astype("float32")
    )
    assert np.isnan(sums.astype("float32")).sum() == is_positive[5].sum()


def test_without_kernels_products_are_those_of_float32(kernels, rng):
    x, w = matrix_of(rng, 64, 128, "rows", BF16), matrix_of(rng, 128, 40, "rows", BF16)
    kernels("off")
    assert half_product_tuned.product(x, w) is None
    expected = (x.astype("float32") @ w.astype("float32")).astype(BF16)
    np.testing.assert_array_equal(tk.matmul(x, w).numpy(), expected)


HERE = "avx512_bf16" in processor_facts()[1] and target.vector_lanes() == 16


@pytest.mark.parametrize("vendor", ["GenuineIntel 6 143", "AuthenticAMD 26 2"])
def test_what_the_system_grants_decides_about_tiles(monkeypatch, vendor):
    flags = vendor, frozenset({"avx512f", "avx512_bf16", "amx_tile", "amx_bf16"})
    monkeypatch.setattr(bfloat16_pairs, "processor_facts", lambda: flags)
    monkeypatch.setattr(target, "vector_lanes", lambda: 16)
    monkeypatch.setattr(target, "features", lambda: frozenset({"avx512f"}))
    monkeypatch.setattr(bfloat16_pairs.platform, "system", lambda: "Linux")
    for name in ("TRAINKIT_BFLOAT16", *bfloat16_pairs._CHOICES):
        monkeypatch.delenv(name, raising=False)
    asked = []

    def library(answer):
        return SimpleNamespace(syscall=lambda *a: asked.append(a) or answer)

    ask = bfloat16_pairs._may_use_tiles.__wrapped__
    for answer in (0, -1):
        monkeypatch.setattr(bfloat16_pairs.ctypes, "CDLL", lambda _, a=answer: library(a))
        may_use = ask()
        assert may_use == (answer == 0)
        monkeypatch.setattr(bfloat16_pairs, "_may_use_tiles", lambda may_use=may_use: may_use)
        # Intel's pairs alone are slower than float32
        pays = may_use or "AMD" in vendor
        assert bfloat16_pairs.has_bfloat16_pairs.__wrapped__() == pays
    assert asked == [(158, 0x1023, 18)] * 2


CHOICES = {
    "variable": ({"TRAINKIT_BFLOAT16": "0"}, "False False"),
    "pairs alone": ({"TRAINKIT_BFLOAT16": "pairs"}, f"{HERE} False"),
    "features": ({"NUMBA_CPU_FEATURES": "+avx512f,+avx512bf16"}, "True False"),
    "no features": ({"NUMBA_CPU_FEATURES": "+avx512f"}, "False False"),
    "shorter vectors": ({"NUMBA_CPU_FEATURES": "+avx,+avx512bf16"}, "False False"),
}


@pytest.mark.parametrize(("variables", "expected"), CHOICES.values(), ids=CHOICES)
def test_what_decides_whether_there_are_pairs_and_tiles(variables, expected):
    text = (
        "from trainkit.kernels.jit.bfloat16_pairs import has_bfloat16_pairs, has_bfloat16_tiles; "
        "print(has_bfloat16_pairs(), has_bfloat16_tiles())"
    )
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == expected, done.stderr


@pytest.mark.parametrize(("lanes", "count"), [(16, 8), (8, 4), (4, 4)])
def test_a_library_has_code_for_pairs_where_vectors_can_have_them(monkeypatch, lanes, count):
    monkeypatch.setattr(target, "vector_lanes", lambda: lanes)
    kernels = [
        kernel for kernel in kernels_command.usual_kernels() if "half_product_compiled" in kernel[0]
    ]
    assert len(kernels) == count
    builders = {kernel[1] for kernel in kernels}
    assert ("pair_product" in builders) == ("tile_product" in builders) == (lanes == 16)
