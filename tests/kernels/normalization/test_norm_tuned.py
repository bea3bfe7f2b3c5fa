"""Compiled normalization against the plain one."""

import itertools
import zlib

import ml_dtypes
import numpy as np
import pytest

import trainkit as tk
from trainkit.kernels.normalization import norm_reference, norm_tuned
from trainkit.kernels.threads.thread_pool import VECTOR_SHARES

SHORT = [ml_dtypes.bfloat16, np.float16]


def vectors(rng, count, features, present=True):
    return [rng.normal(size=features).astype("float32") if present else None for _ in range(count)]


@pytest.mark.parametrize("present", [True, False])
@pytest.mark.parametrize(("shape", "axis"), [((7, 20), (1,)), ((3, 5, 4, 6), (2, 3))])
def test_rows_equal_the_plain_version(eager, rng, shape, axis, present):
    x, g = (3 + rng.normal(size=(2, *shape))).astype("float32")
    inner = tuple(shape[a] for a in axis)
    scale, offset = vectors(rng, 2, int(np.prod(inner)), present)
    shaped = [None if v is None else v.reshape(inner) for v in (scale, offset)]
    y = norm_tuned.normalized_rows(x, *shaped, axis, 0.01)
    expected = norm_reference.normalized(np, x, *shaped, axis, 0.01)[0]
    np.testing.assert_allclose(y, expected, atol=1e-5)
    found = norm_tuned.normalized_rows_gradient(g, x, shaped[0], axis, 0.01)
    result, product = norm_reference.normalized_gradient(
        np, g, x, shaped[0], None, None, axis, 0.01
    )
    outer = tuple(i for i in range(len(shape)) if i not in axis)
    for a, b in zip(found, (result, product.sum(outer), g.sum(outer)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


@pytest.mark.parametrize("present", [True, False])
def test_columns_equal_the_plain_version(eager, rng, present):
    x, g = (100 + rng.normal(size=(2, 6, 5, 7, 12))).astype("float32")
    scale, offset, by_mean, by_variance = vectors(rng, 4, 12, present)
    outer = (0, 1, 2)
    found = norm_tuned.normalized_columns(x, scale, offset, (3,), 0.01)
    expected = norm_reference.normalized(np, x, scale, offset, outer, 0.01)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.ravel(), b.ravel(), rtol=1e-4, atol=1e-4)
    g -= 100
    found = norm_tuned.normalized_columns_gradient(g, x, scale, by_mean, by_variance, (3,), 0.01)
    result, product = norm_reference.normalized_gradient(
        np, g, x, scale, by_mean, by_variance, outer, 0.01
    )
    for a, b in zip(found, (result, product.sum(outer), g.sum(outer)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def test_other_axes_and_dtypes_are_left_to_the_plain_version(eager, rng):
    x = rng.normal(size=(4, 5, 6)).astype("float32")
    assert norm_tuned.normalized_rows(x, None, None, (1,), 0.01) is None
    assert norm_tuned.normalized_rows(x.astype("float64"), None, None, (2,), 0.01) is None
    assert norm_tuned.normalized_columns(x, None, None, (1,), 0.01) is None


@pytest.mark.parametrize("present", [True, False])
@pytest.mark.parametrize("short", SHORT)
def test_columns_of_16_bits_are_computed_in_float32_and_rounded_once(eager, rng, present, short):
    x, g = (100 + 5 * rng.normal(size=(2, 6, 5, 7, 33))).astype(short)
    wide_x, wide_g = x.astype("float32"), g.astype("float32")
    scale, offset, by_mean, by_variance = vectors(rng, 4, 33, present)
    results = norm_tuned.normalized_columns(x, scale, offset, (3,), 0.01)
    expected = norm_tuned.normalized_columns(wide_x, scale, offset, (3,), 0.01)
    # moments have the dtype of the scale, which may be a longer one
    dtypes = [x.dtype] + [np.dtype("float32") if present else x.dtype] * 2
    for a, b, dtype in zip(results, expected, dtypes, strict=True):
        assert a.dtype == dtype
        np.testing.assert_array_equal(a.astype("float32"), b.astype(dtype).astype("float32"))
    operands = scale, by_mean, by_variance, (3,), 0.01
    results = norm_tuned.normalized_columns_gradient(g, x, *operands)
    expected = norm_tuned.normalized_columns_gradient(wide_g, wide_x, *operands)
    for a, b, dtype in zip(results, expected, dtypes, strict=True):
        assert a.dtype == dtype
        np.testing.assert_array_equal(a.astype("float32"), b.astype(dtype).astype("float32"))
    assert norm_tuned.normalized_columns_gradient(wide_g, x, *operands) is None


def _numbers(*shape, step):
    """Numbers of float32 that no generator of NumPy's is asked for."""
    count = int(np.prod(shape))
    return ((np.arange(count) * step % 251 - 120) / 37).astype("float32").reshape(shape)


# of sums by 16 workers, with what stands between the passes in calls of NumPy
COLUMN_BITS = {1: 2844037327, 2: 2820354016, 7: 801983360, 33: 1094879832}


@pytest.mark.parametrize("features", COLUMN_BITS)
def test_columns_have_the_bits_of_earlier_versions(eager, features):
    """So a run that goes on after an update is the one that was never stopped."""
    x, g = _numbers(50, features, step=13) + 3, _numbers(50, features, step=29)
    scale, offset, by_mean, by_variance = _numbers(4, features, step=7)
    y, mean, variance = norm_tuned.normalized_columns(x, scale, offset, (1,), 1e-3)
    bits = zlib.crc32(b"".join(a.tobytes() for a in (y, mean, variance)))
    rectifiers = norm_tuned.NONE, norm_tuned.RELU, norm_tuned.RELU6
    for rectifier, moments in itertools.product(rectifiers, [(mean, variance), None]):
        vectors = scale, by_mean, by_variance
        gradients = norm_tuned.normalized_columns_gradient(
            g, x, *vectors, (1,), 1e-3, moments, offset, rectifier
        )
        bits = zlib.crc32(b"".join(a.tobytes() for a in gradients), bits)
    assert bits == COLUMN_BITS[features]


@pytest.mark.parametrize("short", SHORT)
@pytest.mark.parametrize("rectifier", [norm_tuned.RELU, norm_tuned.RELU6], ids=["relu", "relu6"])
def test_what_is_rectified_has_the_bits_of_the_operation(eager, rng, rectifier, short):
    """float16 keeps a zero below 0, to which small numbers are rounded, too."""
    x, g = (rng.normal(size=(2, 301, 40)) * 3).astype(short)
    x[:150] *= short(2**-7)
    x[:9] = np.array([0, -0.0, 1])[:, None].repeat(3, 0)
    scale, offset = np.ones((2, 40), "float32")
    scale[::2], offset[:] = -(2.0**-26), 0
    along = (1,), 1e-3
    y, *moments = norm_tuned.normalized_columns(x, scale, offset, *along)
    z, *_ = norm_tuned.normalized_columns(x, scale, offset, *along, rectifier)
    op = tk.nn.relu if rectifier is norm_tuned.RELU else tk.nn.relu6
    expected = op(tk.constant(y)).numpy()
    np.testing.assert_array_equal(z.view(np.uint16), expected.view(np.uint16))
    if short is np.float16:
        assert (z.view(np.uint16) == 0x8000).any()
    with tk.GradientTape() as tape:
        passed = tk.constant(y)
        tape.watch(passed)
        rectified = op(passed)
    behind = tape.gradient(rectified, passed, tk.constant(g)).numpy()
    operands = scale, None, None, *along, moments, offset
    joined = norm_tuned.normalized_columns_gradient(g, x, *operands, rectifier)
    plain = norm_tuned.normalized_columns_gradient(behind, x, *operands)
    for a, b in zip(joined, plain, strict=True):
        np.testing.assert_array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"))


def test_float16_is_left_alone_where_no_instruction_converts_it(eager, rng, monkeypatch):
    monkeypatch.setattr(norm_tuned.target, "converts_float16", lambda: False)
    x = rng.normal(size=(40, 16)).astype("float16")
    assert norm_tuned.normalized_columns(x, None, None, (1,), 1e-3) is None
    assert norm_tuned.normalized_columns_gradient(x, x, None, None, None, (1,), 1e-3) is None
    assert norm_tuned.columns_are_compiled()


@pytest.mark.parametrize("short", SHORT)
def test_columns_of_16_bits_near_the_exact_ones(eager, rng, short):
    x = (3 + rng.normal(size=(500, 17))).astype(short)
    x[0, 0], x[1, 1] = np.nan, np.inf
    y, mean, _ = norm_tuned.normalized_columns(x, None, None, (1,), 1e-3)
    exact, centre, _ = norm_reference.normalized(
        np, x.astype("float64")[:, 2:], None, None, (0,), 1e-3
    )
    np.testing.assert_allclose(y.astype("float64")[:, 2:], exact, rtol=2**-8, atol=2e-6)
    np.testing.assert_allclose(mean.astype("float64")[2:], centre[0], rtol=2**-8)
    assert np.isnan(y.astype("float32")[:, :2]).all()


@pytest.mark.parametrize("shape", [(67, 3), (4099, 29), (803, 300), (4101, 257)])
@pytest.mark.parametrize("rectifier", [norm_tuned.NONE, norm_tuned.RELU, norm_tuned.RELU6])
def test_gradients_of_columns_are_summed_row_by_row_in_shares(eager, rng, shape, rectifier):
    """However many rows are read at a time, of few columns or of many."""
    x, g = (rng.normal(size=shape).astype("float32") * 3 for _ in range(2))
    scale, offset = vectors(rng, 2, shape[1])
    y, mean, variance = norm_tuned.normalized_columns(x, scale, offset, (1,), 1e-3, rectifier)
    _, _, by_offset = norm_tuned.normalized_columns_gradient(
        g, x, scale, None, None, (1,), 1e-3, (mean, variance), offset, rectifier
    )
    passed = g if rectifier.kind == 0 else np.where((y > 0) & (y < rectifier.high), g, 0)
    workers = VECTOR_SHARES
    bounds = [shape[0] * worker // workers for worker in range(workers + 1)]
    shares = [passed[a:b].cumsum(axis=0)[-1] for a, b in itertools.pairwise(bounds)]
    np.testing.assert_array_equal(by_offset, np.cumsum(shares, axis=0)[-1])
