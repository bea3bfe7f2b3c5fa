"""Layers that bring features into range: Normalization, Rescaling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core import shapes
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.layers.base.input_spec import InputSpec
from trainkit.layers.base.layer import Layer
from trainkit.layers.preprocessing.categorical import batches_of
from trainkit.ops.convolutional.window_arguments import is_channels_first
from trainkit.ops.sampling.draw_devices import beside, home_of, state_here


class Normalization(Layer):
    """(x - mean) / sqrt(variance), with mean and variance given or learned from data by `adapt`.

    Args:
        axis: axes that keep a mean of their own; `None` for one mean of all.
        mean, variance: numbers or arrays that broadcast along `axis`; both or neither.
        invert: whether to do the opposite, x * sqrt(variance) + mean.

    Raises:
        InvalidArgumentError: only one of mean and variance is given.
        ShapeError: a size along `axis` is not known.

    Example:
        >>> layer = tk.layers.Normalization(axis=None)
        >>> layer.adapt(np.array([1.0, 2.0, 3.0, 4.0, 5.0], "float32"))
        >>> layer(tk.constant([3.0, 5.0])).numpy().round(3)
        array([0.   , 1.414], dtype=float32)
    """

    def __init__(
        self,
        axis: Any = -1,
        mean: Any = None,
        variance: Any = None,
        invert: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (mean is None) != (variance is None):
            raise InvalidArgumentError("Normalization: give both mean and variance, or neither")
        axes = () if axis is None else axis if isinstance(axis, list | tuple) else (axis,)
        self.axis = tuple(axes)
        self.invert = invert
        self.supports_masking = True
        self._given = None if mean is None else (np.array(mean), np.array(variance))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config["axis"] = list(self.axis) if self.axis else None
        for name, i in (("mean", 0), ("variance", 1)):
            config[name] = None if self._given is None else self._given[i].tolist()
        return config

    def build(self, input_shape: Any) -> None:
        rank = len(input_shape)
        kept_axes = shapes.canonical_axes(self.axis, rank, "Normalization") if self.axis else ()
        sizes = tuple(input_shape[i] for i in sorted(kept_axes))
        if None in sizes:
            raise ShapeError(
                f"Normalization {self.name!r}: axes {self.axis} must have known sizes, the input "
                f"has shape {tuple(input_shape)}"
            )
        self._reduced = tuple(i for i in range(rank) if i not in kept_axes)
        self._all_sizes = tuple(input_shape[i] if i in kept_axes else 1 for i in range(rank))
        # One mean of all serves inputs of any rank.
        self._broadcast = self._all_sizes if kept_axes else ()
        if self._given is None:
            frozen: dict[str, Any] = {"trainable": False, "autocast": False}
            self.adapt_mean = self.add_weight("mean", sizes, "zeros", **frozen)
            self.adapt_variance = self.add_weight("variance", sizes, "ones", **frozen)
            self.count = self.add_weight("count", (), "zeros", dtype="int32", **frozen)
        else:
            for value in self._given:
                np.broadcast_shapes(value.shape, sizes)
        axes = {i: input_shape[i] for i in kept_axes if i}
        if self.axis == (-1,):  # serves inputs of any rank whose last size is this one
            self.input_spec = InputSpec(min_ndim=1, axes={-1: input_shape[-1]})
        else:
            self.input_spec = InputSpec(ndim=rank, axes=axes) if kept_axes else None

    @property
    def mean(self) -> Any:
        """The mean, shaped to broadcast with the input; `None` before the layer is built."""
        return self._shaped_moment(0)

    @property
    def variance(self) -> Any:
        """The variance, shaped to broadcast with the input; `None` before the layer is built."""
        return self._shaped_moment(1)

    def _shaped_moment(self, index: int) -> Any:
        return ops.reshape(self._moment(index), self._all_sizes) if self.built else None

    def _moment(self, index: int) -> Any:
        if self._given is None:
            learned = self.adapt_variance if index else self.adapt_mean
            moment = learned.value()
            local_moment = state_here(moment, home_of(learned, moment))
            return ops.reshape(local_moment, self._broadcast)
        sizes = tuple(n for n in self._broadcast if n != 1)
        value = self._given[index]
        if value.size not in (1, math.prod(sizes)):
            value = np.broadcast_to(value, sizes)
        shape = self._broadcast if value.size > 1 else (1,) * len(self._broadcast)
        full = np.broadcast_to(value.reshape(shape), self._broadcast)
        return ops.cast(full, self.compute_dtype)

    def adapt(self, data: Any, steps: int | None = None) -> None:
        """Learn mean and variance from `data`; what was learned before is forgotten.

        Args:
            data: an array or tensor, or an iterable of batches.
            steps: how many batches to look at; all by default.

        Raises:
            InvalidArgumentError: mean and variance were given.
        """
        if self._given is not None:
            raise InvalidArgumentError(
                f"Normalization {self.name!r} was given mean and variance, it has nothing to adapt"
            )
        total, mean, variance = 0, np.float64(0.0), np.float64(0.0)
        for item in batches_of(data, steps):
            if item is not data and not hasattr(item, "shape"):
                raise TypeError(
                    f"Normalization {self.name!r}: adapt takes batches that are arrays or tensors, "
                    f"got {type(item).__name__}"
                )
            batch = np.asarray(item, np.float64)
            if not self.built:
                # an array is all data, so its first axis may have means of its own
                count = len(batch) if item is data and batch.ndim > 1 else None
                self.build((count, *batch.shape[1:]))
            count = math.prod(batch.shape[i] for i in self._reduced)
            new_mean, new_variance = batch.mean(self._reduced), batch.var(self._reduced)
            new_total = total + count
            joined = (mean * total + new_mean * count) / new_total
            variance = (
                (variance + (mean - joined) ** 2) * total
                + (new_variance + (new_mean - joined) ** 2) * count
            ) / new_total
            mean, total = joined, new_total
        if not total:
            raise InvalidArgumentError(f"Normalization {self.name!r}: adapt was given no data")
        self.adapt_mean.assign(np.asarray(mean))
        self.adapt_variance.assign(np.asarray(variance))
        self.count.assign(np.int32(min(total, 2**31 - 1)))

    def call(self, inputs: Any) -> Any:
        inputs = ops.cast(inputs, self.compute_dtype)
        with beside(inputs):  # `Dataset.map` gives rows of the CPU to a layer of a GPU
            scale = ops.maximum(ops.sqrt(self._moment(1)), 1e-7)
            mean = ops.cast(self._moment(0), inputs.dtype)
            scale = ops.cast(scale, inputs.dtype)
        if self.invert:
            return ops.add(mean, ops.multiply(inputs, scale))
        return ops.divide(ops.subtract(inputs, mean), scale)


class Rescaling(Layer):
    """x * scale + offset; integers become floats.

    Where the data format in force is `"channels_first"`, a list of scales or offsets goes along the
    axis of the channels.

    Args:
        scale: number, or numbers for the channels.
        offset: number, or numbers for the channels.

    Raises:
        ValueError: `dtype` is one of integers, which can't hold the scale or the offset.

    Example:
        >>> tk.layers.Rescaling(1 / 255)(tk.constant([0.0, 255.0])).numpy()
        array([0., 1.], dtype=float32)
    """

    def __init__(self, scale: Any, offset: Any = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scale = scale
        self.offset = offset
        self.supports_masking = True
        is_floating = as_dtype(self.compute_dtype).is_floating
        for name, value in (("scale", scale), ("offset", offset)):
            numbers = np.asarray(value)
            if not is_floating and (numbers != np.round(numbers)).any():
                raise InvalidArgumentError(
                    f"Rescaling '{self.name}' computes with {self.compute_dtype}, which can't hold "
                    f"the {name} {value}: give a dtype of floats, and cast the result"
                )

    def call(self, inputs: Any) -> Any:
        x = ops.cast(inputs, self.compute_dtype)
        scale, offset = self._numbers(self.scale, x), self._numbers(self.offset, x)
        return ops.add(ops.multiply(x, scale), offset)

    def _numbers(self, value: Any, x: Any) -> Any:
        if isinstance(value, int | float):
            return value if x.dtype.is_floating else int(value)
        numbers = np.asarray(value)
        if numbers.ndim and is_channels_first(None, "Rescaling"):
            numbers = numbers.reshape(numbers.shape + (1,) * (3 - numbers.ndim))
        return ops.cast(numbers, x.dtype)
