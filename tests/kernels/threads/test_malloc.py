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


LASTING = """
import numpy as np
import trainkit as tk
from trainkit.kernels.threads.malloc import lasting_memory

def is_in_heap(array):
    address = array.__array_interface__["data"][0]
    with open("/proc/self/maps") as file:  # advice on pages divides the heap into several ranges
        ranges = [line.split()[0].split("-") for line in file if line.rstrip().endswith("[heap]")]
    return any(int(first, 16) <= address < int(end, 16) for first, end in ranges)

with lasting_memory():
    large, small = np.zeros(1 << 20), np.zeros(1 << 10)
after = np.zeros(1 << 20)
weight = tk.Variable(np.zeros(1 << 20, np.float32))
optimizer = tk.optimizers.Adam()
optimizer.apply([tk.zeros([1 << 20])], [weight])
slots = [slot._value._array for _, _, slot in optimizer.slot_variables()]
print(*map(is_in_heap, [large, small, after, *slots]))
"""


CLEARED = """
import os
import numpy as np
import trainkit as tk

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

x = tk.ones((2, 2)) @ tk.ones((2, 2))  # from here on memory is kept
arrays = [np.ones(1 << 20) for _ in range(16)]
kept_small = bytearray(1 << 16)
del arrays
before = resident()
tk.keras.backend.clear_session()
print((before - resident()) >> 20)
"""


def output_of(program, **environment):
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": "", "PYTHONPATH": ":".join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def run(**environment):
    kept, faults = output_of(PROGRAM, **environment)
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


@pytest.mark.skipif(not has_mallopt(), reason="needs glibc")
def test_lasting_arrays_and_slots_of_optimizers_lie_apart_from_what_each_step_makes_anew():
    large, small, after, *slots = output_of(LASTING)
    assert (large, small, after) == ("False", "True", "True")
    assert slots == ["False", "False"]


@pytest.mark.skipif(not has_mallopt(), reason="needs glibc")
def test_lasting_memory_leaves_settings_of_the_user_alone():
    large, _, after, *slots = output_of(LASTING, MALLOC_MMAP_THRESHOLD_=str(1 << 25))
    assert {large, after, *slots} == {"True"}


@pytest.mark.skipif(not has_mallopt(), reason="needs glibc")
def test_clear_session_gives_freed_memory_back_to_the_system():
    (megabytes,) = output_of(CLEARED)
    assert int(megabytes) > 64  # of 128


@pytest.mark.skipif(not has_mallopt(), reason="needs glibc")
def test_clear_session_may_keep_memory():
    (megabytes,) = output_of(CLEARED.replace("clear_session()", "clear_session(free_memory=False)"))
    assert int(megabytes) < 10
