"""Draws docs/images/terminal.svg: a run of examples/mnist.py on a terminal of 120 columns.

python docs/terminal.py
"""

from __future__ import annotations

import fcntl
import html
import os
import pty
import re
import struct
import sys
import tempfile
import termios
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "terminal.svg"
COLUMNS, ROWS = 120, 30
PROMPT = "$ make train ARGS='--epochs 4'"
CONTROL = re.compile(r"\x1b\[(\d*)([A-Za-z])|\r|\n|[^\x1b\r\n]+")


def output(command: list[str]) -> str:
    """What a program writes to a terminal of its own.

    Raises:
        RuntimeError: it failed.
    """
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(ROOT)
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    written = b""
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # the program has ended
            break
        written += part
    _, status = os.waitpid(process, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)} failed:\n{written.decode()}")
    return written.decode()


def screen(text: str) -> list[str]:
    r"""The lines that stay: `\r` goes back in a line, and `ESC [ A`, `J`, `K` go up and clear.

    Raises:
        ValueError: another control sequence is in the text.
    """
    lines, row, column = [""], 0, 0
    for match in CONTROL.finditer(text):
        part = match[0]
        if part == "\r":
            column = 0
        elif part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif match[2] == "A":
            row -= int(match[1] or 1)
        elif match[2] in ("J", "K"):
            lines[row] = lines[row][:column]
            if match[2] == "J":
                del lines[row + 1 :]
        elif match[2] is not None:
            raise ValueError(f"docs/terminal.py: {part!r} is not known here")
        else:
            lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + len(part) :]
            column += len(part)
    return [line.rstrip() for line in lines]


def drawn(lines: list[str]) -> str:
    """The lines as an SVG picture of a terminal."""
    width, height, size = 8.0, 18, 13
    rows = "\n".join(
        f'<text x="16" y="{44 + height * i}" xml:space="preserve">{html.escape(line)}</text>'
        for i, line in enumerate(lines)
    )
    box = (int(32 + COLUMNS * width), 60 + height * len(lines))
    name = "http://www.w3.org/2000/svg"
    return f"""<svg xmlns="{name}" viewBox="0 0 {box[0]} {box[1]}" width="{box[0]}">
<rect width="100%" height="100%" rx="8" fill="#16181d"/>
<g fill="#5c6370"><circle cx="20" cy="16" r="5"/><circle cx="38" cy="16" r="5"/>
<circle cx="56" cy="16" r="5"/></g>
<g fill="#d7dae0" font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{size}">
{rows}
</g>
</svg>
"""


def main() -> None:
    """Run the example and draw its last screen."""
    with tempfile.TemporaryDirectory() as folder:
        places = ["--logdir", f"{folder}/logs", "--checkpoint-dir", f"{folder}/checkpoints"]
        command = [sys.executable, "examples/mnist.py", "--epochs", "4", *places]
        lines = screen(output(command).replace(folder + "/", "").rstrip())
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn([PROMPT, *lines]), encoding="utf-8")


if __name__ == "__main__":
    main()
