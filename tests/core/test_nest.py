"""Nested lists, tuples and dicts."""

import collections
import dataclasses
import types
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
    with pytest.raises(ValueError, match="unknown arguments"):
        tk.nest.map_structure(len, [1], other=3)
    with pytest.raises(ValueError, match="give a structure"):
        tk.nest.map_structure(len)
    with pytest.raises(TypeError, match="can't be called"):
        tk.nest.map_structure(3, [1])
    with pytest.raises(TypeError, match="needs a list of leaves"):
        tk.nest.pack_sequence_as([1], 5)


@dataclasses.dataclass
class Record:
    b: object
    a: object


@pytest.mark.parametrize(
    "x",
    [
        collections.OrderedDict([("b", 1), ("a", 2)]),
        collections.defaultdict(list, {"b": 1, "a": 2}),
        collections.deque([1, 2], maxlen=4),
        Pair(1, [2]),
        Record(1, {"z": 2, "y": 3}),
        types.MappingProxyType({"b": 1, "a": 2}),
    ],
    ids=lambda x: type(x).__name__,
)
def test_kinds_of_containers_and_orders_of_keys_stay(x):
    for y in (nest.map_structure(lambda v: v, x), nest.pack(x, nest.flatten(x))):
        assert type(y) is type(x)
        assert repr(y) == repr(x)
    assert nest.flatten(nest.map_structure(str, x)) == list(map(str, nest.flatten(x)))
    assert repr(nest.map_structure(lambda a, b: b, x, x)) == repr(x)


def test_leaves_are_visited_in_the_order_of_flatten():
    seen = []
    nest.map_structure(seen.append, {"b": 1, "a": [2, {"d": 3, "c": 4}]})
    assert seen == nest.flatten({"b": 1, "a": [2, {"d": 3, "c": 4}]}) == [2, 4, 3, 1]


def test_parts_of_a_deeper_nest():
    assert nest.flatten_up_to({"b": 0, "a": (0, 0)}, {"a": [[1], 2], "b": {"c": 3}}) == [
        [1],
        2,
        {"c": 3},
    ]
    with pytest.raises(ValueError, match="structures differ"):
        nest.flatten_up_to([0, 0], [1])


def test_a_dataclass_is_one_value_at_the_door():
    record = Record(1, 2)
    assert tk.nest.flatten([record, 3]) == [record, 3]
    assert not tk.nest.is_nested(record)
    assert tk.nest.map_structure(lambda x: x, record) is record
    assert tk.nest.flatten({"b": 1, "a": 2}.values()) == [1, 2]


@pytest.mark.parametrize(
    ("a", "b", "error"),
    [
        ([1], (2,), TypeError),
        (Pair(1, 2), (1, 2), TypeError),
        ({"a": 1}, {"b": 1}, ValueError),
        ([1], [[1]], ValueError),
        ({"a": 1}, collections.OrderedDict(a=2), None),
        (["x", (1, 2)], ["y", (3, 4)], None),
    ],
)
def test_same_structures_at_the_door(a, b, error):
    def check(**settings):
        tk.nest.assert_same_structure(a, b, **settings)
        return tk.nest.map_structure(lambda x, y: (x, y), a, b, **settings)

    if error is None:
        assert nest.flatten(check()) == [
            v for row in zip(nest.flatten(a), nest.flatten(b), strict=True) for v in row
        ]
    else:
        with pytest.raises(error, match="structures differ"):
            check()
    if error is TypeError:
        check(check_types=False)


def test_paths_have_keys_positions_and_fields():
    @dataclasses.dataclass
    class Record:
        b: int
        a: list

    structure = {"y": Pair(1, (2,)), "x": Record(3, [4])}
    expected = [(("x", "b"), 3), (("x", "a", 0), 4), (("y", 0), 1), (("y", 1, 0), 2)]
    assert nest.flatten_with_path(structure) == expected
    assert [leaf for _, leaf in expected] == nest.flatten(structure)
    assert nest.flatten_with_path(5) == [((), 5)]


def test_a_shape_is_a_leaf_for_tensorflow_and_a_tuple_for_keras():
    shapes = [tk.TensorShape([2, 3])]
    assert tk.nest.flatten(shapes) == shapes
    assert tk.keras.tree.flatten(shapes) == [2, 3]
    assert tk.keras.tree.pack_sequence_as(shapes, [4, 5]) == [tk.TensorShape([4, 5])]


def test_records_and_other_mappings_are_leaves_for_keras():
    record = types.SimpleNamespace(a=1)
    proxy = types.MappingProxyType({"a": 1})
    assert tk.keras.tree.flatten([record, proxy]) == [record, proxy]
    assert nest.flatten(proxy) == [1]
