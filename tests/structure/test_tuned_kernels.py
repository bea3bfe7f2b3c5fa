"""Tuned kernels are declared: dispatch asks them, and bodies hold the plain computation alone."""

import ast

import pytest

from tests.structure.imports import files, tree_of


def names_of_tuned(tree):
    """What a file calls modules `*_tuned`, and things of them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            is_of_tuned = (node.module or "").endswith("_tuned")
            for name in node.names:
                if is_of_tuned or name.name.endswith("_tuned"):
                    yield name.asname or name.name


def asked_in_bodies(tree):
    """(line, function, name): where a body, or a part of one, asks a tuned kernel.

    A function that takes `xp` computes on any device; what serves NumPy arrays alone has no `xp`.
    """
    tuned = set(names_of_tuned(tree))
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.Lambda):
            continue
        if "xp" not in [argument.arg for argument in function.args.args]:
            continue
        parts = function.body if isinstance(function.body, list) else [function.body]
        for node in (node for part in parts for node in ast.walk(part)):
            if isinstance(node, ast.Name) and node.id in tuned:
                yield node.lineno, getattr(function, "name", "lambda"), node.id


def test_no_body_asks_a_tuned_kernel():
    found = {
        f"{name}:{line}": f"{function} asks {tuned}"
        for name, path in files().items()
        if name.startswith("trainkit.ops.")
        for line, function, tuned in asked_in_bodies(tree_of(path))
    }
    assert not found, f"give it with @primitive(tuned=...), see docs/kernels.md: {found}"


IMPORTS = "from trainkit.kernels.x import x_tuned\nfrom trainkit.kernels.y.y_tuned import y as z\n"


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("def body(xp, a):\n    return x_tuned.run(a) if xp is np else a", 1),
        ("def body(xp, a):\n    def part(b):\n        return z(b)\n    return part(a)", 1),
        ("op(lambda xp, a: z(a))", 1),
        ("def compiled(a):\n    return z(a)", 0),
        ("@primitive(rule, tuned=Tuned(x_tuned.run))\ndef body(xp, a):\n    return a", 0),
    ],
)
def test_a_question_is_found(source, count):
    assert len(list(asked_in_bodies(ast.parse(IMPORTS + source)))) == count
