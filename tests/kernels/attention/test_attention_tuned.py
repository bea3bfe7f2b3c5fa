"""Compiled attention against the plain one."""

import numpy as np
import pytest

from trainkit.kernels.attention import attention_reference, attention_tuned


def given(rng, batch, targets, sources, heads, groups, size, wide):
    shapes = (
        (batch, targets, heads, wide),
        (batch, targets, heads, size),
        (batch, sources, groups, size),
        (batch, sources, groups, wide),
    )
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


SIZES = [
    (2, 64, 64, 4, 4, 32, 32),
    (1, 5, 7, 4, 2, 3, 5),
    (2, 70, 33, 6, 3, 20, 40),
    (3, 33, 100, 2, 1, 70, 17),
    (1, 1, 1, 1, 1, 1, 1),
]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", ["", "b1ts", "b11s", "1hts", "11t1", "1111"])
def test_result_and_gradients_equal_the_plain_version(eager, rng, sizes, causal, masked):
    arrays = given(rng, *sizes)
    known = dict(zip("btsh", sizes, strict=False)) | {"1": 1}
    mask = rng.random([known[name] for name in masked]) < 0.6 if masked else None
    settings = (mask, 0.3, causal)
    found = attention_tuned.attention(*arrays[1:], *settings)
    wide = [a.astype("float64") for a in arrays]
    expected = attention_reference.attention(np, *wide[1:], *settings)
    np.testing.assert_allclose(found, expected, atol=2e-5, rtol=1e-4)
    gradients = attention_tuned.attention_gradient(*arrays, *settings)
    expected = attention_reference.attention_gradient(np, *wide, *settings)
    for a, b in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5, rtol=1e-4)


def test_turned_arrays_are_taken(eager, rng):
    _, q, k, v = given(rng, 2, 9, 9, 2, 2, 4, 4)
    found = attention_tuned.attention(*map(np.asfortranarray, (q, k, v)), None, 0.5, False)
    expected = attention_tuned.attention(q, k, v, None, 0.5, False)
    np.testing.assert_array_equal(found, expected)


def test_a_query_that_sees_nothing_gets_zeros_and_nan_stays(eager, rng):
    g, q, k, v = given(rng, 1, 3, 4, 1, 1, 2, 2)
    mask = np.ones((1, 1, 3, 4), bool)
    mask[0, 0, 1] = False
    q[0, 2] = np.nan
    for tool in (attention_tuned.attention, lambda *a: attention_reference.attention(np, *a)):
        y = tool(q, k, v, mask, 1.0, False)
        assert np.isfinite(y[0, 0]).all()
        np.testing.assert_array_equal(y[0, 1], 0)
        assert np.isnan(y[0, 2]).all()
    for part in attention_tuned.attention_gradient(
        g[:, :2], q[:, :2], k, v, mask[:, :, :2], 1, False
    ):
        assert np.isfinite(part).all()


def test_the_same_bits_by_one_thread_and_by_several(eager, rng, monkeypatch):
    arrays = given(rng, 4, 100, 100, 4, 2, 32, 32)
    several = attention_tuned.attention_gradient(*arrays, None, 0.2, True)
    monkeypatch.setattr(attention_tuned, "shared", lambda work: (0, 1))
    for a, b in zip(
        several, attention_tuned.attention_gradient(*arrays, None, 0.2, True), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_other_dtypes_and_empty_arrays_are_left_to_the_plain_version(eager, rng):
    g, q, k, v = given(rng, 1, 3, 4, 1, 1, 2, 2)
    assert attention_tuned.attention(q.astype("float64"), k, v, None, 1.0, False) is None
    assert attention_tuned.attention(q[:0], k[:0], v[:0], None, 1.0, False) is None
    assert attention_tuned.attention_gradient(g[:0], q[:0], k[:0], v[:0], None, 1.0, False) is None


def test_many_scores_are_made_for_some_samples_at_a_time(rng, monkeypatch):
    arrays = given(rng, 5, 6, 7, 2, 1, 3, 4)
    mask = rng.random((5, 1, 6, 7)) < 0.7
    whole = attention_reference.attention(np, *arrays[1:], mask, 0.5, True)
    back = attention_reference.attention_gradient(np, *arrays, mask, 0.5, True)
    monkeypatch.setattr(attention_reference, "MOST_SCORES", 200)
    np.testing.assert_allclose(
        attention_reference.attention(np, *arrays[1:], mask, 0.5, True), whole, rtol=1e-6
    )
    for a, b in zip(
        attention_reference.attention_gradient(np, *arrays, mask, 0.5, True), back, strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-6)
