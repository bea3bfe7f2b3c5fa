"""`AWQConfig`."""

from __future__ import annotations

from typing import Any

from trainkit.quantizers.calibrated_config import CalibratedConfig
from trainkit.quantizers.quantizer_family import QUANTIZERS


class AWQConfig(CalibratedConfig):
    """Weights of 4 bits, scaled up before where the inputs are large.

    Source: Lin, Tang, Tang, Yang and others 2023, arXiv:2306.00978.

    Args:
        dataset: texts, or arrays of token numbers, that the model is calibrated with.
        tokenizer: has a method `tokenize(text)` that gives token numbers.
        weight_bits: 4.
        num_samples: how many sequences are taken from the data.
        sequence_length: tokens of a sequence.
        group_size: inputs that share a scale; -1 for all.
        num_grid_points: how many ways to scale are tried.
        apply_clip: whether ranges are searched, too, that clip large weights.
        quantization_layer_structure: as for `GPTQConfig`.

    Raises:
        ValueError: an argument is out of its range.
    """

    saved = (
        "weight_bits",
        "num_samples",
        "sequence_length",
        "group_size",
        "num_grid_points",
        "apply_clip",
    )

    def __init__(
        self,
        dataset: Any,
        tokenizer: Any,
        *,
        weight_bits: int = 4,
        num_samples: int = 128,
        sequence_length: int = 512,
        group_size: int = 128,
        num_grid_points: int = 20,
        apply_clip: bool = True,
        quantization_layer_structure: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if weight_bits != 4:
            raise ValueError(
                f"AWQConfig: only 4-bit quantization is supported, got weight_bits={weight_bits!r}"
            )
        self.dataset = dataset
        self.tokenizer = tokenizer
        self.weight_bits = weight_bits
        self.num_samples = num_samples
        self.sequence_length = sequence_length
        self.group_size = group_size
        self.num_grid_points = num_grid_points
        self.apply_clip = apply_clip
        self.quantization_layer_structure = quantization_layer_structure
        self._check(
            num_samples=num_samples,
            sequence_length=sequence_length,
            num_grid_points=num_grid_points,
        )

    @property
    def mode(self) -> str:
        return "awq"


QUANTIZERS.add(AWQConfig)
