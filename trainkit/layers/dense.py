"""Dense layers: every output depends on every input."""

from __future__ import annotations

import math
import warnings
from functools import lru_cache
from typing import Any

from trainkit import activations, ops
from trainkit.core.errors import ShapeError
from trainkit.core.values.type_aliases import (
    ActivationLike,
    ConstraintLike,
    InitializerLike,
    RegularizerLike,
)
from trainkit.initializers import VarianceScaling
from trainkit.layers.base.arguments import keep, weight_of, whole
from trainkit.layers.base.input_spec import InputSpec
from trainkit.layers.base.layer import Layer
from trainkit.layers.fused_activation import dense
from trainkit.layers.quantized import quantization
from trainkit.layers.quantized.contractions import DENSE, EINSUM, leading_matrix
from trainkit.layers.quantized.variants import HeldWeight

_VARIANTS = "trainkit.layers.quantized.dense_variants"


class Dense(Layer):
    """activation(inputs @ kernel + bias).

    Shapes: input (batch, ..., features), output (batch, ..., units), kernel (features, units), bias
    (units,).

    Args:
        units: number of outputs.
        activation: function or its name; none by default.
        kernel_initializer, bias_initializer: what the weights start with.
        kernel_regularizer, bias_regularizer: penalties on the weights.
        kernel_constraint, bias_constraint: bounds on the weights.
        lora_rank, lora_alpha: arguments of `enable_lora`, which is called when the layer is built.

    Raises:
        ValueError: units is no int above 0, or a name is that of nothing.

    Example:
        >>> layer = tk.layers.Dense(2, kernel_initializer="ones")
        >>> layer(tk.constant([[1.0, 2.0, 3.0]])).numpy()
        array([[6., 6.]], dtype=float32)
        >>> layer.kernel.shape, layer.bias.shape
        (TensorShape([3, 2]), TensorShape([2]))
    """

    units: Any
    activation: Any
    use_bias: bool
    kernel_initializer: Any
    bias_initializer: Any
    kernel_regularizer: Any
    bias_regularizer: Any
    kernel_constraint: Any
    bias_constraint: Any
    lora_rank: int | None
    lora_alpha: Any

    _quantization = quantization.LayerQuantization(_VARIANTS)
    enable_lora = quantization.enable_lora
    lora_enabled = False
    variable_serialization_spec = quantization.serialization_spec
    _kernel = HeldWeight("kernel")

    def __init__(
        self,
        units: int,
        activation: ActivationLike | None = None,
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike | None = None,
        bias_regularizer: RegularizerLike | None = None,
        activity_regularizer: RegularizerLike | None = None,
        kernel_constraint: ConstraintLike | None = None,
        bias_constraint: ConstraintLike | None = None,
        lora_rank: int | None = None,
        lora_alpha: float | None = None,
        quantization_config: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        keep(self, locals())
        self.lora_alpha = lora_rank if lora_alpha is None else lora_alpha
        self.units = whole(self, "units", units)
        self.input_spec = InputSpec(min_ndim=2)
        self.supports_masking = True
        if self.has_one_class():
            warnings.warn(
                f"{type(self).__name__} {self.name!r} takes the softmax over 1 unit, which is 1 "
                "whatever the input is, so nothing is learned: give two classes 'sigmoid', or the "
                "layer a unit for each class",
                stacklevel=2,
            )

    def has_one_class(self) -> bool:
        """Whether outputs are always 1, as the softmax of one number is."""
        return self.units == 1 and self.activation is activations.softmax

    def build(self, input_shape: Any) -> None:
        features = input_shape[-1]
        if self._quantization.builds_floats(self, (features, self.units)):
            self.kernel = weight_of(self, "kernel", (features, self.units))
        self.bias = None
        if self.use_bias:
            self.bias = weight_of(self, "bias", (self.units,))
        self.input_spec = InputSpec(min_ndim=2, axes={-1: features})
        quantization.start_lora(self)

    def kernel_matrix_shape(self) -> tuple[int, int]:
        """How many inputs and outputs the kernel has."""
        return DENSE.matrix(self, self.kernel.shape)

    def call(self, inputs: Any, training: Any = None) -> Any:
        return dense(inputs, self.kernel, self.bias, self.activation)


class EinsumDense(Layer):
    """activation(einsum(equation, inputs, kernel) + bias).

    Args:
        equation: such as `"abc,cd->abd"`, the kernel being the second operand; `...` stands for
            batch axes.
        output_shape: sizes of the output's axes without the batch, `None` where the input says; an
            int for one axis.
        activation: function or its name; none by default.
        bias_axes: the letters of the output's axes along which the bias varies; no bias by default.
        kernel_initializer, bias_initializer: what the weights start with.
        kernel_regularizer, bias_regularizer: penalties on the weights.
        kernel_constraint, bias_constraint: bounds on the weights.
        lora_rank, lora_alpha: arguments of `enable_lora`, which is called when the layer is built.
        gptq_unpacked_column_size: outputs of the kernel as a matrix, where a file says them.

    Raises:
        ShapeError: the equation does not fit the input or `output_shape`.

    Example:
        >>> tk.layers.EinsumDense("abc,cd->abd", output_shape=(None, 8))(tk.ones((2, 5, 4))).shape
        TensorShape([2, 5, 8])
    """

    activation: Any
    bias_axes: Any
    bias_constraint: Any
    bias_initializer: Any
    bias_regularizer: Any
    equation: Any
    kernel_constraint: Any
    kernel_initializer: Any
    kernel_regularizer: Any

    _quantization = quantization.LayerQuantization(_VARIANTS)
    enable_lora = quantization.enable_lora
    lora_enabled = False
    variable_serialization_spec = quantization.serialization_spec
    _kernel = HeldWeight("kernel")

    def __init__(
        self,
        equation: str,
        output_shape: Any,
        activation: ActivationLike | None = None,
        bias_axes: str | None = None,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike | None = None,
        bias_regularizer: RegularizerLike | None = None,
        activity_regularizer: RegularizerLike | None = None,
        kernel_constraint: ConstraintLike | None = None,
        bias_constraint: ConstraintLike | None = None,
        lora_rank: int | None = None,
        lora_alpha: float | None = None,
        gptq_unpacked_column_size: int | None = None,
        quantization_config: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        arguments = locals()
        self.partial_output_shape = (
            (output_shape,) if isinstance(output_shape, int) else tuple(output_shape)
        )
        del arguments["output_shape"]
        keep(self, arguments)
        self.lora_alpha = lora_rank if lora_alpha is None else lora_alpha

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "output_shape": list(self.partial_output_shape)}

    def kernel_matrix_shape(self) -> tuple[int, int]:
        """How many inputs and outputs the kernel has, as a matrix."""
        return leading_matrix(self, EINSUM, self.kernel.shape)

    def build(self, input_shape: Any) -> None:
        kernel_shape, bias_shape = einsum_shapes(
            self.equation, self.bias_axes, input_shape, self.partial_output_shape
        )
        self._input_rank = len(input_shape)
        if self._quantization.builds_floats(self, kernel_shape):
            self.kernel = weight_of(self, "kernel", kernel_shape, initializer=self._initializer())
        self.bias = None
        if bias_shape is not None:
            self.bias = weight_of(self, "bias", bias_shape)
        quantization.start_lora(self)

    def _initializer(self) -> Any:
        """The kernel's, which counts the axes that are summed over as inputs, others as outputs."""
        initializer = self.kernel_initializer
        if not isinstance(initializer, VarianceScaling):
            return initializer
        factors, _, result = self.equation.replace(" ", "").partition("->")
        axes = list(enumerate(factors.partition(",")[2]))
        return initializer.for_axes(
            [i for i, name in axes if name not in result], [i for i, name in axes if name in result]
        )

    def compute_output_shape(self, *input_shapes: Any, **more: Any) -> Any:
        """The shape of the output; `None` where the layer's `output_shape` says so."""
        whole_shape = super().compute_output_shape(*input_shapes, **more)
        partial_shape = self.partial_output_shape
        batch = len(whole_shape) - len(partial_shape)
        return whole_shape[:batch] + tuple(
            None if size is None else n
            for size, n in zip(partial_shape, whole_shape[batch:], strict=True)
        )

    def call(self, inputs: Any, training: Any = None) -> Any:
        joined = joined_axes(self.equation, self.bias_axes)
        if joined:
            return self._as_matrices(inputs, joined)
        y = ops.einsum(self.equation, inputs, self.kernel.value())
        if self.bias is not None:
            y = ops.add(y, self.bias.value())
        return self.activation(y)

    def _as_matrices(self, inputs: Any, joined: int) -> Any:
        """One product of matrices, to which the bias is added in place."""
        free = list(inputs.shape[:-joined])
        if free.count(None) < 2:
            free = [-1 if n is None else n for n in free]
        else:
            free = list(ops.shape(inputs)[:-joined])
        size, units = self.kernel.shape[:joined], self.kernel.shape[joined:]
        if joined > 1:
            inputs = ops.reshape(inputs, (*free, math.prod(size)))
        kernel = ops.reshape(self.kernel, (math.prod(size), math.prod(units)))
        bias = None if self.bias is None else ops.reshape(self.bias, (-1,))
        if len(units) == 1:
            return dense(inputs, kernel, bias, self.activation)
        return self.activation(ops.reshape(ops.dense(inputs, kernel, bias), (*free, *units)))


@lru_cache(maxsize=1024)
def joined_axes(equation: str, bias_axes: str | None) -> int:
    """How many trailing axes of the input are summed with the kernel's first, as in `ops.dense`.

    It is 0 where the equation is another, or the bias does not vary along all that is new.
    """
    left, _, result = equation.replace(" ", "").partition("->")
    operand, _, kernel = left.partition(",")
    if "." in equation or any(len(set(s)) != len(s) for s in (operand, kernel, result)):
        return 0
    count = len(operand) - len([s for s in operand if s in result])
    units = kernel[count:]
    if not count or not units or kernel[:count] != operand[-count:]:
        return 0
    same = result == operand[:-count] + units and not set(units) & set(operand)
    return count if same and len(operand) > count and bias_axes in (None, "", units) else 0


def einsum_shapes(
    equation: str, bias_axes: str | None, input_shape: Any, output_shape: Any
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """The shapes of kernel and bias of an `EinsumDense`.

    Raises:
        ShapeError: the equation is not of the form `"ab,bc->ac"`, or sizes contradict each other.
    """
    left, arrow, result = equation.replace(" ", "").partition("->")
    operands = left.split(",")
    if not arrow or len(operands) != 2:
        raise ShapeError(
            f"EinsumDense: the equation must have the form 'ab,bc->ac', got {equation!r}"
        )
    letter_sizes = _letters(operands[0], input_shape, equation)
    output_sizes = _given_sizes(operands[0], result, input_shape, output_shape, equation)
    for letter, n in output_sizes.items():
        if n is not None and letter_sizes.get(letter) not in (None, n):
            raise ShapeError(
                f"EinsumDense: axis {letter!r} of {equation!r} has size {letter_sizes[letter]} in "
                f"the input and {n} in output_shape {tuple(output_shape)}"
            )
        letter_sizes[letter] = letter_sizes.get(letter) if n is None else n
    kernel = operands[1].replace("...", "")
    missing = [letter for letter in kernel if letter not in letter_sizes]
    if missing:
        raise ShapeError(
            f"EinsumDense: axis {missing[0]!r} of the kernel is in no other part of {equation!r}"
        )
    kernel_shape = tuple(letter_sizes[letter] for letter in kernel)
    covered = len(input_shape) - len(operands[0].replace("...", ""))
    return kernel_shape, _bias_shape(bias_axes, result, letter_sizes, equation, covered)


def _given_sizes(
    operand: str, result: str, input_shape: Any, output_shape: Any, equation: str
) -> dict[str, Any]:
    """The sizes of the output's letters that `output_shape`, which leaves the batch out, says.

    Where dots stand in front it leaves out all that they cover.
    """
    if result.startswith("..."):
        letters = result.removeprefix("...")
        spare = max(len(letters) - len(output_shape), 0)
        return dict(zip(letters[spare:], output_shape[-len(letters) :], strict=True))
    letters = result.removesuffix("...")
    full_shape = (input_shape[0], *output_shape)
    if len(full_shape) < len(letters):  # axes of the input after the batch were left out, too
        input_sizes = _letters(operand, input_shape, equation)
        spare = len(letters) - len(output_shape)
        full_shape = (*[input_sizes.get(letter) for letter in letters[:spare]], *output_shape)
    elif "." not in result and len(output_shape) == len(letters):  # the batch is named, too
        full_shape = tuple(output_shape)
    elif "." not in result and len(full_shape) != len(letters):
        raise ShapeError(
            f"EinsumDense: output_shape {tuple(output_shape)} names {len(output_shape)} axes after "
            f"the batch, the output of {equation!r} has {len(letters) - 1}"
        )
    return dict(zip(letters, full_shape, strict=False))


def _letters(letters: str, shape: Any, equation: str) -> dict[str, Any]:
    """The size of each letter's axis; what `...` covers is left out."""
    before, dots, after = letters.partition("...")
    count = len(before) + len(after)
    if len(shape) < count or (not dots and len(shape) != count):
        if not dots or len(shape) < len(after):
            raise ShapeError(
                f"EinsumDense: {letters!r} in {equation!r} names {count} axes, the shape "
                f"{tuple(shape)} has {len(shape)}"
            )
    sizes: dict[str, Any] = {}
    if not dots:
        return dict(zip(letters, shape, strict=True))
    sizes.update(zip(before, shape, strict=False))
    if after:
        sizes.update(zip(after, shape[-len(after) :], strict=True))
    return sizes


def _bias_shape(
    axes: str | None, result: str, letter_sizes: dict[str, Any], equation: str, covered: int
) -> Any:
    if not axes:
        return None
    letters = result.replace("...", "")
    for letter in axes:
        if letter not in letters:
            raise ShapeError(
                f"EinsumDense: bias axis {letter!r} is no axis of the output of {equation!r}"
            )
    first = min(letters.index(letter) for letter in axes)
    sizes = tuple(letter_sizes[letter] if letter in axes else 1 for letter in letters[first:])
    return sizes + (1,) * (covered if result.endswith("...") else 0)
