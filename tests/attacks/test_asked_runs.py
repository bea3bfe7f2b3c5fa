"""A few of the planted differences, forged runs and past steps, which are run in number by hand."""

import pytest

from tests.attacks import forged_runs, past_steps, planted_differences


@pytest.mark.slow
@pytest.mark.parametrize("kind", planted_differences.KINDS, ids=lambda kind: kind.__name__)
def test_a_planted_difference_is_named(kind, tmp_path):
    right, answer, _ = planted_differences.planted(kind, 7, str(tmp_path))
    assert right, answer


@pytest.mark.slow
def test_past_steps_have_the_bits_seen_live():
    assert past_steps.attack(1, 3, say=str) == (5, 5)


@pytest.mark.slow
def test_honest_runs_pass(tmp_path):
    assert forged_runs.honest(tmp_path / "run", 3, sample=2).passed
