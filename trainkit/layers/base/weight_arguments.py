"""The arguments of `add_weight`, and what they make of a variable."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

from trainkit import initializers
from trainkit.core import dtypes
from trainkit.core.errors import InvalidArgumentError, ResourceExhaustedError
from trainkit.core.values.aggregation import AGGREGATIONS
from trainkit.core.variable import Variable
from trainkit.layers.base import weight_budget
from trainkit.layers.base.autocast import AutocastVariable
from trainkit.layers.base.nested_shapes import known_sizes
from trainkit.layers.base.paths import path_in

_BY_POSITION = ("shape", "initializer", "dtype")
_AGGREGATIONS = (None, *AGGREGATIONS)
_GIB = 2**30


def placed(args: tuple[Any, ...], name: Any, *by_keyword: Any) -> tuple[Any, Any, Any, Any]:
    """Name, shape, initializer and dtype of a weight from arguments by position and by keyword.

    Args:
        args: those by position: shape, initializer, dtype, a name before them or not.
        name: the one given by keyword.
        *by_keyword: shape, initializer and dtype given by keyword.

    Raises:
        TypeError: there are too many by position.
        ValueError: one is given twice.
    """
    # TensorFlow's order has the name first; no shape is a text, so the two can't be mixed up.
    if args and (args[0] is None or isinstance(args[0], str)):
        if name is not None:
            raise ValueError(f"add_weight: the name is given twice, {args[0]!r} and {name!r}")
        name, args = args[0], args[1:]
    if len(args) > len(_BY_POSITION):
        raise TypeError(
            "add_weight takes shape, initializer and dtype by position (and a name before them); "
            f"got {len(args)} such arguments: {args!r}"
        )
    values = dict(zip(_BY_POSITION, by_keyword, strict=True))
    for argument, value in zip(_BY_POSITION, args, strict=False):
        if values[argument] is not None:
            raise ValueError(
                f"add_weight: {argument} is given twice, {value!r} and {values[argument]!r}"
            )
        values[argument] = value
    return name, *values.values()


def make_weight(
    layer: Any,
    label: str,
    shape: Any,
    initializer: Any,
    dtype: Any,
    trainable: bool,
    aggregation: Any,
) -> Variable:
    """A weight for `layer`, with its first values; see `Layer.add_weight`.

    Raises:
        InvalidArgumentError: `aggregation` is none of Keras's.
        ResourceExhaustedError: there is no memory for it.
        ValueError: a size is not known, or the initializer is none.
    """
    weight_dtype = dtypes.as_dtype(dtype or layer.variable_dtype)
    sizes = known_sizes(layer, label, () if shape is None else shape)
    # Before any memory is asked for: a file of a few bytes can name a weight of any size.
    weight_budget.spend(layer, label, sizes, weight_dtype)
    default = "glorot_uniform" if weight_dtype.is_floating else "zeros"
    make = initializers.get(default if initializer is None else initializer)
    if aggregation not in _AGGREGATIONS:
        raise InvalidArgumentError(
            f"layer {layer.name!r}: aggregation must be one of {_AGGREGATIONS}, got {aggregation!r}"
        )
    with memory_for(layer, label, sizes, weight_dtype):
        start = make(sizes, dtype=weight_dtype.name)
        variable = Variable(start, trainable, label, weight_dtype)
    # Fixed now: only while layers are being built it is known which ones are around this one.
    variable.path = path_in(layer, label)
    # Programs of TensorFlow see "kernel:0"; weights of layers have the names that Keras gives.
    variable._numbered = False
    variable.aggregation = "none" if aggregation is None else aggregation
    return variable


@contextlib.contextmanager
def memory_for(layer: Any, label: str, sizes: tuple[int, ...], dtype: Any) -> Iterator[None]:
    """Context in which a weight is made: an error of memory says its name and shape.

    Raises:
        ResourceExhaustedError: there is none.
    """
    try:
        yield
    except MemoryError as error:
        bytes_needed = math.prod(sizes) * dtypes.as_dtype(dtype).dtype.itemsize
        raise ResourceExhaustedError(
            f"layer {layer.name!r} ({type(layer).__name__}): there is no memory for the weight "
            f"{label!r} of shape {sizes}, {bytes_needed / _GIB:,.1f} GiB as "
            f"{dtypes.as_dtype(dtype).name}. Give the layer fewer units, or a smaller input."
        ) from error


def set_autocast(variable: Variable, layer: Any) -> None:
    """Let calls of `layer` see a floating weight in its compute dtype."""
    if not layer.autocast or not variable.dtype.is_floating:
        return
    variable._autocasts = True  # type: ignore[attr-defined]
    follow_policy(variable, layer)


def follow_policy(variable: Variable, layer: Any) -> None:
    """Make a weight what the dtype policy of its layer asks for now."""
    if not getattr(variable, "_autocasts", False):
        return
    # The class changes and not the object: attributes and slots of optimizers go by identity, and a
    # plain weight pays nothing for what mixed precision does at each read.
    if layer.compute_dtype == layer.variable_dtype:
        variable.__class__ = Variable
        return
    variable.__class__ = AutocastVariable
    variable.compute_dtype = dtypes.as_dtype(layer.compute_dtype)  # type: ignore[attr-defined]
