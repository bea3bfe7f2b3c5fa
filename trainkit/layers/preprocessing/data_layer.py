"""`DataLayer`: what layers share that prepare data, in a model or in a data set's `map`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trainkit import ops
from trainkit.core import dtypes, nest
from trainkit.core.dispatch import trace_state
from trainkit.core.tensor import is_tensor
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
    that draws numbers has `seed` and `generator`. In functions of data sets, in graphs and in steps
    of models numbers are cast to the compute dtype before the call, as in Keras on TensorFlow.

    Args:
        **kwargs: those of `Layer`.
    """

    _allow_non_tensor_positional_args = True
    backend: Any = _Backend()

    if not TYPE_CHECKING:  # the types of Layer's hold

        def __call__(self, *args, **kwargs):
            if args and trace_state.is_graph_or_acts_for_one():
                args = (nest.map_structure(self._as_computed, args[0]), *args[1:])
            return super().__call__(*args, **kwargs)

    def _as_computed(self, x: Any) -> Any:
        """An array or tensor of numbers in the compute dtype, all else as it is."""
        if not (is_tensor(x) or isinstance(x, np.ndarray)):
            return x
        dtype = dtypes.as_dtype(x.dtype)
        is_number = dtype.is_floating or dtype.is_integer or dtype.is_bool
        return ops.cast(x, self.compute_dtype) if is_number else x

    def _get_seed_generator(self, backend: Any = None) -> generators.Generator:
        """The generator that a class with `seed` and `generator` draws from."""
        generator: generators.Generator | None = getattr(self, "generator", None)
        if generator is None or not hasattr(self, "seed"):
            raise ValueError(
                f"{type(self).__name__} draws numbers: set self.seed and self.generator in __init__"
            )
        return generator
