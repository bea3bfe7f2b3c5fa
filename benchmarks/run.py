"""Runs the benchmarks of this folder and prints a table: `python benchmarks/run.py [NAME ...]`.

Each contestant that can be imported takes part: trainkit, and torch, tensorflow or jax where the
interpreter has them.
"""

import argparse
import importlib.util
import pathlib
import sys
from types import ModuleType

FOLDER = pathlib.Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

from timing import run, table  # noqa: E402  found through the line before


def load(path: pathlib.Path) -> ModuleType:
    """Import one file of benchmarks."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(arguments: list[str] | None = None, folder: pathlib.Path = FOLDER) -> int:
    """Run the benchmarks whose file or name contains one of the words given, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of the names of files or benchmarks")
    parser.add_argument("--rounds", type=int, default=7, help="samples of each contestant")
    parser.add_argument("--seconds", type=float, default=0.1, help="length of a sample")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.seconds < 0:
        parser.error("--rounds is at least 1 and --seconds at least 0")
    found = False
    for path in sorted(folder.glob("bench_*.py")):
        for benchmark in load(path).BENCHMARKS:
            name = f"{path.stem} {benchmark.name}"
            if options.words and not any(word in name for word in options.words):
                continue
            found = True
            print(table(benchmark, run(benchmark, options.rounds, options.seconds)), flush=True)
    if not found:
        parser.error(f"no benchmark is named like {' or '.join(options.words) or 'bench_*.py'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
