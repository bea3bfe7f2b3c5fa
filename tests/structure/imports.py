"""The import graph of trainkit, read from its source: which file imports which, and where."""

import ast
import dataclasses
import functools
import gc
import importlib.util
import pathlib
import re
from collections.abc import Iterator

PACKAGE = pathlib.Path(importlib.util.find_spec("trainkit").submodule_search_locations[0])


@dataclasses.dataclass(frozen=True)
class Import:
    """One import of one file of trainkit: the module that it reads and where it stands."""

    target: str
    line: int
    inside_function: bool


def tree_of(path: pathlib.Path) -> ast.Module:
    """The syntax tree of a file."""
    return _trees().get(path) or ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def _trees() -> dict[pathlib.Path, ast.Module]:
    """Those of the package: two million nodes, which collections of garbage are to pass over."""
    gc.collect()
    gc.disable()
    try:
        return {path: ast.parse(path.read_text(encoding="utf-8")) for path in files().values()}
    finally:
        gc.freeze()
        gc.enable()


COPIES_FROM = "# ====== written by `python -m tests.saved_graph.write_reader`, from here\n"
COPIES_TO = "# ====== to here\n"
"""Between these lines stand copies, whose words and names are counted where they are from."""


def own_text(path: pathlib.Path) -> str:
    """The text of a file without copies that a script has written into it."""
    text = path.read_text(encoding="utf-8")
    return re.sub(f"{re.escape(COPIES_FROM)}.*?{re.escape(COPIES_TO)}", "", text, flags=re.DOTALL)


def own_tree(path: pathlib.Path) -> ast.Module:
    """The syntax tree of a file without such copies."""
    text = own_text(path)
    return tree_of(path) if text == path.read_text(encoding="utf-8") else ast.parse(text)


def nodes_of(tree: ast.AST) -> list[ast.AST]:
    """All nodes of a file's tree, which many tests ask for."""
    try:
        nodes: list[ast.AST] = tree.nodes  # type: ignore[attr-defined]
    except AttributeError:
        nodes = tree.nodes = [*ast.walk(tree)]  # type: ignore[attr-defined]
    return nodes


def is_second_name(path: pathlib.Path) -> bool:
    """Whether a file only stands for a module of another name, for editors: `from x import *`."""
    body = tree_of(path).body
    names = [
        alias.name for node in body if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    return len(body) == 2 and names == ["*"] and ast.get_docstring(tree_of(path)) is not None


def module_name(path: pathlib.Path, package: pathlib.Path = PACKAGE) -> str:
    """The dotted name of a file; a package has the name of its folder."""
    parts = [package.name, *path.relative_to(package).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def only_for_types(node: ast.AST) -> bool:
    """Whether this is `if TYPE_CHECKING:`, whose body only a type checker reads."""
    if not isinstance(node, ast.If):
        return False
    name = node.test.attr if isinstance(node.test, ast.Attribute) else node.test
    return name == "TYPE_CHECKING" or getattr(name, "id", None) == "TYPE_CHECKING"


_HOLDERS = (ast.stmt, ast.excepthandler, ast.match_case)
"""What may hold a statement: no expression does."""


def import_nodes(
    node: ast.AST, inside: bool = False
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """All imports that run, each with whether it stands inside a function."""
    below = ast.iter_child_nodes(node)
    if only_for_types(node):
        below = iter(node.orelse)
    for child in below:
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, inside
        elif isinstance(child, _HOLDERS):
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from import_nodes(child, inside or is_function)


def dotted_names(node: ast.Import | ast.ImportFrom, package_name: str) -> list[str]:
    """What one statement names, in full: module and name for `from module import name`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        parents = package_name.split(".")
        base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
    return [f"{base}.{alias.name}" for alias in node.names]


def module_of(dotted: str, modules: set[str]) -> str | None:
    """The longest beginning of a dotted name that is a module, or None for a stranger's."""
    while dotted and dotted not in modules:
        dotted = dotted.rpartition(".")[0]
    return dotted or None


def imports_of(tree: ast.Module, name: str, is_package: bool, modules: set[str]) -> list[Import]:
    """What the module `name` with this syntax tree imports of `modules`, those in functions too."""
    package_name = name if is_package else name.rpartition(".")[0]
    found = []
    for node, inside in import_nodes(tree):
        for dotted in dotted_names(node, package_name):
            target = module_of(dotted, modules)
            if target and target != name:
                found.append(Import(target, node.lineno, inside))
    return found


@functools.cache
def files(package: pathlib.Path = PACKAGE) -> dict[str, pathlib.Path]:
    """Every module of the package by its dotted name."""
    return {module_name(path, package): path for path in sorted(package.rglob("*.py"))}


LATE_CALLS = {
    "import_module": (0, ""),
    "DeferredModule": (0, ""),
    "CudnnModule": (0, ""),
    "Family": (1, "trainkit.kernels."),
    "ArrayKernel": (1, "trainkit.kernels."),
}
"""Calls that name a module to be imported later: which argument does, and what stands before it."""


def named_modules(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Modules that calls name in texts, also in constants of the file, each with its line."""
    texts = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes_of(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
        position, before = LATE_CALLS.get(getattr(called, "id", called), (len(node.args), ""))
        for argument in node.args[position : position + 1]:
            text = texts.get(getattr(argument, "id", None), getattr(argument, "value", None))
            if isinstance(text, str):
                yield before + text, node.lineno


def late_imports_of(tree: ast.Module, name: str, modules: set[str]) -> list[Import]:
    """What a module imports through texts, such as `import_module("trainkit.models")`."""
    return [
        Import(dotted, line, inside_function=True)
        for dotted, line in named_modules(tree)
        if dotted in modules and dotted != name
    ]


@functools.cache
def late_import_graph(package: pathlib.Path = PACKAGE) -> dict[str, list[Import]]:
    """The imports of every module that are named by texts."""
    modules = files(package)
    return {
        name: late_imports_of(tree_of(path), name, set(modules)) for name, path in modules.items()
    }


@functools.cache
def import_graph(package: pathlib.Path = PACKAGE) -> dict[str, list[Import]]:
    """The imports of every module of the package."""
    modules = files(package)
    return {
        name: imports_of(tree_of(path), name, path.name == "__init__.py", set(modules))
        for name, path in modules.items()
    }


def late_strangers(name: str) -> list[str]:
    """What a module imports inside functions that is not of the package."""
    return [
        dotted
        for node, inside in import_nodes(tree_of(files()[name]))
        if inside and not getattr(node, "level", 0)
        for dotted in dotted_names(node, name)
        if dotted.partition(".")[0] != PACKAGE.name
    ]


def circles(arrows: dict[str, set[str]]) -> list[set[str]]:
    """Strongly connected components of more than one node, by Tarjan's algorithm (1972)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    found = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        path.append(node)
        on_path.add(node)
        for after in sorted(arrows.get(node, ())):
            if after not in number:
                visit(after)
                lowest[node] = min(lowest[node], lowest[after])
            elif after in on_path:
                lowest[node] = min(lowest[node], number[after])
        if lowest[node] == number[node]:
            members = set(path[path.index(node) :])
            del path[path.index(node) :]
            on_path.difference_update(members)
            if len(members) > 1:
                found.append(members)

    for node in sorted(arrows):
        if node not in number:
            visit(node)
    return found
