"""Signals at random moments of a run, which must end with the bits of a run without any.

    python -m tests.attacks.signals --signals 300 --seed 1

Each run is a process of its own, made by a fork. It trains by `fit`, with validation and callbacks,
or by a loop with a `CheckpointManager`, and is taken up again in a new process after each signal.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import h5py
import numpy as np

import trainkit as tk

# What a run imports late is imported here, once for all processes.
LATE = (h5py, tk.Sequential, tk.optimizers, tk.losses, tk.metrics, tk.callbacks, tk.train)
LATE += (tk.train.CheckpointManager, tk.checkpoints, tk.data.Dataset, tk.GradientTape)

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 6)).astype("float32")
Y = (X.sum(axis=1) > 0).astype("int32")
EPOCHS = 4
KILLED = {-signal.SIGTERM, -signal.SIGINT}
BROKEN_OFF = 3  # the exit status after a KeyboardInterrupt


def make_model():
    tk.random.set_seed(1)
    return tk.Sequential(
        [
            tk.layers.Dense(8, activation="relu"),
            tk.layers.BatchNormalization(),
            tk.layers.Dropout(0.4),
            tk.layers.Dense(2),
        ]
    )


def digest(arrays, history=None):
    """A checksum of all bits, and of the history."""
    found = hashlib.sha256(json.dumps(history, sort_keys=True).encode())
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def fit(folder, begin):
    """Train by `fit`; whether it was interrupted, and what it ended with."""
    cb = tk.callbacks
    model = make_model()
    model.compile(
        tk.optimizers.Adam(0.01),
        tk.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    data = tk.data.Dataset.from_tensor_slices((X, Y)).shuffle(40).batch(6)
    callbacks = [
        cb.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=0.1),
        cb.EarlyStopping("val_loss", patience=9, restore_best_weights=True),
        cb.CSVLogger(folder / "log.csv"),
        cb.ModelCheckpoint(folder / "last.weights.h5", save_weights_only=True),
        cb.BackupAndRestore(folder / "backup", save_freq=4),
    ]
    begin()
    history = model.fit(data, epochs=EPOCHS, verbose=0, callbacks=callbacks, validation_data=(X, Y))
    text = (folder / "log.csv").read_text() if not history.interrupted else ""
    state = [*model.get_weights(), *(v.numpy() for v in model.optimizer.variables)]
    return history.interrupted, digest(state, [history.history, history.epoch, text])


def loop(folder, begin):
    """Train by a loop of one's own; whether it was interrupted, and what it ended with."""
    model, optimizer = make_model(), tk.optimizers.Adam(0.01)
    model.build((None, 6))  # a run that was done already trains no batch that would
    optimizer.build(model.trainable_variables)
    loss_of = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
    data = tk.data.Dataset.from_tensor_slices((X, Y)).shuffle(40).batch(6).repeat(EPOCHS)
    iterator, mean = iter(data), tk.metrics.Mean()
    checkpoint = tk.train.Checkpoint(
        model=model,
        optimizer=optimizer,
        iterator=iterator,
        mean=mean,
        random=tk.random.get_global_generator(),
    )
    manager = tk.train.CheckpointManager(checkpoint, folder / "backup", max_to_keep=2)
    begin()
    with tk.checkpoints.Interruption() as interruption:
        manager.restore_or_initialize()
        for step, (x, y) in enumerate(iterator):
            with tk.GradientTape() as tape:
                loss = loss_of(y, model(x, training=True))
            grads = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
            mean.update_state(loss)
            if interruption.asked or step % 5 == 4:
                manager.save()
            if interruption.asked:
                break
    state = [*model.get_weights(), *(v.numpy() for v in optimizer.variables), mean.result()]
    return interruption.asked, digest([np.asarray(v) for v in state])


WAYS = {"fit": fit, "loop": loop}


