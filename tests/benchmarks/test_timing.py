"""The benchmark runner: who takes part, in which order, and what the numbers mean."""

import importlib.util
import itertools
import pathlib
import sys

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def runner(monkeypatch):
    """The runner's module; what it puts on the path is taken away again."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "timing", raising=False)
    spec = importlib.util.spec_from_file_location("benchmark_run", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop("timing", None)


@pytest.fixture
def timing(runner):
    return sys.modules["timing"]


@pytest.fixture
def clock(monkeypatch, timing):
    """A clock that steps move on by hand."""
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])

    def taking(seconds, log=None, name=None):
        def step():
            now[0] += seconds
            if log is not None:
                log.append(name)

        return lambda: step

    return taking


def test_results_are_medians_and_ratios_to_the_first(timing, clock):
    made = {"ours": clock(0.001), "theirs": clock(0.004)}
    per_step, rate = (
        timing.run(timing.Benchmark("x", "us", scale, made, rate), rounds=5, sample_seconds=0.1)
        for scale, rate in ((1e6, False), (20, True))
    )
    assert [row.name for row in per_step] == ["ours", "theirs"]
    assert [row.median for row in per_step] == pytest.approx([1000, 4000])
    assert [row.best for row in rate] == pytest.approx([20_000, 5000])
    assert [row.ratio for row in per_step] == pytest.approx([1, 4])
    assert [row.ratio for row in rate] == pytest.approx([1, 4])


def test_contestants_take_turns_forwards_and_backwards(timing, clock):
    log = []
    made = {name: clock(1.0, log, name) for name in "abc"}
    timing.run(timing.Benchmark("x", "s", 1, made), rounds=3, sample_seconds=1.0)
    measured = "".join(name for name, _ in itertools.groupby(log[6:]))  # after warming up
    assert measured == "abcba" + "bc"


def test_a_sample_has_as_many_steps_as_its_length_asks_for(timing, clock):
    log = []
    timing.run(timing.Benchmark("x", "s", 1, {"a": clock(0.001, log, "a")}), 1, 0.25)
    before = len(log)
    timing.run(timing.Benchmark("x", "s", 1, {"a": clock(0.001, log, "a")}), 2, 0.25)
    assert len(log) - 2 * before == 250


def test_a_peer_that_is_not_installed_is_left_out(timing, clock):
    def absent():
        import a_framework_nobody_has

        return a_framework_nobody_has.step

    made = {"ours": clock(0.001), "absent": absent}
    rows = timing.run(timing.Benchmark("x", "s", 1, made), rounds=1, sample_seconds=0.0)
    assert [row.name for row in rows] == ["ours"]


def test_a_generator_cleans_up(timing):
    done = []

    def contestant():
        yield lambda: None
        done.append(True)

    timing.run(timing.Benchmark("x", "s", 1, {"a": contestant}), rounds=1, sample_seconds=0.0)
    assert done == [True]


def test_the_table_shows_who_is_slower(timing):
    benchmark = timing.Benchmark("2x2 add", "ns/op", 1, {})
    text = timing.table(
        benchmark, [timing.Row("ours", 900, 850, 1), timing.Row("torch", 1800, 1700, 2)]
    )
    assert text.splitlines()[0] == "2x2 add (ns/op, less is better)"
    assert "2.00 x the time of ours" in text


FILE = """
from timing import Benchmark
BENCHMARKS = [Benchmark(name, "s", 1, {"trainkit": lambda: int}) for name in ("one", "two")]
"""


def test_files_are_found_and_chosen_by_name(runner, tmp_path, capsys):
    (tmp_path / "bench_a.py").write_text(FILE)
    (tmp_path / "other.py").write_text("raise AssertionError")
    assert runner.main(["--rounds", "1", "--seconds", "0"], tmp_path) == 0
    out = capsys.readouterr().out
    assert out.count("trainkit") == 2
    assert runner.main(["two", "--rounds", "1", "--seconds", "0"], tmp_path) == 0
    out = capsys.readouterr().out
    assert "two" in out
    assert "one" not in out


def test_a_name_that_nothing_has_is_an_error(runner, tmp_path, capsys):
    (tmp_path / "bench_a.py").write_text(FILE)
    with pytest.raises(SystemExit):
        runner.main(["absent"], tmp_path)
    assert "no benchmark is named like absent" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(FOLDER.glob("bench_*.py")), ids=lambda path: path.stem)
def test_each_benchmark_runs_for_one_round(runner, timing, path):
    for benchmark in runner.load(path).BENCHMARKS:
        own = {name: make for name, make in benchmark.contestants.items() if name == "trainkit"}
        assert own, f"{benchmark.name} has no contestant named trainkit"
        only = timing.Benchmark(benchmark.name, benchmark.unit, benchmark.scale, own)
        assert timing.run(only, rounds=1, sample_seconds=0.0)
