"""LLVM, set up for the processor that code is compiled for."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any


def processor() -> tuple[str, str]:
    """LLVM's name of the processor and its features: this one's, or what Numba's variables say."""
    import llvmlite.binding as llvm

    name = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    said = os.environ.get("NUMBA_CPU_FEATURES")
    return name, llvm.get_host_cpu_features().flatten() if said is None else said


@lru_cache(maxsize=4)
def target_machine(for_library: bool = False, triple: str = "") -> Any:
    """What writes code.

    Args:
        for_library: the code becomes part of a shared library, not of this process.
        triple: LLVM's name of the machine that the code is for; by default it is this one.
    """
    import llvmlite.binding as llvm

    name, features = processor()
    kinds = {"reloc": "pic", "codemodel": "default"} if for_library else {}
    if triple:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        target = llvm.Target.from_triple(triple)
    else:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=name, features=features, opt=3, **kinds)
