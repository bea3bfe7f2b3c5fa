"""Quantizers, their configs, and the arithmetic of numbers in few bits; loaded when asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from trainkit.core.names import unknown_name

if TYPE_CHECKING:
    from trainkit.quantizers.abs_max import AbsMaxQuantizer as AbsMaxQuantizer
    from trainkit.quantizers.abs_max import Quantizer as Quantizer
    from trainkit.quantizers.abs_max import abs_max_quantize as abs_max_quantize
    from trainkit.quantizers.awq_config import AWQConfig as AWQConfig
    from trainkit.quantizers.gptq_config import GPTQConfig as GPTQConfig

_FILES = {
    "abs_max": (
        "AbsMaxQuantizer Quantizer abs_max_quantize abs_max_quantize_grouped_with_zero_point"
    ),
    "zero_points": (
        "compute_quantization_parameters dequantize_with_sz_map dequantize_with_zero_point "
        "quantize_with_sz_map quantize_with_zero_point"
    ),
    "awq_config": "AWQConfig",
    "fake_quantization": "fake_quant_with_min_max_vars",
    "float8_scaling": "compute_float8_amax_history compute_float8_scale quantize_and_dequantize",
    "gptq_config": "GPTQConfig",
    "gptq_quantizer": "GPTQQuantizer",
    "layer_filters": "should_quantize_layer",
    "packing": "pack_int2 pack_int4 pack_ternary unpack_int2 unpack_int4 unpack_ternary",
    "quantization_config": (
        "Float8QuantizationConfig Int4QuantizationConfig Int8QuantizationConfig "
        "QuantizationConfig TernaryQuantizationConfig"
    ),
    "reading": "deserialize get serialize",
    "quantization_report": "QuantizationReport",
    "resolving": "validate_and_resolve_config",
}
_FILE_OF = {name: file for file, names in _FILES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _FILE_OF:
        raise unknown_name(__name__, name, __dir__())
    value = getattr(importlib.import_module(f"{__name__}.{_FILE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_FILE_OF)
