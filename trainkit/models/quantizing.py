"""`Model.quantize`: the layers of a model quantized one after the other, and a report of it."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

from trainkit.layers.base.building import put_back, state_of_all
from trainkit.layers.core import InputLayer
from trainkit.layers.quantized.quantization import (
    check_can_be_quantized,
    is_quantized,
    resolve_config,
)
from trainkit.quantizers.awq_core import awq_quantize
from trainkit.quantizers.calibration import check_data, check_structure, find_layers_in_block
from trainkit.quantizers.gptq_core import gptq_quantize
from trainkit.quantizers.layer_filters import check_filters, should_quantize_layer
from trainkit.quantizers.quantization_report import QuantizationReport

if TYPE_CHECKING:
    from trainkit.models.model import Model

_CALIBRATIONS = {"gptq": gptq_quantize, "awq": awq_quantize}
_WIDTH = 65


def quantize_model(
    model: Model, mode: Any, config: Any, filters: Any, verbose: bool, more: dict[str, Any]
) -> QuantizationReport:
    """Quantize the layers of `model`; an error leaves all of them as they were.

    Args:
        model: built.
        mode: how; see `Model.quantize`.
        config: the mode's numbers.
        filters: which layers are meant.
        verbose: whether the report is printed.
        more: `type_check`, whether classes derived from layers that can be quantized are left
            alone.

    Raises:
        ValueError: there is no such argument, the filters are none, data for a calibration is
            missing, or a layer refuses.
    """
    type_check = more.pop("type_check", True)
    if more:
        raise ValueError(
            f"{type(model).__name__}.quantize has no arguments {', '.join(map(repr, more))}"
        )
    config = resolve_config(mode, config)
    check_can_be_quantized(model, config.mode)
    check_filters(filters)
    structure, covered = _structure(model, config)
    before = state_of_all(model)
    values = [(v, v.value()) for v in model.variables]
    try:
        report = _quantized_layers(model, config, filters, covered, type_check)
        if structure is not None:
            _CALIBRATIONS[config.mode](config, structure, filters)
    except BaseException:
        put_back(before)
        for variable, value in values:
            variable.assign(value)
        raise
    model._quantization_report = report
    model._forget_steps()
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        optimizer.keep_only(model.trainable_variables)
    warning = report.summary_warning()
    if warning is not None:
        warnings.warn(warning, stacklevel=4)
    if verbose:
        print(report.render())
    return report


def _structure(model: Model, config: Any) -> tuple[Any, set[int] | None]:
    """What a mode that looks at data calibrates: the structure, and the `id`s of its layers."""
    mode = config.mode
    if mode not in _CALIBRATIONS:
        return None, None
    structure = config.quantization_layer_structure
    if structure is None:
        structure = model.get_quantization_layer_structure(mode)
    check_structure(mode, structure)
    check_data(mode, config)
    blocks = structure.get("sequential_blocks") or []
    return structure, {
        id(layer) for block in blocks for layer in find_layers_in_block(block).values()
    }


def _quantized_layers(
    model: Model, config: Any, filters: Any, covered: set[int] | None, type_check: bool
) -> QuantizationReport:
    report = QuantizationReport(config.mode)
    for layer in model._flatten_layers():
        if isinstance(layer, InputLayer) or hasattr(layer, "train_step"):
            continue  # of models inside the layers are listed, too
        path = layer.path or layer.name
        if covered is not None and id(layer) not in covered:
            report.add_skipped(path, report.SKIP_OUTSIDE_STRUCTURE)
        elif not should_quantize_layer(layer, filters):
            report.add_skipped(path, report.SKIP_FILTERED)
        elif is_quantized(layer):
            report.add_skipped(path, report.SKIP_ALREADY_QUANTIZED)
        else:
            try:
                layer.quantize(config.mode, type_check=type_check, config=config)
            except NotImplementedError:
                report.add_skipped(path, report.SKIP_NO_SUPPORT)
                continue
            policy = layer.dtype_policy.at(layer.path)
            report.add_quantized(path, layer.quantization_mode, policy.name)
    return report


def summary_of_quantization(model: Model) -> str:
    """A text about the quantized layers of `model`: their dtype policies and their bytes."""
    lines = [f"Quantization summary for '{model.name}'", "=" * _WIDTH]
    layers = [
        layer
        for layer in model._flatten_layers()
        if is_quantized(layer) and layer.weights and not hasattr(layer, "train_step")
    ]
    if not layers:
        return "\n".join([*lines, "No quantized layers found."])
    stored = params = 0
    for layer in layers:
        weight = max(layer.weights, key=lambda w: math.prod(w.shape))
        size = math.prod(weight.shape) * weight.dtype.size
        stored += size
        params += _floats_in(layer, weight)
        lines += [
            f"Layer: {layer.path or layer.name}",
            f"  dtype policy : {layer.dtype_policy.at(layer.path).name}",
            f"  weight store : {weight.dtype.name} ({size} bytes)",
        ]
    return "\n".join(
        [
            *lines,
            "-" * _WIDTH,
            f"Quantized layers : {len(layers)}",
            f"Quantized params : {params}",
            f"Weight storage   : {stored} bytes quantized vs {4 * params} bytes float32 "
            f"({4 * params / stored:.2f}x smaller)",
        ]
    )


def _floats_in(layer: Any, weight: Any) -> int:
    """How many weights the largest variable of a quantized layer holds."""
    shape = layer.__dict__.get("original_kernel_shape")
    if shape is not None:
        return math.prod(shape)
    if hasattr(layer, "input_dim"):
        return int(layer.input_dim) * int(layer.output_dim)
    rows = layer.__dict__.get("_orig_input_dim")
    if rows is not None:
        return int(rows) * int(weight.shape[-1])
    return math.prod(weight.shape)
