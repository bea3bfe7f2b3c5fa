"""Classes can be held in the head: few bases, no state behind `__setattr__`; counts only fall."""

import ast

import pytest

import trainkit as tk
from tests.structure.imports import PACKAGE, import_graph, nodes_of, tree_of

DEPTHS = {  # classes from which one inherits, itself included and `object` left out
    tk.layers.Layer: 3,
    tk.layers.Dense: 4,
    tk.Model: 5,
    tk.Sequential: 6,
}
CASTS_OF_SELF = 0
SILENT_WRITES = 82
COLLECTIVES = 23

_HOMES = ("trainkit.collectives", "trainkit.distribution")
_CHANGES = ("update", "setdefault", "pop", "clear")


def depth(kind):
    """How many classes there are to read for one."""
    return len(kind.__mro__) - 1


def is_cast_of_self(node):
    """Whether a method calls itself by another name, so that nobody sees what it has."""
    return (
        isinstance(node, ast.AnnAssign)
        and ast.unparse(node.annotation) == "Any"
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )


def is_dict_of_object(node):
    return isinstance(node, ast.Attribute) and node.attr == "__dict__"


def is_silent_write(node):
    """Whether an attribute is set, or taken away, past `__setattr__`."""
    if isinstance(node, ast.Subscript):
        return not isinstance(node.ctx, ast.Load) and is_dict_of_object(node.value)
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    method, owner = node.func.attr, node.func.value
    if method == "__setattr__":
        return isinstance(owner, ast.Name) and owner.id == "object"
    return method in _CHANGES and is_dict_of_object(owner)


def count(matches):
    """How many nodes of the package match."""
    trees = [tree_of(path) for path in sorted(PACKAGE.rglob("*.py"))]
    return sum(matches(node) for tree in trees for node in nodes_of(tree))


@pytest.mark.parametrize("kind", DEPTHS, ids=lambda kind: kind.__name__)
def test_a_class_has_few_bases(kind):
    assert depth(kind) <= DEPTHS[kind], (
        f"{kind.__name__} has {[base.__name__ for base in kind.__mro__]}: give it an object, or "
        "call functions, in place of a base"
    )


def test_no_method_hides_what_it_has():
    assert count(is_cast_of_self) <= CASTS_OF_SELF, "declare what a mixin needs as attributes"


def test_attributes_are_set_as_attributes():
    assert count(is_silent_write) <= SILENT_WRITES, (
        "name it in `_untracked` and set it as any attribute; or call `set_silently`, in a layer"
    )


def test_few_files_know_of_replicas():
    files = [
        name
        for name, found in import_graph().items()
        if not name.startswith(_HOMES) and any(x.target.startswith(_HOMES[0]) for x in found)
    ]
    assert len(files) <= COLLECTIVES, "\n".join([*files, "ask an operation or a strategy instead"])


@pytest.mark.parametrize(
    ("text", "number"),
    [("me: Any = self", 1), ("me: Any = other", 0), ("first: Node | None = self", 0)],
)
def test_what_counts_as_a_cast(text, number):
    assert sum(map(is_cast_of_self, ast.walk(ast.parse(text)))) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("x.__dict__['a'] = y = 1", 1),
        ("a, x.__dict__['a'] = 1, 2", 1),
        ("del x.__dict__['a']", 1),
        ("x.__dict__.update(a=1); x.__dict__.pop('a')", 2),
        ("object.__setattr__(x, 'a', 1)", 1),
        ("y = x.__dict__['a'] or x.__dict__.get('a')", 0),
        ("super().__setattr__('a', 1); x.a = 1", 0),
    ],
)
def test_what_counts_as_a_silent_write(text, number):
    assert sum(map(is_silent_write, ast.walk(ast.parse(text)))) == number
