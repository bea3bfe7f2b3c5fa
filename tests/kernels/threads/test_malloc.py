"""Freed memory is kept, unless the user has settings of his own."""

import ctypes
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from trainkit.kernels.threads.malloc import keep_freed_memory
kept = keep_freed_memory()
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        np.empty(1 << 20, np.uint8).fill(1)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(kept, faults)
"""


def run(**environment):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PATH": "", "PYTHONPATH": ":".join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    kept, faults = done.stdout.split()
    return kept == "True", int(faults)


def has_mallopt():
    return sys.platform.startswith("linux") and hasattr(ctypes.CDLL(None), "mallopt")


@pytest.mark.skipif(not has_mallopt(), reason="needs glibc")
def test_an_array_is_made_in_the_pages_of_the_one_freed_before():
    kept, faults = run()
    assert kept
    assert faults < 100  # 50 arrays of 256 pages each


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"])
def test_settings_of_the_user_stay(name):
    kept, _ = run(**{name: "131072"})
    assert not kept


def test_it_can_be_switched_off():
    kept, _ = run(TRAINKIT_KEEP_MEMORY="0")
    assert not kept
