"""What single steps tell when they are done again: rows, gradients, updates."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from trainkit.core import nest
from trainkit.journal.state_digests import array_of
from trainkit.runs.diagnosis.evidence import Evidence
from trainkit.runs.diagnosis.findings import Finding
from trainkit.runs.diagnosis.journal_checks import (
    beginning,
    first_nan,
    loss_jumps,
    rate_text,
    slow_fall,
)
from trainkit.runs.past_state import PastState

_SAMPLED = 6
_MOST_JUMPS = 2
_MOST_BATCH = 512
_MOST_NAMED = 4
_MADE_BY_FEW = 0.5
_GRADIENT_SPIKE = 10.0
_SMALL_UPDATE, _USUAL_UPDATE = 1e-7, 1e-5
_SLOW_UPDATE = 1e-4


class StepFigures(NamedTuple):
    """What a step that is done again shows.

    Attributes:
        step: its number.
        gradient: the length of all gradients together.
        ratios: of each weight, the length of the update by its own.
        ratio: the same for all weights together.
    """

    step: int
    gradient: float
    ratios: dict[str, float]
    ratio: float


def _length(arrays: list[np.ndarray]) -> float:
    return math.sqrt(sum(float(np.sum(np.square(a, dtype=np.float64))) for a in arrays))


def _figures(state: PastState) -> StepFigures:
    gradients = [array_of(g) for g in state.gradients().values() if g is not None]
    model: Any = state.model
    weights = {w.path: w for w in model.trainable_variables}
    before = {path: np.array(w.numpy(), np.float64) for path, w in weights.items()}
    step = state.step
    state.train_step()
    changes = {path: w.numpy() - before[path] for path, w in weights.items()}
    sizes = {path: _length([value]) for path, value in before.items()}
    ratios = {path: _length([changes[path]]) / size for path, size in sizes.items() if size > 0}
    total_length = _length(list(before.values()))
    ratio = _length(list(changes.values())) / total_length if total_length else math.nan
    return StepFigures(step, _length(gradients), ratios, ratio)


def sampled_figures(evidence: Evidence) -> list[StepFigures]:
    """Figures of some steps: the first, the last, those with the largest losses, some between."""
    last = evidence.last_good_step
    if last < 1:
        return []
    spread = np.linspace(1, last, _SAMPLED).astype(int).tolist()
    checkpoints = [n + 1 for n in evidence.run.checkpoints if n + 1 <= last]
    if len(checkpoints) > _SAMPLED:  # steps right after a checkpoint cost nothing to go to
        indices = np.linspace(0, len(checkpoints) - 1, _SAMPLED).astype(int)
        spread = [checkpoints[i] for i in indices] + [last]
    spread += [step for step, _, _ in loss_jumps(evidence)[:_MOST_JUMPS]]
    figures = []
    for step in sorted(set(spread)):
        line = evidence.run.journal.at(step)
        state = None if line is None else evidence.state(step, "gradients and updates")
        if state is None or state.model is None or len(state.batches) != 1:
            continue
        figures.append(_figures(state))
    return figures


# ------------------------------------------------------------------ rows


def _single_row(batch: Any, number: int) -> Any:
    """A row of a batch, as a batch of one."""
    return nest.map_structure(
        lambda leaf: None if leaf is None else leaf[number : number + 1], batch
    )


def _row_losses(state: PastState) -> np.ndarray | None:
    """The loss of each row of the batch, as an evaluation gives it."""
    batch = state.batch
    if state.model is None or not isinstance(batch, tuple) or len(state.batches) != 1:
        return None
    arrays = nest.map_structure(lambda leaf: None if leaf is None else array_of(leaf), batch)
    leaves = [leaf for leaf in nest.flatten(arrays) if leaf is not None]
    if any(not leaf.ndim for leaf in leaves) or len({len(leaf) for leaf in leaves}) != 1:
        return None
    count = len(leaves[0])
    if not 1 < count <= _MOST_BATCH:
        return None
    losses = np.zeros(count)
    with np.errstate(all="ignore"):
        for i in range(count):
            row = _single_row(arrays, i)
            losses[i] = state.model.test_on_batch(*row[:3], return_dict=True)["loss"]
    return losses


def _row_names(evidence: Evidence, state: PastState, rows: list[int]) -> str:
    """Rows by their numbers in the data, where they are found there; else in the batch."""
    samples = evidence.training
    leaves = [array_of(x) for x in nest.flatten(state.batches[0][0]) if x is not None]
    numbers: list[int] = []
    if samples is not None and len(leaves) == len(samples.leaves):
        for row in rows:
            alike = np.ones(samples.rows, bool)
            for leaf, data in zip(leaves, samples.leaves, strict=True):
                if leaf.shape[1:] != data.shape[1:]:
                    return _join("row", rows) + " of the batch"
                flat = data.reshape(samples.rows, -1).astype(leaf.dtype, copy=False)
                values = leaf[row].reshape(-1)
                alike &= np.all((flat == values) | ((flat != flat) & (values != values)), axis=1)
            where = np.flatnonzero(alike)
            numbers += where[:1].tolist()
    if len(numbers) == len(rows):
        return _join("row", sorted(numbers))
    return _join("row", rows) + " of the batch"


def _join(word: str, numbers: list[int]) -> str:
    texts = [str(number) for number in numbers]
    if len(texts) == 1:
        return f"{word} {texts[0]}"
    return f"{word}s {', '.join(texts[:-1])} and {texts[-1]}"


def check_jumps(evidence: Evidence) -> list[Finding]:
    """Steps at which the loss jumped, and the rows that made it."""
    jumps = loss_jumps(evidence)
    if not jumps:
        return []
    step, loss, before = jumps[0]
    sentence = f"the loss jumped at step {step}, from about {before:.4g} to {loss:.4g}"
    facts: dict[str, Any] = {"loss": loss, "before": before, "jumps": [n for n, _, _ in jumps]}
    rate = _rate_change(evidence, step)
    state = evidence.state(step, f"the rows of step {step}")
    losses = None if state is None else _row_losses(state)
    if losses is not None and state is not None:
        text, facts["rows_of_batch"] = _makers(evidence, state, losses)
        sentence += text
    if rate is not None:
        sentence += f"; the learning rate went from {rate[0]:.3g} to {rate[1]:.3g} before it"
        facts["rates"] = rate
    if len(jumps) > 1:
        sentence += f"; it jumped {len(jumps) - 1} times more, at step {jumps[1][0]} first"
    return [Finding("loss jump", sentence, step, evidence.command(step), facts)]


def _makers(evidence: Evidence, state: PastState, losses: np.ndarray) -> tuple[str, list[int]]:
    finite = np.where(np.isfinite(losses), np.maximum(losses, 0), np.inf)
    order = np.argsort(-finite, kind="stable")
    total = float(finite.sum())
    for count in range(1, _MOST_NAMED + 1):
        share = 1.0 if math.isinf(total) else float(finite[order[:count]].sum()) / max(total, 1e-30)
        is_much = share >= _MADE_BY_FEW and share > 2 * count / len(losses)
        if is_much and (count == _MOST_NAMED or finite[order[count]] < finite[order[0]] / 2):
            rows = order[:count].tolist()
            return f": {_row_names(evidence, state, rows)} made {share:.0%} of it", rows
    return f", and all {len(losses)} rows of the batch have a part in it", []


def _rate_change(evidence: Evidence, step: int) -> tuple[float, float] | None:
    rates = [(line.step, line.rate) for line in evidence.run.steps if line.rate is not None]
    for (_, before), (number, after) in itertools.pairwise(rates):
        if step - 20 <= number <= step and after > 2 * before:
            return before, after
    return None


# ------------------------------------------------------------------ NaN


def check_nan(evidence: Evidence) -> list[Finding]:
    """The first step whose loss is not finite, and where it comes from."""
    step = first_nan(evidence)
    if step is None:
        return []
    value = evidence.losses[int(np.flatnonzero(evidence.steps == step)[0])]
    finite = evidence.losses[(evidence.steps < step) & np.isfinite(evidence.losses)]
    before = f" ({finite[-1]:.4g} the step before)" if len(finite) else ""
    sentence = f"the loss is {value} from step {step} on{before}"
    state = evidence.state(step, f"where the {value} of step {step} comes from")
    if state is not None:
        sentence += _origin(evidence, state)
    return [Finding("nan", sentence, step, evidence.command(step), {"loss": str(value)})]


def _origin(evidence: Evidence, state: PastState) -> str:
    bad = _bad_rows(state)
    if bad:
        return f": {_row_names(evidence, state, bad[:_MOST_NAMED])} of its batch is not finite"
    if state.model is not None:
        weights = [w.path for w in state.model.weights if not _is_finite(w)]
        if weights:
            return (
                f": {len(weights)} weights are not finite before it, {weights[0]} first; the step "
                f"before made them so, with {rate_text(evidence)}"
            )
        largest = max(state.model.weights, key=_largest, default=None)
        if largest is not None and _largest(largest) > 1e6:
            return (
                f": weights have grown out of bounds, {largest.path} up to {_largest(largest):.3g}"
            )
    losses = _row_losses(state)
    if losses is not None and 0 < np.sum(~np.isfinite(losses)) <= _MOST_NAMED:
        rows = np.flatnonzero(~np.isfinite(losses)).tolist()
        return f": the loss of {_row_names(evidence, state, rows)} is"
    return ": its batch and the weights before it are finite, so an operation of the step made it"


def _is_finite(weight: Any) -> bool:
    value = array_of(weight)
    return value.dtype.kind not in "fc" or bool(np.all(np.isfinite(value)))


def _largest(weight: Any) -> float:
    value = array_of(weight)
    return float(np.abs(value).max()) if value.size and value.dtype.kind == "f" else 0.0


def _bad_rows(state: PastState) -> list[int]:
    rows: set[int] = set()
    for leaf in nest.flatten(state.batches):
        array = None if leaf is None else array_of(leaf)
        if array is None or not array.ndim or array.dtype.kind not in "fc":
            continue
        bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
        rows |= set(np.flatnonzero(bad).tolist())
    return sorted(rows)


# ------------------------------------------------------------------ gradients and updates


def check_gradients(evidence: Evidence, figures: list[StepFigures]) -> list[Finding]:
    """A step whose gradient is many times as long as is usual."""
    finite = [f for f in figures if math.isfinite(f.gradient)]
    if len(finite) < 3:
        return []
    middle = float(np.median([f.gradient for f in finite]))
    top = max(finite, key=lambda f: f.gradient)
    # towards the end of training the usual ones are small, so those of the beginning count, too
    usual = max(middle, finite[0].gradient)
    if top.step == 1 or not top.gradient > _GRADIENT_SPIKE * usual:
        return []
    sentence = (
        f"the gradient of step {top.step} has length {top.gradient:.3g}, "
        f"{top.gradient / max(middle, 1e-30):.3g} times the median of {len(finite)} steps"
    )
    facts = {"gradient": top.gradient, "median": middle}
    return [Finding("gradient", sentence, top.step, evidence.command(top.step), facts)]


def check_updates(evidence: Evidence, figures: list[StepFigures]) -> list[Finding]:
    """Weights that hardly move while others do, or all of them, and nothing is learnt."""
    if len(figures) < 2:
        return []
    highest: dict[str, float] = {}
    for each in figures[1:]:
        for path, ratio in each.ratios.items():
            highest[path] = max(highest.get(path, 0.0), ratio)
    still = [path for path, ratio in highest.items() if ratio < _SMALL_UPDATE]
    moves = any(ratio > _USUAL_UPDATE for ratio in highest.values())
    step = figures[-1].step
    if still and moves and evidence.losses[-1] > 1e-6:
        others_text = f" and {len(still) - 1} more" if len(still) > 1 else ""
        sentence = (
            f"updates of {still[0]}{others_text} are below {_SMALL_UPDATE:.0e} of the weights "
            f"(at most {highest[still[0]]:.2g} in {len(figures) - 1} steps), so it does not learn"
        )
        facts = {"weights": {path: highest[path] for path in still}}
        return [Finding("small updates", sentence, step, evidence.command(step), facts)]
    fall = slow_fall(evidence)
    usual = float(np.median([each.ratio for each in figures]))
    if fall is not None and fall > -0.02 and usual < _SLOW_UPDATE:
        sentence = (
            f"the loss fell by {max(fall, 0):.1%} in {len(evidence.losses)} steps, from "
            f"{beginning(evidence):.4g}, and an update is {usual:.1e} of the weights: "
            f"{rate_text(evidence)} is too low"
        )
        figures_of_all = {"fall": fall, "update": usual}
        return [Finding("low rate", sentence, None, evidence.command(step), figures_of_all)]
    return []
