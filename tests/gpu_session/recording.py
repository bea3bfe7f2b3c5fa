"""A plugin of pytest that writes what it finds as tests end, for a run that may be cut off.

`$OUT/PART-failures.txt` gets each failure, and `summary.txt` the counts, every few seconds.
"""

import collections
import os
import time

import pytest

from tests.gpu_session import summary

EVERY = 2.0
"""Seconds between two writings of the counts."""
MOST_TEXT = 6000
"""Characters kept of a failure: its end says most."""


class Recorder:
    """Counts outcomes; `part` names the files."""

    def __init__(self, part, clock=time.monotonic):
        self.part, self._clock = part, clock
        self.counts = collections.Counter()
        self._start, self._written = clock(), float("-inf")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report):
        """One stage of one test has ended."""
        if report.failed:
            self.counts["failed"] += 1
            self._keep(report)
        elif report.skipped:
            self.counts["xfailed" if hasattr(report, "wasxfail") else "skipped"] += 1
        elif report.when == "call":
            self.counts["passed"] += 1
        if self._clock() - self._written > EVERY:
            self.write("so far")

    def pytest_collectreport(self, report):
        """A file could not be read."""
        if report.failed:
            self.counts["files not read"] += 1
            self._keep(report)

    def pytest_sessionfinish(self, exitstatus):
        """The run has ended, or was interrupted."""
        cut = exitstatus == pytest.ExitCode.INTERRUPTED
        self.write("when it was cut off" if cut else "to its end")

    def _keep(self, report):
        out = summary.folder()
        if out is not None:
            with (out / f"{self.part}-failures.txt").open("a") as file:
                file.write(f"==== {report.nodeid}\n{report.longreprtext[-MOST_TEXT:]}\n")

    def write(self, state):
        """The counts, into the summary."""
        self._written = self._clock()
        order = ("passed", "failed", "skipped", "xfailed", "files not read")
        text = ", ".join(f"{self.counts[name]} {name}" for name in order if self.counts[name])
        seconds = self._clock() - self._start
        summary.set_line(self.part, f"{text or 'nothing yet'} in {seconds:.0f} s, {state}")


def pytest_configure(config):
    """Take part, but in the processes of pytest-xdist, whose reports come to the first one."""
    part = os.environ.get("TRAINKIT_SESSION_PART")
    if part and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(part))
