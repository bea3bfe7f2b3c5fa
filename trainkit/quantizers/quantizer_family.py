"""The family of quantizers and their configs, by name."""

from __future__ import annotations

from trainkit.core.registry import Registry

QUANTIZERS = Registry("quantizers", "quantizer")

QUANTIZATION_MODES = ("int8", "float8", "int4", "ternary", "gptq", "awq")
"""The ways to quantize layers."""
