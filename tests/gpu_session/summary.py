"""`summary.txt` in `$OUT`: a line for each thing that ran, there as soon as it is known.

python -m tests.gpu_session.summary NAME TEXT   # sets a line
"""

import os
import sys
from pathlib import Path

NAME = "summary.txt"


def folder():
    """Where files go, `None` where no command said so."""
    given = os.environ.get("OUT")
    return Path(given) if given and Path(given).is_dir() else None


def set_line(name, text):
    """The line of `name`, in place of the one it had; the file is whole at any moment."""
    out = folder()
    if out is None:
        return
    path = out / NAME
    lines = path.read_text().splitlines() if path.exists() else []
    head = f"{name}:"
    line = f"{head:32} {' '.join(str(text).split())}"
    places = [i for i, old in enumerate(lines) if old.startswith(head)]
    if places:
        lines[places[0]] = line
    else:
        lines.append(line)
    partly = path.with_suffix(".part")
    partly.write_text("\n".join(lines) + "\n")
    partly.replace(path)


if __name__ == "__main__":
    set_line(sys.argv[1], " ".join(sys.argv[2:]))
