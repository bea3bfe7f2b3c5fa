import os
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.checkpoints.objects import Adam, Momentum, built_net, weights_of
from trainkit.checkpoints.checkpoint import Checkpoint
from trainkit.checkpoints.format.writer import CheckpointOptions
from trainkit.checkpoints.manager import CheckpointManager, DamagedCheckpointWarning
from trainkit.core.errors import CheckpointError, CheckpointMismatchError, InvalidArgumentError
from trainkit.core.variable import Variable


def names(paths):
    return [os.path.basename(path) for path in paths]


def flip(path, position=None):
    """Change one byte in the middle of the values."""
    data = bytearray(Path(path).read_bytes())
    data[len(data) // 2 if position is None else position] ^= 0x10
    Path(path).write_bytes(data)


@pytest.fixture
def step():
    return Variable(0)


@pytest.fixture
def checkpoint(step):
    return Checkpoint(step=step)


def save_steps(manager, step, count, **kwargs):
    paths = []
    for _ in range(count):
        step.assign_add(1)
        paths.append(manager.save(**kwargs))
    return paths


def test_the_newest_are_kept(checkpoint, step, tmp_path):
    manager = CheckpointManager(checkpoint, str(tmp_path), max_to_keep=2)
    assert manager.latest_checkpoint is None
    save_steps(manager, step, 4)
    assert names(manager.checkpoints) == ["ckpt-3", "ckpt-4"]
    assert sorted(os.listdir(tmp_path)) == ["ckpt-3", "ckpt-4"]
    assert manager.latest_checkpoint == manager.checkpoints[-1]
    checkpoint.restore(manager.checkpoints[0])
    assert int(step) == 3


def test_none_keeps_all(checkpoint, step, tmp_path):
    manager = CheckpointManager(checkpoint, tmp_path, max_to_keep=None)
    save_steps(manager, step, 7)
    assert len(manager.checkpoints) == 7


def test_a_new_manager_knows_what_is_there(checkpoint, step, tmp_path):
    save_steps(CheckpointManager(checkpoint, tmp_path, max_to_keep=3), step, 5)
    again = CheckpointManager(checkpoint, tmp_path, max_to_keep=2)
    assert names(again.checkpoints) == ["ckpt-3", "ckpt-4", "ckpt-5"]
    again.save()
    assert sorted(os.listdir(tmp_path)) == ["ckpt-5", "ckpt-6"]


def test_going_back_and_saving_again_does_not_lose_the_new_file(checkpoint, step, tmp_path):
    manager = CheckpointManager(checkpoint, tmp_path, max_to_keep=3)
    save_steps(manager, step, 4)
    checkpoint.restore(manager.checkpoints[0])
    assert names([manager.save()]) == ["ckpt-3"]
    assert names(manager.checkpoints) == ["ckpt-2", "ckpt-4", "ckpt-3"]
    assert names([CheckpointManager(checkpoint, tmp_path, 3).latest_checkpoint]) == ["ckpt-3"]


def test_numbers_may_be_given(checkpoint, step, tmp_path):
    manager = CheckpointManager(checkpoint, tmp_path, max_to_keep=2, checkpoint_name="model")
    assert names([manager.save(checkpoint_number=Variable(70))]) == ["model-70"]


def test_the_interval_is_kept(checkpoint, step, tmp_path):
    manager = CheckpointManager(
        checkpoint, tmp_path, max_to_keep=9, step_counter=step, checkpoint_interval=3
    )
    assert [path is not None for path in save_steps(manager, step, 7)] == [1, 0, 0, 1, 0, 0, 1]
    step.assign_add(1)
    assert manager.save(check_interval=False) is not None
    assert manager.restore_or_initialize() == manager.latest_checkpoint
    step.assign_add(1)
    assert manager.save() is None


def test_one_is_preserved_each_time_hours_have_passed(checkpoint, step, tmp_path, monkeypatch):
    clock = [1e9]
    monkeypatch.setattr("trainkit.checkpoints.manager.time.time", lambda: clock[0])

    def run(count):
        manager = CheckpointManager(
            checkpoint, tmp_path, max_to_keep=2, keep_checkpoint_every_n_hours=2
        )
        for _ in range(count):
            path = manager.save()
            os.utime(path, (clock[0], clock[0]))
            clock[0] += 3600
        return manager

    run(4)
    manager = run(6)  # a restart makes no difference
    assert names(manager.checkpoints) == ["ckpt-9", "ckpt-10"]
    assert sorted(os.listdir(tmp_path)) == ["ckpt-10", "ckpt-3", "ckpt-5", "ckpt-7", "ckpt-9"]


def test_the_best_survive(checkpoint, step, tmp_path):
    metrics = [0.5, 0.2, 0.9, float("nan"), 0.3, 0.8, 0.7]
    for start in (0, 4):  # the second manager continues
        manager = CheckpointManager(checkpoint, tmp_path, max_to_keep=1, keep_best=2)
        for metric in metrics[start : start + 4]:
            manager.save(metric=metric)
    assert names(manager.best_checkpoints) == ["ckpt-2", "ckpt-5"]
    assert sorted(os.listdir(tmp_path)) == ["ckpt-2", "ckpt-5", "ckpt-7"]
    largest = CheckpointManager(checkpoint, tmp_path, keep_best=1, best_mode="max")
    assert names(largest.best_checkpoints) == ["ckpt-7"]
    with pytest.raises(InvalidArgumentError, match=r"save\(metric"):
        largest.save()


@pytest.mark.parametrize(
    "settings",
    [{"max_to_keep": 0}, {"checkpoint_interval": 2}, {"best_mode": "mean"}, {"keep_best": -1}],
)
def test_wrong_settings_are_refused(checkpoint, tmp_path, settings):
    with pytest.raises(InvalidArgumentError):
        CheckpointManager(checkpoint, tmp_path, **settings)


# ------------------------------------------------------------------ restoring


def test_without_a_checkpoint_the_start_function_is_called(checkpoint, step, tmp_path):
    manager = CheckpointManager(checkpoint, tmp_path / "new", init_fn=lambda: step.assign(42))
    assert manager.restore_or_initialize() is None
    assert int(step) == 42


def test_the_newest_is_restored(checkpoint, step, tmp_path):
    manager = CheckpointManager(checkpoint, tmp_path)
    save_steps(manager, step, 3)
    step.assign(0)
    assert names([manager.restore_or_initialize()]) == ["ckpt-3"]
    assert int(step) == 3


@pytest.mark.parametrize("damage", ["values", "header", "length", "empty"])
def test_a_damaged_file_is_passed_over_and_told(checkpoint, step, tmp_path, damage):
    checkpoint.big = Variable(np.arange(100_000, dtype=np.float32))
    manager = CheckpointManager(checkpoint, tmp_path)
    paths = save_steps(manager, step, 3)
    if damage == "length":
        os.truncate(paths[2], os.path.getsize(paths[2]) - 7)
    elif damage == "empty":
        os.truncate(paths[2], 0)
    else:
        flip(paths[2], 20 if damage == "header" else None)
    step.assign(0)
    with pytest.warns(DamagedCheckpointWarning, match=r"ckpt-3.*ckpt-2"):
        assert manager.restore_or_initialize() == paths[1]
    assert int(step) == 2
    assert manager.save() == paths[2]  # the number is used again
    assert CheckpointManager(checkpoint, tmp_path).restore_or_initialize() == paths[2]


def test_nothing_but_damaged_files_is_an_error_not_a_new_start(checkpoint, step, tmp_path):
    manager = CheckpointManager(checkpoint, tmp_path, init_fn=lambda: pytest.fail("started anew"))
    for path in save_steps(manager, step, 2):
        flip(path)
    with (
        pytest.warns(DamagedCheckpointWarning),
        pytest.raises(CheckpointError, match="no checkpoint in"),
    ):
        manager.restore_or_initialize()


def test_restoring_other_objects_is_an_error_and_changes_nothing(tmp_path):
    CheckpointManager(Checkpoint(x=Variable(1.0), y=Variable(1.0)), tmp_path).save()
    x = Variable(0.0)
    with pytest.raises(CheckpointMismatchError, match=r"y +in the file only"):
        CheckpointManager(Checkpoint(x=x), tmp_path).restore_or_initialize()
    more = CheckpointManager(Checkpoint(x=x, y=Variable(0.0), z=Variable(0.0)), tmp_path)
    with pytest.raises(CheckpointMismatchError, match=r"z +not in the file"):
        more.restore_or_initialize()
    assert float(x) == 0.0


def test_another_optimizer_is_an_error_with_both_names(tmp_path):
    net, optimizer = built_net(1.0), Adam()
    optimizer.step(weights_of(net))
    CheckpointManager(Checkpoint(net=net, optimizer=optimizer), tmp_path).save()
    manager = CheckpointManager(Checkpoint(net=net, optimizer=Momentum()), tmp_path)
    with pytest.raises(
        CheckpointMismatchError, match="other optimizer: object Momentum, file Adam"
    ):
        manager.restore_or_initialize()


def test_objects_without_values_yet_may_be_restored(tmp_path):
    net, optimizer = built_net(1.0), Adam()
    optimizer.step(weights_of(net))
    CheckpointManager(Checkpoint(net=net, optimizer=optimizer), tmp_path).save()
    fresh = Adam()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CheckpointManager(Checkpoint(net=net, optimizer=fresh), tmp_path).restore_or_initialize()
        fresh.step(weights_of(net), add=0.0)
    assert fresh.slot("v", net.layers[0].kernel).max() == 1.0


# ------------------------------------------------------------------ in the background


def test_a_background_save_keeps_the_values_of_its_moment(tmp_path):
    x = Variable(np.zeros(200_000, np.float32))
    options = CheckpointOptions(enable_async=True)
    manager = CheckpointManager(Checkpoint(x=x), tmp_path, max_to_keep=3, options=options)
    for value in range(1, 6):
        x.assign(np.full(200_000, value, np.float32))
        manager.save()
    x.assign(np.zeros(200_000, np.float32))
    manager.sync()
    assert names(manager.checkpoints) == ["ckpt-3", "ckpt-4", "ckpt-5"]
    for path, value in zip(manager.checkpoints, (3, 4, 5), strict=True):
        Checkpoint(x=x).restore(path)
        assert x.numpy().min() == x.numpy().max() == value


def test_a_background_write_that_fails_reaches_the_caller(tmp_path, monkeypatch):
    checkpoint = Checkpoint(x=Variable(1.0))
    options = CheckpointOptions(enable_async=True)
    manager = CheckpointManager(checkpoint, tmp_path, options=options)
    first = manager.save()
    manager.sync()

    def full(fd):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        manager.save()
        with pytest.raises(OSError, match="No space"):
            manager.sync()
        manager.save()
        while not checkpoint._writer._running[0].done():
            pass
        with pytest.raises(OSError, match="No space"):
            manager.save()
    assert manager.checkpoints == [first]
    assert os.listdir(tmp_path) == ["ckpt-1"]
    last = manager.save()
    manager.sync()
    assert manager.checkpoints == [first, last]


def test_restoring_waits_for_the_background(tmp_path):
    x = Variable(1.0)
    checkpoint = Checkpoint(x=x)
    path = checkpoint.save(tmp_path / "ckpt", CheckpointOptions(enable_async=True))
    x.assign(0.0)
    checkpoint.restore(path).assert_consumed()
    assert float(x) == 1.0
