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
from typing import Any

from timing import Benchmark

PROGRAM = pathlib.Path(__file__).parent / "workloads" / "first_steps.py"


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
        root = str(PROGRAM.parents[2])
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [root, environment.get("PYTHONPATH")])
        )
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, str(PROGRAM), self._framework],
            env=environment,
            capture_output=True,
            text=True,
        )
        seconds = time.perf_counter() - start
        if done.returncode == 3:
            raise ImportError(done.stdout.strip())
        if done.returncode:
            raise RuntimeError(done.stderr[-500:])
        return seconds


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
