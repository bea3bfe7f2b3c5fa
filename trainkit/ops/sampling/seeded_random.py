"""Random numbers under TensorFlow's names and arguments.

`seed` may be left out (the process's generator, which `set_seed` resets), a generator, or an int:
calls with the same int then go through a sequence of their own, which `set_seed` starts again. In
a function of a data set an element has its own numbers (`data/pass_draws`): with an int the same in
each pass, without a seed other ones.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from trainkit.core import dtypes, rng
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.process import forks
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.values.batch_size import COUNTED, BatchSize, of_batch
from trainkit.core.values.docstrings import describe_arguments
from trainkit.core.values.type_aliases import DTypeLike, Seed, Shape, TensorLike
from trainkit.ops.arrays.creation import zeros_like
from trainkit.ops.arrays.shaping import reshape
from trainkit.ops.arrays.shaping import shape as shape_
from trainkit.ops.arrays.tile_and_repeat import tile
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.core.dynamic_shapes import is_later
from trainkit.ops.math.comparisons import greater_equal
from trainkit.ops.math.elementwise import cast, divide, subtract, where
from trainkit.ops.math.elementwise import cast as _cast
from trainkit.ops.math.elementwise import divide as _divide
from trainkit.ops.sampling import random as _random
from trainkit.ops.sampling import random_draws as _random_draws
from trainkit.ops.sampling import source_draws as _draws
from trainkit.ops.sampling.batch_rows import along_batch
from trainkit.ops.sampling.generators import BLOCKS_OF_CALL, DRAWS, Generator, generator_of
from trainkit.ops.sampling.generators import stateless as _stateless

_MOST_SEQUENCES = 4096


class _Sequences:
    """The generators of calls with an int seed, as many as are in use; the oldest go first."""

    def __init__(self) -> None:
        self.lock = forks.make_lock()
        self.version = -1
        self.by_seed: OrderedDict[int, Generator] = OrderedDict()

    def follow_seed(self) -> None:
        """Go to the start of all sequences, if `set_seed` was called since."""
        if self.version != rng.seed_version():
            self.version = rng.seed_version()
            for number, generator in self.by_seed.items():
                generator.reset_from_seed(mixed(number))

    def of(self, seed: int) -> Generator:
        """The generator of `seed`, at its start after each `set_seed`."""
        with self.lock:
            self.follow_seed()
            if seed not in self.by_seed:
                self.by_seed[seed] = Generator.from_seed(mixed(seed))
                while len(self.by_seed) > _MOST_SEQUENCES:
                    self.by_seed.popitem(last=False)
            self.by_seed.move_to_end(seed)
            return self.by_seed[seed]


_SEQUENCES = _Sequences()


def process_state(seed: int) -> Any:
    """The words of a generator for one call with `seed` outside of data sets."""
    generator = _SEQUENCES.of(seed)
    with _SEQUENCES.lock:
        words = generator.state.numpy()
        generator.skip(BLOCKS_OF_CALL)
    return words


def numbered_generators() -> dict[int, Generator]:
    """The generators of calls with an int seed so far, by the seed."""
    with _SEQUENCES.lock:
        _SEQUENCES.follow_seed()
        return dict(_SEQUENCES.by_seed)


def mixed(seed: int) -> int:
    """A key from the process's seed, if it has one, and the call's."""
    base = rng.current_seed() or 0
    return int(rng.bits(base % (1 << 64), seed % (1 << 64), 1)[0])


def _source(seed: Any) -> Any:
    if seed is None or isinstance(seed, Generator):
        return seed
    if hasattr(seed, "__index__"):
        return (DRAWS.draws or _SEQUENCES).of(seed.__index__())
    raise InvalidArgumentError(f"seed {seed!r} is no int; the stateless functions take two of them")


# ------------------------------------------------------------------ stateful


def normal(
    shape: Shape,
    mean: TensorLike = 0.0,
    stddev: Any = 1.0,
    dtype: DTypeLike = "float32",
    seed: Seed | None = None,
    name: str | None = None,
) -> Tensor:
    """Draws of the normal distribution.

    Args:
        dtype: floating type.
        seed: see the head of this module.

    Raises:
        InvalidArgumentError: `dtype` is no floating type, or `seed` no int.

    Example:
        >>> tk.random.normal((2, 3), seed=1).shape
        TensorShape([2, 3])
    """
    source = generator_of(None if seed is None else _source(seed))
    return _draws.normal(source, shape, mean, stddev, dtype)


def truncated_normal(
    shape: Shape,
    mean: TensorLike = 0.0,
    stddev: Any = 1.0,
    dtype: DTypeLike = "float32",
    seed: Seed | None = None,
    name: str | None = None,
) -> Tensor:
    """Draws of the normal distribution within two standard deviations of the mean.

    Args:
        dtype: floating type.
        seed: see the head of this module.

    Raises:
        InvalidArgumentError: `dtype` is no floating type, or `seed` no int.

    Example:
        >>> bool(tk.reduce_max(tk.abs(tk.random.truncated_normal((100,), seed=1))) <= 2)
        True
    """
    return _random.truncated_normal(shape, mean, stddev, dtype, _source(seed))


def uniform(
    shape: Shape,
    minval: TensorLike = 0,
    maxval: TensorLike | None = None,
    dtype: DTypeLike = "float32",
    seed: Seed | None = None,
    name: str | None = None,
) -> Tensor:
    """Numbers in [minval, maxval), all equally likely.

    Args:
        dtype: floating or integer type.
        seed: see the head of this module.

    Raises:
        InvalidArgumentError: the range is empty or does not fit `dtype`, or `seed` is no int.

    >>> uniform((2, 3), maxval=10, dtype="int32", seed=1).shape
    TensorShape([2, 3])
    """
    source = None if seed is None else _source(seed)
    return _uniform(shape, minval, maxval, dtype, source)


def _uniform(shape: Any, minval: Any, maxval: Any, dtype: Any, source: Any) -> Tensor:
    if dtype != "float32" and dtypes.as_dtype(dtype).is_integer:
        if maxval is None:
            raise InvalidArgumentError(
                "random.uniform: integers need maxval, which they stay below"
            )
        return _draws.integers(generator_of(source), shape, minval, maxval, dtype)
    maximum = 1.0 if maxval is None else maxval
    return _draws.uniform(generator_of(source), shape, minval, maximum, dtype)


def categorical(
    logits: TensorLike,
    num_samples: int,
    dtype: DTypeLike | None = None,
    seed: Seed | None = None,
    name: str | None = None,
) -> Tensor:
    """Class indices (batch, num_samples) drawn with probability softmax(logits).

    Args:
        dtype: integer type; int64 by default.
        seed: see the head of this module.

    Raises:
        ShapeError: the logits are no matrix.

    Example:
        >>> tk.random.categorical([[0.0, 100.0]], 3, seed=1).numpy()
        array([[1, 1, 1]])
    """
    return _random_draws.categorical(logits, num_samples, dtype or "int64", _source(seed))


def gamma(
    shape: Shape,
    alpha: TensorLike,
    beta: TensorLike | None = None,
    dtype: DTypeLike = "float32",
    seed: Seed | None = None,
    name: str | None = None,
) -> Tensor:
    """Draws of the gamma distribution of shape `alpha` and rate `beta`.

    Args:
        shape: of the draws for each pair of parameters.
        alpha: above 0.
        dtype: floating type.
        seed: see the head of this module.

    Returns:
        A tensor of `shape` followed by the parameters' shape.

    Raises:
        InvalidArgumentError: a parameter is not above 0.

    Example:
        >>> tk.random.gamma((2, 3), 1.0, seed=1).shape
        TensorShape([2, 3])
    """
    return _gamma(shape, alpha, beta, dtype, _source(seed))


def _gamma(shape: Any, alpha: Any, beta: Any, dtype: Any, source: Any) -> Tensor:
    a = _cast(convert_to_tensor(alpha), dtype)
    b = None if beta is None else _cast(convert_to_tensor(beta), dtype)
    if b is not None and tuple(b.shape) != tuple(a.shape):
        a = a + b * 0

    def draw(sizes: Any, alphas: Any) -> Any:
        return _random_draws.gamma(sizes, alphas, dtype, source)

    draws = _for_each(draw, shape, a)
    result: Tensor = draws if b is None else _divide(draws, b)
    return result


def _dims(shape: Any) -> tuple[Any, ...]:
    scalar = len(shape.shape) == 0 if is_tensor(shape) else hasattr(shape, "__index__")
    return (shape,) if scalar else tuple(shape)


def poisson(
    shape: Shape,
    lam: Any,
    dtype: DTypeLike = "float32",
    seed: Seed | None = None,
    name: str | None = None,
) -> Tensor:
    """Draws of the Poisson distribution.

    Args:
        shape: of the draws for each mean.
        lam: means, 0 or more.
        seed: see the head of this module.

    Returns:
        A tensor of `shape` followed by the shape of `lam`.

    Example:
        >>> tk.random.poisson((2, 3), 4.0, seed=1).shape
        TensorShape([2, 3])
    """
    return _poisson(shape, lam, dtype, _source(seed))


def _poisson(shape: Any, lam: Any, dtype: Any, source: Any) -> Tensor:
    def draw(sizes: Any, means: Any) -> Any:
        return _random_draws.poisson(sizes, means, dtype, source)

    result: Tensor = _for_each(draw, shape, convert_to_tensor(lam))
    return result


def _for_each(draw: Callable[[Any, Any], Any], shape: Any, parameter: Tensor) -> Any:
    """Draws of `shape` for each of the parameters, which may be those of a replica's rows."""
    dims, sizes = _dims(shape), of_batch(parameter.shape) if COUNTED else parameter.shape
    if not dims or not sizes.rank or type(sizes[0]) is not BatchSize or is_later(dims):
        return draw((*dims, *sizes), parameter)
    # one batch after the other, of which each is drawn as one process would
    times = math.prod(int(n) for n in dims)
    each = tile(parameter, (times, *[1] * (len(sizes) - 1)))
    return reshape(draw((sizes[0] * times, *sizes[1:]), each), (*dims, *parameter.shape))


