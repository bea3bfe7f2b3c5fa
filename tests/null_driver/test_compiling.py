"""What is compiled at first use: once for a machine, and with which options."""

import json
import os
import subprocess
import sys

import pytest

WORK = """
import json

import numpy as np

from tests.null_driver.installing import install

install()
import cupy.cuda.compiler as compiler

seen = []
compile_one = compiler._compile_using_nvrtc_no_warning


def noted(source, options=(), *more, **named):
    seen.append([source[-60:], list(options)])
    return compile_one(source, options, *more, **named)


compiler._compile_using_nvrtc_no_warning = noted
import trainkit as tk
from trainkit.kernels.cudnn import deferred

deferred.set_mode("off")
layer, x = tk.keras.layers.Dense(4, "gelu"), tk.ones((8, 6))


@tk.function
def step(x):
    y = tk.nn.dropout(layer(x), 0.5)
    return tk.reduce_sum(tk.tanh(y) * 2.0 + tk.nn.softmax(y))


for _ in range(4):
    step(x)
print("\\n" + json.dumps(seen))
"""


def compiled(folder):
    """What a process of its own compiles: the end of each source, and the options."""
    named = {"CUPY_CACHE_DIR": str(folder / "cupy"), "TRAINKIT_CACHE": str(folder / "trainkit")}
    command = [sys.executable, "-c", WORK]
    done = subprocess.run(command, env={**os.environ, **named}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().rpartition("\n")[2])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(scope="module")
def first(folder):
    return compiled(folder)


def test_a_second_process_compiles_nothing(first, folder):
    """Sources hold no addresses or counts of a process, by which CuPy's cache would miss them."""
    assert len(first) > 3
    assert compiled(folder) == []


def test_all_kernels_take_subnormal_numbers_for_0_and_own_ones_fuse_no_products(first):
    """CuPy says the first, docs/graphs.md both."""
    assert [source for source, options in first if "-ftz=true" not in options] == []
    assert any("--fmad=false" in options for _, options in first)
