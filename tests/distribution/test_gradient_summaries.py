"""`TensorBoard(write_gradients=True)` with several replicas: the gradients of all of them."""

import json
import pathlib

import numpy as np
import pytest

import trainkit as tk
from tests.distribution import gradient_cases
from tests.distribution.processes import needs_mpi, run_program
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.threads import pools

pytest.importorskip("tensorboard")

CASES = list(gradient_cases.CASES)


@pytest.fixture(scope="module")
def of_processes(tmp_path_factory):
    """Where two processes wrote, what each of them found, and what they said in the end."""
    folder = tmp_path_factory.mktemp("of_2")
    done = run_program(2, pathlib.Path(gradient_cases.__file__), (folder,), check=False)
    ranks = [folder / f"{rank}.json" for rank in range(2)]
    assert all(path.exists() for path in ranks), done.stderr
    return folder, [json.loads(path.read_text()) for path in ranks], done


def summaries(folder):
    """Scalars of gradients and updates: lists of (step, value) by tag."""
    from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    events = EventAccumulator(str(folder / "train"), tensor_size_guidance={"tensors": 0})
    events.Reload()
    return {
        tag: [(e.step, float(make_ndarray(e.tensor_proto))) for e in events.Tensors(tag)]
        for tag in events.Tags()["tensors"]
        if tag.startswith(("gradient_norm/", "update_ratio/"))
    }


def of_one(name, folder):
    weights = gradient_cases.train(tk.distribute.get_strategy(), name, folder)
    return summaries(folder), weights


def check_alike(found, expected):
    assert sorted(found) == sorted(expected)
    assert len(found) == 8
    for tag, values in found.items():
        steps, numbers = zip(*values, strict=True)
        assert steps == tuple(step for step, _ in expected[tag])
        np.testing.assert_allclose(
            numbers, [x for _, x in expected[tag]], rtol=2e-4, atol=1e-6, err_msg=tag
        )


def check_weights(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


@needs_mpi
@pytest.mark.parametrize("name", [*CASES, "shares"])
def test_processes_write_the_gradients_of_one(of_processes, tmp_path, name):
    folder, ranks, _ = of_processes
    assert ranks[0][name] == ranks[1][name]
    expected, weights = of_one("accumulated" if name == "shares" else name, tmp_path)
    assert len(next(iter(expected.values()))) >= 2
    check_alike(summaries(folder / name), expected)
    check_weights(ranks[0][name], weights)


@needs_mpi
def test_all_processes_look_at_the_steps_that_the_first_one_chooses(of_processes):
    folder, ranks, _ = of_processes
    assert ranks[0]["clocks"] == ranks[1]["clocks"]
    lengths, found = ranks[0]["clocks"], summaries(folder / "clocks")
    for path in lengths[0]:
        norms = found[f"gradient_norm/{path}"]
        assert 2 <= len(norms) < len(lengths) // 4
        for step, norm in norms:  # plain SGD: the update is the gradient times the rate
            np.testing.assert_allclose(norm, lengths[step - 1][path] / 0.1, rtol=1e-3, atol=1e-5)


@needs_mpi
def test_a_process_without_the_callback_is_named(of_processes):
    _, _, done = of_processes
    assert done.returncode != 0
    assert (
        "rank 0: which steps TensorBoard(write_gradients=True), which all ranks need" in done.stderr
    )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("count", [2, 3])
def test_devices_write_the_gradients_of_one(tmp_path, name, count):
    strategy = tk.distribute.MirroredStrategy(["/cpu:0"] * count)
    weights = gradient_cases.train(strategy, name, tmp_path / "several")
    expected, of_weights = of_one(name, tmp_path / "one")
    check_alike(summaries(tmp_path / "several"), expected)
    check_weights(weights, of_weights)


@pytest.fixture
def virtual():
    """A strategy of three virtual replicas; what it sets for the whole process is taken back."""
    determined, mode = pools.determined(), kernel_family.mode()
    yield tk.distribute.MultiWorkerMirroredStrategy(virtual_replicas=3)
    pools.determine(determined)
    if kernel_family.mode() != mode:
        kernel_family.set_mode(mode)


@pytest.mark.parametrize("name", CASES)
def test_virtual_replicas_write_the_gradients_of_one(tmp_path, name, virtual):
    plain = gradient_cases.train(virtual, name)
    weights = gradient_cases.train(virtual, name, tmp_path / "several")
    assert weights == plain  # to the bit
    expected, of_weights = of_one(name, tmp_path / "one")
    check_alike(summaries(tmp_path / "several"), expected)
    check_weights(weights, of_weights)
