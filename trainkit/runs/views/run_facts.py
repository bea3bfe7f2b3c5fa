"""How a run ended, how far it came and what it reached, as plain values."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainkit.core.files.local_paths import local_path
from trainkit.journal.lines import FILE, number_of

if TYPE_CHECKING:
    from trainkit.runs.journaled_run import JournaledRun

_RECENT = 50
_MOST_RUNS = 10_000
_DEEPEST = 4


def ending(run: JournaledRun) -> str:
    """How a run ended.

    Returns:
        `"finished"`, `"stopped"` by a callback, `"interrupted"` by a signal, `"failed"`,
        `"running"`, or `"killed"` where the journal has no end and its process is gone.
    """
    status = run.status
    if status != "open":
        return status
    return "running" if run.is_alive else "killed"


def ending_text(facts: dict[str, Any]) -> str:
    """The end of a run in words, with where it went on after an end before that."""
    restarts = facts["resumed_after"]
    if not restarts:
        return str(facts["ending"])
    steps = ", ".join(map(str, restarts[-3:]))
    return f"{facts['ending']}, went on after step {steps}"


def run_facts(run: JournaledRun) -> dict[str, Any]:
    """What is said of a run in a table, ready for JSON but for NaN and infinity.

    Returns:
        `folder`, `id`, `started`, `ending`, `error`, `resumed_after`, `epochs`, `epochs_planned`,
        `steps`, `steps_planned`, `seconds`, `waited`, `steps_per_second` of the last ones, `loss`
        of the last step, `rate`, `logs` of the last epoch, `best` as a value and its epoch by
        name, `parent`, `problems`.
    """
    steps, epochs = run.steps, epoch_logs(run)
    ends = run.journal.records_of("end")
    rates = [step.rate for step in steps if step.rate is not None]
    recent = [step.seconds for step in steps[-_RECENT:]]
    planned = _epochs_planned(run)
    batches = _part(run, "data").get("batches")
    is_known = type(batches) is int and 0 < batches < 1 << 53
    parent = _part(run, "parent")
    return {
        "folder": str(run.folder),
        "id": run.id,
        "started": str(run.header.get("started", ""))[:19],
        "ending": ending(run),
        "error": str(ends[-1]["error"]) if ends and "error" in ends[-1] else None,
        "resumed_after": [
            record["n"]
            for record in run.journal.records_of("resume")
            if type(record.get("n")) is int
        ],
        "epochs": len(epochs),
        "epochs_planned": planned,
        "steps": run.last_step,
        "steps_planned": planned * batches if is_known and planned and batches else None,
        "seconds": sum(step.seconds for step in steps),
        "waited": sum(step.waited for step in steps),
        "steps_per_second": len(recent) / sum(recent) if sum(recent) > 0 else None,
        "loss": steps[-1].loss if steps else None,
        "rate": rates[-1] if rates else None,
        "logs": epochs[-1][2] if epochs else {},
        "best": _best(epochs),
        "parent": {key: parent[key] for key in ("folder", "step") if key in parent} or None,
        "problems": run.journal.problems(),
    }


def _part(run: JournaledRun, name: str) -> dict[str, Any]:
    """A field of the header that is a dict; an empty one where it is something else."""
    value = run.header.get(name)
    return value if isinstance(value, dict) else {}


def _epochs_planned(run: JournaledRun) -> int | None:
    planned = _part(run, "fit").get("epochs")
    return planned if type(planned) is int and 0 < planned < 1 << 31 else None


def epoch_logs(run: JournaledRun) -> list[tuple[int, int, dict[str, float]]]:
    """The ends of epochs: steps done, number of the epoch from 0, and its numbers by name."""
    ends: list[tuple[int, int, dict[str, float]]] = []
    for record in run.epochs:
        step, epoch, logs = record.get("n"), record.get("epoch"), record.get("logs")
        if type(step) is not int or type(epoch) is not int or not isinstance(logs, dict):
            continue
        values = {str(name): number_of(value) for name, value in logs.items()}
        ends.append((step, epoch, {name: x for name, x in values.items() if x is not None}))
    return ends


def is_better_small(name: str) -> bool:
    """Whether less of a metric is better, as its name says: losses and errors."""
    words = ("loss", "error", "mse", "mae", "rmse", "perplexity", "divergence", "deviance")
    return any(word in name.lower() for word in words)


def _best(epochs: list[tuple[int, int, dict[str, float]]]) -> dict[str, tuple[float, int]]:
    """The best value of each number of the validation, with its epoch."""
    best: dict[str, tuple[float, int]] = {}
    for _, epoch, logs in epochs:
        for name, value in logs.items():
            if not name.startswith("val_") or not math.isfinite(value):
                continue
            sign = 1 if is_better_small(name) else -1
            if name not in best or sign * value < sign * best[name][0]:
                best[name] = (value, epoch)
    return best


def run_folders(folder: str | os.PathLike[str]) -> list[Path]:
    """The folders of runs at and below a folder, links not followed.

    Raises:
        FileNotFoundError: there is no such folder.
    """
    top = Path(local_path(folder))
    if not top.is_dir():
        raise FileNotFoundError(f"there is no folder {str(top)!r}")
    runs: list[Path] = []
    pending = [(top, 0)]
    while pending and len(runs) < _MOST_RUNS:
        path, depth = pending.pop()
        if (path / FILE).is_file():
            runs.append(path)
        elif depth < _DEEPEST:
            with os.scandir(path) as entries:
                below = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
            pending += [(path / name, depth + 1) for name in reversed(below)]
    return runs
