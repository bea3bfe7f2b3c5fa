"""What the configs of modes that look at data have in common."""

from __future__ import annotations

from typing import Any, ClassVar

from trainkit.quantizers.quantization_config import QuantizationConfig


class CalibratedConfig(QuantizationConfig):
    """A config with calibration data.

    Data, tokenizer and structure are for the one time when the model is calibrated: they are no
    part of `get_config`.
    """

    dataset: Any
    tokenizer: Any
    quantization_layer_structure: Any
    weight_bits: int
    group_size: int
    saved: ClassVar[tuple[str, ...]] = ()

    def _check(self, **positive: Any) -> None:
        """Raise unless each number is above 0, and the groups make sense."""
        kind = type(self).__name__
        for name, value in positive.items():
            if value <= 0:
                raise ValueError(f"{kind}: {name} must be a positive integer, got {value!r}")
        if self.group_size < -1 or self.group_size == 0:
            raise ValueError(
                f"{kind}: Invalid group_size. It must be -1 (no groups) or a positive integer, "
                f"got {self.group_size!r}"
            )

    def dtype_policy_string(self) -> str:
        """The mode as it stands in the name of a dtype policy: `"gptq/4/128"`."""
        return f"{self.mode}/{self.weight_bits}/{self.group_size}"

    def get_config(self) -> dict[str, Any]:
        forgotten = ("dataset", "tokenizer", "quantization_layer_structure")
        return {**dict.fromkeys(forgotten), **{name: getattr(self, name) for name in self.saved}}

    def __getstate__(self) -> dict[str, Any]:
        """Copies go without data, too."""
        forgotten = ("dataset", "tokenizer", "quantization_layer_structure")
        return {**self.__dict__, **dict.fromkeys(forgotten)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The config that `get_config` described, without data."""
        return cls(**config)