def shuffle(value: TensorLike, seed: Seed | None = None, name: str | None = None) -> Tensor:
    """The slices of `value` along its first axis in random order.

    Args:
        value: tensor of at least one axis.
        seed: see the head of this module.

    Raises:
        ShapeError: `value` is a scalar.

    Example:
        >>> sorted(tk.random.shuffle([1, 2, 3], seed=1).numpy().tolist())
        [1, 2, 3]
    """
    return _random_draws.shuffle(value, seed=_source(seed))


# ------------------------------------------------------------------ stateless


def stateless_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = "float32",
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """`normal` with numbers that depend on `seed`, two integers, alone.

    Args:
        mean: number, or tensor that broadcasts with `shape`.
        stddev: number, or tensor that broadcasts with `shape`.

    Example:
        >>> a, b = (tk.random.stateless_normal((3,), seed=(1, 2)) for _ in range(2))
        >>> bool(tk.reduce_all(a == b))
        True
    """
    only_philox(alg)
    return _random.normal(shape, mean, stddev, dtype, _stateless(seed))


def stateless_truncated_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = "float32",
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """`truncated_normal` with numbers that depend on `seed`, two integers, alone.

    Args:
        mean: number, or tensor that broadcasts with `shape`.
        stddev: number, or tensor that broadcasts with `shape`.

    Example:
        >>> bool(tk.reduce_max(tk.abs(tk.random.stateless_truncated_normal((100,), (1, 2)))) <= 2)
        True
    """
    only_philox(alg)
    return _random.truncated_normal(shape, mean, stddev, dtype, _stateless(seed))


