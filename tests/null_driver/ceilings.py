"""The most that a training step launches: a table that may only shrink.

`python -m tests.null_driver.ceilings` counts again and writes down what has become less.
"""

import json
from functools import cache
from pathlib import Path

from tests.null_driver import steps

FILE = Path(__file__).with_suffix(".json")
MODES = ("eager", "captured")
SLACK = 0.9  # below this share of a ceiling the ceiling has to come down


def key(name, policy, mode):
    """A row's name in the table: `"mlp float32 eager"`."""
    return f"{name} {policy} {mode}"


@cache
def table():
    """The most launches for each row."""
    return json.loads(FILE.read_text())


def launches(counts, first, mode):
    """What a ceiling is about: kernels of an eager step, or nodes of the graph, library calls too.

    Args:
        counts: of a step.
        first: of the step in which the graph was captured.
        mode: `"eager"` or `"captured"`.
    """
    return first.captured if mode == "captured" else counts.launches


def main():
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in steps.NAMES:
        for policy in steps.POLICIES:
            for mode in MODES:
                row = key(name, policy, mode)
                counts, first, _ = steps.measured(name, policy, mode == "captured")
                now = launches(counts, first, mode)
                before = found.get(row, now)
                found[row] = min(now, before)
                print(f"{row:40} {before:6} {now:6}{'  MORE' if now > before else ''}")
    FILE.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
