"""`python -m trainkit doctor`: what is wrong with this installation, and how to mend it."""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from trainkit.cli.checks import compiler, environment, gpu, packages, processor, storage
from trainkit.cli.checks.finding import LEVELS, Check, Finding, findings_of

CHECKS: dict[str, Check] = {
    "packages": packages.check,
    "blas": processor.check_blas,
    "threads": processor.check_threads,
    "gpu": gpu.check,
    "eager path": compiler.check_native,
    "kernels": compiler.check_library,
    "numba": compiler.check,
    "hdf5": storage.check_hdf5,
    "tensorboard": storage.check_events,
    "disk": storage.check_disk,
    "shared memory": storage.check_shared_memory,
    "environment": environment.check,
}
"""What is looked at, in the order of the report."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.epilog = "The status is 1 when something does not work, 0 with warnings and notes alone."


def run(args: argparse.Namespace) -> int:
    """Look at everything and print the report."""
    findings = examined()
    if args.json:
        print(json.dumps(as_data(findings), indent=1))
    else:
        print("\n".join(as_lines(findings)))
    return 1 if any(finding.level == "problem" for finding in findings) else 0


def examined() -> list[Finding]:
    """What all checks find, in their order."""
    with ThreadPoolExecutor() as pool:  # most of the time processes are waited for
        results = pool.map(lambda item: findings_of(*item), CHECKS.items())
        return [finding for result in results for finding in result]


def as_data(findings: list[Finding]) -> dict[str, Any]:
    """The report as JSON has it."""
    counts = {level: sum(f.level == level for f in findings) for level in LEVELS}
    return {"counts": counts, "findings": [finding.as_dict() for finding in findings]}


def as_lines(findings: list[Finding]) -> list[str]:
    """The report as lines of text: level, area, what was found, and what mends it below."""
    width = max(len(finding.area) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.level:<8} {finding.area:<{width}}  {finding.text}")
        if finding.mend:
            lines.append(f"{'':<8} {'':<{width}}    {finding.mend}")
    counts = as_data(findings)["counts"]
    lines.append(_summary(counts["problem"], counts["warning"]))
    return lines


def _summary(problems: int, warnings: int) -> str:
    return f"{_count(problems, 'problem')}, {_count(warnings, 'warning')}"


def _count(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"
