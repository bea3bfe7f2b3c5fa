"""The parts of a step on one batch: what it needs to be made first, outputs, and their loss."""

from __future__ import annotations

from typing import Any

from trainkit.core import nest
from trainkit.core.shapes import Spec
from trainkit.models.training import data_adapters


def build_for_step(model: Any, spec: Any) -> None:
    """Make weights, metrics and slots as a step would, without values.

    Args:
        model: any model.
        spec: nest of `TensorSpec`s of a batch.
    """
    specs = nest.map_structure(lambda x: x if x is None else Spec(x.shape, x.dtype), spec)
    x, y, _ = data_adapters.unpack(specs)
    try:
        y_pred = model.compute_output_spec(x)
    except Exception:  # a call that looks at values; what is missing is made by the first step
        return
    if y is not None and model._compile_loss is not None:
        model._compile_loss.build(y, y_pred)
    if y is not None and model._compile_metrics is not None:
        model._compile_metrics.build(y, y_pred)
    if model.optimizer is not None and model.trainable_variables and not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)


def outputs_of(model: Any, x: Any, training: bool) -> Any:
    """The outputs for a batch.

    Raises:
        ValueError: the model gave `None`.
    """
    y_pred = model(x, training=training)
    if y_pred is None:
        raise ValueError(
            f"the model {model.name!r} gave None: does {type(model).__name__}.call end with "
            "`return`?"
        )
    return y_pred


def loss_of(model: Any, x: Any, y: Any, y_pred: Any, sample_weight: Any, training: bool) -> Any:
    """`compute_loss`, which a subclass may have written without the argument `training`."""
    cache = model._step_cache
    if cache.takes_training or (cache.takes_training is None and cache.look_at_loss(model)):
        return model.compute_loss(x, y, y_pred, sample_weight, training=training)
    return model.compute_loss(x, y, y_pred, sample_weight)
