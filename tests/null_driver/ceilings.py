"""The most that a training step launches, and the registers of its kernels: it may only shrink.

`python -m tests.null_driver.ceilings` counts again and writes down what has become less.
"""

import json
from functools import cache
from pathlib import Path

from tests.null_driver import kernels, steps

FILE = Path(__file__).with_suffix(".json")
MODES = ("eager", "captured")
AGAIN = "python -m tests.null_driver.ceilings"
SLACK = 0.9  # below this share of a ceiling the ceiling has to come down
WRITTEN = ("fused_", "rule_")
ROOM = 64  # so many registers every kernel may have


def key(name, policy, mode):
    """A row's name in the table: `"mlp float32 eager"`."""
    return f"{name} {policy} {mode}"


@cache
def _table():
    return json.loads(FILE.read_text())


def most_launches(row):
    """The ceiling of a row: kernels of an eager step, or nodes of the graph but its copies."""
    return _table()["launches"][row]


def wide(row):
    """The most registers of a kernel in a network's steps, where that is more than `ROOM`."""
    return _table()["registers"].get(row, ROOM)


def most_registers(kernel):
    """The most registers of a kernel by this name; the exceptions may only become fewer."""
    return _table()["kernels"].get(kernel, {}).get("registers", ROOM)


def most_stack(kernel):
    """The most bytes of stack, likewise."""
    return _table()["kernels"].get(kernel.name, {}).get("stack", 40 if kernel.turns else 0)


def launches(counts, first, mode):
    """What a ceiling is about.

    Args:
        counts: of a step.
        first: of the step in which the graph was captured.
        mode: `"eager"` or `"captured"`.
    """
    return first.captured if mode == "captured" else counts.launches


def registers(*counts):
    """The most registers of a kernel that is in `counts` and was written for a graph or a rule.

    Only those have a name for each text; `most_registers` is about the others.
    """
    names = {name for c in counts for name in (*c.names, *c.captured_names)}
    made = [k for k in kernels.RECORDED if k.name in names and k.name.startswith(WRITTEN)]
    return max((k.registers for k in made), default=0)


def main():
    before = json.loads(FILE.read_text()) if FILE.exists() else {}
    found = {"launches": {}, "registers": {}, "kernels": before.get("kernels", {})}

    def note(table, row, now):
        most = before.get(table, {}).get(row, now)
        found[table][row] = min(now, most)
        print(f"{row:40} {most:6} {now:6}{'  MORE' if now > most else ''}")

    for name in steps.NAMES:
        for policy in steps.POLICIES:
            every = []
            for mode in MODES:
                counts, first, _ = steps.measured(name, policy, mode == "captured")
                every += [counts, first]
                note("launches", key(name, policy, mode), launches(counts, first, mode))
            if (now := registers(*every)) > ROOM:
                note("registers", f"{name} {policy}", now)
    FILE.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
