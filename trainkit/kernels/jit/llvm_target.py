"""LLVM, set up for the processor that code is compiled for."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from trainkit.kernels.jit.target import level

WIDE = "-prefer-256-bit"
"""LLVM takes half of the registers of AVX-512 by itself."""


def processor() -> tuple[str, str]:
    """LLVM's name of the processor and its features: this one's, or what Numba's variables say.

    The name is that of the instruction set, for which kernels come compiled, too: the features say
    what may be used, and the name only how instructions are put in order. By its models of Zen 4
    and 5 LLVM moves loads so far ahead that tiles of products no longer fit into the registers, and
    products take a fifth more time.
    """
    import llvmlite.binding as llvm

    features = os.environ.get("NUMBA_CPU_FEATURES")
    if features is None:
        features = llvm.get_host_cpu_features().flatten()
    name = os.environ.get("NUMBA_CPU_NAME")
    if name:
        return name, features
    instruction_set = level()
    if not instruction_set.startswith("x86"):
        return llvm.get_host_cpu_name(), features
    if instruction_set == "x86-64-v4":
        features += f",{WIDE}"
    return instruction_set, features


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
