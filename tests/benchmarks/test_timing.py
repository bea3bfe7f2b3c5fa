"""Contestants take turns, and what the numbers mean."""

import importlib.util
import pathlib
import sys

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def timing(bench_modules):
    return bench_modules("timing")


class Runner:
    """Takes the same time for each sample, and says who was sampled."""

    def __init__(self, name, seconds, log):
        self.name, self.seconds, self.log, self.closed = name, seconds, log, False

    def sample(self):
        self.log.append(self.name)
        return self.seconds

    def close(self):
        self.closed = True


def made(log, **seconds):
    runners = {name: Runner(name, s, log) for name, s in seconds.items()}
    return runners, {name: lambda r=r: r for name, r in runners.items()}


def test_results_are_medians_and_ratios_to_the_first(timing):
    _, prepared = made([], ours=0.001, theirs=0.004)
    per_step, rate = (
        timing.interleaved(timing.Benchmark("x", "us", scale, {}, rate), prepared, rounds=5)
        for scale, rate in ((1e6, False), (20, True))
    )
    assert [row.name for row in per_step] == ["ours", "theirs"]
    assert [row.median for row in per_step] == pytest.approx([1000, 4000])
    assert [row.best for row in rate] == pytest.approx([20_000, 5000])
    assert [row.ratio for row in per_step] == pytest.approx([1, 4])
    assert [row.ratio for row in rate] == pytest.approx([1, 4])
    assert per_step[1].seconds == (0.004,) * 5


def test_contestants_take_turns_forwards_and_backwards(timing):
    log = []
    runners, prepared = made(log, a=1.0, b=1.0, c=1.0)
    timing.interleaved(timing.Benchmark("x", "s", 1, {}), prepared, rounds=3)
    assert "".join(log) == "abc" + "cba" + "abc"
    assert all(runner.closed for runner in runners.values())


def test_each_alone_where_that_is_asked_for(timing):
    log = []
    runners, prepared = made(log, a=1.0, b=2.0)

    def late():
        assert runners["a"].closed
        return runners["b"]

    benchmark = timing.Benchmark("x", "s", 1, {}, alone=True)
    rows = timing.interleaved(benchmark, {"a": prepared["a"], "b": late}, rounds=2)
    assert "".join(log) == "aabb"
    assert [row.median for row in rows] == [1.0, 2.0]


def test_one_that_is_left_out_has_no_row(timing):
    _, prepared = made([], ours=0.001)
    rows = timing.interleaved(
        timing.Benchmark("x", "s", 1, {}), {**prepared, "absent": lambda: None}, rounds=1
    )
    assert [row.name for row in rows] == ["ours"]


def test_the_others_are_closed_when_one_fails(timing):
    runners, prepared = made([], ours=0.001)

    def failing():
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        timing.interleaved(
            timing.Benchmark("x", "s", 1, {}), {**prepared, "broken": failing}, rounds=1
        )
    assert runners["ours"].closed


def test_work_that_a_step_does_several_times_counts_once(timing):
    _, prepared = made([], ours=1.0, many=10.0)
    benchmark = timing.Benchmark("x", "s", 1, {}, calls={"many": 20})
    assert [row.median for row in timing.interleaved(benchmark, prepared, 1)] == [1.0, 0.5]


def test_the_table_shows_who_is_slower(timing):
    benchmark = timing.Benchmark("2x2 add", "ns/op", 1, {})
    text = timing.table(
        benchmark, [timing.Row("ours", 900, 850, 1), timing.Row("torch", 1800, 1700, 2)]
    )
    assert text.splitlines()[0] == "2x2 add (ns/op, less is better)"
    assert "2.00 x the time of ours" in text


FILES = sorted(path for path in FOLDER.glob("bench_*.py") if path.stem != "bench_conditions")
"""Without one whose contestants take minutes; test_bench_conditions.py gives them less to do."""


def _with_less_to_do(module, monkeypatch):
    """The module, whose work is done once here: small arrays, few steps."""
    if module.__name__ == "bench_checkpoint":
        arrays = module.arrays
        monkeypatch.setattr(module, "arrays", lambda size, layers: arrays(min(size, 64), layers))
    elif module.__name__ == "bench_runs":
        share = module.JournalShare
        monkeypatch.setattr(module, "WARM_STEPS", 5)
        monkeypatch.setattr(
            module, "JournalShare", lambda width, batch, steps, folder: share(16, 8, 20, folder)
        )
    return module


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_benchmark_runs_for_one_round(bench_modules, monkeypatch, path):
    contestant = bench_modules("contestant")
    for benchmark in _with_less_to_do(contestant.load(path), monkeypatch).BENCHMARKS:
        own = [name for name in benchmark.contestants if name.startswith("trainkit")]
        assert own or benchmark.name == "memcpy", f"{benchmark.name} has no trainkit"
        for name in own:
            ready = contestant.Prepared(benchmark.contestants[name], 0.0, 0.0)
            assert ready.sample() > 0
            ready.close()
    assert "timing" in sys.modules
    assert importlib.util.find_spec("timing")
