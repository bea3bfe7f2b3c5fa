"""Layers that join several inputs into one output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.masks import mask_of
from trainkit.layers.base.call_spec import FRAME
from trainkit.layers.base.layer import Layer

if TYPE_CHECKING:
    from trainkit.core.tensor import Tensor


class _Merge(Layer):
    """What these layers share: a list of at least `min_inputs` inputs, masks joined by "or"."""

    min_inputs = 1
    max_inputs: int | None = None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        if not isinstance(inputs, list | tuple):
            raise InvalidArgumentError(
                f"{type(self).__name__} {self.name!r} takes a list of tensors, got one tensor"
            )
        if not self.min_inputs <= len(inputs) <= (self.max_inputs or len(inputs)):
            count = f"{self.min_inputs}" if self.max_inputs else f"at least {self.min_inputs}"
            raise InvalidArgumentError(
                f"{type(self).__name__} {self.name!r} takes a list of {count} tensors, got "
                f"{len(inputs)}"
            )
        self._check_shapes(inputs)
        return self._merge(_same_rank(list(inputs)))

    def _check_shapes(self, inputs: Any) -> None:
        """Refuse batches of different sizes, which would broadcast from 1.

        Inside a model such a 1 is let pass, as in TensorFlow, which traces `fit` for any batch.
        """
        batches = {x.shape[0] for x in inputs if len(x.shape)} - {None}
        if FRAME.entry is not None and FRAME.entry is not self:
            batches.discard(1)
        if len(batches) > 1:
            raise ShapeError(
                f"{type(self).__name__} {self.name!r}: the inputs have batches of different sizes, "
                f"their shapes are {[tuple(x.shape) for x in inputs]}"
            )

    def _merge(self, inputs: list[Any]) -> Any:
        """The output of tensors of one rank."""
        result = inputs[0]
        for x in inputs[1:]:
            result = self._pair(result, x)
        return result

    def _pair(self, a: Any, b: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no method _pair(self, a, b)")

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """True where any of the masks is; `None` unless all inputs have one.

        Raises:
            InvalidArgumentError: inputs or masks are no lists, or not of one length.
        """
        if mask is None:
            return None
        joined = None
        for each in self._checked_masks(inputs, mask):
            if each is None:
                return None
            joined = each if joined is None else ops.logical_or(joined, each)
        return joined

    def _checked_masks(self, inputs: Any, mask: Any) -> Any:
        for name, value in (("mask", mask), ("inputs", inputs)):
            if not isinstance(value, list | tuple):
                raise InvalidArgumentError(
                    f"{type(self).__name__} {self.name!r}: {name} must be a list, got {value!r}"
                )
        if len(mask) != len(inputs):
            raise InvalidArgumentError(
                f"{type(self).__name__} {self.name!r}: there are {len(inputs)} inputs and "
                f"{len(mask)} masks"
            )
        return mask


def _spread(x: Any) -> Any:
    """The mask of `x` spread over its values, or `None`."""
    mask = mask_of(x)
    return None if mask is None else ops.broadcast_to(ops.expand_dims(mask, -1), ops.shape(x))


class _Extreme(_Merge):
    """The greatest or the least: a masked value counts only where all are masked."""

    def _merge(self, inputs: list[Any]) -> Any:
        result, merged_mask = inputs[0], _spread(inputs[0])
        for x in inputs[1:]:
            mask = _spread(x)
            if mask is not None:
                x = ops.where(mask, x, result)
            if merged_mask is not None:
                result = ops.where(merged_mask, result, x)
            merged_mask = (
                None if mask is None or merged_mask is None else ops.logical_or(merged_mask, mask)
            )
            result = self._pair(result, x)
        return result


def _same_rank(inputs: list[Any]) -> list[Any]:
    """Inputs of fewer axes with axes of size 1 after the batch, so that all have as many."""
    rank = max(len(x.shape) for x in inputs)
    raised = []
    for x in inputs:
        for _ in range(rank - len(x.shape)):
            x = ops.expand_dims(x, 1)
        raised.append(x)
    return raised


class Add(_Merge):
    """The sum of the inputs, which broadcast.

    Example:
        >>> tk.layers.Add()([tk.constant([1.0]), tk.constant([2.0])]).numpy()
        array([3.], dtype=float32)
    """

    def _pair(self, a: Any, b: Any) -> Any:
        return ops.add(a, b)


class Subtract(_Merge):
    """The first of two inputs less the second.

    Example:
        >>> tk.layers.Subtract()([tk.constant([5.0]), tk.constant([2.0])]).numpy()
        array([3.], dtype=float32)
    """

    min_inputs = 2
    max_inputs = 2

    def _pair(self, a: Any, b: Any) -> Any:
        return ops.subtract(a, b)


class Multiply(_Merge):
    """The product of the inputs, which broadcast; masked values count as 1.

    Where all inputs have masks, the product is 0 where all of them are masked.

    Example:
        >>> tk.layers.Multiply()([tk.constant([2.0]), tk.constant([3.0])]).numpy()
        array([6.], dtype=float32)
    """

    def _merge(self, inputs: list[Any]) -> Any:
        masks = [_spread(x) for x in inputs]
        if all(mask is None for mask in masks):
            return super()._merge(inputs)
        pairs = zip(inputs, masks, strict=True)
        y = super()._merge(
            [x if m is None else ops.where(m, x, ops.ones_like(x)) for x, m in pairs]
        )
        if any(mask is None for mask in masks):
            return y
        merged_mask = masks[0]
        for mask in masks[1:]:
            merged_mask = ops.logical_or(merged_mask, mask)
        return ops.where(merged_mask, y, ops.zeros_like(y))

    def _pair(self, a: Any, b: Any) -> Any:
        return ops.multiply(a, b)


class Average(_Merge):
    """The mean of the inputs, which broadcast.

    Example:
        >>> tk.layers.Average()([tk.constant([1.0]), tk.constant([2.0])]).numpy()
        array([1.5], dtype=float32)
    """

    def _pair(self, a: Any, b: Any) -> Any:
        return ops.add(a, b)

    def _merge(self, inputs: list[Any]) -> Any:
        return ops.divide(super()._merge(inputs), len(inputs))


class Maximum(_Extreme):
    """The greatest of the inputs, element by element; masked values do not count.

    Example:
        >>> tk.layers.Maximum()([tk.constant([1.0, 5.0]), tk.constant([2.0, 3.0])]).numpy()
        array([2., 5.], dtype=float32)
    """

    def _pair(self, a: Any, b: Any) -> Any:
        return ops.maximum(a, b)


class Minimum(_Extreme):
    """The least of the inputs, element by element; masked values do not count.

    Example:
        >>> tk.layers.Minimum()([tk.constant([1.0, 5.0]), tk.constant([2.0, 3.0])]).numpy()
        array([1., 3.], dtype=float32)
    """

    def _pair(self, a: Any, b: Any) -> Any:
        return ops.minimum(a, b)


class Concatenate(_Merge):
    """The inputs one after the other.

    Args:
        axis: along which; 0 would be the batch.

    Raises:
        ShapeError: other axes differ.

    Example:
        >>> tk.layers.Concatenate()([tk.ones((2, 3)), tk.zeros((2, 1))]).numpy()
        array([[1., 1., 1., 0.],
               [1., 1., 1., 0.]], dtype=float32)
    """

    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = axis

    def _check_shapes(self, inputs: Any) -> None:
        """`ops.concatenate` does so."""

    def _merge(self, inputs: list[Any]) -> Any:
        return ops.concatenate(inputs, axis=self.axis)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        if mask is None or all(each is None for each in self._checked_masks(inputs, mask)):
            return None
        full_masks = []
        for x, each in zip(inputs, mask, strict=True):
            if each is None:
                full_masks.append(ops.ones_like(x, dtype="bool"))
            elif len(each.shape) < len(x.shape):
                spread = ops.expand_dims(each, -1)
                full_masks.append(ops.logical_or(spread, ops.zeros_like(x, dtype="bool")))
            else:
                full_masks.append(each)
        return ops.any(ops.concatenate(full_masks, axis=self.axis), axis=-1)


class Dot(_Merge):
    """Dot products of samples of two inputs along an axis of each.

    Args:
        axes: the axis of both, or a pair of them; 0 would be the batch.
        normalize: whether vectors along these axes are first scaled to length 1 (cosine).

    Raises:
        InvalidArgumentError: axes is neither an int nor a pair.
        ShapeError: the sizes along the axes differ.

    Example:
        >>> tk.layers.Dot(axes=1)([tk.constant([[1.0, 2.0]]), tk.constant([[3.0, 4.0]])]).numpy()
        array([[11.]], dtype=float32)
    """

    min_inputs = max_inputs = 2

    def __init__(self, axes: Any, normalize: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        pair = (axes, axes) if isinstance(axes, int) else tuple(axes)
        if len(pair) != 2 or not all(isinstance(axis, int) for axis in pair):
            raise InvalidArgumentError(f"Dot: axes must be an int or two of them, got {axes!r}")
        self.axes = axes if isinstance(axes, int) else pair
        self.normalize = normalize

    def call(self, inputs: Any) -> Any:
        if not isinstance(inputs, list | tuple) or len(inputs) != 2:
            raise InvalidArgumentError(f"Dot {self.name!r} takes a list of 2 tensors")
        return batch_dot(inputs[0], inputs[1], self.axes, self.normalize)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return None


def batch_dot(a: Any, b: Any, axes: Any, normalize: bool = False) -> Any:
    """Products of the samples of `a` and `b`, summed along an axis of each.

    Returns:
        (batch, other axes of a..., other axes of b...), at least (batch, 1).

    Raises:
        ShapeError: the sizes along the axes differ.
    """
    pair = (axes, axes) if isinstance(axes, int) else tuple(axes)
    first, second = pair[0] % len(a.shape), pair[1] % len(b.shape)
    if a.shape[first] != b.shape[second]:
        raise ShapeError(
            f"dot: axis {first} of {tuple(a.shape)} and axis {second} of {tuple(b.shape)} have "
            "different sizes"
        )
    if normalize:
        a, b = _unit(a, first), _unit(b, second)
    letters = "bcdefghijklm"
    mine = ["a", *letters[: len(a.shape) - 1]]
    theirs = ["a", *letters[len(a.shape) - 1 : len(a.shape) + len(b.shape) - 2]]
    mine[first] = theirs[second] = "z"
    free_letters = "".join([x for x in mine[1:] if x != "z"] + [x for x in theirs[1:] if x != "z"])
    y = ops.einsum(f"{''.join(mine)},{''.join(theirs)}->a{free_letters}", a, b)
    return ops.expand_dims(y, 1) if not free_letters else y


def _unit(x: Any, axis: int) -> Any:
    squared = ops.sum(ops.square(x), axis=axis, keepdims=True)
    return ops.multiply(x, ops.rsqrt(ops.maximum(squared, 1e-12)))


def add(inputs: Any, **kwargs: Any) -> Tensor:
    """`Add` called at once.

    Args:
        inputs: tensors; their shapes must fit, as for the class.
        **kwargs: those of the class.

    Example:
        >>> tk.layers.add([tk.constant([1.0]), tk.constant([2.0])]).numpy()
        array([3.], dtype=float32)
    """
    return Add(**kwargs)(inputs)


def subtract(inputs: Any, **kwargs: Any) -> Tensor:
    """`Subtract` called at once.

    Args:
        inputs: tensors; their shapes must fit, as for the class.
        **kwargs: those of the class.

    Example:
        >>> tk.layers.subtract([tk.constant([5.0]), tk.constant([2.0])]).numpy()
        array([3.], dtype=float32)
    """
    return Subtract(**kwargs)(inputs)


def multiply(inputs: Any, **kwargs: Any) -> Tensor:
    """`Multiply` called at once.

    Args:
        inputs: tensors; their shapes must fit, as for the class.
        **kwargs: those of the class.

    Example:
        >>> tk.layers.multiply([tk.constant([2.0]), tk.constant([3.0])]).numpy()
        array([6.], dtype=float32)
    """
    return Multiply(**kwargs)(inputs)


def average(inputs: Any, **kwargs: Any) -> Tensor:
    """`Average` called at once.

    Args:
        inputs: tensors; their shapes must fit, as for the class.
        **kwargs: those of the class.

    Example:
        >>> tk.layers.average([tk.constant([1.0]), tk.constant([2.0])]).numpy()
        array([1.5], dtype=float32)
    """
    return Average(**kwargs)(inputs)


def maximum(inputs: Any, **kwargs: Any) -> Tensor:
    """`Maximum` called at once.

    Args:
        inputs: tensors; their shapes must fit, as for the class.
        **kwargs: those of the class.

    Example:
        >>> tk.layers.maximum([tk.constant([1.0, 5.0]), tk.constant([2.0, 3.0])]).numpy()
        array([2., 5.], dtype=float32)
    """
    return Maximum(**kwargs)(inputs)


def minimum(inputs: Any, **kwargs: Any) -> Tensor:
    """`Minimum` called at once.

    Args:
        inputs: tensors; their shapes must fit, as for the class.
        **kwargs: those of the class.

    Example:
        >>> tk.layers.minimum([tk.constant([1.0, 5.0]), tk.constant([2.0, 3.0])]).numpy()
        array([1., 3.], dtype=float32)
    """
    return Minimum(**kwargs)(inputs)


def concatenate(inputs: Any, axis: int = -1, **kwargs: Any) -> Tensor:
    """`Concatenate` called at once.

    Args:
        inputs: tensors; their shapes must fit, as for the class.
        axis: where they are joined.
        **kwargs: those of the class.

    Example:
        >>> tk.layers.concatenate([tk.ones((2, 3)), tk.zeros((2, 1))]).shape
        TensorShape([2, 4])
    """
    return Concatenate(axis=axis, **kwargs)(inputs)


def dot(inputs: Any, axes: Any = -1, **kwargs: Any) -> Tensor:
    """`Dot` called at once.

    Args:
        inputs: tensors; their shapes must fit, as for the class.
        axes: axis, or a pair of axes, to sum over.
        **kwargs: those of the class.

    Example:
        >>> tk.layers.dot([tk.constant([[1.0, 2.0]]), tk.constant([[3.0, 4.0]])], axes=1).numpy()
        array([[11.]], dtype=float32)
    """
    return Dot(axes=axes, **kwargs)(inputs)
