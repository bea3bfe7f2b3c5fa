"""Gradients that are heard of before the backward pass ends: as soon as nothing is added to them.

The record of a tape is passed in pieces. A gradient is final once the first operation that read its
source has been passed, since the pass goes from the last operation to the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trainkit.autodiff.backward import backward_pass, backward_pass_on_arrays, reachable_tensors
from trainkit.autodiff.tape import GradientTape
from trainkit.core.dispatch import late_ops
from trainkit.core.tensor import Tensor
from trainkit.core.variable import Variable


def early_gradients(
    tape: GradientTape,
    target: Any,
    sources: Sequence[Variable],
    groups: Sequence[Sequence[int]],
    report: Callable[[int, list[Any]], None],
) -> list[Any]:
    """`tape.gradient(target, sources)`, and news of groups of gradients on the way.

    Args:
        tape: recorded the target.
        target: tensor.
        sources: variables.
        groups: positions of sources, in the order in which their gradients are likely to be final.
        report: called with the number of each group, in order, and its gradients, `None` where
            there is none, once all of them are final. It is not called for what was computed while
            the tape recorded.

    Returns:
        What `tape.gradient` gives.
    """
    backward = _PiecewisePass(tape, [[sources[i] for i in group] for group in groups], report)
    tape.__dict__["_pass_back"] = backward.pass_back  # for this one pass
    try:
        return list(tape.gradient(target, list(sources)))
    finally:
        tape.__dict__.pop("_pass_back", None)


class _PiecewisePass:
    """One backward pass in pieces, each of which ends where the gradients of a group are final.

    Attributes:
        groups: of each group, for each of its variables, the tensors that its reads gave.
    """

    def __init__(
        self,
        tape: GradientTape,
        groups: list[list[Variable]],
        report: Callable[[int, list[Any]], None],
    ) -> None:
        self.tape, self.report = tape, report
        # The record names tensors, not variables; one that was never read has none.
        reads = tape._reads
        self.groups = [
            [reads[id(v)][1] if id(v) in reads else [] for v in group] for group in groups
        ]

    def pass_back(self, grads: dict[Tensor, Any], sources: set[Tensor], keep: bool) -> None:
        """Stands for `GradientTape._pass_back`."""
        tape = self.tape
        # A source that is itself a result has an entry somewhere in the record. The pieces put
        # sources in front without one, so such a record is passed as a whole.
        if any(tape.tracked[x] is not None for x in sources):
            type(tape)._pass_back(tape, grads, sources, keep)
            return
        needed = reachable_tensors(sources, tape.entries)
        if grads.keys().isdisjoint(needed):
            return
        record = list(tape.tracked.items())
        # The list has the record now; held by the tape too, no entry would be freed on the way.
        if not keep:
            tape.tracked.clear()
        bounds = self._bounds(record, sources)
        for number, (bound, group) in enumerate(zip(bounds, self.groups, strict=True)):
            self._pass_piece(record, bound, grads, needed, sources)
            self.report(number, [self._of_one(tensors, grads) for tensors in group])
        self._pass_piece(record, 0, grads, needed, sources)

    def _bounds(self, record: list[Any], sources: set[Tensor]) -> list[int]:
        """For each group the position in the record down to which has to be passed before it."""
        first: dict[Tensor, int] = {}
        for position, (_, entry) in enumerate(record):
            if entry is not None:
                for x in sources.intersection(entry[2:]):
                    first.setdefault(x, position)
        # Groups are heard of in order, so a group waits for all before it: the bounds never rise.
        bounds, first_position = [], len(record)
        for group in self.groups:
            positions = [first[x] for tensors in group for x in tensors if x in first]
            first_position = min([first_position, *positions])
            bounds.append(first_position)
        return bounds

    def _pass_piece(
        self,
        record: list[Any],
        start: int,
        grads: dict[Tensor, Any],
        needed: set[Tensor],
        sources: set[Tensor],
    ) -> None:
        """Pass the end of the record from a position on, which frees it."""
        # The group ends where the one before it did, or was not used.
        if start == len(record):
            return
        piece = dict.fromkeys(sources)  # what is only watched has no entry
        piece.update(record[start:])
        # Now the piece alone holds these entries, and the pass frees one after the other.
        del record[start:]
        # Asked for each piece: a rule of the last one may have given what is no plain tensor, and
        # who heard of a group may have begun to record.
        run = backward_pass_on_arrays if self.tape._unheard(grads) else backward_pass
        run(piece, grads, needed, sources)

    @staticmethod
    def _of_one(tensors: list[Tensor], grads: dict[Tensor, Any]) -> Any:
        """The gradient of a variable, which was read as these tensors."""
        total = None
        for x in tensors:
            if x in grads:
                total = grads[x] if total is None else late_ops.add(total, grads[x])
        return total
