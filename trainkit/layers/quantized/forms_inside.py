"""What became of layers that another layer made itself: quantized, with LoRA, frozen.

A layer that makes others, as attention makes its projections, makes them anew from its own config,
of floats and trainable, whatever became of them since. So its build config notes their forms.
"""

from __future__ import annotations

from typing import Any

from trainkit.core.errors import ConfigError
from trainkit.core.registry import serialize_object
from trainkit.layers.base.dtype_policy import policy_of
from trainkit.layers.quantized.quantization import is_quantized, read_config


def forms_inside(layer: Any) -> dict[str, dict[str, Any]]:
    """The forms of layers inside of `layer`, by their numbers among these.

    Of a frozen layer its own config says that all inside are.
    """
    inside = enumerate(layer._flatten_layers(include_self=False))
    forms = {str(number): _form_of(part, layer._trainable) for number, part in inside}
    return {number: form for number, form in forms.items() if form}


def _form_of(layer: Any, notes_frozen: bool) -> dict[str, Any]:
    form: dict[str, Any] = {}
    if is_quantized(layer):
        form["dtype"] = serialize_object(layer.dtype_policy)
        form["quantization_config"] = serialize_object(layer.quantization_config)
    if _has_lora(layer):
        form["lora_rank"], form["lora_alpha"] = layer.lora_rank, layer.lora_alpha
    if notes_frozen and not layer._trainable:
        form["trainable"] = False
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
    for number, form in forms.items():
        try:
            _restore_form(by_number[number], form)
        except (AttributeError, KeyError, TypeError, ValueError, NotImplementedError) as error:
            raise ConfigError(
                f"{layer.name}: {by_number[number].name!r} inside of it can't have the form that "
                f"layer_forms says: {error}. It says {form!r:.200}"
            ) from error


def _restore_form(layer: Any, form: Any) -> None:
    """Quantize a layer, give it LoRA, freeze it, unless its own config has done so."""
    if not isinstance(form, dict) or not form.keys() & {"dtype", "lora_rank", "trainable"}:
        raise ValueError("a form has a dtype policy, the rank of LoRA, or says trainable")
    if "dtype" in form and not is_quantized(layer):
        policy, config = policy_of(form["dtype"]), read_config(form["quantization_config"])
        layer.quantize(policy.quantization_mode, type_check=False, config=config)
        layer.dtype_policy = policy
    if "lora_rank" in form and not _has_lora(layer):
        layer.enable_lora(form["lora_rank"], form["lora_alpha"])
    if form.get("trainable") is False:
        layer.trainable = False
