"""Ranks that die, fail or go another way end the job with one clear message, and soon."""

import os
import sys
import types

import pytest

from tests.distribution.processes import needs_mpi, run_processes
from trainkit.collectives import agreement, endings

pytestmark = needs_mpi

SUM = "group = strategy._group; group.all_reduce(np.ones(3, np.float32), label='the gradients')\n"


def stopped(code, size=3, status=1):
    done = run_processes(size, code, timeout=60, check=False)
    assert done.returncode == status
    return done.stderr


def test_after_a_signal_all_end_where_one_hangs():
    code = """
import signal, time
from trainkit.collectives import agreement
agreement.SIGNAL_PATIENCE = 0.1
if rank == 1:
    with tk.checkpoints.Interruption():
        signal.raise_signal(signal.SIGTERM)
        while True:
            time.sleep(0.1)
"""
    text = stopped(code + SUM, size=2)
    assert "was to stop after a signal and has waited at the gradients of 3 float32" in text


def test_a_killed_rank_is_named():
    text = stopped("import os\nif rank == 1: os.kill(os.getpid(), 9)\n" + SUM, status=9)
    assert "trainkit: rank 1 of 3 (process " in text
    assert "go on from the last checkpoint" in text
    assert text.count("trainkit: rank") == 1


def test_an_error_of_one_rank_is_told_once():
    # Rank 0 waits for the others, 1 does not look at them: the launcher kills it.
    code = (
        "import time\nif rank == 1: time.sleep(30)\nif rank == 2: raise RuntimeError('no more')\n"
    )
    text = stopped(code + SUM)
    assert "RuntimeError: no more" in text
    assert "trainkit: rank 2 of 3 stopped (RuntimeError: no more), so all end." in text
    assert text.count("trainkit: rank") == 1


def test_a_rank_that_ends_its_script_early_is_told_from_those_that_wait():
    text = stopped("if rank == 1: sys.exit(0)\n" + SUM)
    assert "ranks 0, 2: the gradients of 3 float32; rank 1: the end of the script" in text
    assert text.count("do not go the same way") == 1


def test_other_sizes_are_told_before_anything_is_sent():
    text = stopped(
        "size = 4 if rank == 1 else 3\n"
        "strategy._group.all_reduce(np.ones(size, np.float32), label='the gradients')"
    )
    assert "ranks 0, 2: the gradients of 3 float32; rank 1: the gradients of 4 float32" in text


class OneProcess:
    """A communicator of one process, which notes how the job is ended."""

    def __init__(self, events):
        self.events = events

    def Get_rank(self):
        return 0

    def Get_size(self):
        return 1

    Barrier = Get_rank

    def allgather(self, value):
        return [value]

    def Abort(self, status):
        self.events.append(("abort", status))
        raise SystemExit


@pytest.mark.parametrize("speaker", [0, 1])
def test_no_rank_exits_before_the_launcher_knows_the_status(monkeypatch, tmp_path, speaker):
    """A rank that exits first is one that was lost: the launcher kills the others and gives 9."""
    events = []
    monkeypatch.setattr(endings.tempfile, "mkdtemp", lambda prefix: str(tmp_path))
    monkeypatch.setattr(endings, "_observe", lambda *arguments: None)
    monkeypatch.setattr(endings.atexit, "register", lambda function: None)
    monkeypatch.setattr(endings.time, "sleep", lambda seconds: events.append(("waits", seconds)))
    monkeypatch.setattr(endings, "wait_until_read", lambda number: events.append(("read", number)))
    monkeypatch.setattr(endings.os, "_exit", lambda status: events.append(("exit", status)))
    monkeypatch.setattr(sys, "excepthook", lambda *error: events.append(("says", error[0])))
    ends = endings.Endings(OneProcess([]), types.SimpleNamespace(), OneProcess(events))
    differ = agreement.RanksDifferError(["the end of the script", "a sum"][:: 1 if speaker else -1])
    assert differ.speaker == speaker
    for error in (differ, ValueError("no")):
        events.clear()
        with pytest.raises(SystemExit):
            ends._on_error(type(error), error, None)
        silent = error is differ and speaker == 1
        first = ("waits", endings.SECONDS_TO_SPEAK) if silent else ("says", type(error))
        assert events == [first, ("read", 1), ("read", 2), ("abort", 1)]
    os.close(ends._marks)


def test_what_was_written_is_read_before_the_end(monkeypatch):
    source, sink = os.pipe()
    try:
        os.write(sink, b"the message")
        texts = []
        monkeypatch.setattr(
            endings.time, "sleep", lambda seconds: texts.append(os.read(source, 100))
        )
        endings.wait_until_read(sink)
        assert texts == [b"the message"]
    finally:
        os.close(source)
        os.close(sink)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_what_a_group_does(dtype):
    code = f"""
    group = strategy._group
    from trainkit.core.dtypes import bfloat16
    for dtype in ({dtype!r}, bfloat16.dtype):
        dtype = np.dtype(dtype)
        mine = np.arange(6).reshape(2, 3).astype(dtype) + dtype.type(rank)
        total = group.all_reduce(mine.copy())
        assert (total == 2 * np.arange(6).reshape(2, 3).astype(dtype) + dtype.type(1)).all()
        most = group.start_all_reduce(mine.copy(), "MAX").wait()
        assert (most == np.arange(6).reshape(2, 3).astype(dtype) + dtype.type(1)).all()
        first = group.broadcast(mine.copy(), 0)
        assert (first == np.arange(6).reshape(2, 3).astype(dtype)).all()
        parts = group.all_gather(mine[: rank + 1])
        assert [p.shape for p in parts] == [(1, 3), (2, 3)] and parts[0].dtype == dtype
    scalar = group.broadcast(np.array(rank), 1)
    assert scalar == 1
    assert group.exchange({{"rank": rank}}) == [{{"rank": 0}}, {{"rank": 1}}]
    group.barrier()
    """
    run_processes(2, code)
