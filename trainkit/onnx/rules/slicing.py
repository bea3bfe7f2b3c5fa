"""Where a `Slice` cuts: its bounds are attributes in older versions and inputs in newer ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from trainkit.onnx.imported_values import axis_of
from trainkit.onnx.operator_rules import NodeCall

_FAR = 1 << 30  # exporters write the largest int for "to the end"


def slice_key(call: NodeCall, shape: Sequence[Any], bounds: Sequence[Any]) -> tuple[slice, ...]:
    """The slices, one for each axis, whose bounds are known.

    Args:
        call: of the node.
        shape: of what is cut.
        bounds: the inputs after it: starts, ends, axes, steps.
    """
    parts = [None if b is None else call.run.numbers(b, "where a slice ends") for b in bounds]
    if not parts:
        parts = [call.list("starts"), call.list("ends"), call.list("axes", None)]
    starts, ends, axes, steps = cast("list[Any]", [*parts, None, None][:4])
    sliced_axes = range(len(starts or ())) if axes is None else axes
    key = [slice(None)] * len(shape)
    for i, axis in enumerate(sliced_axes):
        step = 1 if steps is None else steps[i]
        key[axis_of(axis, len(shape))] = slice(_near(starts[i]), _stop(ends[i], step), step)
    return tuple(key)


def _near(n: int) -> int:
    return max(-_FAR, min(n, _FAR))


def _stop(end: int, step: int) -> int | None:
    """ONNX's end: far below 0 it lies before the first element, which Python says by `None`."""
    if step < 0 and end <= -_FAR:
        return None
    return _near(end)
