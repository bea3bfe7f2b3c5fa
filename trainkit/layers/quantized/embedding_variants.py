"""`Embedding` and `ReversibleEmbedding` with tables of 8 or 4 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.trackable import set_silently
from trainkit.layers.quantized.integers import block_size_of, constant, int4_policy_name
from trainkit.layers.quantized.lora import LoraEmbeddings, lora_delta, lora_factor
from trainkit.layers.quantized.stored_weights import StoredWeights, add_pair, check_lora
from trainkit.layers.quantized.variants import become, drop_weight, hold, plain_class
from trainkit.quantizers.abs_max import (
    AbsMaxQuantizer,
    abs_max_quantize,
    abs_max_quantize_grouped_with_zero_point,
)
from trainkit.quantizers.packing import pack_int4, unpack_int4
from trainkit.quantizers.quantization_config import QuantizationConfig
from trainkit.quantizers.zero_points import dequantize_with_sz_map

_INT4 = (-8, 7)
_WEIGHTS = QuantizationConfig.weight_quantizer_or_default
_INPUTS = QuantizationConfig.activation_quantizer_or_default


class QuantizedTable(StoredWeights):
    """A table of rows in another form, and, of a `ReversibleEmbedding`, the one for the reverse.

    Scales go by row of the table; those of the reverse table by its columns.
    """

    _lora_pair = ("lora_embeddings_a", "lora_embeddings_b")
    keeps_floats = False

    @classmethod
    def replace_weights(cls, layer: Any, config: Any) -> None:
        """Make the variables in place of the floats."""
        drop_weight(layer, "embeddings")
        if _has_reverse(layer):
            drop_weight(layer, "reverse_embeddings")
        layer.quantized_build((layer.input_dim, layer.output_dim), cls.mode, config)

    @staticmethod
    def _add(layer: Any, name: str, shape: Any, start: Any = "zeros", dtype: Any = "int8") -> None:
        variable = layer.add_weight(name, shape, initializer=start, dtype=dtype, trainable=False)
        hold(layer, name, variable)

    @property
    def embeddings(self) -> Any:
        """The table as it is kept, unpacked; with LoRA what that adds, too."""
        table = self._unpack()
        if not self.lora_enabled:
            return table
        return ops.cast(ops.add(table, lora_delta(self)), self.compute_dtype)

    @embeddings.setter
    def embeddings(self, value: Any) -> None:
        hold(self, "embeddings", value)

    def _unpack(self) -> Any:
        return self.__dict__["embeddings"]

    # ------------------------------------------------------------------ calling

    def call(self, inputs: Any, reverse: bool = False) -> Any:
        return self._scores(inputs) if reverse else self._rows(inputs)

    def _rows(self, inputs: Any) -> Any:
        """The rows of these numbers as floats."""
        if not inputs.dtype.is_integer:
            inputs = ops.cast(inputs, "int32")
        rows = self._look_up(inputs)
        if self.lora_enabled:
            a = ops.embedding_lookup(self.lora_embeddings_a.value(), inputs)
            more = ops.matmul(a, self.lora_embeddings_b.value())
            rows = ops.add(rows, ops.multiply(more, lora_factor(self)))
        return ops.cast(rows, self.compute_dtype)

    def _look_up(self, inputs: Any) -> Any:
        """The rows without LoRA."""
        raise NotImplementedError

    def _scores(self, inputs: Any) -> Any:
        """The scores of all rows for these vectors."""
        x, by = inputs, None
        if self.inputs_quantizer is not None:
            x, by = self.inputs_quantizer(inputs)
        scores = self._score(x)
        scores = scores if by is None else ops.divide(scores, by)
        cap = self.logit_soft_cap
        return scores if cap is None else ops.multiply(ops.tanh(ops.divide(scores, cap)), cap)

    def _score(self, x: Any) -> Any:
        """`x` times the table, as floats."""
        raise NotImplementedError

    # ------------------------------------------------------------------ LoRA in files

    def _merge(self) -> dict[str, Any]:
        table = ops.add(self._floats(), lora_delta(self))
        return self._encoded_table(self, table)

    def _floats(self) -> Any:
        """The whole table as floats again."""
        raise NotImplementedError

    @classmethod
    def _encoded_table(cls, layer: Any, table: Any) -> dict[str, Any]:
        """The values of the variables of the table, as quantized by default."""
        raise NotImplementedError


def _has_reverse(layer: Any) -> bool:
    return not getattr(layer, "tie_weights", True)


def _is_reversible(layer: Any) -> bool:
    return hasattr(layer, "tie_weights")


class Int8Embeddings(QuantizedTable):
    """A table of int8 with a scale for each row."""

    mode = "int8"
    stored = ("embeddings", "embeddings_scale", "reverse_embeddings", "reverse_embeddings_scale")

    @classmethod
    def build(cls, layer: Any, shape: tuple[int, ...], config: Any) -> None:
        """Make the variables, and let `layer` be of this class."""
        count, size = shape
        cls._add(layer, "embeddings", (count, size))
        cls._add(layer, "embeddings_scale", (count,), "ones", None)
        if _is_reversible(layer):
            layer.inputs_quantizer = _INPUTS(config, AbsMaxQuantizer(axis=-1))
        if _has_reverse(layer):
            cls._add(layer, "reverse_embeddings", (size, count))
            cls._add(layer, "reverse_embeddings_scale", (count,), "ones", None)
        become(layer, cls)

    @classmethod
    def encoded(cls, layer: Any, config: Any) -> dict[str, Any]:
        """The values of the new variables by name, from the floats of `layer`."""
        value, scale = _WEIGHTS(config, AbsMaxQuantizer(axis=-1))(layer._embeddings, to_numpy=True)
        values = {"embeddings": value, "embeddings_scale": ops.squeeze(scale, -1)}
        if _has_reverse(layer):
            quantizer = _WEIGHTS(config, AbsMaxQuantizer(axis=0))
            value, scale = quantizer(layer.reverse_embeddings, to_numpy=True)
            values["reverse_embeddings"] = value
            values["reverse_embeddings_scale"] = ops.reshape(scale, (-1,))
        return values

    @classmethod
    def _encoded_table(cls, layer: Any, table: Any) -> dict[str, Any]:
        value, scale = abs_max_quantize(table, -1, to_numpy=True)
        return {"embeddings": value, "embeddings_scale": ops.squeeze(scale, -1)}

    def _floats(self) -> Any:
        table = ops.cast(self.__dict__["embeddings"].value(), self.compute_dtype)
        return ops.divide(table, ops.expand_dims(self.embeddings_scale.value(), -1))

    def _look_up(self, inputs: Any) -> Any:
        rows = ops.embedding_lookup(self.__dict__["embeddings"].value(), inputs)
        scales = ops.take(self.embeddings_scale.value(), inputs, axis=0)
        return ops.divide(ops.cast(rows, self.compute_dtype), ops.expand_dims(scales, -1))

    def _score(self, x: Any) -> Any:
        if _has_reverse(self):
            kernel = self.reverse_embeddings.value()
            scale = self.reverse_embeddings_scale.value()
        else:
            kernel = ops.transpose(self.__dict__["embeddings"].value())
            scale = self.embeddings_scale.value()
        if x.dtype.is_floating:
            kernel = ops.cast(kernel, x.dtype)
        return ops.divide(ops.cast(ops.matmul(x, kernel), self.compute_dtype), scale)


class Int4Embeddings(QuantizedTable):
    """A table of 4 bits, two neighbours of a row in a byte; of the reverse table, of a column."""

    mode = "int4"
    stored = (
        "embeddings",
        "embeddings_scale",
        "embeddings_zero",
        "g_idx",
        "reverse_embeddings",
        "reverse_embeddings_scale",
        "reverse_embeddings_zero",
    )

    @classmethod
    def build(cls, layer: Any, shape: tuple[int, ...], config: Any) -> None:
        """Make the variables, and let `layer` be of this class."""
        count, size = shape
        block = block_size_of(layer, config)
        packed = (size + 1) // 2
        groups = None if block is None else -(-size // block)
        scales: tuple[int, ...] = (count,) if groups is None else (count, groups)
        cls._add(layer, "embeddings", (count, packed))
        cls._add(layer, "embeddings_scale", scales, "ones", None)
        if block is not None:
            cls._add(layer, "embeddings_zero", scales)
            cls._add(layer, "g_idx", (size,), constant(np.arange(size) // block), "float32")
        if _is_reversible(layer):
            layer.inputs_quantizer = _INPUTS(config, AbsMaxQuantizer(axis=-1))
        if _has_reverse(layer):
            turned = scales[::-1]
            cls._add(layer, "reverse_embeddings", (packed, count))
            cls._add(layer, "reverse_embeddings_scale", turned, "ones", None)
            if groups is not None:
                cls._add(layer, "reverse_embeddings_zero", turned, dtype=None)
        raw = getattr(config, "block_size", block)
        set_silently(layer, _int4_block_size=raw, _orig_output_dim=size)
        become(layer, cls)

    @classmethod
    def policy_name(cls, layer: Any, config: Any) -> str:
        return int4_policy_name(layer, config)

    @classmethod
    def encoded(cls, layer: Any, config: Any) -> dict[str, Any]:
        """The values of the new variables by name, from the floats of `layer`."""
        block, own = block_size_of(layer, config), _WEIGHTS(config, None)
        values = _encoded_rows(layer._embeddings, block, own)
        if _has_reverse(layer):
            integers, scale, zero = _integers_of(layer.reverse_embeddings, block, own, 0)
            values["reverse_embeddings"] = pack_int4(integers, axis=0)[0]
            values["reverse_embeddings_scale"] = scale
            if zero is not None:
                values["reverse_embeddings_zero"] = ops.cast(zero, "float32")
        return values

    @classmethod
    def _encoded_table(cls, layer: Any, table: Any) -> dict[str, Any]:
        return _encoded_rows(table, block_size_of(layer, layer.quantization_config), None)

    def _unpack(self) -> Any:
        packed = self.__dict__["embeddings"].value()
        return unpack_int4(packed, self._orig_output_dim, axis=-1)

    def _floats(self) -> Any:
        scale = self.embeddings_scale.value()
        zero = self.__dict__.get("embeddings_zero")
        return self._decode(self._unpack(), scale, None if zero is None else zero.value(), -1)

    def _decode(self, integers: Any, scale: Any, zero: Any, axis: int) -> Any:
        """Floats of integers, whose groups stand along `axis`."""
        dtype = self.compute_dtype
        if zero is None:
            return ops.divide(ops.cast(integers, dtype), ops.expand_dims(scale, axis))
        groups = self.g_idx.value()
        return ops.cast(dequantize_with_sz_map(integers, scale, zero, groups, axis), dtype)

    def _look_up(self, inputs: Any) -> Any:
        rows = ops.embedding_lookup(self.__dict__["embeddings"].value(), inputs)
        integers = unpack_int4(rows, self._orig_output_dim, axis=-1)
        scale = ops.take(self.embeddings_scale.value(), inputs, axis=0)
        zero = self.__dict__.get("embeddings_zero")
        zero = None if zero is None else ops.take(zero.value(), inputs, axis=0)
        return self._decode(integers, scale, zero, -1)

    def _score(self, x: Any) -> Any:
        if _has_reverse(self):
            packed = self.reverse_embeddings.value()
            integers = unpack_int4(packed, self._orig_output_dim, axis=0)
            scale = self.reverse_embeddings_scale.value()
            zero = self.__dict__.get("reverse_embeddings_zero")
            floats = self._decode(integers, scale, None if zero is None else zero.value(), 0)
        else:
            floats = ops.transpose(self._floats())
        return ops.matmul(ops.cast(x, floats.dtype), floats)


def _encoded_rows(table: Any, block: int | None, own: Any) -> dict[str, Any]:
    integers, scale, zero = _integers_of(table, block, own, -1)
    values = {"embeddings": pack_int4(integers, axis=-1)[0], "embeddings_scale": scale}
    return values if zero is None else {**values, "embeddings_zero": zero}


def _integers_of(table: Any, block: int | None, own: Any, axis: int) -> tuple[Any, Any, Any]:
    """Integers, scales and zero points of a table whose rows (-1) or columns (0) have scales."""
    if block is None:
        quantizer = own or AbsMaxQuantizer(axis=axis, value_range=_INT4)
        integers, scale = quantizer(table, to_numpy=True)
        return integers, ops.squeeze(scale, axis), None
    turned = table if axis == 0 else ops.transpose(table)
    quantized = abs_max_quantize_grouped_with_zero_point(turned, block, _INT4, to_numpy=True)
    return quantized if axis == 0 else tuple(ops.transpose(x) for x in quantized)  # type: ignore[return-value]


VARIANTS: dict[str, dict[str, type[QuantizedTable]]] = {
    name: {"int8": Int8Embeddings, "int4": Int4Embeddings}
    for name in ("Embedding", "ReversibleEmbedding")
}
"""The variants by mode, by the name of the class."""


def stored_names(layer: Any) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """What files have of a plain layer of this class, and of one of each mode."""
    own = [name for name in LoraEmbeddings.stored if _has_reverse(layer) or "reverse" not in name]
    modes = VARIANTS[plain_class(type(layer)).__name__]
    return tuple(own), {
        mode: tuple(n for n in kind.stored if _has_reverse(layer) or "reverse" not in n)
        for mode, kind in modes.items()
    }


def add_lora(layer: Any, rank: int, alpha: Any, a_start: Any, b_start: Any) -> None:
    """Give an embedding the two matrices of LoRA.

    Raises:
        ValueError: see `check_lora`.
    """
    check_lora(layer, "embeddings_constraint")
    if layer.quantization_mode is None:
        become(layer, LoraEmbeddings)
    shapes = ((layer.input_dim, rank), (rank, layer.output_dim))
    add_pair(layer, shapes, layer.embeddings_regularizer, rank, alpha, (a_start, b_start))
    layer.__dict__["embeddings"].trainable = False
