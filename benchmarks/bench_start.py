"""From the start of a process to the end of 100 steps of Keras's convolutional network for MNIST.

Each sample is a process of its own. `cold` finds an empty cache of compiled code; the others find
what processes before them have left.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from timing import Benchmark

FOLDER = pathlib.Path(__file__).parent
PROGRAM = FOLDER / "workloads" / "first_steps.py"


class Start:
    """Runs the program; `measured` gives its seconds from start to end.

    Args:
        framework: as the program knows it.
        cold: whether each run finds an empty cache.
    """

    fresh = True

    def __init__(self, framework: str, cold: bool = False) -> None:
        self._framework, self._cold = framework, cold
        if not cold:  # so that it can take part, and finds its files in memory
            self._run(os.environ.copy())

    def __call__(self) -> float:
        """One run, whose time is not the result."""
        return self.measured()

    def measured(self) -> float:
        """Seconds of one run."""
        if not self._cold:
            return self._run(os.environ.copy())
        with tempfile.TemporaryDirectory() as empty:
            return self._run({**os.environ, "TRAINKIT_CACHE": empty})

    def _run(self, environment: dict[str, str]) -> float:
        start = time.perf_counter()
        run(self._framework, environment)
        return time.perf_counter() - start


def run(framework: str, environment: Mapping[str, str], count: int = 1) -> None:
    """Run the program to its end, or several at a time.

    Args:
        framework: as the program knows it.
        environment: of the processes; the package of this folder is found without it.
        count: of processes.

    Raises:
        ImportError: the framework is not installed.
        RuntimeError: a program failed.
    """
    path = [str(FOLDER.parent), environment.get("PYTHONPATH", "")]
    own = {**environment, "PYTHONPATH": os.pathsep.join(filter(None, path))}
    command = [sys.executable, str(PROGRAM), framework]
    pipe: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, env=own, **pipe) for _ in range(count)]
    told = [process.communicate() for process in processes]
    for process, (out, err) in zip(processes, told, strict=True):
        if process.returncode == 3:
            raise ImportError(out.strip())
        if process.returncode:
            raise RuntimeError(err[-500:])


def _trainkit() -> Any:
    return Start("trainkit")


def _cold() -> Any:
    return Start("trainkit", cold=True)


def _keras() -> Any:
    return Start("tensorflow")


def _jax() -> Any:
    return Start("jax")


def _torch() -> Any:
    return Start("torch")


CHANCE = {"100 steps from the start"}
BENCHMARKS = [
    Benchmark(
        "100 steps from the start",
        "s",
        1.0,
        {
            "trainkit": _trainkit,
            "trainkit cold": _cold,
            "keras-tensorflow": _keras,
            "keras-jax": _jax,
            "torch": _torch,
        },
        rounds=5,
        apart={"trainkit cold": "with an empty cache"},
    )
]
