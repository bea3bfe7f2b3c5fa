"""Code of the register tiles of large products."""

import re

import pytest

from trainkit.kernels.jit import target
from trainkit.kernels.jit.register_tiles import block_tiling

ROWS, VECTORS, LANES = block_tiling()
_LABEL, _JUMP = re.compile(r"(\.?L\w+):"), re.compile(r"\s+j\w+\s+(\.?L\w+)")


def _assembly_of(kernel) -> str:
    """What becomes of a kernel here: Numba's own code is not used."""
    import llvmlite.binding as llvm

    from trainkit.kernels.jit.llvm_target import target_machine

    (overload,) = kernel.overloads.values()
    return target_machine().emit_assembly(llvm.parse_assembly(overload.library.get_llvm_str()))


def _loops(assembly: str) -> list[list[str]]:
    """The lines of innermost loops."""
    lines, labels, loops = assembly.splitlines(), {}, []
    for i, line in enumerate(lines):
        label, jump = _LABEL.match(line), _JUMP.match(line)
        if label:
            labels[label[1]] = i
        elif jump and jump[1] in labels:
            loop = lines[labels[jump[1]] + 1 : i + 1]
            if not any(map(_LABEL.match, loop)):
                loops.append(loop)
    return loops


pytestmark = pytest.mark.skipif(
    target.level() != "x86-64-v4", reason="other processors have fewer registers"
)


@pytest.mark.parametrize("name", ["FETCHING", "FETCHING_CUT", "PANEL"])
def test_sums_of_a_tile_stay_in_registers(name):
    numba = pytest.importorskip("numba")
    from trainkit.kernels.jit.options import compiled
    from trainkit.kernels.matmul import matmul_compiled
    from trainkit.kernels.matmul.matmul_compiled import block_tile

    kind = getattr(matmul_compiled, name)

    @compiled(parallel=False, exact=True)
    def tile(x, x_step, x_next, w, w_step, depth, start, start_step, y, y_step, following, ahead):
        block_tile(
            4, ROWS, VECTORS, LANES, kind, x, x_step, x_next, w, w_step, depth, start,
            start_step, depth - 1, y, y_step, depth, following, ahead, x, x, x,
            numba.float32(0), numba.float32(0),
        )  # fmt: skip

    tile.compile(numba.void(*[numba.intp] * 12))
    assembly = _assembly_of(tile)
    products = [loop for loop in _loops(assembly) if any("vfmadd" in line for line in loop)]
    assert products
    for loop in products:
        # a round of a panel has several numbers of each row
        assert sum("vfmadd" in line for line in loop) == ROWS * VECTORS * (
            4 if name == "PANEL" else 1
        )
        assert not [line for line in loop if "zmm" in line and "(%rsp)" in line]


@pytest.mark.parametrize("pairs", [0, 1])
def test_so_do_sums_of_bfloat16(pairs):
    numba = pytest.importorskip("numba")
    from trainkit.kernels.jit.options import compiled
    from trainkit.kernels.matmul.half_tiles import half_tile

    @compiled(parallel=False, exact=True)
    def tile(x, x_step, x_next, w, w_step, depth, start, start_step, last, y, y_step):
        half_tile(
            pairs, 1, 0, ROWS, VECTORS, LANES, x, x_step, x_next, w, w_step, depth, start,
            start_step, last, y, y_step, depth,
        )  # fmt: skip

    tile.compile(numba.void(*[numba.intp] * 11))
    assembly = _assembly_of(tile)
    product = "vdpbf16ps" if pairs else "vfmadd"
    counts = [
        sum("zmm" in line and "(%rsp)" in line for line in loop)
        for loop in _loops(assembly)
        if sum(product in line for line in loop) == ROWS * VECTORS
    ]
    assert 0 in counts  # of a tile with all its rows
