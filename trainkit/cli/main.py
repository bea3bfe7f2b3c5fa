"""Finds the command and runs it. A command's module is imported when it is asked for.

Such a module has `HELP`, a line; `add_arguments(parser)`; and `run(args)`, which returns the exit
status.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from trainkit import __version__
from trainkit.core.files.printable import printable

COMMANDS = {
    "ckpt": (
        "trainkit.cli.ckpt",
        "look into checkpoints and files of weights, verify and convert them",
    ),
    "kernels": (
        "trainkit.cli.kernels",
        "build the library of compiled kernels that a package brings along",
    ),
    "run": (
        "trainkit.cli.run",
        "run a script for TensorFlow or Keras on trainkit, as it is, or a saved graph on arrays",
    ),
    "serve": ("trainkit.cli.serve", "answer requests for a saved model's predictions over HTTP"),
    "runs": (
        "trainkit.cli.runs",
        "ask training runs that fit(run=...) has written down: what ran, what went wrong, where",
    ),
    "warm": (
        "trainkit.cli.warm",
        "compile what a program needs, or every program, before it is needed",
    ),
    "doctor": (
        "trainkit.cli.doctor",
        "find what is wrong with this installation, or slows it down, and how to mend it",
    ),
}
"""The module and a line of help for each command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line.

    Args:
        arguments: without the program's name; by default those of this process.

    Returns:
        The exit status: 0 for success, 1 for a finding or a failure, 2 for wrong arguments.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser("trainkit", description="Tools that come with trainkit.")
    parser.add_argument("--version", action="version", version=f"trainkit {__version__}")
    parser.add_argument("command", choices=sorted(COMMANDS), help="what to do")
    lines = [f"  {name:<8} {help_line}" for name, (_, help_line) in COMMANDS.items()]
    parser.epilog = "commands:\n" + "\n".join(lines)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    options = parser.parse_args(words[:1])
    module = importlib.import_module(COMMANDS[options.command][0])
    inner = argparse.ArgumentParser(
        f"trainkit {options.command}", description=COMMANDS[options.command][1]
    )
    module.add_arguments(inner)
    args = inner.parse_args(words[1:])
    try:
        status: int = module.run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has enough, as `head` does
        sys.stdout = open(os.devnull, "w")  # where Python writes what is left when it ends
        return 1
    except (OSError, ValueError) as error:
        print(printable(f"trainkit {options.command}: {error}"), file=sys.stderr)
        return 1
    return status
