"""The modules `cupy` and `cupyx` of the stand-in, and how trainkit comes to use them."""

import importlib.machinery
import json
import sys
import types
from contextlib import contextmanager
from functools import cache

import numpy as np

from tests.stand_in import cublas, cuda, cudnn, functions, transfers
from tests.stand_in.arrays import ndarray
from tests.stand_in.facts import FILE, MODULES
from tests.stand_in.kernels import RawKernel, RawModule
from tests.stand_in.ufuncs import Ufunc
from trainkit.core import devices
from trainkit.kernels.cudnn import frontend, kernel_choice, plans
from trainkit.kernels.matmul import matmul_gpu

_PLAIN = "pi e inf nan newaxis float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32"
_PLAIN += " uint64 bool_ complex64 complex128 dtype finfo iinfo integer floating complexfloating"
_PLAIN += " inexact number generic signedinteger unsignedinteger s_ index_exp"

CUBLAS = cublas.Library()


def facts():
    """What CuPy has."""
    return json.loads(FILE.read_text())


@cache
def modules():
    """Every module of the stand-in under its name."""
    known = facts()
    cupy = _module("cupy", ndarray=ndarray, __version__=f"{known['version']} (stand-in)")
    made = {"cupy": cupy}
    for path in filter(None, MODULES):
        _grow(made, f"cupy.{path}")
    for name, parameters in known["functions"].items():
        made_here = functions.OWN.get(name) or functions.function(name, parameters)
        if made_here is not None:
            _put(cupy, name, made_here)
    cupy.asnumpy, cupy.RawKernel = functions.asnumpy, RawKernel
    cupy.RawModule = RawModule
    for name, found in known["ufuncs"].items():
        _put(cupy, name, Ufunc(name, found))
    for name in _PLAIN.split():
        setattr(cupy, name, getattr(np, name))
    cupy.linalg.LinAlgError = np.linalg.LinAlgError
    for name, parts in cuda.modules().items():
        _grow(made, name)
        vars(made[name]).update(parts)
    return made


def _module(name, **parts):
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    vars(module).update(parts)
    return module


def _grow(made, path):
    """Make the module `path`, and those that it lies in."""
    parent, _, short = path.rpartition(".")
    if parent and parent not in made:
        _grow(made, parent)
    if path not in made:
        made[path] = _module(path)
        if parent:
            setattr(made[parent], short, made[path])


def _put(module, path, thing):
    *inner, name = path.split(".")
    for part in inner:
        module = getattr(module, part)
    setattr(module, name, thing)


@contextmanager
def in_place(gpus=1):
    """CuPy is the stand-in here, a GPU is there and the default; gives a `Ledger` of copies."""
    cuda.MACHINE.gpus = gpus
    before = {name: sys.modules.get(name) for name in modules()}
    sys.modules.update(modules())
    _forget()
    library, matmul_gpu.library = matmul_gpu.library, lambda xp: CUBLAS
    found, frontend._import_frontend = frontend._import_frontend, lambda: (cudnn, "")
    try:
        with transfers.noted() as ledger:
            yield ledger
    finally:
        matmul_gpu.library, frontend._import_frontend = library, found
        cuda.MACHINE.gpus = 1
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
        if before["cupy"] is not modules()["cupy"]:
            devices.XP_OF.pop(ndarray, None)
        _forget()


def _forget():
    """Make trainkit look again for what devices there are."""
    for found in (devices._cupy, devices._has_cupy, devices._default, devices.parse):
        found.cache_clear()
    devices.several_gpus.cache_clear()
    matmul_gpu._THREAD.handles.clear()
    frontend._THREAD.by_device.clear()
    frontend._FAILED.clear()
    plans.clear()
    kernel_choice.clear()
    cudnn.STATE.reset()
