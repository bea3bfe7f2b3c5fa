"""What the journal alone tells: jumps of the loss, NaN, the rate, waiting, the validation."""

from __future__ import annotations

import math

import numpy as np

from trainkit.runs.diagnosis.evidence import Evidence
from trainkit.runs.diagnosis.findings import Finding
from trainkit.runs.views.run_facts import epoch_logs, is_better_small

_BEGINNING = 5
_WINDOW = 20
_LASTING = 10
_JUMP = 1.2
_ROW_JUMP = 25.0
"""What a single row may lose on runs that are well, by the loss at the beginning: a third of it."""
_WAITING_SHARE, _WAITING_SECONDS = 0.4, 0.2
_LOSS_RISE = 1.5
_SCORE_FALL = 0.05
_LEAST_STEPS = 20
_OVERSHOOT = 3.0
_SLOW_FALL = 0.1


def beginning(evidence: Evidence) -> float:
    """The loss at the beginning: the median of the first steps; NaN without any."""
    first = evidence.losses[:_BEGINNING]
    first = first[np.isfinite(first)]
    return float(np.median(first)) if len(first) else math.nan


def first_nan(evidence: Evidence) -> int | None:
    """The first step whose loss is not finite."""
    bad = np.flatnonzero(~np.isfinite(evidence.losses))
    return int(evidence.steps[bad[0]]) if len(bad) else None


def loss_jumps(evidence: Evidence) -> list[tuple[int, float, float]]:
    """Steps at which the loss jumped: number, loss, median of the steps before.

    A single step counts if it is far above all that is usual and above the loss at the beginning,
    by more than one row that is guessed wrong adds to a batch; a lesser rise if it lasts.
    """
    losses, first = evidence.losses, beginning(evidence)
    row_jump = _ROW_JUMP * abs(first) / evidence.batch_size
    jumps: list[tuple[int, float, float]] = []
    i = _BEGINNING
    while i < len(losses):
        before = losses[max(i - _WINDOW, 0) : i]
        before = before[np.isfinite(before)]
        if not np.isfinite(losses[i]) or len(before) < _BEGINNING:
            i += 1
            continue
        middle = float(np.median(before))
        spread = 1.4826 * float(np.median(np.abs(before - middle)))  # as for normal numbers
        after = losses[i : i + _LASTING]
        usual = max(_JUMP * abs(first), middle + 10 * spread, 3 * abs(middle), middle + row_jump)
        is_far = losses[i] > usual
        lasts = (
            len(before) >= _WINDOW
            and len(after) == _LASTING
            and bool(np.all(after > before.max()))
            and float(np.median(after)) > 2 * middle > 0
        )
        if is_far or lasts:
            jumps.append((int(evidence.steps[i]), float(losses[i]), middle))
            i += _WINDOW
        i += 1
    return jumps


def rate_text(evidence: Evidence) -> str:
    """The learning rate in words, with the optimizer's name."""
    rates = [line.rate for line in evidence.run.steps if line.rate is not None]
    name = evidence.header_part("optimizer").get("class_name")
    if rates:
        return f"the learning rate {rates[-1]:.3g}" + (f" of {name}" if name else "")
    return "the learning rate"


