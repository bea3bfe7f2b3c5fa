"""Deep copies of what has no weights yet begin apart, as new layers do; states go on together."""

import copy

import numpy as np
import pytest

import trainkit as tk

layers = tk.layers
X = np.ones((1, 64), "float32")


def dense():
    return layers.Dense(3)


def stack():
    return tk.Sequential([layers.Dense(3), layers.Dense(2)])


@pytest.mark.parametrize("make", [dense, stack])
def test_a_copy_of_what_is_not_built_draws_weights_of_its_own(make):
    tk.random.set_seed(1)
    source = make()
    twin, other = copy.deepcopy(source), copy.deepcopy(source)
    kernels = [(m(X), m.get_weights()[0])[1] for m in (source, twin, other)]
    assert len({kernel.tobytes() for kernel in kernels}) == 3


def test_copies_are_the_same_from_run_to_run():
    kernels = []
    for _ in range(2):
        tk.random.set_seed(1)
        twin = copy.deepcopy(dense())
        twin(X)
        kernels.append(twin.get_weights()[0])
    np.testing.assert_array_equal(*kernels)


@pytest.mark.parametrize("make", [dense, stack])
def test_a_copy_of_what_is_built_has_its_weights(make):
    source = make()
    source(X)
    for a, b in zip(source.get_weights(), copy.deepcopy(source).get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_seed_of_the_caller_stays():
    source = layers.Dense(3, kernel_initializer=tk.initializers.GlorotUniform(seed=3))
    twin = copy.deepcopy(source)
    np.testing.assert_array_equal(source(X), twin(X))


def masks_of(*stacks):
    return [np.asarray(s(X, training=True)) for s in stacks]


@pytest.mark.parametrize(
    "make", [lambda **k: layers.Dropout(0.5, **k), lambda **k: layers.GaussianNoise(1.0, **k)]
)
def test_noise_of_a_copy_is_its_own_until_it_was_drawn(make):
    source = make()
    first, second = masks_of(source, copy.deepcopy(source))
    assert (first != second).any()
    twin = copy.deepcopy(source)  # which goes on from where its source stands
    np.testing.assert_array_equal(*masks_of(source, twin))
    seeded = make(seed=7)
    np.testing.assert_array_equal(*masks_of(seeded, copy.deepcopy(make(seed=7))))


def test_recurrent_layers_and_wrappers_copy_alike():
    for make in (
        lambda: layers.LSTM(3),
        lambda: layers.Bidirectional(layers.GRU(2)),
        lambda: layers.TimeDistributed(layers.Dense(2)),
    ):
        source = make()
        twin = copy.deepcopy(source)
        x = np.ones((1, 2, 3), "float32")
        source(x), twin(x)
        assert (source.get_weights()[0] != twin.get_weights()[0]).any()
