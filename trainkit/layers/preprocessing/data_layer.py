"""`DataLayer`: what layers share that prepare data, in a model or in a data set's `map`."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.layers.base.layer import Layer
from trainkit.ops.sampling import generators, keras_random


class _Backend:
    """The operations under `keras.ops`' names, with `numpy`, `nn`, `image`, `random` … in them."""

    name = "trainkit"
    _backend = "trainkit"
    core = math = ops
    numpy, nn, image, linalg = ops.numpy, ops.nn, ops.image, ops.linalg
    random = keras_random

    def __getattr__(self, name: str) -> Any:
        return getattr(ops, name)


class DataLayer(Layer):
    """A layer that prepares data.

    Operations are found under `self.backend`, as Keras's layers of this kind have them, and a layer
    that draws numbers has `seed` and `generator`.

    Args:
        **kwargs: those of `Layer`.
    """

    _allow_non_tensor_positional_args = True
    backend: Any = _Backend()

    def _get_seed_generator(self, backend: Any = None) -> generators.Generator:
        """The generator that a class with `seed` and `generator` draws from."""
        generator: generators.Generator | None = getattr(self, "generator", None)
        if generator is None or not hasattr(self, "seed"):
            raise ValueError(
                f"{type(self).__name__} draws numbers: set self.seed and self.generator in __init__"
            )
        return generator
