"""TensorFlow's algorithms of random numbers, of which Philox is the one here, and its states."""

from __future__ import annotations

import enum
from typing import Any, SupportsIndex

import numpy as np

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.sampling.seeded_random import only_philox

_WORDS = 3  # of a state: the counter's low and high one, and the key
_WORD_BITS = 64


class Algorithm(enum.Enum):
    """TensorFlow's names and numbers of algorithms; functions take `PHILOX` and `AUTO_SELECT`.

    `AUTO_SELECT` is Philox on each device. `THREEFRY` is what accelerators other than GPUs use.

    Example:
        >>> tk.random.stateless_uniform((2,), (1, 2), alg=tk.random.Algorithm.PHILOX).shape
        TensorShape([2])
    """

    PHILOX = 1
    THREEFRY = 2
    AUTO_SELECT = 3


def create_rng_state(
    seed: SupportsIndex | TensorLike, alg: Algorithm | str | SupportsIndex
) -> Tensor:
    """The state of a generator made of an int or a vector, as `Generator.from_state` takes it.

    An int is cut into words of 64 bits, the lowest first. Of a vector the first three numbers
    count; a shorter one is filled up with zeros in front.

    Args:
        seed: any int, or a vector of integers.
        alg: `"philox"`, `"auto_select"`, their numbers 1 and 3, or of `tk.random.Algorithm`.

    Returns:
        int64 (3,).

    Raises:
        InvalidArgumentError: the algorithm is another, or `seed` holds no integers.

    Example:
        >>> tk.random.create_rng_state(1234, "philox").numpy()
        array([1234,    0,    0])
    """
    number: Any = alg
    only_philox(int(number) if is_tensor(number) else number)
    if isinstance(seed, int):
        signed = seed & ((1 << (_WORDS * _WORD_BITS)) - 1)
        words = signed.to_bytes(_WORDS * _WORD_BITS // 8, "little")
        return convert_to_tensor(np.frombuffer(words, "<i8").astype(np.int64))
    numbers = np.asarray(seed)
    if numbers.dtype.kind not in "iu" and numbers.size:
        raise InvalidArgumentError(f"create_rng_state: seed {seed!r} is neither an int nor ints")
    vector = numbers.astype(np.int64).ravel()[:_WORDS]
    return convert_to_tensor(np.concatenate([np.zeros(_WORDS - len(vector), np.int64), vector]))
