"""Attention with learned projections: multi-head and grouped-query."""

from __future__ import annotations

import math
from typing import Any

from trainkit import ops
from trainkit.core import shapes
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.layers.activation import Softmax
from trainkit.layers.arguments import keep, share, whole
from trainkit.layers.dense import EinsumDense
from trainkit.layers.dropout import Dropout
from trainkit.layers.layer import Layer
from trainkit.ops.attending import attend, is_served

_OPTIONS = ("initializer", "regularizer", "constraint")


class _Projecting(Layer):
    """What both kinds share: projections, masks, and the mask of the output."""

    def _dense(self, equation: str, shape: Any, bias_axes: str, name: str) -> EinsumDense:
        """A projection with the layer's settings, its weights random by themselves."""
        settings: dict[str, Any] = {}
        for family in ("kernel", "bias"):
            for option in _OPTIONS:
                value = getattr(self, f"{family}_{option}")
                fresh = option == "initializer" and hasattr(value, "get_config")
                settings[f"{family}_{option}"] = (
                    type(value).from_config(value.get_config()) if fresh else value
                )
        return EinsumDense(
            equation,
            output_shape=shape,
            bias_axes=bias_axes if self.use_bias else None,
            dtype=self.dtype_policy,
            name=name,
            **settings,
        )

    def _joined_mask(
        self, query: Any, value: Any, masks: dict[str, Any], causal: bool, attention_mask: Any
    ) -> Any:
        """Where a query may look, (batch, targets, sources), or `None` for everywhere."""
        joined = None
        query_mask, value_mask, key_mask = (masks.get(n) for n in ("query", "value", "key"))
        if query_mask is not None:
            joined = ops.expand_dims(ops.cast(query_mask, "bool"), -1)
        for mask in (value_mask, key_mask):
            if mask is not None:
                joined = _both(joined, ops.expand_dims(ops.cast(mask, "bool"), -2))
        if causal:
            joined = _both(joined, causal_mask(query, value))
        if attention_mask is not None:
            joined = _both(joined, ops.cast(attention_mask, "bool"))
        return joined

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return previous_mask


def _both(a: Any, b: Any) -> Any:
    return b if a is None else ops.logical_and(a, b)


def causal_mask(query: Any, value: Any) -> Any:
    """True where the source is not after the target: (1, targets, sources)."""
    rows = ops.cumsum(ops.ones_like(query[:1, :, :1], dtype="int32"), axis=1)
    columns = ops.cumsum(ops.ones_like(value[:1, :, :1], dtype="int32"), axis=1)
    return ops.greater_equal(rows, ops.transpose(columns, (0, 2, 1)))


