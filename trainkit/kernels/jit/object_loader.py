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
from trainkit.kernels.jit.without_llvm.object_memory import UnknownObject, load_object


class Linker:
    """Puts code into memory, and finds what it refers to in this process."""

    def __init__(self) -> None:
        self._addresses: dict[str, int] = {}
        self._process = ctypes.CDLL(None)
        self.symbols({name: python_function(name) for name in CALLED})
        cells = {name: forever(ctypes.c_void_p(id(thing))) for name, thing in OBJECTS.items()}
        self.symbols({name: ctypes.addressof(cell) for name, cell in cells.items()})

    def symbols(self, addresses: dict[str, int]) -> None:
        """Let code refer to the functions and the memory at these addresses."""
        self._addresses.update(addresses)

    def _address(self, name: str) -> int:
        """Where something is, 0 where it is not known."""
        address = self._addresses.get(name)
        if address is None:
            try:
                function = getattr(self._process, name)
            except (AttributeError, ValueError):  # a name may hold what none of C's does
                return 0
            address = ctypes.cast(function, ctypes.c_void_p).value
        return address or 0

    def module(self, text: str) -> Callable[[str], int]:
        """Addresses of the functions and the memory of a module in LLVM's language, by name."""
        with forks.COMPILING:
            llvm = self._llvm()
            llvm.add(llvm.object_code(text), self._addresses)
        return llvm.address

    def loaded(self, code: bytes, name: str) -> Any:
        """The built-in function `name` of object code, which stays as long as the process.

        Raises:
            ValueError: the code is not whole, or refers to what this process does not have, either
                of which would end the process.
            RuntimeError: the code does not define the function.
        """
        # What is not there would be called at address 0, so all names are looked for first.
        outside = names_outside(code)
        with forks.COMPILING:
            missing = [other for other in outside if not self._address(other)]
            if missing:
                raise ValueError(f"the compiled code needs {', '.join(sorted(missing))}")
            try:
                address = load_object(code, self._address).get(name, 0)
            except UnknownObject:
                llvm = self._llvm()
                llvm.add(code, self._addresses)
                address = llvm.address(name)
        if not address:
            raise RuntimeError(f"the compiled code has no function {name}")
        return built_in(address)

    @staticmethod
    @lru_cache(maxsize=1)
    def _llvm() -> LlvmLinker:
        return LlvmLinker()


class LlvmLinker:
    """LLVM's linker, for objects that `object_memory.py` does not know, and for other systems."""

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

    def object_code(self, text: str) -> bytes:
        """The code of a module in LLVM's language, as it is written there."""
        code: bytes = self._target.emit_object(self._llvm.parse_assembly(text))
        return code

    def add(self, code: bytes, addresses: dict[str, int]) -> None:
        """Put object code into memory, which refers to the process and to these addresses."""
        for name, address in addresses.items():
            self._llvm.add_symbol(name, address)
        self._engine.add_object_file(self._llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where a function or a piece of memory that was added is, 0 where there is none."""
        function: int = self._engine.get_function_address(name)
        return function or int(self._engine.get_global_value_address(name))


@lru_cache(maxsize=1)
def linker() -> Linker:
    """The one of this process."""
    return Linker()
