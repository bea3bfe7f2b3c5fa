"""Draws of few numbers by the compiled half have the bits of the bodies, and leave their state."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.dispatch import native
from trainkit.core.tensor import PRIMITIVES

pytestmark = pytest.mark.skipif(native.NATIVE is None, reason="there is no compiled half")

STATES = [(0, 0, 5), (2**64 - 3, 7, 2**64 - 1), (2**64 - 1, 5, 1), (12345, 0, 999)]
SHAPES = [(), (1,), (2,), (0, 3), (7,), (10, 10), (3, 341), (1024,), (1025,)]
FLOATS = ["float32", "float64", "float16", "bfloat16"]
CALLS = [
    *[("philox_uniform", {"dtype": dtype}) for dtype in FLOATS],
    *[
        ("philox_uniform", {"dtype": dtype, "scale": scale, "offset": offset})
        for dtype in FLOATS[:2]
        for scale, offset in [(0.1, -0.05), (-3.0, 2.0), (1.0, 0.5)]
    ],
    *[("philox_normal", {"dtype": dtype}) for dtype in FLOATS],
    ("philox_integers", {"dtype": "int32", "low": 0, "high": 10}),
    ("philox_integers", {"dtype": "int32", "low": -(2**31), "high": 2**31}),
    ("philox_integers", {"dtype": "int64", "low": -9, "high": 2**40}),
    ("philox_integers", {"dtype": "int64", "low": -(2**63), "high": 2**63}),
    ("philox_integers", {"dtype": "uint64", "low": 0, "high": 2**64}),
    *[("philox_kept", {"rate": rate}) for rate in (0.0, 0.3, 0.5 / 65536, 1.5 / 65536, 1.0)],
]


def draw(name, inputs, compiled, **settings):
    """Values and the next state, by the compiled half or without it."""
    before = native.switch(compiled)
    try:
        with np.errstate(all="ignore"):
            outputs = PRIMITIVES[name].op(*map(tk.constant, inputs), **settings)
        return [x.numpy() for x in outputs]
    finally:
        native.switch(before)


def assert_alike(name, state, *inputs, **settings):
    inputs = [np.array(state, np.uint64), *inputs]
    results = [draw(name, inputs, compiled, **settings) for compiled in (True, False)]
    for a, b in zip(*results, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("name", "settings"), CALLS, ids=str)
def test_draws_have_the_bits_of_the_bodies(name, settings, shape):
    for state in STATES:
        assert_alike(name, state, shape=shape, **settings)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 31, 32, 33, 100, 5000, 100_003])
def test_orders_are_those_of_the_body(count):
    for state in STATES:
        assert_alike("philox_permutation", state, shape=(count,))


def test_rows_of_a_batch_are_those_of_the_body():
    for name, settings in CALLS:
        assert_alike(name, STATES[1], shape=(2, 3), rows=(1, 2, 5), **settings)


@pytest.mark.parametrize("name", ["philox_uniform", "philox_normal"])
def test_few_numbers_are_drawn_without_the_kernel(monkeypatch, name):
    from trainkit.kernels.random import draws_tuned

    def refuse(*args):
        raise AssertionError(f"{name} of {args[1]} came to the kernel")

    for function in ("uniform", "normal"):
        monkeypatch.setattr(draws_tuned, function, refuse)
    state = np.array(STATES[0], np.uint64)
    draw(name, [state], True, shape=(10, 10), dtype="float32")
    with pytest.raises(AssertionError, match="came to the kernel"):
        draw(name, [state], True, shape=(40, 40), dtype="float32")


ALPHAS = [0.01, 0.3, 1.0, 1.5, 30.0, 1e-310, 0.0, -1.0, np.inf, np.nan]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2,), (7,), (10, 10), (1024,), (1025,)], ids=str)
def test_gamma_draws_have_the_bits_of_the_body(shape, dtype):
    rng = np.random.default_rng(0)
    settings = {"shape": shape, "dtype": dtype, "count": 1}
    for kind in ("float32", "float64"):
        for alpha in ALPHAS:
            assert_alike("philox_gamma", STATES[1], np.array(alpha, kind), **settings)
        for chosen in (ALPHAS[:5], ALPHAS):
            assert_alike(
                "philox_gamma", STATES[2], rng.choice(chosen, shape).astype(kind), **settings
            )
    assert_alike("philox_gamma", STATES[0], np.array(3, "int32"), **settings)


MEANS = [0.0, 0.3, 1.0, 3.0, 9.99, 10.0, 500.0, -1.0, np.nan]
COUNTS = [0.0, 1.0, 7.0, 10.0, 50.0, 2.5, 1e9, -1.0, np.inf, np.nan]
CHANCES = [0.0, 1e-9, 0.1, 0.5, 0.7, 1.0, np.nan]


@pytest.mark.parametrize("dtype", [*FLOATS, "int32"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (10, 10), (1024,), (1025,)], ids=str)
def test_counted_draws_have_the_bits_of_the_bodies(shape, dtype):
    rng = np.random.default_rng(0)
    few, many = ({"shape": shape, "dtype": dtype, "count": n} for n in (1, 2))
    nothing = [np.nan] if dtype == "int32" else []  # what becomes of it is the processor's choice
    for kind in ("float32", "float64"):
        for mean in [m for m in MEANS if m == m or not nothing]:
            assert_alike("philox_poisson", STATES[1], np.array(mean, kind), **few)
        means = rng.choice(MEANS[:5], shape).astype(kind)
        assert_alike("philox_poisson", STATES[2], means, **few)
        for count in [n for n in COUNTS if np.isfinite(n) or not nothing]:
            for p in [p for p in CHANCES if p == p or not nothing]:
                assert_alike("philox_binomial", STATES[1], np.array(count, kind), p, **many)
        counts, p = rng.choice(COUNTS[:4], shape), rng.choice(CHANCES[:6], shape)
        assert_alike("philox_binomial", STATES[2], counts.astype(kind), p.astype(kind), **many)
    assert_alike("philox_poisson", STATES[0], np.array(3, "int32"), **few)
    assert_alike("philox_binomial", STATES[0], np.array(3, "int32"), np.array(0.25), **many)


def test_gamma_draws_of_parameters_that_broadcast_have_the_bits_of_the_body():
    settings = {"shape": (3, 4), "dtype": "float32", "count": 1}
    for dims in [(4,), (3, 1), (1, 4), (1,), (1, 1)]:
        alpha = np.linspace(0.5, 2, int(np.prod(dims))).reshape(dims).astype("float32")
        assert_alike("philox_gamma", STATES[3], alpha, **settings)


@pytest.mark.parametrize("dims", [(1, 1), (1, 9), (10, 10), (40, 3), (2, 600), (0, 4)], ids=str)
@pytest.mark.parametrize("samples", [1, 2, 5, 50])
@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
def test_categories_are_those_of_the_body(dims, samples, kind):
    logits = np.random.default_rng(0).standard_normal(dims) * 5
    for dtype in ("int32", "int64", "uint8"):
        settings = {"samples": samples, "dtype": dtype}
        assert_alike("philox_categorical", STATES[1], logits.astype(kind), **settings)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -1e4, 3e38])
def test_categories_of_unusual_logits_are_those_of_the_body(special):
    logits = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")
    logits[1, 2] = logits[2, 5] = logits[3, 0] = special
    assert_alike("philox_categorical", STATES[0], logits, samples=30, dtype="int64")
    logits[2] = special
    assert_alike("philox_categorical", STATES[0], logits, samples=30, dtype="int64")


@pytest.mark.parametrize("dims", [(), (1,), (0, 3), (10, 10), (5000,)], ids=str)
@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
def test_products_of_dropout_have_the_bits_of_the_body(dims, kind):
    rng = np.random.default_rng(0)
    x = rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, -1e-30], dims).astype(kind)
    masks = [rng.random(dims) < 0.5, rng.random([1] * len(dims)) < 0.5]
    for mask in masks:
        results = []
        for compiled in (True, False):
            before = native.switch(compiled)
            with np.errstate(all="ignore"):
                y = PRIMITIVES["dropped"].op(tk.constant(x), tk.constant(mask), scale=1.7)
            native.switch(before)
            results.append(y.numpy())
        assert results[0].dtype == results[1].dtype
        np.testing.assert_array_equal(np.signbit(results[0]), np.signbit(results[1]))
        np.testing.assert_array_equal(*results)
