"""Dense layers whose kernel is quantized by what it meets: GPTQ and AWQ.

The kernel of floats stays until the layer is calibrated; then there are its integers, a row for
each output, with a scale and a zero point for each group of inputs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.trackable import set_silently
from trainkit.layers.base.tracking import forget_parts
from trainkit.layers.quantized.contractions import leading_matrix
from trainkit.layers.quantized.quantized_projection import Projection
from trainkit.layers.quantized.variants import become, drop_weight
from trainkit.quantizers.packing import pack_int2, unpack_int2, unpack_int4
from trainkit.quantizers.zero_points import dequantize_with_sz_map

_PER_BYTE = {2: 4, 4: 2}


class Calibrated(Projection):
    """What both modes have in common.

    Attributes:
        flag: the attribute that says whether the layer is calibrated.
    """

    keeps_floats = True
    flag = "is_gptq_calibrated"

    @classmethod
    def build(cls, layer: Any, shape: tuple[int, ...], config: Any) -> None:
        rows, columns = cls._matrix(layer, shape)
        policy = layer.dtype_policy.at(layer._path)
        source = policy if hasattr(policy, "group_size") else config
        if not hasattr(source, "group_size"):
            raise ValueError(
                f"layer {layer.name!r}: mode {cls.mode!r} needs a config with a group_size, or a "
                f"dtype policy such as '{cls.mode}/4/128_from_float32'"
            )
        bits, size = source.weight_bits, source.group_size
        groups = 1 if size == -1 else -(-rows // size)
        packed_columns = -(-columns // _PER_BYTE.get(bits, 1))
        cls._add(layer, "quantized_kernel", (packed_columns, rows), "zeros", "uint8", "kernel")
        cls._add(layer, "kernel_scale", (columns, groups), "ones", None)
        cls._add(layer, "kernel_zero", (columns, groups), "zeros", "uint8")
        if cls.mode == "awq":
            cls._add(layer, "awq_scales", (rows,), "ones", None)
        cls._add(layer, "g_idx", (rows,), "zeros", "float32")
        set_silently(
            layer,
            **{cls.flag: False},
            original_kernel_shape=tuple(shape),
            _unpacked_columns=columns,
            _weight_bits=bits,
            gptq_unpacked_column_size=columns,
        )
        become(layer, cls)

    @classmethod
    def _matrix(cls, layer: Any, shape: tuple[int, ...]) -> tuple[int, int]:
        """Rows and columns of the kernel as it is stored.

        They are what is summed over and what is not. Files of Keras that do not say so split a
        kernel of three axes at the largest one.
        """
        columns = getattr(layer, "gptq_unpacked_column_size", None)
        if layer.__dict__.get("kernel") is not None:
            return leading_matrix(layer, cls.contraction, shape)
        if columns is None and len(shape) == 3:
            largest = shape.index(max(shape))
            columns = math.prod(shape[1:]) if largest == 0 else shape[2]
        if columns is None:
            return leading_matrix(layer, cls.contraction, shape)
        return math.prod(shape) // columns, columns

    @classmethod
    def replace_weights(cls, layer: Any, config: Any) -> None:
        shape = tuple(layer._kernel.shape)
        layer.quantized_build(shape, cls.mode, config)

    @classmethod
    def policy_name(cls, layer: Any, config: Any) -> str:
        name = layer.dtype_policy.at(layer._path).name
        return f"{config.dtype_policy_string()}_from_{name}"

    @property
    def _calibrated(self) -> bool:
        return bool(self.__dict__.get(self.flag))

    def _take_calibrated(self, **values: Any) -> None:
        """Take the values that calibration has found, and let go of the floats."""
        for name, value in values.items():
            variable = self.__dict__[name]
            variable.assign(ops.cast(value, variable.dtype))
        if self.__dict__.get("kernel") is not None:
            drop_weight(self, "kernel")
        self.__dict__[self.flag] = True
        forget_parts(self)

    # ------------------------------------------------------------------ calling

    def _integers(self) -> Any:
        """The whole numbers of the kernel, a row for each output, of bytes that hold several."""
        packed, columns = self.quantized_kernel.value(), self._unpacked_columns
        bits = self._weight_bits
        if bits not in _PER_BYTE:
            return packed
        unpack = unpack_int4 if bits == 4 else unpack_int2
        return unpack(packed, columns, axis=0, dtype="uint8")

    def _unpack(self) -> Any:
        return self._integers() if self._calibrated else self.__dict__.get("kernel")

    def _floats(self) -> Any:
        if not self._calibrated:
            kernel = self.__dict__.get("kernel")
            return self._decode() if kernel is None else kernel.value()
        return self._decode()

    def _decode(self) -> Any:
        floats = dequantize_with_sz_map(
            self._integers(),
            self.kernel_scale.value(),
            self.kernel_zero.value(),
            self.g_idx.value(),
        )
        floats = self._unscale(ops.transpose(floats))
        floats = ops.cast(floats, self.compute_dtype)
        return ops.reshape(floats, self.original_kernel_shape)

    def _unscale(self, floats: Any) -> Any:
        """The kernel (inputs, outputs) without what it was multiplied with."""
        return floats

    def _product(self, inputs: Any, training: Any) -> Any:
        return self._project(inputs, self._floats())

    # ------------------------------------------------------------------ files

    def save_own_variables(self, store: Any) -> None:
        if self.built and not self._calibrated:
            raise ValueError(
                f"Cannot save layer {self.name!r}: its mode {self.mode!r} was never calibrated, so "
                "its integers mean nothing yet. Let model.quantize have a structure that covers "
                "the layer, or leave it out with `filters`"
            )
        super().save_own_variables(store)

    def load_own_variables(self, store: Any) -> None:
        super().load_own_variables(store)
        if self.built:
            self._take_calibrated()

    def _merge(self) -> dict[str, Any]:
        return {}


class GPTQKernel(Calibrated):
    """Integers of 2, 3, 4 or 8 bits; of 2 and 4 several stand in a byte."""

    mode = "gptq"
    stored = ("bias", "quantized_kernel", "kernel_scale", "kernel_zero", "g_idx")

    def _as_now(self, name: str, value: np.ndarray) -> np.ndarray:
        shape = tuple(self.__dict__[name].shape)
        if name == "quantized_kernel" and self._weight_bits == 2 and value.shape != shape:
            packed = pack_int2(value.astype(np.uint8), axis=0, dtype="uint8")[0]
            return packed.numpy()  # files of old had a byte for each
        return value


class AWQKernel(Calibrated):
    """Integers of 4 bits for weights that were multiplied with a factor for each input."""

    mode = "awq"
    flag = "is_awq_calibrated"
    stored = ("bias", "quantized_kernel", "kernel_scale", "kernel_zero", "awq_scales", "g_idx")

    def _unscale(self, floats: Any) -> Any:
        return ops.divide(floats, ops.expand_dims(self.awq_scales.value(), -1))
