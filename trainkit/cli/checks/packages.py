"""Versions: of Python, of trainkit, and of what it needs."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from collections.abc import Iterator

import trainkit
from trainkit.cli.checks.finding import Finding
from trainkit.core.process.requirements import DISTRIBUTION

_REQUIREMENT = re.compile(r"^(?P<name>[\w.-]+)(?:\[[^]]*\])?(?P<bounds>[^;]*)(?P<marker>;.*)?$")
_BOUND = re.compile(r"(>=|<|==)\s*([\d.]+)")


def check() -> Iterator[Finding]:
    """Each required package is there, in a version that will do."""
    python = platform.python_version()
    text = f"trainkit {trainkit.__version__}, Python {python}, {platform.platform(terse=True)}"
    facts = {"trainkit": trainkit.__version__, "python": python, "folder": trainkit.__path__[0]}
    yield Finding("ok", text, facts=facts)
    try:
        needed = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        yield Finding(
            "note",
            f"trainkit is used from {trainkit.__path__[0]} without being installed (as "
            f"{DISTRIBUTION}), so the versions of what it needs can't be compared",
            "pip install .  # in a copy of the repository",
        )
        return
    findings = [f for line in needed if (f := _package(line)) is not None]
    yield from findings
    if not findings:
        yield Finding("ok", "all required packages are there, in versions that will do")


def _package(requirement: str) -> Finding | None:
    """What is wrong with a required package; None where nothing is."""
    parts = _REQUIREMENT.match(requirement)
    if parts is None or parts["marker"]:  # those of extras
        return None
    name, bounds = parts["name"], parts["bounds"].strip()
    mend = f"pip install '{name}{bounds}'"
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding("problem", f"{name} is not installed", mend)
    if all(_holds(version, sign, bound) for sign, bound in _BOUND.findall(bounds)):
        return None
    text = f"{name} {version} is installed, trainkit needs {name}{bounds}"
    return Finding("problem", text, mend, {"package": name, "version": version})


def _holds(version: str, sign: str, bound: str) -> bool:
    have, required = _numbers(version), _numbers(bound)
    if sign == ">=":
        return have >= required
    return have < required if sign == "<" else have == required


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: (2, 1, 0) of 2.1.0rc1."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(n) for n in match[0].split(".")) if match else ()
