"""Training where something is missing: the compilers, the kernels that came along, a cache."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys

import pytest

from trainkit.cli.kernels import usual_kernels
from trainkit.kernels.jit import library_builder, target

PROGRAM = """
import json, os, sys, warnings
sys.modules.update(dict.fromkeys(sys.argv[2:]))  # which can't be imported then
import numpy as np
import trainkit as tk
from trainkit.kernels.jit import kernel_family, kernel_library

kernel_library.FOLDER = os.environ.get("KERNELS_OF_TEST", kernel_library.FOLDER)
tk.random.set_seed(1)
rng = np.random.default_rng(0)
x, y = rng.normal(size=(64, 20, 20, 1)).astype("float32"), rng.integers(0, 10, 64)
model = tk.Sequential([
    tk.layers.Conv2D(24, 3, activation="relu"),
    tk.layers.DepthwiseConv2D(int(sys.argv[1]), padding="same"),
    tk.layers.Flatten(),
    tk.layers.Dense(64, activation="gelu"),
    tk.layers.Dense(10),
])
model.compile("nadam", tk.losses.SparseCategoricalCrossentropy(from_logits=True))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    history = model.fit(x, y, batch_size=32, epochs=4, verbose=0)
used = [
    (family.file, family.builder, key)
    for family in kernel_family._State.families
    for key, kernel in family._ready.items()
    if kernel
]
print(json.dumps([history.history["loss"], [str(warning.message) for warning in told], used]))
"""


UNUSUAL, USUAL = 9, 3
"""Windows of depthwise convolutions: one whose kernels do not come compiled, and one whose do."""


def trained(tmp_path, blocked=(), **environment):
    """The losses, and the warnings, of a model with a window whose kernels are compiled first."""
    return trained_with(tmp_path, blocked, UNUSUAL, **environment)[:2]


def trained_with(tmp_path, blocked, window, **environment):
    """The losses, the warnings, and the compiled kernels that were used."""
    given = {**os.environ, "TRAINKIT_CACHE": str(tmp_path / "cache"), "TRAINKIT_JIT": ""}
    command = [sys.executable, "-c", PROGRAM, str(window), *blocked]
    done = subprocess.run(command, env=given | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    losses, told, used = json.loads(done.stdout)
    assert losses[-1] < losses[0]
    return losses, told, used


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
    (said,) = [text for text in told if text.startswith("numba is not installed")]
    assert "pip install 'numba>=" in said
    # fused loops of graphs, and the optimizer's update where none came along: it is compiled in
    # a thread, which the last step does not wait for
    others = [text.partition(" ")[0] for text in told if not text.startswith("numba")]
    is_missing = "llvmlite" in blocked
    assert others.count("fused") == is_missing
    assert others.count("llvmlite") <= (is_missing and shipped == "0")
    assert len(others) == others.count("fused") + others.count("llvmlite")


@pytest.fixture(scope="module")
def needed(tmp_path_factory):
    """All kernels of a usual model, compiled by Numba; and the losses with them."""
    pytest.importorskip("numba")
    folder = tmp_path_factory.mktemp("needed")
    facts = {"TRAINKIT_JIT": "eager", "TRAINKIT_KERNELS": "0"}
    losses, _, kernels = trained_with(folder, (), USUAL, **facts)
    assert len(kernels) > 6
    return losses, kernels


def test_all_that_a_usual_model_needs_comes_compiled(needed):
    usual = {json.dumps(kernel) for kernel in usual_kernels()}
    assert [kernel for kernel in needed[1] if json.dumps(kernel) not in usual] == []


@pytest.mark.slow
@pytest.mark.skipif(not target.level(), reason="no libraries are built for this processor")
@pytest.mark.parametrize("way", ["build_library", "write_objects"])
def test_a_usual_model_without_numba(way, needed, tmp_path):
    """What came along serves from the first call, whether a C compiler was there or not."""
    if way == "build_library" and not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler")
    losses, kernels = needed
    made = [(module, builder, _tuples(key)) for module, builder, key in kernels]
    getattr(library_builder, way)(target.level(), made, tmp_path / "made", lambda text: None)
    facts = {"KERNELS_OF_TEST": str(tmp_path / "made"), "TRAINKIT_KERNELS": ""}
    found, told, used = trained_with(tmp_path, ("numba",), USUAL, **facts)
    assert found == losses
    assert told == []
    assert {json.dumps(kernel) for kernel in used} == {json.dumps(kernel) for kernel in kernels}


def _tuples(key):
    return tuple(_tuples(item) if isinstance(item, list) else item for item in key)


def test_nothing_can_be_kept(tmp_path, expected):
    """Neither the home nor the folder of temporary files can be written to."""
    (tmp_path / "file").write_text("")
    nowhere = str(tmp_path / "file" / "below")
    losses, told = trained(tmp_path, TRAINKIT_CACHE=nowhere, TMPDIR=nowhere, HOME=nowhere)
    assert losses == pytest.approx(expected, rel=1e-4)
    if importlib.util.find_spec("numba") is None:  # the window is unusual, so that is said
        told = [text for text in told if not text.startswith("numba is not installed")]
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


MISSING = """
import trainkit
from trainkit.kernels.jit import kernel_family
def missing():
    raise ModuleNotFoundError("no numba", name="numba")
kernel_family._kernel_code = missing
family = kernel_family.Family("conv", "none", "none")
for key in ((1,), (2,)):
    family._compile(key)
"""


def test_a_missing_compiler_is_told_where_no_filter_is_set():
    """NumPy's warnings about numbers are ignored in the modules of the package, others are not."""
    given = {name: text for name, text in os.environ.items() if name != "PYTHONWARNINGS"}
    command = [sys.executable, "-c", MISSING]
    done = subprocess.run(command, env=given, capture_output=True, text=True)
    assert done.stderr.count("RuntimeWarning: numba is not installed") == 1
