"""Normalization layers."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core import recorder, shapes
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.layers.arguments import keep, whole
from trainkit.layers.input_spec import InputSpec
from trainkit.layers.layer import Layer

_EPSILON = 1e-7


def _sizes_along(layer: Layer, input_shape: Any, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of the input along `axes`, which must be known."""
    found = tuple(input_shape[axis] for axis in axes)
    if None in found:
        raise ShapeError(
            f"{type(layer).__name__} {layer.name!r}: axes {axes} of the input must have known "
            f"sizes, got shape {tuple(input_shape)}"
        )
    return found


def _axes(axis: Any, rank: int, what: str) -> tuple[int, ...]:
    return tuple(sorted(shapes.canonical_axes(axis, rank, what)))


class BatchNormalization(Layer):
    """Normalize each feature: by the batch while training, else by all batches seen so far.

    y = gamma * (x - mean) / sqrt(variance + epsilon) + beta
    moving = momentum * moving + (1 - momentum) * (that of the batch), at each training call

    A frozen layer (`trainable=False`) uses the moving values while training too.
    Source: Ioffe and Szegedy 2015, arXiv:1502.03167.
    Shapes: input and output (batch, ...); gamma, beta, moving_mean and moving_variance (features,).

    Args:
        axis: the axis of the features.
        momentum: in [0, 1].
        epsilon: added to the variance.
        center, scale: whether there is a beta and a gamma.
        beta_initializer, gamma_initializer, moving_mean_initializer, moving_variance_initializer:
            what the weights start with.
        beta_regularizer, gamma_regularizer: penalties on weights.
        beta_constraint, gamma_constraint: bounds on weights.
        synchronized: must be false: there is one process.

    Raises:
        InvalidArgumentError: `synchronized` is true.
    """

    def __init__(
        self,
        axis: int = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        moving_mean_initializer: Any = "zeros",
        moving_variance_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        synchronized: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        keep(self, locals())
        if synchronized:
            raise InvalidArgumentError(
                "BatchNormalization: synchronized=True needs several processes, which is not "
                "supported; use False"
            )
        self.axis = int(axis)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        axis = shapes.canonical_axis(self.axis, len(input_shape), "BatchNormalization")
        features = _sizes_along(self, input_shape, (axis,))
        self.gamma = self._parameter("gamma", features) if self.scale else None
        self.beta = self._parameter("beta", features) if self.center else None
        self.moving_mean = self.add_weight(
            "moving_mean",
            features,
            initializer=self.moving_mean_initializer,
            trainable=False,
            autocast=False,
        )
        self.moving_variance = self.add_weight(
            "moving_variance",
            features,
            initializer=self.moving_variance_initializer,
            trainable=False,
            autocast=False,
        )
        self.input_spec = InputSpec(ndim=len(input_shape), axes={axis: features[0]})

    def _parameter(self, name: str, shape: Any) -> Any:
        return self.add_weight(
            name,
            shape,
            initializer=getattr(self, f"{name}_initializer"),
            regularizer=getattr(self, f"{name}_regularizer"),
            constraint=getattr(self, f"{name}_constraint"),
            autocast=False,
        )

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        x = inputs
        narrow = self.compute_dtype in ("float16", "bfloat16")
        if narrow:  # sums over a batch overflow half precision
            x = ops.cast(x, "float32")
        gamma = None if self.gamma is None else self.gamma.value()
        beta = None if self.beta is None else self.beta.value()
        if training and self.trainable:
            y = self._by_batch(x, gamma, beta, mask)
        else:
            mean, variance = self.moving_mean.value(), self.moving_variance.value()
            y = ops.batch_normalization(x, mean, variance, self.axis, beta, gamma, self.epsilon)
        return ops.cast(y, self.compute_dtype) if narrow else y

    def _by_batch(self, x: Any, gamma: Any, beta: Any, mask: Any) -> Any:
        if mask is None:
            y, mean, variance = ops.fused_batch_normalization(
                x, gamma, beta, self.axis, self.epsilon
            )
        else:
            mean, variance = self._masked_moments(x, mask)
            y = ops.batch_normalization(x, mean, variance, self.axis, beta, gamma, self.epsilon)
        with recorder.silence():
            for moving, new in ((self.moving_mean, mean), (self.moving_variance, variance)):
                new = ops.cast(new, moving.dtype)
                moving.assign(moving.value() * self.momentum + new * (1.0 - self.momentum))
        return y

    def _masked_moments(self, x: Any, mask: Any) -> tuple[Any, Any]:
        """Mean and variance over the positions that the mask keeps."""
        axis = self.axis % len(x.shape)
        others = tuple(i for i in range(len(x.shape)) if i != axis)
        kept = ops.cast(mask, x.dtype)
        for _ in range(len(x.shape) - len(kept.shape)):
            kept = ops.expand_dims(kept, -1)
        count = ops.sum(ops.multiply(ops.ones_like(x), kept), axis=others, keepdims=True) + _EPSILON
        mean = ops.sum(ops.multiply(x, kept), axis=others, keepdims=True) / count
        spread = ops.multiply(ops.square(x - mean), kept)
        variance = ops.sum(spread, axis=others, keepdims=True) / count
        return ops.squeeze(mean, others), ops.squeeze(variance, others)


class LayerNormalization(Layer):
    """Normalize each sample by its own mean and variance along `axis`.

    y = gamma * (x - mean) / sqrt(variance + epsilon) + beta
    Source: Ba, Kiros and Hinton 2016, arXiv:1607.06450.
    Shapes: input and output (batch, ...); gamma and beta the sizes along `axis`.

    Args:
        axis: an axis or several.
        epsilon: added to the variance.
        center, scale: whether there is a beta and a gamma.
        beta_initializer, gamma_initializer: what the weights start with.
        beta_regularizer, gamma_regularizer: penalties on weights.
        beta_constraint, gamma_constraint: bounds on weights.
    """

    def __init__(
        self,
        axis: Any = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        keep(self, locals())
        self.axis = tuple(axis) if isinstance(axis, list | tuple) else axis
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        axes = _axes(self.axis, len(input_shape), "LayerNormalization")
        sizes = _sizes_along(self, input_shape, axes)
        self.gamma = _weight_like(self, "gamma", sizes) if self.scale else None
        self.beta = _weight_like(self, "beta", sizes) if self.center else None
        self.input_spec = InputSpec(ndim=len(input_shape), axes=dict(zip(axes, sizes, strict=True)))

    def call(self, inputs: Any) -> Any:
        gamma = None if self.gamma is None else self.gamma.value()
        beta = None if self.beta is None else self.beta.value()
        narrow = self.compute_dtype in ("float16", "bfloat16")
        if not narrow:
            return ops.layer_normalization(inputs, gamma, beta, self.axis, self.epsilon)
        whole_inputs = ops.cast(inputs, "float32")
        y = ops.layer_normalization(whole_inputs, gamma, beta, self.axis, self.epsilon)
        return ops.cast(y, self.compute_dtype)


def _weight_like(layer: Any, name: str, shape: Any) -> Any:
    """A weight with the initializer, regularizer and constraint that the layer has for `name`."""
    return layer.add_weight(
        name,
        shape,
        initializer=getattr(layer, f"{name}_initializer"),
        regularizer=getattr(layer, f"{name}_regularizer", None),
        constraint=getattr(layer, f"{name}_constraint", None),
        autocast=False,
    )


class RMSNormalization(Layer):
    """Divide by the root mean square along `axis`, then scale.

    y = scale * x / sqrt(mean(x**2) + epsilon)
    Source: Zhang and Sennrich 2019, arXiv:1910.07467.
    Shapes: input and output (batch, ...); scale the sizes along `axis`.

    Args:
        axis: an axis or several.
        epsilon: added to the mean square.
    """

    def __init__(self, axis: Any = -1, epsilon: float = 1e-6, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = tuple(axis) if isinstance(axis, list | tuple) else axis
        self.epsilon = epsilon
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        axes = _axes(self.axis, len(input_shape), "RMSNormalization")
        sizes = _sizes_along(self, input_shape, axes)
        self.scale = self.add_weight("scale", sizes, initializer="ones")
        along: dict[int, int | None] = dict(zip(axes, sizes, strict=True))
        self._broadcast = tuple(along.get(i, 1) for i in range(len(input_shape)))
        self.input_spec = InputSpec(ndim=len(input_shape), axes=along)

    def call(self, inputs: Any) -> Any:
        scale = ops.reshape(self.scale.value(), self._broadcast)
        return ops.rms_normalization(inputs, scale, self.axis, self.epsilon)


class UnitNormalization(Layer):
    """Divide by the length along `axis`, so that each vector has length 1.

    Args:
        axis: an axis or several.
    """

    _without_state = True

    def __init__(self, axis: Any = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = tuple(axis) if isinstance(axis, list | tuple) else axis
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        squared = ops.sum(ops.square(inputs), axis=self.axis, keepdims=True)
        return ops.multiply(inputs, ops.rsqrt(ops.maximum(squared, 1e-12)))


class GroupNormalization(Layer):
    """Normalize each sample within groups of features.

    Source: Wu and He 2018, arXiv:1803.08494.
    Shapes: input and output (batch, ...); gamma and beta (features,).

    Args:
        groups: number of groups, of which the number of features is a multiple; -1 for one per
            feature.
        axis: the axis of the features.
        epsilon: added to the variance.
        center, scale: whether there is a beta and a gamma.
        beta_initializer, gamma_initializer: what the weights start with.
        beta_regularizer, gamma_regularizer: penalties on weights.
        beta_constraint, gamma_constraint: bounds on weights.

    Raises:
        ShapeError: the features do not fall into the groups.
    """

    groups: Any

    def __init__(
        self,
        groups: int = 32,
        axis: int = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        keep(self, locals())
        if groups != -1:
            whole(self, "groups", groups)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        axis = shapes.canonical_axis(self.axis, len(input_shape), "GroupNormalization")
        (features,) = _sizes_along(self, input_shape, (axis,))
        if self.groups == -1:
            self.groups = features
        if features % self.groups:
            raise ShapeError(
                f"GroupNormalization {self.name!r}: {features} features (axis {axis} of shape "
                f"{tuple(input_shape)}) do not fall into {self.groups} groups"
            )
        self.gamma = _weight_like(self, "gamma", (features,)) if self.scale else None
        self.beta = _weight_like(self, "beta", (features,)) if self.center else None
        self.input_spec = InputSpec(ndim=len(input_shape), axes={axis: features})

    def call(self, inputs: Any) -> Any:
        axis = self.axis % len(inputs.shape)
        dims = ops.shape(inputs)
        features = inputs.shape[axis]
        x = ops.cast(inputs, "float32") if inputs.dtype.name in ("float16", "bfloat16") else inputs
        grouped = (*dims[:axis], self.groups, features // self.groups, *dims[axis + 1 :])
        x = ops.reshape(x, grouped)
        over = tuple(i for i in range(1, len(grouped)) if i != axis)
        mean = ops.mean(x, axis=over, keepdims=True)
        variance = ops.mean(ops.square(x - mean), axis=over, keepdims=True)
        x = ops.reshape((x - mean) * ops.rsqrt(variance + self.epsilon), dims)
        broadcast = [1] * len(dims)
        broadcast[axis] = features
        if self.gamma is not None:
            x = x * ops.reshape(self.gamma.value(), broadcast)
        if self.beta is not None:
            x = x + ops.reshape(self.beta.value(), broadcast)
        return ops.cast(x, inputs.dtype)
