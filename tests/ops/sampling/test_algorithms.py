import numpy as np
import pytest

import trainkit as tk

# Seeds and their states: TensorFlow's numbers.
STATES = [
    (1234, [1234, 0, 0]),
    (-5, [-5, -1, -1]),
    (2**63, [-(2**63), 0, 0]),
    (2**65 + 3, [3, 2, 0]),
    (2**200, [0, 0, 0]),
    (True, [1, 0, 0]),
    ([1, 2], [0, 1, 2]),
    ([1, 2, 3, 4], [1, 2, 3]),
    (np.int32(4), [0, 0, 4]),
    (np.array([7, 8]), [0, 7, 8]),
    ([], [0, 0, 0]),
]


@pytest.mark.parametrize(("seed", "state"), STATES, ids=str)
def test_states_of_seeds_are_tensorflows(seed, state):
    result = tk.random.create_rng_state(seed, "philox")
    assert result.dtype == tk.int64
    assert result.numpy().tolist() == state


def test_seeds_may_be_tensors():
    assert tk.random.create_rng_state(tk.constant([1, 2]), "philox").numpy().tolist() == [0, 1, 2]


def test_a_generator_goes_on_from_a_state():
    state = tk.random.create_rng_state([5, 0, 9], "philox")
    first = tk.random.Generator.from_state(state, "philox")
    second = tk.random.Generator.from_key_counter(9, [5, 0])
    np.testing.assert_array_equal(first.normal((7,)), second.normal((7,)))
    second.reset(tk.random.create_rng_state(-5, "philox"))
    assert second.state.numpy().tolist() == [2**64 - 5, 2**64 - 1, 2**64 - 1]


@pytest.mark.parametrize("alg", ["philox", "auto_select", 1, 3, *map(tk.constant, (1, 3))], ids=str)
def test_philox_has_many_names(alg):
    assert tk.random.create_rng_state(5, alg).numpy().tolist() == [5, 0, 0]


def test_algorithms_have_tensorflows_numbers():
    algorithm = tk.random.Algorithm
    assert tk.random.experimental.Algorithm is algorithm
    numbers = {"PHILOX": 1, "THREEFRY": 2, "AUTO_SELECT": 3}
    assert {member.name: member.value for member in algorithm} == numbers
    for alg in (algorithm.PHILOX, algorithm.AUTO_SELECT):
        assert tk.random.create_rng_state(5, alg).shape == (3,)
        tk.random.Generator.from_seed(1, alg)
        tk.random.stateless_normal((1,), (1, 2), alg=alg)


@pytest.mark.parametrize("alg", ["threefry", 2, tk.random.Algorithm.THREEFRY, None, "x"])
def test_other_algorithms_name_philox(alg):
    with pytest.raises(tk.errors.InvalidArgumentError, match="must be 'philox' or 'auto_select'"):
        tk.random.create_rng_state(5, alg)


def test_seeds_that_are_no_integers():
    with pytest.raises(tk.errors.InvalidArgumentError, match="neither an int nor ints"):
        tk.random.create_rng_state(1.5, "philox")
