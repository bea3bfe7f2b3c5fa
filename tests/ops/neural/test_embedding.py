"""Rows of a table by number."""

import numpy as np
import pytest

from trainkit import ops
from trainkit.autodiff.tape import GradientTape
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.variable import Variable


def test_rows_come_in_the_order_of_their_numbers(rng):
    table = rng.normal(size=(5, 3)).astype("float32")
    ids = np.array([[4, 0], [0, 2]])
    np.testing.assert_array_equal(ops.embedding_lookup(table, ids).numpy(), table[ids])


@pytest.mark.parametrize("count", [0, 1, 40])
def test_the_gradient_adds_rows_up_by_their_number(rng, count):
    table = Variable(rng.normal(size=(5, 3)))
    ids, weights = rng.integers(0, 5, count), rng.normal(size=(count, 3))
    with GradientTape() as tape:
        loss = ops.sum(ops.embedding_lookup(table, ids) * weights)
    expected = np.zeros((5, 3))
    np.add.at(expected, ids, weights)
    np.testing.assert_allclose(tape.gradient(loss, table).numpy(), expected, atol=1e-12)


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("number", [-1, 5])
def test_a_number_that_is_no_row_is_named(number):
    with pytest.raises(InvalidArgumentError, match=rf"ids\[1, 0\] = {number} is not in \[0, 5\)"):
        ops.embedding_lookup(np.ones((5, 3)), [[0, 1], [number, 2]])


def test_numbers_must_be_integers():
    with pytest.raises(InvalidArgumentError, match="float32"):
        ops.embedding_lookup(np.ones((5, 3)), [0.0, 1.0])
