"""Likely mistakes of a program, looked for once, on the first batch that a model is trained on.

What can't be computed at all is an error where it happens. Here is what can, and means something
else than was meant. Each check asks for signs that a right program does not give.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.eval_shape import ShapeTrace, result_specs, run_under
from trainkit.core.dispatch.facets import AXIS, CONTRACTION, ELEMENTWISE, PRODUCT, VIEW, WINDOW
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, is_tensor
from trainkit.core.trackable import set_silently
from trainkit.layers import Dense, normalization
from trainkit.losses import Loss, LossFunctionWrapper, crossentropy
from trainkit.metrics import Accuracy, BinaryAccuracy

_BINARY = (crossentropy.binary_crossentropy, crossentropy.binary_focal_crossentropy)
_CATEGORICAL = (
    crossentropy.categorical_crossentropy,
    crossentropy.categorical_focal_crossentropy,
    crossentropy.sparse_categorical_crossentropy,
)
_NORMALIZATIONS = (
    normalization.BatchNormalization,
    normalization.GroupNormalization,
    normalization.LayerNormalization,
    normalization.RMSNormalization,
)


class FirstBatchWarning(UserWarning):
    """A likely mistake of a program, seen on the first batch of training."""


class _FirstBatchSwitch:
    enabled = True


def enable_first_batch_checks(enabled: bool = True) -> None:
    """Let `fit` look for likely mistakes on the first batch (True, as it is), or not (False).

    Args:
        enabled: whether it does.
    """
    _FirstBatchSwitch.enabled = bool(enabled)


def first_batch_checks_enabled() -> bool:
    """Whether `fit` looks for likely mistakes on the first batch."""
    return _FirstBatchSwitch.enabled


def look(model: Any, tape: Any, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> None:
    """Warn of likely mistakes, each in a sentence with its mend; once after each `compile`.

    Args:
        model: compiled, with the loss and metrics made.
        tape: of the call and the loss, before gradients are taken.
        x: inputs of the batch.
        y: targets.
        y_pred: outputs.
        sample_weight: weights, or `None`.
    """
    if trace_state.THREAD.traces and not _have_values(x, y, y_pred):
        return  # shapes alone; the step before was run with values
    set_silently(model, _unseen=False)
    if not _FirstBatchSwitch.enabled or not _have_values(x, y, y_pred):
        return
    with trace_state.silence():
        texts = [*_of_images(model, tape, x), *_of_weights(model, tape)]
        texts += [text for y in nest.flatten(y_pred) for text in _of_one_class(model, y, tape)]
        if model._compile_metrics is not None:
            model._compile_metrics.build(y, y_pred)
        losses = model._compile_loss.each(y, y_pred) if model._compile_loss is not None else []
        for path, loss, target, output in losses:
            texts += _of_loss(loss, target, output, tape, sample_weight is not None)
            texts += _of_metrics(model, path, loss, target)
    for text in dict.fromkeys(texts):
        warnings.warn(
            f"{text} (tk.config.enable_first_batch_checks(False) turns such checks off.)",
            FirstBatchWarning,
            stacklevel=4,
        )


def _have_values(*batch: Any) -> bool:
    """Whether all tensors are plain ones, with numbers."""
    return all(type(leaf) is Tensor for leaf in nest.flatten(batch) if leaf is not None)


# ------------------------------------------------------------------ inputs

_MOST_OF_SCALED = 30.0  # values of scaled inputs stay far below


def _of_images(model: Any, tape: Any, x: Any) -> Iterator[str]:
    """Images whose values from 0 to 255 are what the first weights are multiplied by."""
    if not any(_is_image(leaf) for leaf in nest.flatten(x) if leaf is not None):
        return
    if any(isinstance(layer, _NORMALIZATIONS) for layer in model.submodules):
        return
    for data in _multiply(tape):
        values = np.asarray(data)
        if values.size and values.min() >= 0 and _MOST_OF_SCALED < values.max() <= 255:
            yield (
                f"model {model.name!r} multiplies its first weights by images with values up to "
                f"{values.max():g}, and weights are made for values near 0 or 1: begin with "
                "layers.Rescaling(1 / 255), or divide the images by 255."
            )
            return


def _is_image(x: Any) -> bool:
    """Whether a batch has the shape of images, (n, height, width, channels) or gray without it."""
    shape = tuple(x.shape)
    if len(shape) == 4 and 1 in (shape[-1] in (1, 3, 4), shape[1] in (1, 3, 4)):
        sides = shape[1:3] if shape[-1] in (1, 3, 4) else shape[2:]
        return min(sides) >= 8
    return len(shape) == 3 and shape[1] == shape[2] and shape[1] >= 8


def _multiply(tape: Any) -> Iterator[Tensor]:
    """What products and convolutions with weights take that depends on no weight itself."""
    for entry in tape.tracked.values():
        facets = getattr(entry[0], "facets", None) if entry else None
        if facets is not None and facets.semantics in (PRODUCT, CONTRACTION, WINDOW):
            for operand in entry[2:]:
                if (
                    type(operand) is Tensor
                    and len(operand.shape) > 1
                    and operand not in tape.tracked
                ):
                    if operand.dtype.is_floating:
                        yield operand


# ------------------------------------------------------------------ weights and outputs


def _of_weights(model: Any, tape: Any) -> Iterator[str]:
    """Weights that are all frozen, and an optimizer that has trained another model."""
    trained = model.trainable_variables
    if not trained and model.weights and not tape.watched_variables():
        yield (
            f"model {model.name!r} has {len(model.weights)} weights, and none of them is "
            "trainable, so that training changes nothing: set trainable = True on the layers to "
            "train, and compile again."
        )
    optimizer = model.optimizer
    if not trained or optimizer is None or not optimizer.built:
        return
    weight_ids = {id(weight) for _, weight, _ in optimizer.slot_variables()}
    if weight_ids and weight_ids.isdisjoint(map(id, trained)):
        yield (
            f"the optimizer {optimizer.name!r} of model {model.name!r} has trained "
            f"{int(optimizer.iterations)} steps of other weights, and goes on with its step count "
            "and learning rate: compile each model with an optimizer of its own, such as "
            f"{type(optimizer).__name__}.from_config(optimizer.get_config())."
        )


def _of_one_class(model: Any, y: Any, tape: Any) -> Iterator[str]:
    """The softmax over an axis of size 1; a `Dense` warns of its own when it is made."""
    if not is_tensor(y) or not y.shape or y.shape[-1] != 1:
        return
    entry = tape.tracked.get(y)
    if not entry or getattr(getattr(entry[0], "facets", None), "semantics", None) is not AXIS:
        return
    if (np.asarray(y) == 1).all() and not any(
        isinstance(layer, Dense) and layer.has_one_class() for layer in model.submodules
    ):
        yield (
            f"the outputs of model {model.name!r}, of shape {tuple(y.shape)}, are all 1, as the "
            "softmax over 1 unit is whatever the input: use a sigmoid for two classes, or give "
            "the last layer a unit for each class."
        )


# ------------------------------------------------------------------ losses


def _of_loss(loss: Any, target: Any, output: Any, tape: Any, weighted: bool) -> Iterator[str]:
    if not (is_tensor(target) and is_tensor(output)):
        return
    function = getattr(loss, "fn", None)
    if isinstance(loss, LossFunctionWrapper) and _is_ours(function):
        logits = bool(loss.fn_settings.get("from_logits", False))
        name = loss.name
        if function in _BINARY:
            yield from _of_binary(name, logits, np.asarray(target), output, tape, weighted)
        elif function in _CATEGORICAL:
            yield from _of_categorical(name, logits, output, tape, loss.fn_settings)
        elif not loss.takes_class_numbers:
            yield from _of_columns(name, tuple(target.shape), tuple(output.shape))
    elif isinstance(loss, Loss) and not isinstance(loss, LossFunctionWrapper):
        yield from _of_all_pairs(loss, target, output)


def _is_ours(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).startswith("trainkit.losses")


def _of_binary(
    name: str, logits: bool, targets: Any, output: Tensor, tape: Any, weighted: bool
) -> Iterator[str]:
    values = np.asarray(output)
    if logits and _comes_from(output, ops.sigmoid, tape):
        yield (
            f"loss {name!r} takes logits (from_logits=True), and the outputs are probabilities of "
            "a sigmoid: leave from_logits away, or the sigmoid."
        )
    if _ends_in_relu(output, tape):
        yield _cut_off(name, logits, "sigmoid")
    elif not logits and values.size and not (-1e-3 <= values.min() and values.max() <= 1 + 1e-3):
        yield (
            f"loss {name!r} takes probabilities, and the outputs go from {values.min():.3g} to "
            f"{values.max():.3g}: give it from_logits=True, or the last layer activation='sigmoid'."
        )
    if not weighted and targets.size and not (0 <= targets.min() and targets.max() <= 1):
        yield (
            f"loss {name!r} takes labels in [0, 1], and the targets go from {targets.min():g} to "
            f"{targets.max():g}: number the two classes 0 and 1."
        )


def _cut_off(name: str, logits: bool, activation: str) -> str:
    """What a relu does to logits or probabilities."""
    takes = "logits of both signs" if logits else "probabilities"
    mend = "no activation" if logits else f"activation={activation!r}"
    return (
        f"loss {name!r} takes {takes}, and the relu of the last layer makes 0 of all that is "
        f"negative, where nothing is learned: give the last layer {mend}."
    )


def _of_categorical(
    name: str, logits: bool, output: Tensor, tape: Any, settings: Any
) -> Iterator[str]:
    axis, values = settings.get("axis", -1), np.asarray(output)
    if not values.size or values.shape[axis] < 2:
        return
    if _ends_in_relu(output, tape):
        yield _cut_off(name, logits, "softmax")
        return
    if _comes_from(output, ops.sigmoid, tape):
        yield (
            f"loss {name!r} takes "
            f"{'logits (from_logits=True)' if logits else 'probabilities that add up to 1'}, and "
            "the outputs are those of a sigmoid, each by itself: give the last layer "
            f"{'no activation' if logits else 'activation=' + repr('softmax')}; for several "
            "labels at once use 'binary_crossentropy'."
        )
        return
    lowest = values.min()
    if not logits:
        if lowest < -1e-3:
            yield (
                f"loss {name!r} takes probabilities, and some outputs are negative, such as "
                f"{lowest:.3g}: give it from_logits=True, or the last layer "
                "activation='softmax'."
            )
        return
    # the outputs of a language model are large: what one look rules out is not added up
    if not (lowest >= 0 and values.max() <= 1):
        return
    sums = values.sum(axis=axis, dtype=np.float64)
    if sums.size > 1 and np.abs(sums - 1).max() < 1e-2:
        yield (
            f"loss {name!r} takes logits (from_logits=True), and the outputs are probabilities, "
            "which add up to 1: leave from_logits away, or the softmax."
        )


def _of_columns(name: str, target: tuple[int, ...], output: tuple[int, ...]) -> Iterator[str]:
    """Targets and outputs of which one has a column where the other has several."""
    if len(target) == len(output) == 2 and 1 in (target[1], output[1]) and target != output:
        yield (
            f"loss {name!r} compares targets of shape {target} with outputs of shape {output}, "
            "each number with a whole row: give the last layer as many units as the targets have "
            "columns."
        )


def _ends_in_relu(y: Tensor, tape: Any) -> bool:
    """Whether `y` is a result of relu, as it is or as a part of a product or convolution."""
    entry = tape.tracked.get(y)
    settings = entry[1] if entry else None
    fused = isinstance(settings, dict) and settings.get("activation") == "relu"
    return fused or _comes_from(y, ops.relu, tape)


def _comes_from(y: Tensor, operation: Any, tape: Any) -> bool:
    """Whether `y` is a result of `operation`, seen through reshapes and the like."""
    for _ in range(4):
        entry = tape.tracked.get(y)
        if not entry or not hasattr(entry[0], "facets"):
            return False
        if entry[0] is operation.primitive:
            return True
        if entry[0].facets.semantics is not VIEW:
            return False
        y = entry[2]
    return False


class _PairsTrace(ShapeTrace):
    """Notes where targets (n,) meet outputs (n, 1), or the reverse, element by element.

    Attributes:
        sources: which of targets and outputs a tensor depends on, by `id`.
        found: whether they have met.
    """

    def __init__(self, target: Any, output: Any) -> None:
        self.sources = {id(target): {"target"}, id(output): {"output"}}
        self.kept: list[Any] = [target, output]
        self.found = False

    def apply(self, primitive: Any, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """The symbolic result of one operation."""
        result = super().apply(primitive, inputs, settings)
        operands = [(tuple(x.shape), self.sources.get(id(x))) for x in inputs if is_tensor(x)]
        for y in result if isinstance(result, tuple) else (result,):
            self.kept.append(y)  # so that no other tensor gets its id
            self.sources[id(y)] = set().union(*(s for _, s in operands if s))
        if primitive.facets.semantics is ELEMENTWISE and len(operands) == 2:
            (a, of_a), (b, of_b) = sorted(operands, key=lambda pair: len(pair[0]))
            apart = (of_a, of_b) in (({"target"}, {"output"}), ({"output"}, {"target"}))
            self.found |= apart and len(a) == 1 and b == (a[0], 1) and a[0] > 1
        return result


def _of_all_pairs(loss: Any, target: Any, output: Any) -> Iterator[str]:
    """A loss of the user's in which each target meets each output of the batch."""
    specs = [Spec(tuple(x.shape), output.dtype) for x in (target, output)]
    is_pairwise = False

    def call(a: Any, b: Any) -> Any:
        nonlocal is_pairwise
        trace = _PairsTrace(a, b)
        try:
            return run_under(trace, loss.call, a, b)
        finally:
            is_pairwise = trace.found

    try:
        result_specs(call, *specs)
    except Exception:  # it looks at values, so its shapes are not known without them
        return
    if is_pairwise:
        shapes = (
            f"targets of shape {tuple(target.shape)} and outputs of shape {tuple(output.shape)}"
        )
        yield (
            f"loss {loss.name!r} combines {shapes} to one number for each pair of samples: reshape "
            "one like the other, as with ops.squeeze(y_pred, -1)."
        )


