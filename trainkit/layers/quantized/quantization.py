"""`LayerQuantization`: the forms of few bits in which layers of a class keep their weights."""

from __future__ import annotations

import importlib
from typing import Any, NoReturn

from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.trackable import set_silently
from trainkit.layers.base.building import put_back, state_of
from trainkit.layers.base.dtype_policy import DTypePolicyMap, policy_of
from trainkit.layers.quantized import quantized_policies as quantized_policies
from trainkit.layers.quantized.variants import Variant, plain_class
from trainkit.quantizers.quantizer_family import QUANTIZATION_MODES

_resolving = DeferredModule("trainkit.quantizers.resolving")
_reading = DeferredModule("trainkit.quantizers.reading")
_configs = DeferredModule("trainkit.quantizers.quantization_config")


class LayerQuantization:
    """The forms of weights that layers of a class can have, and the way from one to another.

    A class that can be quantized has one, `_quantization = LayerQuantization(module)`. Classes
    derived from it can't be quantized unless they have one of their own: their `call` may be
    another.

    Args:
        variants: the name of the module of the forms, which is loaded when one is asked for: they
            stand in its `VARIANTS` by the name of the class. `None` for layers that have none.
    """

    def __init__(self, variants: str | None = None) -> None:
        self._variants = variants

    def load_variants(self) -> Any:
        """The module of the variants, `None` if there is none."""
        return None if self._variants is None else importlib.import_module(self._variants)

    def quantize(self, layer: Any, mode: Any, type_check: bool, config: Any) -> None:
        """See `Layer.quantize`."""
        config = resolve_config(mode, config)
        check_can_be_quantized(layer, config.mode)
        variant = self._variant_of(layer, config.mode, type_check)
        before = state_of(layer)
        try:
            layer.quantization_config = config
            values = variant.encoded(layer, config)
            while_unlocked(layer, variant.replace_weights, config)
            for name, value in values.items():
                layer.__dict__[name].assign(value)
            if layer.quantization_mode is None:
                layer.dtype_policy = variant.policy_name(layer, config)
            set_silently(layer, _symbolic_call=before.get("_symbolic_call"))
        except BaseException:
            put_back([(layer, before)])
            raise

    def build(self, layer: Any, shape: Any, mode: str, config: Any) -> None:
        """See `Layer.quantized_build`."""
        self._variant_of(layer, mode, False).build(layer, tuple(shape), config)
        set_silently(layer, _is_quantized=True)

    def builds_floats(self, layer: Any, shape: Any) -> bool:
        """Make the weights that the dtype policy asks for; whether those of floats are needed too.

        Args:
            layer: under construction.
            shape: of the kernel or table.
        """
        mode = layer.quantization_mode
        if mode is None or self._variants is None:
            return True
        layer.quantized_build(shape, mode, layer.quantization_config)
        return bool(layer.keeps_floats)

    def policy_for(self, layer: Any, identifier: Any) -> Any:
        """What the attribute `dtype_policy` becomes when `identifier` is assigned.

        Raises:
            ValueError: the layer is built, and the mode needs data.
        """
        policy = policy_of(identifier)
        mode = policy.quantization_mode
        if mode in ("gptq", "awq") and layer.__dict__.get("built") and not is_quantized(layer):
            raise ValueError(
                f"layer {layer.name!r}: a dtype policy can't quantize a built layer with mode "
                f"{mode!r}, which needs data for calibration; use quantize({mode!r}, config=...)"
            )
        now, path = layer.__dict__.get("dtype_policy"), layer.__dict__.get("_path")
        if not isinstance(now, DTypePolicyMap) or path is None or policy is now:
            return policy
        if path in now:
            del now[path]
        now[path] = policy
        return now

    def follow_policy(self, layer: Any) -> None:
        """Quantize a built layer whose new policy asks for it."""
        mode = layer.quantization_mode
        waits = mode is None or is_quantized(layer) or not layer.__dict__.get("built")
        if not waits and self._variants is not None:
            layer.quantize(mode, config=_config_of_policy(layer, str(mode)))

    def _variant_of(self, layer: Any, mode: Any, type_check: bool) -> Any:
        kind = plain_class(type(layer))
        if mode not in QUANTIZATION_MODES:
            refuse_mode(layer, mode)
        while type_check is False and "_quantization" not in kind.__dict__:
            kind = kind.__base__ or object
        module = self.load_variants() if "_quantization" in kind.__dict__ else None
        if module is None:
            raise NotImplementedError(
                f"Layer {type(layer).__name__} can't be quantized: it has no `quantize` of its own"
            )
        variants: dict[str, type[Variant]] = module.VARIANTS[kind.__name__]
        if mode not in variants:
            refuse_mode(layer, mode, tuple(variants))
        return variants[mode]


