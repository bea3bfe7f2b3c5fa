"""Each example runs; a killed run that goes on ends with the same weights."""

import functools
import importlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.distribution.processes import needs_mpi

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"


def command(name, *args):
    return [sys.executable, str(EXAMPLES / name), *args]


def environment():
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def run(folder, name, *args):
    """The output of an example that ended well."""
    done = subprocess.run(
        command(name, *args),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def weights(path):
    h5py = pytest.importorskip("h5py")
    found = {}

    def take(name, item):
        if isinstance(item, h5py.Dataset):
            found[name] = item[()]

    with h5py.File(path) as file:
        file.visititems(take)
    return found


def test_every_example_has_a_test():
    tested = {"mnist.py", "mnist_pictures.py", "custom_loop.py", "linear_regression.py", *SHORT}
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested
    listed = (EXAMPLES / "README.md").read_text()
    assert {name for name in tested if f"`{name}`" in listed} == tested


# Arguments that make an example short, and what it says at its end.
SHORT = {
    "text_lstm.py": (("--epochs", "1", "--samples", "200"), "praise: the film is not good"),
    "transformer.py": (("--epochs", "1", "--samples", "384"), "of 64 new rows are sorted"),
    "autoencoder.py": (("--epochs", "1", "--samples", "120"), "mean squared error:"),
    "two_inputs.py": (("--epochs", "1", "--samples", "300"), "(by the rule  1294), wanted"),
    "vae.py": (("--epochs", "1", "--samples", "200"), "from points on a circle around 0:"),
    "gan.py": (("--steps", "8", "--batch-size", "16"), "radius of made points:"),
    "augmentation.py": (("--epochs", "1", "--samples", "40"), "augmented    right on"),
    "time_series.py": (("--epochs", "1", "--hours", "700"), ": the model"),
}


@pytest.mark.parametrize("name", SHORT)
def test_a_tutorial_runs_from_end_to_end_without_a_warning(tmp_path, name):
    args, ending = SHORT[name]
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", *command(name, *args)[1:]],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert ending in done.stdout
    assert not list(tmp_path.iterdir())  # a tutorial leaves nothing behind


def test_linear_regression(tmp_path):
    out = run(tmp_path, "linear_regression.py", "--steps", "2")
    assert "before: loss" in out
    assert "after: loss" in out


def test_custom_loop(tmp_path):
    pytest.importorskip("sklearn")
    out = run(tmp_path, "custom_loop.py", "--steps", "2")
    assert "of 359 digits never seen" in out


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_mnist(tmp_path, model):
    pytest.importorskip("sklearn")
    args = ("--data", "digits", "--model", model, "--batch-size", "719")
    out = run(tmp_path, "mnist.py", *args, "--epochs", "1")  # two steps
    assert "data: digits" in out
    assert "of 359 digits never seen" in out
    assert list((tmp_path / "logs" / "train").glob("events.out.tfevents.*"))
    assert (tmp_path / "checkpoints" / "model.weights.h5").exists()
    more = run(tmp_path, "mnist.py", *args, "--epochs", "2", "--resume")
    assert "Epoch 2/2" in more
    assert "Epoch 1/2" not in more


def losses(out):
    """What the lines of the epochs say behind their times, which has no times in it."""
    lines = [line for line in out.splitlines() if line.startswith("Epoch")]
    return [[float(x) for x in re.findall(r": ([0-9.]+)", line)] for line in lines]


@needs_mpi
def test_mnist_by_two_processes(tmp_path):
    pytest.importorskip("sklearn")
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    args = ("--data", "digits", "--batch-size", "500", "--epochs", "2")
    alone = run(one, "mnist.py", *args)
    out = run(two, "mnist.py", *args, "--processes", "2")
    assert out.count("data: digits") == out.count("of 359 digits never seen") == 1
    assert len(losses(out)) == 2
    np.testing.assert_allclose(losses(out), losses(alone), atol=2e-4)
    expected = weights(one / "checkpoints" / "model.weights.h5")
    for name, value in weights(two / "checkpoints" / "model.weights.h5").items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-3, atol=1e-5, err_msg=name)


def test_processes_without_mpi_are_an_error(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    mnist = importlib.import_module("mnist")
    monkeypatch.delenv("PMI_RANK", raising=False)
    monkeypatch.setattr(mnist.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"pip install mpi4py mpich"):
        mnist.start_processes(2)


ARGS = ("--data", "digits", "--epochs", "8", "--seed", "3")


def killed_run(folder, args, files):
    """Run the example until its folder has so many stored runs, then kill it."""
    process = subprocess.Popen(
        command("mnist.py", *args),
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    stored = folder / "checkpoints"
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        numbers = [int(p.name.removeprefix("run-")) for p in stored.glob("run-[0-9]*")]
        if numbers and max(numbers) >= files:
            os.kill(process.pid, signal.SIGKILL)
            break
    assert process.wait() == -signal.SIGKILL, "the run ended before it could be killed"


@pytest.fixture(scope="module")
def whole_runs(tmp_path_factory):
    """The folder of a run that nothing ended early, by its arguments."""
    pytest.importorskip("sklearn")

    @functools.cache
    def whole_run(*args):
        folder = tmp_path_factory.mktemp("whole")
        run(folder, "mnist.py", *args)
        return folder

    return whole_run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "files"), [((), 2), (("--save-every", "7"), 5), (("--save-every", "7"), 11)]
)
def test_a_killed_run_that_goes_on_ends_with_the_same_weights(tmp_path, whole_runs, extra, files):
    whole, broken = whole_runs(*ARGS, *extra), tmp_path / "broken"
    broken.mkdir()
    killed_run(broken, (*ARGS, *extra), files)
    assert not (broken / "checkpoints" / "model.weights.h5").exists()
    out = run(broken, "mnist.py", *ARGS, *extra, "--resume")
    assert ("Epoch 1/8" in out) == (files == 5)  # five files of seven batches are within it
    expected = weights(whole / "checkpoints" / "model.weights.h5")
    found = weights(broken / "checkpoints" / "model.weights.h5")
    assert found.keys() == expected.keys()
    assert len(found) > 4
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.slow
def test_a_killed_custom_loop_ends_as_if_nothing_had_been(tmp_path):
    pytest.importorskip("sklearn")
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    expected = run(whole, "custom_loop.py", "--epochs", "6")
    run(broken, "custom_loop.py", "--epochs", "6", "--steps", "140")
    out = run(broken, "custom_loop.py", "--epochs", "6")
    assert "going on from" in out
    rest = expected[expected.index("step 180") :]
    assert out[out.index("step 180") :] == rest
    assert "right on" in rest
