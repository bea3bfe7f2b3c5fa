"""What the processor can do, as the system tells it."""

from __future__ import annotations

import os
from functools import lru_cache

_NAMED = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part", "CPU variant")
_CPUINFO = "/proc/cpuinfo"


@lru_cache(maxsize=1)
def processor_facts() -> tuple[str, frozenset[str]]:
    """Which model the first core is, and the names of what it can do; empty where nobody says.

    Names are those of Linux, such as "avx512f" and "asimd".
    """
    model: dict[str, str] = {}
    abilities = _abilities()
    try:
        with open(_CPUINFO) as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() == abilities:
                    return " ".join(model.values()), frozenset(value.split())
                if name.strip() in _NAMED:
                    model[name.strip()] = value.strip()
    except OSError:
        pass
    return " ".join(model.values()), frozenset()


def _abilities() -> str:
    """The line of what a core can do; that of another processor is of an emulator's host."""
    machine = os.uname().machine if hasattr(os, "uname") else ""
    return "Features" if machine in ("aarch64", "arm64") else "flags"
