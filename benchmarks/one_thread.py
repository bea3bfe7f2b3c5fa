"""Single operations on one thread beside PyTorch's: `python benchmarks/one_thread.py [WORD ...]`.

Each call of `op_calls` is made by each in a process of its own, in turns, and what counts is the
processor's time. Printed is a line of Markdown for each: trainkit's time by PyTorch's, median over
the rounds, on small, middle and large matrices. Words choose calls by parts of their names, and
`--gradients` adds what a tape's gradient takes. `--peers torch,tensorflow` compares with whichever
of them is faster at a call; one that lacks it is left out. Where a peer is installed in another
Python, TRAINKIT_BENCH_PYTHONS says so, as for `run.py`.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

FOLDER = pathlib.Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

import op_calls  # noqa: E402  found through the line before
import op_operands  # noqa: E402
from processes import environment, pythons  # noqa: E402

SIZES = (10, 512, 2048)
Step = Callable[[], Any]
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def step_of(framework: str, call: op_operands.Call, size: int, gradients: bool) -> Step:
    """What is timed."""
    arrays = [op_operands.operand(letter, size) for letter in call.operands]
    if framework == "torch":
        import torch

        torch.set_num_threads(1)
        # A view of transposed memory stays one: rows of such an operand are to lie scattered.
        tensors = [torch.from_numpy(array.copy(order="K")) for array in arrays]
        return (
            _torch_step(torch, call, tensors) if gradients else lambda: call.theirs(torch, *tensors)
        )
    if framework == "tensorflow":
        import tensorflow as tk

        tk.config.threading.set_intra_op_parallelism_threads(1)
        tk.config.threading.set_inter_op_parallelism_threads(1)
    else:
        import trainkit as tk
    ours = [
        tk.transpose(tk.constant(array.T)) if letter.isupper() else tk.constant(array)
        for letter, array in zip(call.operands, arrays, strict=True)
    ]
    return _tape_step(tk, call, ours) if gradients else lambda: call.ours(tk, *ours)


def _tape_step(tk: Any, call: op_operands.Call, tensors: list[Any]) -> Step:
    sources = [x for x in tensors if x.dtype.is_floating]

    def forward() -> Any:
        with tk.GradientTape() as tape:
            for x in sources:
                tape.watch(x)
            y = call.ours(tk, *tensors)
        return tape, y

    y = forward()[1]
    upstream = [tk.ones_like(v) for v in y] if isinstance(y, list | tuple) else tk.ones_like(y)

    def step() -> Any:
        tape, y = forward()
        return tape.gradient(y, sources, output_gradients=upstream)

    return step


def _torch_step(torch: Any, call: op_operands.Call, tensors: list[Any]) -> Step:
    sources = [x.requires_grad_() for x in tensors if x.is_floating_point()]

    def outputs() -> list[Any]:
        y = call.theirs(torch, *tensors)
        return [v for v in (y if isinstance(y, list | tuple) else [y]) if v.is_floating_point()]

    upstream = [torch.ones_like(v) for v in outputs()]
    return lambda: torch.autograd.grad(outputs(), sources, upstream)


def serve(framework: str) -> None:
    """Prepare and time what the lines of the standard input say; a line of JSON answers each."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a framework prints is no answer
    by_name = {call.name: call for call in op_calls.CALLS}
    step: Callable[[], Any] = dict
    count = 1
    for line in sys.stdin:
        question = json.loads(line)
        if "name" in question:
            name, size, gradients = question["name"], question["size"], question["gradients"]
            try:
                step = step_of(framework, by_name[name], size, gradients)
                _seconds(step, 50 if size < 100 else 3)
            except Exception as error:  # a peer may lack a function, a dtype or a gradient
                answers.write(json.dumps({"lacking": repr(error)}) + "\n")
                continue
            count = 1
            while (spent := _seconds(step, count)) < question["seconds"] / 2:
                count *= 2
            count = max(1, round(count * question["seconds"] / spent))
            answers.write("{}\n")
        else:
            _seconds(step, max(1, count // 5))
            answers.write(json.dumps({"seconds": _seconds(step, count) / count}) + "\n")


def _seconds(step: Callable[[], Any], count: int) -> float:
    start = time.process_time()
    for _ in range(count):
        step()
    return time.process_time() - start


class Contestant:
    """One framework's process."""

    def __init__(self, framework: str) -> None:
        python = pythons().get(framework, sys.executable)
        self._process = subprocess.Popen(
            [python, __file__, "--serve", framework],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**environment(), **dict.fromkeys(_ONE_THREAD, "1")},
        )

    def ask(self, **question: Any) -> Any:
        """The answer to one line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{question}: the process ended with {self._process.wait()}")
        return json.loads(line)

    def end(self) -> None:
        """Let the process end."""
        self._process.communicate()


def ratio(
    contestants: list[Contestant], name: str, size: int, gradients: bool, options: Any
) -> float:
    """The first one's time by that of the fastest other, median over the rounds; or NaN."""
    question = {"name": name, "size": size, "gradients": gradients, "seconds": options.seconds}
    answers = {contestant: contestant.ask(**question) for contestant in contestants}
    if lacking := answers[contestants[0]].get("lacking"):
        raise RuntimeError(f"{question}: {lacking}")
    able = [contestant for contestant in contestants if "lacking" not in answers[contestant]]
    if len(able) == 1:
        return math.nan
    ratios = []
    for number in range(options.rounds):
        order = able if number % 2 == 0 else able[::-1]
        times = {contestant: contestant.ask()["seconds"] for contestant in order}
        ratios.append([times[able[0]] / times[peer] for peer in able[1:]])
    return max(statistics.median(by_peer) for by_peer in zip(*ratios, strict=True))


def main(arguments: list[str] | None = None) -> None:
    """Print a table of the calls whose names have one of the words, or of all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", help="parts of the names of calls")
    parser.add_argument("--gradients", action="store_true", help="of some calls, with gradients")
    parser.add_argument("--peers", default="torch", help="such as torch,tensorflow")
    parser.add_argument("--rounds", type=int, default=5, help="samples of each")
    parser.add_argument("--seconds", type=float, default=0.01, help="length of a sample")
    parser.add_argument("--serve", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        serve(options.serve)
        return
    contestants = [Contestant(name) for name in ("trainkit", *options.peers.split(","))]
    print("| call |", " | ".join(f"{n} x {n}" for n in SIZES), "|")
    print("| --- |", " | ".join("---:" for _ in SIZES), "|")
    for call in op_calls.CALLS:
        if options.words and not any(word in call.name for word in options.words):
            continue
        if options.gradients and call.name not in op_calls.DIFFERENTIATED:
            continue
        cells = [
            f"{ratio(contestants, call.name, n, options.gradients, options):.2f}"
            if n <= call.largest
            else ""
            for n in SIZES
        ]
        print("|", call.name, "|", " | ".join(cells), "|", flush=True)
    for contestant in contestants:
        contestant.end()


if __name__ == "__main__":
    main()
