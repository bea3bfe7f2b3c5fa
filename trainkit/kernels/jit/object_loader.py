"""Object code made part of this process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from trainkit.core.process import forks
from trainkit.kernels.jit.numpy_inner_loops import built_in, forever, python_function
from trainkit.kernels.jit.object_format import names_outside
from trainkit.kernels.jit.python_entry import CALLED, OBJECTS


class Linker:
    """LLVM's linker, which finds what code refers to in this process."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        self._llvm = llvm
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple().create_target_machine(opt=2)
        self._target = target
        # Functions made here live as long as the process, and their code lies in the engine's
        # memory.
        self._engine = forever(llvm.create_mcjit_compiler(llvm.parse_assembly(""), target))
        self.symbols({name: python_function(name) for name in CALLED})
        cells = {name: forever(ctypes.c_void_p(id(thing))) for name, thing in OBJECTS.items()}
        self.symbols({name: ctypes.addressof(cell) for name, cell in cells.items()})

    def symbols(self, addresses: dict[str, int]) -> None:
        """Let code refer to the functions and the memory at these addresses."""
        for name, address in addresses.items():
            self._llvm.add_symbol(name, address)

    def module(self, text: str) -> Callable[[str], int]:
        """Addresses of the functions and the memory of a module in LLVM's language, by name."""
        llvm = self._llvm
        with forks.COMPILING:
            code = self._target.emit_object(llvm.parse_assembly(text))
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            self._engine.finalize_object()

        def address(name: str) -> int:
            function: int = self._engine.get_function_address(name)
            return function or int(self._engine.get_global_value_address(name))

        return address

    def loaded(self, code: bytes, name: str) -> Any:
        """The built-in function `name` of object code, which stays as long as the process.

        Raises:
            ValueError: the code is not whole, or refers to what this process does not have, either
                of which would end the process.
            RuntimeError: the code does not define the function.
        """
        # LLVM ends the process at a name that it does not know, so all of them are looked for
        # first.
        outside = names_outside(code)
        with forks.COMPILING:
            missing = [other for other in outside if not self._has(other)]
            if missing:
                raise ValueError(f"the compiled code needs {', '.join(sorted(missing))}")
            self._engine.add_object_file(self._llvm.ObjectFileRef.from_data(code))
            self._engine.finalize_object()
            address = self._engine.get_function_address(name)
        if not address:
            raise RuntimeError(f"the compiled code has no function {name}")
        return built_in(address)

    def _has(self, name: str) -> bool:
        return bool(
            self._llvm.address_of_symbol(name)
            or self._engine.get_function_address(name)
            or self._engine.get_global_value_address(name)
        )


@lru_cache(maxsize=1)
def linker() -> Linker:
    """The one of this process."""
    return Linker()
