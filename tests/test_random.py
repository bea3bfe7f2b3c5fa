"""`tk.random`: TensorFlow's names and their seeds."""

import pickle

import numpy as np
import pytest

from trainkit import random
from trainkit.core.errors import InvalidArgumentError, ShapeError


def test_calls_with_an_int_seed_go_through_a_sequence_that_set_seed_restarts():
    random.set_seed(1)
    first, second = random.normal((3,), seed=5).numpy(), random.normal((3,), seed=5).numpy()
    assert not np.array_equal(first, second)
    random.set_seed(1)
    np.testing.assert_array_equal(random.normal((3,), seed=5).numpy(), first)
    np.testing.assert_array_equal(random.normal((3,), seed=5).numpy(), second)
    random.set_seed(2)
    assert not np.array_equal(random.normal((3,), seed=5).numpy(), first)


def test_uniform_makes_integers_when_asked():
    x = random.uniform((1000,), 2, 5, dtype="int64").numpy()
    assert x.dtype == np.int64
    assert set(x) == {2, 3, 4}
    with pytest.raises(InvalidArgumentError, match="maxval"):
        random.uniform((3,), dtype="int32")


def test_parameters_append_their_shape():
    assert random.gamma([3], [1.0, 2.0], [[1.0], [2.0]]).shape == (3, 2, 2)
    assert random.poisson([4], [1.0, 2.0]).shape == (4, 2)
    assert random.categorical([[0.0, 1.0]], 3).dtype.name == "int64"


@pytest.mark.parametrize(
    "draw",
    [
        lambda seed: random.stateless_normal((4,), seed),
        lambda seed: random.stateless_truncated_normal((4,), seed),
        lambda seed: random.stateless_uniform((4,), seed),
        lambda seed: random.stateless_uniform((4,), seed, 0, 1000, "int32"),
        lambda seed: random.stateless_categorical(np.zeros((1, 50)), 4, seed),
        lambda seed: random.stateless_gamma((4,), seed, 2.0),
        lambda seed: random.stateless_poisson((4,), seed, 50.0),
        lambda seed: random.stateless_binomial((4,), seed, 100, 0.4),
        lambda seed: random.stateless_shuffle(np.arange(20), seed),
        lambda seed: random.split(seed),
        lambda seed: random.fold_in(seed, 3),
    ],
)
def test_stateless_draws_depend_on_the_seed_alone(draw):
    first = draw([1, 2]).numpy()
    random.normal((3,))
    np.testing.assert_array_equal(draw([1, 2]).numpy(), first)
    assert not np.array_equal(draw([2, 1]).numpy(), first)


def test_new_seeds_differ():
    seeds = random.split([1, 2], 50).numpy()
    assert len(np.unique(seeds, axis=0)) == 50
    folded = [tuple(random.fold_in([1, 2], i).numpy()) for i in range(20)]
    assert len(set(folded)) == 20


def test_bad_seeds_and_algorithms_are_named():
    with pytest.raises(InvalidArgumentError, match="is no int"):
        random.normal((2,), seed=[1, 2])
    with pytest.raises(InvalidArgumentError, match="two integers"):
        random.stateless_normal((2,), [1, 2, 3])
    with pytest.raises(InvalidArgumentError, match="philox"):
        random.stateless_normal((2,), [1, 2], alg="threefry")
    with pytest.raises(ShapeError, match="scalar"):
        random.shuffle(3.0)


def test_a_pickle_that_names_an_earlier_module_is_read():
    generator = random.Generator.from_seed(3)
    text = pickle.dumps(generator, protocol=0)
    here = b"trainkit.ops.sampling.generators"
    assert text.count(here) == 1
    copy = pickle.loads(text.replace(here, b"trainkit.ops.sampling.random"))
    np.testing.assert_array_equal(copy.normal([3]), generator.normal([3]))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_seeds_made_of_a_seed_have_its_dtype(dtype):
    seed = np.array([3, 8], dtype)
    for seeds in (random.split(seed, 40), random.fold_in(seed, 5)):
        assert seeds.dtype == dtype
        assert len(np.unique(seeds.numpy())) == seeds.numpy().size
    assert random.split(seed, 40).numpy().min() < 0 < random.split(seed, 40).numpy().max()


@pytest.mark.parametrize("dtype", ["int32", "uint64"])
def test_integers_without_limits_fill_the_range_of_their_dtype(dtype):
    numbers = random.stateless_uniform([4000], (2, 3), None, None, dtype).numpy()
    limits = np.iinfo(dtype)
    assert numbers.dtype == dtype
    span = float(limits.max) - float(limits.min)
    shares = (numbers.astype(np.float64) - float(limits.min)) / span
    assert shares.min() < 0.01
    assert shares.max() > 0.99
    assert abs(shares.mean() - 0.5) < 0.02
