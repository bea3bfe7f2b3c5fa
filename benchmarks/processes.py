"""Contestants as processes: which Python they run in, and what is asked of them."""

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

FOLDER = pathlib.Path(__file__).parent
PYTHONS = "TRAINKIT_BENCH_PYTHONS"

# Variables that choose kernels, size pools or keep bytecode from being stored: each framework shows
# what it does by itself.
_DROPPED = (
    "GOTO_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "OPENBLAS_NUM_THREADS",
    "PYTHONDONTWRITEBYTECODE",
    "TRAINKIT_BLAS",
    "TRAINKIT_JIT",
)


def pythons(text: str | None = None) -> dict[str, str]:
    """Which Python each framework runs in, where it is not this one.

    Args:
        text: such as `"torch=/a/bin/python,tensorflow=/b/bin/python"`, by default what the
            environment variable `TRAINKIT_BENCH_PYTHONS` says.
    """
    given = os.environ.get(PYTHONS, "") if text is None else text
    pairs = [part.partition("=") for part in given.split(",") if part]
    wrong = [name for name, sign, path in pairs if not (sign and path)]
    if wrong:
        raise ValueError(f"{PYTHONS}: expected NAME=PATH, got {wrong[0]!r}")
    return {name: path for name, _, path in pairs}


def environment() -> dict[str, str]:
    """That of contestants."""
    kept = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    return {**kept, "TF_CPP_MIN_LOG_LEVEL": "2", "JAX_PLATFORMS": "cpu"}


class Absent(Exception):
    """The contestant's framework is not installed."""


class Failed(Exception):
    """The contestant could not do its work."""


class Process:
    """A contestant's process, for one benchmark or for all of a file."""

    def __init__(self, path: pathlib.Path, name: str, where: Mapping[str, str]) -> None:
        framework = name.partition(" ")[0]
        python = where.get(framework, where.get(framework.partition("-")[0], sys.executable))
        command = [python, str(FOLDER / "contestant.py"), str(path), name]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment(),
        )

    def ask(self, **what: Any) -> dict[str, Any]:
        """One answer.

        Raises:
            Absent: the framework is not installed.
            Failed: something else went wrong.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise Failed(f"the process ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "absent" in answer:
            raise Absent(answer["absent"])
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def end(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(timeout=30)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Remote:
    """A contestant that is ready in its process.

    Attributes:
        first: what its first step gave, as a number; `None` where that is none.
    """

    def __init__(
        self, process: Process, number: int, seconds: float, warm_seconds: float, shared: bool
    ) -> None:
        self._process, self._shared = process, shared
        answer = process.ask(prepare=number, seconds=seconds, warm_seconds=warm_seconds)
        self.first: float | None = answer["first"]

    def sample(self) -> float:
        """Seconds of a step."""
        return float(self._process.ask(sample=True)["seconds"])

    def close(self) -> None:
        """Clean up; a process of its own ends."""
        try:
            self._process.ask(close=True)
        finally:
            if not self._shared:
                self._process.end()
