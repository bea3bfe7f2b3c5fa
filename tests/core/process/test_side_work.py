"""Work beside the program: it pauses, and Python's exit ends it."""

import os
import subprocess
import sys
import threading
import time

import pytest

from trainkit.core.process import side_work

ENDLESS = """
import threading
from trainkit.core.process import side_work
begun = threading.Event()
def work():
    while True:
        begun.set()
        side_work.give_way()
side_work.start(work, "endless")
begun.wait()
"""
UNPAUSED = """
import threading, time
from trainkit.core.process import side_work
begun = threading.Event()
def work():
    begun.set()
    threading.Event().wait()
side_work.start(work, "unpaused")
begun.wait()
"""


@pytest.mark.parametrize("program", [ENDLESS, UNPAUSED], ids=["pausing", "blocked"])
def test_exit_ends_work_that_would_go_on_for_ever(program):
    run = subprocess.run([sys.executable, "-c", program], timeout=100, capture_output=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")


COMPILES = """
import hashlib, threading
from trainkit.core.process import forks, side_work
begun = threading.Event()
def work():
    with forks.COMPILING:
        begun.set()
        # a call without Python's lock, of longer than an exit waits for other work
        hashlib.pbkdf2_hmac("sha256", b"", b"", 3_000_000)
        print("compiled", flush=True)
    with forks.COMPILING:
        print("once more", flush=True)
START
begun.wait()
"""


@pytest.mark.parametrize(
    "start",
    ['side_work.start(work, "compiler")', "threading.Thread(target=work, daemon=True).start()"],
)
def test_exit_waits_for_a_compiler_and_lets_it_do_nothing_else(start):
    program = COMPILES.replace("START", start)
    run = subprocess.run([sys.executable, "-c", program], timeout=100, capture_output=True)
    assert (run.returncode, run.stdout.split(), run.stderr) == (0, [b"compiled"], b"")


def test_work_runs_and_its_thread_goes():
    done = []
    thread = side_work.start(lambda: done.append(threading.current_thread().name), "some work")
    thread.join()
    assert done == ["some work"]
    assert thread not in side_work._THREADS


def test_work_pauses_when_its_turn_is_over_and_others_never(monkeypatch):
    pauses = []

    class Exit:
        def wait(self, seconds):
            pauses.append(seconds)
            return False

    monkeypatch.setattr(side_work, "_EXIT", Exit())
    monkeypatch.setattr(side_work, "TURN_SECONDS", -1.0)
    side_work.give_way()
    assert pauses == []
    side_work.start(lambda: [side_work.give_way() for _ in range(3)], "work").join()
    assert pauses == [side_work.TURN_SECONDS] * 4  # one more at its start


def test_work_ends_at_its_next_pause_once_the_program_ends(monkeypatch):
    event, after = threading.Event(), []
    event.set()
    monkeypatch.setattr(side_work, "_EXIT", event)
    monkeypatch.setattr(side_work, "TURN_SECONDS", -1.0)

    def work():
        side_work.give_way()
        after.append(time.monotonic())

    side_work.start(work, "work").join()
    assert after == []


def test_modules_are_imported_one_by_one(monkeypatch):
    calls = []
    monkeypatch.setattr(side_work, "give_way", lambda: calls.append("way"))
    monkeypatch.setattr(side_work.importlib, "import_module", calls.append)
    side_work.import_modules(("first", "second"))
    assert calls == ["way", "first", "way", "second"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads have no priorities")
def test_the_program_goes_before_work_beside_it():
    def niceness():
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    values = []
    side_work.start(lambda: values.append(niceness()), "work").join()
    assert values == [min(niceness() + side_work.NICENESS, 19)]


def test_work_runs_where_priorities_can_not_be_set(monkeypatch):
    def refuse(*_):
        raise PermissionError

    done = []
    monkeypatch.setattr(side_work.os, "setpriority", refuse)
    side_work.start(lambda: done.append(True), "work").join()
    assert done == [True]
