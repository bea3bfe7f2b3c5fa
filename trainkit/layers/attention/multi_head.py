"""Attention with learned projections: multi-head and grouped-query."""

from __future__ import annotations

from typing import Any, ClassVar

from trainkit import regularizers
from trainkit.core import shapes
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.masks import mask_of
from trainkit.core.values.type_aliases import ConstraintLike, InitializerLike, RegularizerLike, Seed
from trainkit.layers.activation import Softmax
from trainkit.layers.attention.projections import ProjectedAttention, misfit
from trainkit.layers.base.arguments import keep, share, whole
from trainkit.layers.base.config import LAYERS
from trainkit.layers.dense import EinsumDense
from trainkit.layers.dropout import Dropout


class MultiHeadAttention(ProjectedAttention):
    """Attention in several learned projections of query, key and value at once.

    Source: Vaswani et al. 2017, arXiv:1706.03762.
    Shapes: query (batch, targets..., query size), value (batch, sources..., value size), key
    (batch, sources..., key size), masks query_mask (batch, targets), value_mask and key_mask
    (batch, sources), attention_mask (batch, targets, sources); output (batch, targets..., output
    size), with `return_attention_scores` a tuple of it and the weights (batch, heads, targets...,
    sources...).

    A mask that `query` carries, of an `Embedding`, hides all sources from the rows that it masks;
    `query_mask` passed by the caller is only the mask of the output, as in Keras.

    Args:
        num_heads: number of projections.
        key_dim: length of projected queries and keys.
        value_dim: length of projected values; `key_dim` by default.
        dropout: share of the weights that is dropped while training.
        use_bias: whether projections have biases.
        output_shape: sizes of the output after the targets; the query's by default.
        attention_axes: axes of query and key over which to attend; all but batch and features by
            default.
        sliding_window: a query sees only sources fewer steps away than this.
        flash_attention: whether the kernel must hold but a part of the scores at a time, which
            excludes dropout and weights; by default one is chosen by itself.
        kernel_initializer, bias_initializer: what the weights start with.
        kernel_regularizer, bias_regularizer: penalties on the weights.
        activity_regularizer: penalty on the output of each projection.
        kernel_constraint, bias_constraint: bounds on the weights.
        use_gate: whether values are multiplied by sigmoid(a projection of the query). Source: Qiu
            et al. 2025, arXiv:2505.06708.
        seed: int for the dropout, by default derived from `set_seed`.

    Raises:
        InvalidArgumentError: a setting is none of these.

    Example:
        >>> layer = tk.layers.MultiHeadAttention(num_heads=2, key_dim=8)
        >>> x = tk.ones((2, 5, 16))
        >>> y, scores = layer(x, x, use_causal_mask=True, return_attention_scores=True)
        >>> y.shape, scores.shape
        (TensorShape([2, 5, 16]), TensorShape([2, 2, 5, 5]))
    """

    seed: Any

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: Any = None,
        attention_axes: Any = None,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike | None = None,
        bias_regularizer: RegularizerLike | None = None,
        activity_regularizer: RegularizerLike | None = None,
        kernel_constraint: ConstraintLike | None = None,
        bias_constraint: ConstraintLike | None = None,
        use_gate: bool = False,
        seed: Seed | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._activity_regularizer = regularizers.get(activity_regularizer)
        keep(self, {k: v for k, v in locals().items() if k != "output_shape"})
        self.num_heads = whole(self, "num_heads", num_heads)
        self.key_dim = whole(self, "key_dim", key_dim)
        self.value_dim = whole(self, "value_dim", key_dim if value_dim is None else value_dim)
        self.dropout = share(self, "dropout", dropout)
        self._output_sizes = _sizes(self, output_shape)
        if attention_axes is not None:
            axes = attention_axes if isinstance(attention_axes, list | tuple) else (attention_axes,)
            self.attention_axes = tuple(axes)
        self._check_settings()
        self.supports_masking = True

    def get_config(self) -> dict[str, Any]:
        sizes = self._output_sizes
        return {**super().get_config(), "output_shape": None if sizes is None else list(sizes)}

    def build(self, query_shape: Any, value_shape: Any = None, key_shape: Any = None) -> None:
        value_shape, key_shape = self._checked_shapes(query_shape, value_shape, key_shape)
        heads = self.num_heads
        self.query_dense = self._projection(query_shape, (heads, self.key_dim), "query")
        self.key_dense = self._projection(key_shape, (heads, self.key_dim), "key")
        if self.use_gate:
            gate_sizes = (heads, self.value_dim)
            self.gate_dense = self._projection(query_shape, gate_sizes, "gate", "sigmoid")
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

    def compute_output_shape(
        self, query_shape: Any, value_shape: Any = None, key_shape: Any = None
    ) -> Any:
        """The shape of the output, (batch, targets..., output sizes...).

        Raises:
            ShapeError: the shapes do not fit each other.
        """
        self._checked_shapes(query_shape, value_shape, key_shape)
        return (*query_shape[:-1], *(self._output_sizes or (query_shape[-1],)))

    def _projection(
        self, shape: Any, sizes: tuple[int, int], name: str, activation: Any = None
    ) -> EinsumDense:
        free = "abcdefghijklmnop"[: len(shape) - 1]
        dense = self._dense(
            f"{free}x,xst->{free}st", (*[None] * (len(free) - 1), *sizes), "st", name, activation
        )
        dense.build(shape)
        return dense

    def _mask_for_query(self, query: Any, query_mask: Any) -> Any:
        # As in Keras 3.15, rows that a mask of the query hides see nothing, but one that is passed
        # changes no value: hidden rows would be zeros or means, by the other arguments.
        return mask_of(query)


