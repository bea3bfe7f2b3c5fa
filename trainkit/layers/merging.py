"""Layers that join several inputs into one output."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core import nest
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.layers.layer import Layer


class _Merge(Layer):
    """What these layers share: a list of at least `least` inputs, masks joined by "and"."""

    least = 2
    most: int | None = None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        if not isinstance(inputs, list | tuple):
            raise InvalidArgumentError(
                f"{type(self).__name__} {self.name!r} takes a list of tensors, got one tensor"
            )
        if len(inputs) < self.least or (self.most is not None and len(inputs) > self.most):
            wanted = f"{self.least}" if self.most else f"at least {self.least}"
            raise InvalidArgumentError(
                f"{type(self).__name__} {self.name!r} takes a list of {wanted} tensors, got "
                f"{len(inputs)}"
            )
        return self._merged(_same_rank(list(inputs)))

    def _merged(self, inputs: list[Any]) -> Any:
        """The output of tensors of one rank."""
        result = inputs[0]
        for x in inputs[1:]:
            result = self._pair(result, x)
        return result

    def _pair(self, a: Any, b: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no method _pair(self, a, b)")

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        masks = [m for m in nest.flatten(previous_mask) if m is not None]
        if not masks or len(masks) < len(inputs):
            return None
        joined = masks[0]
        for mask in masks[1:]:
            joined = ops.logical_and(joined, mask)
        return joined


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
    """The sum of the inputs, which broadcast."""

    def _pair(self, a: Any, b: Any) -> Any:
        return ops.add(a, b)


class Subtract(_Merge):
    """The first of two inputs less the second."""

    most = 2

    def _pair(self, a: Any, b: Any) -> Any:
        return ops.subtract(a, b)


class Multiply(_Merge):
    """The product of the inputs, which broadcast."""

    def _pair(self, a: Any, b: Any) -> Any:
        return ops.multiply(a, b)


class Average(_Merge):
    """The mean of the inputs, which broadcast."""

    def _pair(self, a: Any, b: Any) -> Any:
        return ops.add(a, b)

    def _merged(self, inputs: list[Any]) -> Any:
        return ops.divide(super()._merged(inputs), len(inputs))


class Maximum(_Merge):
    """The greatest of the inputs, element by element."""

    def _pair(self, a: Any, b: Any) -> Any:
        return ops.maximum(a, b)


class Minimum(_Merge):
    """The least of the inputs, element by element."""

    def _pair(self, a: Any, b: Any) -> Any:
        return ops.minimum(a, b)


class Concatenate(_Merge):
    """The inputs one after the other.

    Args:
        axis: along which; 0 would be the batch.

    Raises:
        ShapeError: other axes differ.
    """

    least = 1

    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = axis

    def _merged(self, inputs: list[Any]) -> Any:
        return ops.concatenate(inputs, axis=self.axis)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        masks = previous_mask if isinstance(previous_mask, list | tuple) else [previous_mask]
        if all(mask is None for mask in masks):
            return None
        whole = []
        for x, mask in zip(inputs, masks, strict=True):
            if mask is None:
                whole.append(ops.cast(ops.ones_like(x), "bool"))
            elif len(mask.shape) < len(x.shape):
                spread = ops.cast(ops.expand_dims(mask, -1), x.dtype)
                whole.append(ops.cast(ops.multiply(ops.ones_like(x), spread), "bool"))
            else:
                whole.append(mask)
        return ops.all(ops.concatenate(whole, axis=self.axis), axis=-1)


class Dot(_Merge):
    """Dot products of samples of two inputs along an axis of each.

    Args:
        axes: the axis of both, or a pair of them; 0 would be the batch.
        normalize: whether vectors along these axes are first scaled to length 1 (cosine).

    Raises:
        InvalidArgumentError: axes is neither an int nor a pair.
        ShapeError: the sizes along the axes differ.
    """

    most = 2

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

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
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
    rest = "".join([x for x in mine[1:] if x != "z"] + [x for x in theirs[1:] if x != "z"])
    y = ops.einsum(f"{''.join(mine)},{''.join(theirs)}->a{rest}", a, b)
    return ops.expand_dims(y, 1) if not rest else y


def _unit(x: Any, axis: int) -> Any:
    squared = ops.sum(ops.square(x), axis=axis, keepdims=True)
    return ops.multiply(x, ops.rsqrt(ops.maximum(squared, 1e-12)))


def add(inputs: Any, **kwargs: Any) -> Any:
    """`Add` called at once."""
    return Add(**kwargs)(inputs)


def subtract(inputs: Any, **kwargs: Any) -> Any:
    """`Subtract` called at once."""
    return Subtract(**kwargs)(inputs)


def multiply(inputs: Any, **kwargs: Any) -> Any:
    """`Multiply` called at once."""
    return Multiply(**kwargs)(inputs)


def average(inputs: Any, **kwargs: Any) -> Any:
    """`Average` called at once."""
    return Average(**kwargs)(inputs)


def maximum(inputs: Any, **kwargs: Any) -> Any:
    """`Maximum` called at once."""
    return Maximum(**kwargs)(inputs)


def minimum(inputs: Any, **kwargs: Any) -> Any:
    """`Minimum` called at once."""
    return Minimum(**kwargs)(inputs)


def concatenate(inputs: Any, axis: int = -1, **kwargs: Any) -> Any:
    """`Concatenate` called at once."""
    return Concatenate(axis=axis, **kwargs)(inputs)


def dot(inputs: Any, axes: Any = -1, **kwargs: Any) -> Any:
    """`Dot` called at once."""
    return Dot(axes=axes, **kwargs)(inputs)
