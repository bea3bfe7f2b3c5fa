"""`Restore`: one restoration, which lasts until the file has nothing left to give.

What matches is restored at once, after the whole file has been checked. Matched objects keep a
hook, through which parts and slots that are made later take their values as they come.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.checkpoints.format.reader import SavedFile
from trainkit.checkpoints.format.validation import ArrayNode, GroupNode
from trainkit.checkpoints.replicas import loaded
from trainkit.checkpoints.restore.matching import (
    COUNTER,
    Match,
    Slots,
    Weights,
    lost_paths,
    slot_values,
)
from trainkit.checkpoints.restore.object_graph import file_name, join
from trainkit.checkpoints.restore.report import Difference, Report
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import CheckpointError, CheckpointMismatchError
from trainkit.core.trackable import Trackable, set_silently
from trainkit.core.variable import Variable

_WRONG = ("other shape", "other dtype")

Jobs = list[tuple[Variable, ArrayNode]]
Load = Callable[[SavedFile, Jobs], None]


class IncompleteRestoreWarning(UserWarning):
    """A checkpoint was restored and something stayed without its counterpart."""


class Restore:
    """Gives the values of one file to one tree of objects.

    Args:
        saved: the open file; it is closed when nothing is left in it.
        root: the objects.
        skip_slots: whether optimizers keep the slots that they have, and those of the file count
            as taken.
    """

    def __init__(self, saved: SavedFile, root: Trackable, skip_slots: bool = False) -> None:
        self.saved = saved
        self.quiet = False
        self._root = weakref.ref(root)
        self._weights = Weights()
        self._left = 0
        self._skip_slots = skip_slots
        self.took_something = False

    # ------------------------------------------------------------------ at once

    def start(self, strict: bool) -> None:
        """Restore all that exists.

        Args:
            strict: whether any difference is an error, not only other shapes and dtypes. What has
                no object yet is none while its owner has no values at all: it may still be made.

        Raises:
            CheckpointMismatchError: a difference; nothing is changed.
            CheckpointError: the file is damaged; nothing is changed.
        """
        root = self._root()
        assert root is not None
        try:
            if self._skip_slots:
                for node in slot_values(self.saved.root):
                    node.bound = True
            match = self._match().add(root, self.saved.root, "")
            self._left = sum(not node.bound for node in self.saved.arrays())
            self._check(match, strict)
            self.saved.verify()
            self._apply(match, load_verified)
        except BaseException:
            self._left = 0
            self.saved.close()
            raise

    def _match(self) -> Match:
        return Match(self.saved.root, self._weights, self._skip_slots)

    def _check(self, match: Match, strict: bool) -> None:
        wrong = [item for item in match.differences if item.kind in _WRONG]
        if strict and not wrong:
            self._mark(match, True)
            wrong = match.differences + self.lost()
            self._mark(match, False)
        if wrong:
            every = Report(self.saved.name, match.differences + self.unused(match))
            raise mismatch(every)

    @staticmethod
    def _mark(match: Match, bound: bool) -> None:
        for _, _, node in match.values:
            node.bound = bound
        for _, _, arrays in match.states:
            for node in arrays.values():
                node.bound = bound
        for _, group in match.groups:
            group.bound = bound

    def _apply(self, match: Match, load: Load) -> None:
        """Give the matched objects their values, states first: only these may still refuse."""
        self._load_states(match)
        jobs = match.values
        load(self.saved, [(variable, node) for _, variable, node in jobs])
        got = {id(variable) for _, variable, _ in jobs}
        if trace_state.THREAD.made is not None:  # they were made in the step that goes on here
            for _, variable, _ in jobs:
                trace_state.THREAD.made(variable)
        for part, _ in match.groups:
            loaded(part, got)
        fresh = {id(node) for _, _, node in jobs if not node.bound}
        fresh |= {id(n) for _, _, arrays in match.states for n in arrays.values() if not n.bound}
        self._left -= len(fresh)
        self._mark(match, True)
        self.took_something |= any(node.path != COUNTER for _, _, node in jobs) or bool(
            match.states
        )
        if self._left:
            for part, group in match.groups:
                _set_hook(part, Pending(self, group))
        else:
            self.saved.close()

    def _load_states(self, match: Match) -> None:
        replaced: list[tuple[Trackable, dict[str, Any]]] = []
        for path, owner, arrays in match.states:
            values = {name: self.saved.value(node) for name, node in arrays.items()}
            now = type(owner).state_arrays(owner)
            before = {name: np.copy(value) for name, value in now.items()}
            try:
                type(owner).load_state_arrays(owner, values)
            except (ValueError, TypeError, KeyError, IndexError) as error:
                for other, old in reversed(replaced):
                    type(other).load_state_arrays(other, old)
                raise CheckpointError(
                    f"{self.saved.name}: {type(owner).__name__} at '{path}' can't take its state: "
                    f"{error}"
                ) from error
            replaced.append((owner, before))

    # ------------------------------------------------------------------ later

    def part_added(self, node: GroupNode, name: str, part: Trackable) -> None:
        """Restore `part`, which an object that was matched with `node` has got as `name`."""
        below = node.children.get(file_name(name))
        if below is None or not self._left or (isinstance(below, ArrayNode) and below.bound):
            return
        hook = part.__dict__.get("_pending_restore")
        if isinstance(hook, Pending) and hook.node is below:
            return
        match = self._match().add(part, below, join(node.path, file_name(name)))
        self._apply_later(match)

    def slot_added(self, slots: Slots, name: str, weight: Any, slot: Variable) -> None:
        """Restore a slot that the optimizer with these `slots` has made."""
        if self._left and not self._skip_slots:
            match = self._match()
            match.add_slot(slots, name, weight, slot, slots.node.path)
            self._apply_later(match)

    def _apply_later(self, match: Match) -> None:
        wrong = [item for item in match.differences if item.kind in _WRONG]
        if wrong:
            raise mismatch(Report(self.saved.name, wrong))
        match.values = [job for job in match.values if not job[2].bound]
        match.states = [job for job in match.states if not any(n.bound for n in job[2].values())]
        self._apply(match, load_and_check)

    # ------------------------------------------------------------------ what is left

    def unused(self, match: Match | None = None) -> list[Difference]:
        """The values of the file that no object has taken."""
        if not self._left and match is None:
            return []
        touched = match.touched if match else set()
        return [
            Difference("unused", node.path, f"{node.shape} {node.dtype.name}")
            for node in self.saved.arrays()
            if not node.bound and id(node) not in touched
        ]

    def lost(self) -> list[Difference]:
        """The unused values whose owner has values already, so that hardly anyone will ask."""
        if not self._left:
            return []
        lost = set(lost_paths(self.saved.root))
        return [item for item in self.unused() if item.path in lost]

    def report(self) -> Report:
        """All differences as they are now."""
        root = self._root()
        if root is None:
            return Report(self.saved.name, self.unused())
        match = Match(self.saved.root, skip_slots=self._skip_slots)
        match.add(root, self.saved.root, "")
        return Report(self.saved.name, match.differences + self.unused())

    def warn(self, only_lost: bool) -> None:
        """Warn, once, when there are differences.

        Args:
            only_lost: leave out values whose owner may still be filled.
        """
        if self.quiet:
            return
        report = self.report()
        if only_lost:
            lost = {item.path for item in self.lost()}
            differences = [d for d in report.differences if d.kind != "unused" or d.path in lost]
            report = Report(self.saved.name, differences)
        if report:
            self.quiet = True
            warnings.warn(
                f"{report}\nstatus.expect_partial() says that this is meant, "
                "status.assert_consumed() makes it an error",
                IncompleteRestoreWarning,
                stacklevel=3,
            )

    def __del__(self) -> None:
        if not sys.is_finalizing() and self._left:
            self.warn(only_lost=False)


class Pending:
    """The hook that a matched object keeps while its file has values left.

    Copies and pickles of the object keep none.
    """

    def __init__(self, restore: Restore, node: GroupNode) -> None:
        self._restore = restore
        self.node = node
        self._slots = Slots(node)

    def part_added(self, owner: Trackable, name: str, part: Trackable) -> None:
        """`owner` has got `part` as `name`."""
        if (
            file_name(name) not in self.node.children
        ):  # an owner may give its attributes other names
            name = next((n for n, p in type(owner).parts(owner).items() if p is part), name)
        self._restore.part_added(self.node, name, part)

    def slot_added(self, owner: Trackable, name: str, weight: Any, slot: Variable) -> None:
        """`owner`, an optimizer, has made `slot` for `weight`."""
        self._restore.slot_added(self._slots, name, weight, slot)

    def __deepcopy__(self, memo: Any) -> None:
        return None

    def __reduce__(self) -> Any:
        return type(None), ()


def load_and_check(saved: SavedFile, jobs: Jobs) -> None:
    """Give variables the values of nodes, which have their shapes and dtypes.

    Raises:
        CheckpointError: a checksum differs, from `verify` or within this call.
    """
    for variable, node in jobs:
        array = _buffer(saved, variable, node)
        if array is None or not saved.read_direct(node, array):
            variable._store(saved.value(node))


def load_verified(saved: SavedFile, jobs: Jobs) -> None:
    """The same just after `verify`, on several cores and without comparing again."""
    pairs = []
    for variable, node in jobs:
        array = _buffer(saved, variable, node)
        if array is None:
            variable._store(saved.value(node))
        else:
            pairs.append((node, array))
    saved.read_all(pairs)


def _buffer(saved: SavedFile, variable: Variable, node: ArrayNode) -> Any:
    """The buffer of `variable` when `node` can be read straight into it, else None."""
    array = variable._value._array
    if type(array) is not np.ndarray or not saved.fits(node, array):
        return None
    del array  # one holder more, and the buffer would be copied
    return variable._writable()


def _set_hook(part: Trackable, hook: Pending) -> None:
    """Leave `hook` with `part`, and with the object that it stands for."""
    for owner in (part, getattr(part, "_stands_for", None)):
        if owner is not None:
            set_silently(owner, _pending_restore=hook)


def mismatch(report: Report) -> CheckpointMismatchError:
    """The error that shows `report`."""
    error = CheckpointMismatchError(f"{report}\nNothing has been changed.")
    error.report = report
    return error
