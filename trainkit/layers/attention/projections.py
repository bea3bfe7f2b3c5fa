"""What attention layers with learned projections share: projections, masks, the weighting."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.registry import serialize_object
from trainkit.core.trackable import set_silently
from trainkit.layers.activation import Softmax
from trainkit.layers.base.arguments import whole
from trainkit.layers.base.layer import Layer
from trainkit.layers.dense import EinsumDense
from trainkit.layers.dropout import Dropout
from trainkit.ops.neural.attention import flash_attention_enabled
from trainkit.ops.neural.fused_attention import attend, is_served

_OPTIONS = ("initializer", "regularizer", "constraint")


class ProjectedAttention(Layer):
    """Base of layers that attend with projections of query, key and value."""

    gate_dense: Any
    key_dense: Any
    output_dense: Any
    query_dense: Any
    use_bias: Any
    use_gate: Any
    value_dense: Any

    if TYPE_CHECKING:
        dropout: float
        sliding_window: int | None
        flash_attention: bool | None
        _axes: tuple[int, ...]
        _softmax: Softmax
        _dropout: Dropout
        _activity_regularizer: Any

    def _check_settings(self) -> None:
        if self.sliding_window is not None:
            self.sliding_window = whole(self, "sliding_window", self.sliding_window)
        if self._flash_attention and self.dropout:
            raise InvalidArgumentError(
                f"{type(self).__name__}: flash_attention=True goes without dropout, which is "
                f"{self.dropout}; leave one of them at its default"
            )

    @property
    def _flash_attention(self) -> bool:
        return bool(self.flash_attention or flash_attention_enabled())

    @property
    def _query_dense(self) -> EinsumDense:
        return self.query_dense

    @property
    def _key_dense(self) -> EinsumDense:
        return self.key_dense

    @property
    def _value_dense(self) -> EinsumDense:
        return self.value_dense

    @property
    def _output_dense(self) -> EinsumDense:
        return self.output_dense

    @property
    def _gate_dense(self) -> EinsumDense:
        return self.gate_dense

    @property
    def _sliding_window(self) -> int | None:
        return self.sliding_window

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config.pop("flash_attention", None)
        if self._activity_regularizer is not None:
            config["activity_regularizer"] = serialize_object(self._activity_regularizer)
        return config

    def _dense(
        self, equation: str, shape: Any, bias_axes: str, name: str, activation: Any = None
    ) -> EinsumDense:
        """A projection with the layer's settings, its weights random by themselves."""
        settings: dict[str, Any] = {}
        for family in ("kernel", "bias"):
            for option in _OPTIONS:
                value = getattr(self, f"{family}_{option}")
                fresh = option == "initializer" and hasattr(value, "get_config")
                settings[f"{family}_{option}"] = (
                    type(value).from_config(value.get_config()) if fresh else value
                )
        dense = EinsumDense(
            equation,
            output_shape=shape,
            bias_axes=bias_axes if self.use_bias else None,
            dtype=self.dtype_policy,
            name=name,
            activation=activation,
            activity_regularizer=self._activity_regularizer,
            **settings,
        )
        set_silently(dense, _warns_of_lost_masks=False)  # the masks are this layer's to handle
        return dense

    def _compute_attention_mask(
        self,
        query: Any,
        value: Any,
        query_mask: Any = None,
        value_mask: Any = None,
        key_mask: Any = None,
        attention_mask: Any = None,
        use_causal_mask: bool = False,
    ) -> Any:
        """Where a query may look, (batch, targets, sources), or `None` for everywhere."""
        joined = None
        if query_mask is not None:
            joined = ops.expand_dims(ops.cast(query_mask, "bool"), -1)
        for mask in (value_mask, key_mask):
            if mask is not None:
                joined = _both(joined, ops.expand_dims(ops.cast(mask, "bool"), -2))
        if use_causal_mask:
            joined = _both(joined, self._compute_causal_mask(query, value))
        if self.sliding_window is not None:
            near = _steps_between(query, value)
            joined = _both(joined, ops.less(ops.abs(near), self.sliding_window))
        if attention_mask is not None:
            joined = _both(joined, ops.cast(attention_mask, "bool"))
        return joined

    def _compute_causal_mask(self, query: Any, value: Any = None) -> Any:
        """True where the source is not after the target: (1, targets, sources)."""
        return ops.greater_equal(_steps_between(query, query if value is None else value), 0)

    def _mask_of_call(
        self, query: Any, value: Any, causal: bool, **mask_arguments: Any
    ) -> tuple[Any, bool]:
        """The mask for `_compute_attention`, and whether a flag stands for the causal mask."""
        kind, base = type(self), ProjectedAttention
        alone = (
            causal
            and self.sliding_window is None
            and all(m is None for m in mask_arguments.values())
        )
        if alone and kind._compute_attention is base._compute_attention:
            return None, True
        return self._compute_attention_mask(
            query, value, use_causal_mask=causal, **mask_arguments
        ), False

    def _compute_attention(
        self,
        query: Any,
        key: Any,
        value: Any,
        attention_mask: Any = None,
        training: Any = None,
        return_attention_scores: bool = False,
        use_causal_mask: bool = False,
    ) -> tuple[Any, Any]:
        """The weighted values of projected queries, keys and values; override it for others.

        Without dropout and without weights asked for, a query that sees nothing gets the mean of
        all values, otherwise zeros: as in Keras.

        Args:
            query: (batch, targets..., heads, size).
            key: (batch, sources..., heads, size).
            value: (batch, sources..., heads, value size).
            attention_mask: (batch, targets, sources) or with heads, true where a query may look.
            training: whether weights are dropped.
            return_attention_scores: whether the weights are wanted.
            use_causal_mask: whether a query sees only sources up to its own position.

        Returns:
            Values (batch, targets..., heads, value size), and weights or `None`.

        Raises:
            InvalidArgumentError: weights are wanted from `flash_attention=True`.
        """
        if self._flash_attention and return_attention_scores:
            raise InvalidArgumentError(
                f"{type(self).__name__} {self.name!r}: return_attention_scores=True needs "
                "flash_attention=False, which has no weights"
            )
        scale = 1 / math.sqrt(query.shape[-1])
        plain = not return_attention_scores and len(query.shape) == 4 and self._axes == (1,)
        if plain and not self.dropout:
            mask = _with_heads(attention_mask, 4, 1)
            more = {"scale": scale, "is_causal": use_causal_mask, "mask": mask}
            if self._flash_attention:
                more["flash_attention"] = True
            return ops.dot_product_attention(query, key, value, **more), None
        if plain and not training and is_served(query, key, value):
            mask = _with_heads(attention_mask, 4, 1)
            return attend(query, key, value, mask, scale=scale, causal=use_causal_mask), None
        if use_causal_mask:
            attention_mask = _both(attention_mask, self._compute_causal_mask(query, value))
        return self._weigh(ops.multiply(query, scale), key, value, attention_mask, training)

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
        mask, alone = self._mask_of_call(
            query,
            value,
            use_causal_mask,
            query_mask=self._mask_for_query(query, query_mask),
            value_mask=value_mask,
            key_mask=key_mask,
            attention_mask=attention_mask,
        )
        gate = self.gate_dense(query) if self.use_gate else None
        heads = (
            self.query_dense(query),
            self.key_dense(value if key is None else key),
            self.value_dense(value),
        )
        more = {"use_causal_mask": True} if alone else {}
        y, weights = self._compute_attention(
            *heads, mask, training, return_attention_scores, **more
        )
        y = self.output_dense(y if gate is None else ops.multiply(y, gate))
        return (y, weights) if return_attention_scores else y

    def _mask_for_query(self, query: Any, query_mask: Any) -> Any:
        """Which rows of a query see something, of the mask that it carries and the one passed."""
        return query_mask

    def _weigh(self, query: Any, key: Any, value: Any, mask: Any, training: Any) -> Any:
        """The weighted values and the weights, by an operation for each step."""
        if key.shape[-2] != query.shape[-2]:  # heads that several heads of the query share
            group = query.shape[-2] // key.shape[-2]
            key, value = ops.repeat(key, group, axis=-2), ops.repeat(value, group, axis=-2)
        scores_formula, values_formula = _formulas(len(query.shape), self._axes)
        scores = ops.einsum(scores_formula, key, query)
        head_mask = _with_heads(mask, len(scores.shape), len(self._axes))
        weights = self._softmax(scores, mask=head_mask)
        dropped = self._dropout(weights, training=training)
        return ops.einsum(values_formula, dropped, value), weights

    def _checked_shapes(self, query: Any, value: Any, key: Any) -> tuple[Any, Any]:
        """The shapes of value and key, each by default that before it.

        Raises:
            ShapeError: they do not fit each other.
        """
        value = query if value is None else value
        key = value if key is None else key
        if not isinstance(key, list | tuple) or (
            len(query) != len(value) or tuple(value[1:-1]) != tuple(key[1:-1])
        ):
            raise misfit(self, query, value, key)
        if len(query) < 3:
            raise ShapeError(
                f"{type(self).__name__} {self.name!r}: attention is over the steps of sequences "
                f"(batch, steps, features), and these have no steps: query {tuple(query)}, value "
                f"{tuple(value)}. Give them an axis of steps, as with x[:, None] for one step."
            )
        return value, key

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return previous_mask


