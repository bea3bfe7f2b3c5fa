"""A plugin of pytest that writes what it finds as tests end, for a run that may be cut off.

`$OUT/PART-failures.txt` gets each failure, and `summary.txt` the counts, every few seconds.
`PART-ended.txt` names each test that has ended, and how: the next run leaves these out and goes on
counting. A run that comes to its end makes `PART-outcomes.txt` of it, after which all begins anew.
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
        self._before = ended(part)
        self.counts = collections.Counter(self._before.values())
        self._outcomes = {}  # of the tests that are under way
        self._start, self._written = clock(), float("-inf")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report):
        """One stage of one test has ended."""
        if report.failed:
            self._keep(report)
        outcome = self._outcomes.get(report.nodeid) or _outcome(report)
        self._outcomes[report.nodeid] = outcome
        if report.when == "teardown":
            self._end(report.nodeid, self._outcomes.pop(report.nodeid))
        if self._clock() - self._written > EVERY:
            self.write("so far")

    def pytest_collectreport(self, report):
        """A file could not be read."""
        if report.failed:
            self.counts["files not read"] += 1
            self._keep(report)

    def _end(self, name, outcome):
        self.counts[outcome] += 1
        out = summary.folder()
        if out is not None:
            with _path(out, self.part).open("a") as file:
                file.write(f"{outcome}\t{name}\n")

    def pytest_sessionfinish(self, session, exitstatus):
        """The run has ended, or was interrupted."""
        whole = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        cut = exitstatus not in whole or bool(session.shouldfail or session.shouldstop)
        self.write("when it was cut off" if cut else "to its end")
        out = summary.folder()
        if not cut and out is not None and _path(out, self.part).exists():
            _path(out, self.part).replace(out / f"{self.part}-outcomes.txt")

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


def _path(out, part):
    return out / f"{part}-ended.txt"


def ended(part):
    """How the tests ended of which runs before this one have written, by name."""
    out = summary.folder()
    if out is None or not _path(out, part).exists():
        return {}
    lines = _path(out, part).read_text().splitlines()
    return {name: outcome for outcome, _, name in (line.partition("\t") for line in lines) if name}


def _outcome(report):
    """How a test ended, as far as a stage of it says so; `None` where it goes on well."""
    if report.failed:
        return "failed"
    if report.skipped:
        return "xfailed" if hasattr(report, "wasxfail") else "skipped"
    return "passed" if report.when == "call" else None


class LeavesOut:
    """Leaves out tests that have ended; all processes of a run leave out the same.

    Args:
        names: of the tests.
    """

    def __init__(self, names):
        self._names = frozenset(names)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        left = [item for item in items if item.nodeid not in self._names]
        if len(left) < len(items):
            config.hook.pytest_deselected(
                items=[item for item in items if item.nodeid in self._names]
            )
            items[:] = left


def pytest_configure(config):
    """Take part, but in the processes of pytest-xdist, whose reports come to the first one."""
    part = os.environ.get("TRAINKIT_SESSION_PART")
    if not part:
        return
    before = getattr(config, "workerinput", {}).get("ended")
    if before is None:
        before = list(ended(part))
        config.stash[_BEFORE] = before
        config.pluginmanager.register(Recorder(part))
    config.pluginmanager.register(LeavesOut(before))


_BEFORE = pytest.StashKey()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Tell a process of pytest-xdist what to leave out."""
    node.workerinput["ended"] = node.config.stash.get(_BEFORE, [])
