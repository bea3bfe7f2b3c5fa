"""The page docs/benchmarks.md, made from results that are kept beside it as JSON.

Runs of single benchmarks replace their own results and leave the others, each with its date.
"""

import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from timing import Benchmark, Row, ratio_of, short

DOCS = pathlib.Path(__file__).parent.parent / "docs"
PAGE = DOCS / "benchmarks.md"
RESULTS = DOCS / "benchmarks.json"

FRAMEWORKS = ("trainkit", "tensorflow", "keras", "torch", "jax", "numpy")
"""Columns of the tables; what else takes part is in the last one."""
_TITLES = {
    "trainkit": "trainkit",
    "tensorflow": "TensorFlow",
    "keras": "Keras 3",
    "torch": "PyTorch",
    "jax": "JAX",
    "numpy": "NumPy by hand",
}
_AGREE = 5e-3

INTRODUCTION = """# Benchmarks

`make bench` measures trainkit beside whichever of PyTorch, TensorFlow, JAX and Keras is installed,
and `make bench ARGS="mlp cnn"` a part of it. Each contestant has a process of its own; all of them
take turns with short samples, and medians are shown. Steps that learn start from the same weights
and see the same batch; first losses are compared. These are runs on one machine: run them on yours.
trainkit was installed where there is a C compiler, so its eager path is compiled.

This page is written by `python benchmarks/run.py --write-docs`, from results that are kept in
`benchmarks.json` beside it.
"""

TABLE_TEXT = """The best mode of each framework, named in brackets. The last column is trainkit's
time by that of its best peer (NumPy by hand is no peer but a limit): below 1, trainkit is faster.
"""


TEXTS = {
    "bench_conditions": """CPU seconds of a process that trains a convolutional network for MNIST in
batches of 128, by `fit`. The last column is the time by that of the first line, where nothing is
missing and what has been compiled is on the disk.
""",
    "bench_ops": """Processor time on one thread of calls one by one, without a graph, on matrices
of float32.
""",
    "bench_runs": """What `fit(run=...)` adds to a step: processor time of the journal's lines and
digests, by that of the steps. Checkpoints are apart: a hundredth of the time by default.
""",
}
"""What is said above the table of a file."""

BELOW = {"bench_ops": "slower_operations.md"}
"""Texts that stand below it, written by hand: files beside this one."""


def framework_of(name: str) -> str:
    """The column that a contestant stands in; empty for one without a column."""
    first = name.partition(" ")[0].partition("-")[0]
    return first if first in FRAMEWORKS else ""


def disagreements(firsts: Mapping[str, float]) -> list[str]:
    """Contestants whose first loss is another than trainkit's, as lines of text."""
    ours = next((v for name, v in firsts.items() if framework_of(name) == "trainkit"), None)
    if ours is None:
        return []
    return [
        f"{name} begins with {value:.6g} where trainkit has {ours:.6g}"
        for name, value in firsts.items()
        if not abs(value - ours) <= _AGREE * max(abs(ours), 1e-6)
    ]


# ------------------------------------------------------------------ results


def kept() -> dict[str, Any]:
    """The results so far, by file and benchmark."""
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return found


def keep(file: str, benchmark: Benchmark, rows: list[Row], condition: str = "") -> None:
    """Put the results of a benchmark, in a condition of the machine, in place of its former ones.

    Args:
        file: that the benchmark stands in.
        benchmark: what was done.
        rows: the results.
        condition: in words, empty for a machine that does nothing else.
    """
    results = kept()
    results.setdefault(f"{file}: {condition}" if condition else file, {})[benchmark.name] = {
        "unit": benchmark.unit,
        "rate": benchmark.rate,
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "apart": dict(benchmark.apart),
        "rows": {row.name: {"median": row.median, "seconds": list(row.seconds)} for row in rows},
    }
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


def machine() -> str:
    """Processor, cores, memory, Python and NumPy."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{_processor()}, {cores} cores, {memory:.0f} GiB, {platform.system()}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}"
    )


def _processor() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


# TensorFlow comes under two names.
_VERSION = """
import importlib.metadata as found
try:
    print(found.version({name!r}))
except found.PackageNotFoundError:
    print(found.version({name!r} + "-cpu"))
