"""`GPTQQuantizer`: scales and zero points as a `GPTQConfig` asks for them."""

from __future__ import annotations

from typing import Any

from trainkit.quantizers.gptq_config import GPTQConfig
from trainkit.quantizers.zero_points import compute_quantization_parameters


class GPTQQuantizer:
    """The scales and zero points of weights, as a `GPTQConfig` asks for them.

    Args:
        config: bits, groups and symmetry.
        compute_dtype: of the arithmetic.

    Attributes:
        scale, zero, maxq: what `find_params` found last; `None` before.
    """

    output_dtype = "int8"

    def __init__(self, config: GPTQConfig | None = None, compute_dtype: str = "float32") -> None:
        settings = GPTQConfig(dataset=None, tokenizer=None) if config is None else config
        self.weight_bits = settings.weight_bits
        self.per_channel = settings.per_channel
        self.symmetric = settings.symmetric
        self.group_size = settings.group_size
        self.compute_dtype = compute_dtype
        self.scale: Any = None
        self.zero: Any = None
        self.maxq: Any = None

    def find_params(self, input_tensor: Any) -> tuple[Any, Any, Any]:
        """Scales, zero points and the greatest integer for weights (out_features, in_features)."""
        self.scale, self.zero, self.maxq = compute_quantization_parameters(
            input_tensor,
            bits=self.weight_bits,
            symmetric=self.symmetric,
            per_channel=self.per_channel,
            group_size=self.group_size,
            compute_dtype=self.compute_dtype,
        )
        return self.scale, self.zero, self.maxq
