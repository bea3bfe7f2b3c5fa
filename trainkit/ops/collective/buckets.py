"""Sums over all replicas that are under way while other operations run, in flat buckets.

A start copies arrays into one flat array, which the group begins to add up; the finish waits, and
gives views into it. Between the two a graph or a script does what it likes.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from trainkit.collectives import replica as replicas
from trainkit.collectives.process_group import Work
from trainkit.core import devices
from trainkit.core.dispatch.facets import CONTROL, Absent, Effect, one_by_one
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import as_dtype
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor

_ALIGNED = 64
"""Bytes at whose multiples each array begins, so that kernels find it where they like it."""

_UNDER_WAY: dict[int, tuple[Work | None, Any]] = {}
_NUMBERS = itertools.count(1)


def _ticket(*inputs: Any, **settings: Any) -> Spec:
    return Spec((), "int64")


@primitive(
    _ticket,
    name="start_bucket",
    effect=Effect("it waits for other processes"),
    semantics=CONTROL,
    no_gradient=Absent("it is a step of optimizers"),
)
def start_bucket(
    xp: Any,
    *arrays: Any,
    replica: replicas.Replica,
    dtype: str,
    waits: bool,
    weight: float,
    conditional: bool,
) -> Any:
    """Begin to add up arrays over all replicas, times a weight; gives a ticket.

    With `waits` the sums are there at once, which saves a change of threads. Where it is
    `conditional` the first array is a bool, and nothing is sent if that is False.
    """
    kind = as_dtype(dtype).dtype
    number, group = next(_NUMBERS), replica.group
    if conditional:
        active, *arrays = arrays  # type: ignore[assignment]
        if not bool(active):
            _UNDER_WAY[number] = None, devices.device_of(arrays[0])
            return np.array(number, np.int64)
    at = xp if group.takes_device_arrays else np
    flat, bounds = _flat(at, [a.shape for a in arrays], kind)
    for a, (start, end) in zip(arrays, bounds, strict=True):
        part = flat[start:end].reshape(a.shape)
        _fill(at, part, devices.to_numpy(a) if at is np else a, weight)
    if waits:
        group.all_reduce(flat, "SUM", "the gradients")
        work = Work(lambda: flat)
    else:
        work = group.start_all_reduce(flat, "SUM", "the gradients")
    _UNDER_WAY[number] = work, devices.device_of(arrays[0])
    return np.array(number, np.int64)


def _fill(xp: Any, part: Any, array: Any, weight: float) -> None:
    """Write an array times a weight into its place in a flat one."""
    if weight == 1.0:
        part[...] = array
    elif not weight:  # what no rows gave may be no numbers
        part[...] = 0
    elif part.dtype == array.dtype:
        xp.multiply(array, array.dtype.type(weight), out=part)
    else:
        part[...] = array * array.dtype.type(weight)


def _flat(xp: Any, shapes: Any, kind: np.dtype[Any]) -> tuple[Any, list[tuple[int, int]]]:
    """A flat array for arrays of these shapes, and where each begins and ends."""
    step = _ALIGNED // kind.itemsize
    bounds, at = [], 0
    for shape in shapes:
        size = int(np.prod(shape))
        bounds.append((at, at + size))
        at += -(-size // step) * step
    flat = xp.empty(at, kind)
    for (_, end), (start, _) in zip(bounds, [*bounds[1:], (at, at)], strict=True):
        flat[end:start] = 0
    return flat, bounds


def _specs(ticket: Any, *, specs: tuple[tuple[Any, str], ...]) -> tuple[Spec, ...]:
    return tuple(Spec(shape, name) for shape, name in specs)


@primitive(
    _specs,
    name="finish_bucket",
    effect=Effect("it waits for other processes"),
    semantics=CONTROL,
    no_gradient=Absent("it is a step of optimizers"),
)
def finish_bucket(xp: Any, ticket: Any, *, specs: tuple[tuple[Any, str], ...]) -> tuple[Any, ...]:
    """The sums that a start began, once they are there: views, in the shapes that it was given."""
    work, device = _UNDER_WAY.pop(int(ticket))
    if work is None:
        zeros = [np.zeros(shape, as_dtype(name).dtype) for shape, name in specs]
        return tuple(devices.to_device(x, device) for x in zeros)
    flat = work.wait()
    kind, at, results = flat.dtype, 0, []
    step = _ALIGNED // kind.itemsize
    for shape, name in specs:
        size, part_dtype = int(np.prod(shape)), as_dtype(name).dtype
        part = flat[at : at + size].reshape(shape)
        part = part if part_dtype == kind else part.astype(part_dtype)
        results.append(devices.to_device(part, device))
        at += -(-size // step) * step
    return tuple(results)


for _op in (start_bucket, finish_bucket):
    _op.declare(batch=one_by_one("the processes meet for one item at a time"))


def begin(
    tensors: list[Tensor],
    replica: replicas.Replica,
    dtype: str,
    waits: bool = False,
    weight: float | None = None,
    active: Tensor | None = None,
) -> Tensor:
    """Begin to add up tensors over all replicas.

    Args:
        tensors: of the same shapes in each replica.
        replica: this one.
        dtype: in which they travel.
        waits: do it at once, where nothing is left to be done meanwhile.
        weight: what they are multiplied by before; by default what the replica counts.
        active: scalar bool tensor, the same in all replicas; where it is False nothing is sent, and
            `finish` gives zeros.

    Returns:
        A ticket for `finish`.
    """
    ticket: Tensor = start_bucket(
        *([] if active is None else [active]),
        *tensors,
        replica=replica,
        dtype=dtype,
        waits=waits,
        weight=replica.weight if weight is None else weight,
        conditional=active is not None,
    )
    return ticket


def finish(ticket: Tensor, tensors: list[Tensor]) -> list[Tensor]:
    """The sums over all replicas.

    Args:
        ticket: what `begin` gave.
        tensors: those that it was given, or others of their shapes.
    """
    specs = tuple((tuple(x.shape), x.dtype.name) for x in tensors)
    return list(finish_bucket(ticket, specs=specs))


def abandon(ticket: Tensor) -> None:
    """Forget sums that have begun, which nobody will wait for."""
    _UNDER_WAY.pop(int(ticket), None)
