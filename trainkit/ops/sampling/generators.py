"""Generators: streams of random numbers, the process's own, and what `seed` stands for."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.collectives.replica import REPLICAS
from trainkit.core import devices, dtypes, rng
from trainkit.core.dispatch import native, trace_state
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.names import name_for
from trainkit.core.process import forks
from trainkit.core.registry import Registry
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.trackable import Trackable
from trainkit.core.values.type_aliases import DTypeLike, Seed, Shape, TensorLike
from trainkit.core.variable import Variable
from trainkit.ops.arrays.concat_and_split import concatenate
from trainkit.ops.arrays.shaping import reshape, sizes_to_fill
from trainkit.ops.math.elementwise import cast
from trainkit.ops.sampling import philox
from trainkit.ops.sampling import source_draws as draws
from trainkit.ops.sampling.batch_rows import AlongBatch, by_rows, in_shared_graph
from trainkit.ops.sampling.draw_devices import home_of, state_here
from trainkit.ops.sampling.source_draws import DrawSource

_WORD = (1 << 64) - 1
BLOCKS_OF_CALL = 1 << 40
"""How many numbered blocks a call may draw, where calls share a key."""

_TURN = forks.make_rlock()


class Generator(Trackable, DrawSource):
    """A stream of random numbers whose position is a variable, so that a checkpoint keeps it.

    The numbers are those of Philox4x64-10, where TensorFlow has Philox4x32-10: the same state gives
    others there. The words of the state have TensorFlow's order, as uint64 in place of int64; a
    seed is the key here and the counter there.

    Args:
        copy_from: a generator, where whose position is now the new one starts; or a seed.
        state: three uint64 words (counter low, counter high, key) to go on from, instead of a seed;
            a variable of them is taken itself, so that all generators of it draw from one stream.
        alg: `None` or `"philox"`.
        seed: any int; by default the next seed that `set_seed` derives.

    Raises:
        ValueError: there is more than one of `copy_from`, `state` and `seed`, the state has another
            shape, or the algorithm is another.

    Example:
        >>> generator = tk.random.Generator.from_seed(1)
        >>> first = generator.normal((2,))
        >>> again = tk.random.Generator.from_seed(1).normal((2,))
        >>> bool(tk.reduce_all(first == again))
        True
    """

    _is_generator = True
    state: Variable

    def __init__(
        self, copy_from: Any = None, state: Any = None, alg: Any = None, *, seed: Seed | None = None
    ) -> None:
        _only_philox(alg)
        if sum(x is not None for x in (copy_from, state, seed)) > 1:
            raise ValueError("a Generator takes one of a seed, a state, and another generator")
        if isinstance(copy_from, Generator):
            state = copy_from.state._read()
        elif copy_from is not None:
            seed = copy_from
        if isinstance(state, Variable) and state.dtype == dtypes.uint64:
            self.state = _checked_state(state)
            self.state._goes_on = True
            return
        self.state = Variable(
            _state_words(seed) if state is None else _checked_state(state),
            trainable=False,
            name="generator_state",
        )
        self.state._goes_on = True

    @classmethod
    def from_seed(cls, seed: int, alg: Any = None) -> Generator:
        """A generator whose numbers depend on `seed` alone."""
        _only_philox(alg)
        return cls(seed=seed)

    @classmethod
    def from_state(cls, state: Any, alg: Any = None) -> Generator:
        """A generator that goes on where another one's `state` stood."""
        _only_philox(alg)
        return cls(state=state._read() if hasattr(type(state), "_is_variable") else state)

    @classmethod
    def from_key_counter(cls, key: Any, counter: Any, alg: Any = None) -> Generator:
        """A generator of the stream `key` that stands at `counter`, two uint64 words.

        Raises:
            ValueError: `counter` has another shape, or the algorithm is another than Philox.
        """
        _only_philox(alg)
        return cls(state=_key_state(key, counter))

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Generator:
        """A generator with a seed from the operating system."""
        import secrets

        _only_philox(alg)
        return cls(seed=secrets.randbits(63))

    @property
    def key(self) -> Tensor:
        """The word that names the stream."""
        key: Tensor = self.state.value()[2]
        return key

    @property
    def algorithm(self) -> int:
        """TensorFlow's number for Philox."""
        return 1

    def reset_from_seed(self, seed: int) -> None:
        """Start the stream of `seed` from its beginning."""
        self.state.assign(_state_words(seed))

    def reset(self, state: Any) -> None:
        """Go to where another generator's `state` stood."""
        self.state.assign(_checked_state(state))

    def reset_from_key_counter(self, key: Any, counter: Any) -> None:
        """Go to `counter`, two uint64 words, of the stream `key`.

        Raises:
            ValueError: `counter` has another shape.
        """
        self.state.assign(_key_state(key, counter))

    def split(self, count: int = 1) -> list[Generator]:
        """`count` new generators with streams of their own, which depend on this one's position."""
        keys = self.uniform_full_int((int(count),), dtype="uint64")
        zero = convert_to_tensor(np.zeros(2, np.uint64))
        return [type(self)(state=concatenate([zero, keys[i : i + 1]])) for i in range(int(count))]

    def skip(self, delta: TensorLike) -> Tensor:
        """Leave out `delta` blocks of four words.

        A draw takes as many blocks as its numbers need, so `skip(n)` leads to another place than
        `normal([n])`, where in TensorFlow both add 256 n.

        Args:
            delta: any int, or a scalar tensor of ints that are not negative.

        Returns:
            The state before.
        """
        before: Tensor = self.state.value()
        if isinstance(delta, int) and not trace_state.THREAD.traces:  # in a tenth of the time
            low, high, key = (int(word) for word in self.state.numpy())
            counter = low + (high << 64) + delta
            self.state.assign(np.array([counter & _WORD, (counter >> 64) & _WORD, key], np.uint64))
            return before
        words = [delta & _WORD, (delta >> 64) & _WORD] if isinstance(delta, int) else [delta, 0]
        added = [
            reshape(x if is_tensor(x) else convert_to_tensor(x, "uint64"), (1,)) for x in words
        ]
        more_low, more_high = (cast(x, "uint64") for x in added)
        new_low = before[0:1] + more_low
        carry = cast(new_low < more_low, "uint64")
        self.state.assign(concatenate([new_low, before[1:2] + more_high + carry, before[2:]]))
        return before

    def make_seeds(self, count: int = 1) -> Tensor:
        """Seeds for stateless functions: int64 tensor (2, count)."""
        return self.uniform_full_int((2, int(count)), dtype="int64")

    def draw(self, primitive: Callable[..., Any], shape: Shape, **settings: Any) -> Tensor:
        """What a primitive of `ops.sampling.philox` gives for the state, which moves on."""
        if REPLICAS or trace_state.THREAD.traces:
            return self._draw_in_graph(primitive, shape, settings)
        dims, sizes = sizes_to_fill(shape, "random")
        variable = self.state
        result: Tensor
        with _TURN:  # threads that read one state would draw the same numbers
            if not sizes and devices.current() is devices.CPU:
                result = native.draw(variable, primitive, dims, settings)
                if result is not None:
                    return result
            stored_state = variable._read()
            values, state = primitive(state_here(stored_state), *sizes, shape=dims, **settings)
            # a state has the shape, dtype and layout of the one before: all that `assign` looks at
            of_cpu = type(state._array) is type(stored_state._array) is np.ndarray
            if of_cpu and type(variable) is Variable:
                variable._value = state
            else:
                variable.assign(state)
        result = values
        return result

    def _draw_in_graph(self, primitive: Any, shape: Shape, settings: dict[str, Any]) -> Tensor:
        if REPLICAS:
            primitive = by_rows(primitive, shape)
        dims, sizes = sizes_to_fill(shape, "random")
        stored_state = self.state.value()
        local_state = state_here(stored_state, home_of(self.state, stored_state))
        values, state = primitive(local_state, *sizes, shape=dims, **settings)
        self.state.assign(state)
        result: Tensor = values
        return result

    def uniform_full_int(
        self, shape: Shape, dtype: DTypeLike = "uint64", name: str | None = None
    ) -> Tensor:
        """Integers of the whole range of `dtype`."""
        low, high = draws.integer_type(dtype).limits
        return self.draw(
            philox.philox_integers,
            shape,
            dtype=draws.integer_type(dtype).name,
            low=low,
            high=high + 1,
        )

    # The distributions take their arguments in TensorFlow's order.

    def normal(
        self,
        shape: Any,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        dtype: Any = None,
        name: str | None = None,
    ) -> Tensor:
        """Draws of the normal distribution; see `normal`."""
        return draws.normal(self, shape, mean, stddev, dtype)

    def truncated_normal(
        self,
        shape: Any,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        dtype: Any = None,
        name: str | None = None,
    ) -> Tensor:
        """Draws within two standard deviations of the mean; see `truncated_normal`."""
        return draws.truncated_normal(self, shape, mean, stddev, dtype)

    def uniform(
        self,
        shape: Any,
        minval: Any = 0,
        maxval: Any = None,
        dtype: Any = "float32",
        name: str | None = None,
    ) -> Tensor:
        """Numbers in [minval, maxval), whole ones for an integer `dtype`, which needs `maxval`."""
        if dtypes.as_dtype(dtype).is_integer:
            return draws.integers(self, shape, minval, maxval, dtype)
        return draws.uniform(self, shape, minval, 1 if maxval is None else maxval, dtype)

    def binomial(
        self,
        shape: Shape,
        counts: Any,
        probs: Any,
        dtype: DTypeLike = "int32",
        name: str | None = None,
    ) -> Tensor:
        """Numbers of successes; see `random_draws.binomial`."""
        from trainkit.ops.sampling.distributions import binomial_of

        return cast(binomial_of(self, shape, counts, probs, None), dtype)


