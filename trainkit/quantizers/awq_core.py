"""AWQ for a whole model, block by block."""

from __future__ import annotations

from typing import Any

from trainkit.quantizers import calibration
from trainkit.quantizers.awq import AWQ


def awq_quantize(config: Any, quantization_layer_structure: Any, filters: Any = None) -> None:
    """Quantize the dense layers of the blocks, which are prepared for it already.

    Args:
        config: an `AWQConfig` with data and tokenizer.
        quantization_layer_structure: dict with `"pre_block_layers"` and `"sequential_blocks"`.
        filters: which layers are meant.

    Raises:
        ValueError: data or structure are missing.
    """
    calibration.quantize_model("awq", config, quantization_layer_structure, filters, AWQ, 1)
