"""What the data tells: scales, classes, the order, rows of both sets, labels beside their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trainkit.runs.diagnosis.evidence import Evidence, Samples
from trainkit.runs.diagnosis.findings import Finding

if TYPE_CHECKING:
    from trainkit.runs.journaled_run import JournaledRun

_LARGE_INPUT = 20.0
_SCALE_RATIO = 1000.0
_SCALING_LAYERS = (
    "Embedding", "Rescaling", "Normalization", "BatchNormalization", "UnitNormalization",
    "LayerNormalization", "Hashing", "CategoryEncoding", "Discretization",
)  # fmt: skip
_LARGEST_SHARE, _CLASS_RATIO = 0.8, 20.0
_BETWEEN_BATCHES = 0.3
_LEAST_BATCHES = 5
_LEAST_DUPLICATES, _DUPLICATE_SHARE = 3, 0.03
_MOST_ROWS = 200_000
_PROBE_ROWS, _PROBE_FEATURES = 2000, 128
_MOST_SHIFT = 3
_PROBE_GAIN = 0.2


def _python(run: JournaledRun) -> str:
    return f"tk.runs.open({str(run.folder)!r}).at(1).batch"


def _features(samples: Samples) -> np.ndarray:
    """The inputs as float64 of shape (rows, features)."""
    parts = [leaf.reshape(len(leaf), -1).astype(np.float64) for leaf in samples.leaves]
    return np.concatenate(parts, axis=1)


# ------------------------------------------------------------------ scale


def check_scale(evidence: Evidence) -> list[Finding]:
    """Inputs that are large, or whose features have scales that are far apart."""
    samples = evidence.training
    if samples is None or _scales_itself(evidence):
        return []
    kinds = {leaf.dtype.kind for leaf in samples.leaves}
    x = _features(samples.thinned(_PROBE_ROWS))
    x = x[:, np.all(np.isfinite(x), axis=0)]
    if not x.size:
        return []
    size = np.sqrt(np.mean(x**2, axis=0))
    spread = x.std(axis=0)
    rms = float(np.sqrt(np.mean(x**2)))
    low, high = float(x.min()), float(x.max())
    if rms > _LARGE_INPUT and not (kinds <= set("iu") and _first_is(evidence, "Embedding")):
        sentence = (
            f"the inputs are not scaled: they go from {low:.4g} to {high:.4g}, where networks "
            f"expect about -1 to 1; their root mean square is {rms:.3g}"
        )
        facts = {"low": low, "high": high, "rms": rms}
        return [Finding("scale", sentence, None, _python(evidence.run), facts)]
    varying = spread[spread > 0]
    if len(varying) > 1 and len(samples.leaves) == 1 and samples.leaves[0].ndim == 2:
        ratio = float(varying.max() / varying.min())
        if ratio > _SCALE_RATIO and float(size.max()) > 10:
            sentence = (
                f"the inputs are not scaled: feature {int(np.argmax(spread))} spreads "
                f"{ratio:.3g} times as far as feature {_smallest(spread)}"
            )
            return [Finding("scale", sentence, None, _python(evidence.run), {"ratio": ratio})]
    return []


def _smallest(spread: np.ndarray) -> int:
    return int(np.argmin(np.where(spread > 0, spread, np.inf)))


def _layer_classes(evidence: Evidence) -> list[str]:
    layers = evidence.header_part("model").get("layers")
    listed = layers if isinstance(layers, list) else []
    return [str(item[1]) for item in listed if isinstance(item, list) and len(item) > 1]


def _first_is(evidence: Evidence, name: str) -> bool:
    return name in [c for c in _layer_classes(evidence) if c != "InputLayer"][:2]


def _scales_itself(evidence: Evidence) -> bool:
    first = [c for c in _layer_classes(evidence) if c not in ("InputLayer", "Reshape", "Flatten")]
    return any(name in first[:1] for name in _SCALING_LAYERS)


# ------------------------------------------------------------------ classes


def check_imbalance(evidence: Evidence) -> list[Finding]:
    """One class has nearly all rows, or another hardly any, and no weights even it out."""
    samples = evidence.training
    if samples is None or samples.labels is None:
        return []
    if evidence.header_part("fit").get("has_class_weight") or _has_weights(evidence):
        return []
    classes, counts = np.unique(samples.labels, return_counts=True)
    if len(classes) < 2:
        only = f"all {samples.rows} rows are of class {classes[0]}"
        return [Finding("imbalance", only, None, _python(evidence.run))]
    share = counts.max() / counts.sum()
    if share < _LARGEST_SHARE and counts.max() < _CLASS_RATIO * counts.min():
        return []
    large, small = int(np.argmax(counts)), int(np.argmin(counts))
    sentence = (
        f"the classes are unbalanced: {share:.1%} of the {samples.rows} rows are of class "
        f"{classes[large]}, {counts[small]} of class {classes[small]}; "
        f"fit(class_weight=...) evens that out"
    )
    facts = {"counts": {int(c): int(n) for c, n in zip(classes[:100], counts, strict=False)}}
    return [Finding("imbalance", sentence, None, _python(evidence.run), facts)]


def _has_weights(evidence: Evidence) -> bool:
    structure = evidence.header_part("data").get("structure")
    parts = structure.get("tuple") if isinstance(structure, dict) else None
    return isinstance(parts, list) and len(parts) > 2 and parts[2] is not None


# ------------------------------------------------------------------ order


def check_order(evidence: Evidence) -> list[Finding]:
    """Rows are not shuffled, and neighbours have alike targets."""
    if evidence.header_part("fit").get("shuffle") is not False:
        return _check_feed_order(evidence)
    samples = evidence.training
    size = evidence.header_part("fit").get("batch_size") or 32
    if samples is None or type(size) is not int or size < 1:
        return _check_feed_order(evidence)
    targets = _target_columns(samples)
    if targets is None:
        return []
    batches = [targets[i : i + size] for i in range(0, len(targets) - size + 1, size)]
    return _order_finding(evidence, batches, "fit(shuffle=True)")


def _check_feed_order(evidence: Evidence) -> list[Finding]:
    """The order of what is no array, by batches that are read again."""
    run = evidence.run
    if evidence.header_part("data").get("kind") == "ArrayFeed" or not _repeats(run):
        return []
    ends = evidence.epoch_ends()
    sampled_steps = np.unique(np.linspace(1, ends[0][0], 8).astype(int)).tolist() if ends else []
    batches = []
    for step in sampled_steps:
        state = evidence.state(step, "the order of the data")
        if state is None or not isinstance(state.batch, tuple) or len(state.batch) < 2:
            return []
        target = np.asarray(state.batch[1])
        batches.append(target.reshape(len(target), -1).astype(np.float64))
    if batches and len({batch.shape[1] for batch in batches}) == 1:
        columns = _one_hot(np.concatenate(batches), evidence)
        bounds = np.cumsum([len(batch) for batch in batches])[:-1]
        return _order_finding(evidence, np.split(columns, bounds), "Dataset.shuffle")
    return []


def _repeats(run: JournaledRun) -> bool:
    """Whether a second epoch has the batches of the first in the same order, as far as is known."""
    first: dict[int, str] = {}
    begins: dict[int, int] = {}
    same = other = 0
    for line in run.steps:
        begin = begins.setdefault(line.epoch, line.step)
        if line.batch is None:
            continue
        if line.epoch == run.steps[0].epoch:
            first[line.step - begin] = line.batch
        elif line.step - begin in first:
            same += first[line.step - begin] == line.batch
            other += first[line.step - begin] != line.batch
    return not other and (same > 0 or len(begins) == 1)


def _one_hot(columns: np.ndarray, evidence: Evidence) -> np.ndarray:
    if columns.shape[1] == 1 and "crossentropy" in evidence.loss_name:
        classes = np.unique(columns)
        return (columns == classes[None, :]).astype(np.float64)
    return columns


def _target_columns(samples: Samples) -> np.ndarray | None:
    if samples.labels is not None:
        classes = np.unique(samples.labels)
        return (samples.labels[:, None] == classes[None, :]).astype(np.float64)
    target = np.asarray(samples.targets) if hasattr(samples.targets, "dtype") else None
    if target is None or target.dtype.kind not in "biuf" or target.ndim == 0:
        return None
    return target.reshape(len(target), -1).astype(np.float64)[:, :64]


def _order_finding(evidence: Evidence, batches: list[np.ndarray], mend: str) -> list[Finding]:
    """By how much of the spread of targets lies between batches: 1 / rows for shuffled ones."""
    if len(batches) < _LEAST_BATCHES or not all(np.all(np.isfinite(b)) for b in batches):
        return []
    targets = np.concatenate(batches)
    total = float(targets.var(axis=0).sum())
    means = np.stack([batch.mean(axis=0) for batch in batches])
    weights = np.array([len(batch) for batch in batches], np.float64)
    offsets = (means - targets.mean(axis=0)) ** 2
    between = float((offsets * weights[:, None]).sum() / weights.sum())
    expected = len(batches) / len(targets)
    if not total or between / total < max(_BETWEEN_BATCHES, 4 * expected):
        return []
    sentence = (
        f"the data is not shuffled: {between / total:.0%} of what differs between targets lies "
        f"between batches, where {expected:.0%} would by chance; {mend} mixes them"
    )
    facts = {"between": between / total, "by_chance": expected}
    return [Finding("order", sentence, 1, _python(evidence.run), facts)]


# ------------------------------------------------------------------ rows of both sets


def check_duplicates(evidence: Evidence) -> list[Finding]:
    """Rows of the validation that are among those of training."""
    training, validation = evidence.training, evidence.validation
    if training is None or validation is None or training.rows > _MOST_ROWS:
        return []
    if [leaf.shape[1:] for leaf in training.leaves] != [
        leaf.shape[1:] for leaf in validation.leaves
    ]:
        return []
    rows, others = row_bytes(training), row_bytes(validation)
    numbers = {row: i for i, row in reversed(list(enumerate(rows)))}
    pairs = [(i, numbers[row]) for i, row in enumerate(others) if row in numbers]
    usual = 1 - len(numbers) / len(rows)  # few values, such as booleans, meet by chance
    share = len(pairs) / len(others)
    if len(pairs) < _LEAST_DUPLICATES or share < _DUPLICATE_SHARE + 2 * usual:
        return []
    examples = ", ".join(f"{i} is {j}" for i, j in pairs[:3])
    sentence = (
        f"{len(pairs)} of {len(others)} rows of the validation ({share:.0%}) are among those of "
        f"training (row {examples}), so it looks better than it is"
    )
    facts = {"share": share, "pairs": pairs[:100]}
    return [Finding("duplicates", sentence, None, _python(evidence.run), facts)]


def row_bytes(samples: Samples) -> list[bytes]:
    """The bytes of each row of inputs."""
    columns = [np.ascontiguousarray(leaf).reshape(len(leaf), -1) for leaf in samples.leaves]
    return [b"".join(column[i].tobytes() for column in columns) for i in range(samples.rows)]


# ------------------------------------------------------------------ labels


def check_shifted_rows(evidence: Evidence) -> list[Finding]:
    """Labels fit the inputs of a row before or after much better than those of their own."""
    samples = evidence.training
    if samples is None:
        return []
    targets = _target_columns(samples)
    if targets is None or samples.rows < 50 or not np.all(np.isfinite(targets)):
        return []
    x, y = _features_for_probe(samples), targets[:_PROBE_ROWS]
    shifts = [0, *(s * sign for s in range(1, _MOST_SHIFT + 1) for sign in (1, -1))]
    scores = {shift: _probe(x, np.roll(y, -shift, axis=0), samples) for shift in shifts}
    best = max(scores, key=lambda shift: scores[shift])
    usual = float(targets.mean(axis=0).max()) if samples.labels is not None else 0.0
    if best == 0 or scores[best] - max(scores[0], usual) < _PROBE_GAIN:
        return []
    score_unit = "correct" if samples.labels is not None else "of the variance"
    side = "before" if best > 0 else "after"
    sentence = (
        f"the labels are shifted by {abs(best)} row{'s' if abs(best) > 1 else ''}: a linear model "
        f"predicts them from the inputs {abs(best)} {side} with {scores[best]:.0%} {score_unit}, "
        f"from their own with {max(scores[0], 0):.0%}"
    )
    facts = {"shift": best, "scores": {str(s): value for s, value in scores.items()}}
    return [Finding("labels", sentence, None, _python(evidence.run), facts)]


def _features_for_probe(samples: Samples) -> np.ndarray:
    x = _features(samples.first(_PROBE_ROWS))
    x = np.nan_to_num(x, posinf=0, neginf=0)
    if x.shape[1] > _PROBE_FEATURES:
        rng = np.random.default_rng(0)
        x = x @ rng.normal(size=(x.shape[1], _PROBE_FEATURES))
    spread = x.std(axis=0)
    scaled = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1)
    # squares let a linear model see what lies around zero
    return np.concatenate([scaled, scaled**2, np.ones((len(x), 1))], axis=1)


def _probe(x: np.ndarray, y: np.ndarray, samples: Samples) -> float:
    """How well ridge regression on two thirds of the rows does on the others."""
    test = np.arange(len(x)) % 3 == 0
    a, b = x[~test], y[~test]
    weights = np.linalg.solve(a.T @ a + 1.0 * np.eye(x.shape[1]), a.T @ b)
    guesses, truth = x[test] @ weights, y[test]
    if samples.labels is not None:
        return float(np.mean(guesses.argmax(axis=1) == truth.argmax(axis=1)))
    total = float(((truth - b.mean(axis=0)) ** 2).sum())
    return 1 - float(((truth - guesses) ** 2).sum()) / total if total else 0.0
