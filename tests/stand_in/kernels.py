"""`cupy.RawKernel` and `cupy.RawModule` of the stand-in: what the source says, run by the CPU."""

import numpy as np

from tests.stand_in import cuda_on_cpu, streams
from tests.stand_in.arrays import ndarray
from tests.stand_in.cuda_on_cpu import has_compiler as has_compiler
from tests.stand_in.streams import work


class RawKernel:
    """`cupy.RawKernel`: compiled by g++; every block and thread runs after the other."""

    def __init__(self, code, name, options=(), backend="nvrtc", translate_cucomplex=False):
        if not isinstance(options, tuple):
            raise TypeError("options must be a tuple of str")
        self.code, self.name, self.options = code, name, options
        self._function = None

    def compile(self, log_stream=None):
        self._function = cuda_on_cpu.built(self.code, self.name)

    @work(writes=True)
    def __call__(self, grid, block, args, *, shared_mem=0, stream=None):
        if self._function is None:
            self.compile()
        given = []
        for x in args:
            if isinstance(x, ndarray):
                given.append(cuda_on_cpu.by_address(x._host))
            elif isinstance(x, np.ndarray) and x.size != 1:
                raise TypeError(f"an argument is no array of the device: {type(x)}")
            elif x is None or isinstance(x, np.ndarray | np.generic | bool | int | float):
                given.append(x)
            else:
                raise TypeError(f"Unsupported type {type(x)}")
        if not streams.recording():  # it gives nothing, and positions to read at are not made yet
            self._function(grid, block, given, shared_mem)


class RawModule:
    """`cupy.RawModule`: several kernels of one text, instances of templates too."""

    def __init__(
        self,
        *,
        code=None,
        path=None,
        options=(),
        backend="nvrtc",
        translate_cucomplex=False,
        enable_cooperative_groups=False,
        name_expressions=None,
        jitify=False,
    ):
        if code is None or path is not None:
            raise TypeError("the stand-in takes the source of a module")
        if not isinstance(options, tuple):
            raise TypeError("options must be a tuple of str")
        self.code, self.options, self.name_expressions = code, options, name_expressions

    def compile(self, log_stream=None):
        for name in self.name_expressions or ():
            cuda_on_cpu.built(self.code, name)

    def get_function(self, name):
        if "<" in name and name not in (self.name_expressions or ()):
            raise KeyError(f"{name} is not among name_expressions")
        return RawKernel(self.code, name, self.options)