def stateless_uniform(
    shape: Shape,
    seed: TensorLike,
    minval: TensorLike | None = 0,
    maxval: TensorLike | None = None,
    dtype: DTypeLike = "float32",
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """`uniform` with numbers that depend on `seed`, two integers, alone.

    Integers without limits, `minval=None` and `maxval=None`, are drawn from the whole range of
    their dtype.

    Example:
        >>> a, b = (tk.random.stateless_uniform((3,), seed=(1, 2)) for _ in range(2))
        >>> bool(tk.reduce_all(a == b))
        True
    """
    only_philox(alg)
    if minval is None and maxval is None and dtypes.as_dtype(dtype).is_integer:
        minval, last = dtypes.as_dtype(dtype).limits
        maxval = last + 1
    return _uniform(shape, minval, maxval, dtype, _stateless(seed))


def stateless_categorical(
    logits: Any, num_samples: int, seed: Any, dtype: Any = "int64", name: str | None = None
) -> Tensor:
    """`categorical` with numbers that depend on `seed`, two integers, alone.

    Example:
        >>> tk.random.stateless_categorical([[0.0, 100.0]], 3, (1, 2)).numpy()
        array([[1, 1, 1]])
    """
    return _random_draws.categorical(logits, num_samples, dtype, _stateless(seed))


def stateless_gamma(
    shape: Any,
    seed: Any,
    alpha: Any,
    beta: Any = None,
    dtype: Any = "float32",
    name: str | None = None,
) -> Tensor:
    """Gamma draws of the whole `shape`, which depend on `seed`, two integers, alone.

    Args:
        alpha: above 0, broadcasts with `shape`.

    Example:
        >>> tk.random.stateless_gamma((3,), (1, 2), 1.0).shape
        TensorShape([3])
    """
    draws = _random_draws.gamma(
        shape, _cast(convert_to_tensor(alpha), dtype), dtype, _stateless(seed)
    )
    result: Tensor = (
        draws if beta is None else _divide(draws, _cast(convert_to_tensor(beta), dtype))
    )
    return result


def stateless_poisson(
    shape: Shape, seed: TensorLike, lam: Any, dtype: DTypeLike = "int32", name: str | None = None
) -> Tensor:
    """Poisson draws of the whole `shape`, which depend on `seed`, two integers, alone.

    Args:
        lam: means, 0 or above.

    Example:
        >>> tk.random.stateless_poisson((3,), (1, 2), 4.0).shape
        TensorShape([3])
    """
    return _random_draws.poisson(shape, lam, dtype, _stateless(seed))


def stateless_binomial(
    shape: Any,
    seed: Any,
    counts: Any,
    probs: Any,
    output_dtype: Any = "int32",
    name: str | None = None,
) -> Tensor:
    """`binomial` with numbers that depend on `seed`, two integers, alone.

    Args:
        counts: trials, 0 or above.
        probs: chances of success, in [0, 1].
        output_dtype: of the result.

    Example:
        >>> tk.random.stateless_binomial((3,), (1, 2), 10.0, 0.5).shape
        TensorShape([3])
    """
    return _random_draws.binomial(shape, counts, probs, output_dtype, _stateless(seed))


def stateless_shuffle(
    value: Any, seed: Any, alg: Any = "auto_select", name: str | None = None
) -> Tensor:
    """`shuffle` in an order that depends on `seed`, two integers, alone.

    Args:
        value: tensor of one axis or more.

    Example:
        >>> sorted(tk.random.stateless_shuffle([1, 2, 3], (1, 2)).numpy().tolist())
        [1, 2, 3]
    """
    only_philox(alg)
    return _random_draws.shuffle(value, seed=_stateless(seed))


def split(seed: Any, num: int = 2, alg: Any = "auto_select") -> Tensor:
    """`num` new stateless seeds, a tensor (num, 2) of the dtype of `seed`.

    Args:
        seed: two int32 or int64 numbers.
        num: how many.

    Example:
        >>> tk.random.split((1, 2), num=3).shape
        TensorShape([3, 2])
    """
    only_philox(alg)
    return _drawn_seeds((int(num), 2), seed, convert_to_tensor(seed).dtype)


def fold_in(seed: Any, data: Any, alg: Any = "auto_select") -> Tensor:
    """A new stateless seed, of the same dtype, made of another and an int.

    Args:
        seed: two int32 or int64 numbers.
        data: int, or a scalar tensor.

    Raises:
        ShapeError: `data` is no scalar.

    Example:
        >>> seed = tk.random.fold_in((1, 2), 3)
        >>> tk.random.stateless_uniform((2,), seed).shape
        TensorShape([2])
    """
    only_philox(alg)
    number = convert_to_tensor(data)
    if len(number.shape):
        raise ShapeError(f"random.fold_in: data must be a scalar, got shape {tuple(number.shape)}")
    pair = convert_to_tensor(seed)
    moved = _cast(pair, "int64") + _cast(number, "int64") * (0, 1)
    return _drawn_seeds((2,), moved, pair.dtype)


def _drawn_seeds(shape: tuple[int, ...], seed: Any, dtype: dtypes.DType) -> Tensor:
    """Numbers that `seed` alone decides, over the whole range of an integer dtype."""
    seed_dtype = dtype if dtype.name in ("int32", "int64") else dtypes.int64
    low, high = seed_dtype.limits
    return _random.randint(shape, low, high, seed_dtype.name, _stateless(seed))


def only_philox(alg: Any) -> None:
    """Check that `alg` is Philox, or leaves the choice.

    Raises:
        InvalidArgumentError: it is another algorithm.
    """
    name = str(getattr(alg, "name", alg)).lower()
    # 1 and 3 are the values of these two in TensorFlow's enumeration.
    if name not in ("philox", "auto_select", "1", "3"):
        raise InvalidArgumentError(f"random: alg must be 'philox' or 'auto_select', got {alg!r}")


def dropout(
    x: TensorLike,
    rate: Any,
    noise_shape: Any = None,
    seed: Seed | None = None,
    name: str | None = None,
) -> Tensor:
    """Zeros with probability `rate`, the other elements divided by 1 - rate.

    Args:
        x: tensor of a floating dtype.
        rate: in [0, 1).
        noise_shape: shape of the mask, 1 where it is shared.
        seed: of the generator; by default that of the process goes on.

    Raises:
        ValueError: `rate` is outside of [0, 1).

    Example:
        >>> sorted(set(tk.nn.dropout(tk.ones((10, 10)), 0.5, seed=1).numpy().ravel().tolist()))
        [0.0, 2.0]
    """
    if not is_later(rate):
        return _random.dropout(x, float(rate), noise_shape=plain(noise_shape), seed=seed)
    x = convert_to_tensor(x)
    share = cast(convert_to_tensor(rate), x.dtype)
    shape = shape_(x) if noise_shape is None else noise_shape
    uniforms = _random.uniform(shape, dtype="float32", seed=along_batch(_source(seed)))
    is_kept = greater_equal(cast(uniforms, x.dtype), share)
    return where(is_kept, divide(x, subtract(1.0, share)), zeros_like(x))


describe_arguments(
    globals(),
    """
    shape: of the result.
    dtype: of the result.
    seed: two ints, or a tensor (2,).
    alg: `"philox"` or `"auto_select"`.
    mean: number or tensor that broadcasts with `shape`.
    stddev: number or tensor that broadcasts with `shape`.
    minval: lower bound, included.
    maxval: upper bound, not included; 1 for floats by default, integers need it.
    logits: (batch, classes).
    num_samples: draws for each row.
    beta: above 0, broadcasts with alpha; 1 by default.
    """,
)
