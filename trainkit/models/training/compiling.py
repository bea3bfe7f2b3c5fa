"""What `Model.compile` makes of its arguments."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from trainkit import optimizers
from trainkit.core.trackable import set_silently, tracked
from trainkit.metrics import Mean
from trainkit.models.training.compile_loss import CompiledLoss
from trainkit.models.training.compile_metrics import CompiledMetrics
from trainkit.models.training.step_cache import StepCache


def compile_model(model: Any, arguments: dict[str, Any], auto_scale_loss: bool) -> None:
    """Give `model` its optimizer, loss and metrics; an argument that does not fit changes nothing.

    Args:
        model: any model.
        arguments: those of `compile`, which `get_compile_config` gives back.
        auto_scale_loss: whether an optimizer of a float16 model scales the loss.

    Raises:
        ValueError: see `Model.compile`.
    """
    arguments = _with_former(model._compile_arguments, arguments)
    _check_execution(arguments)
    optimizer, loss = arguments["optimizer"], arguments["loss"]
    metrics, weighted_metrics = arguments["metrics"], arguments["weighted_metrics"]
    resolved_optimizer = None if optimizer is None else optimizers.get(optimizer)
    names = None if model._graph is None else model._graph.output_operations
    tracked_metrics = tracked([])  # all metrics made by this call, for checkpoints
    with model.distribute_strategy.placement():
        compiled_loss = compiled_metrics = None
        if loss is not None:
            compiled_loss = CompiledLoss(
                loss, arguments["loss_weights"], names, tracked_metrics.append
            )
        if metrics is not None or weighted_metrics is not None:
            compiled_metrics = CompiledMetrics(
                metrics, weighted_metrics, names, tracked_metrics.append
            )
        scales = auto_scale_loss and model.dtype_policy.name == "mixed_float16"
        if scales and resolved_optimizer is not None:
            if not isinstance(resolved_optimizer, optimizers.LossScaleOptimizer):
                resolved_optimizer = optimizers.LossScaleOptimizer(resolved_optimizer)
        model.optimizer = resolved_optimizer
        model._loss_tracker = Mean(name="loss")
        tracked_metrics.append(model._loss_tracker)
    model._compiled_metrics = tracked_metrics
    set_silently(
        model,
        loss=loss,
        _compile_loss=compiled_loss,
        _compile_metrics=compiled_metrics,
        run_eagerly=bool(arguments["run_eagerly"]),
        steps_per_execution=int(arguments["steps_per_execution"]),
        jit_compile=arguments["jit_compile"],
        stop_training=False,
        compiled=True,
        _unseen=True,
        train_function=None,
        test_function=None,
        predict_function=None,
        _steps_made={},
        _step_cache=StepCache(),
        _compile_arguments=arguments,
    )


def _with_former(former: dict[str, Any] | None, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments, with the loss and the metrics of the call before where this one has none."""
    if former is None:
        return arguments
    names: tuple[str, ...] = ()
    if arguments["loss"] is None:  # without which its weights mean nothing
        names += ("loss", "loss_weights")
    if arguments["metrics"] is None and arguments["weighted_metrics"] is None:
        names += ("metrics", "weighted_metrics")
    return {**arguments, **{name: former[name] for name in names}}


def _check_execution(arguments: dict[str, Any]) -> None:
    """Refuse settings of execution that are none; `jit_compile` becomes what can be done."""
    jit_compile, steps = arguments["jit_compile"], arguments["steps_per_execution"]
    if jit_compile not in ("auto", True, False):
        raise ValueError(f"compile: jit_compile must be True, False or 'auto', got {jit_compile!r}")
    if not isinstance(steps, int | np.integer) or steps < 1:
        raise ValueError(
            f"compile: steps_per_execution must be a whole number, 1 or more, got {steps!r}"
        )
    if jit_compile is True and arguments["run_eagerly"]:
        warnings.warn(
            "compile: with run_eagerly=True nothing is compiled, jit_compile=True does nothing",
            stacklevel=5,
        )
        arguments["jit_compile"] = False