def _both(a: Any, b: Any) -> Any:
    return b if a is None else ops.logical_and(a, b)


def misfit(layer: Any, query: Any, value: Any, key: Any) -> ShapeError:
    """The error for shapes that do not fit each other."""
    return ShapeError(
        f"{type(layer).__name__} {layer.name!r}: query {query}, value {value} and key {key} do not "
        f"fit: all have as many axes, key and value the same steps"
    )


def _steps_between(query: Any, value: Any) -> Any:
    """How many steps each target stands after each source: (1, targets, sources)."""
    rows = ops.arange(ops.shape(query)[1], dtype="int32")
    columns = ops.arange(ops.shape(value)[1], dtype="int32")
    return ops.expand_dims(ops.subtract(ops.expand_dims(rows, 1), columns), 0)


def _formulas(rank: int, axes: tuple[int, ...]) -> tuple[str, str]:
    """The einsum formulas of scores and outputs for (batch..., attended..., heads, size)."""
    target = "abcdefghijklm"[:rank]
    letters = iter("nopqrstuvwxyz")
    source = "".join(
        next(letters) if i in axes or i == rank - 1 else target[i] for i in range(rank)
    )
    batch = [target[i] for i in range(rank) if i not in axes and i != rank - 1]
    scores = "".join(batch) + "".join(target[i] for i in axes) + "".join(source[i] for i in axes)
    key = source[:-1] + target[-1]
    return f"{key},{target}->{scores}", f"{scores},{source}->{target[:-1]}{source[-1]}"


def _with_heads(mask: Any, rank: int, count: int) -> Any:
    """`mask` with axes of size 1 before its steps, to broadcast with scores of `rank`.

    Args:
        mask: a tensor that ends in targets and sources, or `None`.
        rank: of the scores.
        count: how many axes the targets have.
    """
    if mask is None:
        return None
    while len(mask.shape) < rank:
        mask = ops.expand_dims(mask, max(len(mask.shape) - 2 * count, 0))
    return ops.cast(mask, "bool")
