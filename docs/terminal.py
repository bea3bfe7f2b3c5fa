"""Draws terminals of 120 columns for docs/images.

terminal.svg is a run of examples/mnist.py, runs.svg three runs that are asked.

python docs/terminal.py [terminal] [runs]
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
PICTURES = ROOT / "docs" / "images"
COLUMNS, ROWS = 120, 30
PROMPT = "$ make train ARGS='--epochs 4'"
BRAILLE = re.compile("[\u2800-\u28ff\u25cf]")
DOTS = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)]
"""Column and row of each bit of a Braille character."""
RUNS = """
import sys
import trainkit as tk
(x, y), held = tk.datasets.digits.load_data()
x, held = x.reshape(-1, 64).astype("f") / 16, (held[0].reshape(-1, 64).astype("f") / 16, held[1])
for name, rate in (("adam", 3e-3), ("slow", 1e-4), ("broken", 3e-3)):
    if name == "broken":
        x[[17, 903]] *= 250
        y[[17, 903]] = (y[[17, 903]] + 3) % 10
    tk.keras.utils.set_random_seed(1)
    layers = [tk.layers.Dense(32, activation="relu"), tk.layers.Dense(10)]
    model = tk.Sequential([tk.Input((64,)), *layers])
    loss = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tk.optimizers.Adam(rate), loss)
    model.fit(x, y, 32, 8, verbose=0, validation_data=held, run=f"{sys.argv[1]}/runs/{name}")
"""
CONTROL = re.compile(r"\x1b\[(\d*)([A-Za-z])|\r|\n|[^\x1b\r\n]+")


def output(command: list[str], folder: str | Path = ROOT, statuses: tuple[int, ...] = (0,)) -> str:
    """What a program writes to a terminal of its own.

    Raises:
        RuntimeError: it failed.
    """
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.environ["PYTHONPATH"] = str(ROOT)
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
    if os.waitstatus_to_exitcode(status) not in statuses:
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
        f'<text x="16" y="{44 + height * i}" xml:space="preserve">'
        f"{html.escape(BRAILLE.sub(' ', line).rstrip())}</text>{dots(line, 44 + height * i)}"
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


def dots(line: str, y: int) -> str:
    """Charts as dots of their own, since not every font has Braille as wide as letters."""
    curve, marks = "", ""
    for i, letter in enumerate(line):
        x, code = 16 + 7.826 * i, ord(letter) - 0x2800
        if letter == "\u25cf":
            marks += f"M{x + 4:.1f} {y - 4}h0"
        elif 0 < code < 256:
            points = [DOTS[bit] for bit in range(8) if code >> bit & 1]
            curve += "".join(f"M{x + 2 + 4 * a:.1f} {y - 11 + 4.5 * b}h0" for a, b in points)
    return "".join(
        f'<path d="{path}" stroke="{color}" stroke-width="{size}" stroke-linecap="round"/>'
        for path, color, size in ((curve, "#64b1f5", 2.6), (marks, "#f5a04c", 6))
        if path
    )


def draw_runs() -> None:
    """Make three runs, ask them, and draw what they say."""
    with tempfile.TemporaryDirectory() as folder:
        output([sys.executable, "-c", RUNS, folder])
        lines: list[str] = []
        for words, statuses in (
            ("board runs/adam runs/slow runs/broken --metric loss --once", (0,)),
            ("why runs/broken", (0, 1)),
        ):
            os.environ["NO_COLOR"] = "1"
            command = [sys.executable, "-m", "trainkit", "runs", *words.split()]
            lines += [f"$ python -m trainkit runs {words}"]
            lines += [*screen(output(command, folder, statuses).rstrip()), ""]
    (PICTURES / "runs.svg").write_text(drawn(lines[:-1]), encoding="utf-8")


def main() -> None:
    """Draw what is asked for, or both."""
    names = sys.argv[1:] or ["terminal", "runs"]
    PICTURES.mkdir(exist_ok=True)
    if "terminal" in names:
        draw_example()
    if "runs" in names:
        draw_runs()


def draw_example() -> None:
    """Run the example and draw its last screen."""
    with tempfile.TemporaryDirectory() as folder:
        places = ["--logdir", f"{folder}/logs", "--checkpoint-dir", f"{folder}/checkpoints"]
        command = [sys.executable, "examples/mnist.py", "--epochs", "4", *places]
        lines = screen(output(command).replace(folder + "/", "").rstrip())
    (PICTURES / "terminal.svg").write_text(drawn([PROMPT, *lines]), encoding="utf-8")


if __name__ == "__main__":
    main()
