"""Whether the processor multiplies pairs of bfloat16."""

from __future__ import annotations

import os
from functools import lru_cache

from trainkit.core.cpu.processor import processor_facts
from trainkit.kernels.jit import target

_CHOICES = "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"
"""Variables that name another processor than this one."""


@lru_cache(maxsize=1)
def has_bfloat16_pairs() -> bool:
    """Whether one instruction multiplies vectors of pairs, and adds both products to a sum.

    That is AVX512-BF16. `TRAINKIT_BFLOAT16=0` says that there is none.
    """
    # Asked when a kernel is chosen: the library of a level holds those with and without it.
    if os.environ.get("TRAINKIT_BFLOAT16") == "0" or target.vector_lanes() != 16:
        return False
    if "avx512bf16" in target.features():
        return True
    # what Linux says has this name, which is no part of a level
    return not any(name in os.environ for name in _CHOICES) and (
        "avx512_bf16" in processor_facts()[1]
    )
