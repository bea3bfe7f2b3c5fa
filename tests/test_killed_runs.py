"""Examples that are killed at random batches and go on in a new process end with the same bits."""

import os
import pathlib
import random
import signal
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
EPOCHS = 2
BATCHES = {"mlp": 45, "cnn": 23}  # in an epoch
RUNS = {"mlp": 4, "cnn": 3}

# Runs the example and kills the process after so many batches, before the run is stored.
KILLED = """
import os, runpy, signal, sys
import trainkit as tk

left = int(sys.argv.pop(2))
save = tk.callbacks.BackupAndRestore.on_train_batch_end

def kill_or_save(self, batch, logs=None):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    save(self, batch, logs)

tk.callbacks.BackupAndRestore.on_train_batch_end = kill_or_save
del sys.argv[0]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def start(folder, model, save_every, *more, kill_at=None):
    """Run `mnist.py` in `folder`, to its end or until it is killed."""
    example = str(ROOT / "examples" / "mnist.py")
    head = [example] if kill_at is None else ["-c", KILLED, example, str(kill_at)]
    options = ["--data", "digits", "--model", model, "--epochs", str(EPOCHS), "--seed", "5"]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, *head, *options, "--save-every", str(save_every), *more],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done


def arrays_in(path):
    """All arrays of an HDF5 file by path, as bytes with their types."""
    h5py = pytest.importorskip("h5py")
    found = {}

    def take(name, item):
        if isinstance(item, h5py.Dataset):
            found[name] = item[()]

    with h5py.File(path) as file:
        file.visititems(take)
    return found


def results(folder):
    """The weights at the end, and everything of the run that was stored last."""
    stored = folder / "checkpoints"
    number = max(int(path.name.removeprefix("run-")) for path in stored.glob("run-[0-9]*"))
    run = {
        f"run/{name}": value
        for name, value in arrays_in(stored / f"run-{number}").items()
        if not name.startswith("kernels/") and name != "save_counter"
    }
    return {**arrays_in(stored / "model.weights.h5"), **run}


@pytest.mark.slow
@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_an_example_killed_at_random_batches_ends_with_the_same_bits(tmp_path, model):
    pytest.importorskip("sklearn")
    rng = random.Random(f"kill {model}")
    save_every = 4
    (tmp_path / "whole").mkdir()
    assert start(tmp_path / "whole", model, save_every).returncode == 0
    expected = results(tmp_path / "whole")
    assert len(expected) > 12
    for number in range(RUNS[model]):
        folder = tmp_path / str(number)
        folder.mkdir()
        first = rng.randrange(1, EPOCHS * BATCHES[model])
        killed = start(folder, model, save_every, kill_at=first)
        assert killed.returncode == -signal.SIGKILL, f"not killed after batch {first}"
        assert not (folder / "checkpoints" / "model.weights.h5").exists()
        if number == RUNS[model] - 1:  # a second kill, of the run that goes on
            second = start(folder, model, save_every, "--resume", kill_at=2)
            assert second.returncode == -signal.SIGKILL
        assert start(folder, model, save_every, "--resume").returncode == 0
        actual = results(folder)
        assert actual.keys() == expected.keys()
        wrong = [name for name in expected if not np.array_equal(actual[name], expected[name])]
        assert not wrong, f"killed after batch {first}: {wrong} differ"
