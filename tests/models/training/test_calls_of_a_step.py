"""A step of `fit` stays short: a ceiling on its calls of Python functions."""

import sys
from contextlib import nullcontext

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from trainkit.core.dispatch import native
from trainkit.core.variable import WATCHERS
from trainkit.kernels.matmul import prepared_weights

BATCH = 7


class Count(tk.callbacks.Callback):
    """Counts the calls of Python functions of one batch: its data, its step and its logs."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def on_train_batch_begin(self, batch, logs=None):
        if batch == BATCH:
            sys.setprofile(self.count)
        elif batch == BATCH + 1:
            sys.setprofile(None)

    def count(self, frame, event, arg):
        self.calls += event == "call" and frame.f_code.co_filename != __file__


@pytest.mark.skipif(native.NATIVE is None, reason="without a compiler there are more")
@pytest.mark.parametrize("beside_a_gpu", [False, True])
@pytest.mark.parametrize(("eagerly", "most"), [(True, 180), (False, 115)])
def test_a_step_of_fit_calls_few_python_functions(
    eagerly, most, beside_a_gpu, monkeypatch, kernels
):
    # Laid-out weights that other models left ask for more calls while those models live.
    watchers = [*WATCHERS]
    monkeypatch.setattr(prepared_weights, "_ALL", [()])
    WATCHERS.clear()
    kernels("eager")  # without kernels NumPy takes each step of an optimizer's rule
    try:
        with stand_in.in_place() if beside_a_gpu else nullcontext(), tk.device("/cpu:0"):
            assert 0 < _calls_of_a_step(eagerly) <= most
    finally:
        WATCHERS[:] = watchers


def _calls_of_a_step(eagerly):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(640, 20)).astype("float32"), rng.integers(0, 10, 640)
    model = tk.Sequential([tk.layers.Dense(32, activation="relu"), tk.layers.Dense(10)])
    loss = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], run_eagerly=eagerly)
    model.fit(x, y, verbose=0)
    count, before = Count(), sys.getprofile()
    try:
        model.fit(x, y, verbose=0, callbacks=[count])
    finally:
        sys.setprofile(before)
    return count.calls


def test_metrics_are_looked_for_past_variables_and_gathered_parts():
    """`train_on_batch` looks for them at each step, also in networks of hundreds of layers."""
    stack = [tk.layers.Dense(2) for _ in range(40)]
    model = tk.Sequential([tk.layers.Input((2,)), *stack])
    model.compile("adam", "mse")
    model.train_on_batch(np.ones((2, 2)), np.ones((2, 2)))
    assert model.metrics == [model._loss_tracker]  # and what layers hold is gathered
    count, before = Count(), sys.getprofile()
    sys.setprofile(count.count)
    try:
        assert model.metrics == [model._loss_tracker]
    finally:
        sys.setprofile(before)
    assert 0 < count.calls <= 7 * len(stack)
