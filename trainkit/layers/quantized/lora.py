"""Layers of floats with LoRA: a frozen weight, and what two trained matrices add to it.

Source: Hu and others 2021, arXiv:2106.09685.
"""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.variable import Reading
from trainkit.layers.quantized.stored_weights import StoredWeights
from trainkit.layers.quantized.variants import hold


def lora_factor(layer: Any) -> float:
    """How often the product of the two matrices counts."""
    factor: float = layer.lora_alpha / layer.lora_rank
    return factor


def lora_delta(layer: Any) -> Any:
    """What LoRA adds to the weight."""
    a, b = (layer.__dict__[name].value() for name in layer._lora_pair)
    return ops.multiply(ops.matmul(a, b), lora_factor(layer))


def with_lora(layer: Any, weight: Any) -> Any:
    """A weight with what LoRA adds to it, in the compute dtype."""
    return ops.cast(ops.add(weight, lora_delta(layer)), layer.compute_dtype)


class LoraKernel(StoredWeights):
    """A layer whose call reads the sum for its kernel."""

    stored = ("kernel", "bias")

    @property
    def kernel(self) -> Any:
        """The frozen kernel with what LoRA adds."""
        return Reading(self._total)

    @kernel.setter
    def kernel(self, value: Any) -> None:
        hold(self, "kernel", value)

    def _total(self) -> Any:
        return with_lora(self, self.__dict__["kernel"].value())

    def _merge(self) -> dict[str, Any]:
        return {"kernel": self._total()}


class LoraEinsum(LoraKernel):
    """`LoraKernel` for `EinsumDense`."""

    def call(self, inputs: Any, training: Any = None) -> Any:
        y = ops.einsum(self.equation, inputs, self._total())
        bias = self.bias
        return self.activation(y if bias is None else ops.add(y, bias.value()))


class LoraEmbeddings(StoredWeights):
    """An embedding that looks rows up in the sum."""

    stored = ("embeddings", "reverse_embeddings")
    _lora_pair = ("lora_embeddings_a", "lora_embeddings_b")

    @property
    def embeddings(self) -> Any:
        """The frozen table with what LoRA adds."""
        return Reading(self._total)

    @embeddings.setter
    def embeddings(self, value: Any) -> None:
        hold(self, "embeddings", value)

    def _total(self) -> Any:
        return with_lora(self, self.__dict__["embeddings"].value())

    def _merge(self) -> dict[str, Any]:
        return {"embeddings": self._total()}
