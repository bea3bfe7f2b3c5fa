"""The steps between two checkpoints, done again and compared with what a journal says of them."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from typing import Any

from trainkit.callbacks.run_journal import checkpoint_of
from trainkit.checkpoints.interop import tables
from trainkit.journal.lines import Step, number_text
from trainkit.journal.replays import Reached
from trainkit.runs.run_programs import process_unchanged, replayed

_DIGESTS = ("batch", "random", "weights", "slots")
_MOST_NAMED = 8
_LOSS_TOLERANCE = 1e-5
"""A step's loss is worked back from means, whose rounding a restart changes."""

_STEPS = "/run_journal/@state/steps"
_POSITION = ("/@state/", "/compiled_metrics/", "/loss_tracker/")
"""What says where in the data a run stands: at the end of an epoch there are two ways to."""


def segment_differences(run: Any, start: int, end: int) -> list[str]:
    """What is otherwise when the steps after `start` up to `end` are done again; empty if nothing.

    Args:
        run: a `JournaledRun`.
        start: how many steps were done at the checkpoint to begin with.
        end: how many at the checkpoint to arrive at.

    Raises:
        CheckpointError: a checkpoint can't be taken up, or is of another step.
        FailedPreconditionError: the model or the data are missing.
    """
    differences: list[str] = []
    lines: list[int] = []

    def compare(line: Step) -> None:
        lines.append(line.step)
        recorded = run.journal.at(line.step)
        if recorded is None:
            differences.append(f"step {line.step} is not in the journal")
        else:
            differences.extend(_line_differences(recorded, line))

    recorded_file = str(run.checkpoints[end])
    with tempfile.TemporaryDirectory() as scratch:
        again = os.path.join(scratch, "again")
        _replay_to(run, start, end, again, compare)
        expected = [step.step for step in run.steps if start < step.step <= end]
        if lines != expected:
            differences.append(
                f"{len(lines)} steps were done, the journal tells of {len(expected)}"
            )
        paths = _state_differences(again, recorded_file)
        certain = [path for path in paths if not _is_position(path)]
        if not certain and paths and end < run.last_step:
            paths = _next_differences(run, start, end, scratch)
        elif not certain:  # after the last step, no data follows
            paths = [path for path in paths if path.endswith(_STEPS)]
    if paths:
        more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
        differences.append(f"the state after step {end}: {', '.join(paths[:_MOST_NAMED])}{more}")
    return differences


def _replay_to(
    run: Any, start: int, end: int, file: str, lines: Callable[[Step], None] | None = None
) -> None:
    """Do the steps after `start` up to `end` again, and write the state then as a checkpoint."""

    def save(owner: Any, steps_done: int) -> None:
        if steps_done >= end:
            checkpoint_of(owner).write(file)
            raise Reached

    replay = run.replay(str(run.checkpoints[start]), start, watch=save, lines=lines)
    with process_unchanged():
        replayed(run.steps_program(), replay)


def _next_differences(run: Any, start: int, end: int, scratch: str) -> list[str]:
    """What the next step finds otherwise, from either checkpoint: data, position and all."""
    files = []
    for i, begin in enumerate((start, end)):
        file = os.path.join(scratch, f"next-{i}")

        def save(owner: Any, file: str = file) -> None:
            checkpoint_of(owner).write(file)

        replay = run.replay(str(run.checkpoints[begin]), begin, target=end + 1, arrive=save)
        with process_unchanged():
            replayed(run.steps_program(), replay)
        files.append(file)
    return _state_differences(*files)


def _state_differences(one: str, other: str) -> list[str]:
    """The paths at which two checkpoints have other bits, but for what no step depends on."""
    with contextlib.ExitStack() as opened:
        both = [opened.enter_context(tables.opened_table(path)) for path in (one, other)]
        shapes = [table.shapes() for table in both]
        paths = sorted({*shapes[0], *shapes[1]})
        return [
            path
            for path in paths
            if not _is_left_out(path) and not _are_equal(path, *both, *shapes)
        ]


def _are_equal(path: str, one: Any, other: Any, shapes: Any, other_shapes: Any) -> bool:
    if shapes.get(path) != other_shapes.get(path):
        return False
    return bool(one.read(path).tobytes() == other.read(path).tobytes())


def _is_left_out(path: str) -> bool:
    """Callbacks are not called again, and kernels are chosen by what they took."""
    return path.startswith(("kernels/", "run/callbacks/")) and not path.endswith(_STEPS)


def _is_position(path: str) -> bool:
    return not path.endswith(_STEPS) and any(part in f"/{path}" for part in _POSITION)


def _line_differences(recorded: Step, again: Step) -> list[str]:
    """In which fields a step's line is not what the step gives now."""
    names = [
        name
        for name in _DIGESTS
        if getattr(recorded, name) is not None and getattr(recorded, name) != getattr(again, name)
    ]
    if recorded.epoch != again.epoch:
        names.append("epoch")
    if None not in (recorded.rate, again.rate) and _text(recorded.rate) != _text(again.rate):
        names.append("rate")
    shared = recorded.metrics.keys() & again.metrics.keys()
    names += sorted(
        name for name in shared if _text(recorded.metrics[name]) != _text(again.metrics[name])
    )
    if _are_apart(recorded.loss, again.loss):
        names.append("loss")
    return [f"step {again.step}: {', '.join(names)}"] if names else []


def _text(value: Any) -> str:
    return number_text(value)


def _are_apart(one: float | None, other: float | None) -> bool:
    if one is None or other is None or _text(one) == _text(other):
        return False
    return not abs(one - other) <= _LOSS_TOLERANCE * max(1.0, abs(one), abs(other))
