"""Special functions against the standard library, identities, and stored values."""

import math

import numpy as np
import pytest

from trainkit import ops

X = np.concatenate([np.linspace(-6.5, 6.5, 261), 10.0 ** np.linspace(-9, 0, 19)])


@pytest.mark.parametrize(
    ("op", "function", "values"),
    [
        (ops.erf, math.erf, X),
        (ops.erfc, math.erfc, np.linspace(-6, 26, 400)),
        (ops.lgamma, math.lgamma, np.linspace(-4.9, 60, 331)),
    ],
)
def test_double_agrees_with_the_standard_library(op, function, values):
    want = np.array([function(v) for v in values])
    np.testing.assert_allclose(
        op(values).numpy(), want, rtol=1e-13, atol=1e-13 if op is ops.lgamma else 0
    )


def test_single_erf_stays_in_range_and_close():
    y = ops.erf(X.astype("float32")).numpy()
    want = np.array([math.erf(v) for v in X.astype("float32")])
    np.testing.assert_allclose(y, want, rtol=5e-7)
    assert np.abs(y).max() <= 1


def test_erfc_keeps_its_tail():
    assert float(ops.erfc(10.0)) == pytest.approx(math.erfc(10), rel=1e-6)
    assert float(ops.erfc(np.float64(25))) == pytest.approx(math.erfc(25), rel=1e-12)


def test_inverses_undo():
    y = np.linspace(-0.999, 0.999, 101)
    np.testing.assert_allclose(ops.erf(ops.erfinv(y)).numpy(), y, rtol=1e-13, atol=1e-15)
    small = 10.0 ** np.linspace(-200, -1, 50)
    np.testing.assert_allclose(ops.erfc(ops.erfcinv(small)).numpy(), small, rtol=1e-11)
    np.testing.assert_allclose(
        ops.ndtri(np.array([0.5, 0.975])).numpy(), [0, 1.959963984540054], atol=1e-14
    )


def test_inverses_at_and_beyond_their_ends():
    np.testing.assert_array_equal(ops.erfinv([-1.0, 1.0, 1.5]).numpy(), [-np.inf, np.inf, np.nan])
    np.testing.assert_array_equal(ops.erfcinv([0.0, 2.0]).numpy(), [np.inf, -np.inf])
    np.testing.assert_array_equal(ops.ndtri([0.0, 1.0, -1.0]).numpy(), [-np.inf, np.inf, np.nan])


def test_digamma_and_its_derivatives():
    euler = 0.5772156649015329
    np.testing.assert_allclose(
        ops.digamma(np.array([1.0, 2.0, 0.5, -0.5])).numpy(),
        [-euler, 1 - euler, -euler - 2 * math.log(2), 0.03648997397857652],
        rtol=1e-12,
    )
    np.testing.assert_allclose(ops.polygamma(np.float64(1), np.float64(1)).numpy(), math.pi**2 / 6)
    np.testing.assert_allclose(ops.zeta(np.float64(4), np.float64(1)).numpy(), math.pi**4 / 90)
    assert np.isnan(ops.digamma(0.0).numpy())
    assert np.isnan(ops.polygamma(0.5, 1.0).numpy())
    assert ops.zeta(1.0, 1.0).numpy() == np.inf


def test_bessel_functions_against_their_integral():
    # I_n(x) is the mean of exp(x cos t) cos(n t) over a circle.
    t = np.linspace(0, 2 * math.pi, 400, endpoint=False)
    x = np.linspace(-30, 30, 61)
    waves = np.exp(x[:, None] * np.cos(t))
    np.testing.assert_allclose(ops.i0(x).numpy(), waves.mean(1), rtol=1e-12)
    np.testing.assert_allclose(
        ops.i1(x).numpy(), (waves * np.cos(t)).mean(1), rtol=1e-11, atol=1e-12
    )
    np.testing.assert_allclose(ops.i0e(x).numpy(), waves.mean(1) * np.exp(-abs(x)), rtol=1e-12)
    assert np.isfinite(ops.i1e(1e4).numpy())


def test_cumulative_logsumexp():
    x = np.array([0.5, -1.0, 800.0, 2.0])
    want = np.logaddexp.accumulate(x)
    np.testing.assert_allclose(ops.cumulative_logsumexp(x).numpy(), want)
    np.testing.assert_allclose(
        ops.cumulative_logsumexp(x, exclusive=True).numpy(), [-np.inf, *want[:-1]]
    )
    np.testing.assert_allclose(
        ops.cumulative_logsumexp(x, reverse=True).numpy(), np.logaddexp.accumulate(x[::-1])[::-1]
    )


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(9,), (1,), (0,), (3, 0), (5, 3), (5, 300), (2, 3, 400)])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumulative_logsumexp_goes_on_from_the_last_sum(rng, dtype, shape, reverse):
    x = rng.normal(size=shape) * 3
    x.reshape(-1)[:4] = [-np.inf, -0.0, 1e-30, -np.inf][: x.size]
    x.reshape(-1)[7:9] = [np.inf, np.nan][: max(x.size - 7, 0)]
    x = ops.cast(x, dtype)
    for axis in range(len(shape)):
        sums = ops.cumulative_logsumexp(x, axis, reverse=reverse)
        rows = np.moveaxis(x.numpy(), axis, 0)
        for i in range(1, len(rows)):
            with np.errstate(invalid="ignore"):
                pair = [sums_of(sums, axis, i, reverse), rows[-1 - i if reverse else i]]
                expected = np.logaddexp(*pair).astype("float64")
            np.testing.assert_array_equal(
                sums_of(sums, axis, i + 1, reverse).astype("float64"), expected
            )


def sums_of(sums, axis, count, reverse):
    """The sums of `count` slices, from the end if `reverse`."""
    return np.moveaxis(sums.numpy(), axis, 0)[-count if reverse else count - 1]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("size", [3, 500])
def test_erfc_has_its_limits_at_the_infinities(dtype, size):
    x = ops.cast(np.resize([np.inf, -np.inf, np.nan], size), dtype)
    want = np.resize([0.0, 2.0, np.nan], size)
    np.testing.assert_array_equal(ops.cast(ops.erfc(x), "float32").numpy(), want)
