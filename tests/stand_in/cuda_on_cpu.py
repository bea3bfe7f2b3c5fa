"""CUDA C++ compiled for the CPU, where blocks and threads run one after the other.

What the text of a kernel says is what runs, so its arithmetic, its indices and its barriers are put
to the test, thread by thread. That the threads of a GPU run it as well, and at once, is not; but
`backward` runs them in the other order, and what depends on the order then shows.

    kernel = built(text, "name")
    kernel((blocks,), (threads,), [a, b, np.int32(3)])  # arrays by address, numbers by value
"""

import atexit
import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import numpy as np

HEADER = Path(__file__).with_name("cuda_on_cpu.h")
FOLDER_VARIABLE = "STAND_IN_KERNELS"
"""Names the folder of compiled kernels, which several processes may share."""
MOST_THREADS, MOST_SHARED_BYTES = 1024, 227 << 10
"""Of a block, on compute capability 9.0."""
_WAITING = re.compile(r"__sync|__shfl|__ballot|__any_sync|__all_sync|__activemask")
_DYNAMIC = re.compile(
    r"extern\s+__shared__\s+(?:__align__\(\d+\)\s*)?([\w ]+?)\s+(\w+)\s*\[\s*\]\s*;"
)
_INCLUDES = re.compile(r"^\s*#\s*include\s*<cuda_\w+\.h>.*$", re.M)
_OPTIONS = ["-x", "c++", "-std=c++17", "-", "-O1", "-ffp-contract=off", "-fno-builtin"]
_OPTIONS += ["-fno-strict-aliasing", "-fno-gnu-unique", "-w", "-shared", "-fPIC"]
# Linking the library of C++, which nothing here calls, is up to half of a kernel's time.
_OPTIONS += ["-nostdlib"]
_LIBRARIES = ["-lm", "-lc", "-lgcc"]


class _Order:
    backward = False


@contextlib.contextmanager
def forward():
    """The first block and the first thread come first, as they do without this."""
    before, _Order.backward = _Order.backward, False
    try:
        yield
    finally:
        _Order.backward = before


@contextlib.contextmanager
def backward():
    """The last block and the last thread come first."""
    before, _Order.backward = _Order.backward, True
    try:
        yield
    finally:
        _Order.backward = before


def has_compiler():
    """Whether some g++ makes code that this process can load."""
    return _compiler() is not None


@functools.cache
def _compiler():
    """A g++ for this machine, `None` where there is none: under an emulator g++ is the host's."""
    machine = platform.machine()
    return next(filter(_makes_code, ("g++", f"{machine}-linux-gnu-g++")), None)


def _makes_code(command):
    """Whether a compiler is there, and its code is for this machine."""
    if shutil.which(command) is None:
        return False
    asked = subprocess.run([command, "-dumpmachine"], text=True, capture_output=True)
    return asked.returncode == 0 and asked.stdout.startswith(platform.machine())


@functools.cache
def _folder():
    """Where compiled kernels are, for this process and those that it starts."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        Path(named).mkdir(parents=True, exist_ok=True)
        return Path(named)
    path = tempfile.mkdtemp(prefix="trainkit-stand-in-")
    os.environ[FOLDER_VARIABLE] = path
    atexit.register(_remove, path, os.getpid())
    return Path(path)


def _remove(path, owner):
    if os.getpid() == owner:  # and no process that was forked off
        shutil.rmtree(path)


class Kernel:
    """A kernel on the CPU: call it with a grid, a block, and arrays of NumPy and numbers."""

    def __init__(self, library):
        self._library = library
        library.run.restype = ctypes.c_char_p
        sizes = (ctypes.c_long * (library.parameters(None) + 1))()
        library.parameters(sizes)
        self.sizes = list(sizes)[:-1]

    def __call__(self, grid, block, args, shared_mem=0):
        grid, block = ((*map(int, sizes), 1, 1)[:3] for sizes in (grid, block))
        if int(np.prod(block)) > MOST_THREADS or shared_mem > MOST_SHARED_BYTES:
            raise ValueError(
                f"a block of {block} threads with {shared_mem} bytes can't be launched"
            )
        if min(grid) < 1 or min(block) < 1:
            raise ValueError(f"CUDA_ERROR_INVALID_VALUE: grid {grid}, block {block}")
        if len(args) != len(self.sizes):
            raise TypeError(f"the kernel takes {len(self.sizes)} arguments, {len(args)} are given")
        kept = [
            _given(x, size, i) for i, (x, size) in enumerate(zip(args, self.sizes, strict=True))
        ]
        places = (ctypes.c_void_p * max(len(kept), 1))(*(place for _, place in kept))
        room = np.full(shared_mem + 16, 0xA5, np.uint8)
        dims = [(ctypes.c_uint * 3)(*sizes) for sizes in (grid, block)]
        room_at = ctypes.c_void_p(-(-room.ctypes.data // 16) * 16)
        error = self._library.run(*dims, room_at, int(_Order.backward), places)
        if error:
            raise RuntimeError(error.decode())


class _Address:
    """An array by its address."""

    def __init__(self, array):
        self.array = array


def by_address(array):
    """Says that `array` is one of the device, even where it has a single element."""
    return _Address(array)


def _given(x, size, i):
    """What has to stay alive, and the address of an argument; numbers have the type's size."""
    if isinstance(x, _Address) or (isinstance(x, np.ndarray) and size < 0):
        array = getattr(x, "array", x)
        if size > 0:
            raise TypeError(f"argument {i} is an array, the kernel takes a number of {size} bytes")
        return array, array.ctypes.data
    kind = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}.get(type(x))
    value = np.array(x, kind)
    if size < 0:
        if x is None:
            return None, None
        raise TypeError(f"argument {i} is {x!r}, the kernel takes an array")
    if value.nbytes != size:
        raise TypeError(
            f"argument {i}, a {value.dtype}, has {value.nbytes} bytes, the kernel's has {size}"
        )
    return value, value.ctypes.data


@functools.cache
def built(code, name):
    """The kernel `name` of `code`, which may be an instance of a template, as `f<float>`."""
    if not has_compiler():
        raise RuntimeError("no g++ for this machine is here")
    waits = "#define CPU_BARRIERS\n" if _WAITING.search(code) else ""
    body = _DYNAMIC.sub(r"\1* \2 = (\1*)cpu_dynamic;", _INCLUDES.sub("", code))
    text = f"""{waits}#include "{HEADER.name}"
{body}
static void cpu_this(void** a) {{ cpu_call(&{name}, a); }}
extern "C" int parameters(long* sizes) {{ return cpu_sizes(&{name}, sizes); }}
extern "C" const char* run(const unsigned* grid, const unsigned* block, void* dynamic,
                           int backward, void** a) {{
  return cpu_run(grid, block, dynamic, backward, cpu_this, a);
}}
"""
    stem = hashlib.sha256((text + HEADER.read_text()).encode()).hexdigest()[:24]
    library = _folder() / f"{stem}.so"
    if not library.exists():
        _compile(text, library, code)
    return Kernel(ctypes.CDLL(str(library)))


def _compile(text, library, code):
    # Another process may look for it meanwhile, so it has its name once it is whole.
    unfinished = library.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    done = subprocess.run(
        [_compiler(), *_OPTIONS, "-I", str(HEADER.parent), "-o", str(unfinished), *_LIBRARIES],
        input=text,
        text=True,
        capture_output=True,
    )
    if done.returncode:
        raise RuntimeError(f"g++ refuses a kernel:\n{done.stderr[:4000]}\n{code}")
    unfinished.replace(library)
