"""Libraries with the names of cuBLAS, cuFFT, cuRAND, cuSOLVER and cuSPARSE that do nothing.

Each has the functions that CuPy's modules ask for, and those that trainkit calls by itself. A call
that would put work on a stream is counted; one that asks for a size is answered with 1.
"""

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

from tests.null_driver.building import shared_library

MODULES = (
    "cupy_backends.cuda.libs.cublas",
    "cupy_backends.cuda.libs.curand",
    "cupy_backends.cuda.libs.cusolver",
    "cupy_backends.cuda.libs.cusparse",
    "cupy.cuda.cufft",
)
FOUND_BY_NAME = {  # by trainkit and by CuPy, not by the linker
    "cublas": ("cublasSetWorkspace_v2", "cublasGemmStridedBatchedEx"),
    "cusolver": ("cusolverDnXgeev", "cusolverDnXgeev_bufferSize"),
}
NEEDED_BY_OTHERS = ("libcublasLt.so.13", "libnvJitLink.so.13")

HEADER = """
#include <stdlib.h>
#include <string.h>
struct handle { long stream; };
int null_library_call(const char *name, long stream);
static int made(struct handle **handle) {
    return (*handle = calloc(1, sizeof **handle)) == 0;
}
"""
NOT_WORK = re.compile(r"Create|Destroy|Set|Get|bufferSize|Version|MakePlan|Malloc|Free")
# Where the size that is asked for goes: so many arguments before it, and its type, or two of them.
SIZES = (
    (r"Xgeev_bufferSize", 17, "two"),
    (r"Xsyevd_bufferSize", 11, "two"),
    (r"(getrf|potrf|geqrf)_bufferSize", 5, "int"),
    (r"(gebrd|gesvd)_bufferSize", 3, "int"),
    (r"(orgqr|ungqr|(sy|he)ev[dj]|(sy|he)evjBatched)_bufferSize", 7, "int"),
    (r"(ormqr|unmqr)_bufferSize", 11, "int"),
    (r"gesvdj_bufferSize", 12, "int"),
    (r"gesvdjBatched_bufferSize", 11, "int"),
    (r"gesvdaStridedBatched_bufferSize", 16, "int"),
    (r"sytrf_bufferSize", 4, "int"),
    (r"(gesv|gels)_bufferSize", 11, "size_t"),
    (r"cufftXtMakePlanMany", 12, "size_t"),
    (r"cufftMakePlanMany", 11, "size_t"),
    (r"cufftMakePlan1d", 4, "size_t"),
)
# Where 0, for "it worked", goes: so many arguments before it, and the one that says how many.
INFOS = (
    (r"cublas.getrfBatched", 5, 6),
    (r"cublas.getriBatched", 7, 8),
    (r"cublas.getrsBatched", 9, None),
    (r"potrfBatched", 5, 6),
    (r"potrsBatched", 9, None),
    (r"potrf|getrf", 7, None),
    (r"geqrf|potrs", 8, None),
    (r"orgqr|ungqr|getrs|(sy|he)evd", 9, None),
    (r"gesvd|Xsyevd", 15, None),
    (r"gesvdj", 14, None),
    (r"gesvdjBatched", 13, 15),
    (r"Xgeev", 21, None),
    (r"(gesv|gels)", 13, None),
)
BODIES = {
    "cufftCreate": "(int *plan) { *plan = 1; return 0; }",
    "cusolverGetProperty": "(int which, int *value) { *value = which ? 0 : 12; return 0; }",
    "cufftDestroy": "(int plan) { return 0; }",
}


def load_all(load, driver):
    """Hand the path of each library to `load`; they are linked to the one at `driver`."""
    for module in MODULES:
        soname, symbols = _wanted(module)
        for library, names in FOUND_BY_NAME.items():
            if library in soname:
                symbols = sorted({*symbols, *names})
        load(shared_library(soname, HEADER + "\n".join(map(_function, symbols)), [driver]))
    for soname in NEEDED_BY_OTHERS:
        load(shared_library(soname, "int null_nothing(void) { return 0; }"))


def _wanted(module):
    """The library that a module of CuPy needs, and which functions."""
    top, *rest = module.split(".")
    inside = Path(*find_spec(top).submodule_search_locations, *rest)  # without importing it
    (path,) = inside.parent.glob(f"{inside.name}.*.so")
    said = subprocess.run(
        ["nm", "-D", "--undefined-only", path], check=True, capture_output=True, text=True
    ).stdout
    found = re.findall(r" U (cu\w+)@(lib\S+)", said)
    (soname,) = {library for _, library in found}
    return soname, sorted({name for name, _ in found})


def _function(name):
    return f"int {name}{BODIES.get(name) or _body(name)}"


def _body(name):
    for pattern, before, kind in SIZES:
        if re.search(pattern + "$", name):
            given = ", ".join(f"long a{i}" for i in range(before))
            if kind == "two":
                return (
                    f"({given}, size_t *device, size_t *host) {{ *device = *host = 1; return 0; }}"
                )
            return f"({given}, {kind} *size) {{ *size = 1; return 0; }}"
    if re.search(r"Create(_v2|Generator|Params|Gesvdj\w+|Syevj\w+)?$", name):
        return "(struct handle **handle) { return made(handle); }"
    if re.search(r"Destroy(_v2)?$", name):
        return "(struct handle *handle) { free(handle); return 0; }"
    if re.search(r"SetStream(_v2)?$", name) and not name.startswith("cufft"):
        return "(struct handle *handle, long stream) { handle->stream = stream; return 0; }"
    if re.search(r"GetStream(_v2)?$", name):
        return "(struct handle *handle, long *stream) { *stream = handle->stream; return 0; }"
    if re.search(r"GetVersion(_v2)?$", name) and "cufft" not in name and "curand" not in name:
        return "(struct handle *handle, int *version) { *version = 130000; return 0; }"
    if NOT_WORK.search(name):
        return "(void) { return 0; }"
    stream = "0" if name.startswith("cufft") else "handle->stream"
    given, done = _info(name)
    return (
        f'(struct handle *handle{given}) {{{done} return null_library_call("{name}", {stream}); }}'
    )


def _info(name):
    """The arguments behind the handle, and what says to the caller that a factorization worked."""
    for pattern, place, batch in INFOS:
        if re.search(f"({pattern})$", name):
            given = "".join(f", long a{i}" for i in range(1, (batch or place) + 1))
            count = f"(int)a{batch}" if batch else "1"
            return given, f" memset((void *)a{place}, 0, {count} * sizeof(int));"
    return "", ""
