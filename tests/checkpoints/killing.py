"""Kills a process that saves checkpoints, again and again, and restores after each kill.

Run as `python killing.py FOLDER KILLS SEED`; prints how many kills hit which state of the folder.
"""

import collections
import os
import pathlib
import random
import select
import signal
import sys
import warnings

import numpy as np

from trainkit.checkpoints.checkpoint import Checkpoint
from trainkit.checkpoints.format.atomic import leftovers
from trainkit.checkpoints.format.writer import CheckpointOptions
from trainkit.checkpoints.manager import CheckpointManager
from trainkit.core.variable import Variable

SIZES = [(3,), (70_000,), (1,), (300, 400), (50,)]
NEVER_SECONDS = 60


def state():
    return [Variable(np.zeros(size, np.float32)) for size in SIZES], Variable(np.int64(0))


def manager_of(folder, values, step, asynchronous=False):
    options = CheckpointOptions(enable_async=asynchronous)
    return CheckpointManager(Checkpoint(values=values, step=step), folder, 3, options=options)


def train(folder, report, asynchronous):
    """Count up, save, and tell the parent, until killed."""
    values, step = state()
    manager = manager_of(folder, values, step, asynchronous)
    manager.restore_or_initialize()
    while True:
        count = int(step.numpy()) + 1
        step.assign(np.int64(count))
        for value in values:
            value.assign(np.full(value.shape, count, np.float32))
        manager.save()
        if not asynchronous:
            os.write(report, count.to_bytes(8, "little"))


def start(folder, asynchronous):
    """A child that trains; its process number and the pipe that it reports to."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            train(folder, writing, asynchronous)
        finally:
            os._exit(1)
    os.close(writing)
    return child, reading


def reported(pipe):
    """The last count that the child has seen saved, 0 for none."""
    data = b""
    while part := os.read(pipe, 1 << 16):
        data += part
    return int.from_bytes(data[-8:], "little")


def kill_once(folder, rng, least):
    """One child, killed at a random instant after its first save; the count that came back."""
    child, pipe = start(folder, asynchronous=least > 0 and rng.random() < 0.3)
    select.select([pipe], [], [], NEVER_SECONDS if least == 0 else rng.random() * 0.05)
    select.select([], [], [], rng.random() * 0.03)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    saved = reported(pipe)
    os.close(pipe)
    values, step = state()
    manager_of(folder, values, step).restore_or_initialize()
    count = int(step.numpy())
    assert count >= max(saved, least), f"{saved} was saved, {count} came back"
    for value in values:
        assert (value.numpy() == count).all(), f"a torn value at {count}"
    return count


def main(folder, kills, seed):
    warnings.simplefilter("error")
    rng = random.Random(seed)
    place = pathlib.Path(folder)
    hit = collections.Counter()
    count = 0
    for _ in range(kills):
        count = kill_once(folder, rng, count)
        hit["in a write" if list(leftovers(place)) else "between writes"] += 1
    values, step = state()
    manager = manager_of(folder, values, step)
    manager.restore_or_initialize()
    manager.save()
    assert not list(leftovers(place)), "a temporary file is left after the next save"
    # A slow machine may have saved less often than the manager keeps files.
    assert len(os.listdir(folder)) == min(3, count + 1), (count, os.listdir(folder))
    print(f"{kills} kills, {dict(hit)}, {count} saves")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
