"""The kernels that trainkit writes itself, as CuPy compiled them for compute capability 9.0.

`record` lets every `cupy.RawKernel` be noted down with what the compiler said of it, and looks at
each launch whether the arguments are of the sizes of the kernel's parameters: CuPy does not, and a
kernel of a GPU would read what lies beside them.
"""

import ctypes
import re
from dataclasses import dataclass

import numpy as np

MOST_PARAMETERS = 1024
RECORDED = []


@dataclass
class Kernel:
    """A compiled kernel.

    Attributes:
        name: of the function.
        registers: of each thread.
        stack: bytes of each thread, where local arrays and spilled registers are.
        shared: bytes of each block.
        sizes: bytes of each parameter.
        turns: whether it takes a sine or cosine, which need a stack of 40 bytes for large angles.
        error: why it was not compiled.
    """

    name: str
    registers: int = 0
    stack: int = 0
    shared: int = 0
    sizes: tuple = ()
    turns: bool = False
    error: str = ""


class ArgumentSizes(Exception):
    """The arguments of a launch are not of the sizes of the kernel's parameters."""


def record(driver, cupy):
    """Let `cupy.RawKernel` make kernels that are noted down in `RECORDED`."""

    class RawKernel(cupy.RawKernel):
        facts = None

        def compile(self, *given, **options):
            try:
                super().compile(*given, **options)
                self.facts = _facts(driver, self)
            except Exception as error:
                RECORDED.append(Kernel(self.name, error=str(error)))
                raise
            RECORDED.append(self.facts)

        def __call__(self, grid, block, args, **settings):
            if self.facts is None:
                self.compile()
            found = tuple(_size(cupy, a) for a in args)
            if found != self.facts.sizes:
                raise ArgumentSizes(f"{self.name}: {_difference(found, self.facts.sizes)}")
            return super().__call__(grid, block, args, **settings)

    cupy.RawKernel = RawKernel


def _facts(driver, kernel):
    registers, stack, shared = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    sizes = (ctypes.c_int * MOST_PARAMETERS)()
    places = [ctypes.byref(x) for x in (registers, stack, shared)]
    count = driver.null_function(ctypes.c_void_p(kernel.kernel.ptr), *places, sizes)
    turns = re.search(r"\b(sin|cos|tan)", kernel.code) is not None
    found = registers.value, stack.value, shared.value, tuple(sizes[:count])
    return Kernel(kernel.name, *found, turns)


def _size(cupy, argument):
    if argument is None or isinstance(argument, cupy.ndarray):
        return 8  # an address
    if isinstance(argument, np.generic | np.ndarray):
        return argument.nbytes
    return {bool: 1, int: 8, float: 8, complex: 16}[type(argument)]


def _difference(found, wanted):
    if len(found) != len(wanted):
        return f"{len(found)} arguments for {len(wanted)} parameters"
    i = next(i for i, (a, b) in enumerate(zip(found, wanted, strict=True)) if a != b)
    return f"argument {i} has {found[i]} bytes, its parameter {wanted[i]}"
