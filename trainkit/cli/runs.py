"""`python -m trainkit runs`: runs that were written down, asked from the command line."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from trainkit import runs
from trainkit.cli import run_proofs, run_views
from trainkit.core import nest
from trainkit.core.errors import FailedPreconditionError
from trainkit.runs.run_programs import script_program


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and what they take."""
    actions = parser.add_subparsers(dest="action", required=True)
    rewind = action(actions, "rewind", "the state that a step of a run found", "run")
    rewind.add_argument("--to", type=int, required=True, help="number of the step, from 1")
    rewind.add_argument("--output", help="write the model as it was, to this .keras file")
    add_program(rewind)
    diff = action(actions, "diff", "where two runs part, and why; status 1 if they do", "first")
    diff.add_argument("second", nargs="?", help="left out with --shadow and --mode")
    diff.add_argument(
        "--shadow", choices=["float64"], help="which operation of one step loses most digits"
    )
    diff.add_argument(
        "--mode", choices=runs.MODES, help="one step, compiled or on a GPU, beside eagerly here"
    )
    diff.add_argument("--step", type=int, default=1, help="for these two: its number, from 1")
    add_program(diff)
    run_views.add_arguments(actions, action)
    run_proofs.add_arguments(actions, action, add_program)
    add_program(run_views.add_question(actions, action))


def action(
    actions: Any, name: str, help_line: str, *names: str, **options: Any
) -> argparse.ArgumentParser:
    """An action with positional arguments and `--json`."""
    subparser: argparse.ArgumentParser = actions.add_parser(
        name, help=help_line, description=help_line
    )
    for each in names:
        subparser.add_argument(each)
    subparser.add_argument("--json", action="store_true", help="print JSON")
    return subparser


def add_program(parser: argparse.ArgumentParser) -> None:
    """Let the user say which program made a run: none that a journal names is ever started."""
    parser.add_argument(
        "--script", help="the program that made the run, which is run again; by default what is "
        "stored with the run is used"
    )  # fmt: skip
    parser.add_argument(
        "--changed", action="store_true", help="go on though the code is not what it was"
    )


def opened(folder: str, args: argparse.Namespace) -> runs.JournaledRun:
    """The run in a folder, with the program of `--script`.

    Raises:
        FailedPreconditionError: the script is another than then, and `--changed` was not given.
    """
    if not args.script:
        return runs.open(folder, changed=args.changed)
    run = runs.open(folder, program=script_program(args.script), changed=args.changed)
    code = run.header.get("code")
    then = code.get("sha256") if isinstance(code, dict) else None
    now = hashlib.sha256(Path(args.script).read_bytes()).hexdigest()
    if then != now and not args.changed:
        raise FailedPreconditionError(
            f"{args.script} has changed since the run was made: its SHA-256 was {then!s:.64}, it "
            f"is {now}; --changed runs it all the same"
        )
    return run


def run(args: argparse.Namespace) -> int:
    """Do the action."""
    try:
        handle = getattr(args, "handle", None) or globals()[f"_{args.action}"]
        status: int = handle(args)
    except FailedPreconditionError as error:
        print(f"trainkit runs: {error}", file=sys.stderr)
        return 1
    return status


def _show(args: argparse.Namespace, data: Any, lines: list[str]) -> None:
    print(json.dumps(data, indent=1) if args.json else "\n".join(lines))


# ------------------------------------------------------------------ prove and verify


def _prove(args: argparse.Namespace) -> int:
    status, data, lines = run_proofs.prove(args, opened)
    _show(args, data, lines)
    return status


def _verify(args: argparse.Namespace) -> int:
    status, data, lines = run_proofs.verify(args, opened)
    _show(args, data, lines)
    return status


# ------------------------------------------------------------------ rewind


def _rewind(args: argparse.Namespace) -> int:
    state = opened(args.run, args).at(args.to)
    data: dict[str, Any] = {
        "step": state.step,
        "verified": state.verified,
        "digests": state.digests(),
        "batch": [
            {"shape": list(np.shape(leaf)), "dtype": str(getattr(leaf, "dtype", type(leaf)))}
            for leaf in nest.flatten(state.batches)
            if leaf is not None
        ],
    }
    said = "its bits are those of the journal" if state.verified else "the journal has no digests"
    lines = [f"step {state.step} of {args.run}: {said}"]
    lines += [f"  {name:<8} {digest}" for name, digest in data["digests"].items()]
    if state.model is not None and state.batches:
        norms = {path: _length(g) for path, g in state.gradients().items() if g is not None}
        data["gradients"] = norms
        lines.append("  length of the gradients")
        lines += [f"    {path:<40} {norm:.6g}" for path, norm in norms.items()]
    if args.output:
        if state.model is None:
            raise FailedPreconditionError("--output is for runs of fit, which have a model")
        state.model.save(args.output)
        lines.append(f"  the model is in {args.output}")
        data["output"] = args.output
    _show(args, data, lines)
    return 0


def _length(gradient: Any) -> float:
    return float(np.linalg.norm(np.asarray(gradient, np.float64)))


# ------------------------------------------------------------------ diff


def _diff(args: argparse.Namespace) -> int:
    alone = args.shadow or args.mode
    if bool(alone) == bool(args.second) or (args.shadow and args.mode):
        raise FailedPreconditionError("diff takes two runs, or one with either --shadow or --mode")
    first = opened(args.first, args)
    if args.shadow:
        difference = runs.shadow(first, args.step, args.shadow)
    elif args.mode:
        difference = runs.diff_modes(first, args.step, args.mode)
    else:
        difference = runs.diff(first, opened(args.second, args))
    _show(args, difference.as_dict(), str(difference).splitlines())
    return 0 if difference.step is None else 1


# ------------------------------------------------------------------ why


def _why(args: argparse.Namespace) -> int:
    return run_views.say_why(opened(args.run, args), args)
