"""The modules of the folder `benchmarks`, which is no package."""

import importlib
import os
import pathlib
import sys

import pytest

import trainkit as tk

FOLDER = pathlib.Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench_modules(monkeypatch):
    """`bench_modules(name)` imports one; afterwards it is as if none had been."""
    before, numba_threads = set(sys.modules), os.environ.get("NUMBA_NUM_THREADS")
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    yield importlib.import_module
    # a benchmark on one thread leaves the process of these tests with one
    threading = tk.config.threading
    threading.set_inter_op_parallelism_threads(0)
    if threading.get_intra_op_parallelism_threads():
        threading.set_intra_op_parallelism_threads(0)
        os.environ.pop("NUMBA_NUM_THREADS", None)
        if numba_threads is not None:
            os.environ["NUMBA_NUM_THREADS"] = numba_threads
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and pathlib.Path(file).is_relative_to(FOLDER):
            del sys.modules[name]
