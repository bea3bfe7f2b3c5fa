"""Draws in functions of a data set: each element has numbers of its own, in any thread.

As the operations of TensorFlow's data sets do, `random.uniform(shape, seed=1)` begins its sequence
anew with each pass. The numbers of an element follow from the seed and the number of the element,
so they are the same in any thread and after a restore. Without a seed the first draw of a pass
takes a key from the process's generator, which stands for the seed: other numbers in each pass. A
checkpoint has the key. A compiled function asks for its numbers when it runs, since one graph
serves all elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import rng
from trainkit.core.dispatch import trace_state
from trainkit.core.process import forks
from trainkit.core.tensor import convert_to_tensor
from trainkit.core.tensor_spec import TensorSpec
from trainkit.data.traced_iteration import taken_later
from trainkit.ops.arrays.shaping import sizes_to_fill
from trainkit.ops.collective.global_rows import REPLICAS
from trainkit.ops.sampling.batch_rows import by_rows
from trainkit.ops.sampling.generators import BLOCKS_OF_CALL, DRAWS, global_generator, take_state
from trainkit.ops.sampling.seeded_random import mixed, process_state
from trainkit.ops.sampling.source_draws import DrawSource

_WORD = (1 << 64) - 1
_TAKING = forks.make_lock()
_STATE = TensorSpec((3,), "uint64")


class PassKey:
    """What stands for the seed of all draws without one in a pass, taken at the first of them."""

    def __init__(self) -> None:
        self._key: int | None = None
        self._version = -1

    def take(self) -> int:
        """The key; another one after `set_seed`."""
        with _TAKING:
            if self._key is None or self._version != rng.seed_version():
                low, high, key = (int(word) for word in take_state())
                self._key = int(rng.bits(int(rng.bits(key, low, 1)[0]), high, 1)[0])
                self._version = rng.seed_version()
            return self._key

    def state(self) -> int | None:
        """The key if it has been taken."""
        return self._key if self._version == rng.seed_version() else None

    def load(self, key: int | None) -> None:
        """Go on with a key that `state` gave."""
        self._key, self._version = key, rng.seed_version()


class PassDraws:
    """The draws of one pass over a data set.

    Args:
        path: numbers of the elements that this data set and those around it were made of.
        pass_key: of the pass over the outermost data set.

    Attributes:
        shared: where functions draw that are called for no numbered element.
    """

    def __init__(self, path: tuple[int, ...] = (), pass_key: PassKey | None = None) -> None:
        self._path = path
        self.pass_key = PassKey() if pass_key is None else pass_key
        self._numbers: dict[Any, int] = {}
        self._keys: tuple[int, dict[int, int]] = (-1, {})
        self.shared = ElementDraws(self, 0)

    def inside(self, number: int) -> PassDraws:
        """The draws of a pass over the data set that is made of an element."""
        return PassDraws((*self._path, number), self.pass_key)

    def next_number(self, node: Any, start: int | None = None) -> int:
        """The number of the next element that a step has in this pass, over all of its repeats.

        Args:
            node: the step.
            start: the number to go on from, where the pass is taken up.
        """
        number = self._numbers.get(node, 0) if start is None else start
        self._numbers[node] = number + 1
        return number

    def of_element(self, number: int) -> ElementDraws:
        """Where the function draws for an element."""
        return ElementDraws(self, number + 1)

    def key(self, seed: int) -> int:
        """The stream of `seed` in this pass; another one after `set_seed`."""
        version = rng.seed_version()
        if self._keys[0] != version:
            self._keys = (version, {})
        keys = self._keys[1]
        if seed not in keys:
            keys[seed] = self._key_inside(mixed(seed))
        return keys[seed]

    def key_without_seed(self) -> int:
        """The stream of draws without a seed in this pass."""
        return self._key_inside(self.pass_key.take())

    def _key_inside(self, key: int) -> int:
        for number in self._path:
            key = int(rng.bits(key, number, 1)[0])
        return key


class ElementDraws:
    """The draws for one element: each call has numbers of its own.

    Args:
        draws: of the pass.
        number: of the element, from 1; 0 for functions called for no numbered element, which are
            called one after the other and draw without a seed as the process does.
    """

    def __init__(self, draws: PassDraws, number: int) -> None:
        self._draws, self._number = draws, number
        self._calls: dict[int | None, int] = {}

    def of(self, seed: int | None) -> Any:
        """What draws for calls with `seed`, or without one."""
        if seed is None and not self._number and not trace_state.THREAD.traces:
            return global_generator()
        return DrawsWhenRun(seed)

    def state(self, seed: int | None) -> Any:
        """The words of a generator for the next call with `seed`, or without one."""
        if seed is None and not self._number:
            return take_state()
        call = self._calls[seed] = self._calls.get(seed, 0) + 1
        key = self._draws.key_without_seed() if seed is None else self._draws.key(seed)
        words = [call * BLOCKS_OF_CALL & _WORD, self._number & _WORD, key]
        return np.array(words, np.uint64)


class DrawsWhenRun(DrawSource):
    """Draws where this thread is when they are made, in a graph when it runs."""

    def __init__(self, seed: int | None) -> None:
        self.seed = seed

    def draw(self, primitive: Any, shape: Any, **settings: Any) -> Any:
        """What a primitive of `ops.sampling.philox` gives."""
        if REPLICAS:
            primitive = by_rows(primitive, shape)
        dims, sizes = sizes_to_fill(shape, "random")
        traced = trace_state.THREAD.traces
        state = taken_later(self._state, _STATE) if traced else self._state()
        values, _ = primitive(state, *sizes, shape=dims, **settings)
        return values

    def _state(self) -> Any:
        draws = DRAWS.draws
        if draws is not None:
            words = draws.state(self.seed)
        else:
            words = take_state() if self.seed is None else process_state(self.seed)
        return convert_to_tensor(words)
