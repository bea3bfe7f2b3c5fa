"""Quantizers by the greatest magnitude: `integer = round(x * scale)`, `scale = most / max|x|`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

from trainkit import ops
from trainkit.core import devices, dtypes
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.quantizers.quantizer_family import QUANTIZERS
from trainkit.quantizers.zero_points import compute_quantization_parameters

Range = tuple[float, float]


class Quantizer:
    """Base of quantizers: `__call__(x)` gives what `x` becomes.

    Args:
        output_dtype: the dtype of the integers.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__ == __name__:
            QUANTIZERS.add(cls)

    def __init__(self, output_dtype: str = "int8") -> None:
        self.output_dtype = output_dtype

    def __call__(self, x: Any) -> Any:
        """`x` as it is; a subclass quantizes it."""
        return x

    def get_config(self) -> dict[str, Any]:
        """The arguments of a like quantizer.

        Raises:
            NotImplementedError: a subclass has to say them.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a get_config method")

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Quantizer:
        """The quantizer that `get_config` described."""
        return cls(**config)


QUANTIZERS.add(Quantizer)


class AbsMaxQuantizer(Quantizer):
    """Integers in a range that is symmetric around 0, with a scale for each slice.

    Args:
        axis: int or ints, over which the greatest magnitude is taken; -1 unless the call says it.
        value_range: the least and the greatest integer.
        epsilon: added to the greatest magnitude, which may be 0.
        output_dtype: dtype of the integers.

    Raises:
        ValueError: the range does not fit into int8.
    """

    def __init__(
        self,
        axis: int | Sequence[int] | None = None,
        value_range: Sequence[float] = (-127, 127),
        epsilon: float = 1e-7,
        output_dtype: str = "int8",
    ) -> None:
        super().__init__(output_dtype)
        self.axis = (axis,) if isinstance(axis, int) else None if axis is None else tuple(axis)
        lowest, greatest = value_range
        self.value_range: Range = (lowest, greatest)
        self.epsilon = epsilon
        if output_dtype == "int8" and (lowest < -128 or greatest > 127):
            raise ValueError(
                "AbsMaxQuantizer: with output_dtype='int8' the value_range must lie within "
                f"[-128, 127], got value_range={tuple(value_range)}"
            )

    def __call__(self, x: Any, axis: Any = None, to_numpy: bool = False) -> tuple[Tensor, Tensor]:
        """Quantize `x`.

        Args:
            x: floats.
            axis: in place of that of the constructor.
            to_numpy: compute on the host, which saves memory of a GPU.

        Returns:
            The integers and their scale, whose reduced axes have size 1: `integers / scale` is near
            to `x`.
        """
        axes = self.axis if axis is None else axis
        return abs_max_quantize(
            x,
            -1 if axes is None else axes,
            self.value_range,
            self.output_dtype,
            self.epsilon,
            to_numpy,
        )

    def get_config(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            "value_range": self.value_range,
            "epsilon": self.epsilon,
            "output_dtype": self.output_dtype,
        }
        return config if self.axis is None else {**config, "axis": self.axis}


def _read(inputs: Any, on_host: bool) -> Any:
    """A tensor of `inputs`, on the host if that is asked for, or symbolic."""
    if on_host and hasattr(inputs, "numpy"):
        return convert_to_tensor(inputs.numpy())
    return inputs.value() if hasattr(inputs, "assign") else as_tensor(inputs)


def as_tensor(x: Any) -> Any:
    """A tensor, a symbolic one among them, as it is; all else converted."""
    return x if is_tensor(x) or hasattr(x, "apply_layer") else convert_to_tensor(x)


def _device_scope(on_host: bool) -> contextlib.AbstractContextManager[Any]:
    return devices.device("/cpu:0") if on_host else contextlib.nullcontext()


def abs_max_quantize(
    inputs: Any,
    axis: Any,
    value_range: Sequence[float] = (-127, 127),
    dtype: str = "int8",
    epsilon: float = 1e-7,
    to_numpy: bool = False,
) -> tuple[Tensor, Tensor]:
    """Integers near `inputs * scale`, where `scale = value_range[1] / (max|inputs| + epsilon)`.

    Args:
        inputs: floats.
        axis: int or ints, over which the greatest magnitude is taken.
        value_range: the least and the greatest integer.
        dtype: of the integers.
        epsilon: keeps the scale of zeros finite.
        to_numpy: compute on the host, which saves memory of a GPU.

    Returns:
        The integers, of the shape of `inputs`, and the scale in the dtype of `inputs`, whose
        reduced axes have size 1.
    """
    with _device_scope(to_numpy):
        x = _read(inputs, to_numpy)
        axes = tuple(axis) if isinstance(axis, list | tuple) else axis
        greatest = ops.max(ops.abs(x), axis=axes, keepdims=True)
        scale = ops.cast(ops.divide(value_range[1], ops.add(greatest, epsilon)), x.dtype)
        rounded = ops.round(ops.multiply(x, scale))
        return ops.cast(ops.clip(rounded, value_range[0], value_range[1]), dtype), scale


def abs_max_quantize_grouped_with_zero_point(
    inputs: Any,
    block_size: int,
    value_range: Sequence[float] = (-8, 7),
    dtype: str = "int8",
    epsilon: float = 1e-7,
    to_numpy: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Integers with a scale and a zero point for each group of rows of each column.

    Args:
        inputs: floats, shape (rows, columns).
        block_size: rows of a group.
        value_range: the least and the greatest integer, such as those of 4 bits.
        dtype: of the integers.
        epsilon: added to the range of a group.
        to_numpy: compute on the host. The zeros that fill up the last group count for its range
            then, as in Keras, even if there is but one group.

    Returns:
        The integers, shape (rows, columns); the scales, shape (groups, columns), in the dtype of
        `inputs`; the zero points, int8, of that shape: `(integers - zero) * scale` is near to
        `inputs`.
    """
    with _device_scope(to_numpy):
        x = _read(inputs, to_numpy)
        rows, columns = (int(n) for n in x.shape)
        lowest, greatest = value_range
        groups = math.ceil(rows / block_size)
        missing = groups * block_size - rows
        padded = ops.pad(x, [[0, missing], [0, 0]]) if missing else x
        measured = padded if to_numpy else x
        scale, zero, _ = compute_quantization_parameters(
            ops.transpose(measured),
            bits=int(math.log2(greatest - lowest + 1)),
            per_channel=True,
            group_size=block_size,
            compute_dtype=dtypes.as_dtype(x.dtype).name,
            epsilon=epsilon,
            signed=True,
        )
        scale, zero = ops.cast(ops.transpose(scale), x.dtype), ops.transpose(zero)
        grouped = ops.reshape(padded, (groups, block_size, columns))
        near = ops.round(ops.divide(grouped, ops.expand_dims(scale, 1)))
        near = ops.add(near, ops.cast(ops.expand_dims(zero, 1), near.dtype))
        integers = ops.cast(ops.clip(near, lowest, greatest), dtype)
        return ops.reshape(integers, (groups * block_size, columns))[:rows], scale, zero
