"""Random numbers of a GPU's kernels beside those of the CPU."""

import ml_dtypes
import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from tests.stand_in import cuda_on_cpu
from tests.stand_in.kernels import RawKernel
from trainkit.core import devices, rng
from trainkit.kernels.random import philox_cuda, random_gpu
from trainkit.ops.neural.dropout import dropped
from trainkit.ops.sampling import philox

pytestmark = pytest.mark.skipif(
    not cuda_on_cpu.has_compiler(), reason="no g++ for this machine is here"
)

STATES = [(0, 0, 1), (2**64 - 2, 3, 77), (5, 2**64 - 1, 2**63)]
COUNTS = [0, 1, 5, 33, 16387]
FLOATS = ["float16", "bfloat16", "float32", "float64"]


def on_both(primitive, state, **settings):
    """(values, next state) on the CPU, and on the GPU."""
    found = []
    for name in ("/cpu:0", "/gpu:0"):
        with tk.device(name):
            given = tk.constant(np.array(state, np.uint64))
            found.append([y.numpy() for y in primitive(given, **settings)])
    return found


def assert_same_bits(one, two):
    for a, b in zip(one, two, strict=True):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("order", ["forward", "backward"])
@pytest.mark.parametrize("state", STATES)
def test_each_thread_makes_the_words_of_its_block(state, order):
    out, new = np.zeros(1001, np.uint64), np.zeros(3, np.uint64)
    args = [np.array(state, np.uint64), new, out, np.uint64(251), np.int64(1001)]
    kernel = cuda_on_cpu.built(philox_cuda.words().text, "philox_words")
    low, high, key = state
    if order == "backward":
        with cuda_on_cpu.backward():
            kernel((2,), (32,), args)
    else:
        kernel((2,), (32,), args)
    np.testing.assert_array_equal(out, rng.bits(key, low + (high << 64), 1001))
    np.testing.assert_array_equal(new, philox.advanced(np, np.array(state, np.uint64), 1001))


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    ("primitive", "settings"),
    [
        *((philox.philox_uniform, {"dtype": dtype}) for dtype in FLOATS),
        (philox.philox_uniform, {"dtype": "float32", "scale": 0.1, "offset": -0.05}),
        *(
            (philox.philox_mask, {"dtype": dtype, "rate": 0.3, "scale": 1 / 0.7})
            for dtype in FLOATS
        ),
        (philox.philox_mask, {"dtype": "float32", "rate": 1.0, "scale": 0.0}),
        *((philox.philox_kept, {"rate": rate}) for rate in (0.0, 0.25, 1.0)),
        *(
            (philox.philox_integers, {"dtype": dtype, "low": -5, "high": 100})
            for dtype in ("int8", "int16", "int32", "int64")
        ),
        (philox.philox_integers, {"dtype": "uint64", "low": 0, "high": 1 << 64}),
        (philox.philox_integers, {"dtype": "int64", "low": -(1 << 63), "high": 1 << 63}),
        (philox.philox_integers, {"dtype": "uint8", "low": 3, "high": 4}),
    ],
)
def test_the_bits_are_those_of_the_cpu(primitive, settings, state, count):
    assert_same_bits(*on_both(primitive, state, shape=(count,), **settings))


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("state", STATES)
def test_normal_draws_differ_in_their_last_places_alone(state, count, dtype):
    (here, one), (there, two) = on_both(philox.philox_normal, state, shape=(count,), dtype=dtype)
    assert_same_bits([one], [two])
    eps = float(ml_dtypes.finfo(here.dtype).eps)
    np.testing.assert_allclose(
        there.astype(np.float64), here.astype(np.float64), rtol=4 * eps, atol=4 * eps
    )


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count", [0, 1, 7, 100, 4096, 20_000])
def test_draws_again_come_in_the_order_of_the_cpu(count, dtype):
    for key in range(3):
        (here, one), (there, two) = on_both(
            philox.philox_truncated_normal, (2**64 - 9, 1, key), shape=(count,), dtype=dtype
        )
        assert_same_bits([one], [two])
        eps = float(ml_dtypes.finfo(here.dtype).eps)
        np.testing.assert_allclose(
            there.astype(np.float64), here.astype(np.float64), rtol=4 * eps, atol=4 * eps
        )


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(0, 3), (7,), (130, 130)])
def test_the_product_of_dropout_has_the_bits_of_the_cpu(rng, shape, dtype):
    x = rng.normal(size=shape).astype(getattr(ml_dtypes, dtype, dtype))
    x.reshape(-1)[:3] = np.array([np.nan, np.inf, -0.0])[: x.size]
    kept = rng.normal(size=shape) > 0

    def both(x, kept):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = dropped(x, kept, scale=1 / 0.7)
        return y, tape.gradient(y, x)

    found = []
    for name in ("/cpu:0", "/gpu:0"):
        with tk.device(name):
            found.append([y.numpy() for y in both(tk.constant(x), tk.constant(kept))])
    for here, there in zip(*found, strict=True):
        assert there.dtype == here.dtype
        np.testing.assert_array_equal(there.astype(np.float64), here.astype(np.float64))


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("seed", [(1, 2), (-1, 2**31 - 1), (0, -7)])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_stateless_seed_names_the_same_stream(seed, dtype):
    found = []
    for name in ("/cpu:0", "/gpu:0"):
        with tk.device(name):
            found.append(philox.philox_state(tk.constant(seed, dtype)).numpy())
    np.testing.assert_array_equal(*found)


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize(
    ("draw", "launches"),
    [
        (lambda source: source.uniform((100,)), 1),
        (lambda source: source.uniform((100,), 0, 9, dtype="int32"), 1),
        (lambda source: tk.keras.random.uniform((100,), dtype="bfloat16", seed=source), 1),
        (lambda source: source.normal((100,), dtype="float16"), 1),
        (lambda source: tk.keras.random.dropout(tk.ones((100,)), 0.5, seed=source), 2),
        (lambda source: source.truncated_normal((100,)), 5),
        (lambda source: tk.random.stateless_uniform((100,), source.seed), 2),
    ],
)
def test_a_draw_is_one_launch_and_copies_nothing(draw, launches, monkeypatch):
    source = tk.keras.random.SeedGenerator(1)
    source.seed = tk.constant([1, 2])
    names, call = [], RawKernel.__call__

    def noted(self, *args, **kwargs):
        names.append(self.name)
        return call(self, *args, **kwargs)

    monkeypatch.setattr(RawKernel, "__call__", noted)
    with stand_in.transfers.noted() as ledger:
        draw(source)
    assert len(names) == launches, names
    assert not ledger.to_host
    assert not ledger.to_device
    assert not ledger.waits


