"""`vectorize`: a function of single values, or of small arrays, over whole tensors."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import broadcast_dims
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.ops.arrays.broadcasting import broadcast_to
from trainkit.ops.arrays.shaping import reshape
from trainkit.ops.core.vectorized_map import vectorized_map

_CORE = r"\(\s*(?:\w+\s*(?:,\s*\w+\s*)*)?\)"
_SIGNATURE = rf"^\s*{_CORE}(?:\s*,\s*{_CORE})*\s*->\s*{_CORE}(?:\s*,\s*{_CORE})*\s*$"

Core = tuple[str, ...]


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Any = None, signature: str | None = None
) -> Callable[..., Any]:
    """Apply a function of single elements to whole tensors, which broadcast against each other.

    Args:
        pyfunc: function of scalars, or, with a `signature`, of tensors with these axes.
        excluded: positions and names of arguments that are handed over as they are.
        signature: axes of each argument and result, such as `"(m,n),(n)->(m)"`; equal names have
            equal sizes. All other axes are gone over.

    Returns:
        A function of tensors; its results have the axes gone over, then those of the signature.

    Raises:
        TypeError: `pyfunc` can't be called.
        ValueError: the signature can't be read, or has another number of arguments.
        InvalidArgumentError: an argument has fewer axes than the signature says, sizes of one name
            differ, or the axes gone over do not broadcast.

    >>> clip = vectorize(lambda x, low: tk.maximum(x, low))
    >>> clip(tk.constant([-1.0, 2.0]), 0.0).numpy()
    array([0., 2.], dtype=float32)
    """
    if not callable(pyfunc):
        raise TypeError(f"vectorize: {pyfunc!r} is not a function")
    left_out = set(excluded or ())
    cores = None if signature is None else _read(signature)

    @functools.wraps(pyfunc)
    def over_tensors(*args: Any, **kwargs: Any) -> Any:
        named = {k: v for k, v in kwargs.items() if k in left_out}
        if len(named) < len(kwargs):
            extra = sorted(set(kwargs) - set(named))
            raise ValueError(f"vectorize: pass {extra} by position, or name them in `excluded`")
        positions = [i for i in range(len(args)) if i not in left_out]
        tensors = [args[i] if is_tensor(args[i]) else convert_to_tensor(args[i]) for i in positions]
        inner = [()] * len(tensors) if cores is None else cores
        if len(inner) != len(tensors):
            raise ValueError(
                f"vectorize: the signature {signature!r} has {len(inner)} arguments, "
                f"{len(tensors)} were given"
            )
        outer = _outer_dims(tensors, inner)
        rows = [_rows(x, core, outer) for x, core in zip(tensors, inner, strict=True)]

        def one(items: Any) -> Any:
            arguments = dict(zip(positions, items, strict=True))
            return pyfunc(*[arguments.get(i, args[i]) for i in range(len(args))], **named)

        result = vectorized_map(one, tuple(rows))
        if isinstance(result, tuple | list):
            return tuple(reshape(y, (*outer, *y.shape[1:])) for y in result)
        return reshape(result, (*outer, *result.shape[1:]))

    return over_tensors


def _read(signature: str) -> list[Core]:
    """The names of the axes of each argument."""
    if not re.match(_SIGNATURE, signature):
        raise ValueError(f"vectorize: {signature!r} is no signature such as '(m,n),(n)->(m)'")
    arguments = signature.split("->")[0]
    return [tuple(re.findall(r"\w+", core)) for core in re.findall(_CORE, arguments)]


def _outer_dims(tensors: list[Tensor], cores: list[Any]) -> tuple[Any, ...]:
    """The axes to go over, after a check of those that are handed over."""
    sizes: dict[str, Any] = {}
    outer = []
    for i, (x, core) in enumerate(zip(tensors, cores, strict=True)):
        dims = tuple(x.shape)
        split = len(dims) - len(core)
        if split < 0:
            raise InvalidArgumentError(
                f"vectorize: argument {i} has shape {dims}, the signature asks for the axes {core}"
            )
        outer.append(dims[:split])
        for name, size in zip(core, dims[split:], strict=True):
            if sizes.setdefault(name, size) != size:
                raise InvalidArgumentError(
                    f"vectorize: axis {name!r} has size {sizes[name]} and size {size} in "
                    f"argument {i}"
                )
    return broadcast_dims(*outer, op="vectorize")


def _rows(x: Tensor, core: Core, outer: tuple[Any, ...]) -> Tensor:
    """`x` with the axes gone over as one, in front of those of the signature."""
    inner = tuple(x.shape)[len(x.shape) - len(core) :]
    count = 1
    for n in outer:
        count *= n
    return reshape(broadcast_to(x, (*outer, *inner)), (count, *inner))
