"""Layers that move, repeat, crop or pad values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.values.docstrings import longer_docstring
from trainkit.layers.base.arguments import an_int, format_of, one_of, sizes, whole
from trainkit.layers.base.input_spec import InputSpec
from trainkit.layers.base.layer import Layer


class Flatten(Layer):
    """All axes but the batch as one.

    Shapes: input (batch, ...), output (batch, product of the others). With
    `data_format="channels_first"` the channels go last before they are flattened.

    Example:
        >>> tk.layers.Flatten()(tk.ones((2, 3, 4))).shape
        TensorShape([2, 12])
    """

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.data_format = format_of(self, data_format)
        self.input_spec = InputSpec(min_ndim=1)

    def call(self, inputs: Any) -> Any:
        dims = tuple(inputs.shape)
        rank = len(dims)
        if rank == 1:
            return ops.expand_dims(inputs, 1)
        if rank == 2:
            return inputs
        if self.data_format == "channels_first":
            inputs = ops.moveaxis(inputs, 1, -1)
        return ops.reshape(inputs, _with_batch(inputs, (_product(dims[1:]),)))


def _product(dims: Any) -> int:
    total = 1
    for n in dims:
        if n is None:
            return -1
        total *= n
    return total


def _with_batch(x: Any, sample_shape: tuple[int, ...]) -> tuple[Any, ...]:
    """The shape (batch, *rest) for `x`, -1 once at most."""
    batch = x.shape[0]
    if batch is not None:
        return (batch, *sample_shape)
    if -1 not in sample_shape:
        return (-1, *sample_shape)
    return (ops.shape(x)[0], *sample_shape)


class Reshape(Layer):
    """The values of each sample in another shape.

    Shapes: input (batch, ...), output (batch, *target_shape).

    Args:
        target_shape: without the batch; -1 at most once, for what is left over.

    Raises:
        ShapeError: the number of values differs.

    Example:
        >>> tk.layers.Reshape((2, -1))(tk.ones((3, 8))).shape
        TensorShape([3, 2, 4])
    """

    _without_state = True

    def __init__(self, target_shape: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.target_shape = tuple(target_shape)
        if any(not hasattr(n, "__index__") or n < -1 for n in self.target_shape):
            raise InvalidArgumentError(
                f"Reshape: target_shape must hold sizes of 0 or more, or -1 once, got "
                f"{self.target_shape}"
            )
        if sum(n == -1 for n in self.target_shape) > 1:
            raise InvalidArgumentError(f"Reshape: -1 stands more than once in {self.target_shape}")

    def call(self, inputs: Any) -> Any:
        return ops.reshape(inputs, _with_batch(inputs, self._resolve(inputs.shape[1:])))

    def _resolve(self, dims: Any) -> tuple[int, ...]:
        have, fixed_count = _product(dims), _product([n for n in self.target_shape if n != -1])
        if have == -1:
            return self.target_shape
        inferred = have // fixed_count if fixed_count and have % fixed_count == 0 else 0
        resolved = tuple(inferred if n == -1 else n for n in self.target_shape)
        if _product(resolved) != have:
            raise ShapeError(
                f"reshape: a sample of shape {tuple(dims)} has {have} values, target_shape "
                f"{self.target_shape} does not"
            )
        return resolved


class Permute(Layer):
    """The axes of each sample in another order.

    Args:
        dims: the input's axes, counted from 1 (0 is the batch), in the order of the output.

    Raises:
        InvalidArgumentError: `dims` is no permutation of 1 ... n.

    Example:
        >>> tk.layers.Permute((2, 1))(tk.ones((2, 3, 4))).shape
        TensorShape([2, 4, 3])
    """

    def __init__(self, dims: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dims = tuple(dims)
        if sorted(self.dims) != list(range(1, len(self.dims) + 1)):
            raise InvalidArgumentError(
                f"Permute: dims must hold each of 1 ... {len(self.dims)} once, got {self.dims}"
            )
        self.input_spec = InputSpec(ndim=len(self.dims) + 1)

    def call(self, inputs: Any) -> Any:
        return ops.transpose(inputs, (0, *self.dims))


class RepeatVector(Layer):
    """Each vector `n` times.

    Shapes: input (batch, features), output (batch, n, features).

    Args:
        n: how often.

    Raises:
        TypeError: it is no int.

    Example:
        >>> tk.layers.RepeatVector(3)(tk.ones((2, 4))).shape
        TensorShape([2, 3, 4])
    """

    def __init__(self, n: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n = whole(self, "n", an_int(self, "n", n))
        self.input_spec = InputSpec(ndim=2)

    def call(self, inputs: Any) -> Any:
        return ops.repeat(ops.expand_dims(inputs, 1), self.n, axis=1)


def _pairs(layer: Layer, name: str, value: Any, rank: int) -> Any:
    """An int, an int for each axis, or a pair (before, after) for each axis, as pairs."""
    if hasattr(value, "__index__"):
        value = ((value, value),) * rank
    if rank == 1 and len(value) == 2 and all(hasattr(n, "__index__") for n in value):
        value = (value,)
    if isinstance(value, str) or len(value) != rank or (rank == 1 and not _is_pair(value[0])):
        raise InvalidArgumentError(
            f"{type(layer).__name__}: {name} must be an int, or {rank} ints or pairs, got {value!r}"
        )
    return tuple(sizes(layer, name, item, 2, minimum=0) for item in value)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2


class _Bordered(Layer):
    """What cropping and padding share: pairs of widths for the spatial axes."""

    data_format: Any

    rank: int

    def _widths(self, pairs: Any) -> list[tuple[int, int]]:
        """`pairs` with (0, 0) for batch and channels."""
        if self.data_format == "channels_first":
            return [(0, 0), (0, 0), *pairs]
        return [(0, 0), *pairs, (0, 0)]


class _ZeroPadding(_Bordered):
    """Zeros around the spatial axes.

    Shapes: input (batch, spatial..., channels), output the same with longer spatial axes. With
    `data_format="channels_first"` the channels stand before the spatial axes.

    Args:
        padding: an int, one int for each spatial axis, or a pair (before, after) for each.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Raises:
        InvalidArgumentError: the padding is none of these.
    """

    def __init__(self, padding: Any = 1, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        pairs = _pairs(self, "padding", padding, self.rank)
        self.padding = pairs[0] if self.rank == 1 else pairs
        self.data_format = format_of(self, data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def call(self, inputs: Any) -> Any:
        pairs = [self.padding] if self.rank == 1 else self.padding
        return ops.pad(inputs, self._widths(pairs))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "padding": self.padding}


class ZeroPadding1D(_ZeroPadding):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_ZeroPadding)("""
        Example:
            >>> tk.layers.ZeroPadding1D((1, 2))(tk.ones((1, 4, 3))).shape
            TensorShape([1, 7, 3])
    """)
    rank = 1


class ZeroPadding2D(_ZeroPadding):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_ZeroPadding)("""
        Example:
            >>> tk.layers.ZeroPadding2D(1)(tk.ones((1, 4, 4, 3))).shape
            TensorShape([1, 6, 6, 3])
    """)
    rank = 2


class ZeroPadding3D(_ZeroPadding):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_ZeroPadding)("""
        Example:
            >>> tk.layers.ZeroPadding3D(1)(tk.ones((1, 4, 4, 4, 3))).shape
            TensorShape([1, 6, 6, 6, 3])
    """)
    rank = 3


class _Cropping(_Bordered):
    """The inner part of the spatial axes.

    Shapes: input (batch, spatial..., channels), output the same with shorter spatial axes. With
    `data_format="channels_first"` the channels stand before the spatial axes.

    Args:
        cropping: an int, one int for each spatial axis, or a pair (before, after) for each.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Raises:
        InvalidArgumentError: the cropping is none of these.
        ShapeError: nothing would be left of an axis.
    """

    def __init__(
        self,
        cropping: int | Sequence[int | Sequence[int]] = 1,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        pairs = _pairs(self, "cropping", cropping, self.rank)
        self.cropping = pairs[0] if self.rank == 1 else pairs
        self.data_format = format_of(self, data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def call(self, inputs: Any) -> Any:
        key = []
        pairs = [self.cropping] if self.rank == 1 else self.cropping
        for n, (before, after) in zip(inputs.shape, self._widths(pairs), strict=True):
            if n is not None and before + after and before + after >= n:
                raise ShapeError(
                    f"cropping {self.cropping} leaves nothing of an input of shape "
                    f"{tuple(inputs.shape)}"
                )
            key.append(slice(before, -after if after else None))
        return inputs[tuple(key)]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "cropping": self.cropping}


class Cropping1D(_Cropping):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_Cropping)("""
        Example:
            >>> tk.layers.Cropping1D((1, 2))(tk.ones((1, 6, 3))).shape
            TensorShape([1, 3, 3])
    """)
    rank = 1

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if config["data_format"] == "channels_last":  # the only one that Keras knows here
            del config["data_format"]
        return config


class Cropping2D(_Cropping):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_Cropping)("""
        Example:
            >>> tk.layers.Cropping2D(((1, 1), (2, 0)))(tk.ones((1, 6, 6, 3))).shape
            TensorShape([1, 4, 4, 3])
    """)
    rank = 2

    def __init__(
        self,
        cropping: int | Sequence[int | Sequence[int]] = ((0, 0), (0, 0)),
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(cropping, data_format, **kwargs)


class Cropping3D(_Cropping):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_Cropping)("""
        Example:
            >>> tk.layers.Cropping3D(1)(tk.ones((1, 6, 6, 6, 3))).shape
            TensorShape([1, 4, 4, 4, 3])
    """)
    rank = 3


class UpSampling1D(Layer):
    """Each step `size` times.

    Shapes: input (batch, steps, channels), output (batch, steps * size, channels).

    Args:
        size: how often.

    Raises:
        TypeError: it is no int.

    Example:
        >>> tk.layers.UpSampling1D(2)(tk.constant([[[1.0], [2.0]]])).numpy().ravel()
        array([1., 1., 2., 2.], dtype=float32)
    """

    def __init__(self, size: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.size = whole(self, "size", an_int(self, "size", size))
        self.input_spec = InputSpec(ndim=3)

    def call(self, inputs: Any) -> Any:
        return ops.repeat(inputs, self.size, axis=1)


class UpSampling2D(Layer):
    """Images enlarged by whole factors.

    Shapes: input (batch, height, width, channels), output (batch, height * size[0], width *
    size[1], channels). With `data_format="channels_first"` the channels stand before height and
    width.

    Args:
        size: factors of height and width.
        interpolation: `"nearest"`, `"bilinear"`, `"bicubic"`, `"lanczos3"` or `"lanczos5"`.

    Example:
        >>> tk.layers.UpSampling2D((2, 3))(tk.ones((1, 4, 4, 3))).shape
        TensorShape([1, 8, 12, 3])
    """

    def __init__(
        self,
        size: Any = (2, 2),
        data_format: str | None = None,
        interpolation: str = "nearest",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.size = sizes(self, "size", size, 2)
        self.data_format = format_of(self, data_format)
        methods = ("nearest", "bilinear", "bicubic", "lanczos3", "lanczos5")
        self.interpolation = one_of(self, "interpolation", interpolation.lower(), methods)
        self.input_spec = InputSpec(ndim=4)

    def call(self, inputs: Any) -> Any:
        first = 1 if self.data_format == "channels_last" else 2
        if self.interpolation == "nearest":
            for axis, n in enumerate(self.size, first):
                inputs = ops.repeat(inputs, n, axis=axis)
            return inputs
        height, width = inputs.shape[first], inputs.shape[first + 1]
        if height is None or width is None:
            raise ShapeError(f"height and width must be known, got shape {tuple(inputs.shape)}")
        return ops.image.resize(
            inputs,
            (height * self.size[0], width * self.size[1]),
            interpolation=self.interpolation,
            data_format=self.data_format,
        )


class UpSampling3D(Layer):
    """Each voxel repeated along three axes.

    Shapes: input (batch, depth, height, width, channels), output with each spatial axis `size`
    times as long. With `data_format="channels_first"` the channels stand before the spatial axes.

    Args:
        size: how often, one int or one for each spatial axis.

    Example:
        >>> tk.layers.UpSampling3D(2)(tk.ones((1, 2, 2, 2, 3))).shape
        TensorShape([1, 4, 4, 4, 3])
    """

    def __init__(
        self, size: Any = (2, 2, 2), data_format: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.size = sizes(self, "size", size, 3)
        self.data_format = format_of(self, data_format)
        self.input_spec = InputSpec(ndim=5)

    def call(self, inputs: Any) -> Any:
        first = 1 if self.data_format == "channels_last" else 2
        for axis, n in enumerate(self.size, first):
            inputs = ops.repeat(inputs, n, axis=axis)
        return inputs
