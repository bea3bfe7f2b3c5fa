"""Kills one of several processes that train a model, again and again, at random moments.

    python -m tests.attacks.killed_ranks --kills 50 --processes 2 --seed 1

After each kill the job has to end by itself within seconds, with a message that names the rank;
started again it goes on from its last checkpoint, and in the end has the bits of a run that nobody
disturbed.
"""

import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from tests.distribution.processes import MPIEXEC, YIELDING

PROGRAM = """
import hashlib, os, pathlib, sys
import numpy as np
import trainkit as tk

folder, steps = pathlib.Path(sys.argv[1]), int(sys.argv[2])
strategy = tk.distribute.MultiWorkerMirroredStrategy(shard_optimizer_state=True)
rank, size = strategy.rank, strategy.num_replicas_in_sync
(folder / f"process-{rank}").write_text(str(os.getpid()))
tk.random.set_seed(5)
with strategy.scope():
    model = tk.keras.Sequential([tk.keras.Input((20,)), tk.keras.layers.Dense(64, "relu"),
                                 tk.keras.layers.Dropout(0.2), tk.keras.layers.Dense(1)])
    optimizer = tk.keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
random_state = tk.random.get_global_generator()
checkpoint = tk.train.Checkpoint(model=model, optimizer=optimizer, random=random_state)
manager = tk.train.CheckpointManager(checkpoint, str(folder / "checkpoints"), max_to_keep=2)
manager.restore_or_initialize()
data = np.random.default_rng(0)
inputs = data.normal(size=(240, 20)).astype("float32")
targets = data.normal(size=(240, 1)).astype("float32")

@tk.function
def step(x, y):
    with tk.GradientTape() as tape:
        loss = tk.reduce_sum((model(x, training=True) - y) ** 2) / 24
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))

for number in range(int(optimizer.iterations), steps):
    low = 24 * (number % 10)
    start, stop = low + 24 * rank // size, low + 24 * (rank + 1) // size
    strategy.run(step, (tk.constant(inputs[start:stop]), tk.constant(targets[start:stop])))
    if (number + 1) % 10 == 0:
        manager.save()
weights = b"".join(w.numpy().tobytes() for w in model.weights)
(folder / f"result-{rank}").write_text(hashlib.sha256(weights).hexdigest())
"""


def start(folder, processes, steps):
    """The job as a process, with its errors in a pipe."""
    for path in [*folder.glob("process-*"), *folder.glob("result-*")]:
        path.unlink()
    command = [str(MPIEXEC), "-n", str(processes), sys.executable, "-c", PROGRAM]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PMI_", "OMPI_"))}
    return subprocess.Popen(
        [*command, str(folder), str(steps)],
        stdout=subprocess.DEVNULL,  # what the launcher says
        stderr=subprocess.PIPE,
        text=True,
        env={**clean, **YIELDING, "TRAINKIT_JIT": "0"},
    )


def finish(folder, processes, steps):
    """The digests of the ranks after an undisturbed end of the job."""
    job = start(folder, processes, steps)
    _, errors = job.communicate(timeout=120)
    if job.returncode:
        raise AssertionError(f"the job failed by itself: {errors}")
    return {(folder / f"result-{rank}").read_text() for rank in range(processes)}


def kill_one(folder, processes, steps, longest, chance):
    """Kill a rank at a random moment; seconds until the job ended, `None` if it was done before."""
    job = start(folder, processes, steps)
    rank = chance.randrange(processes)
    path = folder / f"process-{rank}"
    while job.poll() is None and not (path.exists() and path.read_text()):
        time.sleep(0.005)
    time.sleep(chance.uniform(0, longest))
    if job.poll() is not None:
        return None
    try:
        os.kill(int(path.read_text()), signal.SIGKILL)
    except ProcessLookupError:  # it had come to its end, the launcher not yet
        job.communicate(timeout=30)
        return None
    began = time.monotonic()
    _, errors = job.communicate(timeout=30)
    seconds = time.monotonic() - began
    if job.returncode == 0:
        return None
    if f"rank {rank} of {processes}" not in errors and not (folder / f"result-{rank}").exists():
        raise AssertionError(f"rank {rank} was killed, and the job says: {errors}")
    return seconds


def attack(kills, processes, steps=300, seed=0, say=print):
    """Kill so many times, each run going on from the last; the longest time that a job took to end.

    Raises:
        AssertionError: a job hangs, names no rank, or comes to other bits.
    """
    chance = random.Random(seed)
    slowest, done = 0.0, 0
    with tempfile.TemporaryDirectory() as scratch:
        calm = pathlib.Path(scratch, "calm")
        calm.mkdir()
        began = time.monotonic()
        expected = finish(calm, processes, steps)
        longest = (time.monotonic() - began) * 0.8
        if len(expected) != 1:
            raise AssertionError("the ranks of an undisturbed job have different weights")
        rounds = 0
        while done < kills:
            folder = pathlib.Path(scratch, f"round{rounds}")
            folder.mkdir()
            rounds += 1
            for _ in range(chance.randint(1, 3)):
                seconds = kill_one(folder, processes, steps, longest, chance)
                if seconds is not None:
                    done, slowest = done + 1, max(slowest, seconds)
            if finish(folder, processes, steps) != expected:
                raise AssertionError(f"round {rounds}: other bits than without kills")
            say(f"{done} kills, ended after {slowest:.2f} s at most")
    return slowest


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    attack(given.kills, given.processes, given.steps, given.seed)