class SeedGenerator(Generator):
    """The generator of a layer, under its Keras name.

    Args:
        seed: any int; by default the next seed that `set_seed` derives.
        name: what it is called, in the path of its state as well; not part of the numbers.
        **kwargs: `state`, to go on from another generator's.

    Raises:
        ValueError: the seed is no int, or an argument by keyword is unknown.

    Example:
        >>> seeds = tk.random.SeedGenerator(1)
        >>> tk.keras.random.normal((2, 3), seed=seeds).shape
        TensorShape([2, 3])
    """

    def __init__(self, seed: Seed | None = None, name: str | None = None, **kwargs: Any) -> None:
        if seed is not None and not hasattr(seed, "__index__"):
            raise ValueError(f"SeedGenerator: the seed must be an int or None, got {seed!r}")
        if kwargs.keys() - {"state"}:
            raise ValueError(f"SeedGenerator: unknown arguments {sorted(kwargs)}")
        super().__init__(seed=seed, **kwargs)
        self.name = name or name_for(type(self))
        self._initial_seed = seed
        if not kwargs:
            self.state._name, self.state._numbered = "seed_generator_state", False
            self.state.path = f"{self.name}/seed_generator_state"

    def next(self, ordered: bool = True) -> Tensor:
        """A seed for one call of a random function: uint32 tensor (2,)."""
        return self.draw(philox.philox_integers, (2,), dtype="uint32", low=0, high=1 << 32)

    def __deepcopy__(self, memo: dict[int, Any]) -> SeedGenerator:
        """A generator that goes on where this one stands.

        One without a seed that has given no numbers yet has a stream of its own, as a new layer
        has: members of an ensemble that are copies of one layer must not drop the same values.
        """
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        for name, value in vars(self).items():
            twin.__dict__[name] = copy.deepcopy(value, memo)
        if self._initial_seed is None and not self.state.numpy()[:2].any():
            twin.reset_from_seed(rng.next_seed())
        return twin

    def get_config(self) -> dict[str, Any]:
        """What `from_config` needs."""
        return {"seed": self._initial_seed, "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> SeedGenerator:
        """A generator made by what `get_config` gave."""
        return cls(**config)


Registry("random", "random generator").add(SeedGenerator)


class _Fixed(DrawSource):
    """Draws that depend on a state alone and move nothing."""

    def __init__(self, state: Tensor) -> None:
        self.state = state

    def draw(self, primitive: Callable[..., Any], shape: Shape, **settings: Any) -> Tensor:
        if REPLICAS:
            primitive = by_rows(primitive, shape)
        dims, sizes = sizes_to_fill(shape, "random")
        local_state = state_here(self.state)
        if REPLICAS:
            local_state = in_shared_graph(local_state)
        values, self.state = primitive(local_state, *sizes, shape=dims, **settings)
        result: Tensor = values
        return result


class _Global:
    """The process's generator, made at the first draw, and reset after each `set_seed`."""

    generator: Generator | None = None
    version = -1


def global_generator() -> Generator:
    """The generator of all functions that are given no seed.

    Example:
        >>> tk.random.get_global_generator().uniform((2,)).shape
        TensorShape([2])
    """
    if _Global.generator is None:
        _Global.generator = Generator()
        _Global.version = rng.seed_version()
    elif _Global.version != rng.seed_version():
        _Global.version = rng.seed_version()
        _Global.generator.reset_from_seed(rng.next_seed())
    return _Global.generator


def take_state() -> Any:
    """The words of the process's generator, which leaves the numbers behind them to the caller."""
    with _TURN:
        generator = global_generator()
        words = generator.state.numpy()
        generator.skip(BLOCKS_OF_CALL)
    return words


class DrawsOfThread(threading.local):
    """Where calls without a generator draw in this thread; `None` for those of the process.

    Attributes:
        draws: gives by `of(seed)` what draws for a call with an int seed, or with none.
    """

    draws: Any = None


DRAWS = DrawsOfThread()


def set_global_generator(generator: Generator) -> None:
    """Let functions that are given no seed draw from `generator`.

    Args:
        generator: a `Generator`.

    Raises:
        TypeError: it is no `Generator`.

    Example:
        >>> tk.random.set_global_generator(tk.random.Generator.from_seed(1))
        >>> tk.random.get_global_generator().normal((2,)).shape
        TensorShape([2])
    """
    if not isinstance(generator, Generator):
        raise TypeError(f"set_global_generator takes a Generator, got {generator!r}")
    _Global.generator, _Global.version = generator, rng.seed_version()


def set_seed(seed: int | None) -> None:
    """Make all that is random from here on repeat itself in another run.

    Args:
        seed: any int; `None` goes back to seeds from the operating system.

    Raises:
        TypeError: it is no int.

    Example:
        >>> tk.random.set_seed(1)
        >>> first = tk.random.normal((3,))
        >>> tk.random.set_seed(1)
        >>> bool(tk.reduce_all(tk.random.normal((3,)) == first))
        True
    """
    rng.set_seed(seed)
    global_generator()


def generator_of(seed: Any) -> Any:
    """What draws the numbers that the argument `seed` stands for.

    Raises:
        InvalidArgumentError: it is no seed.
    """
    if seed is None:
        return global_generator() if DRAWS.draws is None else DRAWS.draws.of(None)
    if isinstance(seed, DrawSource):
        return seed
    if is_tensor(seed) or isinstance(seed, list | tuple | np.ndarray):
        return stateless(seed)
    if isinstance(seed, AlongBatch):
        return seed.draws_of(generator_of(seed.seed))
    if hasattr(seed, "__index__"):
        return _Fixed(convert_to_tensor(_state_words(seed)))
    raise InvalidArgumentError(
        f"seed {seed!r} is no int, no Generator and no tensor of two integers"
    )


def stateless(seed: Any) -> _Fixed:
    """Draws that the two integers of `seed` fix.

    Raises:
        InvalidArgumentError: `seed` has another shape.
    """
    tensor = convert_to_tensor(seed)
    if tuple(tensor.shape) != (2,) or not tensor.dtype.is_integer:
        raise InvalidArgumentError(
            f"a stateless seed is a tensor of two integers, got shape {tuple(tensor.shape)} and "
            f"dtype {tensor.dtype.name}"
        )
    return _Fixed(philox.philox_state(tensor))


def _state_words(seed: Any) -> Any:
    number = rng.next_seed() if seed is None else seed.__index__()
    return np.array([0, 0, number & _WORD], np.uint64)


def _key_state(key: Any, counter: Any) -> Tensor:
    """The state of the stream `key` at `counter`."""
    words = [convert_to_tensor(x, dtype="uint64") for x in (counter, key)]
    if tuple(words[0].shape) != (2,) or tuple(words[1].shape) != ():
        raise ValueError(
            f"a Generator takes a counter of two words (low, high) and a key of one, got shapes "
            f"{tuple(words[0].shape)} and {tuple(words[1].shape)}"
        )
    return concatenate([words[0], reshape(words[1], (1,))])


def _checked_state(state: Any) -> Any:
    # Words with a sign are an int64, as those of TensorFlow's states.
    tensor = state if is_tensor(state) else convert_to_tensor(np.asarray(state))
    if tuple(tensor.shape) != (3,):
        raise ValueError(
            f"the state of a Generator has three words (counter low, counter high, key), got shape "
            f"{tensor.shape}"
        )
    return tensor if tensor.dtype == dtypes.uint64 else cast(tensor, "uint64")


def _only_philox(alg: Any) -> None:
    name = str(getattr(alg, "name", alg)).lower()
    if alg is not None and name not in ("philox", "auto_select", "1", "3"):
        raise ValueError(f"the generator's algorithm is 'philox', {alg!r} is not supported")
