"""What a model's layers give for the data: dead units, batch statistics, classes that fell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.graph.tracing.python_calls import functions_run_eagerly, run_functions_eagerly
from trainkit.journal.state_digests import array_of
from trainkit.profiler.instrumentation import Point, exchanged, function_at, put_back
from trainkit.runs.diagnosis.evidence import Evidence, Samples
from trainkit.runs.diagnosis.findings import Finding
from trainkit.runs.diagnosis.journal_checks import training_fell, validation_fall
from trainkit.runs.past_state import PastState

_LAYER = Point("layers.base.layer", "Layer.__call__", "layer", lambda args: args[0].name)
_ROWS = 512
_DEAD_SHARE, _LEAST_DEAD = 0.4, 3
_DRIFT = 0.5
_DRIFT_VARIANCE = 4.0
_DRIFT_LOSS = 1.3
_CLASS_FALL = 0.05
_MOST_CLASSES = 3
_LEAST_VALIDATION = 20

Watch = Callable[[Any, Any, Any], Any]


def _call(model: Any, inputs: Any, before: Watch | None, after: Watch | None) -> Any:
    """The outputs of a model in inference, with what is called before and after each layer."""

    def make(call: Callable[..., Any]) -> Any:
        def run(layer: Any, *args: Any, **kwargs: Any) -> Any:
            if before is not None and args:
                before(layer, args[0], None)
            result = call(layer, *args, **kwargs)
            if after is not None:
                after(layer, args[0] if args else None, result)
            return result

        return run

    eagerly = functions_run_eagerly()
    undo = exchanged(function_at(_LAYER), make)
    try:
        run_functions_eagerly(True)
        with np.errstate(all="ignore"):
            return model(inputs, training=False)
    finally:
        run_functions_eagerly(eagerly)
        put_back([undo])


# ------------------------------------------------------------------ dead units


def _is_rectified(layer: Any) -> bool:
    activation = getattr(layer, "activation", None)
    name = getattr(activation, "__name__", type(activation).__name__)
    return str(name).lower() in ("relu", "relu6") or type(layer).__name__ == "ReLU"


def dead_shares(model: Any, samples: Samples) -> dict[str, tuple[int, int]]:
    """Of each rectified layer, how many units give 0 for all rows, and how many it has."""
    counts: dict[str, tuple[int, int]] = {}

    def look(layer: Any, inputs: Any, result: Any) -> None:
        if not _is_rectified(layer):
            return
        array = array_of(result)
        units = array.reshape(-1, array.shape[-1])
        counts[layer.name] = int(np.sum(np.all(units == 0, axis=0))), units.shape[1]

    _call(model, samples.inputs, None, look)
    return counts


def check_dead_units(evidence: Evidence) -> list[Finding]:
    """Layers of which a large share of units gives 0 whatever the input, and since when."""
    state, samples = evidence.end_state, evidence.training
    if state is None or samples is None:
        return []
    samples = samples.thinned(_ROWS)
    counts = dead_shares(state.model, samples)
    dead = {n: c for n, c in counts.items() if c[0] >= max(_LEAST_DEAD, _DEAD_SHARE * c[1])}
    if not dead:
        return []
    name = max(dead, key=lambda n: dead[n][0] / dead[n][1])
    count, units = dead[name]
    since = _dead_since(evidence, samples, name, count)
    others_text = f", and {len(dead) - 1} other layers have such units" if len(dead) > 1 else ""
    sentence = (
        f"{count} of the {units} units of {name} ({count / units:.0%}) are dead{since}: they give "
        f"0 for all of {samples.rows} rows{others_text}"
    )
    step = evidence.run.last_step
    facts = {"layers": {n: {"dead": c, "units": u} for n, (c, u) in dead.items()}}
    return [Finding("dead units", sentence, None, evidence.command(step), facts)]


def _dead_since(evidence: Evidence, samples: Samples, name: str, count: int) -> str:
    """The first epoch at whose end most of them were dead, in words; found by halving."""

    def is_dead(step: int) -> bool | None:
        state = evidence.state(step, "since when units are dead")
        if state is None:
            return None
        number, _ = dead_shares(state.model, samples).get(name, (0, 0))
        return 2 * number >= count

    at_first = is_dead(1)
    if at_first is None:
        return ""
    if at_first:
        return " from the beginning"
    ends, last = evidence.epoch_ends(), evidence.last_good_step
    ends = [(min(step, last - 1), e) for step, e in ends if e <= _epoch_of(evidence, last)]
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high) // 2
        answer = is_dead(ends[middle][0] + 1)
        if answer is None:
            return ""
        low, high = (low, middle) if answer else (middle + 1, high)
    return f" since epoch {ends[low][1] + 1}" if ends else ""


def _epoch_of(evidence: Evidence, step: int) -> int:
    line = evidence.run.journal.at(step)
    return 0 if line is None else line.epoch


# ------------------------------------------------------------------ batch statistics


def _loss(model: Any, samples: Samples) -> float:
    logs = model.evaluate(samples.inputs, samples.targets, verbose=0, return_dict=True)
    return float(logs["loss"])


def check_batch_statistics(evidence: Evidence) -> list[Finding]:
    """Moving statistics of BatchNormalization that are not the data's, to the loss's harm."""
    state, samples = evidence.end_state, evidence.training
    if state is None or samples is None or samples.targets is None:
        return []
    model: Any = state.model
    layers = model._flatten_layers(include_self=False)
    if not any(_has_statistics(layer) for layer in layers):
        return []
    samples = samples.thinned(_ROWS)
    before = _loss(state.model, samples)
    offsets: dict[str, tuple[float, float]] = {}

    def mend(layer: Any, inputs: Any, result: Any) -> None:
        if _has_statistics(layer):
            offsets[layer.name] = _offsets_of(layer, array_of(inputs))

    with state._own_random():
        _call(state.model, samples.inputs, mend, None)
    after = _loss(state.model, samples)
    name, (shift, ratio) = max(offsets.items(), key=lambda item: item[1][0] + np.log(item[1][1]))
    if not (shift > _DRIFT or ratio > _DRIFT_VARIANCE) or not before > _DRIFT_LOSS * after:
        return []
    sentence = (
        f"the moving statistics of {name} are not those of the data: the mean is off by "
        f"{shift:.2g} standard deviations, the variance by a factor of {ratio:.2g}; with those of "
        f"the data the loss in inference is {after:.4g} instead of {before:.4g}"
    )
    facts = {"shift": shift, "ratio": ratio, "loss": before, "loss_with_own": after}
    command = evidence.command(evidence.run.last_step)
    return [Finding("batch statistics", sentence, None, command, facts)]


def _has_statistics(layer: Any) -> bool:
    return all(getattr(layer, n, None) is not None for n in ("moving_mean", "moving_variance"))


def _offsets_of(layer: Any, array: np.ndarray) -> tuple[float, float]:
    """How far the moving statistics are off, which are then set to those of the inputs."""
    axis = layer.axis if isinstance(layer.axis, int) else -1
    channels = np.moveaxis(array.astype(np.float64), axis, -1).reshape(-1, array.shape[axis])
    mean, variance = channels.mean(axis=0), channels.var(axis=0)
    moving_mean, moving = layer.moving_mean.numpy(), layer.moving_variance.numpy()
    deviation = np.sqrt(variance + layer.epsilon)
    shift = float(np.median(np.abs(moving_mean - mean) / deviation))
    ratio = (moving + layer.epsilon) / (variance + layer.epsilon)
    layer.moving_mean.assign(mean.astype(moving_mean.dtype))
    layer.moving_variance.assign(variance.astype(moving.dtype))
    return shift, float(np.median(np.maximum(ratio, 1 / np.maximum(ratio, 1e-12))))


# ------------------------------------------------------------------ the validation


def _guesses(evidence: Evidence, state: PastState, samples: Samples) -> np.ndarray | None:
    model: Any = state.model
    with state._own_random():
        return evidence.classes_of(model.predict(samples.inputs, verbose=0))


def check_validation(evidence: Evidence) -> list[Finding]:
    """A validation that got worse, and the classes that did."""
    fall = validation_fall(evidence)
    if fall is None:
        return []
    name, best_epoch, best, last_epoch, last = fall
    sentence = (
        f"{name} was best in epoch {best_epoch + 1} with {best:.4g} and is {last:.4g} in epoch "
        f"{last_epoch + 1}"
    )
    if training_fell(evidence, best_epoch):
        sentence += ", while the loss of training went on falling"
    ends = {epoch: step for step, epoch in evidence.epoch_ends()}
    step = ends.get(best_epoch, 1)
    facts: dict[str, Any] = {"metric": name, "best": best, "last": last, "epoch": best_epoch + 1}
    text, classes = _fallen_classes(evidence, step + 1)
    facts["classes"] = classes
    sentence += text
    command = evidence.command(step + 1)
    return [Finding("validation", sentence, step, command, facts)]


def _fallen_classes(evidence: Evidence, best_step: int) -> tuple[str, list[int]]:
    validation = evidence.validation
    if validation is None:
        if "validation" not in evidence.run.header:
            evidence.lack("which classes fell: the data of the validation is not stored")
        return "", []
    if validation.labels is None or evidence.end_state is None:
        return "", []
    state = evidence.state(best_step, "which classes fell")
    if state is None:
        return "", []
    then, now = (_guesses(evidence, s, validation) for s in (state, evidence.end_state))
    if then is None or now is None:
        return "", []
    falls = []
    for label in np.unique(validation.labels).tolist():
        rows = validation.labels == label
        a, b = float(np.mean(then[rows] == label)), float(np.mean(now[rows] == label))
        falls.append((a - b, label, a, b))
    falls = [fall for fall in sorted(falls, reverse=True) if fall[0] > _CLASS_FALL]
    if not falls:
        return "; no class has fewer right, so it is sure of what is wrong", []
    texts = [f"{label} from {a:.0%} to {b:.0%}" for _, label, a, b in falls[:_MOST_CLASSES]]
    return f"; right of class {', '.join(texts)}", [label for _, label, _, _ in falls]


def check_label_shift(evidence: Evidence) -> list[Finding]:
    """Labels of the validation that are another numbering, or of other rows, than in training."""
    state, validation, training = evidence.end_state, evidence.validation, evidence.training
    if state is None or validation is None or validation.labels is None or training is None:
        return []
    if training.labels is None or validation.rows < _LEAST_VALIDATION:
        return []
    guesses = _guesses(evidence, state, validation)
    if guesses is None:
        return []
    labels, count = validation.labels, int(max(training.labels.max(), validation.labels.max())) + 1
    plain = float(np.mean(guesses == labels))
    shifts = {k: float(np.mean((guesses + k) % count == labels)) for k in range(1, count)}
    rolls = {k: float(np.mean(np.roll(guesses, k) == labels)) for k in (-2, -1, 1, 2)}
    best = max(shifts, key=lambda k: shifts[k], default=0)
    roll = max(rolls, key=lambda k: rolls[k])
    options = [
        (shifts.get(best, 0.0), f"{best} were added to the classes", {"classes": best}),
        (rolls[roll], f"they stood {abs(roll)} rows further", {"rows": roll}),
    ]
    score, shift_text, facts = max(options, key=lambda option: option[0])
    if score < plain + 0.3 or (count == 2 and score < 0.8):
        return []
    sentence = (
        f"the labels of the validation are shifted: {plain:.0%} are guessed right, and "
        f"{score:.0%} if {shift_text} of the guesses"
    )
    command = evidence.command(evidence.run.last_step)
    return [Finding("labels", sentence, None, command, {"right": plain, "shifted": score, **facts})]
