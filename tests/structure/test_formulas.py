"""A formula has few texts: kernels of elements are written from the operation's own."""

import ast
import functools

import pytest

from tests.structure.imports import files, nodes_of, tree_of

# Kernels of one element whose formula is no operation's, and why.
BY_HAND = dict.fromkeys(
    ("where", "where_or_number", "number_where", "keep_where"), "one function of NumPy"
)

# Numbers that stand in every text of a formula, and the texts that there are. ONNX has the formula
# of GELU as its runtimes look for it; `standalone` imports nothing of trainkit.
TEXTS = {
    1.986648191844802e-06: (  # the error function of float32
        "trainkit.kernels.elementwise.elementwise_reference",
        "trainkit.saved_graph.standalone",
    ),
    2.1165280294169975e-07: (  # the tail of the normal distribution, which GELU takes
        "trainkit.kernels.elementwise.elementwise_reference",
        "trainkit.saved_graph.standalone",
    ),
    1.0507009873554805: (  # SELU
        "trainkit.kernels.elementwise.elementwise_reference",
        "trainkit.saved_graph.onnx.rules.activations_forms",
        "trainkit.saved_graph.standalone",
    ),
    0.044715: (  # GELU by tanh
        "trainkit.kernels.elementwise.elementwise_reference",
        "trainkit.saved_graph.onnx.rules.activations_forms",
        "trainkit.saved_graph.standalone",
    ),
}


SHIFTED = ("trainkit.kernels.softmax.softmax_reference", "trainkit.saved_graph.standalone")
"""The files in which arrays are shifted by their maximum, of which softmax takes the powers."""


def shifts_by_maximum(tree):
    """Whether a file takes `x - x.max(..., keepdims=True)` of arrays."""
    return any(
        isinstance(node.op, ast.Sub)
        and isinstance(node.right, ast.Call)
        and getattr(node.right.func, "attr", "") == "max"
        and any(keyword.arg == "keepdims" for keyword in node.right.keywords)
        for node in nodes_of(tree)
        if isinstance(node, ast.BinOp)
    )


def formulas_by_hand(tree):
    """The functions of a file that are compiled as the formula of a kernel."""
    for node in nodes_of(tree):
        if isinstance(node, ast.FunctionDef):
            makers = [getattr(call, "func", call) for call in node.decorator_list]
            if any(getattr(maker, "id", "") == "by_element" for maker in makers):
                yield node.name


def numbers(tree):
    """The numbers that stand in a file."""
    return {
        node.value
        for node in nodes_of(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, float)
    }


@functools.cache
def texts():
    """For each of the numbers in `TEXTS` the files in which it stands."""
    files_of = {number: set() for number in TEXTS}
    for file, path in files().items():
        for number in numbers(tree_of(path)) & files_of.keys():
            files_of[number].add(file)
    return files_of


def test_kernels_of_elements_are_written_from_formulas_of_operations():
    found = {
        name
        for file, path in files().items()
        if file.startswith("trainkit.kernels.")
        for name in formulas_by_hand(tree_of(path))
    }
    assert found == set(BY_HAND), (
        "write the formula in elementwise_reference.py and the kernel with by_formula "
        "(docs/kernels.md), or say in BY_HAND why it has another one"
    )


@pytest.mark.parametrize("number", TEXTS)
def test_a_formula_has_these_texts(number):
    assert texts()[number] == set(TEXTS[number]), "call the formula that there is, or trace it"


def test_softmax_of_arrays_has_these_texts():
    texts_of_softmax = {file for file, path in files().items() if shifts_by_maximum(tree_of(path))}
    assert texts_of_softmax == set(SHIFTED), "call softmax_reference"


def test_a_formula_and_a_number_are_seen():
    source = "@by_element(FLAT)\ndef twice(x):\n    return x * 2.5\n\ndef other(x): return x"
    assert list(formulas_by_hand(ast.parse(source))) == ["twice"]
    assert numbers(ast.parse(source)) == {2.5}
    assert shifts_by_maximum(ast.parse("y = np.exp(x - x.max(axis=1, keepdims=True))"))
    assert not shifts_by_maximum(ast.parse("y = x - np.abs(x.max(axis=1))"))
