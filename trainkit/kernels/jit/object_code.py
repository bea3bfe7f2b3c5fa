"""From a function that Numba has compiled to object code that can be kept and needs no Numba."""

from __future__ import annotations

import re
from typing import Any

import llvmlite.binding as llvm
from numba.core.dispatcher import Dispatcher

from trainkit.kernels.jit.llvm_target import target_machine
from trainkit.kernels.jit.numpy_inner_loops import available
from trainkit.kernels.jit.python_entry import MEMORY, EntryText
from trainkit.kernels.threads.parallel_for import WITHOUT_POOL


def can_be_kept(kernel: Any) -> bool:
    """Whether a kernel can have code of its own here: not where Numba's threads share it out."""
    return isinstance(kernel, Dispatcher) and available() and not WITHOUT_POOL


def object_code(kernel: Any, name: str, for_library: bool = False, triple: str = "") -> bytes:
    """The code of a compiled kernel, behind a built-in function of Python.

    Args:
        kernel: Numba's dispatcher, compiled for one signature whose result is none.
        name: of the function; all else in the code is its own.
        for_library: it becomes part of a shared library.
        triple: LLVM's name of the machine that it is for, with words of 64 bits, the low byte
            first; by default it is this one.
    """
    (overload,) = kernel.overloads.values()
    machine = target_machine(for_library, triple)
    text = overload.library.get_llvm_str()
    module = llvm.parse_assembly(_for_another(text) if triple else text)
    native = overload.fndesc.llvm_func_name
    # The first two are where the result and an exception go, by Numba's convention.
    parameters = [str(argument.type) for argument in module.get_function(native).arguments]
    entry = EntryText(name, native, parameters[2:], overload.signature.args)
    # Several objects share one library, where equal names of Numba's helpers would clash.
    for thing in (*module.functions, *module.global_variables):
        if not thing.is_declaration:
            thing.linkage = "internal"
    # The entry is a module of its own until both are linked, and has to find the kernel by name.
    module.get_function(native).linkage = "external"
    module.link_in(llvm.parse_assembly(entry.text))
    # Once they are linked nothing outside needs them, so that they may be inlined and dropped.
    for function in (native, *MEMORY):
        module.get_function(function).linkage = "internal"
    _drop_unused(module, machine)
    # The text names this machine. What it depends on, words of 64 bits and the order of their
    # bytes, is the same there.
    if triple:
        module.triple, module.data_layout = triple, str(machine.target_data)
    module.verify()
    code: bytes = machine.emit_object(module)
    return code


_COUNTED_DOWN = "llvm.x86.atomic.sub.cc.i64"
_COUNT_DOWN = """
define internal i8 @trainkit_count_down(ptr %at, i64 %n, i32 %condition) {
  %before = atomicrmw sub ptr %at, i64 %n seq_cst
  %none = icmp eq i64 %before, %n
  %result = zext i1 %none to i8
  ret i8 %result
}
"""


def _for_another(text: str) -> str:
    """Numba's text without what LLVM has put into it for x86: counts of references.

    Raises:
        NotImplementedError: it holds more of that kind.
    """
    if _COUNTED_DOWN in text:
        text = re.sub(rf"^declare .*@{re.escape(_COUNTED_DOWN)}\(.*$", "", text, flags=re.MULTILINE)
        text = text.replace(f"@{_COUNTED_DOWN}", "@trainkit_count_down") + _COUNT_DOWN
    match = re.search(r"@(llvm\.x86\.[\w.]+)", text)
    if match:
        raise NotImplementedError(f"{match[1]} is for x86 alone")
    return text


def _drop_unused(module: Any, machine: Any) -> None:
    """Delete what is not reached from the entry: the ways into the code that Numba has made."""
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)
