"""Whether the processor multiplies pairs of bfloat16, and tiles of them."""

from __future__ import annotations

import ctypes
import os
import platform
from functools import lru_cache

from trainkit.core.cpu.processor import processor_facts
from trainkit.kernels.jit import target

_CHOICES = "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"
"""Variables that name another processor than this one."""


@lru_cache(maxsize=1)
def has_bfloat16_pairs() -> bool:
    """Whether an instruction that multiplies vectors of pairs, or tiles of them, is to be used.

    The former, AVX512-BF16, adds both products of a pair to a sum. Intel's processors have half as
    many units for it as for float32, so there it is used where they have tiles, too, or
    `TRAINKIT_BFLOAT16=pairs` asks for it. `TRAINKIT_BFLOAT16=0` says that there is none.
    """
    # Asked when a kernel is chosen: the library of a level holds those with and without it.
    said = os.environ.get("TRAINKIT_BFLOAT16")
    if said == "0" or target.vector_lanes() != 16:
        return False
    if "avx512bf16" in target.features():
        return True
    if any(name in os.environ for name in _CHOICES):
        return False
    # what Linux says has this name, which is no part of a level
    model, flags = processor_facts()
    if "avx512_bf16" not in flags:
        return False
    return said == "pairs" or not model.startswith("GenuineIntel") or _may_use_tiles()


def has_bfloat16_tiles() -> bool:
    """Whether one instruction multiplies two tiles of 16 rows of 16 pairs, and may be used.

    That is AMX-BF16. `TRAINKIT_BFLOAT16=pairs` says that there are pairs alone.
    """
    return has_bfloat16_pairs() and _may_use_tiles()


_ARCH_PRCTL = 158
_ASK_FOR_STATE, _TILE_DATA = 0x1023, 18
"""A call of Linux, `ARCH_REQ_XCOMP_PERM` and `XFEATURE_XTILEDATA`."""


@lru_cache(maxsize=1)
def _may_use_tiles() -> bool:
    """Whether the processor has them, and the system lets this process, its threads and children.

    Their registers are 8 KB of each thread's state, so Linux wants to be asked once. Source: the
    Linux kernel's documentation, "Using XSTATE features in user space applications".
    """
    if os.environ.get("TRAINKIT_BFLOAT16") == "pairs" or platform.system() != "Linux":
        return False
    if any(name in os.environ for name in _CHOICES):
        return False
    if not {"amx_bf16", "amx_tile"} <= processor_facts()[1]:
        return False
    is_granted: bool = ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ASK_FOR_STATE, _TILE_DATA) == 0
    return is_granted
