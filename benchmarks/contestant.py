"""One contestant in a process of its own: `contestant.py FILE CONTESTANT`.

It reads a line of JSON for each thing it is to do and answers with one:

    {"prepare": 3, "seconds": 0.1, "warm_seconds": 2}   make benchmark 3 of the file ready
    {"sample": true}                                    seconds of a step, the mean of a sample
    {"close": true}                                     clean up
"""

import importlib.util
import inspect
import json
import os
import pathlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

FOLDER = pathlib.Path(__file__).parent

LONGEST_COMPILE_SECONDS = 20.0


def load(path: pathlib.Path) -> ModuleType:
    """Import one file of benchmarks."""
    for folder in (str(FOLDER), str(FOLDER.parent)):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Prepared:
    """A contestant's step, warmed up.

    Args:
        contestant: makes the step.
        seconds: about how long a sample lasts; each has at least one step.
        warm_seconds: how long it runs before it is measured. What compiles in the background
            meanwhile is waited for.

    Attributes:
        first: what the first step gave, as a number; `None` where that is none.
    """

    def __init__(self, contestant: Any, seconds: float, warm_seconds: float) -> None:
        self._stack = ExitStack()
        self._step = self._stack.enter_context(_step_of(contestant))
        self.first: float | None = None
        self._count = 1
        if getattr(self._step, "fresh", False):
            return
        self.first = _number(self._step())
        self._warm_up(warm_seconds)
        self._count = self._steps_in(seconds)

    def _warm_up(self, seconds: float) -> None:
        count, spent = 1, 0.0
        while spent < seconds or (compiling() and spent < LONGEST_COMPILE_SECONDS):
            last = self._seconds(count)
            spent += last
            if last < seconds / 10:
                count *= 2

    def _steps_in(self, seconds: float) -> int:
        """How many steps last about so long, now that all is warm."""
        count = 1
        while (spent := self._seconds(count)) < seconds / 2:
            growth = seconds / spent if spent > 0 else 10
            count *= max(2, min(10, int(growth)))
        return max(1, round(count * seconds / spent)) if spent > 0 else 1

    def _seconds(self, count: int) -> float:
        step = self._step
        if hasattr(step, "measured"):  # it knows better what is to be measured
            return sum(float(step.measured()) for _ in range(count))
        start = time.perf_counter()
        for _ in range(count):
            step()
        return time.perf_counter() - start

    def sample(self) -> float:
        """Seconds of a step, the mean of a sample; a fifth of it before brings the caches back."""
        if self._count > 1:
            self._seconds(max(1, self._count // 5))
        return self._seconds(self._count) / self._count

    def close(self) -> None:
        """Let the contestant clean up."""
        self._stack.close()


@contextmanager
def _step_of(contestant: Any) -> Iterator[Callable[[], object]]:
    """The step of a contestant; its generator, if it is one, is run to its end on leaving."""
    made = contestant()
    if not inspect.isgenerator(made):
        yield made
        return
    step: Any = next(made)
    try:
        yield step
    finally:
        for _ in made:
            raise RuntimeError("a contestant yields one step")


def compiling() -> bool:
    """Whether a thread of trainkit compiles in the background."""
    names = [thread.name for thread in threading.enumerate()]
    # Not "trainkit-compiler", which waits for the compiler's process to have been idle for long.
    return any(name == "trainkit-compile" or "(_compile)" in name for name in names)


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def serve(path: str, name: str) -> None:
    """Do what the lines of the standard input say."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a framework prints is no answer
    benchmarks = load(pathlib.Path(path)).BENCHMARKS
    prepared: Prepared | None = None
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if "prepare" in asked:
                contestant = benchmarks[asked["prepare"]].contestants[name]
                prepared = Prepared(contestant, asked["seconds"], asked["warm_seconds"])
                answer: Any = {"first": prepared.first}
            elif prepared is None:
                raise RuntimeError("nothing is prepared")
            elif "sample" in asked:
                answer = {"seconds": prepared.sample()}
            else:
                prepared.close()
                prepared, answer = None, {}
        except ImportError as error:
            answer = {"absent": str(error)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    serve(*sys.argv[1:3])
