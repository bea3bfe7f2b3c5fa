"""Kernels of CUDA C++ run on the CPU: compiled as C++, with the blocks and threads as loops.

What the source says is what runs, so its arithmetic and its indices are put to the test. That the
threads of a GPU run it as well is not.
"""

import ctypes
import functools
import hashlib
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from tests.stand_in.arrays import ndarray
from tests.stand_in.streams import work

SHIM = """
#define __global__
#define __restrict__
struct Place { unsigned int x, y, z; };
static thread_local Place gridDim, blockDim, blockIdx, threadIdx;
static inline float __int_as_float(int x) { float y; __builtin_memcpy(&y, &x, 4); return y; }
static inline double __longlong_as_double(long long x) {
  double y; __builtin_memcpy(&y, &x, 8); return y;
}
"""
FUNCTIONS = (
    "acos acosh asin asinh atan atanh cbrt ceil cos cosh exp exp2 expm1 fabs floor log log10"
)
FUNCTIONS += " log1p log2 rint sin sinh sqrt tan tanh trunc"
BINARY = "atan2 copysign fmax fmin fmod hypot nextafter pow"


def has_compiler():
    return shutil.which("g++") is not None


def shim():
    """What the CUDA compiler knows by itself; declared here, as reading <cmath> takes longer."""
    lines = [SHIM]
    for names, count in ((FUNCTIONS, 1), (BINARY, 2)):
        for name in names.split():
            for kind, end in (("double", ""), ("float", "f")):
                lines.append(f'extern "C" {kind} {name}{end}({", ".join([kind] * count)});')
    return "\n".join(lines)


@functools.cache
def folder():
    return Path(tempfile.mkdtemp(prefix="trainkit-stand-in-"))


class RawKernel:
    """`cupy.RawKernel`: compiled by g++; every block and thread runs after the other."""

    def __init__(self, code, name, options=(), backend="nvrtc", translate_cucomplex=False):
        if not isinstance(options, tuple):
            raise TypeError("options must be a tuple of str")
        self.code, self.name, self.options = code, name, options
        self._function = None

    def compile(self, log_stream=None):
        self._function = _built(self.code, self.name)

    @work(writes=True)
    def __call__(self, grid, block, args, *, shared_mem=0, stream=None):
        if self._function is None:
            self.compile()
        pointers = []
        for x in args:
            if isinstance(x, np.ndarray) and x.size == 1:  # goes along by value
                pointers.append(ctypes.c_void_p(x.ctypes.data))
            elif isinstance(x, ndarray):
                pointers.append(ctypes.c_void_p(x._host.ctypes.data))
            else:
                raise TypeError(f"an argument is no array of the device: {type(x)}")
        self._function(grid[0], block[0], *pointers)


@functools.cache
def _built(code, name):
    if not has_compiler():
        raise RuntimeError("g++ is not here")
    found = re.search(rf"{name}\((.*?)\) \{{", code, re.S)[1].replace("__restrict__ ", "")
    types = [p.strip().rpartition(" ")[0] for p in found.split(",")]
    parameters = ", ".join(f"void* a{i}" for i in range(len(types)))
    given = ", ".join(f"({t})a{i}" if "*" in t else f"*({t}*)a{i}" for i, t in enumerate(types))
    text = f"""{shim()}
{code}
extern "C" void run(unsigned int blocks, unsigned int threads, {parameters}) {{
  gridDim = {{blocks, 1, 1}}; blockDim = {{threads, 1, 1}};
  for (unsigned int b = 0; b < blocks; ++b)
    for (unsigned int t = 0; t < threads; ++t) {{
      blockIdx = {{b, 0, 0}}; threadIdx = {{t, 0, 0}};
      {name}({given});
    }}
}}
"""
    stem = hashlib.sha256(text.encode()).hexdigest()[:24]
    library = folder() / f"{stem}.so"
    command = [
        "g++",
        "-x",
        "c++",
        "-",
        "-O1",
        "-ffp-contract=off",
        "-fno-builtin",
        "-shared",
        "-fPIC",
    ]
    done = subprocess.run(
        [*command, "-o", str(library), "-lm"], input=text, text=True, capture_output=True
    )
    if done.returncode:
        raise RuntimeError(f"g++ refuses a kernel:\n{done.stderr}\n{code}")
    return ctypes.CDLL(str(library)).run
