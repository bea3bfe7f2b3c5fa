"""Operations are imported, or listed in `late_ops`: nothing looks them up by a name in a text."""

import ast

import pytest

import trainkit as tk
from tests.structure.imports import files, nodes_of, tree_of
from trainkit.core.dispatch import late_ops
from trainkit.core.tensor import PRIMITIVES

# Files that have names of operations as data, each with where they come from.
BY_DATA = {
    "trainkit.core.dispatch.primitive": "declares them",
    "trainkit.layers.base.keras_tensor": "a model's config",
    "trainkit.saved_graph.onnx.rules.onnx_form": "the table of ONNX forms, by operations' names",
}


def looked_up(tree):
    """Lines with `PRIMITIVES[...]`, and whether a text stands in it."""
    return [
        (node.lineno, isinstance(node.slice, ast.Constant))
        for node in nodes_of(tree)
        if isinstance(node, ast.Subscript) and getattr(node.value, "id", None) == "PRIMITIVES"
    ]


def used(tree):
    """Names that are read of `late_ops`."""
    return {
        node.attr
        for node in nodes_of(tree)
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == "late_ops"
    }


def test_no_operation_is_looked_up_by_a_text():
    lines = [
        f"{name}, line {line}"
        for name, path in files().items()
        for line, is_text in looked_up(tree_of(path))
        if is_text or name not in BY_DATA
    ]
    advice = (
        "import the operation from its file, or, below `ops`, list it in core/dispatch/late_ops.py"
    )
    assert not lines, "\n".join([advice, *lines])


def test_what_is_listed_is_there_and_needed():
    names = set().union(*(used(tree_of(path)) for path in files().values())) - {"provide"}
    assert names == late_ops.NAMES
    assert tk.ops.convert_to_tensor  # declares them all
    for name in late_ops.NAMES:
        assert getattr(late_ops, name) is PRIMITIVES[name].op, name


def test_an_operation_that_is_not_listed_is_not_there():
    assert "sin" in PRIMITIVES
    with pytest.raises(AttributeError, match="sin"):
        _ = late_ops.sin


def test_look_ups_are_seen():
    source = 'PRIMITIVES["cast"].op(x)\nPRIMITIVES[name]\nOTHERS["cast"]\nlate_ops.cast(x)'
    assert sorted(looked_up(ast.parse(source))) == [(1, True), (2, False)]
    assert used(ast.parse(source)) == {"cast"}
