"""Kernels that are written in LLVM's language, not compiled by Numba."""

from __future__ import annotations

from typing import Any

from trainkit.kernels.jit.llvm_target import target_machine


class LlvmText:
    """A module whose function `@run` is a built-in function of Python.

    It defines nothing else that can be seen from outside, and refers to no more than kernels may
    (`python_entry.py`).
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def object_code(self, name: str, for_library: bool = False, triple: str = "") -> bytes:
        """The code, in which the function has another name.

        Args:
            name: of the function.
            for_library: it becomes part of a shared library.
            triple: LLVM's name of the machine that it is for; by default it is this one.
        """
        import llvmlite.binding as llvm

        target = target_machine(for_library, triple)
        module = llvm.parse_assembly(self._text.replace("@run(", f"@{name}("))
        if triple:
            module.triple, module.data_layout = triple, str(target.target_data)
        return optimized_code(module, target)


def optimized_code(module: Any, target: Any) -> bytes:
    """The object code of a module of llvmlite's, with loops made of vectors where that can be."""
    import llvmlite.binding as llvm

    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.slp_vectorization = False
    options.loop_unrolling = True
    builder = llvm.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = target.emit_object(module)
    return code


def text_kernel(text: str) -> LlvmText:
    """The kernel of a text, as a builder of kernels gives it."""
    return LlvmText(text)
