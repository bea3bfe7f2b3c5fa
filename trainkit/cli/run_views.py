"""`python -m trainkit runs ls`, `show`, `board`, `why`: what ran, its curves, and what happened."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainkit import runs
from trainkit.core.errors import CheckpointError
from trainkit.core.files.printable import printable
from trainkit.journal.lines import plain
from trainkit.runs.views.curves import curves_of
from trainkit.runs.views.html_page import write_page
from trainkit.runs.views.overview import board_lines, show_lines, table_lines
from trainkit.runs.views.run_facts import ending, run_facts, run_folders
from trainkit.runs.views.terminal import Terminal, terminal_of

_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


def add_arguments(actions: Any, action: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the actions and what they take.

    Args:
        actions: of the parser.
        action: makes one that has `--json`.
    """
    ls = action(actions, "ls", "the runs in a folder, and how they ended")
    ls.add_argument("folder", nargs="?", default="runs", help="by default 'runs'")
    ls.set_defaults(handle=list_runs)
    show = action(actions, "show", "what a run was, how it ended, and its curves", "run")
    show.add_argument("--html", metavar="FILE", help="write a page of one file, for sharing")
    show.set_defaults(handle=show_run)
    board = action(actions, "board", "several runs side by side, while they go on")
    board.add_argument("runs", nargs="+", metavar="run", help="folders of runs")
    board.add_argument("--once", action="store_true", help="print, and end")
    board.add_argument("--every", type=_seconds, default=2.0, help="seconds between two looks")
    board.add_argument("--metric", action="append", help="what to draw; may stand several times")
    board.set_defaults(handle=show_board)


def add_question(actions: Any, action: Callable[..., argparse.ArgumentParser]) -> Any:
    """Declare `why`, and give its parser."""
    question = action(actions, "why", "what happened in a run; status 1 if something did", "run")
    question.add_argument(
        "--seconds", type=float, default=60.0, help="how long steps may be done again"
    )
    return question


def say_why(run: runs.JournaledRun, args: argparse.Namespace) -> int:
    """Print what happened in a run."""
    diagnosis = run.why(args.seconds)
    _print(diagnosis.as_dict(), str(diagnosis).splitlines(), args.json)
    return 1 if diagnosis.findings else 0


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.05 <= value <= 86400:
        raise ValueError(text)
    return value


def _print(data: Any, lines: list[str], as_json: bool) -> None:
    """Lines may have colors; what others wrote in them was escaped before."""
    print(json.dumps(plain(data), indent=1) if as_json else "\n".join(lines))


# ------------------------------------------------------------------ ls and show


def list_runs(args: argparse.Namespace) -> int:
    """Print a line for each run in a folder."""
    listed: list[dict[str, Any]] = []
    for folder in run_folders(args.folder):
        try:
            listed.append(run_facts(runs.open(folder)))
        except (CheckpointError, OSError) as error:
            unreadable = {"folder": str(folder), "ending": "unreadable", "problems": str(error)}
            listed.append(unreadable)
    listed.sort(key=lambda facts: facts.get("started", ""))
    if not listed and not args.json:
        print(printable(f'no runs in {args.folder}; fit(run="runs/first") writes one'))
        return 0
    lines = table_lines(listed, terminal_of(sys.stdout)) if listed else []
    _print(listed, lines, args.json)
    return 0


def show_run(args: argparse.Namespace) -> int:
    """Print what is known of a run, or write it as a page."""
    run = runs.open(args.run)
    data = run_facts(run)
    if args.html:
        write_page(run, args.html)
        lines = [printable(f"{args.html}: a page of {Path(args.html).stat().st_size:,} bytes")]
        data["html"] = args.html
    else:
        lines = show_lines(run, terminal_of(sys.stdout))
    if args.json:
        data["curves"] = {
            pair.name: {
                part: {"steps": curve.steps.tolist(), "values": curve.values.tolist()}
                for part, curve in (("training", pair.training), ("validation", pair.validation))
                if curve is not None
            }
            for pair in curves_of(run)
        }
    _print(data, lines, args.json)
    return 0


# ------------------------------------------------------------------ board


def show_board(args: argparse.Namespace) -> int:
    """Draw several runs; again and again where one is under way and this is a terminal."""
    opened = [runs.open(folder) for folder in args.runs]
    _require_metrics(opened, args.metric)
    terminal = terminal_of(sys.stdout)
    is_live = sys.stdout.isatty() and not args.once and not args.json
    if not is_live or all(ending(run) != "running" for run in opened):
        listed = [run_facts(run) for run in opened]
        _print(listed, board_lines(opened, terminal, args.metric), args.json)
        return 0
    try:
        sys.stdout.write(_HIDE_CURSOR + _HOME + _REST_OF_SCREEN)
        while True:
            # asked before reading: what a process has written that is gone by then is all there is
            alive = [run for run in opened if run.is_alive]
            for run in opened:
                run.update()
            goes_on = any(run.status == "open" for run in alive)
            _redraw(board_lines(opened, terminal, args.metric), terminal)
            if not goes_on:
                break
            time.sleep(args.every)
            terminal = terminal_of(sys.stdout)
    except KeyboardInterrupt:
        pass
    finally:
        sys.stdout.write(_SHOW_CURSOR + "\n")
        sys.stdout.flush()
    return 0


def _require_metrics(opened: list[runs.JournaledRun], metrics: list[str] | None) -> None:
    names = dict.fromkeys(pair.name for run in opened for pair in curves_of(run))
    unknown = [name for name in metrics or [] if name not in names]
    if unknown and names:
        raise ValueError(f"no run has {unknown[0]!r}; they have {', '.join(names)}")


def _redraw(lines: list[str], terminal: Terminal) -> None:
    """Write over the lines before, in place, as many as there is room for."""
    room = terminal.rows - 1
    visible = lines[:room]
    sys.stdout.write(_HOME + "".join(f"{line}{_REST_OF_LINE}\n" for line in visible))
    sys.stdout.write(_REST_OF_SCREEN)
    sys.stdout.flush()
