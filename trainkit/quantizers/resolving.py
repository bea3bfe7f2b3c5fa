"""What the arguments `mode` and `config` of `quantize` mean together."""

from __future__ import annotations

from typing import Any

from trainkit.quantizers.awq_config import AWQConfig
from trainkit.quantizers.gptq_config import GPTQConfig
from trainkit.quantizers.quantization_config import (
    Float8QuantizationConfig,
    Int4QuantizationConfig,
    Int8QuantizationConfig,
    QuantizationConfig,
    TernaryQuantizationConfig,
)
from trainkit.quantizers.quantizer_family import QUANTIZATION_MODES

_BY_DEFAULT = {
    "int8": Int8QuantizationConfig,
    "int4": Int4QuantizationConfig,
    "float8": Float8QuantizationConfig,
    "ternary": TernaryQuantizationConfig,
}
_CALIBRATED = {"gptq": GPTQConfig, "awq": AWQConfig}


def check_mode(mode: Any) -> None:
    """Raise unless `mode` is one, or `None`.

    Raises:
        ValueError: names those that are.
    """
    if mode is not None and mode not in QUANTIZATION_MODES:
        raise ValueError(
            f"Invalid quantization mode. Expected one of {QUANTIZATION_MODES}, got mode={mode!r}"
        )


def validate_and_resolve_config(mode: Any, config: Any) -> QuantizationConfig:
    """The config that the two arguments of `quantize` mean.

    Args:
        mode: name of a mode, or `None` where `config` says it.
        config: a `QuantizationConfig`, or the name of a mode, or `None` for that of `mode`.

    Raises:
        ValueError: the mode does not exist, contradicts the config, or needs one that is not given.
    """
    if isinstance(config, str):
        mode, config = config, None
    check_mode(mode)
    if config is None:
        return _default(mode)
    if not isinstance(config, QuantizationConfig):
        raise ValueError(
            "Argument `config` must be an instance of `QuantizationConfig`, got "
            f"{config!r} of type {type(config).__name__}"
        )
    if mode is not None and config.mode != mode:
        raise ValueError(f"Contradictory arguments: mode={mode!r}, but config.mode={config.mode!r}")
    check_mode(config.mode)
    kind = _CALIBRATED.get(config.mode)
    if kind is not None and not isinstance(config, kind):
        raise ValueError(
            f"Mode {config.mode!r} requires a valid `config` of type {kind.__name__}, got "
            f"{type(config).__name__}"
        )
    return config


def _default(mode: Any) -> QuantizationConfig:
    if mode in _CALIBRATED:
        kind = _CALIBRATED[mode].__name__
        raise ValueError(
            f"For mode {mode!r} you must pass a `{kind}` as the argument `config`: it holds the "
            "calibration data"
        )
    if mode is None:
        raise ValueError("You must provide either `mode` or `config` to `quantize`")
    config: QuantizationConfig = _BY_DEFAULT[mode]()
    return config
