"""The names of a module as editors and type checkers know them, who run nothing."""

from __future__ import annotations

import ast
import functools
import pathlib

import trainkit

PACKAGE = pathlib.Path(trainkit.__file__).parent


def source_of(module: str) -> pathlib.Path | None:
    """The file that a type checker reads for a module of the package, a stub before all others."""
    base = PACKAGE.parent.joinpath(*module.split("."))
    paths = base.with_suffix(".pyi"), base / "__init__.pyi", base / "__init__.py"
    return next((path for path in (*paths, base.with_suffix(".py")) if path.exists()), None)


@functools.cache
def static_names(module: str) -> frozenset[str]:
    """The names without an underscore that a module binds, in what runs for type checkers."""
    path = source_of(module)
    if path is None:
        raise LookupError(f"no file stands for {module}")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(n for n in _bound(tree.body, module) if not n.startswith("_"))


def has_fallback(module: str) -> bool:
    """Whether type checkers see a `__getattr__`, for which every name is right."""
    path = source_of(module)
    tree = ast.parse(path.read_text(encoding="utf-8")) if path else ast.Module([], [])
    return "__getattr__" in _bound(tree.body, module)


def _bound(body: list[ast.stmt], module: str) -> set[str]:
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import):
            names |= {alias.asname for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= _imported(node, module)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        elif isinstance(node, ast.If):
            names |= _bound(_checked_branch(node), module)
    return names


def _imported(node: ast.ImportFrom, module: str) -> set[str]:
    """An import without `as` is the module's own, and of a star all names are taken."""
    if node.names[0].name == "*":
        return set(static_names(str(node.module)))
    return {alias.asname for alias in node.names if alias.asname}


def _checked_branch(node: ast.If) -> list[ast.stmt]:
    test = ast.unparse(node.test)
    if test == "TYPE_CHECKING":
        return node.body
    return node.orelse if test == "not TYPE_CHECKING" else node.body + node.orelse
