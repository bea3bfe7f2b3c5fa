"""Pooling layers: windowed, global and adaptive, over one to three axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit import ops
from trainkit.core.values.docstrings import longer_docstring, same_but_summary
from trainkit.layers.base.arguments import format_of, one_of, sizes
from trainkit.layers.base.input_spec import InputSpec
from trainkit.layers.base.layer import Layer


class _Pooling(Layer):
    """Windows of the input reduced to one value each.

    Shapes: input (batch, spatial..., channels), output (batch, out..., channels). With
    `data_format="channels_first"` the channels stand before the spatial axes.

    Args:
        pool_size: size of the window, one int or one for each spatial axis.
        strides: distance between windows; `pool_size` by default.
        padding: `"valid"` for windows inside the input only, `"same"` for one window at each
            stride.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Raises:
        ValueError: a setting is none of those above.
    """

    _without_state = True

    rank: int

    def __init__(
        self,
        pool_size: int | Sequence[int] = 2,
        strides: int | Sequence[int] | None = None,
        padding: str = "valid",
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pool_size = sizes(self, "pool_size", pool_size, self.rank)
        self.strides = (
            self.pool_size if strides is None else sizes(self, "strides", strides, self.rank)
        )
        self.padding = one_of(self, "padding", str(padding).lower(), ("valid", "same"))
        self.data_format = format_of(self, data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def _settings(self) -> tuple[Any, ...]:
        return self.pool_size, self.strides, self.padding, self.data_format


class _MaxPooling(_Pooling):
    __doc__ = same_but_summary(_Pooling, "The largest value of each window of the input.")

    def call(self, inputs: Any) -> Any:
        return ops.max_pool(inputs, *self._settings())


class MaxPooling1D(_MaxPooling):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_MaxPooling)("""
        Example:
            >>> x = tk.reshape(tk.range(4.0), (1, 4, 1))
            >>> tk.layers.MaxPooling1D(2)(x).numpy().ravel()
            array([1., 3.], dtype=float32)
    """)
    rank = 1


class MaxPooling2D(_MaxPooling):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_MaxPooling)("""
        Example:
            >>> tk.layers.MaxPooling2D(2)(tk.ones((1, 4, 6, 3))).shape
            TensorShape([1, 2, 3, 3])
    """)
    rank = 2


class MaxPooling3D(_MaxPooling):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_MaxPooling)("""
        Example:
            >>> tk.layers.MaxPooling3D(2)(tk.ones((1, 4, 4, 6, 3))).shape
            TensorShape([1, 2, 2, 3, 3])
    """)
    rank = 3


class _AveragePooling(_Pooling):
    __doc__ = same_but_summary(
        _Pooling, "The mean of each window over the part of it that lies inside the input."
    )

    def call(self, inputs: Any) -> Any:
        return ops.average_pool(inputs, *self._settings())


class AveragePooling1D(_AveragePooling):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_AveragePooling)("""
        Example:
            >>> x = tk.reshape(tk.range(4.0), (1, 4, 1))
            >>> tk.layers.AveragePooling1D(2)(x).numpy().ravel()
            array([0.5, 2.5], dtype=float32)
    """)
    rank = 1


class AveragePooling2D(_AveragePooling):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_AveragePooling)("""
        Example:
            >>> tk.layers.AveragePooling2D(2)(tk.ones((1, 4, 6, 3))).shape
            TensorShape([1, 2, 3, 3])
    """)
    rank = 2


class AveragePooling3D(_AveragePooling):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_AveragePooling)("""
        Example:
            >>> tk.layers.AveragePooling3D(2)(tk.ones((1, 4, 4, 6, 3))).shape
            TensorShape([1, 2, 2, 3, 3])
    """)
    rank = 3


class _GlobalPooling(Layer):
    """All spatial positions of each channel reduced to one value.

    Shapes: input (batch, spatial..., channels), or (batch, channels, spatial...) with
    `data_format="channels_first"`; output (batch, channels), with `keepdims` the spatial axes of
    size 1.

    Args:
        data_format: `"channels_last"` (the default) or `"channels_first"`.
        keepdims: whether the spatial axes stay.
    """

    _without_state = True

    rank: int

    def __init__(
        self, data_format: str | None = None, keepdims: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.data_format = format_of(self, data_format)
        self.keepdims = bool(keepdims)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    @property
    def _axes(self) -> tuple[int, ...]:
        first = 1 if self.data_format == "channels_last" else 2
        return tuple(range(first, first + self.rank))


class _GlobalMaxPooling(_GlobalPooling):
    __doc__ = same_but_summary(_GlobalPooling, "The largest value of each channel.")

    def call(self, inputs: Any) -> Any:
        return ops.max(inputs, axis=self._axes, keepdims=self.keepdims)


class GlobalMaxPooling1D(_GlobalMaxPooling):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_GlobalMaxPooling)("""
        Example:
            >>> tk.layers.GlobalMaxPooling1D()(tk.constant([[[1.0], [3.0]]])).numpy()
            array([[3.]], dtype=float32)
    """)
    rank = 1


class GlobalMaxPooling2D(_GlobalMaxPooling):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_GlobalMaxPooling)("""
        Example:
            >>> tk.layers.GlobalMaxPooling2D()(tk.ones((2, 4, 4, 3))).shape
            TensorShape([2, 3])
    """)
    rank = 2


class GlobalMaxPooling3D(_GlobalMaxPooling):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_GlobalMaxPooling)("""
        Example:
            >>> tk.layers.GlobalMaxPooling3D()(tk.ones((2, 4, 4, 4, 3))).shape
            TensorShape([2, 3])
    """)
    rank = 3


class _GlobalAveragePooling(_GlobalPooling):
    __doc__ = same_but_summary(_GlobalPooling, "The mean of each channel.")

    def call(self, inputs: Any) -> Any:
        return ops.mean(inputs, axis=self._axes, keepdims=self.keepdims)


class GlobalAveragePooling1D(_GlobalAveragePooling):
    """The mean of each channel over the steps, those that a mask leaves out not counted.

    Shapes: input (batch, steps, channels), mask (batch, steps), output (batch, channels). With
    `data_format="channels_first"` the channels stand before the steps.

    Args:
        keepdims: whether the axis of the steps stays.

    Example:
        >>> tk.layers.GlobalAveragePooling1D()(tk.constant([[[1.0], [3.0]]])).numpy()
        array([[2.]], dtype=float32)
    """

    rank = 1

    def __init__(
        self, data_format: str | None = None, keepdims: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(data_format=data_format, keepdims=keepdims, **kwargs)
        self.supports_masking = True

    def call(self, inputs: Any, mask: Any = None) -> Any:
        if mask is None:
            return super().call(inputs)
        steps = self._axes[0]
        mask_weights = ops.expand_dims(ops.cast(mask, inputs.dtype), 2 if steps == 1 else 1)
        total = ops.sum(ops.multiply(inputs, mask_weights), axis=steps, keepdims=self.keepdims)
        return ops.divide(total, ops.sum(mask_weights, axis=steps, keepdims=self.keepdims))

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return None


class GlobalAveragePooling2D(_GlobalAveragePooling):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_GlobalAveragePooling)("""
        Example:
            >>> tk.layers.GlobalAveragePooling2D()(tk.ones((2, 4, 4, 3))).shape
            TensorShape([2, 3])
    """)
    rank = 2


class GlobalAveragePooling3D(_GlobalAveragePooling):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_GlobalAveragePooling)("""
        Example:
            >>> tk.layers.GlobalAveragePooling3D(keepdims=True)(tk.ones((2, 4, 4, 4, 3))).shape
            TensorShape([2, 1, 1, 1, 3])
    """)
    rank = 3


class _AdaptivePooling(Layer):
    """Pooling to a given number of windows of nearly equal size.

    Window i of n along an axis of m positions goes from floor(i * m / n) to ceil((i + 1) * m / n).
    Shapes: input (batch, spatial..., channels), output (batch, output_size..., channels). With
    `data_format="channels_first"` the channels stand before the spatial axes.

    Args:
        output_size: number of windows, one int or one for each spatial axis.
        data_format: `"channels_last"` (the default) or `"channels_first"`.
    """

    rank: int

    def __init__(self, output_size: Any, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.output_size = sizes(self, "output_size", output_size, self.rank)
        self.data_format = format_of(self, data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)


class _AdaptiveAveragePooling(_AdaptivePooling):
    __doc__ = _AdaptivePooling.__doc__

    def call(self, inputs: Any) -> Any:
        return ops.adaptive_average_pool(inputs, self.output_size, self.data_format)


class AdaptiveAveragePooling1D(_AdaptiveAveragePooling):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_AdaptivePooling)("""
        Example:
            >>> x = tk.reshape(tk.range(6.0), (1, 6, 1))
            >>> tk.layers.AdaptiveAveragePooling1D(2)(x).numpy().ravel()
            array([1., 4.], dtype=float32)
    """)
    rank = 1


class AdaptiveAveragePooling2D(_AdaptiveAveragePooling):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_AdaptivePooling)("""
        Example:
            >>> tk.layers.AdaptiveAveragePooling2D(2)(tk.ones((1, 5, 7, 3))).shape
            TensorShape([1, 2, 2, 3])
    """)
    rank = 2


class AdaptiveAveragePooling3D(_AdaptiveAveragePooling):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_AdaptivePooling)("""
        Example:
            >>> tk.layers.AdaptiveAveragePooling3D(2)(tk.ones((1, 4, 5, 6, 3))).shape
            TensorShape([1, 2, 2, 2, 3])
    """)
    rank = 3


class _AdaptiveMaxPooling(_AdaptivePooling):
    __doc__ = _AdaptivePooling.__doc__

    def call(self, inputs: Any) -> Any:
        return ops.adaptive_max_pool(inputs, self.output_size, self.data_format)


class AdaptiveMaxPooling1D(_AdaptiveMaxPooling):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_AdaptivePooling)("""
        Example:
            >>> x = tk.reshape(tk.range(6.0), (1, 6, 1))
            >>> tk.layers.AdaptiveMaxPooling1D(2)(x).numpy().ravel()
            array([2., 5.], dtype=float32)
    """)
    rank = 1


class AdaptiveMaxPooling2D(_AdaptiveMaxPooling):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_AdaptivePooling)("""
        Example:
            >>> tk.layers.AdaptiveMaxPooling2D((2, 3))(tk.ones((1, 5, 7, 3))).shape
            TensorShape([1, 2, 3, 3])
    """)
    rank = 2


class AdaptiveMaxPooling3D(_AdaptiveMaxPooling):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_AdaptivePooling)("""
        Example:
            >>> tk.layers.AdaptiveMaxPooling3D(2)(tk.ones((1, 4, 5, 6, 3))).shape
            TensorShape([1, 2, 2, 2, 3])
    """)
    rank = 3


# The short names.
MaxPool1D = MaxPooling1D
MaxPool2D = MaxPooling2D
MaxPool3D = MaxPooling3D
AvgPool1D = AveragePooling1D
AvgPool2D = AveragePooling2D
AvgPool3D = AveragePooling3D
GlobalMaxPool1D = GlobalMaxPooling1D
GlobalMaxPool2D = GlobalMaxPooling2D
GlobalMaxPool3D = GlobalMaxPooling3D
GlobalAvgPool1D = GlobalAveragePooling1D
GlobalAvgPool2D = GlobalAveragePooling2D
GlobalAvgPool3D = GlobalAveragePooling3D
