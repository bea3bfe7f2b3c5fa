"""Runs the benchmarks of this folder: `python benchmarks/run.py [NAME ...]`.

Each contestant that can be imported takes part, in a process of its own: trainkit, and torch,
tensorflow, jax and keras where there is one. Names choose files or benchmarks by parts of their
names, so the whole can be run in pieces: `run.py mlp cnn --write-docs`. A peer that is installed in
another Python is told by TRAINKIT_BENCH_PYTHONS, such as
`torch=/a/bin/python,tensorflow=/b/bin/python,keras=/a/bin/python`.
"""

import argparse
import contextlib
import functools
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

FOLDER = pathlib.Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

import conditions  # noqa: E402  found through the line before
import report  # noqa: E402
from contestant import load  # noqa: E402
from processes import Absent, Failed, Process, Remote, pythons  # noqa: E402
from timing import Benchmark, Row, interleaved, table  # noqa: E402


class Session:
    """One run of the command.

    Args:
        options: of the command line.
        where: the Python of each framework that has one of its own.
    """

    def __init__(self, options: Any, where: dict[str, str]) -> None:
        self.options, self.where = options, where
        self.shared: dict[tuple[pathlib.Path, str], Process] = {}
        self.firsts: dict[str, float] = {}
        self.peers = report.versions(where) if options.write_docs else ""

    def rows(
        self, path: pathlib.Path, number: int, benchmark: Benchmark, shared: bool
    ) -> list[Row]:
        """The results of one benchmark."""
        self.firsts = {}
        slow = set() if self.options.all else getattr(load(path), "SLOW", set())
        names = [n for n in benchmark.contestants if self._wanted(n) and n not in slow]
        prepared = {
            name: functools.partial(self._prepared, path, number, name, shared) for name in names
        }
        return interleaved(benchmark, prepared, self.options.rounds)

    def _wanted(self, name: str) -> bool:
        """Whether a contestant was asked for; trainkit always is, as the others' measure."""
        asked = self.options.frameworks
        words = (name, name.partition(" ")[0])
        return not asked or words[1] == "trainkit" or any(w in asked for w in words)

    def _prepared(self, path: pathlib.Path, number: int, name: str, shared: bool) -> Remote | None:
        process = self._process(path, name, shared)
        try:
            ready = Remote(process, number, self.options.seconds, self.options.warm_seconds, shared)
        except (Absent, Failed) as error:
            if isinstance(error, Failed):
                print(f"  {name} can't take part: {error}", file=sys.stderr)
            if not shared:
                process.end()
            return None
        if ready.first is not None:
            self.firsts[name] = ready.first
        return ready

    def _process(self, path: pathlib.Path, name: str, shared: bool) -> Process:
        if not shared:
            return Process(path, name, self.where)
        if (path, name) not in self.shared:
            self.shared[path, name] = Process(path, name, self.where)
        return self.shared[path, name]

    def end(self) -> None:
        """End the processes that serve several benchmarks."""
        for process in self.shared.values():
            process.end()
        self.shared.clear()


def chosen(words: list[str], folder: pathlib.Path) -> Iterator[tuple[pathlib.Path, int, Any, bool]]:
    """File, number, benchmark, and whether the file's benchmarks share processes."""
    for path in sorted(folder.glob("bench_*.py")):
        module = load(path)
        for number, benchmark in enumerate(module.BENCHMARKS):
            name = f"{path.stem} {benchmark.name}"
            if not words or any(word in name for word in words):
                yield path, number, benchmark, getattr(module, "SHARED_PROCESS", False)


def main(arguments: list[str] | None = None, folder: pathlib.Path = FOLDER) -> int:
    """Run the benchmarks whose file or name contains one of the words given, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", help="parts of the names of files or benchmarks")
    parser.add_argument("--rounds", type=int, default=9, help="samples of each contestant")
    parser.add_argument("--seconds", type=float, default=0.1, help="length of a sample")
    parser.add_argument("--warm-seconds", type=float, default=1.0, help="run before it is measured")
    parser.add_argument("--frameworks", default="", help="peers, such as 'torch tuned,jax'")
    parser.add_argument(
        "--all", action="store_true", help="also modes that are slow, or slow to start"
    )
    parser.add_argument(
        "--busy", action="store_true", help="beside a process on each core that computes"
    )
    parser.add_argument(
        "--quota", type=float, default=0, metavar="CORES", help="with so much time, such as 0.5"
    )
    parser.add_argument("--list", action="store_true", help="print the names and do nothing")
    parser.add_argument(
        "--write-docs", action="store_true", help=f"put the results into {report.PAGE.name}"
    )
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.seconds < 0 or options.warm_seconds < 0:
        parser.error("--rounds is at least 1, and --seconds and --warm-seconds at least 0")
    if options.quota < 0:
        parser.error("--quota is a number of cores, such as 0.5")
    options.frameworks = [name.strip() for name in options.frameworks.split(",") if name.strip()]
    try:
        session = Session(options, pythons())
    except ValueError as error:
        parser.error(str(error))
    found = list(chosen(options.words, folder))
    if not found:
        parser.error(f"no benchmark is named like {' or '.join(options.words) or 'bench_*.py'}")
    if options.list:
        print("\n".join(f"{path.stem} {benchmark.name}" for path, _, benchmark, _ in found))
        return 0
    try:
        with _conditions(options):
            try:
                _run(session, found)
            finally:
                session.end()
    except conditions.Refused as error:
        parser.error(str(error))
    return 0


@contextlib.contextmanager
def _conditions(options: argparse.Namespace) -> Iterator[None]:
    """What the machine is to be like."""
    with contextlib.ExitStack() as stack:
        if options.busy:  # they don't share the time of the contestants
            stack.enter_context(conditions.busy())
        if options.quota:
            stack.enter_context(conditions.quota(options.quota))
        yield


def _condition(options: argparse.Namespace) -> str:
    """In words what the machine is like, for the page."""
    busy = ["beside a busy process on each core"] if options.busy else []
    quota = [f"with {options.quota:g} of a core's time"] if options.quota else []
    return ", ".join(busy + quota)


def _run(session: Session, found: list[Any]) -> None:
    for path, number, benchmark, shared in found:
        rows = session.rows(path, number, benchmark, shared)
        print(table(benchmark, rows), flush=True)
        by_chance = benchmark.name in getattr(load(path), "CHANCE", set())
        for line in [] if by_chance else report.disagreements(session.firsts):
            print(f"  {line}", flush=True)
        if session.options.write_docs and rows:
            report.keep(path.stem, benchmark, rows, _condition(session.options))
            report.write_page(session.peers)


if __name__ == "__main__":
    sys.exit(main())
