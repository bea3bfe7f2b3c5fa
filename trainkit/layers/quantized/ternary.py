"""Dense layers whose weights are -1, 0 or 1 times one scale, five in a byte.

Source: BitNet b1.58, arXiv:2402.17764, section 3.1.
"""

from __future__ import annotations

from typing import Any

from trainkit import initializers, ops
from trainkit.core.trackable import set_silently
from trainkit.layers.quantized.quantized_projection import Projection
from trainkit.layers.quantized.variants import HeldWeight, become
from trainkit.layers.ternary_dense import ternary_kernel
from trainkit.quantizers.packing import pack_ternary, unpack_ternary

_ZEROS = 121  # the byte of five zeros: 1 + 3 + 9 + 27 + 81


class Ternary(Projection):
    """A kernel of signs and zeros, packed along the inputs."""

    mode = "ternary"
    stored = ("packed_kernel", "bias", "kernel_scale")
    _packed_kernel = HeldWeight("packed_kernel")

    @classmethod
    def build(cls, layer: Any, shape: tuple[int, ...], config: Any) -> None:
        rows, columns = shape
        start = initializers.Constant(_ZEROS)
        cls._add(layer, "packed_kernel", ((rows + 4) // 5, columns), start, "uint8", "kernel")
        cls._add(layer, "kernel_scale", (), "ones", None)
        set_silently(layer, _orig_input_dim=rows)
        become(layer, cls)

    @classmethod
    def encoded(cls, layer: Any, config: Any) -> dict[str, Any]:
        signs, scale = ternary_kernel(layer._kernel.value(), getattr(layer, "threshold", None))
        return {"packed_kernel": pack_ternary(signs, axis=0)[0], "kernel_scale": scale}

    def _unpack(self) -> Any:
        packed = self.__dict__["packed_kernel"].value()
        return unpack_ternary(packed, self._orig_input_dim, axis=0)

    def _floats(self) -> Any:
        signs = ops.cast(self._unpack(), self.compute_dtype)
        return ops.multiply(signs, self.kernel_scale.value())

    def _product(self, inputs: Any, training: Any) -> Any:
        signs = ops.cast(self._unpack(), self.compute_dtype)
        sums = self._project(inputs, signs)
        return ops.multiply(sums, ops.cast(self.kernel_scale.value(), self.compute_dtype))
