"""Puts the driver that does nothing in the place of CUDA's, before CuPy is imported.

CuPy's modules hand C functions to each other in `__pyx_capi__`, a dict of capsules, each named by
the type of its function. Those of `runtime` are replaced there, and as attributes for Python. The
module `driver` opens libcuda.so.1 itself, which then is in the process already under that name.
"""

import ctypes
import importlib
import importlib.util
import os
import re
import sys
from functools import cache

from tests.null_driver import building, kernels, libraries, precompiled

RUNTIME = "cupy_backends.cuda.api.runtime"
TYPES = {
    "int": ctypes.c_int,
    "unsigned int": ctypes.c_uint,
    "size_t": ctypes.c_size_t,
    "intptr_t": ctypes.c_ssize_t,
    "float": ctypes.c_float,
    "PyObject *": ctypes.py_object,
}
SKIP, OPTIONAL = "__pyx_skip_dispatch", "__pyx_optional_args"  # arguments that Cython adds
PROPERTIES = {
    "name": b"a driver that does nothing",
    "major": 9,
    "minor": 0,
    "totalGlobalMem": 140 << 30,
    "multiProcessorCount": 132,
    "warpSize": 32,
    "maxThreadsPerBlock": 1024,
    "maxThreadsDim": (1024, 1024, 64),
    "maxGridSize": (2147483647, 65535, 65535),
    "sharedMemPerBlock": 49152,
    "sharedMemPerMultiprocessor": 233472,
    "regsPerBlock": 65536,
    "clockRate": 1980000,
    "memoryClockRate": 3201000,
    "memoryBusWidth": 6144,
    "l2CacheSize": 62914560,
    "maxThreadsPerMultiProcessor": 2048,
    "pciBusID": 0,
    "pciDeviceID": 0,
    "pciDomainID": 0,
}
_KEPT = []  # what C points to


class _Seen:
    gpus = 1


SEEN = _Seen()
"""How many GPUs programs see. CuPy, which asks once, makes ready for all that the driver has."""


def missing():
    """What the driver can't be installed without, in words; nothing if all is here."""
    if sys.platform != "linux":
        return "the driver that does nothing is for Linux"
    if building.compiler() is None:
        return "there is no C compiler"
    try:
        from cuda import pathfinder
    except ImportError:
        return "CuPy is not installed; pip install cupy-cuda13x"
    if importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed; pip install cupy-cuda13x"
    for name in ("nvrtc", "cudart"):
        try:
            pathfinder.load_nvidia_dynamic_lib(name)
        except pathfinder.DynamicLibNotFoundError:
            return f"{name} is not installed; pip install nvidia-cuda-nvrtc nvidia-cuda-runtime"
    return ""


@cache
def install():
    """The driver's library; CuPy is over it from here on and finds one GPU.

    Raises:
        RuntimeError: CuPy, or the stand-in for it, has been imported already.
    """
    if "cupy" in sys.modules:
        raise RuntimeError("CuPy has been imported, and the driver has to come before it")
    os.environ.setdefault("TRAINKIT_CUDNN", "0")  # it would look for a driver by itself
    # NVRTC keeps what it makes of CuPy's headers: half of the time of each of a thousand kernels.
    os.environ.setdefault("CUPY_NVRTC_USE_PCH", "1")
    path = building.shared_library("libcuda.so.1", building.driver_text())
    driver = ctypes.PyDLL(str(path), ctypes.RTLD_GLOBAL)
    libraries.load_all(lambda path: ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL), path)
    runtime = importlib.import_module(RUNTIME)
    driver.null_setup.argtypes = [ctypes.c_void_p]
    driver.null_setup(_address_in(runtime.__pyx_capi__["check_status"]))
    written = _written(building.driver_text())
    for name, capsule in list(runtime.__pyx_capi__.items()):
        function = _function(driver, written, name, _type_of(capsule))
        if function is not None:
            _replace(runtime, name, function, _type_of(capsule))
    runtime.getDeviceCount = lambda: SEEN.gpus
    cupy = importlib.import_module("cupy")
    precompiled.replace(driver, cupy)
    kernels.record(driver, cupy)
    pool = cupy.get_default_memory_pool()
    cupy.cuda.set_allocator(lambda size: _zeroed(pool.malloc(size), size))
    return driver