def is_quantized(layer: Any) -> bool:
    """Whether the weights of `layer` are kept in few bits."""
    return bool(layer.__dict__.get("_is_quantized"))


def resolve_config(mode: Any, config: Any) -> Any:
    """The config that a mode and a config, of which one may be missing, mean together."""
    return _resolving.validate_and_resolve_config(mode, config)


def check_can_be_quantized(layer: Any, mode: str) -> None:
    """Raise unless `layer` can be quantized now.

    Raises:
        ValueError: it is not built, quantized already, or computes in a dtype that is too small.
    """
    if not layer.built:
        raise ValueError(
            f"Cannot quantize a layer that isn't yet built: {layer.name!r} "
            f"({type(layer).__name__}); build or call it first"
        )
    if is_quantized(layer):
        raise ValueError(
            f"Layer {layer.name!r} is already quantized with dtype_policy="
            f"{layer.dtype_policy.name!r}, got mode={mode!r}"
        )
    if mode == "int8" and layer.compute_dtype == "float16":
        raise ValueError(
            f"layer {layer.name!r}: mode='int8' doesn't work well with "
            "compute_dtype='float16', whose range its sums leave; use bfloat16 or float32"
        )


def refuse_mode(layer: Any, mode: Any, modes: tuple[str, ...] = QUANTIZATION_MODES) -> NoReturn:
    """Say which modes there are.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        f"layer {layer.name!r} ({type(layer).__name__}): Invalid quantization mode. Expected one "
        f"of {modes}, got quantization_mode={mode!r}"
    )


def while_unlocked(layer: Any, change: Any, *args: Any) -> None:
    """`change(layer, *args)`, which may make weights though the layer is built."""
    locked = layer.__dict__.get("_locked", False)
    set_silently(layer, _locked=False)
    try:
        change(layer, *args)
    finally:
        set_silently(layer, _locked=locked)


def _config_of_policy(layer: Any, mode: str) -> Any:
    """The config that the numbers in the name of the policy mean."""
    block_size = getattr(layer.dtype_policy.at(layer._path), "block_size", None)
    if mode != "int4" or block_size is None:
        return None
    return _configs.Int4QuantizationConfig(block_size=block_size)


def read_config(config: Any) -> Any:
    """A quantization config as an object, from a dict that describes it."""
    return _reading.deserialize(config) if isinstance(config, dict) else config


def _serialization_spec(layer: Any) -> dict[str | None, list[str]]:
    """The names of the variables that files have of such a layer, in order, by mode.

    Those that a layer does not have are left out in its files.
    """
    plain, by_mode = layer._quantization.load_variants().stored_names(layer)
    return {None: list(plain), **{mode: list(names) for mode, names in by_mode.items()}}


serialization_spec = property(_serialization_spec)
"""What layers that can be quantized have as `variable_serialization_spec`."""


# ---------------------------------------------------------------------- LoRA


def enable_lora(
    layer: Any,
    rank: int,
    lora_alpha: float | None = None,
    a_initializer: Any = "he_uniform",
    b_initializer: Any = "zeros",
) -> None:
    """Freeze the weights, and train the product of two small matrices that is added to them.

    Args:
        layer: the layer, whose class has this function as a method.
        rank: columns of the one and rows of the other.
        lora_alpha: the product counts `lora_alpha / rank` times; by default once.
        a_initializer: what the one starts with.
        b_initializer: and the other.

    Raises:
        ValueError: the layer is not built, has LoRA already, or a constraint on its weights.
        NotImplementedError: it can't have LoRA with its mode.

    Source: Hu and others 2021, arXiv:2106.09685.
    """
    add_lora = layer._quantization.load_variants().add_lora
    before = state_of(layer)
    try:
        while_unlocked(layer, add_lora, rank, lora_alpha, a_initializer, b_initializer)
    except BaseException:
        put_back([(layer, before)])
        raise


def start_lora(layer: Any) -> None:
    """Give `layer` LoRA, at the end of its build, if it was made with a rank."""
    rank = layer.__dict__.get("lora_rank")
    if rank and not layer.lora_enabled:
        set_silently(layer, built=True)
        layer.enable_lora(rank, layer.__dict__.get("lora_alpha"))
