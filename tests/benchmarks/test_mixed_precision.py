"""Steps in 16-bit floats beside those in float32."""

import numpy as np
import pytest

import trainkit as tk


@pytest.fixture
def mixed_precision(bench_modules):
    return bench_modules("mixed_precision")


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_a_step_trains_under_its_policy(mixed_precision, policy):
    step = mixed_precision.prepare("tanh", policy, inference=False)
    assert tk.mixed_precision.global_policy().name == "float32"
    losses = [float(step()) for _ in range(20)]
    assert losses[-1] < losses[0]


def test_predictions_are_made_in_the_policy_and_given_in_float32(mixed_precision):
    wide, short = (
        mixed_precision.prepare("tanh", policy, inference=True)().numpy()
        for policy in ("float32", "mixed_float16")
    )
    assert short.dtype == wide.dtype == np.float32
    assert 0 < np.abs(short - wide).max() < 0.01


def test_ratios_are_those_of_neighbours(mixed_precision, monkeypatch):
    ticks = iter(range(10_000))
    monkeypatch.setattr(mixed_precision.time, "process_time", lambda: next(ticks) / 100)

    def thrice():
        next(ticks), next(ticks)

    base, others = mixed_precision.ratios([lambda: None, thrice], seconds=0)
    assert base > 0
    assert others[0] > 1