def _zeroed(memory, size):
    """New memory with zeros: what only a kernel would have written is the same in each run."""
    ctypes.memset(memory.ptr, 0, size)
    return memory


def _function(driver, written, name, kind):
    """What takes the place of CuPy's function `name`, `None` if nothing does."""
    if name in IN_PYTHON:
        return ctypes.PYFUNCTYPE(*_types(kind))(IN_PYTHON[name](driver))
    if name not in written:
        return None
    if written[name] != (expected := _plain(kind)):
        raise RuntimeError(f"{name} of this CuPy is {expected}, and the driver's {written[name]}")
    function = getattr(driver, f"null_{name}")
    function.restype, *function.argtypes = _types(kind)
    return function


def _replace(runtime, name, function, kind):
    address = ctypes.cast(function, ctypes.c_void_p).value
    _KEPT.extend((function, kind.encode()))
    runtime.__pyx_capi__[name] = _capsule(address, _KEPT[-1], None)
    if hasattr(runtime, name):
        setattr(runtime, name, _for_python(function, kind))


def _for_python(function, kind):
    """The function as Python calls it, without the arguments that Cython adds."""
    added = [0] * (SKIP in kind) + [None] * (OPTIONAL in kind)
    count = len(_types(kind)) - 1 - len(added)

    def call(*given):
        return function(*given[:count], *added)  # what more there may be are flags

    return call


def _written(text):
    """The plain type of each `null_` function in C `text`, by the name in CuPy."""
    found = re.finditer(r"^([\w ]+\*?)\s?null_(\w+)\(([^)]*)\)\s*\{", text, re.MULTILINE)
    return {f[2]: _plain(f"{f[1].strip()} ({f[3]})") for f in found}


def _plain(kind):
    """The type of a C function without names of arguments, all pointers alike."""
    result, arguments = re.fullmatch(r"(.*?)\s*\((.*)\)", kind, re.DOTALL).groups()
    return _plain_type(result), tuple(
        _plain_type(re.sub(r"\b(?!int|size_t|intptr_t|unsigned|void|float)\w+$", "", a.strip()))
        for a in arguments.split(",")
    )


def _plain_type(text):
    return (
        "pointer" if "*" in text else {"unsigned": "unsigned int"}.get(text.strip(), text.strip())
    )


def _types(kind):
    """The type of the result and those of the arguments, for ctypes."""
    result, arguments = re.fullmatch(r"(.*?)\s*\((.*)\)", kind).groups()
    given = [] if arguments == "void" else [a.strip() for a in arguments.split(",")]
    return [TYPES[result], *(_argument_type(a) for a in given)]


def _argument_type(text):
    if OPTIONAL in text:
        return ctypes.c_void_p
    return TYPES[text.removesuffix(SKIP).strip()]


def _memory(driver):
    free, total = ctypes.c_size_t(), ctypes.c_size_t()

    def get(skip):
        driver.null_memory(ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    return get


IN_PYTHON = {
    "memGetInfo": _memory,
    "getDeviceProperties": lambda driver: lambda device, skip: dict(PROPERTIES),
    "deviceGetPCIBusId": lambda driver: lambda device, skip: "0000:00:00.0",
}

_API = ctypes.pythonapi
_capsule = _API.PyCapsule_New
_capsule.restype, _capsule.argtypes = (
    ctypes.py_object,
    [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
)
_API.PyCapsule_GetName.restype, _API.PyCapsule_GetName.argtypes = (
    ctypes.c_char_p,
    [ctypes.py_object],
)
_API.PyCapsule_GetPointer.restype = ctypes.c_void_p
_API.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _type_of(capsule):
    return _API.PyCapsule_GetName(capsule).decode()


def _address_in(capsule):
    return _API.PyCapsule_GetPointer(capsule, _API.PyCapsule_GetName(capsule))
