"""A few of the signals that `python -m tests.attacks.signals` sends by the hundreds."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fit", "loop"])
def test_signals_at_random_moments_leave_runs_that_end_with_the_same_bits(way):
    done = subprocess.run(  # its processes are forked, which is for programs without threads
        [sys.executable, "-m", "tests.attacks.signals", "--signals", "12", "--way", way],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "all with the same bits" in done.stdout
