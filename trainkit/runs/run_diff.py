"""`tk.runs.diff`: the first step at which two runs part, and why."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.errors import CheckpointError, FailedPreconditionError
from trainkit.core.user_frames import line_text
from trainkit.journal.lines import Step
from trainkit.journal.state_digests import array_of, leaf_digest
from trainkit.runs.journaled_run import JournaledRun
from trainkit.runs.op_trace import TracedOperation, operations_of
from trainkit.runs.past_state import PastState
from trainkit.runs.settings_diff import settings_differences
from trainkit.runs.surroundings import surroundings

_COMPARED = ("batch", "loss", "random", "weights", "slots", "rate")
_STATE = ("weights", "slots", "random")
_MOST_SHOWN = 8
_MOST_MOVED = 256


@dataclasses.dataclass
class RunDifference:
    """Where two runs part.

    Attributes:
        step: the first step that differs; `None` where none does.
        kind: `"none"`, `"model"`, `"seed"`, `"state"`, `"batch"`, `"learning rate"`, `"random"`,
            `"operation"`, `"optimizer"`, `"callbacks"`, `"environment"`, or `"journal"` where
            nothing can be done again and the journals alone have been compared; `"precision"` of
            `shadow`, `"compiled"` and `"device"` of `diff_modes`.
        cause: in a sentence.
        details: further lines: settings, rows, versions that differ.
        operation: the first operation whose result differs, in the first run, if any.
    """

    step: int | None
    kind: str
    cause: str
    details: list[str] = dataclasses.field(default_factory=list)
    operation: TracedOperation | None = None

    def __str__(self) -> str:
        head = "the runs are the same" if self.step is None else f"step {self.step}"
        return "\n".join([f"{head}: {self.cause}", *(f"  {line}" for line in self.details)])

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        fields = dataclasses.asdict(self)
        fields["operation"] = None if self.operation is None else self.operation._asdict()
        return fields


def diff(first: JournaledRun, second: JournaledRun) -> RunDifference:
    """Find the first step at which two runs part, do it again in both, and say why they do.

    Args:
        first: a run.
        second: another one.

    Returns:
        The difference. Where a run can't be gone back into, it says what the journals alone tell,
        and why no more.

    Raises:
        FailedPreconditionError: no step is in both runs.
    """
    step = _first_difference(first, second)
    elsewhere = surroundings(first.header, second.header)
    if step is None:
        shared = min(first.last_step, second.last_step)
        if not shared:
            raise FailedPreconditionError(
                f"there is no step in both runs to compare: {'; '.join(_lengths(first, second))}"
            )
        cause = f"{shared} steps have the same losses and digests"
        details = [*_lengths(first, second), *(f"in spite of {line}" for line in elsewhere)]
        return RunDifference(None, "none", cause, details)
    settings = settings_differences(first, second)
    try:
        step, one, other = _find_parting(first, second, step)
    except (CheckpointError, FailedPreconditionError) as error:
        field_names = _fields(first.journal.at(step), second.journal.at(step))
        cause = f"the journals part here, in {', '.join(field_names)}"
        details = [f"the step can't be done again: {str(error).splitlines()[0]}"]
        return RunDifference(step, "journal", cause, [*details, *settings, *elsewhere])
    difference = (
        _of_the_state(first, second, one, other, settings, elsewhere)
        or _of_the_batch(first, second, one, other, settings)
        or _of_the_step(step, one, other, settings)
        or _of_the_environment(first, second, step, one, other, elsewhere)
    )
    if difference.kind != "environment":
        difference.details += [f"beside that, {line}" for line in elsewhere]
    return difference


# ------------------------------------------------------------------ which step


def _fields(one: Step | None, other: Step | None) -> list[str]:
    if one is None or other is None:
        return []
    pairs = [(name, getattr(one, name), getattr(other, name)) for name in _COMPARED]
    return [
        name
        for name, a, b in pairs
        if a is not None and b is not None and a != b and not (a != a and b != b)
    ]


def _first_difference(first: JournaledRun, second: JournaledRun) -> int | None:
    """The first step whose lines differ; digests of the beginning count as of step 1."""
    begun = [run.journal.records_of("leaves")[:1] for run in (first, second)]
    if all(begun) and all(records[0].get("n") == 0 for records in begun):
        if begun[0][0].get("parts") != begun[1][0].get("parts"):
            return 1
    changed = [step for step, is_same in _states_alike(first, second).items() if not is_same]
    for line in first.steps:
        if line.step in changed or _fields(line, second.journal.at(line.step)):
            return line.step
    return None


def _states_alike(first: JournaledRun, second: JournaledRun) -> dict[int, bool]:
    """Whether the states after a step are the same, by the steps that both have stored."""
    one, other = (
        {
            step: record.get("parts")
            for record in run.journal.records_of("leaves")
            if type(step := record.get("n")) is int
        }
        for run in (first, second)
    )
    return {step: one[step] == other[step] for step in one if step in other}


def _lengths(first: JournaledRun, second: JournaledRun) -> list[str]:
    """How long both runs are, where that differs, and what their journals have lost."""
    runs = (first, second)
    damage = [(run.folder, run.journal.problems()) for run in runs]
    lines = [f"the journal of {folder}: {problems}" for folder, problems in damage if problems]
    if first.last_step == second.last_step:
        return lines
    return [f"{run.folder} has {run.last_step} steps, {run.status}" for run in runs] + lines


def _find_parting(
    first: JournaledRun, second: JournaledRun, step: int
) -> tuple[int, PastState, PastState]:
    """The first step that finds the same state in both runs and does not leave the same, or 1."""
    low, high = 1, step
    alike = _states_alike(first, second)
    for line in first.steps:  # digests that are equal after a step: the state before the next is
        other = second.journal.at(line.step)
        if line.step >= step:
            break
        is_same = alike.get(line.step, False)
        if other is not None and line.weights is not None and line.weights == other.weights:
            is_same = is_same or line.slots == other.slots
        if is_same:
            low = line.step + 1
    one, other_state = first.at(high, check=False), second.at(high, check=False)
    if high == low or not _differ(one, other_state):
        return high, one, other_state
    # the state before `high` differs; find the last step before which it does not
    while low < high:
        middle = (low + high) // 2
        states = first.at(middle, check=False), second.at(middle, check=False)
        if _differ(*states):
            high = middle
        else:
            low = middle + 1
    last = max(high - 1, 1)  # which finds the same, and leaves something else, or a callback does
    states = first.at(last, check=False), second.at(last, check=False)
    batches = [state.digests().get("batch") for state in states]
    if batches[0] == batches[1]:
        if all(state.model is not None for state in states):
            for state in states:
                state.train_step()
        if not _differ(*states):
            last = high
        states = first.at(last, check=False), second.at(last, check=False)
    return last, *states


def _differ(one: PastState, other: PastState) -> bool:
    a, b = one.digests(), other.digests()
    return any(a[part] != b[part] for part in _STATE)


# ------------------------------------------------------------------ why


def _of_the_state(
    first: JournaledRun,
    second: JournaledRun,
    one: PastState,
    other: PastState,
    settings: list[str],
    elsewhere: list[str],
) -> RunDifference | None:
    """What the step found was different already: at the beginning, or by a callback.

    Or a checkpoint holds what another installation has made of steps that are alike here.
    """
    a, b = list(one.leaves().items()), list(other.leaves().items())
    paths = [path for (path, x), (_, y) in zip(a, b, strict=False) if x != y]
    if not paths and len(a) == len(b):
        return None
    rates = [_rate(state) for state in (one, other)]
    details = [*settings, *_shown(paths)]
    if len(a) != len(b) or _shapes(first) != _shapes(second):
        model_text = (
            settings[0] if settings else f"{len(a)} variables in one, {len(b)} in the other"
        )
        return RunDifference(one.step, "model", f"two different models: {model_text}", details)
    if all(path.endswith("/learning_rate") for path in paths):
        cause = f"the learning rate is {rates[0]:.9g} in the first run, {rates[1]:.9g} in the other"
        return RunDifference(one.step, "learning rate", cause, settings)
    seeds = [run.header.get("seed") for run in (first, second)]
    if one.step == 1 and seeds[0] != seeds[1]:
        cause = f"another seed: {seeds[0]} in the first run, {seeds[1]} in the other"
        return RunDifference(1, "seed", cause, details)
    if all("random" in path or "seed_generator" in path for path in paths):
        cause = "random generators stand elsewhere, with equal weights"
        return RunDifference(one.step, "random", cause, details)
    if (
        one.step > 1
        and elsewhere
        and not any(run.header.get("callbacks") for run in (first, second))
    ):
        cause = f"the steps before on another machine or installation: {elsewhere[0]}"
        return RunDifference(one.step, "environment", cause, [*elsewhere[1:], *details])
    cause = f"{len(paths)} of {len(a)} variables differ before the step, {paths[0]} first"
    return RunDifference(one.step, "state", cause, details)


def _shapes(run: JournaledRun) -> Any:
    model = run.header.get("model")
    weights = model.get("weights") if isinstance(model, dict) else None
    return [item[1:] for item in weights] if isinstance(weights, list) else None


def _rate(state: PastState) -> float:
    rate = getattr(state.optimizer, "learning_rate", None)
    return float("nan") if rate is None or callable(rate) else float(rate)


def _shown(paths: list[str]) -> list[str]:
    count_lines = [f"and {len(paths) - _MOST_SHOWN} more"] if len(paths) > _MOST_SHOWN else []
    return [f"differs: {path}" for path in paths[:_MOST_SHOWN]] + count_lines


def _same_data(first: JournaledRun, second: JournaledRun) -> bool:
    """Whether both runs say that they were given the same arrays."""
    digests = [
        data.get("digest") if isinstance(data := run.header.get("data"), dict) else None
        for run in (first, second)
    ]
    return digests[0] is not None and digests[0] == digests[1]


def _of_the_batch(
    first: JournaledRun, second: JournaledRun, one: PastState, other: PastState, settings: list[str]
) -> RunDifference | None:
    a, b = nest.flatten(one.batches), nest.flatten(other.batches)
    if len(a) != len(b):
        cause = f"the batch has {len(a)} parts in the first run, {len(b)} in the other"
        return RunDifference(one.step, "batch", cause)
    names = _part_names(one, len(a))
    parts: list[tuple[str, str, list[int]]] = []
    for name, x, y in zip(names, a, b, strict=True):
        if x is None or y is None or (leaf_digest(x), x.shape) == (leaf_digest(y), y.shape):
            if (x is None) != (y is None):
                parts.append((name, f"the batch has {name} in one run alone", []))
            continue
        parts.append((name, *_row_difference(name, array_of(x), array_of(y))))
    if not parts:
        return None
    details = [*(text for _, text, _ in parts[1:]), *settings]
    rows = parts[0][2]
    moved = _moved_batches(first, second, one, other)
    if moved:
        return RunDifference(one.step, "batch", f"another batch: {moved}", [parts[0][1], *details])
    if _same_data(first, second) and len(rows) > 1:
        cause = "another batch: other rows of the same data, or in another order"
        setting_text = f"; {settings[0]}" if settings else ""
        return RunDifference(one.step, "batch", cause + setting_text, [parts[0][1], *details])
    if rows:
        details.append(f"rows of the batch that differ: {rows[:20]}")
    return RunDifference(one.step, "batch", f"another batch: {parts[0][1]}", details)


def _moved_batches(
    first: JournaledRun, second: JournaledRun, one: PastState, other: PastState
) -> str | None:
    """Which other step of the same epoch has the batch that one of the runs has here."""
    for run, state, names in (
        (first, other, ("other", "first")),
        (second, one, ("first", "other")),
    ):
        digest = state.digests().get("batch")
        digests = run.batch_digests(one.step, _MOST_MOVED)
        for step, recorded in digests.items():
            if recorded == digest and step != one.step:
                return f"the {names[0]} run has the batch of step {step} of the {names[1]} here"
    return None


def _part_names(state: PastState, count: int) -> list[str]:
    batch = state.batches[0] if state.batches else None
    if isinstance(batch, tuple) and count == len(batch) <= 3:
        return ["inputs", "labels", "sample weights"][:count]
    return [f"part {i}" for i in range(count)]


def _row_difference(name: str, x: Any, y: Any) -> tuple[str, list[int]]:
    if x.shape != y.shape or x.dtype != y.dtype:
        return (
            f"{name} of shape {x.shape} {x.dtype} in the first run, {y.shape} {y.dtype} in the "
            "other"
        ), []
    if not x.ndim:
        return f"{name} {x} in the first run, {y} in the other", []
    rows = [i for i in range(len(x)) if x[i].tobytes() != y[i].tobytes()]
    one, other = ([row.tobytes() for row in array] for array in (x, y))
    if len(rows) > 1 and sorted(one) == sorted(other):
        return f"{name} are the same rows in another order", rows
    row = rows[0]
    if len(rows) == len(x) > 2 and not set(one) & set(other):
        return f"{name} are other rows altogether", rows
    values = np.argwhere(np.atleast_1d(x[row]) != np.atleast_1d(y[row]))
    where = tuple(map(int, values[0])) if len(values) else ()
    at = f" at {list(where)}" if x[row].ndim else ""
    a, b = (np.atleast_1d(array[row])[where] if where else array[row] for array in (x, y))
    count = f", {len(values)} values" if len(values) > 1 else ""
    return f"{name} of row {row} differ{at}: {a} in the first run, {b} in the other{count}", rows


def _of_the_step(
    step: int, one: PastState, other: PastState, settings: list[str]
) -> RunDifference | None:
    """State and batch are the same, so the computation is not."""
    if one.model is None or other.model is None:
        if not settings:
            return None
        return RunDifference(
            step, "operation", f"the same state and batch: {settings[0]}", settings
        )
    calls = operations_of(one.train_step), operations_of(other.train_step)
    for a, b in zip(*calls, strict=False):
        if (a.name, a.inputs, a.settings, a.outputs) != (b.name, b.inputs, b.settings, b.outputs):
            return operation_difference(step, a, b, settings)
    if one.digests() != other.digests():
        update_text = settings[0] if settings else "the optimizer's update differs"
        cause = f"equal operations, and another update of the weights: {update_text}"
        return RunDifference(step, "optimizer", cause, settings)
    return None


def operation_difference(
    step: int, a: TracedOperation, b: TracedOperation, settings: list[str]
) -> RunDifference:
    """Say how a call of an operation differs in two runs, and what may be why."""
    where = f" in layer {a.layer!r}" if a.layer else ""
    if a.name != b.name:
        call_text = f"{a.name}{where} in the first run, {b.name} in the other"
    elif a.settings != b.settings:
        call_text = f"{a.name}{where} with {a.settings} in the first run, {b.settings} in the other"
    else:
        inputs = "equal" if a.inputs == b.inputs else "other"
        call_text = f"{a.name}{where} gives other bits from {inputs} inputs"
    details = [*settings]
    if a.line is not None:
        details.append(f"called at {line_text(a.line)}")
    setting_text = f"; {settings[0]}" if settings else ""
    return RunDifference(step, "operation", f"{call_text}{setting_text}", details, a)


def _of_the_environment(
    first: JournaledRun,
    second: JournaledRun,
    step: int,
    one: PastState,
    other: PastState,
    elsewhere: list[str],
) -> RunDifference:
    """Done again here, both runs do the same: what differed was where they ran."""
    weights_digest = one.digests()["weights"]
    lines = [(run, run.journal.at(step)) for run in (first, second)]
    details = [
        f"done again on this machine, it is that of {run.folder}"
        for run, line in lines
        if line is not None and line.weights == weights_digest
    ]
    callbacks = [
        str(run.header.get("callbacks"))[:200]
        for run in (first, second)
        if run.header.get("callbacks") and run.program is None
    ]
    if not elsewhere and callbacks:
        cause = (
            f"done again without callbacks, which only a program calls, the step gives the same in "
            f"both: what differs was done by one of {', '.join(callbacks)}"
        )
        details.append("tk.runs.open(folder, program=train) calls them again")
        return RunDifference(step, "callbacks", cause, details)
    if not elsewhere:
        cause = (
            "done again, the step gives the same in both, and the journals name no difference: "
            "something random or parallel is outside of what is stored"
        )
        return RunDifference(step, "environment", cause, details)
    cause = f"the same step on another machine or installation: {elsewhere[0]}"
    return RunDifference(step, "environment", cause, [*elsewhere[1:], *details])
