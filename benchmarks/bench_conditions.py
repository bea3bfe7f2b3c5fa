"""100 steps from the start, where something is missing or several processes begin at once.

Each sample is a process of its own, or several at a time, with an empty folder; what a condition
changes are variables of its environment, and lines that its Python runs before anything else.
Results are CPU seconds of a process, user and system, which depend little on what else runs.
"""

import functools
import os
import pathlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field

from bench_start import run
from timing import Benchmark


@dataclass(frozen=True)
class Condition:
    """What is otherwise than where all is there and works.

    Attributes:
        environment: variables, in which `{empty}` stands for an empty folder and `{nowhere}` for
            one that can't be made; `None` for one that is not set.
        begins: what Python runs when it starts.
        processes: that run at the same time.
    """

    environment: Mapping[str, str | None] = field(default_factory=dict)
    begins: str = ""
    processes: int = 1


def without(*modules: str) -> str:
    """Lines after which modules can't be imported."""
    return f"import sys\nsys.modules.update(dict.fromkeys({modules!r}))\n"


def limited(what: str, number: int) -> str:
    """Lines that limit what a process may have; a file that would be too large is an error."""
    return f"import resource\nresource.setrlimit(resource.{what}, ({number}, {number}))\n"


EMPTY = {"TRAINKIT_CACHE": "{empty}"}
ALONE = {**EMPTY, "TRAINKIT_KERNELS": "0"}
NO_HOME = {"HOME": "{nowhere}", "TRAINKIT_CACHE": None, "XDG_CACHE_HOME": None}
MEBIBYTES = 2**20

MISSING = {
    "with an empty cache": Condition(EMPTY),
    "2 processes that fill one empty cache": Condition(EMPTY, processes=2),
    "without Numba, with an empty cache": Condition(EMPTY, without("numba")),
    "without Numba and llvmlite": Condition(EMPTY, without("numba", "llvmlite")),
    "no C compiler, with an empty cache": Condition({**EMPTY, "PATH": "{empty}", "CC": None}),
    "`HOME` unset": Condition({"HOME": None}),
    "home read-only": Condition(NO_HOME),
    "home and temporary folders read-only": Condition(
        {**NO_HOME, "TMPDIR": "{nowhere}"},
        "import tempfile\ntempfile._candidate_tempdir_list = lambda: []\n",
    ),
    "no room for files, with an empty cache": Condition(EMPTY, limited("RLIMIT_FSIZE", 0)),
    "400 MiB of memory": Condition(begins=limited("RLIMIT_DATA", 400 * MEBIBYTES)),
    "`TRAINKIT_NATIVE=0`": Condition({"TRAINKIT_NATIVE": "0"}),
}
SLOW_TO_RUN = {
    "8 processes that fill one empty cache": Condition(EMPTY, processes=8),
    "`TRAINKIT_JIT=0`": Condition({**EMPTY, "TRAINKIT_JIT": "0"}),
    "`TRAINKIT_KERNELS=0`, with an empty cache": Condition(ALONE),
    "`TRAINKIT_KERNELS=0`, without Numba": Condition(ALONE, without("numba")),
}
"""These take tens of seconds, so they can be run by themselves."""


class Start:
    """Runs the program in a condition; `measured` gives CPU seconds of a process."""

    fresh = True

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        if condition.environment.get("TRAINKIT_CACHE") is None:  # what can be kept is there then
            self()

    def __call__(self) -> float:
        """One run, whose time is not the result."""
        return self.measured()

    def measured(self) -> float:
        """CPU seconds of a process in one run."""
        with tempfile.TemporaryDirectory() as folder:
            environment = _environment(self._condition, pathlib.Path(folder))
            before = _spent()
            run("trainkit", environment, self._condition.processes)
            return (_spent() - before) / self._condition.processes


def _environment(condition: Condition, folder: pathlib.Path) -> dict[str, str]:
    """That of a run, whose files are in a folder of its own."""
    names = {"empty": str(folder / "empty"), "nowhere": str(folder / "file" / "below")}
    (folder / "empty").mkdir()
    (folder / "file").write_text("")
    (folder / "sitecustomize.py").write_text(condition.begins)
    changed = {name: text and text.format(**names) for name, text in condition.environment.items()}
    found = {**os.environ, **changed}
    path = [str(folder), os.environ.get("PYTHONPATH", "")]
    found["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    return {name: text for name, text in found.items() if text is not None}


def _spent() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _benchmark(name: str, conditions: Mapping[str, Condition]) -> Benchmark:
    makers = {f"trainkit {w}": functools.partial(Start, made) for w, made in conditions.items()}
    return Benchmark(
        name,
        "CPU s",
        1.0,
        {"trainkit": functools.partial(Start, Condition()), **makers},
        rounds=3,
        apart={f"trainkit {words}": words for words in conditions},
    )


BENCHMARKS = [
    _benchmark("100 steps from the start", MISSING),
    _benchmark("100 slow steps", SLOW_TO_RUN),
]
