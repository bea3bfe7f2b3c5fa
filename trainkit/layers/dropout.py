"""Layers that add noise while training: dropout of several kinds, Gaussian noise."""

from __future__ import annotations

import math
from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.values.docstrings import longer_docstring
from trainkit.core.values.type_aliases import Seed
from trainkit.layers.base.arguments import format_of, share, whole
from trainkit.layers.base.config import without_trainable
from trainkit.layers.base.input_spec import InputSpec
from trainkit.layers.base.layer import Layer
from trainkit.ops.sampling import generators, random
from trainkit.ops.sampling.batch_rows import along_batch, at_once
from trainkit.ops.sampling.draw_devices import beside


class _Noise(Layer):
    """What these layers share: a generator of their own, seeded when they are made.

    A checkpoint keeps its position. Without noise, at a rate of 0, there is none.
    """

    seed_generator: Any

    _without_state = True

    def __init__(self, seed: Seed | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seed = seed
        self.supports_masking = True

    def _draw_if(self, noisy: float) -> None:
        if noisy:
            self.seed_generator = generators.SeedGenerator(self.seed)


def _checked_shape(layer: Layer, noise_shape: Any) -> tuple[int | None, ...] | None:
    """`noise_shape` as a tuple of sizes of 1 or more and `None`s.

    Raises:
        InvalidArgumentError: it is neither that nor `None`.
    """
    if noise_shape is None:
        return None
    if not isinstance(noise_shape, list | tuple):
        raise InvalidArgumentError(
            f"{type(layer).__name__}: noise_shape must be a tuple of sizes, got {noise_shape!r}"
        )
    return tuple(n if n is None else whole(layer, "noise_shape", n) for n in noise_shape)


class Dropout(_Noise):
    """While training, a random share `rate` of the input is 0, the rest scaled by 1 / (1 - rate).

    Source: Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from
    overfitting".
    Shapes: input and output (batch, ...).

    Args:
        rate: in [0, 1]; it counts to the nearest multiple of 2**-16.
        noise_shape: shape of the mask, `None` for the input's size and 1 where it is to be shared.

    Raises:
        InvalidArgumentError: the rate is outside its range.

    Example:
        >>> layer = tk.layers.Dropout(0.5, seed=1)
        >>> layer(tk.ones((1, 4))).numpy()
        array([[1., 1., 1., 1.]], dtype=float32)
        >>> sorted(set(layer(tk.ones((10, 10)), training=True).numpy().ravel().tolist()))
        [0.0, 2.0]
    """

    def __init__(
        self, rate: float, noise_shape: Any = None, seed: Seed | None = None, **kwargs: Any
    ) -> None:
        super().__init__(seed=seed, **kwargs)
        self.rate = share(self, "rate", rate)
        self._draw_if(self.rate)
        self.noise_shape = _checked_shape(self, noise_shape)

    def call(self, inputs: Any, training: Any = False) -> Any:
        if not training or not self.rate:
            return inputs
        return random.dropout(inputs, self.rate, self._mask_shape(inputs), self.seed_generator)

    def _mask_shape(self, inputs: Any) -> Any:
        return self.noise_shape


class _SpatialDropout(Dropout):
    """While training, a random share of the channels is 0, the rest scaled by 1 / (1 - rate).

    Source: Tompson et al. 2014, arXiv:1411.4280.
    Shapes: input and output (batch, spatial..., channels). With `data_format="channels_first"` the
    channels stand before the spatial axes.

    Args:
        rate: in [0, 1].
        data_format: `"channels_last"` (the default) or `"channels_first"`.
        seed: int, by default derived from `set_seed`.

    Raises:
        InvalidArgumentError: the rate is outside its range.
    """

    rank: int

    def __init__(
        self, rate: float, data_format: str | None = None, seed: Seed | None = None, **kwargs: Any
    ) -> None:
        super().__init__(rate, seed=seed, **kwargs)
        self.data_format = format_of(self, data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["noise_shape"]
        return without_trainable(config)

    def _mask_shape(self, inputs: Any) -> Any:
        ones = (1,) * self.rank
        return (None, *ones, None) if self.data_format == "channels_last" else (None, None, *ones)


class SpatialDropout1D(_SpatialDropout):
    """While training, a random share of the channels is 0, the rest scaled by 1 / (1 - rate).

    Source: Tompson et al. 2014, arXiv:1411.4280.
    Shapes: input and output (batch, steps, channels).

    Args:
        rate: in [0, 1].

    Raises:
        InvalidArgumentError: the rate is outside its range.

    Example:
        >>> layer = tk.layers.SpatialDropout1D(0.5, seed=1)
        >>> layer(tk.ones((2, 4, 3)), training=True).shape
        TensorShape([2, 4, 3])
    """

    rank = 1

    def __init__(self, rate: float, seed: Seed | None = None, **kwargs: Any) -> None:
        super().__init__(rate, seed=seed, **kwargs)

    def get_config(self) -> dict[str, Any]:
        config = {**super().get_config(), "rate": self.rate, "seed": self.seed}
        if config.get("data_format") == "channels_last":  # the only one that Keras knows here
            del config["data_format"]
        return config


class SpatialDropout2D(_SpatialDropout):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_SpatialDropout)("""
        Example:
            >>> layer = tk.layers.SpatialDropout2D(0.5, seed=1)
            >>> layer(tk.ones((2, 4, 4, 3)), training=True).shape
            TensorShape([2, 4, 4, 3])
    """)
    rank = 2


class SpatialDropout3D(_SpatialDropout):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_SpatialDropout)("""
        Example:
            >>> layer = tk.layers.SpatialDropout3D(0.5, seed=1)
            >>> layer(tk.ones((2, 4, 4, 4, 3)), training=True).shape
            TensorShape([2, 4, 4, 4, 3])
    """)
    rank = 3


