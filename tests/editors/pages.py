"""Pages of user code and what type checkers say of them: python -m tests.editors.pages, by mypy."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent
ROOT = FOLDER.parents[1]
PROGRAM, MISTAKES = FOLDER / "program.py", FOLDER / "mistakes.py"


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
    false = [f"{file}:{line}: no mistake" for file, line in errors if file == PROGRAM.name]
    shown = {int(line) for file, line in errors if file == MISTAKES.name}
    numbers = lines_with_mistakes()
    false += [f"{MISTAKES.name}:{line}: no mistake" for line in sorted(shown - numbers)]
    return false + [f"{MISTAKES.name}:{line}: not seen" for line in sorted(numbers - shown)]


def main() -> int:
    """Let mypy look at both pages, and print what it says wrongly."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(PROGRAM), str(MISTAKES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        print(done.stdout + done.stderr)
        return done.returncode
    lines = differences(done.stdout)
    print("\n".join([*lines, done.stdout] if lines else ["user code: no differences"]))
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
