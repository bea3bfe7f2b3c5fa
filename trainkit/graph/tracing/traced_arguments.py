"""What goes in and out of a traced function: tensors among arguments, results, what may change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core import devices, nest
from trainkit.core.shapes import TensorShape
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.values.python_values import short_text
from trainkit.graph.ir.graph import Graph
from trainkit.graph.tracing.signature import (
    VALUES,
    ById,
    Differs,
    convert_argument,
    is_spec,
    is_tensor_like,
    joined,
    key_of,
)


def tensors_in(args: Any, kwargs: dict[str, Any]) -> list[Any]:
    """The tensors among the arguments, in the order of the graph's inputs."""
    tensors = []
    for x in args:
        if type(x) is Tensor:
            tensors.append(x)
        elif not isinstance(x, bool | int | float | str):
            tensors += [_tensor(leaf) for leaf in nest.flatten(x) if is_tensor_like(leaf)]
    for x in kwargs.values():
        tensors += [_tensor(leaf) for leaf in nest.flatten(x) if is_tensor_like(leaf)]
    return tensors


BESIDE_TENSORS = frozenset((tuple, np.ndarray))
"""Types of arguments besides tensors that calls with a short key may have."""


def short_key(args: tuple[Any, ...], arrays: list[Any]) -> Any:
    """What tells calls with plain tensors, arrays, tuples of them and `None` apart, at little cost.

    Args:
        args: positional arguments, or a tuple inside of them.
        arrays: takes the arrays of the tensors, in the order of the graph's inputs, and copies of
            the arrays of NumPy, which become tensors of the CPU.

    Returns:
        For each argument shape and NumPy's number of the dtype, `None`, or a tuple of the same;
        `None` for arguments of another kind.
    """
    key: list[Any] = []
    for x in args:
        if type(x) is Tensor:
            array = x._array
            arrays.append(array)
            key.append((array.shape, array.dtype.num))
        elif x is None:
            key.append(None)
        elif type(x) is np.ndarray and _is_plain(x.dtype) and devices.current() is devices.CPU:
            arrays.append(np.array(x))
            key.append((x.shape, x.dtype.num))
        elif type(x) is tuple and (inner := short_key(x, arrays)) is not None:
            key.append((inner,))
        else:
            return None
    return tuple(key)


def _is_plain(dtype: Any) -> bool:
    """Whether NumPy's number of a dtype tells it from all others; not of texts or swapped bytes."""
    return dtype.kind in "biufc" and dtype.isnative


def has_no_rank(x: Any) -> bool:
    """Whether `x` describes tensors of any rank."""
    return is_spec(x) and TensorShape(x.shape).rank is None


def contents(symbols: Any) -> list[tuple[Any, list[Any]]]:
    """For each argument its key and the tensors in it."""
    args, kwargs = symbols
    return [
        (key_of(x), [t for t in nest.flatten(x) if is_tensor(t)]) for x in (*args, *kwargs.values())
    ]


def fits(before: Any, after: Any) -> bool:
    """Whether two keys differ in sizes at most, of which `set_shape` may tell more."""
    try:
        joined(before, after)
    except Differs:
        return False
    return True


def _tensor(x: Any) -> Any:
    return x if isinstance(x, Tensor) else convert_to_tensor(x)


def as_result(graph: Graph, y: Any) -> Any:
    """A leaf of the result: numbers as symbolic tensors, texts as tensors, the rest as it is."""
    if is_tensor(y):
        return graph.lift(y)
    if isinstance(y, bool | int | float | complex | np.ndarray | np.generic):
        return graph.lift(y)
    if isinstance(y, str | bytes):  # the same at each call, and files of graphs hold no texts
        return convert_to_tensor(y)
    if isinstance(y, TensorShape):
        return graph.lift(convert_to_tensor(list(y), dtype_hint="int32"))
    return y


def shown_argument(x: Any) -> Any:
    """An argument as a signature keeps it: objects without keeping them alive."""
    is_value = is_tensor(x) or isinstance(x, VALUES)
    return x if is_value else ById(x)


def signed(
    function: str,
    names: Sequence[str],
    required: Sequence[str],
    specs: tuple[Any, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a function converted to its input signature.

    Args:
        function: what it is called, for errors.
        names: of its parameters.
        required: those that come by keyword alone and have no default; entries of the signature
            that are left after the positional arguments are theirs.
        specs: the input signature.
        args: positional arguments.
        kwargs: those by keyword; what has a default is no part of the signature.

    Raises:
        TypeError: they don't fit it.
    """
    if len(args) + len(required) < len(specs):
        raise TypeError(
            f"{function}: the input signature has {len(specs)} arguments, "
            f"{len(args) + len(required)} were given"
        )
    positional = [
        _fit(function, x, spec, names[min(i, len(names) - 1)])
        for i, (x, spec) in enumerate(zip(args, specs, strict=False))
    ]
    by_name = {
        name: _fit(function, kwargs[name], spec, name)
        for name, spec in zip(required, specs[len(args) :], strict=False)
    }
    others = {name: x for name, x in kwargs.items() if name not in by_name}
    return (*positional, *args[len(specs) :]), {**by_name, **others}


def _fit(function: str, x: Any, spec: Any, name: str) -> Any:
    """One argument as its part of the input signature asks for it, nested like that."""
    if nest.is_nested(spec):
        try:
            # the leaves of the signature may stand for lists
            return nest.map_structure(lambda s, v: _fit(function, v, s, name), spec, x)
        except ValueError:
            raise TypeError(
                f"{function}: the input signature asks for {name!r} nested as {spec!r}, given is "
                f"{short_text(x)}"
            ) from None
    try:
        tensor = x if is_spec(x) or isinstance(x, Tensor) else convert_argument(x, spec.dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{function}: {name!r}: {error}") from None
    alike = TensorShape(spec.shape).is_compatible_with(tensor.shape)
    if tensor.dtype != spec.dtype or not alike:
        raise TypeError(
            f"{function}: the input signature asks for {name!r} of shape {spec.shape} and dtype "
            f"{spec.dtype.name}, given is shape {tensor.shape} and dtype {tensor.dtype.name}; "
            "convert it, or widen the signature with None"
        )
    return tensor
