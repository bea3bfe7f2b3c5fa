"""Signatures of what users write come from one function, so that annotations may name anything."""

import ast
from pathlib import Path

import trainkit

PACKAGE = Path(trainkit.__file__).parent
# Those of the package's own functions alone; the last one runs without the package.
OWN = ("kernels/", "core/values/python_signatures.py", "saved_graph/standalone.py")


def test_annotations_of_users_are_not_computed():
    reads = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        text = path.read_text()
        if name.startswith(OWN) or "inspect.signature(" not in text:
            continue
        reads += [
            f"{name}:{node.lineno}"
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "inspect.signature"
        ]
    assert not reads, "take signature_of of core/values/python_signatures.py"
