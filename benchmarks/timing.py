"""Interleaved timing: contestants take turns, so a change in the machine's speed meets all alike.

A file `bench_NAME.py` in this folder holds a list `BENCHMARKS`; `run.py` finds and runs them:

    BENCHMARKS = [Benchmark("2x2 add", "ns/op", 1e9 / 1000, {"trainkit": ours, "torch": theirs})]

Each contestant is a function that prepares the work and returns the step to be timed, or a
generator that yields the step and cleans up afterwards. One that raises ImportError is left out, so
a peer takes part wherever it is installed. Every contestant has a process of its own
(`contestant.py`), so that no framework's threads get in the way of another's. A step with a method
`measured` is asked for a number instead of being timed: the ratio of two times taken in turns, for
instance, is told from noise only within one process. One whose attribute `fresh` is true starts
from nothing each time, so it is neither warmed up nor repeated within a sample. A file of many
small benchmarks may say `SHARED_PROCESS = True`: then a contestant's process serves all of them.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

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
        contestants: by name; the first word is the framework. The others are compared with the
            first one.
        rate: whether the result is an amount a second, of which more is better.
        calls: for contestants that do the work several times in a step, how often.
        alone: one contestant takes all its samples before the next begins: for work that goes on
            after a step, as a disk's does.
        rounds: the most samples of each contestant, where they take long; 0 for any number.
        apart: contestants that are no other mode but another case, such as an empty cache, with
            words for it: the page has a line for each.
    """

    name: str
    unit: str
    scale: float
    contestants: Mapping[str, Contestant]
    rate: bool = False
    calls: Mapping[str, int] = field(default_factory=dict)
    alone: bool = False
    rounds: int = 0
    apart: Mapping[str, str] = field(default_factory=dict)

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
        seconds: of a step, round by round.
    """

    name: str
    median: float
    best: float
    ratio: float
    seconds: tuple[float, ...] = ()


class Runner(Protocol):
    """A contestant that is ready: takes samples, and can be told to go."""

    def sample(self) -> float:
        """Seconds of one step, the mean over a sample."""

    def close(self) -> None:
        """Clean up."""


def interleaved(
    benchmark: Benchmark, prepared: Mapping[str, Callable[[], Runner | None]], rounds: int
) -> list[Row]:
    """Time contestants in turns, forwards and backwards; or each alone, where that is asked for.

    Args:
        benchmark: the work.
        prepared: by name, what makes a contestant ready; it gives `None` for one that is left out.
        rounds: samples taken of each, or fewer where the benchmark says so.
    """
    rounds = min(rounds, benchmark.rounds or rounds)
    if benchmark.alone:
        samples: dict[str, list[float]] = {}
        for name, prepare in prepared.items():
            samples |= _in_turns(benchmark, {name: prepare}, rounds)
        return rows_of(benchmark, samples)
    return rows_of(benchmark, _in_turns(benchmark, prepared, rounds))


def _in_turns(
    benchmark: Benchmark, prepared: Mapping[str, Callable[[], Runner | None]], rounds: int
) -> dict[str, list[float]]:
    """Seconds of a step of each contestant, round by round."""
    runners: dict[str, Runner] = {}
    samples: dict[str, list[float]] = {}
    try:
        for name, prepare in prepared.items():
            runner = prepare()
            if runner is not None:
                runners[name], samples[name] = runner, []
        for number in range(rounds):
            for name in list(runners) if number % 2 == 0 else reversed(runners):
                samples[name].append(runners[name].sample() / benchmark.calls.get(name, 1))
    finally:
        for runner in runners.values():
            runner.close()
    return samples


def rows_of(benchmark: Benchmark, samples: Mapping[str, list[float]]) -> list[Row]:
    """Samples as results; those of the first contestant are the measure."""
    first = next(iter(samples.values()), [])
    return [_row(benchmark, name, own, first) for name, own in samples.items()]


def _row(benchmark: Benchmark, name: str, own: list[float], first: list[float]) -> Row:
    return Row(
        name,
        benchmark.result(statistics.median(own)),
        benchmark.result(min(own)),
        ratio_of(own, first),
        tuple(own),
    )


def ratio_of(own: list[float] | tuple[float, ...], other: list[float] | tuple[float, ...]) -> float:
    """One's time by another's, median over the rounds."""
    return statistics.median(mine / theirs for mine, theirs in zip(own, other, strict=True))


def table(benchmark: Benchmark, rows: list[Row]) -> str:
    """The results as lines of text."""
    first = rows[0].name if rows else ""
    lines = [
        f"{benchmark.name} ({benchmark.unit}, {'more' if benchmark.rate else 'less'} is better)"
    ]
    for row in rows:
        against = "" if row.name == first else f"  {row.ratio:6.2f} x the time of {first}"
        median, best = short(row.median), short(row.best)
        lines.append(f"  {row.name:<24}{median:>14}  best {best:>12}{against}")
    return "\n".join(lines)


def short(number: float) -> str:
    """A number with about four digits."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"