def _sizes(layer: Any, output_shape: Any) -> tuple[int, ...] | None:
    """The sizes of the output after the targets, `None` for the query's."""
    if output_shape is None:
        return None
    if not isinstance(output_shape, list | tuple):
        output_shape = (output_shape,)
    return tuple(whole(layer, "output_shape", n) for n in output_shape)


class GroupedQueryAttention(ProjectedAttention):
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
        sliding_window: a query sees only sources fewer steps away than this.
        flash_attention: whether the kernel must hold but a part of the scores at a time, which
            excludes dropout and weights; by default one is chosen by itself.
        kernel_initializer, bias_initializer: what the weights start with.
        kernel_regularizer, bias_regularizer: penalties on the weights.
        activity_regularizer: penalty on the output of each projection.
        kernel_constraint, bias_constraint: bounds on the weights.
        use_gate: whether values are multiplied by sigmoid(a projection of the query). Source: Qiu
            et al. 2025, arXiv:2505.06708.
        seed: int for the dropout, by default derived from `set_seed`.

    Raises:
        InvalidArgumentError: a setting is none of these.

    Example:
        >>> layer = tk.layers.GroupedQueryAttention(8, num_query_heads=4, num_key_value_heads=2)
        >>> x = tk.ones((2, 5, 16))
        >>> layer(x, x).shape
        TensorShape([2, 5, 16])
    """

    head_dim: Any
    num_query_heads: Any
    num_key_value_heads: Any
    dropout: Any
    sliding_window: int | None
    flash_attention: bool | None
    kernel_initializer: Any
    bias_initializer: Any
    kernel_regularizer: Any
    bias_regularizer: Any
    kernel_constraint: Any
    bias_constraint: Any
    seed: Any

    # Keras keeps them in private attributes, whose names are in its files of weights.
    _names_in_keras: ClassVar[dict[str, str]] = {
        f"{part}_dense": f"_{part}_dense" for part in ("gate", "key", "output", "query", "value")
    }

    @property
    def _config_identity(self) -> tuple[str, str, None] | None:
        """The name that Keras exports the class under; a subclass goes by its own."""
        if type(self) is not GroupedQueryAttention:
            return None
        return ("keras.layers", "GroupQueryAttention", None)

    def __init__(
        self,
        head_dim: int,
        num_query_heads: int,
        num_key_value_heads: int,
        dropout: float = 0.0,
        use_bias: bool = True,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike | None = None,
        bias_regularizer: RegularizerLike | None = None,
        activity_regularizer: RegularizerLike | None = None,
        kernel_constraint: ConstraintLike | None = None,
        bias_constraint: ConstraintLike | None = None,
        use_gate: bool = False,
        seed: Seed | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._activity_regularizer = regularizers.get(activity_regularizer)
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
        self._check_settings()
        self.supports_masking = True

    def build(self, query_shape: Any, value_shape: Any = None, key_shape: Any = None) -> None:
        value_shape, key_shape = self._checked_shapes(query_shape, value_shape, key_shape)
        size = self.head_dim
        self._axes = (1,)
        gate = [("gate", query_shape, self.num_query_heads)] if self.use_gate else []
        for name, shape, heads in (
            ("query", query_shape, self.num_query_heads),
            ("key", key_shape, self.num_key_value_heads),
            *gate,
            ("value", value_shape, self.num_key_value_heads),
        ):
            activation = "sigmoid" if name == "gate" else None
            dense = self._dense("bqm,muh->bquh", (None, heads, size), "uh", name, activation)
            dense.build(shape)
            setattr(self, f"{name}_dense", dense)
        self._dropout = Dropout(self.dropout, seed=self.seed, dtype=self.dtype_policy)
        self._softmax = Softmax(axis=-1, dtype=self.dtype_policy)
        self.output_dense = self._dense(
            "bquh,uhm->bqm", (None, query_shape[-1]), "m", "attention_output"
        )
        self.output_dense.build((*query_shape[:-1], self.num_query_heads, size))

    def compute_output_shape(
        self, query_shape: Any, value_shape: Any = None, key_shape: Any = None
    ) -> Any:
        """The shape of the output, that of the query.

        Raises:
            ShapeError: the shapes do not fit each other.
        """
        value_shape, _ = self._checked_shapes(query_shape, value_shape, key_shape)
        if query_shape[-1] != value_shape[-1]:
            raise misfit(self, query_shape, value_shape, key_shape)
        return tuple(query_shape)


# The name that the exported layer had first.
GroupQueryAttention = GroupedQueryAttention
LAYERS.named["GroupQueryAttention"] = GroupedQueryAttention
