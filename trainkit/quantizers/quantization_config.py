"""What `quantize(config=...)` takes: a mode, and the quantizers of weights and activations."""

from __future__ import annotations

from typing import Any

from trainkit.core.registry import deserialize_object, serialize_object
from trainkit.quantizers.abs_max import AbsMaxQuantizer
from trainkit.quantizers.quantizer_family import QUANTIZERS


class QuantizationConfig:
    """Base of all; a subclass has a `mode`.

    Args:
        weight_quantizer: for weights; the mode's own by default.
        activation_quantizer: for the inputs of layers; `None` leaves them as they are.
    """

    def __init__(self, weight_quantizer: Any = None, activation_quantizer: Any = None) -> None:
        self.weight_quantizer = weight_quantizer
        self.activation_quantizer = activation_quantizer

    @property
    def mode(self) -> str:
        """Name of the mode.

        Raises:
            NotImplementedError: a subclass has to say it.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no mode; use a subclass, such as Int8QuantizationConfig"
        )

    def get_config(self) -> dict[str, Any]:
        """The arguments of a like config."""
        return {
            "weight_quantizer": serialize_object(self.weight_quantizer),
            "activation_quantizer": serialize_object(self.activation_quantizer),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The config that `get_config` described."""
        return cls(**{name: deserialize_object(value) for name, value in config.items()})

    @staticmethod
    def weight_quantizer_or_default(config: Any, default: Any) -> Any:
        """The quantizer for weights that `config` names, else `default`."""
        quantizer = None if config is None else config.weight_quantizer
        return default if quantizer is None else quantizer

    @staticmethod
    def activation_quantizer_or_default(config: Any, default: Any) -> Any:
        """The quantizer for inputs that `config` names, or `None`; `default` without a config."""
        return default if config is None else config.activation_quantizer


def _check_output_dtype(config: QuantizationConfig) -> None:
    quantizer = config.weight_quantizer
    if quantizer is not None and quantizer.output_dtype != "int8":
        raise ValueError(
            f"{type(config).__name__}: the weight_quantizer must have output_dtype='int8', got "
            f"output_dtype={quantizer.output_dtype!r}"
        )


class Int8QuantizationConfig(QuantizationConfig):
    """Weights and inputs of 8 bits, whose products are summed as integers.

    Args:
        weight_quantizer: for weights; one scale for each output by default.
        activation_quantizer: for inputs; by default one scale for each row, found at every call.
            `None` leaves them floats.

    Raises:
        ValueError: the weights would not be int8.
    """

    def __init__(self, weight_quantizer: Any = None, activation_quantizer: Any = "default") -> None:
        if isinstance(activation_quantizer, str) and activation_quantizer == "default":
            activation_quantizer = AbsMaxQuantizer()
        super().__init__(weight_quantizer, activation_quantizer)
        _check_output_dtype(self)

    @property
    def mode(self) -> str:
        return "int8"


class Int4QuantizationConfig(QuantizationConfig):
    """Weights of 4 bits, two in a byte, made floats again for each product.

    Args:
        weight_quantizer: for weights, without groups.
        activation_quantizer: for inputs, without groups; `"default"` leaves them floats.
        block_size: rows of the kernel that share a scale and a zero point; `None` or -1 for one
            scale for each output.

    Raises:
        ValueError: `block_size` is no number of rows, or there are quantizers as well, or they do
            not give int8 in [-8, 7].
    """

    def __init__(
        self,
        weight_quantizer: Any = None,
        activation_quantizer: Any = "default",
        block_size: int | None = 128,
    ) -> None:
        if isinstance(activation_quantizer, str) and activation_quantizer == "default":
            activation_quantizer = None
        super().__init__(weight_quantizer, activation_quantizer)
        if block_size is not None and block_size != -1 and block_size <= 0:
            raise ValueError(
                "Int4QuantizationConfig: block_size must be None, -1, or a positive integer, got "
                f"block_size={block_size}"
            )
        self.block_size = block_size
        own = weight_quantizer is not None or activation_quantizer is not None
        if block_size not in (None, -1) and own:
            raise ValueError(
                "Int4QuantizationConfig: sub-channel quantization (block_size > 0) does not take "
                f"quantizers; give block_size=None with them, got block_size={block_size}"
            )
        if weight_quantizer is not None:
            _check_int4(weight_quantizer)
            _check_output_dtype(self)

    @property
    def mode(self) -> str:
        return "int4"

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "block_size": self.block_size}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The config that `get_config` described; one without `block_size` means no groups."""
        return super().from_config({"block_size": None, **config})


def _check_int4(quantizer: Any) -> None:
    if tuple(quantizer.value_range) != (-8, 7):
        raise ValueError(
            "Int4QuantizationConfig: the weight_quantizer must have value_range=(-8, 7), got "
            f"value_range={quantizer.value_range}"
        )


class _Plain(QuantizationConfig):
    """A config without arguments."""

    def __init__(self) -> None:
        super().__init__(None, None)

    def get_config(self) -> dict[str, Any]:
        return {}


class Float8QuantizationConfig(_Plain):
    """Training with products of numbers that were rounded to floats of 8 bits."""

    @property
    def mode(self) -> str:
        return "float8"


class TernaryQuantizationConfig(_Plain):
    """Weights out of -1, 0 and 1 with one scale, five in a byte.

    Source: BitNet b1.58, arXiv:2402.17764, section 3.1.
    """

    @property
    def mode(self) -> str:
        return "ternary"


for _config in (
    QuantizationConfig,
    Int8QuantizationConfig,
    Int4QuantizationConfig,
    Float8QuantizationConfig,
    TernaryQuantizationConfig,
):
    QUANTIZERS.add(_config)
