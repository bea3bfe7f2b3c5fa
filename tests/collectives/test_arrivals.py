"""A rank that ends before MPI has started ends the job: the others would wait for it for ever."""

import os
import signal
import sys

import pytest

from tests.distribution.processes import needs_mpi, run_command
from trainkit.collectives import arrivals
from trainkit.collectives.arrivals import Process, launcher_of, missing_ranks, ranks_below

PROGRAM = """
import os
if os.environ["PMI_RANK"] == "1": raise ImportError("no module named that")
import trainkit as tk
tk.distribute.MultiWorkerMirroredStrategy()
"""

TABLE = {
    1: Process(0, None, False),
    10: Process(1, None, False),  # the launcher
    20: Process(10, 0, False),
    21: Process(20, 0, True),
    30: Process(10, 1, False),  # a shell, with the program below
    31: Process(30, 1, False),
    40: Process(1, 2, False),  # what a rank that has ended has left
    50: Process(9, 0, False),  # of another job
}


@needs_mpi
def test_a_rank_that_raises_before_its_strategy_ends_the_job():
    done = run_command(3, ["-c", PROGRAM], check=False)
    assert done.returncode == 1
    assert "ImportError: no module named that" in done.stderr
    assert done.stderr.count("trainkit: rank 1 of 3 ended before the strategy was made") == 1


def test_ranks_are_those_below_one_launcher():
    assert launcher_of(31, TABLE) == launcher_of(20, TABLE) == 10
    assert launcher_of(50, TABLE) == 9  # the system's: it shows no environment
    assert ranks_below(10, TABLE) == {0: True, 1: False}


@pytest.mark.parametrize(
    ("seen", "alive", "local_size", "words"),
    [
        ({0, 1}, {0}, 3, ["rank 1", "rank 2"]),
        ({0, 1}, {0, 1}, 0, []),  # the launcher does not say how many there are here
        ({0, 1}, {1}, 0, ["rank 0"]),
        ({0, 1}, {0, 1}, 2, []),
        ({0}, {0}, 2, ["1 of the 2 ranks of this machine"]),
    ],
)
def test_missing_ranks_are_named_where_it_is_known_which(seen, alive, local_size, words):
    assert missing_ranks(seen, alive, 3, local_size) == words


@pytest.fixture
def watch(monkeypatch):
    table = {number: TABLE[number] for number in (10, 20, 21, 30)}
    monkeypatch.setattr(arrivals, "processes", lambda variable: dict(table))
    return arrivals.Watch(0, 2, "PMI_RANK", 2, 10), table


def test_a_rank_has_ended_once_two_looks_miss_it(watch):
    watch, table = watch
    assert not watch.look(counts=False)
    assert watch.speaks()
    assert "rank 0 has waited 20 s for all 2" in watch.waiting()
    assert watch.waiting().endswith("still to come: rank 1.")
    del table[30]
    assert not watch.look(counts=False)
    assert watch.look(counts=False)
    assert watch.ending().startswith("trainkit: rank 1 of 2 ended before the strategy was made")
    table[30] = Process(10, 1, False)
    assert not watch.look(counts=True)


def test_a_rank_that_starts_late_has_not_ended(watch):
    watch, table = watch
    del table[30]
    assert not any([watch.look(counts=False), watch.look(counts=False)])
    assert [watch.look(counts=True), watch.look(counts=True)] == [False, True]


def test_the_first_rank_that_waits_speaks(watch):
    watch, table = watch
    table[31] = Process(30, 1, True)
    watch.look(counts=True)
    assert watch.speaks()
    other = arrivals.Watch(1, 2, "PMI_RANK", 2, 10)
    other.look(counts=True)
    assert not other.speaks()


def test_the_end_is_told_to_the_launcher_then_the_rank_is_killed(monkeypatch, capfd):
    source, line = os.pipe()
    kills = []
    monkeypatch.setattr(arrivals.os, "kill", lambda *arguments: kills.append(arguments))
    monkeypatch.setattr(arrivals.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(arrivals, "wait_until_read", lambda number: None)
    try:
        arrivals.end(7, line, "why")
        assert os.read(source, 100) == b"cmd=abort exitcode=1\n"
    finally:
        os.close(source)
        os.close(line)
    assert kills == [(7, signal.SIGKILL)]
    assert capfd.readouterr().err == "\nwhy\n"


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="needs Linux")
def test_this_process_is_seen_and_the_watch_ends_with_its_context(monkeypatch):
    table = arrivals.processes("NO_SUCH_RANK")
    assert table[os.getpid()] == Process(os.getppid(), None, False)
    watches = []
    start = arrivals.subprocess.Popen
    monkeypatch.setattr(
        arrivals.subprocess, "Popen", lambda *a, **k: watches.append(start(*a, **k)) or watches[0]
    )
    with arrivals.watched(0, 2, "PMI_RANK", 0):
        assert watches[0].args[0] == sys.executable
        assert watches[0].poll() is None
    assert watches[0].returncode == -signal.SIGKILL
