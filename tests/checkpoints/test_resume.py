"""Runs that are killed after any batch go on to the same bits."""

import os
import signal

import numpy as np
import pytest

import trainkit as tk
from trainkit.checkpoints.checkpoint import Checkpoint, latest_checkpoint
from trainkit.checkpoints.interruption import Interruption
from trainkit.checkpoints.manager import CheckpointManager
from trainkit.checkpoints.resume import ResumeDifference, verify_resume
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.trackable import Trackable
from trainkit.core.variable import Variable

EPOCHS = 2


def data():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((22, 6)).astype(np.float32)
    return x, (x.sum(1) > 0).astype(np.int32)


def custom_loop(folder, after_batch):
    """Shuffled data, dropout, batch normalisation, Adam, a schedule and a metric."""
    tk.random.set_seed(7)
    dataset = tk.data.Dataset.from_tensor_slices(data()).shuffle(16).batch(4).repeat(EPOCHS)
    model = tk.keras.Sequential(
        [
            tk.keras.layers.Dense(5, activation="relu"),
            tk.keras.layers.BatchNormalization(),
            tk.keras.layers.Dropout(0.3),
            tk.keras.layers.Dense(2),
        ]
    )
    rate = tk.keras.optimizers.schedules.ExponentialDecay(0.05, 3, 0.9)
    optimizer = tk.keras.optimizers.Adam(rate)
    loss_of = tk.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    mean = tk.keras.metrics.Mean()
    iterator = iter(dataset)
    checkpoint = Checkpoint(model=model, optimizer=optimizer, mean=mean, iterator=iterator)
    manager = CheckpointManager(checkpoint, folder, max_to_keep=2)
    manager.restore_or_initialize()
    for x, y in iterator:
        with tk.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        mean.update_state(loss)
        after_batch(manager)


def test_a_custom_loop_resumes_exactly_at_every_batch():
    report = verify_resume(custom_loop, isolate=False)
    assert report.batches == EPOCHS * 6
    assert report.stops == tuple(range(1, 12))
    assert report.arrays > 20
    assert "equal the uninterrupted one" in str(report)


@pytest.mark.slow
def test_a_custom_loop_resumes_exactly_after_its_process_was_killed():
    assert verify_resume(custom_loop, at=[1, 8]).stops == (1, 8)


def fit(folder, after_batch):
    """The same model, trained by `fit` on shuffled batches."""
    tk.random.set_seed(7)
    dataset = tk.data.Dataset.from_tensor_slices(data()).shuffle(16).batch(4)
    model = tk.keras.Sequential(
        [
            tk.keras.layers.Dense(5, activation="relu"),
            tk.keras.layers.BatchNormalization(),
            tk.keras.layers.Dropout(0.3),
            tk.keras.layers.Dense(2),
        ]
    )
    rate = tk.keras.optimizers.schedules.ExponentialDecay(0.05, 3, 0.9)
    loss = tk.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tk.keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
    backup = tk.keras.callbacks.BackupAndRestore(folder, delete_checkpoint=False)
    tell = tk.keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: after_batch(backup.manager)
    )
    model.fit(dataset, epochs=EPOCHS, verbose=0, callbacks=[backup, tell])


def test_fit_resumes_exactly_at_every_batch():
    report = verify_resume(fit, isolate=False)
    assert report.stops == tuple(range(1, 12))


class Walk(Trackable):
    """A run of six batches, small enough to make mistakes in."""

    def __init__(self):
        self.x = Variable(np.float32(1))
        self.steps = Variable(0)


def walk(folder, after_batch, forget=False, repeat=0, chance=False):
    run = Walk()
    checkpoint = Checkpoint(steps=run.steps) if forget else Checkpoint(run)
    path = latest_checkpoint(folder)
    checkpoint.restore(path)
    if path:
        run.steps.assign_sub(repeat)
    everything = Checkpoint(run)
    if forget:
        everything.save = checkpoint.save
    while int(run.steps) < 6:
        run.steps.assign_add(1)
        more = np.random.default_rng().random() if chance else 0.5
        run.x.assign(run.x * np.float32(1 + more))
        after_batch(everything)


def test_what_is_not_saved_is_found():
    with pytest.raises(
        ResumeDifference, match=r"after batch 2 .*batch 3, after 1 more.*1 of 2"
    ) as found:
        verify_resume(lambda *args: walk(*args, forget=True), at=[2], isolate=False)
    assert str(found.value).splitlines()[1] == "  x"


def test_repeated_batches_are_found():
    with pytest.raises(ResumeDifference, match="differs after batch 4"):
        verify_resume(lambda *args: walk(*args, repeat=1), at=[3], isolate=False)


def test_a_run_that_is_not_deterministic_is_found():
    with pytest.raises(ResumeDifference, match="not deterministic"):
        verify_resume(lambda *args: walk(*args, chance=True), at=[3], isolate=False)


def test_a_right_run_passes():
    assert verify_resume(walk, at=[1, 5], isolate=False).arrays == 2


def test_wrong_use_is_told():
    with pytest.raises(InvalidArgumentError, match="at=6, the run has 6 batches"):
        verify_resume(walk, at=[6], isolate=False)
    with pytest.raises(InvalidArgumentError, match="never called after_batch"):
        verify_resume(lambda folder, after_batch: None, isolate=False)
    with pytest.raises(InvalidArgumentError, match="isolate=False"):
        verify_resume(lambda folder, after_batch: None)
    with pytest.raises(InvalidArgumentError, match="not Walk"):
        verify_resume(lambda folder, after_batch: after_batch(Walk()), isolate=False)


# ------------------------------------------------------------------ signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_loop_after_the_batch(number):
    before = signal.getsignal(number)
    done = []
    with Interruption() as interruption:
        for step in range(5):
            if step == 2:
                os.kill(os.getpid(), number)
            done.append(step)
            if interruption.asked:
                break
    assert done == [0, 1, 2]
    assert signal.getsignal(number) is before


def test_the_second_signal_acts_as_usual():
    with Interruption() as interruption:
        signal.raise_signal(signal.SIGINT)
        assert interruption.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_handlers_of_the_program_stay():
    def own(number, frame):
        seen.append(number)

    seen = []
    before = signal.signal(signal.SIGTERM, own)
    try:
        with Interruption() as interruption:
            signal.raise_signal(signal.SIGTERM)
            assert not interruption.asked
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == [signal.SIGTERM]
