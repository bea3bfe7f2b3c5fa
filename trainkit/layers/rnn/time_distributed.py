"""`Wrapper` and `TimeDistributed`: layers around another layer."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.layers.base.layer import Layer


class Wrapper(Layer):
    """Base of layers that hold one other layer.

    Args:
        layer: the layer inside.

    Raises:
        InvalidArgumentError: it is no layer.

    Example:
        >>> class Twice(tk.layers.Wrapper):
        ...     def call(self, x):
        ...         return self.layer(self.layer(x))
        >>> Twice(tk.layers.Rescaling(3.0))(tk.constant([1.0])).numpy()
        array([9.], dtype=float32)
    """

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        if not isinstance(layer, Layer):
            raise InvalidArgumentError(
                f"{type(self).__name__}: layer must be a Layer, got {layer!r}"
            )
        super().__init__(**kwargs)
        self.layer = layer

    def build(self, input_shape: Any = None) -> None:
        if not self.layer.built:
            self.layer.build(input_shape)


class TimeDistributed(Wrapper):
    """A layer applied to each step by itself.

    Shapes: input (batch, steps, ...), output (batch, steps, output of the layer...); a mask (batch,
    steps) goes to the layer step by step.

    Args:
        layer: the layer inside; it sees (batch * steps, ...).

    Example:
        >>> tk.layers.TimeDistributed(tk.layers.Dense(4))(tk.ones((2, 5, 3))).shape
        TensorShape([2, 5, 4])
    """

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        super().__init__(layer, **kwargs)
        self.supports_masking = True

    def build(self, input_shape: Any = None) -> None:
        if len(input_shape) < 3:
            raise ShapeError(
                f"TimeDistributed {self.name!r}: the input must be (batch, steps, ...), got shape "
                f"{tuple(input_shape)}"
            )
        super().build((input_shape[0], *input_shape[2:]))

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        if mask is not None:
            self._check_mask(mask, inputs)
        more: dict[str, Any] = {}
        if self.layer._facts.takes_training:
            more["training"] = training
        takes_mask = mask is not None and "mask" in self.layer._facts.mask_names
        if training and self.layer.non_trainable_weights and inputs.shape[1] is not None:
            return self._step_by_step(inputs, mask if takes_mask else None, more)
        dims = ops.shape(inputs)
        if takes_mask:
            more["mask"] = ops.reshape(mask, (-1, *ops.shape(mask)[2:]))
        y = self.layer(ops.reshape(inputs, (-1, *dims[2:])), **more)
        return ops.reshape(y, (dims[0], _rest(dims, inputs), *y.shape[1:]))

    def _step_by_step(self, inputs: Any, mask: Any, more: dict[str, Any]) -> Any:
        """The steps one by one: a layer with statistics of its batches sees each step as one."""
        masks = [None] * inputs.shape[1] if mask is None else ops.unstack(mask, axis=1)
        outputs = []
        for x, step_mask in zip(ops.unstack(inputs, axis=1), masks, strict=True):
            outputs.append(
                self.layer(x, **more, **({} if step_mask is None else {"mask": step_mask}))
            )
        return ops.stack(outputs, axis=1)

    def _check_mask(self, mask: Any, inputs: Any) -> None:
        """Refuse a mask of other steps.

        Raises:
            ShapeError: its first two sizes are not those of the inputs.
        """
        pairs = list(zip(mask.shape[:2], inputs.shape[:2], strict=False))
        if len(pairs) < 2 or any(None not in pair and pair[0] != pair[1] for pair in pairs):
            raise ShapeError(
                f"TimeDistributed {self.name!r}: batch and steps of the mask must be those of the "
                f"input.\n  mask   {tuple(mask.shape)}\n  input  {tuple(inputs.shape)}"
            )


def _rest(dims: Any, inputs: Any) -> Any:
    """The number of steps; -1 where another size is not known."""
    return dims[1] if inputs.shape[1] is not None or inputs.shape[0] is None else -1
