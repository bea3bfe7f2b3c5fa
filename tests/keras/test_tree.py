"""`keras.tree`: nests of all kinds, in Keras's order."""

from collections import OrderedDict, defaultdict, deque, namedtuple

import numpy as np
import pytest

from trainkit.keras import layers, ops, tree

Point = namedtuple("Point", ["x", "y"])
OtherPoint = namedtuple("OtherPoint", ["x", "y"])

NEST = (
    {"b": [2, None], "a": (1,)},
    OrderedDict([("z", deque([4, 5])), ("y", Point(6, 7))]),
    defaultdict(list, [("q", []), ("p", 8)]),
    9,
)
LEAVES = [1, 2, None, 4, 5, 6, 7, 8, 9]


def same(a, b):
    """Equal, in containers of the same types, dicts in the same order."""
    assert a == b
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, list | tuple | deque):
        for one, other in zip(a, b, strict=True):
            same(one, other)


def test_leaves_come_by_sorted_keys_but_those_of_ordered_dicts_as_they_are():
    assert tree.flatten(NEST) == LEAVES
    assert tree.flatten(3) == [3]
    assert tree.flatten(()) == tree.flatten({}) == tree.flatten(deque()) == []
    paths = [path for path, _ in tree.flatten_with_path(NEST)]
    assert paths[:3] == [(0, "a", 0), (0, "b", 0), (0, "b", 1)]
    assert paths[3:7] == [(1, "z", 0), (1, "z", 1), (1, "y", 0), (1, "y", 1)]
    assert tree.flatten_with_path(1) == [((), 1)]


@pytest.mark.parametrize(
    ("x", "nested"),
    [(x, 1) for x in ([], (), {}, deque(), Point(1, 2), defaultdict(list))]
    + [(x, 0) for x in ("ab", b"ab", {1}, None, np.ones(2), range(3))],
)
def test_what_is_a_nest(x, nested):
    assert tree.is_nested(x) is bool(nested)
    assert tree.is_nested(ops.ones(2)) is False


def test_packing_is_the_way_back_and_keeps_types_and_the_order_of_keys():
    same(tree.pack_sequence_as(NEST, tree.flatten(NEST)), NEST)
    packed = tree.pack_sequence_as(NEST, [10 * (i + 1) for i in range(9)])
    assert packed[0] == {"b": [20, 30], "a": (10,)}
    assert packed[2].default_factory is list
    for wrong in ([1], range(10)):
        with pytest.raises(ValueError, match="9 leaves"):
            tree.pack_sequence_as(NEST, wrong)
    with pytest.raises(TypeError):
        tree.pack_sequence_as([1], 1)


def test_mapping_keeps_the_nest():
    same(tree.map_structure(lambda x: x, NEST), NEST)
    seen = []
    tree.map_structure(seen.append, NEST)
    assert seen == LEAVES
    seen.clear()
    kept = tree.map_structure(seen.append, [None, {"a": 1}], none_is_leaf=False)
    assert seen == [1]
    assert kept == [None, {"a": None}]
    added = tree.map_structure(lambda a, b: a + b, {"b": 1, "a": [2]}, OrderedDict(a=[20], b=10))
    same(added, {"b": 11, "a": [22]})


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([1], (1,)),
        ([1], deque([1])),
        (Point(1, 2), (1, 2)),
        (Point(1, 2), OtherPoint(1, 2)),
        ([1], [1, 2]),
        ([1, [2]], [1, 2]),
        ([1, 2], [1, [2]]),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, [1]),
        (1, [1]),
    ],
)
def test_structures_that_differ(a, b):
    for one, other in ((a, b), (b, a)):
        with pytest.raises(ValueError, match="structure"):
            tree.assert_same_structure(one, other)
        with pytest.raises(ValueError, match="structure"):
            tree.map_structure(lambda x, y: x, one, other)


def test_structures_that_agree():
    tree.assert_same_structure(NEST, tree.map_structure(str, NEST))
    tree.assert_same_structure({"a": 1, "b": 2}, OrderedDict(b=1, a=2))
    tree.assert_same_structure(defaultdict(int, a=1), {"a": None})
    tree.assert_same_paths([1, {"a": 2}], (3, OrderedDict(a=4)))
    with pytest.raises(ValueError, match="b"):
        tree.assert_same_paths({"a": 1}, {"b": 1})
    with pytest.warns(DeprecationWarning, match="check_types"):
        tree.assert_same_structure([1], [2], check_types=False)


def test_containers_of_layers_match_plain_ones():
    class Keeper(layers.Layer):
        def __init__(self):
            super().__init__()
            self.pair, self.list, self.named = (1, 2), [1, 2], {"b": 1, "a": 2}

    keeper = Keeper()
    assert tree.map_structure(max, keeper.pair, (0, 5)) == (1, 5)
    assert tree.map_structure(max, keeper.list, [0, 5]) == [1, 5]
    assert tree.flatten(keeper.named) == [2, 1]


def test_mapping_down_to_a_shallower_structure():
    assert tree.map_structure_up_to([None, None], len, [[1, 1], [2]]) == [2, 1]
    assert tree.map_structure_up_to([0, {"a": 0}], str, [[1], {"a": 2}]) == ["[1]", {"a": "2"}]
    assert tree.map_structure_up_to(0, lambda a, b: (a, b), [1], 2) == ([1], 2)
    for shallower in ([1], [1, 2], [1, (2,)]):
        with pytest.raises(ValueError, match="structure"):
            tree.map_structure_up_to([0, [0]], str, shallower)


def test_visiting_from_the_top_and_from_the_bottom():
    seen = []
    nest = [(1, 2), {"b": 3, "a": [4]}]
    same(tree.traverse(seen.append, nest), nest)
    assert seen == [nest, (1, 2), 1, 2, {"b": 3, "a": [4]}, [4], 4, 3]
    seen.clear()
    tree.traverse(seen.append, nest, top_down=False)
    assert seen == [1, 2, (1, 2), 4, [4], 3, {"b": 3, "a": [4]}, nest]

    def gone(x):
        return tree.MAP_TO_NONE if isinstance(x, tuple) else None

    assert tree.traverse(gone, [(1,), [2]]) == [None, [2]]
    sized = tree.traverse(lambda x: len(x) if tree.is_nested(x) else None, [(1, 2), [3]], False)
    assert sized == 2


def test_lists_become_tuples_and_shapes_are_leaves():
    same(
        tree.lists_to_tuples([1, {"b": [2, [3]], "a": deque([[4]])}]),
        (1, {"b": (2, (3,)), "a": deque([(4,)])}),
    )
    assert tree.map_shape_structure(tuple, [[2, None], {"a": (3,)}]) == [(2, None), {"a": (3,)}]
    assert tree.map_shape_structure(len, (None, 2)) == 2


@pytest.mark.parametrize("name", ["map_structure", "traverse", "map_shape_structure"])
def test_functions_must_be_functions(name):
    with pytest.raises(TypeError, match=name):
        getattr(tree, name)("no function", [1])
    with pytest.raises(ValueError, match="structure"):
        tree.map_structure(len)
    with pytest.raises(ValueError, match="structure"):
        tree.map_structure_up_to([], len)
