"""Each library of kernels that this processor can run gives what the plain versions give."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainkit.kernels.jit import kernel_library, target
from trainkit.kernels.jit.library_builder import environment

PROGRAM = """
import sys
import numpy as np
import trainkit as tk
from tests.kernels.jit.test_tuned import ROWS, SHAPE, with_gradient
from trainkit.kernels.jit import kernel_code, kernel_family, kernel_library, target
from trainkit.kernels.softmax.softmax_tuned import SOFTMAX

if kernel_code.function_name(SOFTMAX.file, SOFTMAX.builder, ()) is None or not (
    kernel_library.address_of(kernel_code.function_name(SOFTMAX.file, SOFTMAX.builder, ()))
):
    print("older")
    sys.exit()
x = tk.constant(np.random.default_rng(0).normal(size=SHAPE).astype("float32"))

def outcomes(mode):
    kernel_family.set_mode(mode)
    return {name: [y.numpy() for y in with_gradient(f)(x)] for name, f in ROWS.items()}

wanted, found = outcomes("off"), outcomes("eager")
for name in ROWS:
    for a, b in zip(found[name], wanted[name], strict=True):
        size = max(1.0, float(np.abs(b).max()))
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5 * size, err_msg=name)
used = {f.name for f in kernel_family._State.families if any(f._ready.values())}
print(target.level(), target.vector_lanes(), "numba" in sys.modules, *sorted(used))
"""

LANES = {"x86-64-v3": 8, "x86-64-v4": 16, "aarch64": 4}
USED = {
    "attention", "attention_gradient", "average_pool", "biased_gelu", "conv_pixels", "conv_weights",
    "gru", "gru_gradient", "lstm", "lstm_gradient", "max_pool", "normalized_rows", "product",
    "resize_enlarge", "resize_shrink", "row_max", "running_rows", "scaled_columns", "sigmoid",
    "softmax", "sum_by_id",
}  # fmt: skip
"""Some that have to be among the kernels that ran."""


@pytest.mark.parametrize("level", target.LEVELS)
def test_the_kernels_of_a_level_agree_with_the_plain_versions(level):
    lanes = LANES[level]
    if level[:3] != target.level()[:3] or not target.LEVELS[level] <= target.features():
        pytest.skip(f"this processor lacks what {level} has")
    if not os.path.exists(kernel_library.library_path(level)):
        pytest.skip(f"there is no library for {level}")
    asked = environment(level) if level != "aarch64" else dict(os.environ)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**asked, "TRAINKIT_KERNELS": "1", "TRAINKIT_JIT": "1"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    if done.stdout.strip() == "older":
        pytest.skip("the library is older than the text of the kernels")
    found, width, compiles, *used = done.stdout.split()
    assert (found, width, compiles) == (level, str(lanes), "False")
    assert set(used) >= USED
