"""Starting this Python again, so that it imports from where this process does and nowhere else."""

from __future__ import annotations

import sys

# `python -c` looks for modules in the working folder first, which may be one that all write to;
# nothing but the built-in `sys` is imported before that is undone.
_FRAME = "import sys\nsys.path[:] = {path!r}\n{code}"


def child_command(code: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
    """The command that runs a text of Python in a new process, for `subprocess`.

    Args:
        code: the text; modules are found where this process finds them.
        *arguments: its `sys.argv[1:]`.
        options: of the interpreter.
    """
    text = _FRAME.format(path=sys.path, code=code)
    return [sys.executable, *options, "-c", text, *arguments]
