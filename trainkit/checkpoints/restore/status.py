"""What `restore` returns: assertions about how much of the file found its place."""

from __future__ import annotations

import sys

from trainkit.checkpoints.restore.report import Report
from trainkit.checkpoints.restore.restoration import Restore
from trainkit.core.trackable import Trackable


class RestoreStatus:
    """The outcome of `Checkpoint.restore`.

    When it is dropped while values have not found their place, it warns with the report. Values
    whose owner has none at all yet (a layer that has not been called, an optimizer before its first
    step) count as pending, and are warned of when the last of the waiting objects is gone.

    Each assertion returns the status itself.
    """

    def __init__(self, restore: Restore, root: Trackable) -> None:
        self._restore = restore
        self._root = root

    @property
    def report(self) -> Report:
        """All differences between the file and the objects, as they are now."""
        return self._restore.report()

    def assert_consumed(self) -> RestoreStatus:
        """Every value of the file is in use, and every value here came from the file.

        Raises:
            AssertionError: not so; the text shows each difference.
        """
        report = self.report
        if report:
            raise AssertionError(str(report))
        self._restore.quiet = True  # nothing is left to warn of
        return self

    def assert_existing_objects_matched(self) -> RestoreStatus:
        """Every value here came from the file, which may hold more.

        Raises:
            AssertionError: not so; the text shows each difference.
        """
        report = self.report
        if len(report) > len(report.of_kind("unused")):
            raise AssertionError(str(report))
        return self

    def assert_nontrivial_match(self) -> RestoreStatus:
        """At least one value beside the count of saves came from the file.

        Raises:
            AssertionError: not so; the text shows each difference.
        """
        if not self._restore.took_something:
            raise AssertionError(f"nothing was restored. {self.report}")
        return self

    def expect_partial(self) -> RestoreStatus:
        """Don't warn about differences: only a part of the file is wanted."""
        self._restore.quiet = True
        return self

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self._restore.warn(only_lost=True)


class NothingRestored:
    """The outcome of `Checkpoint.restore(None)`: there was no checkpoint yet."""

    def assert_consumed(self) -> NothingRestored:
        """Raise, as nothing was restored."""
        raise AssertionError("restore(None) restored nothing: there was no checkpoint")

    assert_existing_objects_matched = assert_consumed
    assert_nontrivial_match = assert_consumed

    def expect_partial(self) -> NothingRestored:
        """Return the status; there is nothing to warn of."""
        return self
