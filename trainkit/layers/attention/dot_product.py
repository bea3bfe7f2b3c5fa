"""Attention without projections: dot-product and additive."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.values.python_values import short_text
from trainkit.core.values.type_aliases import Seed
from trainkit.layers.base.arguments import one_of, share
from trainkit.layers.base.layer import Layer
from trainkit.ops.neural.softmax import powers_share
from trainkit.ops.sampling import generators, random


class Attention(Layer):
    """Each query's mean of the values, weighted by softmax(scores of query and key).

    Scores are query . key, times a learned scale if `use_scale`; or, with `score_mode="concat"`,
    the sum of tanh(scale * (query + key)), times a learned weight.
    Source: Luong et al. 2015, arXiv:1508.04025.
    Shapes: inputs [query (batch, targets, size), value (batch, sources, value size), key (batch,
    sources, size)], key being the value if left out; output (batch, targets, value size), with
    `return_attention_scores` a tuple of it and the weights (batch, targets, sources).

    Args:
        use_scale: whether scores have a learned scale.
        score_mode: `"dot"` or `"concat"`.
        dropout: share of the weights that is dropped while training.
        seed: int for the dropout, by default derived from `set_seed`.

    Raises:
        InvalidArgumentError: a setting, or the number of inputs or masks, is none of these.

    Example:
        >>> query, value = tk.ones((2, 3, 4)), tk.ones((2, 5, 4))
        >>> tk.layers.Attention()([query, value]).shape
        TensorShape([2, 3, 4])
    """

    def __init__(
        self,
        use_scale: bool = False,
        score_mode: str = "dot",
        dropout: float = 0.0,
        seed: Seed | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.use_scale = use_scale
        self.score_mode = one_of(self, "score_mode", score_mode, ("dot", "concat"))
        self.dropout = share(self, "dropout", dropout)
        self.seed = seed
        if self.dropout:
            self.seed_generator = generators.SeedGenerator(seed)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        self._check_count(input_shape)
        self.scale: Any = None
        self.concat_score_weight: Any = None
        if self.use_scale:
            self.scale = self.add_weight("scale", (), initializer="ones")
        if self.score_mode == "concat":
            self.concat_score_weight = self.add_weight(
                "concat_score_weight", (), initializer="ones"
            )

    def _check_count(self, inputs: Any) -> None:
        several = isinstance(inputs, list | tuple) and len(inputs) in (2, 3)
        if not several or not all(
            isinstance(x, list | tuple) or hasattr(x, "shape") for x in inputs
        ):
            raise InvalidArgumentError(
                f"{type(self).__name__} {self.name!r} takes a list [query, value] or [query, "
                f"value, key] of tensors, got {short_text(inputs)}"
            )
        if any(len(x) < 3 for x in inputs if isinstance(x, list | tuple)):
            raise ShapeError(
                f"{type(self).__name__} {self.name!r}: attention is over the steps of sequences "
                "(batch, steps, features), and these have no steps: "
                f"{', '.join(str(tuple(x)) for x in inputs)}. Give them an axis of steps, as with "
                "x[:, None] for one step."
            )

    def _scores(self, query: Any, key: Any) -> Any:
        """Scores (batch, targets, sources)."""
        scale = None if self.scale is None else self.scale.value()
        if self.score_mode == "dot":
            scores = ops.matmul(query, ops.swapaxes(key, -2, -1))
            return scores if scale is None else ops.multiply(scores, scale)
        both = ops.add(ops.expand_dims(query, -2), ops.expand_dims(key, -3))
        both = ops.tanh(both if scale is None else ops.multiply(both, scale))
        return ops.multiply(self.concat_score_weight.value(), ops.sum(both, axis=-1))

    def call(
        self,
        inputs: Any,
        mask: Any = None,
        training: Any = False,
        return_attention_scores: bool = False,
        use_causal_mask: bool = False,
    ) -> Any:
        self._check_count(inputs)
        query, value = inputs[0], inputs[1]
        key = inputs[2] if len(inputs) > 2 else value
        query_mask, value_mask = self._masks(mask, len(inputs))
        scores = self._scores(query, key)
        visible = _seen(scores, value_mask, use_causal_mask)
        weights = powers_share(scores if visible is None else _hidden(scores, visible), axis=-1)
        if training and self.dropout:
            weights = random.dropout(weights, self.dropout, seed=self.seed_generator)
        y = ops.matmul(weights, value)
        if query_mask is not None:
            y = ops.multiply(y, ops.cast(ops.expand_dims(query_mask, -1), y.dtype))
        return (y, weights) if return_attention_scores else y

    def _masks(self, mask: Any, count: int) -> tuple[Any, Any]:
        if mask is None:
            return None, None
        if not isinstance(mask, list | tuple) or not 2 <= len(mask) <= count:
            raise InvalidArgumentError(
                f"{type(self).__name__} {self.name!r}: mask must be a list [query mask, value "
                f"mask], got {mask!r}"
            )
        return mask[0], mask[1]

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        self._check_count(inputs)
        first = self._masks(mask, len(inputs))[0]
        return None if first is None else ops.convert_to_tensor(first)


def _seen(scores: Any, value_mask: Any, causal: bool) -> Any:
    """Where a query may look, or `None` for everywhere."""
    visible = None if value_mask is None else ops.cast(value_mask, "bool")
    if visible is not None and (causal or len(visible.shape) == 2):
        visible = ops.expand_dims(visible, -2)
    if causal:
        ones = ops.ones_like(scores[:1], dtype="int32")
        rows, columns = ops.cumsum(ones, axis=-2), ops.cumsum(ones, axis=-1)
        lower = ops.greater_equal(rows, columns)
        visible = lower if visible is None else ops.logical_and(visible, lower)
    return visible


def _hidden(scores: Any, visible: Any) -> Any:
    """Scores with those that may not be seen far below the others."""
    gap = 65504.0 if scores.dtype.name == "float16" else 1e9
    return ops.subtract(scores, ops.multiply(ops.cast(ops.logical_not(visible), scores.dtype), gap))


class AdditiveAttention(Attention):
    """Attention with the score sum(scale * tanh(query + key)), scale being a learned vector.

    Source: Bahdanau et al. 2014, arXiv:1409.0473.
    Shapes: as `Attention`; scale (size,).

    Args:
        use_scale: whether there is a learned scale.
        dropout: share of the weights that is dropped while training.
        seed: int for the dropout, by default derived from `set_seed`.

    Example:
        >>> query, value = tk.ones((2, 3, 4)), tk.ones((2, 5, 4))
        >>> tk.layers.AdditiveAttention()([query, value]).shape
        TensorShape([2, 3, 4])
    """

    def __init__(
        self, use_scale: bool = True, dropout: float = 0.0, seed: Seed | None = None, **kwargs: Any
    ) -> None:
        super().__init__(use_scale=use_scale, dropout=dropout, seed=seed, **kwargs)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config.pop("score_mode", None)
        return config

    def build(self, input_shape: Any) -> None:
        self._check_count(input_shape)
        self.scale = None
        if self.use_scale:
            size = input_shape[0][-1]
            self.scale = self.add_weight("scale", (size,), initializer="glorot_uniform")

    def _scores(self, query: Any, key: Any) -> Any:
        both = ops.tanh(ops.add(ops.expand_dims(query, -2), ops.expand_dims(key, -3)))
        if self.scale is not None:
            both = ops.multiply(both, self.scale.value())
        return ops.sum(both, axis=-1)
