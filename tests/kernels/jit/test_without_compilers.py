"""Training where something is missing: the compilers, the kernels that came along, a cache."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys, warnings
sys.modules.update(dict.fromkeys(sys.argv[1:]))  # which can't be imported then
import numpy as np
import trainkit as tk

tk.random.set_seed(1)
rng = np.random.default_rng(0)
x, y = rng.normal(size=(128, 20, 20, 1)).astype("float32"), rng.integers(0, 10, 128)
model = tk.Sequential([
    tk.layers.Conv2D(24, 3, activation="relu"),
    tk.layers.DepthwiseConv2D(7, padding="same"),
    tk.layers.Flatten(),
    tk.layers.Dense(64, activation="gelu"),
    tk.layers.Dense(10),
])
model.compile("nadam", tk.losses.SparseCategoricalCrossentropy(from_logits=True))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    history = model.fit(x, y, batch_size=64, epochs=4, verbose=0)
print(json.dumps([history.history["loss"], [str(warning.message) for warning in told]]))
"""


def trained(tmp_path, blocked=(), **environment):
    """The losses, and the warnings."""
    given = {**os.environ, "TRAINKIT_CACHE": str(tmp_path / "cache"), "TRAINKIT_JIT": ""}
    command = [sys.executable, "-c", PROGRAM, *blocked]
    done = subprocess.run(command, env=given | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    losses, told = json.loads(done.stdout)
    assert losses[-1] < losses[0]
    return losses, told


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    losses, told = trained(tmp_path_factory.mktemp("plain"), TRAINKIT_JIT="0")
    assert told == []
    return losses


@pytest.mark.parametrize("shipped", ["", "0"])
@pytest.mark.parametrize("blocked", [("numba",), ("numba", "llvmlite")])
def test_without_compilers_it_says_so_once_and_goes_on(tmp_path, expected, blocked, shipped):
    losses, told = trained(tmp_path, blocked, TRAINKIT_KERNELS=shipped)
    assert losses == pytest.approx(expected, rel=1e-4)
    assert len([text for text in told if text.startswith("numba is not installed")]) == 1
    others = [text for text in told if not text.startswith("numba")]
    assert len(others) == len(blocked) - 1
    assert all("llvmlite" in text for text in others)


def test_nothing_can_be_kept(tmp_path, expected):
    """Neither the home nor the folder of temporary files can be written to."""
    (tmp_path / "file").write_text("")
    nowhere = str(tmp_path / "file" / "below")
    losses, told = trained(tmp_path, TRAINKIT_CACHE=nowhere, TMPDIR=nowhere, HOME=nowhere)
    assert losses == pytest.approx(expected, rel=1e-4)
    assert told == []


THREADS = """
import os, sys
if sys.argv[1] == "bound":
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
import trainkit as tk
from trainkit.core.cpu import openblas
from trainkit.kernels.threads import pools, thread_pool
print(pools.compute_threads(), openblas.blas_threads(), thread_pool.thread_pool() is None)
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes can't be bound here")
@pytest.mark.parametrize("how", ["bound", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"])
def test_the_pool_has_no_more_threads_than_it_may(how):
    said = {"OPENBLAS_NUM_THREADS": "", "OMP_NUM_THREADS": "", "GOTO_NUM_THREADS": ""}
    given = {**os.environ, **{k: v for k, v in said.items() if k in os.environ}}
    given |= {} if how == "bound" else {how: "1"}
    command = [sys.executable, "-c", THREADS, how]
    done = subprocess.run(command, env=given, capture_output=True, text=True)
    assert done.stdout.split() == ["1", "1", "True"], done.stderr