"""


def versions(where: Mapping[str, str]) -> str:
    """Versions of the frameworks that are installed, each in its own Python, as text."""
    found = []
    for name in ("tensorflow", "keras", "torch", "jax"):
        python = where.get(name, where.get(f"{name}-jax", sys.executable))
        command = [python, "-c", _VERSION.format(name=name)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            found.append(f"{_TITLES[name].removesuffix(' 3')} {done.stdout.strip()}")
    return ", ".join(found)


# ------------------------------------------------------------------ the page


def write_page(peers: str) -> None:
    """Make the page anew from all results; `peers` names the frameworks with their versions."""
    results = kept()
    parts = [INTRODUCTION]
    if "bench_workloads" in results:
        parts += ["## Whole pieces of work\n", TABLE_TEXT, _table(results["bench_workloads"])]
    for file in sorted(results.keys() - {"bench_workloads"}):
        title = file.removeprefix("bench_").replace("_", " ")
        text = [TEXTS[name] for name in [file.partition(":")[0]] if name in TEXTS]
        parts += [f"## {title[:1].upper()}{title[1:]}\n", *text, _table(results[file])]
        if file in BELOW:
            parts.append((pathlib.Path(__file__).parent / BELOW[file]).read_text(encoding="utf-8"))
    parts.append(_places(results, peers))
    PAGE.write_text("\n".join(parts))


def _table(results: dict[str, Any]) -> str:
    """Benchmarks as rows, frameworks as columns."""
    columns = [
        name
        for name in FRAMEWORKS
        if any(framework_of(row) == name for found in results.values() for row in found["rows"])
    ]
    others = any(not framework_of(row) for found in results.values() for row in found["rows"])
    head = ["", *[_TITLES[name] for name in columns], *(["others"] if others else []), "ratio"]
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    for benchmark, kept_result in results.items():
        for name, found in _cases(benchmark, kept_result):
            cells = [_cell(found, column) for column in columns]
            more = [_others(found)] if others else []
            lines.append([f"{name} ({found['unit']})", *cells, *more, _ratio(found)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _cases(name: str, found: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A line's name and results: of the benchmark, and of each case of it that stands apart.

    A case has the contestants of other frameworks and one of the framework that it is about. Where
    there are no others, what is usual is its measure.
    """
    apart = {row: words for row, words in found.get("apart", {}).items() if row in found["rows"]}
    rows = {row: value for row, value in found["rows"].items() if row not in apart}
    yield name, {**found, "rows": rows}
    for case, words in apart.items():
        others = {row: v for row, v in rows.items() if framework_of(row) != framework_of(case)}
        alone = {} if others else {"usual": rows}
        rows_of_case = {framework_of(case): found["rows"][case], **others}
        yield f"{name}, {words}", {**found, "rows": rows_of_case, **alone}


def _best(found: dict[str, Any], framework: str) -> str:
    """The name of a framework's fastest contestant; empty if it has none."""
    own = [name for name in found["rows"] if framework_of(name) == framework]
    pick = max if found["rate"] else min
    return pick(own, key=lambda name: found["rows"][name]["median"]) if own else ""


def _cell(found: dict[str, Any], framework: str) -> str:
    name = _best(found, framework)
    if not name:
        return ""
    mode = name.removeprefix(framework).lstrip("- ")
    return short(found["rows"][name]["median"]) + (f" ({mode})" if mode else "")


def _others(found: dict[str, Any]) -> str:
    own = [name for name in found["rows"] if not framework_of(name)]
    return ", ".join(f"{name} {short(found['rows'][name]['median'])}" for name in own)


def _ratio(found: dict[str, Any]) -> str:
    """Trainkit's best time by that of the best peer, or by the usual one."""
    ours = _best(found, "trainkit")
    for usual in found.get("usual", {}).values():
        return f"{ratio_of(found['rows'][ours]['seconds'], usual['seconds']):.2f}"
    peers = [_best(found, name) for name in FRAMEWORKS if name not in ("trainkit", "numpy")]
    times = {name: found["rows"][name]["seconds"] for name in (ours, *peers) if name}
    if not ours or len(times) < 2:
        return ""
    ratios = [ratio_of(times[ours], times[name]) for name in times if name != ours]
    return f"{max(ratios):.2f}"


def _places(results: dict[str, Any], peers: str) -> str:
    """Where and when the results were had."""
    dates: dict[str, list[str]] = {}
    for found in results.values():
        for one in found.values():
            dates.setdefault(one["machine"], []).append(one["date"])
    lines = [
        f"- {place}, {min(days)}" + (f" to {max(days)}" if max(days) != min(days) else "")
        for place, days in sorted(dates.items())
    ]
    beside = f", beside {peers}" if peers else ""
    return f"Measured{beside}, on\n\n" + "\n".join(lines) + "\n"
