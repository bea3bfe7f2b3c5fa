"""Kernels for other processors than this one: what is asked for is compiled, and is right."""

import os
import platform
import subprocess
import sys

import pytest

from trainkit.kernels.jit import register_tiles, target
from trainkit.kernels.jit.library_builder import environment

PROGRAM = """
import sys
import numpy as np
import trainkit as tk
from trainkit.kernels.jit import kernel_family, target
from trainkit.kernels.threads.pools import blas_text

rng = np.random.default_rng(0)

def normal(*shape):
    return tk.constant(rng.standard_normal(shape).astype("float32"))

images, window, small = normal(4, 12, 12, 8), normal(3, 3, 8, 32), normal(3, 3, 8, 1)
queries, rows = normal(2, 40, 2, 16), normal(300, 200)
lstm = tk.keras.layers.LSTM(24, return_sequences=True)
sequence = normal(16, 9, 5)
lstm(sequence)
attention = tk.keras.layers.MultiHeadAttention(2, 16)
tokens = normal(4, 40, 32)
attention(tokens, tokens)

def outcomes():
    with tk.GradientTape() as tape:
        tape.watch((images, window, small, rows, sequence, tokens))
        values = [
            tk.nn.conv2d(images, window, 1, "SAME"),
            tk.nn.depthwise_conv2d(images, small, [1, 1, 1, 1], "SAME"),
            tk.nn.max_pool2d(images, 2, 2, "VALID"),
            tk.nn.softmax(rows),
            lstm(sequence),
            attention(tokens, tokens),
        ]
        total = tk.add_n([tk.reduce_sum(tk.square(v)) for v in values])
    weights = (images, window, small, rows, sequence, tokens)
    return [v.numpy() for v in (*values, *tape.gradient(total, weights))]

kernel_family.set_mode("off")
wanted = outcomes()
kernel_family.set_mode("eager")
found = outcomes()
for i, (x, y) in enumerate(zip(found, wanted, strict=True)):
    np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-4, err_msg=str(i))
used = [f.name for f in kernel_family._State.families if any(f._ready.values())]
for name in ("conv_pixels", "conv_weights", "depthwise_lines", "max_pool", "softmax", "lstm"):
    assert name in used, (name, used)
print(target.vector_lanes(), target.level() or "none", blas_text("corename"))
"""

_AVX2 = {**environment("x86-64-v3"), "OPENBLAS_CORETYPE": "Haswell"}
CASES = {
    "AVX2": ("x86_64", _AVX2, "8 x86-64-v3 Haswell"),
    "SSE": ("x86_64", {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}, "4 none"),
    "ARM": ("aarch64", {}, "4 aarch64"),
}
"""The machine, variables of the process, and what it says of its kernels."""


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_kernels_of_a_processor_give_what_the_plain_versions_give(case):
    machine, asked, wanted = CASES[case]
    if machine != platform.machine():
        pytest.skip(f"this is no {machine}")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **asked, "TRAINKIT_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=1200,  # an emulated processor takes its time
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().startswith(wanted)


@pytest.fixture
def features(monkeypatch):
    """Have `target` find these features."""

    def set_to(text):
        monkeypatch.setenv("NUMBA_CPU_FEATURES", text)
        target.features.cache_clear()
        register_tiles.tiling.cache_clear()
        register_tiles.product_tiling.cache_clear()

    yield set_to
    monkeypatch.undo()
    set_to_nothing = (target.features, register_tiles.tiling, register_tiles.product_tiling)
    for cached in set_to_nothing:
        cached.cache_clear()


@pytest.mark.parametrize(
    ("level", "lanes"), [("x86-64-v4", 16), ("x86-64-v3", 8), ("", 4)], ids=str
)
def test_the_level_and_the_tiles_follow_what_is_asked_for(features, monkeypatch, level, lanes):
    monkeypatch.setattr(target.platform, "machine", lambda: "x86_64")
    features(",".join(f"+{name}" for name in target.LEVELS.get(level, ())))
    assert target.level() == level
    assert target.vector_lanes() == lanes
    assert register_tiles.tiling(2)[2] == register_tiles.product_tiling()[2] == lanes


def test_arm_has_a_level_of_its_own(features, monkeypatch):
    monkeypatch.setattr(target.platform, "machine", lambda: "aarch64")
    features("+neon")
    assert (target.level(), target.vector_lanes()) == ("aarch64", 4)


def test_other_processors_have_none(monkeypatch):
    monkeypatch.setattr(target.platform, "machine", lambda: "riscv64")
    assert target.level() == ""


def test_code_of_one_processor_is_not_that_of_another(monkeypatch):
    target.identity.cache_clear()
    here = target.identity()
    for name, value in [("NUMBA_CPU_NAME", "haswell"), ("NUMBA_CPU_FEATURES", "+avx")]:
        monkeypatch.setenv(name, value)
        target.identity.cache_clear()
        assert target.identity() != here
    monkeypatch.undo()
    target.identity.cache_clear()
    assert target.identity() == here
