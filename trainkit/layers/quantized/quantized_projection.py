"""What all quantized dense layers have in common."""

from __future__ import annotations

from typing import Any, ClassVar

from trainkit import ops
from trainkit.layers.quantized.contractions import DENSE
from trainkit.layers.quantized.lora import lora_delta, lora_factor, with_lora
from trainkit.layers.quantized.stored_weights import StoredWeights
from trainkit.layers.quantized.variants import become, drop_weight, hold


class Projection(StoredWeights):
    """A dense layer with another form of kernel.

    A class has `contraction`, and says how it is made: `build(layer, shape, config)` makes the
    variables, `encoded(layer, config)` gives their values from the floats.

    Attributes:
        keeps_floats: whether the kernel of floats stays beside.
    """

    contraction: ClassVar[Any] = DENSE
    keeps_floats = False
    stored: ClassVar[tuple[str, ...]] = ("kernel", "bias")
    stored_as: ClassVar[tuple[str, ...]] = stored

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.stored_as = tuple(name.removeprefix("packed_") for name in cls.stored)

    # ------------------------------------------------------------------ becoming one

    @classmethod
    def encoded(cls, layer: Any, config: Any) -> dict[str, Any]:
        """The values of the new variables by name, from the floats of `layer`."""
        return {}

    @classmethod
    def build(cls, layer: Any, shape: tuple[int, ...], config: Any) -> None:
        """Make the variables, and let `layer` be of this class."""
        become(layer, cls)

    @classmethod
    def replace_weights(cls, layer: Any, config: Any) -> None:
        """Make the variables in place of the floats."""
        shape = tuple(layer._kernel.shape)
        if not cls.keeps_floats:
            drop_weight(layer, "kernel")
        layer.quantized_build(shape, cls.mode, config)

    @staticmethod
    def _add(layer: Any, name: str, shape: Any, start: Any, dtype: Any, label: str = "") -> None:
        """Make a variable that is not trained."""
        variable = layer.add_weight(
            label or name, shape, initializer=start, dtype=dtype, trainable=False
        )
        hold(layer, name, variable)

    # ------------------------------------------------------------------ calling

    def call(self, inputs: Any, training: Any = None) -> Any:
        y = self._product(inputs, training)
        if self.lora_enabled:
            y = ops.cast(ops.add(y, self._through_lora(inputs)), self.compute_dtype)
        return self._finish(y)

    def _product(self, inputs: Any, training: Any) -> Any:
        """Inputs times kernel."""
        raise NotImplementedError

    def _finish(self, y: Any) -> Any:
        """The bias added, and activated."""
        bias = self.bias
        if bias is not None:
            y = ops.add(y, bias)
        return self.activation(y)

    def _project(self, x: Any, kernel: Any) -> Any:
        return self.contraction.project(self, x, kernel)

    # ------------------------------------------------------------------ LoRA

    def _through_lora(self, inputs: Any) -> Any:
        """What LoRA adds to the product."""
        a, b = self.lora_kernel_a.value(), self.lora_kernel_b.value()
        return ops.multiply(ops.matmul(self._project(inputs, a), b), lora_factor(self))

    @property
    def kernel(self) -> Any:
        """The kernel as it is kept, unpacked; with LoRA what that adds, too."""
        weight = self._unpack()
        return with_lora(self, weight) if self.lora_enabled else weight

    @kernel.setter
    def kernel(self, value: Any) -> None:
        hold(self, "kernel", value)

    def _unpack(self) -> Any:
        return self.__dict__["kernel"]

    def _merge(self) -> dict[str, Any]:
        """The kernel with what LoRA adds, quantized again."""
        merged = ops.add(self._floats(), lora_delta(self))
        return type(self)._encoded_floats(self, merged)

    def _floats(self) -> Any:
        """The kernel as floats again."""
        raise NotImplementedError

    @classmethod
    def _encoded_floats(cls, layer: Any, kernel: Any) -> dict[str, Any]:
        """The values of the variables for a kernel of floats, as quantized by default."""
        raise NotImplementedError
