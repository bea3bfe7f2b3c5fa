"""The variants of `Dense`, `EinsumDense`, `TernaryDense` and convolutions, by mode."""

from __future__ import annotations

from typing import Any

from trainkit.layers.quantized.calibrated import AWQKernel, GPTQKernel
from trainkit.layers.quantized.contractions import EINSUM
from trainkit.layers.quantized.float8_dense import Float8
from trainkit.layers.quantized.integers import Int4, Int8
from trainkit.layers.quantized.lora import LoraEinsum, LoraKernel
from trainkit.layers.quantized.quantized_projection import Projection
from trainkit.layers.quantized.stored_weights import add_pair, check_lora
from trainkit.layers.quantized.ternary import Ternary
from trainkit.layers.quantized.variants import become, plain_class


class EinsumInt8(Int8):
    """`Int8` for `EinsumDense`."""

    contraction = EINSUM


class EinsumInt4(Int4):
    """`Int4` for `EinsumDense`."""

    contraction = EINSUM


class EinsumFloat8(Float8):
    """`Float8` for `EinsumDense`."""

    contraction = EINSUM


class EinsumGPTQ(GPTQKernel):
    """`GPTQKernel` for `EinsumDense`."""

    contraction = EINSUM


class EinsumAWQ(AWQKernel):
    """`AWQKernel` for `EinsumDense`."""

    contraction = EINSUM


def _by_mode(*variants: type[Projection]) -> dict[str, type[Projection]]:
    return {str(variant.mode): variant for variant in variants}


VARIANTS: dict[str, dict[str, type[Projection]]] = {
    "Dense": _by_mode(Int8, Int4, Float8, Ternary, GPTQKernel, AWQKernel),
    "EinsumDense": _by_mode(EinsumInt8, EinsumInt4, EinsumFloat8, EinsumGPTQ, EinsumAWQ),
    "TernaryDense": _by_mode(Ternary),
    "_Conv": {},
}
"""The variants by mode, by the name of the class."""


def stored_names(layer: Any) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """What files have of a plain layer of this class, and of one of each mode."""
    modes = VARIANTS[plain_class(type(layer)).__name__]
    return LoraKernel.stored, {mode: kind.stored_as for mode, kind in modes.items()}


def add_lora(layer: Any, rank: int, alpha: Any, a_start: Any, b_start: Any) -> None:
    """Give a layer with a kernel the two matrices of LoRA.

    Raises:
        ValueError: see `check_lora`.
        NotImplementedError: its mode does not go with LoRA.
    """
    check_lora(layer, "kernel_constraint")
    mode = layer.quantization_mode
    if mode in ("gptq", "awq", "ternary", "float8"):
        raise NotImplementedError(f"layer {layer.name!r}: LoRA is not supported with mode {mode!r}")
    if mode is None:
        become(layer, LoraEinsum if hasattr(layer, "equation") else LoraKernel)
    kernel = layer.__dict__["kernel"]
    shape = tuple(layer.original_kernel_shape if mode == "int4" else kernel.shape)
    shapes = ((*shape[:-1], rank), (rank, shape[-1]))
    add_pair(layer, shapes, layer.kernel_regularizer, rank, alpha, (a_start, b_start))
    kernel.trainable = False
