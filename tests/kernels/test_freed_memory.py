"""Kernels work on memory that is theirs: where freed memory goes back to the system at once."""

import json
import os
import subprocess
import sys

import pytest

# With glibc: blocks of 16 KB or more are mapped for themselves and unmapped as they are freed, so
# that a kernel that still uses them crashes; smaller ones are filled with other bytes.
AT_ONCE = {
    "MALLOC_MMAP_THRESHOLD_": "16384",
    "MALLOC_TRIM_THRESHOLD_": "0",
    "MALLOC_PERTURB_": "165",
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
}

PROGRAM = """
import hashlib, json
import numpy as np
import trainkit as tk
from trainkit.core.tensor import PRIMITIVES
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.matmul import product_tuned
from trainkit.kernels.resizing import resize_tuned
from trainkit.ops.images.pixel_weights import fixed_weights

kernel_family.set_mode("eager")
rng = np.random.default_rng(0)
same = {"strides": (1, 1), "padding": "same", "dilation_rate": (1, 1)}

def normal(*shape):
    return rng.normal(size=shape).astype("float32")

def tuned(name, *arrays, **settings):
    return PRIMITIVES[name].facets.tuned.run(*arrays, **settings)

def by_kernel(x, g, groups=1, size=3):
    return tuned("conv_kernel_gradient", x, g, kernel_size=(size, size), groups=groups, **same)

def resized(size):
    x = normal(2, 150, 200, 40)
    matrices = (fixed_weights(*both, "bicubic", True, "float32") for both in zip(x.shape[1:], size))
    return resize_tuned.resize(x, *map(resize_tuned.bands_of, matrices))

results = {
    "weights": by_kernel(normal(5, 14, 14, 70), normal(5, 14, 14, 128)),
    "weights of few": by_kernel(normal(5, 14, 14, 3), normal(5, 14, 14, 24)),
    "weights of groups": by_kernel(normal(2, 9, 9, 240), normal(2, 9, 9, 480), 120),
    "depthwise": by_kernel(normal(2, 9, 9, 240), normal(2, 9, 9, 240), 240, 5),
    "wide depthwise": by_kernel(normal(2, 19, 19, 40), normal(2, 19, 19, 40), 40, 11),
    "winograd weights": by_kernel(normal(5, 30, 30, 70), normal(5, 30, 30, 128)),
    "winograd": tuned(
        "conv", normal(5, 30, 30, 70), normal(3, 3, 70, 128), None, activation=None, **same
    ),
    "winograd of few tiles": tuned(
        "conv", normal(2, 9, 9, 130), normal(3, 3, 130, 256), None, activation=None, **same
    ),
    "lines": tuned("conv", normal(2, 9, 9, 70), normal(3, 3, 1, 70), None, activation=None, **same),
    "product": product_tuned.product(normal(300, 700), normal(700, 900)),
    "product by columns": product_tuned.product(normal(300, 700), normal(900, 700).T),
    "resized to less": resized((130, 20)),
    "resized to more": resized((170, 300)),
    "gathered product": product_tuned.product(normal(700, 300).T, normal(700, 900)),
}
print(json.dumps({
    name: None if y is None else hashlib.sha256(np.ascontiguousarray(y)).hexdigest()
    for name, y in results.items()
}))
"""


def digests(**environment):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PROGRAM],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the settings are glibc's")
def test_results_are_the_same_bits_where_freed_memory_goes_back_at_once():
    usual = digests()
    assert digests(**AT_ONCE) == usual
    assert None not in usual.values()
