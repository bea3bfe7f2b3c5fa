"""Why a gradient is `None`: the causes in words, with the user's lines."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from trainkit.autodiff.backward import reachable_tensors
from trainkit.core.tensor import Tensor
from trainkit.core.user_frames import Line, line_text
from trainkit.core.variable import Variable

# What was last found out about variables, for an optimizer's error when it gets no gradient at all.
# By their ids: variables compare element by element, so they are no keys.
_LAST: dict[int, tuple[weakref.ref[Variable], str]] = {}

MOST_EXITS = 200
"""How many uses without a gradient a tape remembers."""


class Exit:
    """A use of tracked tensors that no gradient goes through.

    Attributes:
        how: the name of the operation, or `"numpy()"`.
        inputs: the tensors that were used.
        line: the user's line.
    """

    __slots__ = ("how", "inputs", "line")

    def __init__(self, how: str, inputs: tuple[Any, ...], line: Line | None) -> None:
        self.how = how
        self.inputs = inputs
        self.line = line


def reason(
    source: Any,
    snapshots: list[Tensor],
    targets: Iterable[Tensor],
    entries: list[Any] | None,
    exits: list[Exit],
    tracked: set[Any],
) -> str:
    """Why none of `targets` has a gradient by `source`.

    Args:
        source: tensor or variable.
        snapshots: the tensors that stand for it in the record.
        targets: what is differentiated.
        entries: what the tape recorded, `None` where that is gone.
        exits: the uses of tracked tensors that have no gradient.
        tracked: all tensors that the tape tracks.
    """
    name = _name(source)
    if not source.dtype.is_differentiable:
        return f"{name} has dtype {source.dtype.name}, which has no gradients; cast it to a float"
    # From what is surely the cause to what is left over: each text takes those above for excluded.
    targets = list(targets)
    for t in targets:
        if not t.dtype.is_differentiable:
            return (
                f"the target has dtype {t.dtype.name}, which has no gradients; cast it to a float"
            )
    watched = [s for s in snapshots if s in tracked]
    if not watched:
        return _never_watched(source, name)
    reached = set(watched) if entries is None else reachable_tensors(watched, entries)
    # No result was recorded that comes from the source.
    if len(reached) == len(watched):
        left = _exits_of(reached, exits)
        if left:
            return f"{name} is used only where no gradient goes through: {left}"
        if entries is None:
            return (
                f"{name} was read, and no gradient comes back to it; `gradient(..., explain=True)` "
                "says what stops it"
            )
        return f"{name} was read, but nothing that was recorded uses it"
    left = _exits_of(reached, exits)
    if left:
        return (
            f"what is computed from {name} leaves the record before it reaches the target: {left}"
        )
    # Only now: a target that came out of an exit is not tracked either, and the exit says more.
    if not any(t in tracked for t in targets):
        return (
            "the target was not computed while the tape recorded, so it is not known how it "
            f"depends on {name}; compute it inside the `with` block"
        )
    return (
        f"the target does not depend on {name}: what is computed from it is not used for the target"
    )


def _name(source: Any) -> str:
    if isinstance(source, Variable):
        return f"variable {source.name!r}"
    return f"the tensor of shape {tuple(source.shape)}"


def _never_watched(source: Any, name: str) -> str:
    if not isinstance(source, Variable):
        return f"{name} was never watched; call tape.watch on it before it is used"
    if not source.trainable:
        return f"{name} is not trainable, so it is not watched by itself; call tape.watch on it"
    return f"{name} was not read while the tape recorded"


_WORDS = {
    "numpy()": "its value was taken out by numpy()",
    "stop_gradient": "stop_gradient cuts it off",
}


def _exits_of(reached: set[Any], exits: list[Exit]) -> str:
    """The uses of `reached` that end there, the latest first, in words."""
    texts = []
    for leaving in reversed(exits):
        if not reached.isdisjoint(leaving.inputs):
            cause = _WORDS.get(leaving.how, f"{leaving.how} has no gradient")
            text = f"{cause} at {line_text(leaving.line)}"
            # A loop uses one line many times.
            if text not in texts:
                texts.append(text)
    return "; ".join(texts[:3])


def remember(variable: Variable, text: str) -> None:
    """Keep the cause for `last_reason`."""
    key = id(variable)
    # The reference goes with the variable, or the next one with this id would have its cause.
    _LAST[key] = (weakref.ref(variable, lambda gone: _LAST.pop(key, None)), text)


def last_reason(variable: Variable) -> str | None:
    """Why the latest gradient by `variable` was `None`, if it was."""
    entry = _LAST.get(id(variable))
    return entry[1] if entry is not None else None


def forget(variable: Variable) -> None:
    """A gradient was found: what was known is out of date."""
    _LAST.pop(id(variable), None)
