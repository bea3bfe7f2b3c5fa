import sys

import pytest

from trainkit.cli.checks.probe import failure_of, probed


def test_facts_come_back():
    facts = probed("facts['one'] = 1\nnote('two', lambda: 2)\nprint('noise')")
    assert facts == {"one": 1, "two": 2}
    assert failure_of(facts, "one") == ""


def test_what_can_not_be_noted_is_an_error():
    facts = probed("note('half', lambda: 1 // 0)\nfacts['rest'] = 1")
    assert facts["half"] is None
    assert facts["rest"] == 1
    assert failure_of(facts, "half").startswith("ZeroDivisionError")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import os; os.kill(os.getpid(), 11)", "ends the process with SIGSEGV"),
        ("raise ImportError('no such library')", "ImportError: no such library"),
        ("import os; os._exit(3)", "ends the process with status 3"),
    ],
)
def test_a_process_that_breaks_off(code, text):
    assert failure_of(probed(code), "anything") == text


def test_a_process_that_hangs():
    facts = probed("import signal; signal.pause()", timeout_seconds=0.5)
    assert facts == {"failure": "does not answer within 0.5 seconds"}


def test_a_process_that_can_not_be_started(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert "no process can be started" in probed("")["failure"]