class GaussianNoise(_Noise):
    """While training, the input plus normal noise.

    Args:
        stddev: standard deviation of the noise, 0 or more.

    Raises:
        InvalidArgumentError: stddev is negative.

    Example:
        >>> layer = tk.layers.GaussianNoise(0.1, seed=1)
        >>> layer(tk.zeros((1, 3))).numpy()
        array([[0., 0., 0.]], dtype=float32)
    """

    def __init__(self, stddev: float, seed: Seed | None = None, **kwargs: Any) -> None:
        super().__init__(seed=seed, **kwargs)
        if stddev < 0:
            raise InvalidArgumentError(f"GaussianNoise: stddev must be 0 or more, got {stddev}")
        self.stddev = stddev
        self._draw_if(stddev)

    def call(self, inputs: Any, training: Any = False) -> Any:
        if not training or not self.stddev:
            return inputs
        shape, dtype = ops.shape(inputs), inputs.dtype
        seed = along_batch(self.seed_generator)
        with beside(inputs):
            return ops.add(inputs, random.normal(shape, 0.0, self.stddev, dtype, seed))


class GaussianDropout(_Noise):
    """While training, the input times normal noise of mean 1 and variance rate / (1 - rate).

    Source: Srivastava et al. 2014, section 10.

    Args:
        rate: in [0, 1).

    Raises:
        InvalidArgumentError: the rate is outside its range.

    Example:
        >>> layer = tk.layers.GaussianDropout(0.5, seed=1)
        >>> layer(tk.ones((1, 3))).numpy()
        array([[1., 1., 1.]], dtype=float32)
    """

    def __init__(self, rate: float, seed: Seed | None = None, **kwargs: Any) -> None:
        super().__init__(seed=seed, **kwargs)
        self.rate = share(self, "rate", rate)
        self._draw_if(self.rate)

    def call(self, inputs: Any, training: Any = False) -> Any:
        if not training or not self.rate:
            return inputs
        stddev = math.sqrt(self.rate / max(1 - self.rate, 1e-7))
        seed = along_batch(self.seed_generator)
        with beside(inputs):
            noise = random.normal(ops.shape(inputs), 1.0, stddev, inputs.dtype, seed)
        return ops.multiply(inputs, noise)


# The limit of selu at minus infinity.
_ALPHA_PRIME = -1.7580993408473766


class AlphaDropout(_Noise):
    """Dropout for `selu` networks: keeps mean 0 and variance 1.

    Dropped values become selu's limit at minus infinity, then all are scaled and moved.
    Source: Klambauer et al. 2017, arXiv:1706.02515.

    Args:
        rate: in [0, 1).
        noise_shape: shape of the mask, `None` for the input's size and 1 where it is to be shared.

    Raises:
        InvalidArgumentError: the rate is outside its range.

    Example:
        >>> layer = tk.layers.AlphaDropout(0.5, seed=1)
        >>> layer(tk.ones((2, 3))).numpy()
        array([[1., 1., 1.],
               [1., 1., 1.]], dtype=float32)
        >>> layer(tk.ones((2, 3)), training=True).shape
        TensorShape([2, 3])
    """

    def __init__(
        self, rate: float, noise_shape: Any = None, seed: Seed | None = None, **kwargs: Any
    ) -> None:
        super().__init__(seed=seed, **kwargs)
        self.rate = share(self, "rate", rate)
        self._draw_if(self.rate)
        if self.rate == 1:
            raise InvalidArgumentError("AlphaDropout: rate must be below 1")
        self.noise_shape = _checked_shape(self, noise_shape)

    def call(self, inputs: Any, training: Any = False) -> Any:
        if not training or not self.rate:
            return inputs
        rate, limit = self.rate, _ALPHA_PRIME
        scale = ((1 - rate) * (1 + rate * limit**2)) ** -0.5
        shape, seed = ops.shape(inputs), along_batch(self.seed_generator)
        if self.noise_shape is not None:
            pairs = zip(shape, self.noise_shape, strict=True)
            shape = tuple(n if m is None else m for n, m in pairs)
            seed = at_once(seed) if self.noise_shape[0] == 1 else seed
        with beside(inputs):
            keep_mask = random.bernoulli_mask(shape, rate, 1.0, inputs.dtype, seed)
        mixed = ops.add(
            ops.multiply(inputs, keep_mask), ops.multiply(ops.subtract(1.0, keep_mask), limit)
        )
        return ops.add(ops.multiply(mixed, scale), -scale * limit * rate)