@pytest.mark.usefixtures("any_gpu")
def test_without_a_compiler_array_arithmetic_draws_the_same(monkeypatch):
    monkeypatch.setattr("trainkit.kernels.cuda.raw_kernel.RawKernel.is_there", lambda *_: False)
    for primitive, settings in [
        (philox.philox_uniform, {"dtype": "float32"}),
        (philox.philox_kept, {"rate": 0.3}),
        (philox.philox_integers, {"dtype": "int32", "low": 0, "high": 9}),
    ]:
        assert_same_bits(*on_both(primitive, (1, 2, 3), shape=(100,), **settings))


@pytest.mark.usefixtures("any_gpu")
def test_a_captured_step_draws_what_an_eager_one_does():
    def six(compiled):
        source = tk.keras.random.SeedGenerator(7)

        def step(x):
            return tk.keras.random.dropout(x, 0.5, seed=source) + source.truncated_normal((64,))

        f = tk.function(step) if compiled else step
        return [f(tk.ones((64,))).numpy() for _ in range(6)]

    np.testing.assert_array_equal(six(True), six(False))


def test_a_state_on_another_gpu_is_left_to_array_arithmetic():
    with stand_in.in_place(gpus=2):
        xp = devices.parse("/gpu:0").xp
        state = xp.asarray(np.array([0, 0, 1], np.uint64))
        assert random_gpu.words(xp, state, 3) is not None
        with xp.cuda.Device(1):
            assert random_gpu.words(xp, state, 3) is None
