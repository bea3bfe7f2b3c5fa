"""A terminal that is closed while a program runs (SIGHUP) takes no text, and does no other harm."""

import os
import sys

import pytest

from trainkit.core.process import console


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="Windows has no such terminals")
def test_texts_for_a_closed_terminal_are_lost_alone(monkeypatch):
    master, slave = os.openpty()
    os.close(master)
    with open(slave, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        console.say("a")
        console.say_beside("b")
