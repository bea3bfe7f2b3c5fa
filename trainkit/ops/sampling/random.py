"""Random numbers under their `keras.random` names.

`seed` may be a `Generator`, whose state moves on; an int or a tensor of two integers, which give
the same numbers each time; or `None` for the process's generator, which `set_seed` resets.
"""

from __future__ import annotations

from typing import Any

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import DTypeLike, Seed, Shape, TensorLike
from trainkit.ops.arrays.shaping import shape as shape_of
from trainkit.ops.core.dynamic_shapes import is_later
from trainkit.ops.math.elementwise import multiply
from trainkit.ops.neural.dropout import dropped, serves
from trainkit.ops.sampling import philox
from trainkit.ops.sampling import source_draws as draws
from trainkit.ops.sampling.batch_rows import along_batch
from trainkit.ops.sampling.draw_devices import beside
from trainkit.ops.sampling.generators import Generator as Generator  # earlier pickles name it here
from trainkit.ops.sampling.generators import generator_of


def normal(
    shape: Shape,
    mean: TensorLike = 0.0,
    stddev: Any = 1.0,
    dtype: DTypeLike | None = None,
    seed: Seed | None = None,
) -> Tensor:
    """Draws of the normal distribution.

    Args:
        shape: of the result; ints or scalar tensors.
        mean: number or tensor that broadcasts with `shape`; gradients reach it.
        stddev: likewise.
        dtype: floating type; by default float32.
        seed: see the head of this module.

    Raises:
        InvalidArgumentError: `dtype` is no floating type, or `seed` no seed.

    Example:
        >>> tk.keras.random.normal((2, 3), seed=1).shape
        TensorShape([2, 3])
    """
    return draws.normal(generator_of(seed), shape, mean, stddev, dtype)


def uniform(
    shape: Shape,
    minval: TensorLike = 0.0,
    maxval: TensorLike = 1.0,
    dtype: DTypeLike | None = None,
    seed: Seed | None = None,
) -> Tensor:
    """Numbers in [minval, maxval), all equally likely.

    Args:
        shape: of the result; ints or scalar tensors.
        minval: number or tensor that broadcasts with `shape`; included.
        maxval: likewise; not included.
        dtype: floating type; by default float32.
        seed: see the head of this module.

    Raises:
        InvalidArgumentError: `dtype` is no floating type, or `seed` no seed.

    Example:
        >>> tk.keras.random.uniform((2, 3), seed=1).shape
        TensorShape([2, 3])
    """
    return draws.uniform(generator_of(seed), shape, minval, maxval, dtype)


def randint(
    shape: Shape,
    minval: TensorLike,
    maxval: TensorLike,
    dtype: DTypeLike = "int32",
    seed: Seed | None = None,
) -> Tensor:
    """Integers in [minval, maxval), all equally likely.

    Args:
        shape: of the result; ints or scalar tensors.
        minval: the least.
        maxval: one more than the greatest.
        dtype: integer type of the result.
        seed: see the head of this module.

    Raises:
        InvalidArgumentError: no integer lies in the range, the range does not fit `dtype`, or that
            is no integer type. Of bounds that lie on a GPU only the dtype is looked at, so that
            nothing waits for them; where no integer is between them, all results are `minval`.

    Example:
        >>> x = tk.random.randint((100,), 0, 3, seed=1)
        >>> sorted(set(x.numpy().tolist()))
        [0, 1, 2]
    """
    return draws.integers(generator_of(seed), shape, minval, maxval, dtype)


def truncated_normal(
    shape: Shape,
    mean: TensorLike = 0.0,
    stddev: Any = 1.0,
    dtype: DTypeLike | None = None,
    seed: Seed | None = None,
) -> Tensor:
    """Draws of the normal distribution that lie within two standard deviations of the mean.

    Args:
        shape: of the result; ints or scalar tensors.
        mean: number or tensor that broadcasts with `shape`; gradients reach it.
        stddev: likewise.
        dtype: floating type; by default float32.
        seed: see the head of this module.

    Raises:
        InvalidArgumentError: `dtype` is no floating type, or `seed` no seed.

    Example:
        >>> tk.keras.random.truncated_normal((2, 3), seed=1).shape
        TensorShape([2, 3])
    """
    return draws.truncated_normal(generator_of(seed), shape, mean, stddev, dtype)


def bernoulli_mask(
    shape: Any, rate: float, scale: float = 1.0, dtype: Any = None, seed: Any = None
) -> Tensor:
    """0 with probability `rate` (to the nearest multiple of 2**-16), else `scale`."""
    return draws.mask(generator_of(seed), shape, rate, scale, dtype)


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


def dropout(
    inputs: TensorLike, rate: float, noise_shape: Any = None, seed: Seed | None = None
) -> Tensor:
    """Set a random share `rate` of the elements to 0 and scale the others by 1 / (1 - rate).

    Source: Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from
    overfitting".

    In a replica that knows its rows of the global batch, the first axis is that of the batch and
    the mask has these rows, unless the mask is the same for all.

    Args:
        inputs: floating tensor.
        rate: in [0, 1]; it counts to the nearest multiple of 2**-16.
        noise_shape: shape of the mask, which broadcasts; `None` in it stands for the input's size.
        seed: see the head of this module.

    Raises:
        InvalidArgumentError: `rate` is outside its range, or the inputs are no floats.

    Example:
        >>> tk.random.dropout(tk.ones((4, 4)), 0.5, seed=1).shape
        TensorShape([4, 4])
    """
    x = convert_to_tensor(inputs)
    if not 0 <= rate <= 1:
        raise InvalidArgumentError(f"dropout: the rate must lie in [0, 1], got {rate}")
    if not x.dtype.is_floating:
        raise InvalidArgumentError(f"dropout takes floats, got {x.dtype.name}")
    shape = shape_of(x)
    if shape and (noise_shape is None or not _is_one(noise_shape[0])):
        seed = along_batch(seed)
    if noise_shape is not None:
        shape = tuple(n if m is None else m for n, m in zip(shape, noise_shape, strict=True))
    scale = 1 / (1 - rate) if rate < 1 else 0.0
    with beside(x):
        if noise_shape is None or (
            not is_later(noise_shape) and serves(noise_shape, tuple(x.shape))
        ):
            mask = generator_of(seed).draw(philox.philox_kept, shape, rate=float(rate))
            result: Tensor = dropped(x, mask, scale=scale)
        else:  # the mask makes the result larger than the inputs
            result = multiply(x, bernoulli_mask(shape, rate, scale, x.dtype, seed))
    return result
