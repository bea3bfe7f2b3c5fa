"""One step in two ways: in float32 beside float64, compiled beside eagerly."""

import json

import numpy as np
import pytest

import trainkit as tk
from tests.conftest import gpu_works
from tests.runs.test_journal import fitted, train
from trainkit import ops
from trainkit.cli.main import main
from trainkit.graph.tracing.concrete import ConcreteFunction
from trainkit.runs import step_modes


@tk.keras.saving.register_keras_serializable("test_step_modes")
class Cancelling(tk.layers.Layer):
    """Adds a large number and takes it off again, or squares what is large already."""

    def __init__(self, large=1e6, **options):
        super().__init__(**options)
        self.large = large

    def call(self, x):
        shifted = ops.add(x, self.large)
        return ops.subtract(shifted, self.large)


def cancelling(**options):
    tk.keras.utils.set_random_seed(1)
    layers = [tk.layers.Dense(8), tk.layers.Dropout(0.2), Cancelling(**options), tk.layers.Dense(3)]
    model = tk.Sequential([tk.Input((4,)), *layers])
    model.compile("adam", tk.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def test_the_operation_that_loses_most_digits_is_named(tmp_path):
    fitted(tmp_path / "a", model=cancelling())
    run = tk.runs.open(tmp_path / "a")
    found = tk.runs.shadow(run, 5)
    assert (found.step, found.kind) == (5, "precision")
    assert "in layer 'sequential" in found.cause
    assert "cancelling'" in found.cause
    assert found.cause.startswith("most digits are lost by ")
    assert run.at(6).verified


def test_operations_that_lose_nothing_are_not_blamed(tmp_path):
    fitted(tmp_path / "a", model=cancelling(large=0.0))
    found = tk.runs.shadow(tk.runs.open(tmp_path / "a"), 5)
    assert "cancelling'" not in found.cause


def test_an_overflow_comes_first(tmp_path):
    model = cancelling()
    run_folder = tmp_path / "a"
    fitted(run_folder, model=model)
    state = tk.runs.open(run_folder).at(3)
    state.model.layers[0].kernel.assign(np.full((4, 8), 1e38, "f"))
    from trainkit.runs.op_trace import observe_operations

    shadows = step_modes._Shadows()
    with pytest.warns(RuntimeWarning):
        observe_operations(state.train_step, shadows.observe)
    assert any(found.overflows for found in shadows.results)


def test_compiled_steps_are_compared_with_eager_ones(tmp_path, monkeypatch):
    fitted(tmp_path / "a", model=cancelling(large=3.0))
    run, ran = tk.runs.open(tmp_path / "a"), []
    run_arrays = ConcreteFunction.run_arrays

    def noted(self, arrays):
        ran.append(self.name)
        return run_arrays(self, arrays)

    state_of = step_modes._state

    def cleared(*args):
        state = state_of(*args)
        ran.clear()  # the steps that lead there
        return state

    monkeypatch.setattr(ConcreteFunction, "run_arrays", noted)
    monkeypatch.setattr(step_modes, "_state", cleared)
    found = tk.runs.diff_modes(run, 5)
    assert ran == ["train_step"]
    assert found.kind in ("none", "compiled")
    if found.kind == "compiled":
        assert found.step == 5
        assert "other bits in" in found.cause


def test_what_can_not_be_done_alone_is_said(tmp_path, capsys):
    folder = str(tmp_path / "a")
    train(folder)
    run = tk.runs.open(folder, program=lambda: train(folder))
    with pytest.raises(RuntimeError, match="loop of its own"):
        tk.runs.shadow(run, 2)
    with pytest.raises(ValueError, match="must be 'float64'"):
        tk.runs.shadow(run, 2, "float16")
    with pytest.raises(ValueError, match="mode must be one of"):
        tk.runs.diff_modes(run, 2, "tpu")
    fitted(tmp_path / "b")
    with pytest.raises(ValueError, match="step 13 was never done"):
        tk.runs.shadow(tk.runs.open(tmp_path / "b"), 13)
    assert main(["runs", "diff", str(tmp_path / "b")]) == 1
    assert "two runs, or one with" in capsys.readouterr().err
    words = ["runs", "diff", str(tmp_path / "b"), "--shadow", "float64", "--step", "3", "--json"]
    assert main(words) == 1
    assert json.loads(capsys.readouterr().out)["kind"] == "precision"


@pytest.mark.skipif(gpu_works(), reason="there is a GPU")
def test_a_gpu_is_asked_for_in_words_where_there_is_none(tmp_path):
    fitted(tmp_path / "a")
    with pytest.raises(tk.errors.OpError, match="GPU"):
        tk.runs.diff_modes(tk.runs.open(tmp_path / "a"), 3, "gpu")


@tk.keras.saving.register_keras_serializable("test_step_modes")
class Squaring(tk.layers.Layer):
    """Squares what it is given."""

    def call(self, x):
        return ops.square(x)


def squaring():
    tk.keras.utils.set_random_seed(1)
    model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(8), tk.layers.Dropout(0.2), Squaring()])
    model.compile("adam", "mse")
    return model


@pytest.mark.parametrize("device", ["/cpu:0", "/gpu:0"])
def test_operations_of_a_step_are_compared_on_both_devices(tmp_path, any_gpu, device):
    x, y = np.ones((12, 4), "f"), np.ones((12, 8), "f")
    with tk.device(device):
        squaring().fit(x, y, 4, epochs=2, verbose=0, run=str(tmp_path / "a"))
    found = tk.runs.diff_modes(tk.runs.open(tmp_path / "a"), 5, "gpu")
    assert found.kind in ("none", "device")
    assert found.step == (None if found.kind == "none" else 5)


def test_the_operation_that_is_wrong_on_a_gpu_is_named(tmp_path, inside, monkeypatch, capsys):
    import cupy

    x, y = np.ones((12, 4), "f"), np.ones((12, 8), "f")
    with tk.device("/cpu:0"):
        squaring().fit(x, y, 4, epochs=2, verbose=0, run=str(tmp_path / "a"))
    square = cupy.square
    monkeypatch.setattr(cupy, "square", lambda *args, **options: square(*args, **options) * 2)
    assert main(["runs", "diff", str(tmp_path / "a"), "--mode", "gpu", "--step", "5"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("step 5: first to give other bits on the other device, from equal")
    first = text.splitlines()[0]
    assert "square in layer 'sequential" in first
    assert "/squaring" in first
    assert "by 1 of the largest value" in first
