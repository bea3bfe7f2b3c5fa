"""Nested lists, tuples and dicts."""

from collections import namedtuple

import pytest

import trainkit as tk
from trainkit.core import nest

Pair = namedtuple("Pair", "a b")


def test_flatten_goes_by_sorted_keys():
    assert nest.flatten({"b": [1, (2,)], "a": {"z": 3}}) == [3, 1, 2]
    assert nest.flatten(5) == [5]
    assert nest.flatten([]) == []
    assert nest.flatten({1: "one", "a": 2}) == ["one", 2]


def test_map_keeps_the_kinds_of_containers():
    done = nest.map_structure(lambda x: x + 1, [Pair(1, 2), (3,), {"k": 4}])
    assert done == [Pair(2, 3), (4,), {"k": 5}]
    assert type(done[0]) is Pair


def test_map_over_several():
    assert nest.map_structure(lambda a, b: a + b, {"x": [1, 2]}, {"x": (3, 4)}) == {"x": [4, 6]}


@pytest.mark.parametrize(("a", "b"), [([1], [1, 2]), ({"a": 1}, {"b": 1}), ([1], 1), ({"a": 1}, 3)])
def test_different_structures_are_an_error(a, b):
    with pytest.raises(ValueError, match="structures differ"):
        nest.map_structure(lambda x, y: x, a, b)


def test_pack_undoes_flatten():
    structure = {"b": [0, (0,)], "a": Pair(0, 0)}
    leaves = [10, 20, 30, 40]
    packed = nest.pack(structure, leaves)
    assert packed == {"b": [30, (40,)], "a": Pair(10, 20)}
    assert list(packed) == ["b", "a"]
    assert nest.flatten(packed) == leaves
    with pytest.raises(ValueError, match="the structure has 4 leaves, 1 were given"):
        nest.pack(structure, [1])


def test_the_door():
    assert tk.nest.flatten([1, [2]]) == [1, 2]
    assert tk.nest.map_structure(lambda a, b: a * b, [2], [3]) == [6]
    assert tk.nest.pack_sequence_as([0, [0]], (1, 2)) == [1, [2]]
    assert tk.nest.is_nested({})
    tk.nest.assert_same_structure([1, 2], [3, 4])
    with pytest.raises(ValueError, match="structures differ"):
        tk.nest.assert_same_structure([1], [1, 2])
    with pytest.raises(TypeError, match="unknown arguments"):
        tk.nest.map_structure(len, [1], other=3)
