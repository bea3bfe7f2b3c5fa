"""Interleaved timing: contestants take turns, so a change in the machine's speed meets all alike.

A file `bench_NAME.py` in this folder holds a list `BENCHMARKS`; `run.py` finds and runs them:

    BENCHMARKS = [Benchmark("2x2 add", "ns/op", 1e9 / 1000, {"trainkit": ours, "torch": theirs})]

Each contestant is a function that prepares the work and returns the step to be timed, or a
generator that yields the step and cleans up afterwards. One that raises ImportError is left out, so
a peer takes part wherever it is installed. The contestant that others are compared with is first.
"""

import inspect
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

Step = Callable[[], object]
Contestant = Callable[[], Step | Iterator[Step]]


@dataclass(frozen=True)
class Benchmark:
    """One piece of work, done by several contestants.

    Attributes:
        name: what is done.
        unit: unit of the results.
        scale: the seconds of one step, times this, are the result; for a rate (`rate`), this
            divided by the seconds is.
        contestants: by name; the others are compared with the first one.
        rate: whether the result is an amount a second, of which more is better.
    """

    name: str
    unit: str
    scale: float
    contestants: Mapping[str, Contestant]
    rate: bool = False

    def result(self, seconds: float) -> float:
        """What `seconds` a step come to in the unit of this benchmark."""
        return self.scale / seconds if self.rate else self.scale * seconds


@dataclass(frozen=True)
class Row:
    """Result of one contestant.

    Attributes:
        name: name of the contestant.
        median: median over the rounds, in the unit of the benchmark.
        best: the best round.
        ratio: time of this one by the time of the first one, median over the rounds: above 1,
            this one is slower.
    """

    name: str
    median: float
    best: float
    ratio: float


def run(benchmark: Benchmark, rounds: int, sample_seconds: float) -> list[Row]:
    """Time the contestants that are installed, in turns, forwards and backwards.

    Args:
        benchmark: the work.
        rounds: samples taken of each contestant.
        sample_seconds: about how long one sample lasts; each has at least one step.
    """
    with ExitStack() as stack:
        steps = {}
        for name, contestant in benchmark.contestants.items():
            try:
                steps[name] = stack.enter_context(_prepared(contestant))
            except ImportError:
                continue
        counts = {name: _steps_in(step, sample_seconds) for name, step in steps.items()}
        samples: dict[str, list[float]] = {name: [] for name in steps}
        for number in range(rounds):
            for name in list(steps) if number % 2 == 0 else reversed(steps):
                samples[name].append(_seconds(steps[name], counts[name]) / counts[name])
    first = next(iter(samples.values()), [])
    return [_row(benchmark, name, own, first) for name, own in samples.items()]


def _row(benchmark: Benchmark, name: str, own: list[float], first: list[float]) -> Row:
    ratios = [mine / theirs for mine, theirs in zip(own, first, strict=True)]
    return Row(
        name,
        benchmark.result(statistics.median(own)),
        benchmark.result(min(own)),
        statistics.median(ratios),
    )


@contextmanager
def _prepared(contestant: Contestant) -> Iterator[Step]:
    """The step of a contestant; its generator, if it is one, is run to its end on leaving."""
    if not inspect.isgeneratorfunction(contestant):
        yield contestant()
        return
    with contextmanager(contestant)() as step:
        yield step


def _steps_in(step: Step, sample_seconds: float) -> int:
    """How many steps last about `sample_seconds`; finding out warms the step up."""
    step()
    count = 1
    while (seconds := _seconds(step, count)) < sample_seconds / 2:
        growth = sample_seconds / seconds if seconds > 0 else 10
        count *= max(2, min(10, int(growth)))
    return max(1, round(count * sample_seconds / seconds)) if sample_seconds else 1


def _seconds(step: Step, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        step()
    return time.perf_counter() - start


def table(benchmark: Benchmark, rows: list[Row]) -> str:
    """The results as lines of text."""
    first = rows[0].name if rows else ""
    lines = [
        f"{benchmark.name} ({benchmark.unit}, {'more' if benchmark.rate else 'less'} is better)"
    ]
    for row in rows:
        against = "" if row.name == first else f"  {row.ratio:6.2f} x the time of {first}"
        median, best = _short(row.median), _short(row.best)
        lines.append(f"  {row.name:<24}{median:>14}  best {best:>12}{against}")
    return "\n".join(lines)


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"
