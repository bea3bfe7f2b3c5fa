"""Dense layers with a kernel of 8 or 4 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit import ops
from trainkit.autodiff.custom_vjp import custom_gradient
from trainkit.core.trackable import set_silently
from trainkit.layers.quantized.quantized_projection import Projection
from trainkit.layers.quantized.variants import become
from trainkit.quantizers.abs_max import (
    AbsMaxQuantizer,
    abs_max_quantize,
    abs_max_quantize_grouped_with_zero_point,
)
from trainkit.quantizers.packing import pack_int4, unpack_int4
from trainkit.quantizers.quantization_config import Int4QuantizationConfig, QuantizationConfig
from trainkit.quantizers.zero_points import dequantize_with_sz_map

_INT4 = (-8, 7)
_WEIGHTS = QuantizationConfig.weight_quantizer_or_default
_INPUTS = QuantizationConfig.activation_quantizer_or_default


def int4_policy_name(layer: Any, config: Any) -> str:
    """The name of the dtype policy of a layer of 4 bits."""
    size = block_size_of(layer, config)
    name = layer.dtype_policy.at(layer._path).name
    return f"int4/{-1 if size is None else size}_from_{name}"


def block_size_of(layer: Any, config: Any) -> int | None:
    """How many inputs share a scale in a layer of 4 bits; `None` for all of them."""
    if isinstance(config, Int4QuantizationConfig):
        size = config.block_size
    else:
        size = getattr(layer.dtype_policy.at(layer._path), "block_size", None)
    return None if size == -1 else size


class Int8(Projection):
    """A kernel of int8; the inputs become int8, too, and are summed as integers.

    product = (round(x * a) @ q) / (a * scale), with `a` from the greatest |x| of a row.
    """

    mode = "int8"
    stored = ("kernel", "bias", "kernel_scale")

    @classmethod
    def build(cls, layer: Any, shape: tuple[int, ...], config: Any) -> None:
        layer.inputs_quantizer = _INPUTS(config, AbsMaxQuantizer())
        scales = cls.contraction.scale_shape(layer, shape)
        cls._add(layer, "kernel", shape, "zeros", "int8")
        cls._add(layer, "kernel_scale", scales, "ones", None)
        become(layer, cls)

    @classmethod
    def encoded(cls, layer: Any, config: Any) -> dict[str, Any]:
        quantizer = _WEIGHTS(config, AbsMaxQuantizer(axis=cls.contraction.kernel_axes(layer)))
        value, scale = quantizer(layer._kernel, to_numpy=True)
        return {"kernel": value, "kernel_scale": cls.contraction.stored_scale(layer, scale)}

    @classmethod
    def _encoded_floats(cls, layer: Any, kernel: Any) -> dict[str, Any]:
        axes = cls.contraction.kernel_axes(layer)
        value, scale = abs_max_quantize(kernel, axes, to_numpy=True)
        return {"kernel": value, "kernel_scale": cls.contraction.stored_scale(layer, scale)}

    def _floats(self) -> Any:
        scale = self.contraction.kernel_scale(self, self.kernel_scale.value())
        return _floats_of(self.__dict__["kernel"].value(), scale, self.compute_dtype)

    def _product(self, inputs: Any, training: Any) -> Any:
        contraction, quantizer = self.contraction, self.inputs_quantizer
        dtype = self.compute_dtype

        @custom_gradient
        def product(x: Any, kernel: Any, scale: Any) -> Any:
            def backward(g: Any) -> Any:
                floats = _floats_of(kernel, contraction.kernel_scale(self, scale), dtype)
                return contraction.project_back(self, g, floats), None, None

            if quantizer is None:
                y = contraction.project(self, x, ops.cast(kernel, dtype))
                return ops.divide(y, scale), backward
            integers, by = quantizer(x, axis=contraction.input_axes(self))
            sums = ops.cast(contraction.project(self, integers, kernel), dtype)
            by = ops.multiply(contraction.input_scale(self, by), scale)
            return ops.divide(sums, by), backward

        return product(inputs, self.__dict__["kernel"].value(), self.kernel_scale.value())


def _floats_of(integers: Any, scale: Any, dtype: Any) -> Any:
    return ops.divide(ops.cast(integers, dtype), scale)


class Int4(Projection):
    """A kernel of 4 bits, two in a byte along the outputs, that becomes floats for each product.

    As a matrix it has a row for each input. With groups of rows there is a scale and a zero point
    for each, `w = (q - zero) * scale`; without, `w = q / scale`.
    """

    mode = "int4"
    stored = ("kernel", "bias", "kernel_scale", "kernel_zero", "g_idx")

    @classmethod
    def build(cls, layer: Any, shape: tuple[int, ...], config: Any) -> None:
        layer.inputs_quantizer = _INPUTS(config, None)
        rows, columns = cls.contraction.matrix(layer, shape)
        size = block_size_of(layer, config)
        scales = (columns,) if size is None else (-(-rows // size), columns)
        cls._add(layer, "kernel", (rows, (columns + 1) // 2), "zeros", "int8")
        cls._add(layer, "kernel_scale", scales, "ones", None)
        if size is not None:
            cls._add(layer, "kernel_zero", scales, "zeros", "int8")
            groups = np.arange(rows) // size
            cls._add(layer, "g_idx", (rows,), constant(groups), "float32")
        set_silently(
            layer,
            original_kernel_shape=tuple(shape),
            _int4_block_size=getattr(config, "block_size", size),
            _int4_unpacked_column_size=columns,
            _orig_input_dim=rows,
            _orig_output_dim=columns,
        )
        become(layer, cls)

    @classmethod
    def policy_name(cls, layer: Any, config: Any) -> str:
        return int4_policy_name(layer, config)

    @classmethod
    def encoded(cls, layer: Any, config: Any) -> dict[str, Any]:
        own = _WEIGHTS(config, None)
        if own is None:
            return cls._encoded_floats(layer, layer._kernel, block_size_of(layer, config))
        matrix = ops.reshape(layer._kernel, cls.contraction.matrix(layer, layer._kernel.shape))
        integers, scale = own(matrix, to_numpy=True)
        return _pack(integers, ops.squeeze(scale, 0))

    @classmethod
    def _encoded_floats(cls, layer: Any, kernel: Any, size: Any = ...) -> dict[str, Any]:
        """The weights that stand for a kernel of floats, by name.

        Args:
            layer: whose kernel it is.
            kernel: the floats.
            size: rows of a group, `None` for one scale a column; by default as the layer is
                configured.
        """
        size = block_size_of(layer, layer.quantization_config) if size is ... else size
        matrix = ops.reshape(kernel, cls.contraction.matrix(layer, kernel.shape))
        if size is None:
            integers, scale = abs_max_quantize(matrix, 0, _INT4, to_numpy=True)
            return _pack(integers, ops.squeeze(scale, 0))
        integers, scale, zero = abs_max_quantize_grouped_with_zero_point(
            matrix, size, to_numpy=True
        )
        return {**_pack(integers, scale), "kernel_zero": zero}

    def _unpack(self) -> Any:
        shape = self.original_kernel_shape
        return ops.reshape(self._integers(), shape)

    def _integers(self) -> Any:
        """The integers as a matrix."""
        packed = self.__dict__["kernel"].value()
        return unpack_int4(packed, self._orig_output_dim, axis=-1)

    def _floats(self) -> Any:
        integers, scale = self._integers(), self.kernel_scale.value()
        if self.__dict__.get("kernel_zero") is None:
            floats = _floats_of(integers, scale, self.compute_dtype)
        else:
            zero, groups = self.kernel_zero.value(), self.g_idx.value()
            floats = dequantize_with_sz_map(integers, scale, zero, groups, group_axis=0)
            floats = ops.cast(floats, self.compute_dtype)
        return ops.reshape(floats, self.original_kernel_shape)

    def _product(self, inputs: Any, training: Any) -> Any:
        floats = self._floats()
        quantizer = self.inputs_quantizer
        if quantizer is None:
            return self._project(inputs, floats)
        contraction, dtype = self.contraction, self.compute_dtype

        @custom_gradient
        def product(x: Any, kernel: Any) -> Any:
            def backward(g: Any) -> Any:
                return contraction.project_back(self, g, kernel), None

            integers, by = quantizer(x, axis=contraction.input_axes(self))
            sums = contraction.project(self, ops.cast(integers, dtype), kernel)
            return ops.divide(sums, contraction.input_scale(self, by)), backward

        return product(inputs, floats)


def _pack(integers: Any, scale: Any) -> dict[str, Any]:
    return {"kernel": pack_int4(integers, axis=-1)[0], "kernel_scale": scale}


def constant(values: np.ndarray) -> Any:
    """An initializer that gives these values."""

    def start(shape: Any, dtype: Any = None) -> Any:
        return ops.convert_to_tensor(values.astype("float32"))

    return start
