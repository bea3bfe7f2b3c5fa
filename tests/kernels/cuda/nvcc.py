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


class Code(NamedTuple):
    """Of one kernel: bytes of a thread's stack, bytes that did not fit, and registers."""

    stack: int
    spills: int
    registers: int


def separated(kernels):
    """One text of many, each in a namespace of its own.

    Args:
        kernels: the name and text of each.
    """
    includes, parts = {}, []
    for i, (name, text) in enumerate(kernels):
        lines = text.replace('extern "C"', "").splitlines()
        includes.update(dict.fromkeys(x for x in lines if x.startswith("#include")))
        body = "\n".join(x for x in lines if not x.startswith("#include"))
        defined = [x.split()[1].partition("(")[0] for x in lines if x.startswith("#define")]
        ends = "\n".join(f"#undef {word}" for word in defined)
        parts.append(f"namespace k{i}_{name} {{\n{body}\n}}\n{ends}")
    return "\n".join([*includes, *parts])


def machine_code_by_name(text, folder, options):
    """What becomes of each kernel of a text, by its name as the linker has it.

    Args:
        text: CUDA C++, in which nothing may deserve a warning.
        folder: for files.
        options: as NVRTC is given them.
    """
    said = _words_of_compiler(text, folder, options)
    assert "warning" not in said, said[:4000]
    pattern = (
        r"Function properties for (\w+)\n\s+(\d+) bytes stack frame, (\d+) bytes spill stores, "
        r"(\d+) bytes spill loads\n.*?Used (\d+) registers"
    )
    return {
        name: Code(int(stack), int(stored) + int(loaded), int(registers))
        for name, stack, stored, loaded, registers in re.findall(pattern, said)
    }


def _words_of_compiler(text, folder, options=("--fmad=false",)):
    path = folder / "kernels.cu"
    path.write_text(text)
    command = ["nvcc", "-cubin", "-arch=sm_90", *options, "-ftz=true", "-Xptxas", "-v"]
    done = subprocess.run(
        [*command, "-o", str(folder / "out"), str(path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[:4000]
    return done.stderr
