"""Embedding layers: rows of a table by their index."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.values.type_aliases import ConstraintLike, InitializerLike, RegularizerLike
from trainkit.layers.base.arguments import keep, weight_of, whole
from trainkit.layers.base.layer import Layer
from trainkit.layers.quantized import quantization
from trainkit.layers.quantized.variants import HeldWeight

_VARIANTS = "trainkit.layers.quantized.embedding_variants"


class Embedding(Layer):
    """Row number x of a table.

    Shapes: input (batch, ...) of ints in [0, input_dim), output (batch, ..., output_dim),
    embeddings (input_dim, output_dim).

    Args:
        input_dim: number of rows.
        output_dim: length of a row.
        embeddings_initializer: what the table starts with.
        embeddings_regularizer: penalty on the table.
        embeddings_constraint: bounds on it.
        mask_zero: whether later layers skip steps whose index is 0.
        weights: the table itself, in a list, in place of an initializer.
        lora_rank, lora_alpha: arguments of `enable_lora`, which is called when the layer is built.
        **kwargs: see `Layer`; and `input_length` of older versions of Keras: the shape of one
            sample, by which a `Sequential` that begins with this layer is built.

    Raises:
        InvalidArgumentError: an index is outside the table.

    Example:
        >>> layer = tk.layers.Embedding(input_dim=10, output_dim=4)
        >>> layer(tk.constant([[1, 2, 3]])).shape
        TensorShape([1, 3, 4])
    """

    embeddings_constraint: Any
    embeddings_initializer: Any
    embeddings_regularizer: Any
    mask_zero: Any

    _quantization = quantization.LayerQuantization(_VARIANTS)
    enable_lora = quantization.enable_lora
    lora_enabled = False
    variable_serialization_spec = quantization.serialization_spec
    _embeddings = HeldWeight("embeddings")

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: InitializerLike = "uniform",
        embeddings_regularizer: RegularizerLike | None = None,
        embeddings_constraint: ConstraintLike | None = None,
        mask_zero: bool = False,
        weights: Any = None,
        lora_rank: int | None = None,
        lora_alpha: float | None = None,
        quantization_config: Any = None,
        **kwargs: Any,
    ) -> None:
        length = kwargs.pop("input_length", None)
        if length is not None and not {"input_shape", "batch_input_shape"} & set(kwargs):
            kwargs["input_shape"] = tuple(length) if isinstance(length, list | tuple) else (length,)
        super().__init__(**kwargs)
        arguments = locals()
        del arguments["weights"]
        keep(self, arguments)
        self.lora_alpha = lora_rank if lora_alpha is None else lora_alpha
        self.supports_masking = mask_zero
        self.autocast = False
        self.input_dim = whole(self, "input_dim", input_dim)
        self.output_dim = whole(self, "output_dim", output_dim)
        if weights is not None:
            self.build()
            self.set_weights(weights if isinstance(weights, list | tuple) else [weights])

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config.pop("weights", None)  # the first values, which a saved layer has as its own
        return config

    def build(self, input_shape: Any = None) -> None:
        if self._quantization.builds_floats(self, (self.input_dim, self.output_dim)):
            self.embeddings = weight_of(self, "embeddings", (self.input_dim, self.output_dim))
        quantization.start_lora(self)

    def call(self, inputs: Any) -> Any:
        if not inputs.dtype.is_integer:
            inputs = ops.cast(inputs, "int32")
        rows = ops.embedding_lookup(self.embeddings.value(), inputs)
        return ops.cast(rows, self.compute_dtype)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return ops.not_equal(inputs, 0) if self.mask_zero else None


class ReversibleEmbedding(Embedding):
    """An embedding that also turns vectors back into scores of the rows.

    Shapes: forward as `Embedding`; with `reverse=True` input (batch, ..., output_dim), output
    (batch, ..., input_dim).

    Args:
        input_dim: number of rows.
        output_dim: length of a row.
        tie_weights: whether the reverse direction uses the same table; else it has one of its own.
        embeddings_initializer: what the table starts with.
        embeddings_regularizer: penalty on the table.
        embeddings_constraint: bounds on it.
        mask_zero: whether later layers skip steps whose index is 0.
        reverse_dtype: element type of the reverse direction; that of the layer by default.
        logit_soft_cap: scores become cap * tanh(score / cap).

    Example:
        >>> layer = tk.layers.ReversibleEmbedding(input_dim=10, output_dim=4)
        >>> x = layer(tk.constant([[1, 2]]))
        >>> layer(x, reverse=True).shape
        TensorShape([1, 2, 10])
    """

    _quantization = quantization.LayerQuantization(_VARIANTS)

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        tie_weights: bool = True,
        embeddings_initializer: InitializerLike = "uniform",
        embeddings_regularizer: RegularizerLike | None = None,
        embeddings_constraint: ConstraintLike | None = None,
        mask_zero: bool = False,
        reverse_dtype: Any = None,
        logit_soft_cap: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            input_dim,
            output_dim,
            embeddings_initializer=embeddings_initializer,
            embeddings_regularizer=embeddings_regularizer,
            embeddings_constraint=embeddings_constraint,
            mask_zero=mask_zero,
            **kwargs,
        )
        self.tie_weights = tie_weights
        self.reverse_dtype = reverse_dtype
        self.logit_soft_cap = logit_soft_cap

    def build(self, input_shape: Any = None) -> None:
        super().build(input_shape)
        if not self.tie_weights and not quantization.is_quantized(self):
            self.reverse_embeddings = self.add_weight(
                "reverse_embeddings",
                (self.output_dim, self.input_dim),
                initializer=self.embeddings_initializer,
            )

    def call(self, inputs: Any, reverse: bool = False) -> Any:
        if not reverse:
            return super().call(inputs)
        table = self.embeddings if self.tie_weights else self.reverse_embeddings
        dtype = self.reverse_dtype or self.compute_dtype
        kernel = ops.cast(table.value(), dtype)
        if self.tie_weights:
            kernel = ops.transpose(kernel)
        scores = ops.matmul(ops.cast(inputs, dtype), kernel)
        cap = self.logit_soft_cap
        return scores if cap is None else ops.multiply(ops.tanh(ops.divide(scores, cap)), cap)

    def compute_mask(self, inputs: Any, mask: Any = None, reverse: bool = False) -> Any:
        return None if inputs.dtype.is_floating else super().compute_mask(inputs, mask)
