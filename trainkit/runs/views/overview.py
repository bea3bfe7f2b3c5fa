"""Runs in a terminal: a table of several, one in detail, several side by side."""

from __future__ import annotations

from typing import Any

from trainkit.runs.journaled_run import JournaledRun
from trainkit.runs.views.curves import CurvePair, curves_of, scale_of
from trainkit.runs.views.run_facts import ending_text, run_facts
from trainkit.runs.views.terminal import COLORS, Terminal, beside
from trainkit.runs.views.text_cells import duration, number, width_of
from trainkit.runs.views.text_chart import chart

_CHART_COLUMNS = 60
_PANEL_COLUMNS = 38
_CHART_ROWS = 8
_GAP = 2
_MOST_LINES = 12
_LEAST_BEST = 20

ENDINGS = {
    "finished": "32", "running": "36", "stopped": "33", "interrupted": "33", "killed": "31",
    "failed": "31", "unreadable": "31",
}  # fmt: skip
"""The color of each ending."""


# ------------------------------------------------------------------ a table of runs


def _progress(count: Any, planned: Any) -> str:
    return f"{count}/{planned}" if planned else f"{count}"


def _validation(facts: dict[str, Any]) -> str:
    """The best number of the validation beside its loss, or the loss."""
    best = facts["best"]
    names = [name for name in best if name != "val_loss"] or list(best)
    if not names:
        return ""
    value, epoch = best[names[0]]
    return f"{names[0]} {number(value)} (epoch {epoch + 1})"


def _cells(facts: dict[str, Any]) -> dict[str, str]:
    if facts["ending"] == "unreadable":
        return {"run": facts["folder"], "ended": "unreadable", "best": facts["problems"]}
    return {
        "run": facts["folder"],
        "ended": ending_text(facts),
        "steps": _progress(facts["steps"], facts["steps_planned"]),
        "loss": number(facts["loss"]),
        "time": duration(facts["seconds"]),
        "epochs": _progress(facts["epochs"], facts["epochs_planned"]),
        "started": facts["started"].replace("T", " ")[:16],
        "best": _validation(facts),
    }


