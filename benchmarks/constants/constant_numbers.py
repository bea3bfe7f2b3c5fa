"""Numbers in upper case: where a package has them, and copies of it in which some are others."""

import ast
import os
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

_UPPER = re.compile(r"_*[A-Z][A-Z0-9_]*$")

FACTS = {
    f"cache_bytes({level})": f"""
_read = cache_bytes


def cache_bytes(level: int) -> int:
    return int(_read(level) * {{factor}}) if level == {level} else _read(level)
"""
    for level in (1, 2)
}
"""What is read of the machine, by name: text that makes it another at the end of its file."""


class Number(NamedTuple):
    """An assignment of numbers to names in upper case.

    Attributes:
        file: relative to the package, with slashes.
        names: one, or those of a tuple.
        text: the numbers as they are written.
        line: where it stands, from 1.
    """

    file: str
    names: tuple[str, ...]
    text: str
    line: int


def _is_number(node: ast.AST) -> bool:
    """Whether an expression consists of numbers alone, a call of a type such as `np.int32` too."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case ast.UnaryOp(operand=inner) | ast.Call(func=ast.Attribute(), args=[inner]):
            return _is_number(inner)
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
        case ast.Tuple(elts=parts) | ast.Dict(values=parts):
            return bool(parts) and all(map(_is_number, parts))
    return False


def _assignments(text: str) -> Iterator[tuple[tuple[str, ...], ast.expr]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign):
            target: ast.expr = node.targets[0]
        elif isinstance(node, ast.AnnAssign):
            target = node.target
        else:
            continue
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        names = tuple(part.id for part in parts if isinstance(part, ast.Name))
        if node.value is not None and len(names) == len(parts) and all(map(_UPPER.match, names)):
            yield names, node.value


def numbers(package: pathlib.Path, folders: tuple[str, ...]) -> list[Number]:
    """All of a package's numbers in upper case below some of its folders."""
    found = []
    for folder in folders:
        for path in sorted((package / folder).rglob("*.py")):
            file = path.relative_to(package).as_posix()
            for names, value in _assignments(path.read_text()):
                if _is_number(value):
                    found.append(Number(file, names, ast.unparse(value), value.lineno))
    return found


def scaled(value: ast.expr, factor: float) -> str:
    """The text of a number, or of a tuple of some, that is `factor` times as large.

    Whole numbers stay whole, and are 1 at least.
    """
    number = eval(compile(ast.Expression(value), "<number>", "eval"), {"__builtins__": {}})
    parts = number if isinstance(number, tuple) else (number,)
    times = [max(1, int(n * factor)) if isinstance(n, int) else n * factor for n in parts]
    return repr(tuple(times) if isinstance(number, tuple) else times[0])


def changed(text: str, name: str, factor: float, given: object = None) -> str:
    """The text of a file in which the assignment to `name` has other numbers.

    Args:
        text: of the file.
        name: one in upper case; those of its tuple change too.
        factor: how many times as large they are to be.
        given: the number to take instead, where not all are possible.

    Raises:
        ValueError: nothing is assigned to the name.
    """
    if name in FACTS:
        return f"{text}\n\n{FACTS[name].format(factor=factor)}"
    for names, value in _assignments(text):
        if name in names:
            lines = text.splitlines(keepends=True)
            first, last = value.lineno - 1, (value.end_lineno or value.lineno) - 1
            before = lines[first].encode()[: value.col_offset].decode()
            after = lines[last].encode()[value.end_col_offset :].decode()
            number = scaled(value, factor) if given is None else repr(given)
            lines[first : last + 1] = [f"{before}({number}){after}"]
            return "".join(lines)
    raise ValueError(f"there is no number {name} in this file")


def copy_with(package: pathlib.Path, root: pathlib.Path, texts: dict[str, str]) -> None:
    """Make a copy of `package` below `root` in which some files have other texts.

    All else are links, so that a copy takes no room.
    """
    _link(package, root / package.name, {pathlib.PurePosixPath(f): t for f, t in texts.items()})


def _link(
    source: pathlib.Path, target: pathlib.Path, texts: dict[pathlib.PurePosixPath, str]
) -> None:
    target.mkdir(parents=True)
    for entry in os.scandir(source):
        inside = {
            path.relative_to(entry.name): text
            for path, text in texts.items()
            if path.parts[0] == entry.name
        }
        to = target / entry.name
        if not inside:
            if entry.name != "__pycache__":
                to.symlink_to(pathlib.Path(entry.path).resolve())
        elif entry.is_dir():
            _link(pathlib.Path(entry.path), to, inside)
        else:
            to.write_text(next(iter(inside.values())))
