"""Rooms whose code is dense say why: a share of their lines are comments."""

import ast
import io
import re
import tokenize

import pytest

from tests.structure.imports import PACKAGE

ROOMS = (
    "compiler",
    "core/dispatch",
    "graph/control_flow",
    "graph/runtime",
    "kernels/convolution",
    "kernels/jit",
    "layers/base",
    "optimizers/base",
)
FEWEST = 40
"""Comments in 1,000 lines of code; Keras has 58, JAX 110."""

FOR_TOOLS = re.compile(r"#\s*(noqa|type:|fmt:|ruff:|mypy:|pragma|cython:|distutils:)")
DOCSTRING = re.compile(r'"""[\s\S]*?"""')
NO_CODE = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def python_counts(source):
    """Lines of code, without docstrings, and comments, without those for tools."""
    docstrings, code, comments = set(), set(), 0
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docstrings.update(range(node.lineno, node.end_lineno + 1))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comments += FOR_TOOLS.match(token.string) is None
        elif token.type not in NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings), comments


def cython_counts(source):
    """The same of Cython, which Python can't read."""
    lines = [line.strip() for line in DOCSTRING.sub("", source).splitlines()]
    comments = [match[0] for line in lines if (match := re.search(r"(?<!\S)# .*", line))]
    code_lines = [line for line in lines if line and line[0] != "#"]
    return len(code_lines), sum(FOR_TOOLS.match(comment) is None for comment in comments)


def room_counts(room):
    """Those of all files of a folder together."""
    counts = [(0, 0)]
    for path in sorted((PACKAGE / room).rglob("*")):
        if path.suffix == ".py":
            counts.append(python_counts(path.read_text(encoding="utf-8")))
        elif path.suffix in (".pyx", ".pxi"):
            counts.append(cython_counts(path.read_text(encoding="utf-8")))
    return [sum(column) for column in zip(*counts, strict=True)]


@pytest.mark.parametrize("room", ROOMS)
def test_a_dense_room_says_why(room):
    code, comments = room_counts(room)
    assert 1000 * comments >= FEWEST * code, (
        f"trainkit/{room} has {comments} comments in {code} lines of code, fewer than {FEWEST} in "
        "1,000: say why this order, this bound or this layout, where the lines do not"
    )


def test_what_counts_as_a_comment_and_as_code():
    source = (
        '"""A text.\n\nOf three lines."""\n\n'
        "# why\n"
        "x = 1  # noqa: E501\n"
        "y = (\n    2,  # the least\n)\n"
    )
    assert python_counts(source) == (4, 2)
    assert cython_counts(source) == (4, 2)
