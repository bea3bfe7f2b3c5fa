"""What became of layers that another layer made itself: quantized, with LoRA, frozen.

A layer that makes others, as attention makes its projections, makes them anew from its own config,
of floats and trainable, whatever became of them since. So its build config notes their forms.
"""

from __future__ import annotations

from typing import Any

from trainkit.core.errors import ConfigError
from trainkit.core.registry import serialize_object
from trainkit.layers.base import tracking
from trainkit.layers.base.dtype_policy import policy_of
from trainkit.layers.quantized.quantization import is_quantized, read_config

NOTES = "frozen_weights", "layer_forms"
"""What a build config notes beside shapes: weights frozen by themselves, and `forms_inside`."""


def notes_of(layer: Any) -> dict[str, Any]:
    """Those notes of a layer that say anything, by their names."""
    notes = tracking.frozen_alone(layer.weights), forms_inside(layer)
    return {name: note for name, note in zip(NOTES, notes, strict=True) if note}


def restore_notes(layer: Any, config: dict[str, Any]) -> None:
    """Do to a layer that is built what the notes in its build config say, once or again.

    Raises:
        ConfigError: they don't fit the layer.
    """
    if "layer_forms" in config:
        restore_forms(layer, config["layer_forms"])
    if "frozen_weights" in config:
        # the numbers count weights, of which forms may have made others
        tracking.freeze_alone(layer, config["frozen_weights"])


def forms_inside(layer: Any) -> dict[str, dict[str, Any]]:
    """The forms of layers inside of `layer`, by their numbers among these.

    Where some are frozen, all say whether they are: `Bidirectional` makes one of its layers like
    the other. Of a frozen layer its own config says that all inside are.
    """
    inside = layer._flatten_layers(include_self=False)
    some_frozen = layer._trainable and not all(part._trainable for part in inside)
    forms = {str(number): _form_of(part, some_frozen) for number, part in enumerate(inside)}
    return {number: form for number, form in forms.items() if form}


def _form_of(layer: Any, with_trainable: bool) -> dict[str, Any]:
    form: dict[str, Any] = {}
    if is_quantized(layer):
        form["dtype"] = serialize_object(layer.dtype_policy)
        form["quantization_config"] = serialize_object(layer.quantization_config)
    if _has_lora(layer):
        form["lora_rank"], form["lora_alpha"] = layer.lora_rank, layer.lora_alpha
    if with_trainable:
        form["trainable"] = layer._trainable
    return form


def _has_lora(layer: Any) -> bool:
    return bool(layer.__dict__.get("lora_enabled"))


def restore_forms(layer: Any, forms: Any) -> None:
    """Give layers inside of a layer that was just built the forms that `forms_inside` says.

    Raises:
        ConfigError: there is no such layer, or it can't have this form.
    """
    inside = layer._flatten_layers(include_self=False)
    by_number = {str(number): part for number, part in enumerate(inside)}
    if not isinstance(forms, dict) or not forms.keys() <= by_number.keys():
        raise ConfigError(
            f"{layer.name}: layer_forms must name layers inside of it by numbers below "
            f"{len(inside)}, got {forms!r:.100}"
        )
    # a layer before those inside of it, which freezing it would freeze
    for number, form in sorted(forms.items(), key=lambda item: int(item[0])):
        try:
            _restore_form(by_number[number], form)
        except (AttributeError, KeyError, TypeError, ValueError, NotImplementedError) as error:
            raise ConfigError(
                f"{layer.name}: {by_number[number].name!r} inside of it can't have the form that "
                f"layer_forms says: {error}. It says {form!r:.200}"
            ) from error


def _restore_form(layer: Any, form: Any) -> None:
    """Quantize a layer, give it LoRA, freeze or thaw it, unless its own config has done so."""
    if not isinstance(form, dict) or not form.keys() & {"dtype", "lora_rank", "trainable"}:
        raise ValueError("a form has a dtype policy, the rank of LoRA, or says trainable")
    if "dtype" in form and not is_quantized(layer):
        policy, config = policy_of(form["dtype"]), read_config(form["quantization_config"])
        layer.quantize(policy.quantization_mode, type_check=False, config=config)
        layer.dtype_policy = policy
    if "lora_rank" in form and not _has_lora(layer):
        layer.enable_lora(form["lora_rank"], form["lora_alpha"])
    if "trainable" in form and layer._trainable is not form["trainable"]:
        layer.trainable = form["trainable"]