def check_high_rate(evidence: Evidence) -> list[Finding]:
    """The loss grows from the beginning on, or shoots up in the first steps and stays."""
    losses, first = evidence.losses, beginning(evidence)
    if len(losses) < _BEGINNING or not np.isfinite(first):
        return []
    finite = losses[np.isfinite(losses)]
    bad = first_nan(evidence)
    begins = float(losses[0]) if np.isfinite(losses[0]) else first
    early = finite[: max(len(losses) // 5, 3 * _BEGINNING)]
    last = float(np.median(finite[-max(len(finite) // 5, 3) :]))
    above = early > _OVERSHOOT * abs(begins)
    overshoots = any(bool(np.all(above[i : i + 4])) for i in range(len(above) - 3))
    grows = last > 1.2 * abs(begins) and float(np.median(finite)) > abs(begins)
    prefix = losses[: int(np.argmax(~np.isfinite(losses)))] if bad is not None else losses[:0]
    explodes = len(prefix) > 2 and prefix[-1] > max(prefix[-2], 10 * abs(begins))
    if not overshoots and not explodes and not (grows and len(finite) >= _LEAST_STEPS):
        return []
    top = float(finite.max())
    end = f"is not finite from step {bad} on" if bad is not None else f"ends at {last:.4g}"
    sentence = (
        f"the loss grew from {begins:.4g} to {top:.4g} and {end}: {rate_text(evidence)} is too high"
    )
    facts = {"begins": begins, "highest": top, "ends": last}
    step = int(evidence.steps[int(np.argmax(losses > _OVERSHOOT * abs(begins)))])
    return [Finding("high rate", sentence, step, _show(evidence), facts)]


def slow_fall(evidence: Evidence) -> float | None:
    """The share by which the loss fell, where that is little; `None` where it fell, or too short.

    Whether the rate is to blame the updates tell, or an end that is no worse than the beginning.
    """
    losses = evidence.losses
    if len(losses) < _LEAST_STEPS or not np.all(np.isfinite(losses)):
        return None
    part = max(len(losses) // 5, _BEGINNING)
    begin, end = float(np.median(losses[:part])), float(np.median(losses[-part:]))
    if begin <= 0:
        return None
    fall = (begin - end) / begin
    return fall if fall < _SLOW_FALL else None


def check_waiting(evidence: Evidence) -> list[Finding]:
    """Epochs in which a large share of the time went by with waiting for data."""
    seconds: dict[int, float] = {}
    waited: dict[int, float] = {}
    shares: dict[int, list[float]] = {}
    for line in evidence.run.steps:
        seconds[line.epoch] = seconds.get(line.epoch, 0.0) + line.seconds
        waited[line.epoch] = waited.get(line.epoch, 0.0) + line.waited
        shares.setdefault(line.epoch, []).append(line.waited / max(line.seconds, 1e-9))
    slow = [
        epoch
        for epoch, total in seconds.items()
        if waited[epoch] >= _WAITING_SECONDS
        and waited[epoch] >= _WAITING_SHARE * total
        and float(np.median(shares[epoch])) >= _WAITING_SHARE / 2  # no pause of the machine
    ]
    if not slow:
        return []
    worst = max(slow, key=lambda epoch: waited[epoch])
    share = waited[worst] / seconds[worst]
    others = f", as did {len(slow) - 1} others" if len(slow) > 1 else ""
    sentence = (
        f"epoch {worst + 1} waited {waited[worst]:.1f} of its {seconds[worst]:.1f} s ({share:.0%}) "
        f"for data{others}: the input is slower than the steps"
    )
    steps = [line.step for line in evidence.run.steps if line.epoch == worst]
    facts = {"epochs": [epoch + 1 for epoch in slow], "share": share}
    return [Finding("waiting", sentence, steps[0], "tk.profiler.profile(), or prefetch", facts)]


def validation_fall(evidence: Evidence) -> tuple[str, int, float, int, float] | None:
    """A number of the validation that got worse for good.

    Returns:
        Its name, the epoch and the value of its best, and those at the end.
    """
    ends = epoch_logs(evidence.run)
    names = dict.fromkeys(name for _, _, logs in ends for name in logs if name[:4] == "val_")
    for name in sorted(names, key=lambda name: name == "val_loss"):  # scores say more
        listed = [(epoch, logs[name]) for _, epoch, logs in ends if name in logs]
        values = np.array([value for _, value in listed])
        if len(values) < 4 or not np.all(np.isfinite(values)):
            continue
        small = is_better_small(name)
        best = int(np.argmin(values) if small else np.argmax(values))
        last = float(np.median(values[-2:]))
        if best > len(values) - 3:
            continue
        if small:
            fell = name == "val_loss" and last > _LOSS_RISE * values[best] > 0
            fell = fell and training_fell(evidence, listed[best][0])
        else:
            fell = values[best] - last > _SCORE_FALL and values[best] - min(values[-2:]) > 0
            fell = fell and bool(np.all(values[-2:] < values[best] - _SCORE_FALL / 2))
        if fell:
            return name, listed[best][0], float(values[best]), listed[-1][0], last
    return None


def training_fell(evidence: Evidence, epoch: int) -> bool:
    """Whether the loss of training went on falling after an epoch."""
    losses = {number: logs.get("loss", math.nan) for _, number, logs in epoch_logs(evidence.run)}
    return bool(losses) and losses[max(losses)] < losses.get(epoch, math.nan)


def _show(evidence: Evidence) -> str:
    return f"python -m trainkit runs show {evidence.run.folder}"