class Run:
    """A process that trains in `folder`; tells when it begins, and what it ended with."""

    def __init__(self, way, folder):
        told, tells = os.pipe()
        hears, self._let_go = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(told)
            os.close(self._let_go)
            _child(way, folder, tells, hears)
        os.close(tells)
        os.close(hears)
        self._pipe = os.fdopen(told)
        self._pipe.readline()
        self.began = time.perf_counter()

    def end(self):
        """The exit status, and what the run told."""
        os.close(self._let_go)
        told = self._pipe.read()
        self._pipe.close()
        status = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        return status, json.loads(told) if told else None


def _child(way, folder, tells, hears):
    """Train, tell of it, and end the process."""
    status = 1
    pipe = os.fdopen(tells, "w")

    def begin():
        pipe.write("\n")
        pipe.flush()

    try:
        interrupted, found = way(folder, begin)
        # A signal from here on comes after the run. Those that came before it was told to end are
        # either waiting now, or known to the run.
        signal.pthread_sigmask(signal.SIG_BLOCK, KILLING)
        os.read(hears, 1)
        late = bool(signal.sigpending() & KILLING)
        pipe.write(json.dumps({"interrupted": interrupted, "digest": found, "late": late}))
        pipe.close()
        status = 0
    except KeyboardInterrupt:
        status = BROKEN_OFF
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


KILLING = {signal.SIGINT, signal.SIGTERM}


class Failed(AssertionError):
    """A run did not end as the one without signals."""


def attack(name, signals, seed, log=lambda text: None):
    """Send `signals` signals to runs of one kind, each to a random moment.

    Returns:
        How many were sent by what came of them.

    Raises:
        Failed: a run failed, swallowed a signal, or ended with other bits.
    """
    way, random_ = WAYS[name], random.Random(f"{name} {seed}")
    with tempfile.TemporaryDirectory() as folder:
        run = Run(way, Path(folder))
        status, told = run.end()
        seconds = time.perf_counter() - run.began
    if status or told["interrupted"]:
        raise Failed(f"{name}: the run without signals failed")
    expected, counts = told["digest"], {}
    sent = runs = 0
    while sent < signals:
        with tempfile.TemporaryDirectory() as folder:
            sent += _one(way, Path(folder), random_, seconds, expected, counts)
        runs += 1
        log(f"{name}: {sent} signals in {runs} runs, all with the same bits; {counts}")
    return counts


def _one(way, folder, random_, seconds, expected, counts):
    """A run with some signals, taken up until it ends; how many were sent."""
    sent = 0
    for attempt in range(100):
        run = Run(way, folder)
        numbers = []
        if attempt < 4:
            time.sleep(random_.random() ** 1.3 * seconds)
            numbers = random_.choices(sorted(KILLING), k=random_.choice((1, 1, 1, 2)))
        for position, number in enumerate(numbers):
            if position:
                time.sleep(random_.choice((0, 0.002, 0.02)) * random_.random())
            os.kill(run.process, number)
        sent += len(numbers)
        status, told = run.end()
        what = _what(status, told, numbers)
        if numbers:
            counts[what] = counts.get(what, 0) + len(numbers)
        if status == 0 and not told["interrupted"]:
            if told["digest"] != expected:
                raise Failed(f"signals {numbers}, {what}: the run ended with other bits")
            return sent
    raise Failed("a run does not come to its end")


def _what(status, told, numbers):
    """What came of some signals."""
    if status == BROKEN_OFF or status in KILLED:
        return "broken off by two" if len(numbers) == 2 else "just before or after the run"
    if status:
        raise Failed(f"signals {numbers}: the process ended with status {status}")
    if told["interrupted"]:
        return "ended early"
    if numbers and not told["late"]:
        raise Failed(f"signals {numbers} were swallowed")
    return "after the end"


def main(arguments=None):
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signals", type=int, default=300, help="how many for each kind of run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--way", choices=[*WAYS], action="append")
    given = parser.parse_args(arguments)
    for name in given.way or WAYS:
        counts = attack(name, given.signals, given.seed, lambda text: print(text, flush=True))
        print(f"{name}, seed {given.seed}: {sum(counts.values())} signals, {counts}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
