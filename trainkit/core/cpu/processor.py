"""What the processor can do, as the system tells it."""

from __future__ import annotations

import os
from functools import lru_cache

from trainkit.core.cpu.cost_model import FIRST_CACHE, SECOND_CACHE, THIRD_CACHE

_NAMED = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part", "CPU variant")
_CPUINFO = "/proc/cpuinfo"
_CACHES = "/sys/devices/system/cpu/cpu0/cache"
_USUAL = {1: FIRST_CACHE, 2: SECOND_CACHE, 3: THIRD_CACHE}
_LEAST = {1: 32 << 10, 2: 128 << 10, 3: 512 << 10}
_MOST = {1: 1 << 20, 2: 128 << 20, 3: 4 << 30}
"""What is less or more than these, as some virtual machines say, is not believed."""


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


@lru_cache(maxsize=4)
def cache_bytes(level: int) -> int:
    """How much the data cache of a level holds, 1 to 3, as the first core sees it.

    The first two are a core's own on most processors, the third is shared. Read when first asked
    for. Only what changes no bit of a result may depend on it.
    """
    try:
        folders = sorted(os.listdir(_CACHES))
    except OSError:
        folders = []
    for name in folders:
        facts = [_line(os.path.join(_CACHES, name, fact)) for fact in ("level", "type", "size")]
        size = _size_of(facts[2])
        fits = _LEAST[level] <= size <= _MOST[level]
        if facts[0] == str(level) and facts[1] in ("Data", "Unified") and fits:
            return size
    return _USUAL[level]


def _line(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def _size_of(text: str) -> int:
    """Bytes of what is written as "48K" or "1M"; 0 for anything else."""
    number, unit = text[:-1], text[-1:]
    return int(number) << _UNITS[unit] if number.isdecimal() and unit in _UNITS else 0


_UNITS = {"K": 10, "M": 20, "G": 30}


def _abilities() -> str:
    """The line of what a core can do; that of another processor is of an emulator's host."""
    machine = os.uname().machine if hasattr(os, "uname") else ""
    return "Features" if machine in ("aarch64", "arm64") else "flags"
