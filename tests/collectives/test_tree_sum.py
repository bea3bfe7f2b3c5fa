"""A sum of leaves has the same bits whoever has them."""

import numpy as np
import pytest

from trainkit.collectives.process_group import ProcessGroup, sum_by_tree
from trainkit.collectives.tree_sum import TreeSum

RANDOM = np.random.default_rng(0)
SHAPES = [(3, 5), (), (17,)]


def leaves_of(count):
    return [[RANDOM.normal(size=s).astype("float32") for s in SHAPES] for _ in range(count)]


class Others(ProcessGroup):
    """A process whose pieces are seen by the test, which adds up those of all."""

    def __init__(self, rank, size, pieces):
        self.rank, self.size, self.pieces = rank, size, pieces

    def sum_pieces(self, pieces, label=""):
        self.pieces.append(pieces)
        return sum_by_tree(np.concatenate(self.pieces))


def total_of(group, leaves, weights):
    """What one process comes to, which has its share of the leaves."""
    each = len(leaves) // group.size
    own = slice(group.rank * each, (group.rank + 1) * each)
    sums = TreeSum(group, len(leaves), np.float32, "leaves")
    for arrays, weight in zip(leaves[own], weights[own], strict=True):
        sums.add(arrays, weight)
    flat = sums.total()
    return [part.tobytes() for part in sums.parts(flat, SHAPES)]


def of_processes(size, leaves, weights):
    """What the last of several comes to, once it has the pieces of all."""
    pieces = []
    return [total_of(Others(rank, size, pieces), leaves, weights) for rank in range(size)][-1]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 7, 8, 12, 20])
def test_bits_do_not_depend_on_the_number_of_processes(count):
    leaves = leaves_of(count)
    weights = [[1.0, 0.3, 0.0][i % 3] for i in range(count)]
    for arrays in leaves[2::3]:
        arrays[0][...] = np.nan  # what counts nothing may be no numbers
    alone = total_of(ProcessGroup(), leaves, weights)
    assert not any(np.isnan(np.frombuffer(part, "float32")).any() for part in alone)
    for size in (n for n in range(2, count + 1) if count % n == 0):
        assert of_processes(size, leaves, weights) == alone, size


def test_leaves_are_added_as_neighbours():
    leaves = [[np.array([x], np.float32)] for x in (1e8, 1.0, -1e8, 1.0, 3.0)]
    sums = TreeSum(ProcessGroup(), 5, np.float32, "leaves")
    for arrays in leaves:
        sums.add(arrays)
    a, b, c, d, e = (x[0][0] for x in leaves)
    assert sums.total()[0] == ((a + b) + (c + d)) + e


def test_zeros_keep_their_sign():
    """A leaf of no weight adds a zero, also where its neighbour is here."""
    negative = [np.array([-0.0], np.float32)]
    sums = TreeSum(ProcessGroup(), 2, np.float32, "leaves")
    sums.add(negative)
    sums.add(negative, 0.0)
    assert not np.signbit(sums.total()[0])


def test_leaves_that_were_dropped_leave_nothing():
    sums = TreeSum(ProcessGroup(), 2, np.float32, "leaves")
    sums.add([np.ones(3, np.float32)])
    sums.drop()
    for _ in range(2):
        sums.add([np.ones(3, np.float32)])
    np.testing.assert_array_equal(sums.total()[:3], [2, 2, 2])
