"""Which numbers of trainkit depend on the machine: each a quarter and four times as large.

    python benchmarks/constants/constants.py                  the tables of docs/kernels.md
    python benchmarks/constants/constants.py CHUNK SPINS      some of their rows
    python benchmarks/constants/constants.py --list           all numbers, and of which kind each is

A number is changed in the text of a copy of the package, so that what is compiled changes, too.
Three copies have a process each, and these take turns: ratios are medians over the rounds. Rows for
one core are of the processor's time there. Those for all cores are of the processor's time and, in
brackets, of the clock's, of which a tenth of the rounds stay below: on a machine that others use,
both say little of threads that are woken too late or in vain. The first row changes nothing.
"""

import argparse
import functools
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence

FOLDER = pathlib.Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

from constant_calls import FRESH  # noqa: E402  found through the line before
from constant_kinds import kinds  # noqa: E402
from constant_numbers import changed, copy_with  # noqa: E402
from constant_rows import ROWS, Row  # noqa: E402
from processes import environment  # noqa: E402

PACKAGE = FOLDER.parents[1] / "trainkit"
FACTORS = (1.0, 0.25, 4.0)
SAMPLE_SECONDS = 0.005
MOST_SECONDS = 8.0
"""What the samples of a call may take; there are five rounds at least."""

Times = tuple[float, float]
"""Seconds of the clock, and of the processor."""
Samples = list[list[Times]]
"""Of each copy, round by round."""


class Copy:
    """The process of one copy of the package, for one call.

    Args:
        root: the folder that the copy is in.
        call: one of `constant_calls.CALLS`.
        cache: the folder for what is compiled.
        core: the only one to use, or `None` for all.
        variables: of the environment.
    """

    def __init__(
        self, root: pathlib.Path, call: str, cache: str, core: int | None, variables: dict[str, str]
    ) -> None:
        stays = None if core is None else functools.partial(os.sched_setaffinity, 0, {core})
        self._process = subprocess.Popen(
            [sys.executable, str(FOLDER / "constant_calls.py"), str(root), call],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**environment(), "TRAINKIT_CACHE": cache, **variables},
            preexec_fn=stays,
        )

    def answer(self) -> Times:
        """What it says next.

        Raises:
            RuntimeError: it has failed.
        """
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(self._process.stderr.read()[-2000:])
        times: Times = json.loads(line)
        return times

    def times(self, count: int) -> Times:
        """What so many calls take."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        return self.answer()

    def end(self) -> None:
        """End the process."""
        self._process.communicate()


def in_turns(
    roots: Sequence[pathlib.Path], call: str, rounds: int, cache: str, together: bool
) -> Samples:
    """What samples of a call take with each copy."""
    core = None if together else max(os.sched_getaffinity(0))
    copies: list[Copy] = []
    try:
        for root in roots:
            copies.append(Copy(root, call, cache, core, {"TRAINKIT_JIT": "eager"}))
        for copy in copies:
            copy.answer()  # it is warmed up
        once = max(1e-7, statistics.median(copies[0].times(1)[0] for _ in range(5)))
        count = max(1, int(SAMPLE_SECONDS / once))
        fitting = int(MOST_SECONDS / ((count + 1) * once * len(copies)))
        samples: Samples = [[] for _ in roots]
        for number in range(min(rounds, max(5, fitting))):
            order = range(len(copies))
            for i in order if number % 2 else reversed(order):
                samples[i].append(copies[i].times(count))
        return samples
    finally:
        for copy in copies:
            copy.end()


def from_nothing(roots: Sequence[pathlib.Path], call: str, rounds: int) -> Samples:
    """What processes take that find nothing compiled, one after the other."""
    samples: Samples = [[] for _ in roots]
    for _, (number, root) in itertools.product(range(rounds), enumerate(roots)):
        with tempfile.TemporaryDirectory() as cache:
            copy = Copy(root, call, cache, None, {"TRAINKIT_KERNELS": "0"})
            try:
                samples[number].append(copy.answer())
            finally:
                copy.end()
    return samples


def processor_ratios(samples: Samples) -> list[float]:
    """The processor's times of the second copy and of others by those of the first, medians."""
    first, *others = samples
    return [
        statistics.median(one[1] / two[1] for one, two in zip(own, first, strict=True))
        for own in others
    ]


def clock_ratios(samples: Samples) -> list[float]:
    """The same of the times of the clock that a tenth of the rounds stay below."""
    first, *others = [sorted(wall for wall, _ in own)[len(own) // 10] for own in samples]
    return [other / first for other in others]


def measured(row: Row, rounds: int, cache: str) -> Iterator[tuple[str, Samples]]:
    """For each call of a row what the copies take: as it is, with a quarter, with four times."""
    with tempfile.TemporaryDirectory() as place:
        roots = []
        for number, factor in enumerate(FACTORS):
            roots.append(pathlib.Path(place) / str(number))
            texts = {}
            if row.file and factor != 1:
                given = row.given[number - 1] if row.given else None
                text = (PACKAGE / row.file).read_text()
                texts[row.file] = changed(text, row.name, factor, given)
            copy_with(PACKAGE, roots[-1], texts)
        for call in row.calls:
            if call in FRESH:
                yield call, from_nothing(roots, call, max(1, rounds // 10))
            else:
                yield call, in_turns(roots, call, rounds, cache, row.together)


def line(row: Row, call: str, samples: Samples) -> str:
    """A row of a table."""
    cells = [f"{ratio:.2f}" for ratio in processor_ratios(samples)]
    if row.together or call in FRESH:
        clock = clock_ratios(samples)
        cells = [f"{cell} ({ratio:.2f})" for cell, ratio in zip(cells, clock, strict=True)]
    where = pathlib.PurePosixPath(row.file).stem
    name = f"`{row.name}` of `{where}`" if row.file else row.name
    return f"| {' | '.join([name, call, *cells])} |"


def tables(rows: Sequence[Row], rounds: int, say: Callable[[str], object]) -> None:
    """Measure rows and print the tables, those of rows for one core first."""
    heads = {
        "one core": [r for r in rows if not r.together and r.calls[0] not in FRESH],
        "all cores, processor (clock)": [r for r in rows if r.together],
        "from nothing, processor (clock)": [r for r in rows if r.calls[0] in FRESH],
    }
    with tempfile.TemporaryDirectory() as cache:
        for head, chosen in heads.items():
            if chosen:
                say(f"\n| {head} | call | a quarter | four times |\n| --- | --- | --- | --- |")
            for row in chosen:
                for call, samples in measured(row, rounds, cache):
                    say(line(row, call, samples))


def main(arguments: list[str] | None = None) -> int:
    """Print the tables, or the list."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="of the numbers to vary, by default all")
    parser.add_argument("--rounds", type=int, default=41, help="samples of each copy")
    parser.add_argument("--list", action="store_true", help="print all numbers and vary none")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds is at least 1")
    say = functools.partial(print, flush=True)
    if options.list:
        for kind, found in kinds(PACKAGE).items():
            say(f"{kind}: {sum(len(number.names) for number in found)}")
            for number in found:
                say(f"  {number.file}:{number.line} {', '.join(number.names)} = {number.text}")
        return 0
    unknown = set(options.names) - {row.name for row in ROWS}
    if unknown:
        parser.error(f"no row varies {', '.join(sorted(unknown))}")
    tables([r for r in ROWS if not options.names or r.name in options.names], options.rounds, say)
    return 0


if __name__ == "__main__":
    sys.exit(main())
