"""Quantizers, their configs, and the arithmetic of numbers in few bits; loaded when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainkit.core.process.later_imports import later_members

if TYPE_CHECKING:
    from trainkit.quantizers.abs_max import AbsMaxQuantizer as AbsMaxQuantizer
    from trainkit.quantizers.abs_max import Quantizer as Quantizer
    from trainkit.quantizers.abs_max import abs_max_quantize as abs_max_quantize
    from trainkit.quantizers.abs_max import (
        abs_max_quantize_grouped_with_zero_point as abs_max_quantize_grouped_with_zero_point,
    )
    from trainkit.quantizers.awq_config import AWQConfig as AWQConfig
    from trainkit.quantizers.fake_quantization import (
        fake_quant_with_min_max_vars as fake_quant_with_min_max_vars,
    )
    from trainkit.quantizers.float8_scaling import (
        compute_float8_amax_history as compute_float8_amax_history,
    )
    from trainkit.quantizers.float8_scaling import compute_float8_scale as compute_float8_scale
    from trainkit.quantizers.float8_scaling import (
        quantize_and_dequantize as quantize_and_dequantize,
    )
    from trainkit.quantizers.gptq_config import GPTQConfig as GPTQConfig
    from trainkit.quantizers.gptq_quantizer import GPTQQuantizer as GPTQQuantizer
    from trainkit.quantizers.layer_filters import should_quantize_layer as should_quantize_layer
    from trainkit.quantizers.packing import pack_int2 as pack_int2
    from trainkit.quantizers.packing import pack_int4 as pack_int4
    from trainkit.quantizers.packing import pack_ternary as pack_ternary
    from trainkit.quantizers.packing import unpack_int2 as unpack_int2
    from trainkit.quantizers.packing import unpack_int4 as unpack_int4
    from trainkit.quantizers.packing import unpack_ternary as unpack_ternary
    from trainkit.quantizers.quantization_config import (
        Float8QuantizationConfig as Float8QuantizationConfig,
    )
    from trainkit.quantizers.quantization_config import (
        Int4QuantizationConfig as Int4QuantizationConfig,
    )
    from trainkit.quantizers.quantization_config import (
        Int8QuantizationConfig as Int8QuantizationConfig,
    )
    from trainkit.quantizers.quantization_config import QuantizationConfig as QuantizationConfig
    from trainkit.quantizers.quantization_config import (
        TernaryQuantizationConfig as TernaryQuantizationConfig,
    )
    from trainkit.quantizers.quantization_report import QuantizationReport as QuantizationReport
    from trainkit.quantizers.reading import deserialize as deserialize
    from trainkit.quantizers.reading import get as get
    from trainkit.quantizers.reading import serialize as serialize
    from trainkit.quantizers.resolving import (
        validate_and_resolve_config as validate_and_resolve_config,
    )
    from trainkit.quantizers.zero_points import (
        compute_quantization_parameters as compute_quantization_parameters,
    )
    from trainkit.quantizers.zero_points import dequantize_with_sz_map as dequantize_with_sz_map
    from trainkit.quantizers.zero_points import (
        dequantize_with_zero_point as dequantize_with_zero_point,
    )
    from trainkit.quantizers.zero_points import quantize_with_sz_map as quantize_with_sz_map
    from trainkit.quantizers.zero_points import quantize_with_zero_point as quantize_with_zero_point

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
_MODULES = {name: f"{__name__}.{file}" for file, names in _FILES.items() for name in names.split()}


if not TYPE_CHECKING:  # names that are not there are errors in editors
    __getattr__ = later_members(globals(), _MODULES)


def __dir__() -> list[str]:
    return sorted(_MODULES)
