"""Normalization layers."""

from __future__ import annotations

import warnings
from typing import Any

from trainkit import ops
from trainkit.core import shapes
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.values.type_aliases import ConstraintLike, InitializerLike, RegularizerLike
from trainkit.kernels.normalization.norm_tuned import has_column_kernels
from trainkit.layers.base.arguments import a_float, keep, weight_of, whole
from trainkit.layers.base.input_spec import InputSpec
from trainkit.layers.base.layer import Layer
from trainkit.ops.neural.group_normalization import group_normalization
from trainkit.ops.neural.normalization import EPSILON
from trainkit.ops.neural.standardization import is_one_kernel
from trainkit.ops.neural.synchronized_moments import has_other_replicas, synchronized_moments


def _sizes_along(layer: Layer, input_shape: Any, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of the input along `axes`, which must be known."""
    sizes = tuple(input_shape[axis] for axis in axes)
    if None in sizes:
        raise ShapeError(
            f"{type(layer).__name__} {layer.name!r}: axes {axes} of the input must have known "
            f"sizes, got shape {tuple(input_shape)}"
        )
    return sizes


def _axes(axis: Any, rank: int, owner: str) -> tuple[int, ...]:
    return tuple(sorted(shapes.canonical_axes(axis, rank, owner)))


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
        renorm: whether training batches are normalized by values seen so far, too; it adds
            moving_stddev, renorm_mean and renorm_stddev, (features,). Source: Ioffe 2017,
            arXiv:1702.03275.
        renorm_clipping: bounds of its corrections by their names: `"rmin"` and `"rmax"` of the
            factor, `"dmax"` of the size of the offset.
        renorm_momentum: as `momentum`, of renorm_mean and renorm_stddev.
        synchronized: whether a batch is that of all replicas, where there are several: its moments
            are those of the global batch then, and the moving values the same in all. Otherwise
            each replica normalizes by its own rows.

    Raises:
        InvalidArgumentError: `renorm_clipping` has other names, or bounds that cross.

    Example:
        >>> layer = tk.layers.BatchNormalization()
        >>> y = layer(tk.constant([[1.0], [3.0]]), training=True)
        >>> y.numpy().round(2).ravel()
        array([-1.,  1.], dtype=float32)
        >>> layer.moving_mean.numpy().round(4)
        array([0.02], dtype=float32)
    """

    moving_stddev: Any
    renorm_mean: Any
    renorm_stddev: Any

    axis: Any
    momentum: float
    epsilon: float
    center: bool
    scale: bool
    beta_initializer: Any
    gamma_initializer: Any
    moving_mean_initializer: Any
    moving_variance_initializer: Any
    beta_regularizer: Any
    gamma_regularizer: Any
    beta_constraint: Any
    gamma_constraint: Any
    renorm: bool
    renorm_clipping: Any
    renorm_momentum: float
    synchronized: bool

    def __init__(
        self,
        axis: int = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: InitializerLike = "zeros",
        gamma_initializer: InitializerLike = "ones",
        moving_mean_initializer: InitializerLike = "zeros",
        moving_variance_initializer: InitializerLike = "ones",
        beta_regularizer: RegularizerLike | None = None,
        gamma_regularizer: RegularizerLike | None = None,
        beta_constraint: ConstraintLike | None = None,
        gamma_constraint: ConstraintLike | None = None,
        renorm: bool = False,
        renorm_clipping: dict[str, float] | None = None,
        renorm_momentum: float = 0.99,
        synchronized: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        keep(self, locals())
        self.momentum = a_float(self, "momentum", momentum)
        self.epsilon = a_float(self, "epsilon", epsilon)
        if renorm:
            _check_clipping(renorm_clipping or {})
        self.axis = int(axis)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        axis = shapes.canonical_axis(self.axis, len(input_shape), "BatchNormalization")
        features = _sizes_along(self, input_shape, (axis,))
        self.gamma = weight_of(self, "gamma", features, autocast=False) if self.scale else None
        self.beta = weight_of(self, "beta", features, autocast=False) if self.center else None
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
        if self.renorm:
            self._build_renorm(features)
        self.input_spec = InputSpec(ndim=len(input_shape), axes={axis: features[0]})

    def _build_renorm(self, features: Any) -> None:
        def stddev(shape: Any, dtype: Any = None) -> Any:
            return ops.sqrt(_fresh(self.moving_variance_initializer)(shape, dtype=dtype))

        for name, start in (
            ("moving_stddev", stddev),
            ("renorm_mean", _fresh(self.moving_mean_initializer)),
            ("renorm_stddev", stddev),
        ):
            weight = self.add_weight(
                name, features, initializer=start, trainable=False, autocast=False
            )
            setattr(self, name, weight)

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        if mask is not None and len(mask.shape) != len(inputs.shape) - 1:
            raise ShapeError(
                f"BatchNormalization {self.name!r}: the mask must have one axis less than the "
                f"input.\n  mask   {tuple(mask.shape)}\n  input  {tuple(inputs.shape)}"
            )
        x = inputs
        narrow = self.compute_dtype in ("float16", "bfloat16")
        if narrow and not self._is_summed_wide(x, training, mask):
            x = ops.cast(x, "float32")  # sums over a batch overflow half precision
        gamma = None if self.gamma is None else self.gamma.value()
        beta = None if self.beta is None else self.beta.value()
        if training and self.trainable and self.renorm:
            y = self._renormalize(x, gamma, beta, mask)
        elif training and self.trainable:
            y = self._by_batch(x, gamma, beta, mask)
        else:
            mean, variance = self.moving_mean.value(), self.moving_variance.value()
            y = ops.batch_normalization(x, mean, variance, self.axis, beta, gamma, self.epsilon)
        return ops.cast(y, self.compute_dtype) if narrow else y

    def _is_summed_wide(self, x: Any, training: Any, mask: Any) -> bool:
        """Whether a kernel takes short floats as they are, and computes with them in float32.

        Then nobody writes and reads a copy that is twice as long, and a rectifier can be joined.
        """
        by_batch = training and self.trainable and not self.renorm and not self.synchronized
        last = self.axis in (-1, len(x.shape) - 1)
        has_kernel = has_column_kernels(x.dtype.dtype) or is_one_kernel(x)
        return by_batch and last and mask is None and self.scale and has_kernel

    def _by_batch(self, x: Any, gamma: Any, beta: Any, mask: Any) -> Any:
        if self.synchronized and has_other_replicas():
            mean, variance = self._moments(x, mask)
            y = self._normalize_by(x, mean, variance, gamma, beta)
        elif mask is None:
            y, mean, variance = ops.fused_batch_normalization(
                x, gamma, beta, self.axis, self.epsilon
            )
        else:
            mean, variance = self._moments(x, mask)
            y = ops.batch_normalization(x, mean, variance, self.axis, beta, gamma, self.epsilon)
        with trace_state.silence():
            self._move(self.moving_mean, mean, self.momentum)
            self._move(self.moving_variance, variance, self.momentum)
        return y

    def _move(self, moving: Any, new: Any, momentum: float) -> None:
        new = ops.cast(new, moving.dtype)
        moving.assign(moving.value() * momentum + new * (1.0 - momentum))

    def _renormalize(self, x: Any, gamma: Any, beta: Any, mask: Any) -> Any:
        """(normalized by the batch * r + d) * gamma + beta: that by the values seen so far.

        r = stddev / renorm_stddev and d = (mean - renorm_mean) / renorm_stddev count as constants.
        """
        mean, variance = self._moments(x, mask)
        stddev = ops.sqrt(variance + self.epsilon)
        known_mean = ops.cast(self.renorm_mean.value(), mean.dtype)
        known_stddev = ops.cast(self.renorm_stddev.value(), mean.dtype)
        known_stddev = ops.maximum(known_stddev, self.epsilon**0.5)
        r, d = stddev / known_stddev, (mean - known_mean) / known_stddev
        bounds = self.renorm_clipping or {}
        if bounds.get("rmin") is not None:
            r = ops.maximum(r, bounds["rmin"])
        if bounds.get("rmax") is not None:
            r = ops.minimum(r, bounds["rmax"])
        if bounds.get("dmax") is not None:
            d = ops.clip(d, -bounds["dmax"], bounds["dmax"])
        scale, offset = ops.stop_gradient(r), ops.stop_gradient(d)
        if gamma is not None:
            scale, offset = scale * gamma, offset * gamma
        offset = offset if beta is None else offset + beta
        y = ops.batch_normalization(x, mean, variance, self.axis, offset, scale, self.epsilon)
        with trace_state.silence():
            self._move(self.renorm_mean, mean, self.renorm_momentum)
            self._move(self.renorm_stddev, stddev, self.renorm_momentum)
            self._move(self.moving_mean, mean, self.momentum)
            self._move(self.moving_stddev, stddev, self.momentum)
            squared = ops.square(self.moving_stddev.value())
            self.moving_variance.assign(ops.relu(squared - self.epsilon))
        return y

    def _normalize_by(self, x: Any, mean: Any, variance: Any, gamma: Any, beta: Any) -> Any:
        """`x` by the given moments; the mean is taken off first, however large it is."""
        shape = [1] * len(x.shape)
        shape[self.axis] = -1
        factor = ops.rsqrt(variance + self.epsilon)
        y = (x - ops.reshape(mean, shape)) * ops.reshape(
            factor if gamma is None else factor * gamma, shape
        )
        return y if beta is None else y + ops.reshape(beta, shape)

    def _moments(self, x: Any, mask: Any) -> tuple[Any, Any]:
        """Mean and variance over the positions that the mask keeps, if there is one."""
        axis = self.axis % len(x.shape)
        others = tuple(i for i in range(len(x.shape)) if i != axis)
        if mask is None:
            return ops.moments(x, others, synchronized=self.synchronized)
        mask_weights = ops.cast(mask, x.dtype)
        for _ in range(len(x.shape) - len(mask_weights.shape)):
            mask_weights = ops.expand_dims(mask_weights, -1)
        if self.synchronized and has_other_replicas():
            return synchronized_moments(x, others, False, mask_weights)
        count = (
            ops.sum(ops.multiply(ops.ones_like(x), mask_weights), axis=others, keepdims=True)
            + EPSILON
        )
        mean = ops.sum(ops.multiply(x, mask_weights), axis=others, keepdims=True) / count
        spread = ops.multiply(ops.square(x - mean), mask_weights)
        variance = ops.sum(spread, axis=others, keepdims=True) / count
        return ops.squeeze(mean, others), ops.squeeze(variance, others)


def _fresh(initializer: Any) -> Any:
    """An initializer like this one, whose random values are its own."""
    if not hasattr(initializer, "get_config"):
        return initializer
    return type(initializer).from_config(initializer.get_config())


def _check_clipping(bounds: dict[str, Any]) -> None:
    """Refuse bounds of a renormalization that have other names, or cross.

    Raises:
        InvalidArgumentError: they do.
    """
    names = ("rmax", "rmin", "dmax")
    unknown = sorted(set(bounds) - set(names))
    if unknown:
        raise InvalidArgumentError(
            f"BatchNormalization: renorm_clipping has the names {', '.join(names)}, got {unknown}"
        )
    rmax, rmin, dmax = (bounds.get(name) for name in names)
    if rmax is not None and rmin is not None and rmax < rmin:
        raise InvalidArgumentError(
            f"BatchNormalization: renorm_clipping has rmax={rmax} below rmin={rmin}"
        )
    if dmax is not None and dmax < 0:
        raise InvalidArgumentError(
            f"BatchNormalization: renorm_clipping has dmax={dmax}; it must be 0 or more"
        )


def _checked_axis(layer: Layer, axis: Any) -> Any:
    """An axis, or a list of several.

    Raises:
        TypeError: it is neither.
    """
    several = axis if isinstance(axis, list | tuple) else [axis]
    if any(isinstance(i, bool) or not hasattr(i, "__index__") for i in several):
        raise TypeError(
            f"{type(layer).__name__}: axis must be an int or a list of ints, got {axis!r}"
        )
    return [int(i) for i in axis] if isinstance(axis, list | tuple) else int(axis)


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
        **kwargs: of `Layer`; and `rms_scaling=True`, which is deprecated: only divide by the root
            of the variance, and scale.

    Raises:
        TypeError: `axis` is neither an int nor a list of ints.

    Example:
        >>> y = tk.layers.LayerNormalization()(tk.constant([[1.0, 3.0], [10.0, 30.0]]))
        >>> y.numpy().round(2)
        array([[-1.,  1.],
               [-1.,  1.]], dtype=float32)
    """

    axis: Any
    epsilon: float
    center: bool
    scale: bool
    beta_initializer: Any
    gamma_initializer: Any
    beta_regularizer: Any
    gamma_regularizer: Any
    beta_constraint: Any
    gamma_constraint: Any

    def __init__(
        self,
        axis: Any = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: InitializerLike = "zeros",
        gamma_initializer: InitializerLike = "ones",
        beta_regularizer: RegularizerLike | None = None,
        gamma_regularizer: RegularizerLike | None = None,
        beta_constraint: ConstraintLike | None = None,
        gamma_constraint: ConstraintLike | None = None,
        **kwargs: Any,
    ) -> None:
        self.rms_scaling = bool(kwargs.pop("rms_scaling", False))
        super().__init__(**kwargs)
        keep(self, locals())
        self.axis = _checked_axis(self, axis)
        if self.rms_scaling:
            warnings.warn(
                "LayerNormalization: rms_scaling=True is deprecated, it divides by the root of the "
                "variance; use RMSNormalization",
                UserWarning,
                stacklevel=2,
            )
        self.supports_masking = True
        self.autocast = False  # short floats are made longer, not shorter, before they are summed

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rms_scaling": self.rms_scaling}

    def build(self, input_shape: Any) -> None:
        # Keras sorts the axes as they were written, and -1 comes before 1: so are the sizes of the
        # weights in its files.
        self.axis = sorted(self.axis) if isinstance(self.axis, list) else [self.axis]
        axes = shapes.canonical_axes(self.axis, len(input_shape), "LayerNormalization")
        sizes = _sizes_along(self, input_shape, axes)
        scales, centers = self.scale or self.rms_scaling, self.center and not self.rms_scaling
        self.gamma = weight_of(self, "gamma", sizes, autocast=False) if scales else None
        self.beta = weight_of(self, "beta", sizes, autocast=False) if centers else None

    def call(self, inputs: Any) -> Any:
        axes = shapes.canonical_axes(self.axis, len(inputs.shape), "LayerNormalization")
        gamma, beta = (_in_order(weight, axes) for weight in (self.gamma, self.beta))
        x = inputs if self._is_one_kernel(inputs) else _long_floats(inputs)
        if self.rms_scaling:
            variance = ops.var(x, axis=axes, keepdims=True)
            y = ops.multiply(x, ops.rsqrt(variance + self.epsilon))
            sizes = [n if i in axes else 1 for i, n in enumerate(x.shape)]
            y = y if gamma is None else y * ops.reshape(gamma, sizes)
        else:
            y = ops.layer_normalization(x, gamma, beta, axes, self.epsilon)
        return y if y.dtype.name == self.compute_dtype else ops.cast(y, self.compute_dtype)

    def _is_one_kernel(self, x: Any) -> bool:
        """Whether one kernel reads short floats, computes in float32, and rounds the result."""
        return not self.rms_scaling and x.dtype.name == self.compute_dtype and is_one_kernel(x)


def _in_order(weight: Any, axes: tuple[int, ...]) -> Any:
    """A weight with the sizes along `axes`, as an array with those along the axes in rising order.

    Its numbers stay where they are in memory, as in Keras: they are not transposed.
    """
    if weight is None or list(axes) == sorted(axes):
        return None if weight is None else weight.value()
    sizes = dict(zip(axes, weight.shape, strict=True))
    return ops.reshape(weight.value(), [sizes[axis] for axis in sorted(axes)])


def _long_floats(x: Any) -> Any:
    """`x` in a type whose sums do not overflow soon."""
    return x if x.dtype.is_floating and x.dtype.size >= 4 else ops.cast(x, "float32")


class RMSNormalization(Layer):
    """Divide by the root mean square along `axis`, then scale.

    y = scale * x / sqrt(mean(x**2) + epsilon)
    Source: Zhang and Sennrich 2019, arXiv:1910.07467.
    Shapes: input and output (batch, ...); scale the sizes along `axis`.

    Args:
        axis: an axis or several.
        epsilon: added to the mean square.

    Example:
        >>> tk.layers.RMSNormalization()(tk.constant([[3.0, 3.0]])).numpy().round(4)
        array([[1., 1.]], dtype=float32)
    """

    def __init__(self, axis: Any = -1, epsilon: float = 1e-6, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = _checked_axis(self, axis)
        self.epsilon = epsilon

    def build(self, input_shape: Any) -> None:
        axes = _axes(self.axis, len(input_shape), "RMSNormalization")
        self.axis = [axis - len(input_shape) for axis in axes]
        sizes = _sizes_along(self, input_shape, axes)
        self.scale = self.add_weight("scale", sizes, initializer="ones")

    def call(self, inputs: Any) -> Any:
        rank = len(inputs.shape)
        along = {axis % rank for axis in self.axis}
        sizes = [n if i in along else 1 for i, n in enumerate(inputs.shape)]
        scale = ops.reshape(self.scale.value(), sizes)
        return ops.rms_normalization(inputs, scale, self.axis, self.epsilon)


class UnitNormalization(Layer):
    """Divide by the length along `axis`, so that each vector has length 1.

    Args:
        axis: an axis or several.

    Example:
        >>> tk.layers.UnitNormalization()(tk.constant([[3.0, 4.0]])).numpy()
        array([[0.6, 0.8]], dtype=float32)
    """

    _without_state = True

    def __init__(self, axis: Any = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = _checked_axis(self, axis)
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        return ops.normalize(inputs, self.axis, epsilon=1e-12)


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

    Example:
        >>> y = tk.layers.GroupNormalization(groups=2)(tk.constant([[1.0, 3.0, 10.0, 30.0]]))
        >>> y.numpy().round(2)
        array([[-1.,  1., -1.,  1.]], dtype=float32)
    """

    axis: int
    epsilon: float
    center: bool
    scale: bool
    beta_initializer: Any
    gamma_initializer: Any
    beta_regularizer: Any
    gamma_regularizer: Any
    beta_constraint: Any
    gamma_constraint: Any

    groups: Any

    def __init__(
        self,
        groups: int = 32,
        axis: int = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: InitializerLike = "zeros",
        gamma_initializer: InitializerLike = "ones",
        beta_regularizer: RegularizerLike | None = None,
        gamma_regularizer: RegularizerLike | None = None,
        beta_constraint: ConstraintLike | None = None,
        gamma_constraint: ConstraintLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        keep(self, locals())
        if groups != -1:
            whole(self, "groups", groups)
        self.supports_masking = True
        self.autocast = False  # short floats are made longer, not shorter, before they are summed

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
        self.gamma = weight_of(self, "gamma", (features,), autocast=False) if self.scale else None
        self.beta = weight_of(self, "beta", (features,), autocast=False) if self.center else None
        self.input_spec = InputSpec(ndim=len(input_shape), axes={axis: features})

    def call(self, inputs: Any) -> Any:
        axis = self.axis % len(inputs.shape)
        gamma, beta = (None if v is None else v.value() for v in (self.gamma, self.beta))
        x = _long_floats(inputs)
        y = group_normalization(x, gamma, beta, axis, self.groups, float(self.epsilon))
        return ops.cast(y, self.compute_dtype)
