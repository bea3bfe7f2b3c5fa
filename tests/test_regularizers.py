"""Penalties on weights."""

import numpy as np
import pytest

from trainkit import regularizers
from trainkit.core.errors import ShapeError

X = np.array([[1.0, -2.0], [0.5, 3.0]], "float32")


@pytest.mark.parametrize(
    ("regularizer", "penalty"),
    [
        (regularizers.L1(0.1), 0.65),
        (regularizers.L2(0.1), 1.425),
        (regularizers.L1L2(0.1, 0.1), 2.075),
        (regularizers.L1L2(), 0.0),
        (regularizers.l1_l2(0.01, 0.01), 0.2075),
    ],
)
def test_penalties_worked_out_by_hand(regularizer, penalty):
    np.testing.assert_allclose(float(regularizer(X)), penalty, rtol=1e-6)


@pytest.mark.parametrize("mode", ["rows", "columns"])
def test_orthogonal_penalty_is_the_mean_cosine(mode):
    rows = X if mode == "rows" else X.T
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    expected = 0.5 * abs(unit[0] @ unit[1])
    penalty = regularizers.OrthogonalRegularizer(0.5, mode)(X)
    np.testing.assert_allclose(float(penalty), expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["L1", "L2", "L1L2", "OrthogonalRegularizer", "l2"])
def test_names_and_configs_come_back(name):
    made = regularizers.get(name)
    again = regularizers.deserialize(regularizers.serialize(made))
    assert type(again) is type(made)
    assert again.get_config() == made.get_config()


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="l1 must be 0 or more, got -1"):
        regularizers.L1(-1)
    with pytest.raises(ValueError, match="l2 must be 0 or more, got nan"):
        regularizers.L2(float("nan"))
    with pytest.raises(ValueError, match="l2 must be a number"):
        regularizers.L2("big")
    with pytest.raises(ValueError, match="'rows' or 'columns'"):
        regularizers.OrthogonalRegularizer(mode="both")
    with pytest.raises(ShapeError, match="takes matrices"):
        regularizers.OrthogonalRegularizer()(np.ones(3))
    with pytest.raises(ValueError, match="is no regularizer"):
        regularizers.get("l3")


def test_a_subclass_with_settings_needs_a_config():
    class Mine(regularizers.Regularizer):
        def __init__(self):
            self.factor = 2

    with pytest.raises(NotImplementedError, match="get_config"):
        Mine().get_config()
