"""Tuned kernels are declared: dispatch asks them, and bodies hold the plain computation alone."""

import ast

import pytest

from tests.structure.imports import files, nodes_of, tree_of


def names_of_tuned(tree):
    """What a file calls modules `*_tuned`, and things of them."""
    for node in nodes_of(tree):
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
    for function in nodes_of(tree):
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


MAKERS = {"array", "empty", "full", "ones", "zeros"}


def freed_before_their_last_use(tree):
    """(line, name): local arrays of compiled bodies that are read by address, and not kept alive.

    Numba frees an array after the last line that names it, whoever has its address.
    """
    for function in nodes_of(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        made, by_address, kept_alive = {}, set(), set()
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                maker = node.value.func
                if isinstance(maker, ast.Attribute) and maker.attr in MAKERS:
                    made |= {target.id: node.lineno for target in node.targets}
            elif isinstance(node, ast.Attribute) and node.attr == "ctypes":
                by_address |= {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "keep_alive":
                kept_alive |= {argument.id for argument in node.args}
        for name in (made.keys() & by_address) - kept_alive:
            yield made[name], name


def test_no_compiled_body_works_on_freed_memory():
    freed = {
        f"{file}:{line}": name
        for file, path in files().items()
        if file.startswith("trainkit.kernels.") and file.endswith("_compiled")
        for line, name in freed_before_their_last_use(tree_of(path))
    }
    assert not freed, f"end with keep_alive of kernels/jit/local_arrays.py: {freed}"


@pytest.mark.parametrize(
    ("end", "freed"), [("fill(at)", [(2, "room")]), ("fill(at)\n    keep_alive(room)", [])]
)
def test_an_array_that_is_freed_too_early_is_seen(end, freed):
    source = f"def part(n):\n    room = np.empty(n)\n    at = room.ctypes.data\n    {end}"
    assert list(freed_before_their_last_use(ast.parse(source))) == freed
