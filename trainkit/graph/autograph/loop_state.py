"""The names that a loop changes, as loop variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import is_tensor
from trainkit.graph.autograph.conditional_operators import State, undefined
from trainkit.graph.autograph.unset_names import (
    check_flags,
    flag_of,
    is_without_value,
    label,
    put_flag,
)
from trainkit.graph.control_flow.loop_variables import loop_start
from trainkit.graph.ir.subgraphs import equal_values


class LoopState:
    """The names that a loop changes, as a flat list of tensors and numbers.

    What else a name holds, such as a `None` in a tuple, is the same in all rounds.

    Args:
        known: the values of all names before the loop.
        before: the same, with zeros for names that only the body defines.
        state: the names.
        flagged: numbers of names that a round may leave without a value, as `unset_names` says;
            whether they have one is a loop variable, too.

    Attributes:
        before: as in the arguments.
        start: the tensors and numbers among the leaves of `before`, and behind them the flags.
        labels: what they are called in texts.
        fixed: which of them must keep their shapes.
    """

    def __init__(
        self,
        known: tuple[Any, ...],
        before: tuple[Any, ...],
        state: State,
        flagged: Sequence[int] = (),
    ) -> None:
        self.before = before
        self._known = known
        self._flagged = list(flagged)
        self._state = state
        self._dynamic = [i for i, x in enumerate(before) if any(map(is_varying, nest.flatten(x)))]
        self.start: list[Any] = []
        self.labels: list[str] = []
        self.fixed: list[bool] = []
        for i in self._dynamic:
            paths, shapes = _paths(state.names[i], before[i]), _fixed_leaves(known[i], before[i])
            for path, is_fixed, leaf in zip(paths, shapes, nest.flatten(before[i]), strict=True):
                if is_varying(leaf):
                    self.start.append(leaf)
                    self.labels.append(path)
                    self.fixed.append(is_fixed)
        for i in self._flagged:
            flag = flag_of(known[i])
            self.start.append(False if flag is None else flag)
            self.labels.append("a round")
            self.fixed.append(True)

    def put(self, leaves: Any) -> None:
        """Give the names these values."""
        remaining_leaves = iter(leaves)
        values = list(self.before)
        for i in self._dynamic:
            like = self.before[i]
            items = [next(remaining_leaves) if is_varying(x) else x for x in nest.flatten(like)]
            values[i] = nest.pack(like, items)
        for i in self._flagged:
            put_flag(values[i], next(remaining_leaves), self._state.names[i])
        self._state.put(tuple(values))

    def leaves(self) -> list[Any]:
        """The values that the names have now, and the flags.

        Raises:
            InvalidArgumentError: something changed that is neither tensor nor number, or what a
                name holds is nested otherwise than before the loop.
        """
        after, varying = tuple(self._state.get()), []
        for i, (x, y) in enumerate(zip(self.before, after, strict=True)):
            if i not in self._dynamic:
                self._check_constant(i, x, y)
                continue
            if not nest.same_structure(x, y):
                raise self._change(i, x, y, "a name holds the same nest of tensors in all rounds")
            for a, b in zip(nest.flatten(x), nest.flatten(y), strict=True):
                if is_varying(a) and is_varying(b):
                    varying.append(loop_start(b) if isinstance(b, _ARRAYS) else b)
                else:
                    self._check_constant(i, a, b)
        flags = (flag_of(after[i]) for i in self._flagged)
        return varying + [True if flag is None else flag for flag in flags]

    def finish(self, leaves: Sequence[Any], ran: Any = True) -> None:
        """Give the names the values after the loop, and check that these are values.

        Args:
            leaves: those of all loop variables.
            ran: whether there was a round, a bool or a bool scalar.
        """
        self.put(leaves)
        unset: dict[int, tuple[Any, list[str]]] = {}
        for i, x in enumerate(tuple(self._state.get())):
            if is_without_value(self._known[i]) and not is_without_value(x):
                flag, name = flag_of(x) if i in self._flagged else ran, self._state.names[i]
                put_flag(x, flag, name)
                unset.setdefault(id(flag), (flag, []))[1].append(name)
        for flag, names in unset.values():
            if flag is not None:
                check_flags(flag, names)

    def _check_constant(self, i: int, x: Any, y: Any) -> None:
        if not (x is y or undefined(x) or equal_values(x, y)):
            hint = "only tensors and numbers can change in it: start with a tensor"
            raise self._change(i, x, y, hint)

    def _change(self, i: int, x: Any, y: Any, hint: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"{label(self._state.names[i])} is {x!r} before the loop and {y!r} after one "
            f"iteration. The loop runs over tensors, so its body is in the graph once, and {hint}."
        )


_ARRAYS = (np.ndarray, np.generic)


def is_varying(x: Any) -> bool:
    """Whether a leaf can be a loop variable: a tensor, an array or a number."""
    if isinstance(x, _ARRAYS):
        return x.dtype.kind in "biufc"
    return is_tensor(x) or isinstance(x, bool | int | float)


def _fixed_leaves(value_before: Any, x: Any) -> list[bool]:
    """Which leaves of `x` must keep their shapes in a loop.

    Those of names that had no value before it need not, nor the elements of a `TensorArray`, which
    may grow.
    """
    flags = []
    for part in nest.flatten(x, nest.above_arrays):
        free = undefined(value_before) or nest.above_arrays(part) is not nest.container(part)
        flags += [not free] * len(nest.flatten(part))
    return flags


def _paths(name: str, x: Any) -> Iterator[str]:
    """What the leaves of `x` are called in texts, as Python writes them."""
    parts = nest.above_arrays(x)
    if parts is None:
        yield from [name] * len(nest.flatten(x))
        return
    children = list(parts.children(x))
    if parts.family is dict:
        keys = [f"[{key!r}]" for key in nest.sorted_keys(x)]
    elif parts.has_fields:
        keys = [f".{field}" for field in parts.names(x) or ()]
    else:
        keys = [f"[{i}]" for i in range(len(children))]
    for key, child in zip(keys, children, strict=True):
        yield from _paths(name + key, child)
