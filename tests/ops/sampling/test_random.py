"""Random numbers: the same bits from the same seed, anywhere; the right distributions."""

import tracemalloc

import numpy as np
import pytest

import trainkit as tk
from trainkit.autodiff.tape import GradientTape
from trainkit.core import rng as core_rng
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import convert_to_tensor
from trainkit.core.trackable import traverse
from trainkit.core.variable import Variable
from trainkit.ops.sampling import generators, philox, random, random_draws

COUNT = 40_000


def moments(x):
    values = np.asarray(x.numpy(), np.float64)
    return values.mean(), values.var()


@pytest.mark.parametrize("count", [1, 4, 5, 33])
@pytest.mark.parametrize("state", [[0, 0, 1], [2**64 - 2, 3, 77], [5, 2**64 - 1, 2**63]])
def test_array_arithmetic_gives_the_bits_of_the_counter_generator(state, count):
    words = np.array(state, np.uint64)
    fast = philox.words(np, words, count)
    np.testing.assert_array_equal(philox.words_by_arithmetic(np, words, count), fast)


def test_the_counter_carries_into_its_high_word():
    state = np.array([2**64 - 1, 4, 9], np.uint64)
    assert philox.advanced(np, state, 5).tolist() == [1, 5, 9]


def test_the_counter_begins_anew_after_its_last_block():
    state = np.array([2**64 - 1, 2**64 - 1, 9], np.uint64)
    assert philox.advanced(np, state, 5).tolist() == [1, 0, 9]


def test_set_seed_repeats_everything():
    def draw():
        generators.set_seed(3)
        generator = generators.Generator()
        parts = [random.normal((3,)), random.uniform((2,)), generator.normal((2,))]
        return np.concatenate([p.numpy() for p in parts])

    np.testing.assert_array_equal(draw(), draw())
    generators.set_seed(4)
    assert not np.array_equal(draw()[:3], random.normal((3,)).numpy())


def test_a_generator_goes_on_from_its_state():
    one = generators.Generator.from_seed(5)
    one.normal((7,))
    two = generators.Generator.from_state(one.state)
    np.testing.assert_array_equal(one.normal((5,)).numpy(), two.normal((5,)).numpy())
    assert [type(part).__name__ for _, part in traverse(one)] == ["Generator", "Variable"]


def test_an_int_seed_gives_the_same_numbers_each_time_and_a_generator_does_not():
    np.testing.assert_array_equal(
        random.normal((4,), seed=1).numpy(), random.normal((4,), seed=1).numpy()
    )
    generator = generators.SeedGenerator(1)
    first, second = random.normal((4,), seed=generator), random.normal((4,), seed=generator)
    assert not np.array_equal(first.numpy(), second.numpy())
    np.testing.assert_array_equal(first.numpy(), random.normal((4,), seed=1).numpy())


def test_the_state_of_a_seed_generator_has_its_name_in_keras():
    tk.utils.clear_session()
    one, two = generators.SeedGenerator(1), generators.SeedGenerator(1, name="noise")
    assert one.get_config() == {"seed": 1, "name": "seed_generator"}
    assert one.state.name == two.state.name == "seed_generator_state"
    assert one.state.path == "seed_generator/seed_generator_state"
    assert two.state.path == "noise/seed_generator_state"
    assert generators.SeedGenerator.from_config(one.get_config()).name == "seed_generator"
    assert generators.SeedGenerator(state=one.state).state.path == one.state.path


def test_draws_of_a_generator_do_not_overlap():
    generator = generators.Generator.from_seed(1)
    blocks = np.concatenate([generator.uniform((n,)).numpy() for n in (1, 3, 8, 9, 100)])
    assert len(np.unique(blocks)) == len(blocks)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_uniform_numbers_stay_below_one(dtype):
    x = random.uniform((COUNT,), dtype=dtype)
    values = x.numpy().astype(np.float64)
    assert x.dtype.name == dtype
    assert values.min() >= 0
    assert values.max() < 1
    assert abs(values.mean() - 0.5) < 0.01
    assert abs(values.var() - 1 / 12) < 0.002


