"""`TensorBoard(profile_batch=...)`: the batches asked for, and no others."""

import gzip
import json

import numpy as np
import pytest

import trainkit as tk
from trainkit.callbacks.tensorboard import _batches_to_profile
from trainkit.profiler import profiling


def fit(board, epochs=2):
    model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(3)])
    model.compile("sgd", "mse")
    x, y = np.ones((12, 4), np.float32), np.ones((12, 3), np.float32)
    return model.fit(x, y, batch_size=3, epochs=epochs, verbose=0, callbacks=board)


def steps_in(folder):
    (trace,) = folder.glob("train/plugins/profile/*/*.trace.json.gz")
    with gzip.open(trace, "rt") as file:
        names = [event["name"] for event in json.load(file)["traceEvents"]]
    return names.count("compiled step")


@pytest.mark.parametrize(
    ("asked", "steps"), [(2, 1), ((2, 4), 3), ("3,6", 4), ((7, 100), 2)], ids=str
)
def test_batches_are_counted_over_the_whole_training(asked, steps, tmp_path):
    fit([tk.callbacks.TensorBoard(tmp_path, profile_batch=asked)])
    assert steps_in(tmp_path) == steps
    assert profiling.running() is None


def test_nothing_is_profiled_by_default(tmp_path):
    fit([tk.callbacks.TensorBoard(tmp_path)])
    assert not list(tmp_path.glob("train/plugins"))


def test_a_training_that_failed_is_followed_by_another(tmp_path):
    def fail(batch, logs):
        raise OSError("gone")

    board = tk.callbacks.TensorBoard(tmp_path, profile_batch=(2, 100))
    with pytest.raises(OSError, match="gone"):
        fit([board, tk.callbacks.LambdaCallback(on_train_batch_end=fail)])
    if profiling.running() is None:  # the first batch failed, before those that are profiled
        fit([board])
    board.on_train_begin()
    assert profiling.running() is None


def test_a_profile_that_an_error_left_is_given_up(tmp_path):
    board = tk.callbacks.TensorBoard(tmp_path, profile_batch=(1, 100))

    def fail(batch, logs):
        raise OSError("gone")

    failing = tk.callbacks.LambdaCallback(on_train_batch_end=fail)
    with pytest.raises(OSError, match="gone"):
        fit([board, failing])
    assert profiling.running() is not None
    fit([board])
    assert profiling.running() is None
    assert steps_in(tmp_path) == 8


@pytest.mark.parametrize("asked", [-1, (0, 2), (5, 3), (1, 2, 3), "many", 1.5, None, "1,"])
def test_other_batches_are_refused(asked):
    with pytest.raises(ValueError, match="profile_batch must be 0, the number of a batch"):
        tk.callbacks.TensorBoard(profile_batch=asked)


def test_none_is_no_batch():
    assert _batches_to_profile(0) == (0, 0)
    assert _batches_to_profile(np.int64(3)) == (3, 3)
    assert _batches_to_profile("2, 5") == (2, 5)
