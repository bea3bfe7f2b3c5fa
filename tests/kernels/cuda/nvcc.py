"""What the CUDA compiler makes of a text for compute capability 9.0."""

import re
import shutil
import subprocess
from typing import NamedTuple

import pytest

NEEDS_NVCC = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not here")


class Made(NamedTuple):
    """Of all kernels of a text: the most registers of a thread, and bytes that did not fit."""

    registers: int
    spills: int
    kernels: int


def machine_code_of(text, folder):
    """Fails with the compiler's words where it refuses the text."""
    said = _words_of_compiler(text, folder)
    registers = [int(n) for n in re.findall(r"Used (\d+) registers", said)]
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said)
    return Made(max(registers), sum(int(n) for pair in spills for n in pair), len(registers))


def assert_all_fit(kernels, folder):
    """All kernels compile without a warning, and none needs a stack or has a spill.

    Args:
        kernels: of each the function that makes it, and what that takes.
        folder: for files.
    """
    parts = [
        f"namespace k{i} {{ {make(*given).text} }}".replace('extern "C"', "")
        for i, (make, *given) in enumerate(kernels)
    ]
    said = _words_of_compiler("\n".join(parts), folder)
    assert "warning" not in said
    assert said.count(" 0 bytes stack frame, 0 bytes spill stores") >= len(kernels)


def _words_of_compiler(text, folder):
    path = folder / "kernels.cu"
    path.write_text(text)
    command = ["nvcc", "-cubin", "-arch=sm_90", "--fmad=false", "-ftz=true", "-Xptxas", "-v"]
    done = subprocess.run(
        [*command, "-o", str(folder / "out"), str(path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[:4000]
    return done.stderr
