"""Gamma, Poisson and binomial draws and integers between tensors: a GPU beside the CPU."""

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from tests.kernels.random.test_philox_cuda import on_both
from tests.stand_in import cuda_on_cpu
from tests.stand_in.kernels import RawKernel
from trainkit.kernels.random import rejection_cuda as texts
from trainkit.ops.sampling import distributions, philox

pytestmark = pytest.mark.skipif(
    not cuda_on_cpu.has_compiler(), reason="no g++ for this machine is here"
)

KERNELS = [
    texts.boosted_gamma,
    *(
        (lambda f=f, d=d: f(d))
        for f in (texts.tried, texts.tried_until_taken)
        for d in texts.DISTRIBUTIONS
    ),
    *((lambda d=d: texts.inverted(d)) for d in ("poisson", "binomial")),
]
ERRORS = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6, "float64": 1e-11}
STATE = (2**64 - 9, 1, 77)
SHAPES = [(), (1,), (7,), (3, 5), (4096,), (9001,)]


def spread(shape, *values):
    """Parameters of each element, values in turn."""
    size = int(np.prod(shape))
    return np.resize(np.array(values, np.float32), size).reshape(shape)


def both(primitive, shape, *parameters, dtype="float32"):
    def drawn(state, **settings):
        given = [tk.constant(p) for p in parameters]
        return primitive(state, *given, count=len(given), **settings)

    return on_both(drawn, STATE, shape=shape, dtype=dtype)


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("shape", SHAPES)
def test_gamma_draws_are_those_of_the_cpu(shape, dtype):
    for alpha in (np.float32(0.3), np.int32(2), spread(shape, 0.01, 0.5, 1, 1.5, 40, 1e6)):
        (here, one), (there, two) = both(distributions.philox_gamma, shape, alpha, dtype=dtype)
        np.testing.assert_array_equal(one, two)
        assert here.dtype == there.dtype
        there, here = there.astype(np.float64), here.astype(np.float64)
        np.testing.assert_allclose(there, here, rtol=ERRORS[dtype])


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_poisson_draws_are_those_of_the_cpu(shape, dtype):
    for mean in (3.0, 10.0, 800.0, spread(shape, 0, 0.1, 9.99, 10, 12, 25, 3e5)):
        (here, one), (there, two) = both(distributions.philox_poisson, shape, mean, dtype=dtype)
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(there, here)


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64"])
def test_poisson_draws_of_odd_means_are_those_of_the_cpu(dtype):
    means = [-np.inf, -800.0, -1.0, 0.0, np.inf, np.nan, 1e30, 3.0, 40.0]
    mean = np.resize(np.array(means, np.float32), 900)
    (here, one), (there, two) = both(distributions.philox_poisson, (900,), mean, dtype=dtype)
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(there, here)
    odd = [0, 0, 0, 0, np.inf, np.nan] if dtype.startswith("float") else [0] * 6
    np.testing.assert_array_equal(there[:6].astype(np.float64), odd)


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("shape", SHAPES)
def test_binomial_draws_are_those_of_the_cpu(shape, dtype):
    many = spread(shape, 0, 1, 7, 30, 40, 50, 2000, 1e6)
    share = spread(shape, 0, 0.1, 0.5, 0.6, 0.99, 1, 0.25)
    for n, p in [(9.0, 0.3), (np.int32(100), 0.7), (many, 0.5), (64.0, share), (many, share)]:
        (here, one), (there, two) = both(distributions.philox_binomial, shape, n, p, dtype=dtype)
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(there, here)