def test_normal_and_truncated_normal_have_their_moments():
    mean, variance = moments(random.normal((COUNT,), 2.0, 3.0))
    assert abs(mean - 2) < 0.06
    assert abs(variance - 9) < 0.3
    cut = random.truncated_normal((COUNT,)).numpy()
    assert np.abs(cut).max() <= 2
    assert abs(cut.std() - 0.8796) < 0.01


def test_integers_cover_their_range_evenly():
    counts = np.bincount(random.randint((COUNT,), 0, 5).numpy())
    assert len(counts) == 5
    assert np.abs(counts / COUNT - 0.2).max() < 0.01
    whole = generators.Generator.from_seed(1).uniform_full_int((100,), "int8").numpy()
    assert whole.min() < 0 < whole.max()


@pytest.mark.parametrize(
    ("draw", "mean", "variance"),
    [
        (lambda: random_draws.gamma((COUNT,), 0.4), 0.4, 0.4),
        (lambda: random_draws.gamma((COUNT,), 7.0), 7.0, 7.0),
        (lambda: random_draws.beta((COUNT,), 2.0, 3.0), 0.4, 0.04),
        (lambda: random_draws.poisson((COUNT,), 3.0), 3.0, 3.0),
        (lambda: random_draws.poisson((COUNT,), 40.0), 40.0, 40.0),
        (lambda: random_draws.binomial((COUNT,), 10, 0.2), 2.0, 1.6),
        (lambda: random_draws.binomial((COUNT,), 200, 0.7), 140.0, 42.0),
    ],
    ids=["gamma0.4", "gamma7", "beta", "poisson3", "poisson40", "binomial10", "binomial200"],
)
def test_distributions_have_their_moments(draw, mean, variance):
    have = moments(draw())
    assert abs(have[0] - mean) < 5 * np.sqrt(variance / COUNT)
    assert abs(have[1] / variance - 1) < 0.1


def test_categories_come_with_their_probabilities():
    logits = np.log([[0.1, 0.2, 0.7], [0.5, 0.5, 1e-9]])
    drawn = random_draws.categorical(logits, COUNT).numpy()
    assert np.abs(np.bincount(drawn[0], minlength=3) / COUNT - [0.1, 0.2, 0.7]).max() < 0.01
    assert drawn[1].max() == 1
    many_rows = random_draws.categorical(np.tile(logits[:1], (COUNT, 1)), 1).numpy()
    assert abs((many_rows == 2).mean() - 0.7) < 0.01
    with pytest.raises(ShapeError, match="must be \\(batch, classes\\)"):
        random_draws.categorical([0.1, 0.2], 3)


def test_shuffle_keeps_all_slices():
    x = np.arange(24).reshape(4, 6)
    rows = random_draws.shuffle(x, seed=2).numpy()
    assert sorted(map(tuple, rows)) == sorted(map(tuple, x))
    columns = random_draws.shuffle(x, axis=1, seed=2).numpy()
    assert not np.array_equal(columns, x)
    np.testing.assert_array_equal(np.sort(columns, axis=1), x)


def test_dropout_scales_what_it_keeps():
    x = np.ones((100, 100), "float32")
    y = random.dropout(x, 0.25).numpy()
    assert abs((y == 0).mean() - 0.25) < 0.02
    np.testing.assert_allclose(y[y != 0], 1 / 0.75, rtol=1e-6)
    rows = random.dropout(x, 0.5, noise_shape=(None, 1)).numpy()
    assert (np.ptp(rows, axis=1) == 0).all()
    assert (random.dropout(x, 1.0).numpy() == 0).all()
    with pytest.raises(InvalidArgumentError, match="must lie in"):
        random.dropout(x, 1.5)


def test_gradients_reach_mean_and_stddev():
    mean, stddev = Variable(1.0), Variable(2.0)
    with GradientTape() as tape:
        x = random.normal((50,), mean, stddev, seed=3)
        total = x * 1.0
    grads = tape.gradient(total, [mean, stddev])
    assert float(grads[0]) == 50
    np.testing.assert_allclose(
        float(grads[1]), random.normal((50,), seed=3).numpy().sum(), rtol=1e-5
    )


