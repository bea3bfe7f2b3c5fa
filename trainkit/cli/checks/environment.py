"""Environment variables that change what trainkit and its libraries do."""

from __future__ import annotations

import os
from collections.abc import Iterator

from trainkit.cli.checks.finding import Finding
from trainkit.core.cpu import blas_config
from trainkit.core.names import near_names

MEANINGS = {
    "TRAINKIT_BFLOAT16": '"0" multiplies bfloat16 as a processor without AVX512-BF16 does, '
    '"pairs" as one without AMX',
    "TRAINKIT_BLAS": '"default" leaves the choice of its kernels to OpenBLAS',
    "TRAINKIT_CACHE": "folder of downloads and of generated kernels",
    "TRAINKIT_CACHE_OWNER": "another user whose kernels in TRAINKIT_CACHE are run",
    "TRAINKIT_CUDA_GRAPHS": '"0" captures no CUDA graphs',
    "TRAINKIT_CUDNN": 'how cuDNN is used: "0" not at all, "measure" times its plans, and our '
    'kernels beside them, once, "force" takes it wherever it can',
    "TRAINKIT_DATA": "folder of your own copies of data sets",
    "TRAINKIT_JIT": '"0" compiles no kernels, "eager" compiles each at its first call',
    "TRAINKIT_KEEP_MEMORY": '"0" gives freed memory back at once',
    "TRAINKIT_KERNELS": "0: no kernels that came compiled with the package",
    "TRAINKIT_NATIVE": '"0" leaves the compiled half of the eager path alone',
    "TRAINKIT_WINOGRAD": '"0" makes all convolutions of 3 x 3 by direct sums',
    "CUDA_VISIBLE_DEVICES": "which GPUs there are",
    "CUPY_ACCELERATORS": "how CuPy computes reductions",
    "CUPY_CACHE_DIR": "folder of CuPy's compiled kernels",
    "CUPY_TF32": "CuPy's products of float32 with fewer bits",
    "GOMP_SPINCOUNT": "how long the kernels' threads wait in a busy loop",
    "GOTO_NUM_THREADS": "threads of OpenBLAS",
    "HDF5_USE_FILE_LOCKING": "whether HDF5 locks the files it opens by name",
    "MALLOC_MMAP_THRESHOLD_": "the C library's use of memory; trainkit leaves it alone then",
    "MALLOC_TRIM_THRESHOLD_": "the C library's use of memory; trainkit leaves it alone then",
    "MKL_NUM_THREADS": "threads of MKL, where NumPy has that",
    "NUMBA_CACHE_DIR": "folder of compiled kernels",
    "NUMBA_CPU_NAME": "the processor that kernels are compiled for",
    "NUMBA_DISABLE_JIT": "compiles nothing",
    "NUMBA_NUM_THREADS": "threads of compiled kernels",
    "NUMBA_THREADING_LAYER": "the library behind the kernels' threads",
    "OMP_NUM_THREADS": "threads of OpenBLAS",
    "OMP_WAIT_POLICY": "whether the kernels' threads wait in a busy loop",
    "OPENBLAS_CORETYPE": "the kernels of OpenBLAS",
    "OPENBLAS_L2_SIZE": "the size that OpenBLAS takes the second cache to have",
    "OPENBLAS_NUM_THREADS": "threads of OpenBLAS",
    "OPENBLAS_THREAD_TIMEOUT": "how long OpenBLAS's threads wait in a busy loop",
    "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "how event files are encoded",
    "XDG_CACHE_HOME": "folder of caches, where TRAINKIT_CACHE is not set",
}
"""What each variable decides."""


def check() -> Iterator[Finding]:
    """Which of them are set, and names that nothing reads."""
    set_names = [name for name in MEANINGS if name in os.environ and name not in blas_config.SET]
    for name in set_names:
        value = os.environ[name]
        text = f"{name}={value} is set: {MEANINGS[name]}"
        yield Finding("note", text, facts={name: value})
    for name in sorted(os.environ):
        if name.startswith("TRAINKIT_") and name not in MEANINGS:
            near = near_names(name, MEANINGS, 1)
            suggestion = f"; is it {near[0]}?" if near else ""
            yield Finding(
                "warning", f"{name} is set, which nothing reads{suggestion}", f"unset {name}"
            )
    if not set_names:
        yield Finding("ok", "no environment variable changes anything")
