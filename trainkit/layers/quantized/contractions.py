"""How dense layers sum over their inputs: what `Dense` and `EinsumDense` differ in when quantized.

A stored scale of a kernel has one number for each output. That of an `EinsumDense` stands in the
order of the output's axes, with a 1 for those that the kernel does not have.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from trainkit import ops
from trainkit.ops.linear_algebra.int8_product import int8_product

Axes = tuple[int, ...]


class DenseContraction:
    """The last axis of the input with the first of the kernel."""

    def project(self, layer: Any, x: Any, kernel: Any) -> Any:
        """The product of inputs and kernel; sums of integers are int32."""
        return int8_product(x, kernel) if x.dtype.name == "int8" else ops.matmul(x, kernel)

    def project_back(self, layer: Any, g: Any, kernel: Any) -> Any:
        """The gradient by the inputs, where `g` is that by the product."""
        return ops.matmul(g, ops.transpose(kernel))

    def kernel_axes(self, layer: Any) -> Axes:
        """The axes of the kernel that are summed over."""
        return (0,)

    def input_axes(self, layer: Any) -> Any:
        """The axes of the input that are summed over."""
        return -1

    def scale_shape(self, layer: Any, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of a stored scale."""
        return tuple(shape[1:])

    def stored_scale(self, layer: Any, scale: Any) -> Any:
        """A scale with an axis of size 1 for each that is summed over, as it is stored."""
        return ops.squeeze(scale, 0)

    def kernel_scale(self, layer: Any, scale: Any) -> Any:
        """A stored scale as it goes with the kernel."""
        return scale

    def input_scale(self, layer: Any, scale: Any) -> Any:
        """The scale of the inputs as it goes with the output."""
        return scale

    def matrix(self, layer: Any, shape: Sequence[int]) -> tuple[int, int]:
        """Rows and columns of the kernel as a matrix."""
        return int(shape[0]), int(shape[1])


class EinsumContraction:
    """What the equation says."""

    def project(self, layer: Any, x: Any, kernel: Any) -> Any:
        """The product of inputs and kernel; sums of integers are int32."""
        input_letters, weight, result = _letters(layer)
        summed = len(input_letters) - sum(name in result for name in input_letters)
        as_matrices = (
            input_letters[-summed:] == weight[:summed]
            and result == input_letters[:-summed] + weight[summed:]
        )
        if x.dtype.name != "int8" or not summed or not as_matrices:
            return ops.einsum(layer.equation, x, kernel)
        rows = math.prod(kernel.shape[:summed])
        free, units = ops.shape(x)[:-summed], kernel.shape[summed:]
        sums = int8_product(
            ops.reshape(x, (-1, rows)), ops.reshape(kernel, (rows, math.prod(units)))
        )
        return ops.reshape(sums, (*free, *units))

    def project_back(self, layer: Any, g: Any, kernel: Any) -> Any:
        """The gradient by the inputs, where `g` is that by the product."""
        input_letters, weight, result = _letters(layer)
        return ops.einsum(f"{result},{weight}->{input_letters}", g, kernel)

    def kernel_axes(self, layer: Any) -> Axes:
        """The axes of the kernel that are summed over."""
        _, weight, result = _letters(layer)
        return tuple(i for i, name in enumerate(weight) if name not in result)

    def input_axes(self, layer: Any) -> Axes:
        """The axes of the input that are summed over."""
        input_letters, _, result = _letters(layer)
        return tuple(i for i, name in enumerate(input_letters) if name not in result)

    def scale_shape(self, layer: Any, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of a stored scale."""
        _, weight, result = _letters(layer)
        sizes = dict(zip(weight, shape, strict=True))
        return tuple(sizes.get(name, 1) for name in result)

    def stored_scale(self, layer: Any, scale: Any) -> Any:
        """A scale with an axis of size 1 for each that is summed over, as it is stored."""
        _, weight, result = _letters(layer)
        return _move_axes(scale, weight, result)

    def kernel_scale(self, layer: Any, scale: Any) -> Any:
        """A stored scale as it goes with the kernel."""
        _, weight, result = _letters(layer)
        return _move_axes(scale, result, weight)

    def input_scale(self, layer: Any, scale: Any) -> Any:
        """The scale of the inputs as it goes with the output."""
        input_letters, _, result = _letters(layer)
        return _move_axes(scale, input_letters, result)

    def matrix(self, layer: Any, shape: Sequence[int]) -> tuple[int, int]:
        """Rows and columns of the kernel as a matrix."""
        summed = set(self.kernel_axes(layer))
        rows = math.prod(n for i, n in enumerate(shape) if i in summed)
        return rows, math.prod(shape) // rows


DENSE, EINSUM = DenseContraction(), EinsumContraction()


def leading_matrix(layer: Any, contraction: Any, shape: Sequence[int]) -> tuple[int, int]:
    """Rows and columns of a kernel whose first axes are all that is summed over.

    Raises:
        NotImplementedError: others are, too; the kernel is no matrix then without being turned.
    """
    axes = contraction.kernel_axes(layer)
    if axes != tuple(range(len(axes))):
        raise NotImplementedError(
            f"layer {layer.name!r}: this mode takes kernels whose first axes are summed over; "
            f"{layer.equation!r} sums over axes {axes}"
        )
    rows_and_columns: tuple[int, int] = contraction.matrix(layer, shape)
    return rows_and_columns


def _letters(layer: Any) -> tuple[str, str, str]:
    return _spell(layer.equation, layer._input_rank)


@lru_cache(maxsize=256)
def _spell(equation: str, rank: int) -> tuple[str, str, str]:
    """The letters of input, kernel and output, with letters of their own for what dots cover."""
    left, _, result = equation.replace(" ", "").partition("->")
    input_letters, _, weight = left.partition(",")
    spare = [c for c in string.ascii_letters if c not in equation]
    covered = "".join(spare[: rank - len(input_letters.replace("...", ""))])
    return input_letters.replace("...", covered), weight, result.replace("...", covered)


def _move_axes(x: Any, names: str, new_names: str) -> Any:
    """`x`, whose axes have `names`, with `new_names`; axes that come or go have size 1."""
    gone = tuple(i for i, name in enumerate(names) if name not in new_names)
    x = ops.squeeze(x, gone) if gone else x
    common_names = [name for name in names if name in new_names]
    x = ops.transpose(x, [common_names.index(name) for name in new_names if name in common_names])
    new = tuple(i for i, name in enumerate(new_names) if name not in common_names)
    return ops.expand_dims(x, new) if new else x
