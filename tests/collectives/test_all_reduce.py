"""Sums over replicas that are threads: values, and gradients against differences."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.collectives.replica import GlobalRows, Replica
from trainkit.collectives.thread_group import ThreadGroup
from trainkit.collectives.turns import Turns
from trainkit.ops.collective.all_reduce import all_reduce

ROWS = [GlobalRows(0, 1, 4), GlobalRows(1, 3, 4)]
"""Replicas count by their rows: a quarter and three quarters."""


def in_replicas(function):
    """What `function(rank)` gives in each of two replicas."""
    turns = Turns(2)

    def work(rank):
        with Replica(ThreadGroup(turns, rank), ROWS[rank], averages=True):
            return function(rank)

    return turns.run(work)


X = [np.array([1.0, -2.0]), np.array([0.5, 3.0])]


def losses(values, weight):
    """The loss of each replica, which depends on the sum over both."""

    def loss(rank):
        x = tk.constant(values[rank])
        (total,) = all_reduce([x * x], weight=weight)
        return float(tk.reduce_sum(tk.sin(total) * (rank + 1.0) * x))

    return in_replicas(loss)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_gradients_are_those_of_the_weighted_sum_of_losses(compiled, weight):
    def gradient(rank):
        def of(x):
            with tk.GradientTape() as tape:
                tape.watch(x)
                (total,) = all_reduce([x * x], weight=weight)
                loss = tk.reduce_sum(tk.sin(total) * (rank + 1.0) * x)
            return tape.gradient(loss, x)

        return (tk.function(of) if compiled else of)(tk.constant(X[rank])).numpy()

    found = in_replicas(gradient)
    counts = [rows.size / rows.total for rows in ROWS]
    for rank in (0, 1):
        for i in range(2):
            sides = []
            for step in (1e-6, -1e-6):
                moved = [x.copy() for x in X]
                moved[rank][i] += step
                sides.append(np.dot(counts, losses(moved, weight)))
            expected = (sides[0] - sides[1]) / 2e-6
            # a replica's gradient counts by its rows when the gradients of all are added up
            assert counts[rank] * found[rank][i] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("reduction", ["SUM", "MAX", "MIN"])
def test_tensors_of_several_dtypes_travel_together(reduction):
    def reduce(rank):
        given = [tk.constant([1.0, 5.0 * rank]), tk.constant(rank), tk.ones((2, 2), "float16")]
        return [x.numpy().tolist() for x in all_reduce(given, reduction)]

    first, second = in_replicas(reduce)
    assert first == second
    expected = {"SUM": [[2, 5], 1, 2.0], "MAX": [[1, 5], 1, 1.0], "MIN": [[1, 0], 0, 1.0]}
    assert first[:2] == expected[reduction][:2]
    assert first[2][0][0] == expected[reduction][2]


def test_alone_nothing_is_joined():
    (x,) = all_reduce([3.0], weight=2.0)
    assert float(x) == 6.0


def test_other_reductions_have_no_gradient():
    def of(rank):
        x = tk.constant([1.0])
        with tk.GradientTape() as tape:
            tape.watch(x)
            (most,) = all_reduce([x], "MAX")
        return tape.gradient(most, x)

    with pytest.raises(tk.errors.FailedPreconditionError, match="'MAX' has no gradient"):
        in_replicas(of)
