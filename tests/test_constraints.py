"""Bounds on weights."""

import numpy as np
import pytest

from trainkit import constraints

W = np.array([[3.0, 0.1, 0.0], [4.0, -0.2, 0.0]], "float32")


def lengths(w, axis=0):
    return np.sqrt((w.numpy() ** 2).sum(axis))


def test_max_norm_shrinks_only_what_is_too_long():
    w = constraints.MaxNorm(2.0)(W)
    np.testing.assert_allclose(lengths(w), [2, np.sqrt(0.05), 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(w.numpy()[:, 1], W[:, 1], rtol=1e-5)


def test_unit_norm_takes_several_axes():
    np.testing.assert_allclose(lengths(constraints.UnitNorm(1)(W), 1), [1, 1], rtol=1e-5)
    whole = constraints.UnitNorm([0, 1])(W).numpy()
    np.testing.assert_allclose(np.sqrt((whole**2).sum()), 1, rtol=1e-5)


def test_min_max_norm_goes_a_part_of_the_way():
    w = constraints.MinMaxNorm(1.0, 2.0, rate=0.5)(W)
    np.testing.assert_allclose(lengths(w)[:2], [3.5, 0.5 * (1 + np.sqrt(0.05))], rtol=1e-4)


def test_non_neg_sets_negative_values_to_zero():
    assert constraints.NonNeg()(W).numpy().min() == 0
    np.testing.assert_array_equal(constraints.NonNeg()(W).numpy()[:, 0], W[:, 0])


@pytest.mark.parametrize("name", ["MaxNorm", "NonNeg", "UnitNorm", "MinMaxNorm", "max_norm"])
def test_names_and_configs_come_back(name):
    made = constraints.get(name)
    again = constraints.deserialize(constraints.serialize(made))
    assert type(again) is type(made)
    assert again.get_config() == made.get_config()


def test_an_unknown_name_is_answered_with_those_that_come_near():
    with pytest.raises(ValueError, match="did you mean 'max_norm'"):
        constraints.get("maxnorm")