# ------------------------------------------------------------------ metrics


def _of_metrics(model: Any, path: Any, loss: Any, target: Any) -> Iterator[str]:
    compiled = model._compile_metrics
    if compiled is None or not is_tensor(target):
        return
    for use in compiled._uses:
        if use.path != path:
            continue
        metric = use.metric
        if isinstance(metric, Accuracy | BinaryAccuracy) and _is_continuous(np.asarray(target)):
            number = np.asarray(target).flat[0]
            yield (
                f"metric {use.name!r} counts how often outputs hit a class, and the targets are "
                f"numbers such as {number:.4g}: use 'mae' or 'r2_score' for them."
            )
        elif isinstance(metric, BinaryAccuracy) and _takes_binary_logits(loss):
            if getattr(metric, "threshold", 0.5) == 0.5:
                yield (
                    f"metric {use.name!r} takes outputs above 0.5 for class 1, and the outputs are "
                    "logits, which are above 0 then: use metrics.BinaryAccuracy(threshold=0.0)."
                )


def _is_continuous(targets: Any) -> bool:
    """Whether targets are neither classes nor shares."""
    if targets.dtype.kind != "f" or not targets.size or not np.isfinite(targets).all():
        return False
    outside = targets.min() < 0 or targets.max() > 1
    return bool(outside and (targets != np.round(targets)).mean() > 0.5)


def _takes_binary_logits(loss: Any) -> bool:
    settings = getattr(loss, "fn_settings", {})
    return getattr(loss, "fn", None) in _BINARY and bool(settings.get("from_logits", False))
