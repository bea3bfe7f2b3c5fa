"""One compiler: what notes operations, holds them as a line, or writes code is known, and few.

Each list may only become shorter. What does not fit into one of those that there are is a reason to
extend it, not to write another.
"""

import ast
import re

import pytest

from tests.structure.imports import files, nodes_of, tree_of

TRACERS = {
    "trainkit.autodiff.vjps_on_arrays": "_StandIn",  # gradient rules, of which arrays are asked
    "trainkit.compiler.tracer": "TracedArray",  # bodies of kernels, with shapes
    "trainkit.core.dispatch.formulas": "TracedElements",  # formulas of elements, without
    "trainkit.graph.ir.nodes": "GraphTensor",  # functions
    "trainkit.layers.base.keras_tensor": "KerasTensor",  # functional models
    "trainkit.ops.core.vmap": "BatchedTensor",  # one more axis
}
"""Classes that stand for arrays or tensors while operations are noted."""

LINES = {
    "trainkit.compiler.ir": ("Elementwise", "NumpyLoop", "KernelCall"),  # on views of memory
    "trainkit.core.dispatch.formulas": ("ArrayCall",),  # on arrays or elements
    "trainkit.core.dispatch.straight_line": ("PrimitiveStep",),  # on symbols
}
"""Classes of one step of a straight line: what is called, and on what."""

WRITERS_OF_PYTHON = {
    "trainkit.core.dispatch.straight_line": "gradient rules and updates of weights",
    "trainkit.graph.runtime.program": "graphs",
    "trainkit.kernels.jit.array_kernel": "calls of kernels, for layouts of their arrays",
    "trainkit.kernels.jit.builders": "functions for Numba",
}
"""Files that write functions of Python as text."""

RUNNERS_OF_PYTHON = {
    "trainkit.cli.run": "a user's program",
    "trainkit.graph.autograph.source_map": "a user's function, rewritten; a line that raises",
}
"""Files that compile text of users."""

WRITERS_OF_LLVM = {
    "trainkit.compiler.llvm.module": "fused loops and rules of optimizers",
    "trainkit.kernels.elementwise.parallel_ufuncs": "NumPy's loops in parts; one text",
    "trainkit.kernels.jit.object_code": "what older processors lack; one text",
    "trainkit.kernels.jit.python_entry": "entries of kernels",
    "trainkit.kernels.threads.pool_code": "the thread pool; one text",
}
"""Files that hold functions in LLVM's language."""

CUDA_BY_HAND = 23
"""Files that hold CUDA kernels, the compiler's own among them."""

FUNCTION_OF_LLVM = re.compile(r"\bdefine [^\n]*@")


def is_text_compiled(call):
    """Whether a call is `exec(...)`, or `compile(..., "exec")`."""
    name = getattr(call.func, "id", "")
    modes = [part.value for part in call.args if isinstance(part, ast.Constant)]
    return name == "exec" or (name == "compile" and "exec" in modes)


def texts_of(tree):
    """The texts that stand in a file, in parts where something is put in."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def classes_of(tree):
    """(class, names of its bases, names of its fields) of a file."""
    for node in nodes_of(tree):
        if isinstance(node, ast.ClassDef):
            bases = {getattr(base, "id", getattr(base, "attr", "")) for base in node.bases}
            fields = {item.target.id for item in node.body if isinstance(item, ast.AnnAssign)}
            yield node.name, bases, fields


def tracers_of(tree):
    """The classes of a file that stand for arrays or tensors."""
    for name, bases, _ in classes_of(tree):
        if bases & {"SymbolicTensor", "NDArrayOperatorsMixin"}:
            yield name


def lines_of(tree):
    """The classes of a file that are one step: what is called, and on what."""
    for name, _, fields in classes_of(tree):
        called = fields & {"function", "primitive", "ufunc"} or {"name", "out"} <= fields
        if called and fields & {"inputs", "operands", "sources"}:
            yield name


def writes_llvm(tree):
    return any(FUNCTION_OF_LLVM.search(text) for text in texts_of(tree))


def writes_cuda(tree):
    return any("__global__" in text for text in texts_of(tree))


def compiles_text(tree):
    return any(is_text_compiled(node) for node in nodes_of(tree) if isinstance(node, ast.Call))


def files_that(question):
    """The files of the package for whose trees a question is answered by yes."""
    return {file for file, path in files().items() if question(tree_of(path))}


def test_tracers_are_known():
    tracers = {(file, name) for file, path in files().items() for name in tracers_of(tree_of(path))}
    assert tracers == set(TRACERS.items()), "note operations by a tracer that there is"


def test_straight_lines_are_known():
    lines = {file: tuple(lines_of(tree_of(path))) for file, path in files().items()}
    assert {file: names for file, names in lines.items() if names} == LINES, (
        "let it be steps of a line that there is"
    )


def test_writers_of_python_are_known():
    assert files_that(compiles_text) == WRITERS_OF_PYTHON.keys() | RUNNERS_OF_PYTHON.keys(), (
        "write closures, or let FunctionText of core/dispatch/straight_line.py put it together"
    )


def test_writers_of_llvm_are_known():
    assert files_that(writes_llvm) == WRITERS_OF_LLVM.keys(), "let the compiler write it"


def test_files_with_cuda_by_hand_become_fewer():
    assert len(files_that(writes_cuda)) == CUDA_BY_HAND, (
        "let the compiler write it from a body (docs/kernels.md); where there is one file less, "
        "say so here"
    )


@pytest.mark.parametrize(
    ("question", "yes", "no"),
    [
        (compiles_text, "exec(text)", "run(text)"),
        (compiles_text, "compile(text, 'file', 'exec')", "kernel.compile(text, 'exec')"),
        (writes_llvm, "x = f'define ptr @{name}(i64 %x) {{'", "x = 'define a function'"),
        (writes_cuda, "x = 'extern __global__ void f() {}'", "x = '__device__ int f() {}'"),
        (lambda tree: [*tracers_of(tree)], "class A(nodes.SymbolicTensor): ...", "class A: ..."),
        (
            lambda tree: [*lines_of(tree)],
            "class A:\n    ufunc: object\n    inputs: tuple",
            "class A:\n    inputs: tuple\n    outputs: tuple",
        ),
    ],
)
def test_each_kind_is_seen(question, yes, no):
    assert question(ast.parse(yes))
    assert not question(ast.parse(no))
