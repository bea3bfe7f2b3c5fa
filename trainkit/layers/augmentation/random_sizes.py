"""Layers that change the height or the width of a batch by chance: RandomHeight, RandomWidth."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.values.type_aliases import Seed
from trainkit.layers.preprocessing.augmenting import Augmenting
from trainkit.ops.sampling import generators, random


class RandomSize(Augmenting):
    """What both share: one new size, drawn for the whole batch."""

    _axis: int

    def __init__(
        self, factor: Any, interpolation: str = "bilinear", seed: Seed | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        pair = factor if isinstance(factor, list | tuple) else (-factor, factor)
        if len(pair) != 2 or not -1.0 < pair[0] <= pair[1]:
            raise InvalidArgumentError(
                f"{type(self).__name__}: factor must be a number in [0, 1), or two numbers above "
                f"-1, the lesser one first; got {factor!r}"
            )
        self.factor = factor
        self.interpolation = interpolation
        self.seed = seed
        self.seed_generator = generators.SeedGenerator(seed)
        self._low, self._high = 1.0 + pair[0], 1.0 + pair[1]

    def call(self, inputs: Any, training: Any = True) -> Any:
        inputs = ops.convert_to_tensor(inputs)
        if not training:
            return inputs
        shape = ops.shape(inputs)
        sizes = [shape[-3], shape[-2]]
        axis = self._axis + 3
        drawn = random.uniform((), self._low, self._high, "float32", self.seed_generator)
        size = ops.cast(drawn * ops.cast(sizes[axis], "float32"), "int32")
        sizes[axis] = ops.maximum(size, 1)
        resized = ops.image.resize(inputs, sizes, self.interpolation, data_format="channels_last")
        return ops.cast(resized, inputs.dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        shape = list(input_shape)
        shape[self._axis] = None
        return tuple(shape)


class RandomHeight(RandomSize):
    """While training, images of another height, one for the whole batch.

    Shapes: input (batch, height, width, channels) or one image, output the same with a height that
    differs from call to call.

    Args:
        factor: f for a height between 1 - f and 1 + f times the old one, or two numbers (low, high)
            for 1 + low and 1 + high.
        interpolation: `"bilinear"`, `"nearest"`, `"bicubic"`, `"lanczos3"` or `"lanczos5"`.

    Raises:
        InvalidArgumentError: `factor` is neither.

    Example:
        >>> images = tk.ones((2, 10, 4, 3))
        >>> tk.layers.RandomHeight((0.5, 0.5))(images, training=True).shape
        TensorShape([2, 15, 4, 3])
    """

    _axis = -3


class RandomWidth(RandomSize):
    """While training, images of another width, one for the whole batch.

    Shapes: input (batch, height, width, channels) or one image, output the same with a width that
    differs from call to call.

    Args:
        factor: f for a width between 1 - f and 1 + f times the old one, or two numbers (low, high)
            for 1 + low and 1 + high.
        interpolation: `"bilinear"`, `"nearest"`, `"bicubic"`, `"lanczos3"` or `"lanczos5"`.

    Raises:
        InvalidArgumentError: `factor` is neither.

    Example:
        >>> images = tk.ones((2, 4, 10, 3))
        >>> tk.layers.RandomWidth((-0.5, -0.5))(images, training=True).shape
        TensorShape([2, 4, 5, 3])
    """

    _axis = -2