@pytest.mark.usefixtures("any_gpu")
def test_impossible_parameters_end_with_a_nan_on_both():
    alpha = np.array([np.nan, -0.9, 0, np.inf, 2], np.float32)
    (here, one), (there, two) = both(distributions.philox_gamma, (5,), alpha)
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(np.isnan(here), [True, True, True, True, False])
    np.testing.assert_array_equal(np.isnan(there), np.isnan(here))
    both(distributions.philox_binomial, (2,), np.array([np.inf, np.nan]), 0.5)


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize(
    ("bounds", "given", "dtype"),
    [
        ((-5, 100), "int32", "int32"),
        ((0, 255), "uint8", "uint8"),
        ((-(1 << 63), (1 << 63) - 1), "int64", "int64"),
        ((3, (1 << 64) - 1), "uint64", "uint64"),
        ((7, 8), "int16", "int8"),
    ],
)
def test_integers_between_tensors_are_those_of_the_cpu(bounds, given, dtype):
    def drawn(state, **settings):
        low, high = (tk.constant(bound, given) for bound in bounds)
        return philox.philox_integers_between(state, low, high, **settings)

    for shape in SHAPES:
        (here, one), (there, two) = on_both(drawn, STATE, shape=shape, dtype=dtype)
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(there, here)


@pytest.mark.usefixtures("inside")
def test_an_empty_range_on_a_gpu_gives_the_least_number():
    bounds = tk.constant(9), tk.constant(3)
    found = tk.keras.random.randint((4,), *bounds, seed=tk.keras.random.SeedGenerator(1))
    np.testing.assert_array_equal(found.numpy(), [9, 9, 9, 9])


LAM, ALPHA = np.float32(30), np.array([0.5, 3], np.float32)
CALLS = {
    "gamma": (lambda s, a: tk.keras.random.gamma((50, 2), a[0], seed=s), 4),
    "poisson": (lambda s, a: tk.random.poisson((50,), a[1], seed=s), 7),
    "binomial": (lambda s, a: tk.keras.random.binomial((50, 2), a[1], a[2], seed=s), 7),
    "randint": (lambda s, a: tk.keras.random.randint((50,), a[3], a[4], seed=s), 1),
}


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("name", CALLS)
def test_a_draw_is_few_launches_and_waits_for_nothing(name, monkeypatch):
    call, most = CALLS[name]
    source = tk.keras.random.SeedGenerator(1)
    given = [tk.constant(a) for a in (ALPHA, LAM, np.float32(0.4), 0, 9)]
    names, launch = [], RawKernel.__call__

    def noted(self, *args, **kwargs):
        names.append(self.name)
        return launch(self, *args, **kwargs)

    monkeypatch.setattr(RawKernel, "__call__", noted)
    with stand_in.transfers.noted() as ledger:
        call(source, given)
    assert len(names) <= most, names
    assert not ledger.to_host
    assert not ledger.to_device
    assert not ledger.waits


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("name", CALLS)
def test_a_captured_function_draws_what_an_eager_one_does(name):
    call = CALLS[name][0]

    def six(compiled):
        source = tk.keras.random.SeedGenerator(7)

        def step(*given):
            return call(source, given)

        f = tk.function(step) if compiled else step
        given = [tk.constant(a) for a in (ALPHA, LAM, np.float32(0.4), 0, 9)]
        return [f(*given).numpy() for _ in range(6)]

    np.testing.assert_array_equal(six(True), six(False))


def test_threads_in_another_order_list_the_same_places():
    alpha, state = np.full(1, 0.7), np.array(STATE, np.uint64)
    kernel = cuda_on_cpu.built(texts.tried("gamma").text, "tried")

    def listed():
        out, left = np.zeros(6000), np.zeros(8192, np.int64)
        counts, new = np.zeros(3, np.int64), np.zeros(3, np.uint64)
        args = [alpha, None, np.int64(0), np.int64(0), state, new, None, None, np.int32(2)]
        kernel((2,), (256,), [*args, left, counts, out, np.int64(6000)])
        return out, left, counts, new

    forward = listed()
    with cuda_on_cpu.backward():
        backward = listed()
    assert forward[2].sum() > 100
    for one, two in zip(forward, backward, strict=True):
        np.testing.assert_array_equal(one, two)
