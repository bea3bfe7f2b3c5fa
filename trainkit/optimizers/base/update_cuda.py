"""An update program as one kernel of a GPU that updates many weights at each launch.

The kernel is given a table of where weights, gradients and slots lie, by value, so that nothing is
copied to the GPU but the launch itself. A block looks up which weight it works on, and takes a
piece of it. Products and sums are rounded each for itself, as one operation after the other.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainkit.compiler.cuda.cuda_kernel import compiled
from trainkit.compiler.cuda.cuda_source import KernelSource
from trainkit.compiler.cuda.cuda_table import (
    ARGUMENT_BYTES,
    FIND,
    MOST_MEMBERS,
    declaration,
    filled,
    layout,
)
from trainkit.compiler.cuda.cuda_vectors import EACH, declarations, name_of
from trainkit.compiler.flat import FlatProgram
from trainkit.compiler.ir import Elementwise, Operand, Unsupported, View
from trainkit.core.devices import XP_OF, device_of
from trainkit.core.dispatch.formulas import NO_UFUNCS
from trainkit.kernels.cuda.cuda_functions import expression, is_known, literal, type_of
from trainkit.kernels.cuda.pointer_table import PIECE
from trainkit.kernels.cuda.raw_kernel import ALIGNMENT, THREADS
from trainkit.optimizers.base.slot_state import SlotState

MOST_WEIGHTS = MOST_MEMBERS
"""Weights of one launch."""


class RuleKernel:
    """`program` on a GPU.

    Raises:
        Unsupported: there is no text for one of its functions.
    """

    def __init__(self, program: FlatProgram) -> None:
        self.program = program
        self.record = _record(program)
        # the table is the argument itself, and CUDA takes 4 KiB of arguments
        if self.record.itemsize > ARGUMENT_BYTES:
            raise Unsupported(f"{len(program.arrays)} buffers of a weight")
        self.source = _source(program)
        self._launch: Any = None
        self._failed = False

    def update(self, members: Sequence[Sequence[Any]], scalars: Sequence[Any]) -> bool:
        """Update weights in place.

        Args:
            members: weight, gradient and slots of each: arrays in row-major order, of the program's
                dtype, on the current GPU.
            scalars: what the rule takes as its scalars.

        Returns:
            False, with nothing done, where the kernel can't be compiled.
        """
        if self._launch is None and not self._compile(XP_OF[type(members[0][0])]):
            return False
        for start in range(0, len(members), MOST_WEIGHTS):
            table, blocks = self._table(members[start : start + MOST_WEIGHTS], scalars)
            if blocks:
                self._launch((blocks,), (THREADS,), (table,))
        return True

    def _compile(self, xp: Any) -> bool:
        # tried and warned of once: a compiler that is missing will not come
        if self._failed:
            return False
        try:
            self._launch = compiled(xp, self.source)
        except Exception as error:  # of the compiler, which may be missing or of another version
            self._failed = True
            warnings.warn(
                f"an optimizer's kernel can't be compiled here ({type(error).__name__}: {error}); "
                "weights are updated operation by operation. TRAINKIT_JIT=0 turns kernels off.",
                RuntimeWarning,
                stacklevel=2,
            )
            return False
        return True

    def _table(self, members: Sequence[Sequence[Any]], scalars: Sequence[Any]) -> tuple[Any, int]:
        """The argument of a launch, and its number of blocks."""
        sizes = [arrays[0].size for arrays in members]
        blocks = [-(-size // PIECE) for size in sizes]
        addresses = [[array.data.ptr for array in arrays] for arrays in members]
        table = filled(self.record, addresses, sizes, blocks)
        table["scalar"] = np.asarray(scalars, self.program.dtype)
        return table, sum(blocks)


def _record(program: FlatProgram) -> np.dtype[Any]:
    scalars = ("scalar", program.dtype, (len(program.scalars),))
    return layout(len(program.arrays), MOST_WEIGHTS, scalars)


_TEXT = """\
{table}extern "C" __global__ void {name}(const Table t) {{
{find}  const long long start = (long long)((int)blockIdx.x - t.first[k]) * {piece};
  const long long rest = t.size[k] - start;
  const int count = rest < {piece} ? (int)rest : {piece};
{before}
  int done = 0;
  if ((({address}) & {unaligned}) == 0) {{
    done = count / {each} * {each};
    for (int j = threadIdx.x; j < count / {each}; j += blockDim.x) {{
{loads}
#pragma unroll
      for (int k = 0; k < {each}; ++k) {{
{body_of_vector}
      }}
{saves}
    }}
  }}
  for (int i = done + threadIdx.x; i < count; i += blockDim.x) {{
{body}
  }}
}}
"""


def _source(program: FlatProgram) -> KernelSource:
    """The CUDA kernel that steps many weights by one rule, each thread some elements at a time."""
    real, vector = type_of(program.dtype), name_of(program.dtype)
    each = min(EACH, ALIGNMENT // program.dtype.itemsize)  # more would not leave registers enough
    buffers = range(len(program.arrays))
    before, body = _statements(program, real, lambda k: f"b{k}[i]")
    _, body_of_vector = _statements(program, real, lambda k: f"q{k}.v[k]")
    written = [k for k, _ in program.assignments]
    fields = {
        "table": declaration(
            len(program.arrays), MOST_WEIGHTS, f"{real} scalar[{len(program.scalars)}]"
        ),
        "find": FIND,
        "piece": PIECE,
        "before": _lines(before, 2),
        # loads of whole vectors need every buffer aligned, so one test looks at all addresses
        "address": " | ".join(f"(unsigned long long)b{k}" for k in buffers),
        "unaligned": ALIGNMENT - 1,
        "each": each,
        "loads": _lines([f"{vector} q{k} = (({vector}*)b{k})[j];" for k in buffers], 6),
        "body_of_vector": _lines(body_of_vector, 8),
        "saves": _lines([f"(({vector}*)b{k})[j] = q{k};" for k in written], 6),
        "body": _lines(body, 4),
    }
    types = declarations([program.dtype], each)
    text = types + _TEXT.format(name="rule", **fields)
    # named by its text, so optimizers of one rule share a compiled file
    name = "rule_" + hashlib.sha256(text.encode()).hexdigest()[:16]
    return KernelSource(name, types + _TEXT.format(name=name, **fields), (), PIECE)


def _lines(lines: list[str], depth: int) -> str:
    return "\n".join(" " * depth + line for line in lines)


def _statements(
    program: FlatProgram, real: str, element: Callable[[int], str]
) -> tuple[list[str], list[str]]:
    """What is done once, and with each element, given how that of a buffer is spelled."""
    names: dict[View, str] = {view: f"x{i}" for i, view in enumerate(program.arrays)}
    names |= {view: f"s{i}" for i, view in enumerate(program.scalars)}
    before = [
        f"{real}* b{i} = ({real}*)t.place[{i}][k] + start;" for i in range(len(program.arrays))
    ]
    before += [f"const {real} s{i} = t.scalar[{i}];" for i in range(len(program.scalars))]
    body = [f"const {real} x{i} = {element(i)};" for i in range(len(program.arrays))]
    for lines, steps in ((before, program.scalar_steps), (body, program.steps)):
        for step in steps:
            names[step.out] = name = f"y{len(names)}"
            lines.append(f"const {type_of(step.out.dtype)} {name} = {_expression(step, names)};")
    body += [f"{element(k)} = {names[result]};" for k, result in program.assignments]
    return before, body


def _expression(step: Elementwise, names: dict[View, str]) -> str:
    if step.name not in NO_UFUNCS and not is_known(step.name, step.inputs[0].dtype):
        raise Unsupported(step.name)

    def text_of(x: Operand) -> str:
        return names[x] if isinstance(x, View) else literal(x.value, x.dtype)

    operands = [text_of(x) for x in step.inputs]
    return expression(step.name, step.inputs[-1].dtype, operands, step.out.dtype)


def gpu_buffers(state: SlotState, grad: Any) -> list[Any] | None:
    """Weight, gradient and slots to update in place; `None` where they are not for a kernel."""
    weight = state.weight._value._array
    xp = XP_OF[type(weight)]
    if xp is np or weight.dtype != state.dtype or XP_OF[type(grad)] is np:
        return None
    # a further holder would have the weight copied on the next line
    del weight
    buffers = [variable._writable() for variable in (state.weight, *state.held)]
    # a launch goes to the current GPU, where all of its arrays have to be
    gpus = {device_of(array) for array in (*buffers, grad)}
    fits = [a.dtype == state.dtype and a.flags.c_contiguous for a in buffers]
    if len(gpus) != 1 or gpus.pop().index != int(xp.cuda.Device().id) or not all(fits):
        return None
    grad = xp.ascontiguousarray(grad.astype(state.dtype, copy=False))
    return [buffers[0], grad, *buffers[1:]]
