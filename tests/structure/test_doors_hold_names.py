"""The doors hold names: no class, and no function that is more than another way to call an op."""

import ast

import pytest

from tests.structure.imports import files, nodes_of, tree_of

DOORS = ("tf", "keras", "array_api")
MOST_OPS = 2

# What prepares arguments or puts a call off until a graph runs, and computes nothing itself.
ARGUMENTS = frozenset(
    """
    plain reduced count_of needs_values is_later later like unknown rows as_tensor
    check_count summed_dtype
    """.split()
)
CONVERSIONS = {"np.array", "np.asarray"}

# Functions of doors that use more operations, each with the reason. They may only get fewer.
FUNCTIONS: dict[str, str] = {}

# Classes in doors, each with the reason. They may only get fewer.
CLASSES = {
    "array_api.data_types.NamespaceInfo": "tells of the namespace itself, as the standard asks"
}


def imported_ops(tree: ast.Module, door: str) -> set[str]:
    """The names at the top of a file that stand for operations, or for functions of its door."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            from_ops = node.module.split(".")[:2] == ["trainkit", "ops"]
            if from_ops or node.module.startswith(f"trainkit.{door}."):
                found |= {alias.asname or alias.name for alias in node.names}
    return {name for name in found if name.lstrip("_") not in ARGUMENTS and name.islower()}


def own_names(function: ast.AST) -> set[str]:
    """The arguments and variables of a function and of those inside it."""
    found = {part.arg for part in ast.walk(function) if isinstance(part, ast.arg)}
    for part in ast.walk(function):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            found.add(part.id)
    return found


def dotted(node: ast.AST) -> str:
    """The text `ops.image.resize` of such an expression; empty for any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


def ops_in(function: ast.AST, named: set[str]) -> set[str]:
    """The operations, and functions of NumPy, that stand anywhere in a function."""
    found = set()
    for part in ast.walk(function):
        name = dotted(part)
        if isinstance(part, ast.Attribute) and name.startswith("ops."):
            found.add(name)
        elif isinstance(part, ast.Name) and part.id in named:
            found.add(part.id)
        elif isinstance(part, ast.Call) and dotted(part.func).startswith("np."):
            found.add(dotted(part.func))
        elif isinstance(part, ast.Subscript) and dotted(part.value) == "PRIMITIVES":
            found.add(ast.unparse(part))
    return {
        name for name in found - CONVERSIONS if not any(o.startswith(name + ".") for o in found)
    }


def used_ops(tree: ast.Module, door: str) -> dict[str, set[str]]:
    """For each function at the top of a file the operations that it and its helpers use.

    A helper is a function of the same file whose name begins with `_`; another function of the
    file counts as one operation.
    """
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    named = imported_ops(tree, door) | functions.keys()

    def reached(name: str, above: frozenset[str]) -> set[str]:
        its = ops_in(functions[name], named - own_names(functions[name]) - {name})
        helpers = {used for used in its if used in functions and used.startswith("_")}
        return (its - helpers).union(*(reached(h, above | {h}) for h in helpers - above))

    return {name: reached(name, frozenset({name})) for name in functions}


def door_files() -> list[tuple[str, str, ast.Module]]:
    """The files of doors: the door, the name of the module below `trainkit.`, and the tree."""
    return [
        (name.split(".")[1], name.removeprefix("trainkit."), tree_of(path))
        for name, path in files().items()
        if name.count(".") and name.split(".")[1] in DOORS
    ]


def large_functions() -> dict[str, set[str]]:
    return {
        f"{module}.{name}": its
        for door, module, tree in door_files()
        for name, its in used_ops(tree, door).items()
        if len(its) > MOST_OPS
    }


def classes() -> set[str]:
    return {
        f"{module}.{node.name}"
        for _, module, tree in door_files()
        for node in nodes_of(tree)
        if isinstance(node, ast.ClassDef)
    }


def test_no_function_of_a_door_is_made_of_operations():
    found = [
        f"{name} uses {', '.join(sorted(its))}"
        for name, its in large_functions().items()
        if name not in FUNCTIONS
    ]
    assert not found, "\n".join(["these belong in ops; the door gives them a name", *found])


def test_no_class_stands_in_a_door():
    found = sorted(classes() - CLASSES.keys())
    assert not found, "\n".join(["these belong below the doors", *found])


def test_exceptions_are_still_needed():
    assert FUNCTIONS.keys() <= large_functions().keys()
    assert CLASSES.keys() <= classes()
    assert all(reason.strip() for reason in [*FUNCTIONS.values(), *CLASSES.values()])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(x): return ops.cast(ops.sum(x), x.dtype)", {"ops.cast", "ops.sum"}),
        ("def f(x): return ops.image.resize(x)", {"ops.image.resize"}),
        ("def f(x): return _g(x)\ndef _g(x): return ops.add(np.sqrt(x), x)",
         {"ops.add", "np.sqrt"}),
        ("def f(x): return g(x)\ndef g(x): return ops.add(ops.exp(x), x)", {"g"}),
        ("def f(x): return _g(x)\ndef _g(x): return _g(x) or _h(x)\ndef _h(x): return ops.exp(x)",
         {"ops.exp"}),
        ("from trainkit.ops.some import total\ndef f(x): return total(x)", {"total"}),
        ("from trainkit.ops.some import total\ndef f(total): return total", set()),
        ("from trainkit.ops.some import plain\ndef f(x): return plain(x)", set()),
        ("from trainkit.tf.math import top\ndef f(x): return map(top, x)", {"top"}),
        ("def f(x): return PRIMITIVES['identity'].op(np.asarray(x))", {"PRIMITIVES['identity']"}),
    ],
)  # fmt: skip
def test_operations_are_counted_through_helpers(source, expected):
    assert used_ops(ast.parse(source), "tf")["f"] == expected