class MultiHeadAttention(_Projecting):
    """Attention in several learned projections of query, key and value at once.

    Source: Vaswani et al. 2017, arXiv:1706.03762.
    Shapes: query (batch, targets..., query size), value (batch, sources..., value size), key
    (batch, sources..., key size), masks query_mask (batch, targets), value_mask and key_mask
    (batch, sources), attention_mask (batch, targets, sources); output (batch, targets..., output
    size), with `return_attention_scores` a tuple of it and the weights (batch, heads, targets...,
    sources...).

    Args:
        num_heads: number of projections.
        key_dim: length of projected queries and keys.
        value_dim: length of projected values; `key_dim` by default.
        dropout: share of the weights that is dropped while training.
        use_bias: whether projections have biases.
        output_shape: sizes of the output after the targets; the query's by default.
        attention_axes: axes of query and key over which to attend; all but batch and features by
            default.
        flash_attention: `None` or `False`: a kernel is chosen by itself.
        kernel_initializer, bias_initializer: what the weights start with.
        kernel_regularizer, bias_regularizer: penalties on the weights.
        activity_regularizer: penalty on the output.
        kernel_constraint, bias_constraint: bounds on the weights.
        use_gate: must be false: gated attention is not supported.
        seed: int for the dropout, by default derived from `set_seed`.

    Raises:
        InvalidArgumentError: a setting is none of these.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: Any = None,
        attention_axes: Any = None,
        flash_attention: bool | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        use_gate: bool = False,
        seed: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        keep(self, {k: v for k, v in locals().items() if k != "output_shape"})
        self.num_heads = whole(self, "num_heads", num_heads)
        self.key_dim = whole(self, "key_dim", key_dim)
        self.value_dim = whole(self, "value_dim", value_dim or key_dim)
        self.dropout = share(self, "dropout", dropout)
        self._output_sizes = (output_shape,) if isinstance(output_shape, int) else output_shape
        if attention_axes is not None:
            axes = attention_axes if isinstance(attention_axes, list | tuple) else (attention_axes,)
            self.attention_axes = tuple(axes)
        if flash_attention or use_gate:
            raise InvalidArgumentError(
                "MultiHeadAttention: flash_attention and use_gate are not supported; leave them at "
                "their defaults"
            )
        self.supports_masking = True

    def get_config(self) -> dict[str, Any]:
        sizes = self._output_sizes
        return {**super().get_config(), "output_shape": None if sizes is None else list(sizes)}

    def build(self, query_shape: Any, value_shape: Any = None, key_shape: Any = None) -> None:
        value_shape = query_shape if value_shape is None else value_shape
        key_shape = value_shape if key_shape is None else key_shape
        self._check_shapes(query_shape, value_shape, key_shape)
        heads = self.num_heads
        self.query_dense = self._projection(query_shape, (heads, self.key_dim), "query")
        self.key_dense = self._projection(key_shape, (heads, self.key_dim), "key")
        self.value_dense = self._projection(value_shape, (heads, self.value_dim), "value")
        axes = self.attention_axes or tuple(range(1, len(query_shape) - 1))
        self._axes = shapes.canonical_axes(axes, len(query_shape), "MultiHeadAttention")
        self._dropout = Dropout(self.dropout, seed=self.seed, dtype=self.dtype_policy)
        self._softmax = Softmax(axis=tuple(range(-len(self._axes), 0)), dtype=self.dtype_policy)
        free = "abcdefghijklmnop"[: len(query_shape) - 1]
        sizes = self._output_sizes or (query_shape[-1],)
        ends = "uvwxyz"[: len(sizes)]
        self.output_dense = self._dense(
            f"{free}st,st{ends}->{free}{ends}",
            (*[None] * (len(free) - 1), *sizes),
            ends,
            "attention_output",
        )
        inner = (*query_shape[:-1], heads, self.value_dim)
        self.output_dense.build(inner)

    def _check_shapes(self, query: Any, value: Any, key: Any) -> None:
        if len(query) != len(value) or tuple(value[1:-1]) != tuple(key[1:-1]):
            raise ShapeError(
                f"MultiHeadAttention {self.name!r}: query {tuple(query)}, value {tuple(value)} and "
                f"key {tuple(key)} do not fit: all have as many axes, key and value the same steps"
            )

    def _projection(self, shape: Any, sizes: tuple[int, int], name: str) -> EinsumDense:
        free = "abcdefghijklmnop"[: len(shape) - 1]
        dense = self._dense(
            f"{free}x,xst->{free}st", (*[None] * (len(free) - 1), *sizes), "st", name
        )
        dense.build(shape)
        return dense

    def call(
        self,
        query: Any,
        value: Any,
        key: Any = None,
        query_mask: Any = None,
        value_mask: Any = None,
        key_mask: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: Any = None,
        use_causal_mask: bool = False,
    ) -> Any:
        key = value if key is None else key
        given = {"query": query_mask, "value": value_mask, "key": key_mask}
        heads = (self.query_dense(query), self.key_dense(key), self.value_dense(value))
        alone = not return_attention_scores and self._axes == (1,)
        if alone and _in_one(self.dropout, training, *heads):
            mask = self._joined_mask(query, value, given, False, attention_mask)
            if mask is None or len(mask.shape) in (3, 4):
                scale = 1 / math.sqrt(self.key_dim)
                mask = _spread(mask, 4, 1)
                y = attend(*heads, mask, scale=scale, causal=use_causal_mask)
                return self.output_dense(y)
        mask = self._joined_mask(query, value, given, use_causal_mask, attention_mask)
        y, weights = self._attended(*heads, mask, training)
        y = self.output_dense(y)
        return (y, weights) if return_attention_scores else y

    def _attended(self, query: Any, key: Any, value: Any, mask: Any, training: Any) -> Any:
        """The weighted values, still by head, and the weights."""
        scores_formula, values_formula = _formulas(len(query.shape), self._axes)
        query = ops.multiply(query, 1 / math.sqrt(self.key_dim))
        scores = ops.einsum(scores_formula, key, query)
        weights = self._softmax(scores, mask=_spread(mask, len(scores.shape), len(self._axes)))
        dropped = self._dropout(weights, training=training)
        return ops.einsum(values_formula, dropped, value), weights


def _formulas(rank: int, axes: tuple[int, ...]) -> tuple[str, str]:
    """The einsum formulas of scores and outputs for (batch..., attended..., heads, size).

    Args:
        rank: of a projected query.
        axes: those of the attended steps.
    """
    target = "abcdefghijklm"[:rank]
    letters = iter("nopqrstuvwxyz")
    source = "".join(
        next(letters) if i in axes or i == rank - 1 else target[i] for i in range(rank)
    )
    batch = [target[i] for i in range(rank) if i not in axes and i != rank - 1]
    scores = "".join(batch) + "".join(target[i] for i in axes) + "".join(source[i] for i in axes)
    key = source[:-1] + target[-1]
    return f"{key},{target}->{scores}", f"{scores},{source}->{target[:-1]}{source[-1]}"


def _in_one(dropout: float, training: Any, *heads: Any) -> bool:
    """Whether nothing happens to the weights, so that one operation may do without them."""
    return (not dropout or training is False) and is_served(*heads)


def _spread(mask: Any, rank: int, count: int) -> Any:
    """`mask` with axes for the heads before its steps, to broadcast with scores of `rank`."""
    if mask is None:
        return None
    missing = rank - len(mask.shape)
    for _ in range(missing):
        mask = ops.expand_dims(
            mask, len(mask.shape) - 2 * count if len(mask.shape) > 2 * count else 1
        )
    return mask


class GroupedQueryAttention(_Projecting):
    """Multi-head attention in which groups of query heads share a head of keys and values.

    Source: Ainslie et al. 2023, arXiv:2305.13245.
    Shapes: query (batch, targets, query size), value and key (batch, sources, size), masks as for
    `MultiHeadAttention`; output (batch, targets, query size), with `return_attention_scores` a
    tuple of it and the weights (batch, query heads, targets, sources).

    Args:
        head_dim: length of projected queries, keys and values.
        num_query_heads: number of query heads, a multiple of the next.
        num_key_value_heads: number of heads of keys and values.
        dropout: share of the weights that is dropped while training.
        use_bias: whether projections have biases.
        flash_attention: `None` or `False`: a kernel is chosen by itself.
        kernel_initializer, bias_initializer: what the weights start with.
        kernel_regularizer, bias_regularizer: penalties on the weights.
        activity_regularizer: penalty on the output.
        kernel_constraint, bias_constraint: bounds on the weights.
        use_gate: must be false: gated attention is not supported.
        seed: int for the dropout, by default derived from `set_seed`.

    Raises:
        InvalidArgumentError: a setting is none of these.
    """

    def __init__(
        self,
        head_dim: int,
        num_query_heads: int,
        num_key_value_heads: int,
        dropout: float = 0.0,
        use_bias: bool = True,
        flash_attention: bool | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        use_gate: bool = False,
        seed: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        keep(self, locals())
        self.head_dim = whole(self, "head_dim", head_dim)
        self.num_query_heads = whole(self, "num_query_heads", num_query_heads)
        self.num_key_value_heads = whole(self, "num_key_value_heads", num_key_value_heads)
        self.dropout = share(self, "dropout", dropout)
        if num_query_heads % num_key_value_heads:
            raise InvalidArgumentError(
                f"GroupedQueryAttention: num_query_heads {num_query_heads} must be a multiple of "
                f"num_key_value_heads {num_key_value_heads}"
            )
        if flash_attention or use_gate:
            raise InvalidArgumentError(
                "GroupedQueryAttention: flash_attention and use_gate are not supported; leave them "
                "at their defaults"
            )
        self.supports_masking = True

    def build(self, query_shape: Any, value_shape: Any = None, key_shape: Any = None) -> None:
        value_shape = query_shape if value_shape is None else value_shape
        key_shape = value_shape if key_shape is None else key_shape
        size = self.head_dim
        for name, shape, heads in (
            ("query", query_shape, self.num_query_heads),
            ("key", key_shape, self.num_key_value_heads),
            ("value", value_shape, self.num_key_value_heads),
        ):
            dense = self._dense("bqm,muh->bquh", (None, heads, size), "uh", name)
            dense.build(shape)
            setattr(self, f"{name}_dense", dense)
        self._dropout = Dropout(self.dropout, seed=self.seed, dtype=self.dtype_policy)
        self._softmax = Softmax(axis=-1, dtype=self.dtype_policy)
        self.output_dense = self._dense(
            "bquh,uhm->bqm", (None, query_shape[-1]), "m", "attention_output"
        )
        self.output_dense.build((*query_shape[:-1], self.num_query_heads, size))

    def call(
        self,
        query: Any,
        value: Any,
        key: Any = None,
        query_mask: Any = None,
        value_mask: Any = None,
        key_mask: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: Any = None,
        use_causal_mask: bool = False,
    ) -> Any:
        key = value if key is None else key
        given = {"query": query_mask, "value": value_mask, "key": key_mask}
        group = self.num_query_heads // self.num_key_value_heads
        q, k, v = self.query_dense(query), self.key_dense(key), self.value_dense(value)
        if not return_attention_scores and _in_one(self.dropout, training, q, k, v):
            mask = self._joined_mask(query, value, given, False, attention_mask)
            if mask is None or len(mask.shape) == 3:
                scale = 1 / math.sqrt(self.head_dim)
                y = attend(q, k, v, _spread(mask, 4, 1), scale=scale, causal=use_causal_mask)
                return self.output_dense(y)
        mask = self._joined_mask(query, value, given, use_causal_mask, attention_mask)
        k = ops.repeat(k, group, axis=2)
        v = ops.repeat(v, group, axis=2)
        scores = ops.einsum("bquh,bkuh->buqk", ops.multiply(q, 1 / math.sqrt(self.head_dim)), k)
        mask = None if mask is None else ops.expand_dims(mask, 1)
        weights = self._softmax(scores, mask=mask)
        dropped = self._dropout(weights, training=training)
        y = self.output_dense(ops.einsum("buqk,bkuh->bquh", dropped, v))
        return (y, weights) if return_attention_scores else y


# The name that the exported layer had first.
GroupQueryAttention = GroupedQueryAttention
