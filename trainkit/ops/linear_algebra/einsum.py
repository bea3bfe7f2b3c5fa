"""`einsum`: sums of products written with letters.

A formula is brought into a plain form first: ellipses become letters, a letter that an operand
repeats becomes its diagonal, one that nobody else has is summed away. What is left are products of
two operands in which each letter has one of four parts to play (batch, joined, only in the first,
only in the second); they become one matrix product. The gradient of such a product is again one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from trainkit.core.devices import XP_OF, Array, ArrayModule
from trainkit.core.dispatch import late_ops
from trainkit.core.dispatch.facets import COMMON, CONTRACTION
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import bfloat16, cast_array, widen_halves
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.kernels.matmul import half_product_tuned, matmul_gpu
from trainkit.ops.arrays.axes import squeeze, transpose
from trainkit.ops.arrays.diagonals import diagonal
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.core.vmap import ItemStack
from trainkit.ops.linear_algebra.einsum_formula import parsed
from trainkit.ops.linear_algebra.matmul import SHORT_FLOATS, product_dtype
from trainkit.ops.math.elementwise import conjugated
from trainkit.ops.math.reductions import sum as sum_

_BF16, _BITS = bfloat16.dtype, np.dtype(np.uint16)
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def labels(count: int) -> list[str]:
    """That many different letters.

    Raises:
        ShapeError: there are not so many.
    """
    if count > len(_LETTERS):
        raise ShapeError(
            f"a product of tensors with {count} axes is not supported; {len(_LETTERS)} are"
        )
    return list(_LETTERS[:count])


# ------------------------------------------------------------------ two operands


def _pair_rule(a: Spec, b: Spec, *, subscripts: str) -> Spec:
    inputs, out = subscripts.split("->")
    sizes: dict[str, int | None] = {}
    for names, x in zip(inputs.split(","), (a, b), strict=True):
        if len(names) != len(x.shape):
            raise ShapeError(
                f"einsum: {subscripts!r}: {names!r} names {len(names)} axes, the operand has shape "
                f"{tuple(x.shape)}"
            )
        for name, n in zip(names, x.shape, strict=True):
            size = sizes.get(name)
            if None not in (size, n) and size != n:
                raise ShapeError(
                    f"einsum: {subscripts!r}: the sizes of {name!r} differ, {size} and {n}\n"
                    f"  operand 0  {tuple(a.shape)}\n  operand 1  {tuple(b.shape)}"
                )
            sizes[name] = n if size is None else size
    return Spec((sizes[name] for name in out), product_dtype(a, b))


@lru_cache(maxsize=1024)
def _plan(subscripts: str) -> Any:
    """How to turn `subscripts` into a matrix product: axis orders and counts of letters by part."""
    inputs, out = subscripts.split("->")
    one, two = inputs.split(",")
    batch = [s for s in out if s in one and s in two]
    joined = [s for s in one if s in two and s not in out]
    first = [s for s in out if s in one and s not in two]
    second = [s for s in out if s in two and s not in one]
    order_a = tuple(one.index(s) for s in batch + first + joined)
    order_b = tuple(two.index(s) for s in batch + joined + second)
    product_letters = batch + first + second
    order_out = tuple(product_letters.index(s) for s in out)
    return order_a, order_b, order_out, (len(batch), len(first), len(joined), len(second))


@primitive(_pair_rule, name="einsum", promotion=COMMON, semantics=CONTRACTION, memory="view")
def _pair(xp: ArrayModule, a: Array, b: Array, *, subscripts: str) -> Array:
    """Sum of products of two tensors over the letters that the result does not have."""
    if a.dtype in SHORT_FLOATS and xp is np:
        if a.dtype is _BF16 and _is_matrix_product(subscripts):
            bits = _pair_product(np, a.view(_BITS), b.view(_BITS), subscripts, _multiply_bits)
            return bits.view(_BF16)
        product = _pair_product(np, widen_halves(a), widen_halves(b), subscripts)
        return cast_array(product, a.dtype)
    if a.dtype == np.int8:
        a, b = a.astype(np.int32), b.astype(np.int32)
    return _pair_product(xp, a, b, subscripts)


def _is_matrix_product(subscripts: str) -> bool:
    """Whether there are sums, and letters that one operand alone has."""
    _, first, joined, second = _plan(subscripts)[-1]
    return bool(joined and (first or second))


def _multiply_bits(a: Array, b: Array) -> Array:
    """The product of bfloat16 whose bits are given, and its bits: these NumPy moves about fast."""
    a, b = a.view(_BF16), b.view(_BF16)
    product = half_product_tuned.product_of(a, b)
    if product is None:
        product = cast_array(np.matmul(widen_halves(a), widen_halves(b)), _BF16)
    return product.view(_BITS)


def _pair_product(
    xp: ArrayModule,
    a: Array,
    b: Array,
    subscripts: str,
    multiply: Callable[[Array, Array], Array] | None = None,
) -> Array:
    order_a, order_b, order_out, (batch, first, joined, second) = _plan(subscripts)
    a, b = a.transpose(order_a), b.transpose(order_b)
    batch_dims, first_dims = a.shape[:batch], a.shape[batch : batch + first]
    inner, second_dims = a.shape[batch + first :], b.shape[batch + joined :]
    if batch_dims != b.shape[:batch] or inner != b.shape[batch : batch + joined]:
        raise ValueError("sizes of equal letters differ")
    if not joined:  # no sum: a product element by element
        left = a.reshape((*batch_dims, *first_dims, *(1,) * second))
        right = b.reshape((*batch_dims, *(1,) * first, *second_dims))
        return (left * right).transpose(order_out)
    on_host = XP_OF[type(a)] is np  # or traced: no fused loop has the bits of this one of NumPy
    if on_host and batch and not first and not second and a.dtype.kind != "b":
        names = _LETTERS[: batch + joined]
        return np.einsum(f"{names},{names}->{names[:batch]}", a, b).transpose(order_out)
    n, k, m = math.prod(first_dims), math.prod(inner), math.prod(second_dims)
    a, b = a.reshape((*batch_dims, n, k)), b.reshape((*batch_dims, k, m))
    product = multiply(a, b) if multiply else matmul_gpu.matmul(xp, a, b)
    return product.reshape((*batch_dims, *first_dims, *second_dims)).transpose(order_out)


def _pair_gradient_1(g: Tensor, y: Tensor, a: Tensor, b: Tensor, *, subscripts: str) -> Tensor:
    inputs, out = subscripts.split("->")
    one, two = inputs.split(",")
    result: Tensor = _pair(g, conjugated(b), subscripts=f"{out},{two}->{one}")
    return result


def _pair_gradient_2(g: Tensor, y: Tensor, a: Tensor, b: Tensor, *, subscripts: str) -> Tensor:
    inputs, out = subscripts.split("->")
    one, two = inputs.split(",")
    result: Tensor = _pair(conjugated(a), g, subscripts=f"{one},{out}->{two}")
    return result


_pair.gradients(_pair_gradient_1, _pair_gradient_2)


@_pair.batch_by
def _pair_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """One letter more, for the items."""
    a, b = inputs
    terms, out = settings["subscripts"].split("->")
    free = next((s for s in _LETTERS if s not in terms), None)
    if free is None:
        return NotImplemented
    one, two = terms.split(",")
    one, a = (free + one, a.stacked) if isinstance(a, ItemStack) else (one, a)
    two, b = (free + two, b.stacked) if isinstance(b, ItemStack) else (two, b)
    return primitive.op(a, b, subscripts=f"{one},{two}->{free}{out}")


def product_of_two(a: Tensor, b: Tensor, one: str, two: str, out: str) -> Tensor:
    """The product `one,two->out`; each letter of an operand is in the other one or in `out`."""
    result: Tensor = _pair(a, b, subscripts=f"{one},{two}->{out}")
    return result


# ------------------------------------------------------------------ any formula


def einsum(subscripts: str, *operands: Any, **kwargs: Any) -> Tensor:
    """Sum of products over the letters that the result does not have.

    Args:
        subscripts: a letter for each axis of each operand, with commas between operands, such as
            `"ij,jk->ik"`. Without `->` the result has the letters that stand once, in alphabetical
            order. `...` stands for axes that broadcast.
        *operands: tensors; dtypes promote, and int8 gives int32.
        **kwargs: `optimize`, a hint about the order of the products, which is found here anyway.

    Returns:
        A tensor with an axis for each letter of the result.

    Raises:
        InvalidArgumentError: the formula is malformed or does not fit the number of operands.
        ShapeError: axes of the same letter differ in size, or an operand has another number of
            axes.

    >>> einsum("ij,ij->i", [[1.0, 2.0]], [[3.0, 4.0]]).numpy().tolist()
    [11.0]
    """
    if kwargs.keys() - {"optimize"}:
        raise TypeError(f"einsum: unknown arguments {sorted(kwargs)}")
    if len(operands) == 2 and (plain := _plain_pair(subscripts)):
        result: Tensor = _pair(*operands, subscripts=plain)
        return result
    tensors = [as_tensor(x) for x in operands]
    names, out = parsed(subscripts, tuple(tuple(x.shape) for x in tensors))
    work = [_without_ones(x, s) for x, s in zip(tensors, names, strict=True)]
    work = [_with_diagonals(x, s) for x, s in work]
    work = [_sum(i, work, out) for i in range(len(work))]
    dtype = product_dtype(*(x.dtype for x in tensors))
    while len(work) > 1:
        i, j = _next_pair(work, out)
        a, b = work[i], work[j]
        others = [w for k, w in enumerate(work) if k not in (i, j)]
        work = [*others, _join(a, b, others, out)]
    result, letters = work[0]
    if letters != out:
        result = transpose(result, [letters.index(s) for s in out])
    if result.dtype != dtype:
        result = late_ops.cast(result, dtype=dtype.name)
    return result


@lru_cache(maxsize=1024)
def _plain_pair(subscripts: str) -> str | None:
    """The formula of a product of two operands that is in the plain form already, or `None`."""
    inputs, arrow, out = subscripts.replace(" ", "").partition("->")
    one, comma, two = inputs.partition(",")
    terms = (one, two, out)
    if not (arrow and comma) or not all(s.isalpha() and s.isascii() for s in terms if s):
        return None
    if any(len(set(s)) != len(s) for s in terms) or not set(out) <= set(one + two):
        return None
    lonely = (set(one) ^ set(two)) - set(out)
    return None if lonely else f"{one},{two}->{out}"


def _without_ones(x: Tensor, names: list[str]) -> tuple[Tensor, str]:
    """`x` without the axes whose letter is empty: those of size 1 that broadcast."""
    axes = [i for i, s in enumerate(names) if not s]
    return (squeeze(x, axes) if axes else x), "".join(names)


def _with_diagonals(x: Tensor, names: str) -> tuple[Tensor, str]:
    """`x` with one axis for each letter."""
    for s in dict.fromkeys(names):
        while names.count(s) > 1:
            one = names.index(s)
            two = names.index(s, one + 1)
            if None not in (x.shape[one], x.shape[two]) and x.shape[one] != x.shape[two]:
                raise ShapeError(
                    f"einsum: {s!r} stands for axes of size {x.shape[one]} and {x.shape[two]} of "
                    "one operand"
                )
            x = diagonal(x, axis1=one, axis2=two)
            names = names[:one] + names[one + 1 : two] + names[two + 1 :] + s
    return x, names


def _sum(i: int, work: list[tuple[Tensor, str]], out: str) -> tuple[Tensor, str]:
    """Operand `i` summed over the letters that nobody else has."""
    x, names = work[i]
    others = set(out).union(*(w[1] for k, w in enumerate(work) if k != i))
    lonely = tuple(k for k, s in enumerate(names) if s not in others)
    if not lonely:
        return work[i]
    return sum_(x, axis=lonely), "".join(s for s in names if s in others)


def _join(
    a: tuple[Tensor, str], b: tuple[Tensor, str], others: list[tuple[Tensor, str]], out: str
) -> tuple[Tensor, str]:
    needed = set(out).union(*(names for _, names in others))
    letters = dict.fromkeys(a[1] + b[1])
    product_letters = "".join(s for s in letters if s in needed)
    if not others:
        product_letters = out
    return product_of_two(a[0], b[0], a[1], b[1], product_letters), product_letters


def _next_pair(work: list[tuple[Tensor, str]], out: str) -> tuple[int, int]:
    """The two operands whose product costs least, so that long products stay small."""
    if len(work) == 2:
        return 0, 1
    sizes = {s: n or 64 for x, names in work for s, n in zip(names, x.shape, strict=True)}
    best = None
    for i in range(len(work)):
        for j in range(i + 1, len(work)):
            others = set(out).union(*(w[1] for k, w in enumerate(work) if k not in (i, j)))
            letters = set(work[i][1] + work[j][1])
            cost = math.prod(sizes[s] for s in letters)
            grown = math.prod(sizes[s] for s in letters & others)
            grown -= sum(math.prod(sizes[s] for s in work[k][1]) for k in (i, j))
            if best is None or (grown, cost) < best[0]:
                best = (grown, cost), (i, j)
    assert best is not None
    return best[1]
