"""`python -m trainkit runs prove` and `verify`: proofs that a run took place."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

from trainkit import runs
from trainkit.core.files.printable import printable
from trainkit.models import load_model

Answer = tuple[int, Any, list[str]]
"""The exit status, the answer as plain values, and as lines."""


def add_arguments(
    actions: Any,
    action: Callable[..., argparse.ArgumentParser],
    add_program: Callable[[argparse.ArgumentParser], None],
) -> None:
    """Declare the two actions and what they take."""
    prove = action(actions, "prove", "write a proof of a run, a few kilobytes", "run")
    prove.add_argument("-o", "--output", required=True, help="the file to write")
    add_program(prove)
    verify = action(
        actions, "verify", "do some steps of a proven run again; status 1 if they differ", "proof"
    )
    verify.add_argument("--sample", type=int, default=5, help="how many segments to draw")
    verify.add_argument("--seed", type=int, help="by which to draw; by default unforeseeable")
    verify.add_argument("--run", dest="folder", help="the run, if it is not where the proof says")
    verify.add_argument("--model", help="a .keras file that is said to be the run's result")
    add_program(verify)


def prove(args: argparse.Namespace, opened: Callable[..., runs.JournaledRun]) -> Answer:
    """Write a proof of a run."""
    proof = runs.prove(opened(args.run, args))
    proof.save(args.output)
    size = os.path.getsize(args.output)
    count = len(proof.segments)
    lines = [
        f"{args.output}: {size} bytes for {proof.steps} steps in {count} segments",
        f"  head of the journal   {proof.head}, {proof.lines} lines",
        f"  weights at the end    {proof.weights}",
        f"  data                  {proof.data or 'not arrays: known by the digests of batches'}",
        f"  initial state         {_BEGINNINGS[proof.beginning]}",
    ]
    return 0, {**proof.as_dict(), "output": args.output, "bytes": size}, lines


_BEGINNINGS = {
    "seed": "made by the seed and the stored model",
    "program": "made by the program",
    "given": "given; that it comes from a seed is not claimed",
}


def verify(args: argparse.Namespace, opened: Callable[..., runs.JournaledRun]) -> Answer:
    """Verify a proof."""
    proof = runs.RunProof.load(args.proof)
    folder = args.folder or os.path.join(os.path.dirname(args.proof), proof.folder)
    model = None
    if args.model:
        model = load_model(args.model)
    run = opened(folder, args)
    verification = runs.verify(proof, run, sample=args.sample, seed=args.seed, model=model)
    return (
        int(not verification.passed),
        verification.as_dict(),
        printable(str(verification)).splitlines(),
    )