def table_lines(listed: list[dict[str, Any]], terminal: Terminal) -> list[str]:
    """A line for each run, the most telling columns first where there is no room for all."""
    rows = [_cells(facts) for facts in listed]
    widths: dict[str, int] = {}
    room = terminal.columns
    for name in ("run", "ended", "steps", "loss", "time", "epochs", "started", "best"):
        longest = max(width_of(terminal.clip(row.get(name, ""), 200)) for row in rows)
        width = max(longest, len(name))
        if name == "run":
            width = min(width, max(terminal.columns // 3, 12))
        if name in ("ended", "best"):
            width = min(width, max(room, 0), 44)
        if width > room or width < (_LEAST_BEST if name == "best" else len(name)):
            break
        widths[name] = width
        room -= width + _GAP
    right = ("steps", "loss", "time", "epochs")
    head = (" " * _GAP).join(terminal.pad(n, w, right=n in right) for n, w in widths.items())
    lines = [terminal.color(head.rstrip(), "1")]
    for row in rows:
        cells = []
        for name, width in widths.items():
            text = row.get(name, "")
            if name == "run" and width_of(text) > width:  # the end of a path tells more
                text = _end_of(text, width, terminal)
            cell = terminal.pad(text, width, right=name in right)
            code = ENDINGS.get(row["ended"].split(",")[0], "") if name == "ended" else ""
            cells.append(terminal.color(cell, code))
        lines.append((" " * _GAP).join(cells).rstrip())
    return lines


def _end_of(text: str, width: int, terminal: Terminal) -> str:
    while text and width_of(terminal.clip(text, 4096)) > width - 1:
        text = text[max(len(text) - width, 0) :] if len(text) > 2 * width else text[1:]
    return terminal.more + text


# ------------------------------------------------------------------ one run


def show_lines(run: JournaledRun, terminal: Terminal) -> list[str]:
    """What is known of a run, and its curves."""
    facts = run_facts(run)
    lines = [terminal.clip(line, terminal.columns) for line in _head(run, facts)]
    pairs, last = curves_of(run), max(run.last_step, 1)
    if not pairs:
        return [*lines, "no step was done"]
    columns = max(terminal.columns // _CHART_COLUMNS, 1)
    columns = min(columns, len(pairs))
    width = (terminal.columns - _GAP * (columns - 1)) // columns
    panels = [
        chart(
            pair,
            scale_of([pair.training, pair.validation]),
            last,
            terminal,
            width,
            _CHART_ROWS,
            COLORS[0],
        )
        for pair in pairs[:_MOST_LINES]
    ]
    lines += ["", *beside(panels, width, columns, _GAP)]
    mark = "o" if terminal.is_ascii else "●"
    if any(pair.validation is not None for pair in pairs):
        lines.append(terminal.clip(f"{mark} validation, after epochs", terminal.columns))
    return lines


def _head(run: JournaledRun, facts: dict[str, Any]) -> list[str]:
    ending = ending_text(facts)
    if facts["error"]:
        ending += f": {facts['error']}"
    steps = f"step {_progress(facts['steps'], facts['steps_planned'])}"
    epochs = f"epoch {_progress(facts['epochs'], facts['epochs_planned'])}"
    speed = facts["steps_per_second"]
    pace = f", {number(speed)} steps/s" if speed else ""
    waited = facts["waited"] / facts["seconds"] if facts["seconds"] else 0
    wait = f", {waited:.0%} of it waiting for data" if waited > 0.005 else ""
    lines = [
        f"{facts['folder']}  {ending}",
        f"  {steps}, {epochs}, {duration(facts['seconds'])}{pace}{wait}",
        f"  started {facts['started'].replace('T', ' ')}",
        *(f"  {line}" for line in about_lines(run)),
    ]
    if facts["rate"] is not None:
        lines[2] += f", learning rate {number(facts['rate'])}"
    if facts["parent"]:
        parent = facts["parent"]
        lines.append(f"  a fork of {parent.get('folder')} at step {parent.get('step')}")
    for name, (value, epoch) in list(facts["best"].items())[:_MOST_LINES]:
        lines.append(f"  best {name} {number(value)}, in epoch {epoch + 1}")
    if facts["problems"]:
        lines.append(f"  the journal: {facts['problems']}")
    return lines


def about_lines(run: JournaledRun) -> list[str]:
    """What trained on what, a line each, as far as the header says it."""
    header = run.header
    lines: list[str] = []
    model = header.get("model")
    if isinstance(model, dict):
        layers, weights = model.get("layers"), model.get("weights")
        count = f", {len(layers)} layers" if isinstance(layers, list) else ""
        count += f", {_weights(weights):,} weights" if isinstance(weights, list) else ""
        lines.append(f"model {model.get('name')} ({model.get('class')}){count}")
    optimizer = header.get("optimizer")
    if isinstance(optimizer, dict):
        lines.append(f"optimizer {optimizer.get('class_name')}")
    data = header.get("data")
    if isinstance(data, dict):
        arrays = data.get("arrays")
        shapes = [
            f"{tuple(item['shape'])} {item.get('dtype')}"
            for item in (arrays if isinstance(arrays, list) else [])[:4]
            if isinstance(item, dict) and isinstance(item.get("shape"), list)
        ]
        lines.append(f"data {', '.join(shapes) or data.get('source') or data.get('kind')}")
    code = header.get("code")
    if isinstance(code, dict) and code.get("script"):
        commit = f", commit {str(code['commit'])[:10]}" if code.get("commit") else ""
        dirty = " with changes" if code.get("dirty") else ""
        lines.append(f"script {code['script']}{commit}{dirty}")
    return lines


def _weights(listed: list[Any]) -> int:
    total = 0
    for item in listed:
        shape = item[1] if isinstance(item, list) and len(item) > 1 else None
        if isinstance(shape, list) and all(type(n) is int for n in shape):
            size = 1
            for n in shape[:16]:
                size *= n
            total += size
    return total


# ------------------------------------------------------------------ several side by side


def board_lines(
    runs: list[JournaledRun], terminal: Terminal, metrics: list[str] | None = None
) -> list[str]:
    """A table of runs, and the charts of their metrics, side by side on one scale.

    Args:
        runs: one or more.
        terminal: what can be shown.
        metrics: the names to draw; by default the loss and the one that comes next.
    """
    listed = [run_facts(run) for run in runs]
    lines = [*table_lines(listed, terminal), ""]
    curves = [{pair.name: pair for pair in curves_of(run)} for run in runs]
    names = metrics or list(dict.fromkeys(name for each in curves for name in each))[:2]
    columns = min(max((terminal.columns + _GAP) // (_PANEL_COLUMNS + _GAP), 1), len(runs))
    width = (terminal.columns - _GAP * (columns - 1)) // columns
    last = max(max(run.last_step for run in runs), 1)
    labels = _short_names([facts["folder"] for facts in listed])
    for name in names:
        pairs = [each.get(name, CurvePair(name, None, None)) for each in curves]
        scale = scale_of([curve for pair in pairs for curve in pair[1:]])
        panels = []
        for i, (pair, label) in enumerate(zip(pairs, labels, strict=True)):
            code = COLORS[i % len(COLORS)]
            titled = pair._replace(name=f"{label}: {name}")
            panels.append(chart(titled, scale, last, terminal, width, _CHART_ROWS, code))
        lines += beside(panels, width, columns, _GAP)
    return lines[:-1] if lines and not lines[-1] else lines


def _short_names(folders: list[str]) -> list[str]:
    """Folders without the part that all have in common."""
    parts = [folder.replace("\\", "/").rstrip("/").split("/") for folder in folders]
    shared = 0
    limit = min(map(len, parts)) - 1
    while shared < limit and len({tuple(p[: shared + 1]) for p in parts}) == 1:
        shared += 1
    return ["/".join(p[shared:]) if len(parts) > 1 else p[-1] for p in parts]
