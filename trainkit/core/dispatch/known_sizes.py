"""What is known of sizes while a function is traced: `tk.shape(x)[1]` of an axis of known size.

A tensor of sizes has no value yet, but some of its elements are known. An operation that moves or
computes sizes is done on these alone: where all elements of its result are known the result is a
constant, and shapes that are made of it are known, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trainkit.core.dispatch.facets import ASKED, COMPUTED, MOVED, PICKED
from trainkit.core.errors import OpError
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor

_LARGEST = 64
"""Elements; a shape has fewer."""


class Known(NamedTuple):
    """What is known of a tensor of integers.

    Attributes:
        values: an array of its shape; any number stands where nothing is known.
        unknown: bools of the same shape.
    """

    values: Any
    unknown: Any


def known_results(primitive: Any, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """What is known of the results of an operation on symbols, `None` for nothing.

    Returns:
        A `Known`, or a tuple of them for an operation of many results.
    """
    size_rule = primitive.facets.sizes
    if size_rule == ASKED:
        return _ask(primitive, inputs[0])
    # Most traced operations leave here: they compute with values, of which nothing is known.
    if not size_rule or not _may_know(inputs, size_rule):
        return None
    known_inputs = [one for one in map(_known, inputs) if one is not None]
    # With an unknown position nobody can tell which element is picked.
    if len(known_inputs) < len(inputs) or (size_rule == PICKED and known_inputs[1].unknown.any()):
        return None
    # The kernel would run for nothing but marks.
    if all(one.unknown.all() for one in known_inputs):
        return None
    try:
        # Stand-ins of unknown elements may overflow or divide by 0; what comes of them is marked.
        with np.errstate(all="ignore"):
            if size_rule == COMPUTED:
                specs = [Spec(x.shape, x.dtype) if isinstance(x, Tensor) else x for x in inputs]
                return _compute(
                    primitive, known_inputs, settings, primitive.shape_rule(*specs, **settings)
                )
            return _move(primitive, known_inputs, settings, picked=size_rule == PICKED)
    except (OpError, ArithmeticError, IndexError, TypeError, ValueError):
        return None  # which the operation says better


def _may_know(inputs: tuple[Any, ...], size_rule: str) -> bool:
    """Whether an input is a symbol that remembers something, or a number is put beside symbols."""
    if any(isinstance(x, SymbolicTensor) and x._known is not None for x in inputs):
        return True
    # As in `stack([n, 3])` with n unknown, where the 3 has to be remembered.
    return size_rule == MOVED and any(type(x) is Tensor for x in inputs)


def _ask(primitive: Any, x: Tensor) -> Known | None:
    """The sizes of the axes, or how many elements there are, as far as the shape says."""
    sizes = tuple(x.shape)
    if len(primitive.shape_rule(x).shape):
        values = np.array([n or 0 for n in sizes], np.int32)
        return Known(values, np.array([n is None for n in sizes], bool))
    if None in sizes:
        return None
    return Known(np.asarray(math.prod(sizes), np.int32), np.zeros((), bool))


def as_known(known: Any, trace: Callable[[], Any]) -> Any:
    """The results of an operation on symbols, of which something is known.

    Args:
        known: what `known_results` gave.
        trace: adds the operation to the graph, for what is not known.
    """
    if isinstance(known, Known):
        return _note(None if _is_whole(known) else trace(), known)
    # If all results are constants, the graph does without the operation.
    traced = [None] * len(known) if all(map(_is_whole, known)) else trace()
    return tuple(map(_note, traced, known))


def _is_whole(sizes: Known) -> bool:
    return not sizes.unknown.any()


def _note(y: Any, sizes: Known) -> Any:
    """A constant if all is known, else the symbol, which remembers what is."""
    if _is_whole(sizes):
        return convert_to_tensor(sizes.values)
    # Else the symbol stays as it is, and `_may_know` stops what is computed of it.
    if not sizes.unknown.all():
        y._known = sizes
    return y


def _compute(
    primitive: Any, known_inputs: list[Known], settings: dict[str, Any], spec: Any
) -> Known:
    """The result of an operation on sizes, and which of its elements an unknown size decides."""
    result = np.asarray(_run(primitive, [one.values for one in known_inputs], settings))
    unknown = np.zeros(result.shape, bool)
    # One unknown operand makes an element unknown; `|` broadcasts as the kernel did.
    for one in known_inputs:
        unknown = unknown | one.unknown
    # As the shape rule promises: NumPy's own choice beside ints of Python may be int64.
    return Known(result.astype(spec.dtype.as_numpy_dtype), unknown)


def _move(primitive: Any, known_inputs: list[Known], settings: dict[str, Any], picked: bool) -> Any:
    """The same operation on the elements and on the marks of those that are not known."""
    values = [one.values for one in known_inputs]
    # In the dtype of the values, so that the kernel does with marks what it does with values.
    marks = [one.unknown.astype(one.values.dtype) for one in known_inputs]
    if picked:
        # Positions do not move: both runs pick the same elements.
        marks[1] = values[1]
    result, unknown = (_run(primitive, arrays, settings) for arrays in (values, marks))
    if isinstance(result, tuple):
        return tuple(map(_mark, result, unknown))
    return _mark(result, unknown)


def _run(primitive: Any, arrays: list[Any], settings: dict[str, Any]) -> Any:
    first = () if primitive.is_ufunc else (np,)
    return primitive.kernel(*first, *arrays, **settings)


def _mark(values: Any, marks: Any) -> Known:
    return Known(np.asarray(values), np.asarray(marks) != 0)


def _known(x: Any) -> Known | None:
    """What is known of an input, `None` where it is no small tensor of integers."""
    if type(x) is int:
        return Known(np.asarray(x), np.zeros((), bool))
    if not isinstance(x, Tensor) or not x.dtype.is_integer or not x.shape.is_fully_defined():
        return None
    if isinstance(x, SymbolicTensor):
        if x._known is not None:
            remembered: Known = x._known
            return remembered
        shape = tuple(x.shape)
        if len(shape) > 1 or np.prod(shape) > _LARGEST:
            return None
        # no 0, by which a size may be divided
        return Known(np.ones(shape, x.dtype.as_numpy_dtype), np.ones(shape, bool))
    if math.prod(x.shape) > _LARGEST:
        return None
    return Known(np.asarray(x.numpy()), np.zeros(tuple(x.shape), bool))
