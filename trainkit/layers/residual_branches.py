"""What networks of `applications` do to a residual branch before it is added to its shortcut.

The classes are called as in Keras, so that files of these networks are read in both libraries.
"""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.initializers import Constant
from trainkit.layers.base.arguments import share
from trainkit.layers.base.layer import Layer
from trainkit.ops.sampling import generators, random


class StochasticDepth(Layer):
    """While training, whole examples are 0 by chance, and the rest are scaled to keep the mean.

    Source: Huang et al. 2016, arXiv:1603.09382.
    Shapes: input and output (batch, ...).

    Args:
        drop_path_rate: share of the examples that become 0, in [0, 1].

    Raises:
        InvalidArgumentError: the rate is outside its range.
    """

    _config_identity = (
        "keras.src.applications.convnext", "StochasticDepth", "StochasticDepth",
    )  # fmt: skip

    def __init__(self, drop_path_rate: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.drop_path_rate = share(self, "drop_path_rate", drop_path_rate)
        if self.drop_path_rate:
            self.seed_generator = generators.SeedGenerator(None)

    def call(self, inputs: Any, training: Any = False) -> Any:
        if not training or not self.drop_path_rate:
            return inputs
        each = (None, *(1,) * (len(inputs.shape) - 1))
        return random.dropout(inputs, self.drop_path_rate, each, self.seed_generator)


class LayerScale(Layer):
    """The input times a number of its own for each feature, which starts small.

    Source: Touvron et al. 2021, arXiv:2103.17239.
    Shapes: input and output (..., projection_dim).

    Args:
        init_values: what the numbers are at the start.
        projection_dim: how many features there are.
    """

    _config_identity = ("keras.src.applications.convnext", "LayerScale", "LayerScale")

    def __init__(self, init_values: float, projection_dim: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.init_values = init_values
        self.projection_dim = projection_dim

    def build(self, input_shape: Any) -> None:
        self.gamma = self.add_weight(
            shape=(self.projection_dim,), initializer=Constant(self.init_values)
        )

    def call(self, inputs: Any) -> Any:
        return ops.multiply(inputs, self.gamma)


class CustomScaleLayer(Layer):
    """shortcut + scale * branch, of a list of these two.

    Shapes: both inputs and the output (batch, ...).

    Args:
        scale: factor of the branch.

    Raises:
        InvalidArgumentError: it is called on something else than two tensors.
    """

    _config_identity = (
        "keras.src.applications.inception_resnet_v2", "CustomScaleLayer", "CustomScaleLayer",
    )  # fmt: skip

    def __init__(self, scale: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scale = scale

    def call(self, inputs: Any) -> Any:
        if not isinstance(inputs, list | tuple) or len(inputs) != 2:
            raise InvalidArgumentError(
                f"CustomScaleLayer {self.name!r} takes a list of the shortcut and the branch, got "
                f"{type(inputs).__name__}"
            )
        shortcut, branch = inputs
        return ops.add(shortcut, ops.multiply(branch, self.scale))
