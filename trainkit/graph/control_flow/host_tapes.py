"""Tapes of Python functions that a graph has called, until its gradients are computed.

The node of a call gives a number beside its results, and the node of its gradients takes it: by
that number the gradients come from the tape of the very call, so the function is not run a second
time for them. A tape lives as long as the array with its number. Where a loop has copied numbers
into one array, the latest tapes are held some longer.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainkit.core.dispatch import trace_state
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.ops.core.dynamic_shapes import is_smooth

NUMBER = Spec((), "int64")
"""What the number of a call is in a graph."""
MOST_ORPHANS = 256
"""Tapes that are held though the arrays with their numbers are gone."""


class TapedCall:
    """What a Python function did to tensors, as a tape that is asked for gradients later.

    Attributes:
        result: what the function gave.
        has_served: whether it was asked for gradients.
    """

    def __init__(self, function: Callable[..., Any], tensors: Sequence[Tensor]) -> None:
        self.has_served = False
        self._sources = [x for x in tensors if is_smooth(x.dtype)]
        # Persistent, as a graph may ask for the gradients of one call twice.
        self._tape = trace_state.new_tape(persistent=True)
        with self._tape:
            for source in self._sources:
                self._tape.watch(source)
            self.result = function(*tensors)

    def gradients(self, upstream: Sequence[Tensor], smooth: Sequence[bool]) -> list[Tensor]:
        """The gradients of the inputs that have one.

        Args:
            upstream: gradients of the results that have one, in order; what follows is not read.
            smooth: which results have one.
        """
        items = self.result if isinstance(self.result, list | tuple) else [self.result]
        with self._tape:  # which takes note of a list of tensors becoming one
            results = [
                convert_to_tensor(y) for y, has_one in zip(items, smooth, strict=True) if has_one
            ]
        grads: list[Tensor] = self._tape.gradient(
            results, self._sources, list(upstream[: len(results)]), unconnected_gradients="zero"
        )
        return grads


class _TapedCalls:
    """The calls that may be asked for gradients."""

    def __init__(self) -> None:
        self.by_number: dict[int, TapedCall] = {}
        self.references: dict[int, weakref.ref[Any]] = {}
        # In order; of the calls whose numbers a loop has copied, as it does for gradients.
        self.orphans: dict[int, TapedCall] = {}
        self.numbers = itertools.count(1)


_CALLS = _TapedCalls()


def number_of(call: TapedCall | None, xp: Any, is_copied: bool) -> Any:
    """A number for `call`, as an array; the tape ends with it.

    Args:
        call: what `call_of` gives for the number; `None` where nothing has gradients.
        xp: of which module the array is.
        is_copied: whether the graph has gradients, whose node may get a copy of the array.
    """
    if call is None:
        return xp.asarray(np.int64(0))
    number = next(_CALLS.numbers)
    array = xp.asarray(np.int64(number))
    _CALLS.by_number[number] = call
    end = functools.partial(_end, number, is_copied)
    _CALLS.references[number] = weakref.ref(array, end)
    return array


def call_of(number: int) -> TapedCall | None:
    """The call of this number; `None` where its tape is gone."""
    call = _CALLS.by_number.get(number) or _CALLS.orphans.pop(number, None)
    if call is not None:
        call.has_served = True
    return call


def _end(number: int, is_copied: bool, reference: Any) -> None:
    """Forget a call whose number is gone, or hold it among the latest of those."""
    del _CALLS.references[number]
    call = _CALLS.by_number.pop(number)
    if is_copied and not call.has_served:
        _CALLS.orphans[number] = call
        # Threads may meet here: what another one has taken out is no longer there.
        while len(_CALLS.orphans) > MOST_ORPHANS:
            _CALLS.orphans.pop(next(iter(_CALLS.orphans), number), None)
