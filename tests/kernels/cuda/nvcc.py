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
    path = folder / "kernels.cu"
    path.write_text(text)
    command = ["nvcc", "-cubin", "-arch=sm_90", "--fmad=false", "-ftz=true", "-Xptxas", "-v"]
    done = subprocess.run(
        [*command, "-o", str(folder / "out"), str(path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[:4000]
    registers = [int(n) for n in re.findall(r"Used (\d+) registers", done.stderr)]
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", done.stderr)
    return Made(max(registers), sum(int(n) for pair in spills for n in pair), len(registers))
