"""The CUDA compiler makes machine code of every kernel that stands in a file of its own.

None has a warning or works in memory for want of registers, and none takes more than 64 of them: a
multiprocessor then has room for 1,024 threads. NVRTC takes the same texts in tests/null_driver.
"""

import pytest

from tests.kernels.cuda.every_kernel import FAMILIES, GIVEN, factories, texts
from tests.kernels.cuda.nvcc import NEEDS_NVCC, machine_code_by_name, separated

ROOM = 64
TURNS = ("philox_normal", "redrawn", "tried")
"""Kernels that take a sine, for which the compiler keeps a table of 40 bytes for large angles."""


def test_every_function_that_makes_kernels_is_known():
    found = {f for module in FAMILIES for f in factories(module)}
    assert found == set(GIVEN)


@NEEDS_NVCC
@pytest.mark.parametrize("module", FAMILIES, ids=lambda m: m.__name__.rpartition(".")[2])
def test_every_kernel_fits_into_its_registers(module, tmp_path):
    made = texts(module)
    assert made
    for options in dict.fromkeys(options for _, _, options in made):
        some = [(name, text) for name, text, its in made if its == options]
        found = machine_code_by_name(separated(some), tmp_path, options)
        assert len(found) == len(some)
        for name, code in found.items():
            most = 40 if any(turning in name for turning in TURNS) else 0
            assert code.stack <= most, (name, code)
            assert (code.spills, code.registers <= ROOM) == (0, True), (name, code)
