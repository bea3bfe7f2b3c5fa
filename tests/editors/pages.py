"""Pages of user code and what type checkers say of them: python -m tests.editors.pages, by mypy."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tempfile
from types import ModuleType
from typing import Any

import trainkit

FOLDER = pathlib.Path(__file__).parent
ROOT = FOLDER.parents[1]
DOORS = ("", "data", "image", "layers", "losses", "math", "metrics", "models", "nn", "optimizers")
PROGRAMS = tuple(FOLDER / f"{name}.py" for name in ("program", "customization", "results"))
MISTAKES = FOLDER / "mistakes.py"


def lines_with_mistakes() -> set[int]:
    """The numbers of the lines that say `# error`."""
    lines = MISTAKES.read_text(encoding="utf-8").split("\n")
    return {number for number, line in enumerate(lines, 1) if line.endswith("# error")}


def differences(output: str) -> list[str]:
    """A line for each error that is none, and for each mistake that a checker does not see.

    Args:
        output: lines of a checker, `path:line: ... error ...`.
    """
    errors = re.findall(r"(\w+\.py):(\d+).*?\berror\b.*", output)
    programs = {path.name for path in PROGRAMS}
    false = [f"{file}:{line}: no mistake" for file, line in errors if file in programs]
    shown = {int(line) for file, line in errors if file == MISTAKES.name}
    numbers = lines_with_mistakes()
    false += [f"{MISTAKES.name}:{line}: no mistake" for line in sorted(shown - numbers)]
    return false + [f"{MISTAKES.name}:{line}: not seen" for line in sorted(numbers - shown)]


def names_of_doors() -> list[str]:
    """The names that programs use most, such as `tk.nn.relu`; modules have types anyway."""
    names = []
    for door in DOORS:
        module: Any = getattr(trainkit, door) if door else trainkit
        inner = sorted(name for name in dir(module) if name[0] != "_")
        inner = [name for name in inner if not isinstance(getattr(module, name), ModuleType)]
        names += [f"tk.{door}.{name}" if door else f"tk.{name}" for name in inner]
    return names


def without_type(names: list[str], output: str) -> list[str]:
    """A line for each name of which mypy knows nothing; line n of the page reveals name n - 2."""
    lines = re.findall(r':(\d+): note: Revealed type is "Any"', output)
    return [f"{names[int(line) - 2]}: its type is Any" for line in lines]


def main() -> int:
    """Let mypy look at both pages and at all names, and print what it says wrongly."""
    names = names_of_doors()
    page = ["import trainkit as tk", *(f"reveal_type({name})" for name in names)]
    with tempfile.TemporaryDirectory() as folder:
        revealed = pathlib.Path(folder) / "revealed.py"
        revealed.write_text("\n".join(page) + "\n", encoding="utf-8")
        paths = map(str, (*PROGRAMS, MISTAKES, revealed))
        command = [sys.executable, "-m", "mypy", "--no-error-summary", *paths]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        print(done.stdout + done.stderr)
        return done.returncode
    lines = differences(done.stdout) + without_type(names, done.stdout)
    print("\n".join([*lines, done.stdout] if lines else ["user code: no differences"]))
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