def test_bad_arguments_are_named():
    with pytest.raises(InvalidArgumentError, match="minval must be below maxval"):
        random.randint((2,), 3, 3)
    with pytest.raises(InvalidArgumentError, match="no range of uint8"):
        random.randint((2,), 0, 300, "uint8")
    with pytest.raises(InvalidArgumentError, match="dtype int32 is not supported"):
        random.normal((2,), dtype="int32")
    with pytest.raises(InvalidArgumentError, match=r"no int, no Generator"):
        random.normal((2,), seed="x")
    with pytest.raises(ValueError, match="three words"):
        generators.Generator(state=[1, 2])
    with pytest.raises(InvalidArgumentError, match="alpha must be above 0"):
        random_draws.gamma((2,), -1.0)
    with pytest.raises(InvalidArgumentError, match="must lie in \\[0, 1\\]"):
        random_draws.binomial((2,), 3, 1.5)
    with pytest.raises(ShapeError, match="do not broadcast"):
        random_draws.gamma((2,), convert_to_tensor([1.0, 2.0, 3.0]))


def test_numbers_do_not_depend_on_who_else_draws():
    generators.set_seed(1)
    first = generators.Generator().normal((4,)).numpy()
    generators.set_seed(1)
    generator = generators.Generator()
    random.normal((1000,))
    np.testing.assert_array_equal(generator.normal((4,)).numpy(), first)
    assert core_rng.current_seed() == 1


def test_integers_take_little_memory_besides_their_own():
    generators.set_seed(1)
    tracemalloc.start()
    try:
        drawn = random.randint((300_000,), 0, 255, "int32")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    words = 8 * 300_000
    assert peak < words + drawn.numpy().nbytes + 2_000_000
    assert 126 < moments(drawn)[0] < 128


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("as_tensors", [False, True])
@pytest.mark.parametrize(("low", "high"), [(2, 9), (-1, 1), (100, 101), (0, 1e-3), (1000, 1001)])
def test_uniform_numbers_stay_below_their_bound(dtype, as_tensors, low, high):
    ends = [tk.constant(v, dtype) for v in (low, high)] if as_tensors else [low, high]
    least, bound = (tk.constant(v, dtype) for v in (low, high))
    for run in (lambda f: f, tk.function):
        draw = run(lambda: tk.random.stateless_uniform((100_000,), (3, 4), *ends, dtype))
        y = draw()
        assert y.dtype == dtype
        if bool(least < bound):
            assert bool(tk.reduce_all(y < bound))
        assert bool(tk.reduce_all(y >= least))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("count", [1, 5, 5000])  # by the compiled half, and by NumPy
def test_poisson_draws_of_odd_means(dtype, count):
    means = [-np.inf, -800.0, -1.0, 0.0, np.inf, np.nan, 3.0]
    draws = tk.random.stateless_poisson((count, len(means)), (1, 2), means, dtype=dtype)
    draws = draws.numpy().astype("float64")
    np.testing.assert_array_equal(draws[:, :6], np.tile([0, 0, 0, 0, np.inf, np.nan], (count, 1)))
    for i, mean in enumerate(means[:6]):
        alone = tk.random.stateless_poisson((count,), (1, 2), mean, dtype=dtype).numpy()
        np.testing.assert_array_equal(alone.astype("float64"), draws[:, i])
    assert np.isfinite(draws[:, 6]).all()


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_poisson_draws_beyond_integers_are_the_greatest(dtype):
    means = [-1.0, 1e30, np.inf, np.nan]
    traced = tk.function(lambda: tk.random.stateless_poisson((3, 4), (1, 2), means, dtype=dtype))
    for draws in (tk.random.stateless_poisson((3, 4), (1, 2), means, dtype=dtype), traced()):
        limit = np.iinfo(dtype).max
        assert draws.dtype.name == dtype
        assert (draws.numpy()[:, [0, 2, 3]] == 0).all()
        assert (draws.numpy()[:, 1] >= limit - (0 if dtype == "int32" else 2**10)).all()
