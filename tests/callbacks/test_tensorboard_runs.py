"""What is on the disk after a crash, and what a run that is taken up again writes anew."""

import collections
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import trainkit as tk
from trainkit.summary.pruning import drop_events

pytest.importorskip("tensorboard")


def scalars(folder):
    """The steps of each tag, from the raw files, as often as they stand there."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    found = collections.defaultdict(list)
    for path in sorted(folder.glob("*tfevents*")):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                found[value.tag].append(event.step)
    return found


def shown(folder):
    """The steps of each tag that TensorBoard shows."""
    from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), tensor_size_guidance={"tensors": 0})
    events.Reload()
    return {tag: [e.step for e in events.Tensors(tag)] for tag in events.Tags()["tensors"]}


KILLED = """
import sys
import trainkit as tk
with tk.summary.create_file_writer(sys.argv[1]).as_default() as writer:
    for step in range(1_000_000):
        tk.summary.scalar("loss", step / 7, step=step)
        tk.summary.histogram("spread", [step, 1.0], step=step)
        if step % 3 == 0:
            writer.flush()
            print(step, flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no kill -9 here")
@pytest.mark.parametrize("lines", [1, 40, 90])
def test_what_was_flushed_is_there_after_a_kill(tmp_path, lines):
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        for _ in range(lines):
            last = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split()
        process.wait()
    last = max([last, *(int(step) for step in rest[:-1])])
    found = scalars(tmp_path)
    for tag in ("loss", "spread"):
        assert found[tag][: last + 1] == list(range(last + 1))


def fit(folder, log_dir, epochs, stop_at=None, **arguments):
    """Train on 4 batches an epoch; an error ends it after so many."""
    tk.random.set_seed(0)
    layers = [tk.Input((3,)), tk.layers.Dense(1, name="only")]
    model = tk.Sequential(layers, name="line")
    model.compile("sgd", "mse")
    count = iter(range(10**6))

    def maybe_fail(batch, logs):
        if next(count) + 1 == stop_at:
            raise OSError("gone")

    def fail_before_the_backup(epoch, logs):
        if stop_at == f"end of {epoch}":
            raise OSError("gone")

    x, y = np.ones((8, 3), np.float32), np.ones((8, 1), np.float32)
    callbacks = [
        tk.callbacks.TensorBoard(log_dir, **arguments),
        tk.callbacks.LambdaCallback(on_epoch_end=fail_before_the_backup),
        tk.callbacks.BackupAndRestore(folder, save_freq=3, delete_checkpoint=False),
        tk.callbacks.LambdaCallback(on_train_batch_end=maybe_fail),
    ]
    model.fit(
        x, y, batch_size=2, epochs=epochs, verbose=0, callbacks=callbacks, validation_data=(x, y)
    )


ARGUMENTS = [
    {},
    {"update_freq": "batch", "histogram_freq": 1},
    {"write_gradients": True, "time_budget": 1.0, "histogram_freq": 1},
]


@pytest.mark.parametrize("stop_at", [5, 8, 10, "end of 0", "end of 2"])
@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_a_resumed_run_shows_each_step_once(tmp_path, stop_at, arguments):
    log_dir = tmp_path / "logs"
    with pytest.raises(OSError, match="gone"):
        fit(tmp_path / "backup", log_dir, 4, stop_at, **arguments)
    fit(tmp_path / "backup", log_dir, 4, **arguments)
    found = shown(log_dir / "train")
    assert found["epoch_loss"] == [0, 1, 2, 3]
    if "update_freq" in arguments:
        assert found["batch_loss"] == list(range(1, 17))
    if "histogram_freq" in arguments:
        assert found["line/only/kernel"] == [0, 1, 2, 3]
    for tag, steps in found.items():
        assert len(set(steps)) == len(steps), tag
    assert shown(log_dir / "validation")["epoch_loss"] == [0, 1, 2, 3]


def test_events_are_taken_out_of_whole_and_of_torn_files(tmp_path):
    for name in ("a", "b"):
        with tk.summary.create_file_writer(tmp_path, filename_suffix=name).as_default() as writer:
            for step in range(4):
                tk.summary.scalar("epoch_loss", float(step), step=step)
                tk.summary.scalar("other", float(step), step=step)
            writer.close()
    first, second = sorted(tmp_path.iterdir())
    second.write_bytes(second.read_bytes()[:-5])  # the last record is cut
    dropped = drop_events(tmp_path, lambda tag, step: tag == "epoch_loss" and step >= 2)
    assert dropped == {first.name: 2, second.name: 2}
    assert sorted(tmp_path.iterdir()) == [first, second]
    found = scalars(tmp_path)
    assert found["epoch_loss"] == [0, 1, 0, 1]
    assert found["other"] == [0, 1, 2, 3, 0, 1, 2]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert drop_events(tmp_path, lambda tag, step: False) == {}
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_both_graphs_of_a_model_are_written(tmp_path):
    fit(tmp_path / "backup", tmp_path, 1)
    from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "train"))
    events.Reload()
    assert events.Graph().node
    plugin = events.SummaryMetadata("keras").plugin_data.plugin_name
    assert plugin == "graph_keras_model"
    assert os.listdir(tmp_path)
