"""Facts of operations stand in their records: nothing compares their names, or lists them."""

import ast
import functools

import pytest

import trainkit  # noqa: F401  (declares the operations)
from tests.structure.imports import files, nodes_of, tree_of
from trainkit.core.tensor import PRIMITIVES

# Names in these are no operations', though they are the same words.
OTHER_NAMES = {
    "primitive": "the registry itself",
    "cuda_functions": "functions of NumPy, as CUDA has them",
    "formula_text": "functions of NumPy, as Numba compiles them",
    "formulas": "functions of elements that are no ufuncs of NumPy",
    "keras_rules": "what files call them: the format of Keras, not what they are",
    "llvm_functions": "functions of NumPy, as LLVM has them",
    "tracer": "functions of NumPy, as arrays that are traced have them",
    "scatter_reference": "ufuncs of NumPy",
    "scattering": "ways to combine, as NumPy's ufuncs are called",
    "special_compiled": "functions of NumPy, as kernels of formulas have them",
    "spectrograms": "modes of a layer, as Keras calls them",
    "standalone": "the reader is one file that imports nothing of trainkit",
}


def is_name_of_primitive(node):
    """Whether this is `primitive.name`, `node.primitive.name` or the like."""
    if not (isinstance(node, ast.Attribute) and node.attr == "name"):
        return False
    owner = node.value.attr if isinstance(node.value, ast.Attribute) else node.value
    return (owner if isinstance(owner, str) else getattr(owner, "id", "")) in ("primitive", "prim")


def comparisons(nodes):
    """The lines that ask for the name of a primitive: `==`, `in`, `table[...]`, `.get(...)`."""
    for node in nodes:
        if isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        elif isinstance(node, ast.Subscript):
            asked = [node.slice]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("get", "pop"):
            is_registry = getattr(node.func.value, "id", "") == "PRIMITIVES"
            asked = [] if is_registry else node.args
        else:
            continue
        if any(map(is_name_of_primitive, asked)):
            yield node.lineno


def words_of(node):
    """The strings of a set, of keys of a dict, of a tuple, or of a text that is split up."""
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "split":
        text = getattr(node.func.value, "value", None)
        return text.split() if isinstance(text, str) else []
    parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
    return [x.value for x in parts if isinstance(x, ast.Constant) and isinstance(x.value, str)]


_LISTS = (ast.Set, ast.Dict, ast.Tuple, ast.List, ast.Call)


def listed(nodes):
    """The lines of lists of three operations or more, with the names."""
    for node in nodes:
        if isinstance(node, _LISTS):
            words = words_of(node)
            names = [word for word in words if word in PRIMITIVES]
            if len(names) >= 3 and len(names) > len(words) / 2:
                yield node.lineno, names


@functools.cache
def counted():
    """How many names each module lists, and how often it compares them."""
    lists, compared = {}, {}
    for name, path in files().items():
        if path.stem not in OTHER_NAMES:
            nodes = nodes_of(tree_of(path))
            lists[name] = sum(len(names) for _, names in listed(nodes))
            compared[name] = len(list(comparisons(nodes)))
    return lists, compared


def test_nothing_lists_operations_by_name():
    lists, _ = counted()
    found = {name: n for name, n in lists.items() if n}
    assert not found, (
        f"declare a facet of these operations instead (core/dispatch/facets.py): {found}"
    )


def test_nothing_compares_names_of_operations():
    _, compared = counted()
    found = {name: n for name, n in compared.items() if n}
    assert not found, f"ask for a facet of the operation instead (core/dispatch/facets.py): {found}"


@pytest.mark.parametrize(
    "source",
    [
        "if node.primitive.name == 'cond': pass",
        "known = primitive.name in TABLE",
        "rule = RULES.get(prim.name)",
        "rule = RULES[node.primitive.name]",
    ],
)
def test_a_comparison_is_found(source):
    assert list(comparisons(ast.walk(ast.parse(source)))) == [1]


@pytest.mark.parametrize(
    "source",
    ["TABLE = {'add': 1, 'matmul': 2, 'reshape': 3}", "NAMES = set('add matmul sum'.split())"],
)
def test_a_list_is_found(source):
    assert [len(names) for _, names in listed(ast.walk(ast.parse(source)))] == [3]


def test_texts_and_the_registry_are_no_comparisons():
    source = "f'{primitive.name}: no'; known = PRIMITIVES.get(primitive.name) is primitive"
    assert not list(comparisons(ast.walk(ast.parse(source))))
    assert not list(listed(ast.walk(ast.parse("words = ('add', 'more', 'of', 'them')"))))
