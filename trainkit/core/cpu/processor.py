"""What the processor can do, as the system tells it."""

from __future__ import annotations

from functools import lru_cache

_NAMED = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part", "CPU variant")
_ABILITIES = ("flags", "Features")


@lru_cache(maxsize=1)
def processor_facts() -> tuple[str, frozenset[str]]:
    """Which model the first core is, and the names of what it can do; empty where nobody says.

    Names are those of Linux, such as "avx512f" and "asimd".
    """
    model: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() in _ABILITIES:
                    return " ".join(model.values()), frozenset(value.split())
                if name.strip() in _NAMED:
                    model[name.strip()] = value.strip()
    except OSError:
        pass
    return "", frozenset()
