"""A process that is forked off while other threads hold locks and pools: nothing in it waits."""

import pathlib
import re
import subprocess
import sys

import pytest

import trainkit

PROGRAM = """
import contextlib, os, signal, tempfile, threading, warnings
import numpy as np
import trainkit as tk
from trainkit.checkpoints.background import BackgroundWriter
from trainkit.collectives.turns import Turns
from trainkit.core.process import forks, side_work

warnings.simplefilter("ignore")  # newer Pythons warn of any fork beside threads

def halve(x):
    return x / 2

def numbers(**how):
    pass_ = iter(tk.data.Dataset.range(9).map(lambda x: x + 1, **how).prefetch(2))
    assert int(next(pass_)) == 1
    return pass_

def train():
    model = tk.Sequential([tk.layers.Dense(2), tk.layers.Dropout(0.5)])
    model.compile("sgd", "mse")
    model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)

train()
passes = numbers(), numbers(num_parallel_calls=2)
traced = tk.function(halve)
writer, turns = BackgroundWriter(), Turns(2)
assert turns.run(lambda rank: rank) == [0, 1]
events = tk.summary.create_file_writer(tempfile.mkdtemp())
held, forked = threading.Event(), threading.Event()
writer.submit([], lambda entries: forked.wait())

def hold():
    with contextlib.ExitStack() as locks:
        for lock in [*forks._LOCKS, side_work._EXIT._cond]:
            locks.enter_context(lock)
        held.set()
        forked.wait()

threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if child:
    status = os.waitpid(child, 0)[1]
    forked.set()
    assert status == 0, status
    raise SystemExit
signal.alarm(60)  # the child is killed if it waits
train()
assert [[int(x) for x in pass_] for pass_ in passes] == [list(range(2, 10))] * 2
assert float(traced(tk.constant(3.0))) == 1.5
writer.submit([], lambda entries: None)
writer.wait()
assert turns.run(lambda rank: rank) == [0, 1]
with events.as_default(step=0):
    tk.summary.scalar("loss", 1.0)
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork on this system")
def test_a_child_takes_no_part_in_the_locks_and_threads_of_its_parent():
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, timeout=100)
    assert (run.returncode, run.stderr) == (0, b""), run.stderr.decode()


def test_locks_are_made_where_a_fork_is_thought_of():
    root = pathlib.Path(trainkit.__file__).parent
    own = {"core/process/forks.py", "core/dispatch/slow_work.py"}  # the second begins anew itself
    makers = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(r"threading\.R?Lock\(\)", path.read_text(encoding="utf-8"))
    }
    assert makers <= own, "make locks with trainkit.core.process.forks"
