import math

import numpy as np
import pytest

import trainkit as tk
from trainkit.graph.tracing.function import function
from trainkit.optimizers import schedules as s

# schedule, step -> rate, worked out by hand
CASES = [
    (s.ExponentialDecay(0.1, 10, 0.5), {0: 0.1, 10: 0.05, 15: 0.1 * 0.5**1.5}),
    (s.ExponentialDecay(0.1, 10, 0.5, staircase=True), {9: 0.1, 10: 0.05, 19: 0.05, 20: 0.025}),
    (s.InverseTimeDecay(0.1, 5, 0.5), {0: 0.1, 5: 0.1 / 1.5, 20: 0.1 / 3}),
    (s.InverseTimeDecay(0.1, 5, 0.5, staircase=True), {4: 0.1, 9: 0.1 / 1.5}),
    (
        s.PiecewiseConstantDecay([3, 10], [1.0, 0.5, 0.1]),
        {0: 1.0, 3: 1.0, 4: 0.5, 10: 0.5, 11: 0.1},
    ),
    (s.PolynomialDecay(0.1, 10, 0.01), {0: 0.1, 5: 0.055, 10: 0.01, 50: 0.01}),
    (s.PolynomialDecay(0.1, 4, 0.02, power=2.0), {2: 0.08 * 0.25 + 0.02}),
    (s.PolynomialDecay(0.1, 4, 0.02, cycle=True), {0: 0.1, 4: 0.02, 6: 0.04, 8: 0.02}),
    (s.CosineDecay(0.1, 10, alpha=0.2), {0: 0.1, 5: 0.06, 10: 0.02, 99: 0.02}),
    (
        s.CosineDecay(0.1, 10, warmup_target=0.5, warmup_steps=4),
        {0: 0.1, 2: 0.3, 4: 0.5, 9: 0.25, 14: 0.0},
    ),
    (s.CosineDecayRestarts(0.1, 4), {0: 0.1, 2: 0.05, 4: 0.1, 8: 0.05, 12: 0.1}),
    (
        s.CosineDecayRestarts(0.1, 4, t_mul=1.0, m_mul=0.5, alpha=0.1),
        {0: 0.1, 4: 0.1 * (0.9 * 0.5 + 0.1), 6: 0.1 * (0.9 * 0.25 + 0.1)},
    ),
]


@pytest.mark.parametrize(("schedule", "rates"), CASES, ids=lambda x: getattr(x, "name", ""))
def test_rates(schedule, rates):
    traced = function(schedule)
    for step, rate in rates.items():
        got = schedule(step)
        assert got.dtype == "float32"
        assert got.shape == ()
        assert math.isclose(float(got), rate, rel_tol=1e-5, abs_tol=1e-8)
        for given in (tk.convert_to_tensor(step), tk.Variable(step), np.int64(step)):
            assert float(schedule(given)) == float(got)
        assert float(traced(tk.convert_to_tensor(step))) == float(got)


@pytest.mark.parametrize(("schedule", "rates"), CASES, ids=lambda x: getattr(x, "name", ""))
def test_a_config_makes_an_equal_schedule(schedule, rates):
    again = s.deserialize(s.serialize(schedule))
    assert type(again) is type(schedule)
    for step, _ in rates.items():
        assert float(again(step)) == float(schedule(step))


def test_every_schedule_has_a_case():
    assert {type(schedule) for schedule, _ in CASES} == set(s.SCHEDULES.named.values())


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: s.ExponentialDecay(0.1, 0, 0.5), "decay_steps"),
        (lambda: s.PiecewiseConstantDecay([1], [1.0]), "1 boundaries need 2 values"),
        (lambda: s.PiecewiseConstantDecay([2, 1], [1.0, 2.0, 3.0]), "must increase"),
        (lambda: s.CosineDecay(0.1, 5, warmup_steps=3), "needs a warmup_target"),
        (lambda: s.CosineDecay(0.1, 5, warmup_target=0.5, warmup_steps=-1), "warmup_steps"),
        (lambda: s.CosineDecayRestarts(0.1, 5, t_mul=0.5), "t_mul"),
        (lambda: s.deserialize({"class_name": "NoSuch", "config": {}}), "NoSuch"),
    ],
)
def test_bad_settings_are_errors(make, word):
    with pytest.raises(ValueError, match=word):
        make()


def test_a_schedule_without_call_says_so():
    with pytest.raises(NotImplementedError, match="__call__"):
        s.LearningRateSchedule()(0)
    with pytest.raises(NotImplementedError, match="get_config"):
        s.LearningRateSchedule().get_config()


def test_a_warm_up_of_no_steps_starts_at_its_target():
    schedule = s.CosineDecay(0.01, 10, warmup_target=0.1, warmup_steps=0)
    plain = s.CosineDecay(0.1, 10)
    for step in (0, 3, 10, 20):
        assert float(schedule(step)) == float(plain(step))


def test_names_of_schedules_are_those_of_keras():
    assert s.PiecewiseConstantDecay([1], [1.0, 0.5]).get_config()["name"] == "PiecewiseConstant"
    assert s.CosineDecayRestarts(0.1, 4).get_config()["name"] == "SGDRDecay"
