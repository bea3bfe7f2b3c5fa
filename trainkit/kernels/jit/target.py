"""The processor that kernels are compiled for: this one, or what Numba's variables say."""

from __future__ import annotations

import os
import platform
from functools import lru_cache

from trainkit.core.cpu.processor import processor_facts

_OF_LINUX = {
    "avx": "avx",
    "avx2": "avx2",
    "avx512bw": "avx512bw",
    "avx512cd": "avx512cd",
    "avx512dq": "avx512dq",
    "avx512f": "avx512f",
    "avx512vl": "avx512vl",
    "bmi": "bmi1",
    "bmi2": "bmi2",
    "f16c": "f16c",
    "fma": "fma",
    "lzcnt": "abm",
    "movbe": "movbe",
}
"""What Linux calls the features that LLVM and the levels below know by these names."""

_V3 = frozenset({"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"})
_V4 = _V3 | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}

LEVELS = {"x86-64-v3": _V3, "x86-64-v4": _V4, "aarch64": frozenset[str]()}
"""The instruction sets that kernels can come compiled for, with the features LLVM is to use."""


@lru_cache(maxsize=1)
def features() -> frozenset[str]:
    """What compiled kernels may use, by LLVM's names, of what makes a difference to them here.

    `NUMBA_CPU_FEATURES` decides where it is set, as it does for Numba.
    """
    # First of all: by these variables a child compiles for another machine.
    said = os.environ.get("NUMBA_CPU_FEATURES")
    if said is not None:
        return frozenset(word[1:] for word in said.split(",") if word.startswith("+"))
    if os.environ.get("NUMBA_CPU_NAME") == "generic":
        return frozenset()
    model, flags = processor_facts()
    # Linux's list is read without an import of LLVM.
    if flags or model:
        return frozenset(name for name, linux in _OF_LINUX.items() if linux in flags)
    from llvmlite import binding

    return frozenset(
        name for name, is_supported in binding.get_host_cpu_features().items() if is_supported
    )


def vector_lanes() -> int:
    """How many float32 a vector holds."""
    if "avx512f" in features():
        return 16
    return 8 if "avx" in features() else 4


def multiplies_whole_vectors() -> bool:
    """Whether vectors of 64 bytes, where there are any, go through units as wide.

    AMD's family 25 multiplies them in two halves. Source: AMD, "Software Optimization Guide for the
    AMD Zen4 Microarchitecture". Only what changes no bit of a result may depend on it.
    """
    return vector_lanes() < 16 or processor_facts()[0].split()[:2] != ["AuthenticAMD", "25"]


@lru_cache(maxsize=1)
def converts_float16() -> bool:
    """Whether instructions do, both ways; else LLVM would call a function that nobody has."""
    return "f16c" in features() or platform.machine() in ("aarch64", "arm64")


def level() -> str:
    """The widest of `LEVELS` that may be used; empty where there is none."""
    if platform.machine() == "aarch64":
        return "aarch64"
    if platform.machine() != "x86_64":
        return ""
    # The features and not the processor's name: a virtual machine may hide some of them.
    return next((name for name in ("x86-64-v4", "x86-64-v3") if LEVELS[name] <= features()), "")


@lru_cache(maxsize=1)
def identity() -> str:
    """A text that differs where code compiled here might not run, or not as well."""
    model, flags = processor_facts()
    if not flags:
        model = platform.processor()
    # These variables decide on the code as well, see `features`.
    settings = [os.environ.get(name, "-") for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")]
    return "\n".join([platform.system(), platform.machine(), model, *sorted(flags), *settings])
