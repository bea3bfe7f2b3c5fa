"""`GPTQConfig`."""

from __future__ import annotations

from typing import Any

from trainkit.quantizers.calibrated_config import CalibratedConfig
from trainkit.quantizers.quantizer_family import QUANTIZERS

_BITS = (2, 3, 4, 8)


class GPTQConfig(CalibratedConfig):
    """Weights of few bits, each column corrected for the errors of those before it.

    Source: Frantar, Ashkboos, Hoefler and Alistarh 2022, arXiv:2210.17323.

    Args:
        dataset: texts, or arrays of token numbers, that the model is calibrated with.
        tokenizer: has a method `tokenize(text)` that gives token numbers.
        weight_bits: 2, 3, 4 or 8.
        num_samples: how many sequences are taken from the data.
        calibration_batch_size: how many of them go through a block at once.
        per_channel: one scale for each output, not one in all.
        sequence_length: tokens of a sequence.
        hessian_damping: share of the mean of the Hessian's diagonal that is added to it, in [0, 1].
        group_size: inputs that share a scale; -1 for all.
        symmetric: whether ranges are symmetric around 0.
        activation_order: whether columns go by the size of what they are multiplied with.
        quantization_layer_structure: dict with `"pre_block_layers"`, which the tokens go through
            first, and `"sequential_blocks"`, whose dense layers are quantized; by default what
            `model.get_quantization_layer_structure` gives.

    Raises:
        ValueError: an argument is out of its range.
    """

    saved = (
        "weight_bits",
        "num_samples",
        "calibration_batch_size",
        "per_channel",
        "sequence_length",
        "hessian_damping",
        "group_size",
        "symmetric",
        "activation_order",
    )

    def __init__(
        self,
        dataset: Any,
        tokenizer: Any,
        *,
        weight_bits: int = 4,
        num_samples: int = 128,
        calibration_batch_size: int = 8,
        per_channel: bool = True,
        sequence_length: int = 512,
        hessian_damping: float = 0.01,
        group_size: int = 128,
        symmetric: bool = False,
        activation_order: bool = False,
        quantization_layer_structure: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if weight_bits not in _BITS:
            raise ValueError(
                f"GPTQConfig: Unsupported weight_bits {weight_bits!r}; there are {_BITS}"
            )
        if not 0 <= hessian_damping <= 1:
            raise ValueError(
                f"GPTQConfig: hessian_damping must be between 0 and 1, got {hessian_damping!r}"
            )
        self.dataset = dataset
        self.tokenizer = tokenizer
        self.weight_bits = weight_bits
        self.num_samples = num_samples
        self.calibration_batch_size = calibration_batch_size
        self.per_channel = per_channel
        self.sequence_length = sequence_length
        self.hessian_damping = hessian_damping
        self.group_size = group_size
        self.symmetric = symmetric
        self.activation_order = activation_order
        self.quantization_layer_structure = quantization_layer_structure
        self._check(
            num_samples=num_samples,
            calibration_batch_size=calibration_batch_size,
            sequence_length=sequence_length,
        )

    @property
    def mode(self) -> str:
        return "gptq"


QUANTIZERS.add(GPTQConfig)
