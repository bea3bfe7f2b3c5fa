"""Draws with an int seed in functions of a data set: the same for an element in each pass.

As the operations of TensorFlow's data sets do, `random.uniform(shape, seed=1)` begins its sequence
anew with each pass. The numbers of an element follow from the seed and the number of the element,
so they are the same in any thread and after a restore. A compiled function asks for them when it
runs, since one graph serves all elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.collectives.replica import REPLICAS
from trainkit.core import rng
from trainkit.core.dispatch import trace_state
from trainkit.core.tensor import convert_to_tensor
from trainkit.core.tensor_spec import TensorSpec
from trainkit.data.traced_iteration import taken_later
from trainkit.ops.arrays.shaping import sizes_of
from trainkit.ops.sampling.batch_rows import by_rows
from trainkit.ops.sampling.random import DrawSource
from trainkit.ops.sampling.seeded_random import DRAWS, mixed, process_state

_WORD = (1 << 64) - 1
_BLOCKS_OF_CALL = 1 << 40
_STATE = TensorSpec((3,), "uint64")


class PassDraws:
    """The draws of one pass over a data set.

    Args:
        path: numbers of the elements that this data set and those around it were made of.

    Attributes:
        shared: where functions draw that are called for no numbered element.
    """

    def __init__(self, path: tuple[int, ...] = ()) -> None:
        self._path = path
        self._numbers: dict[Any, int] = {}
        self._keys: tuple[int, dict[int, int]] = (-1, {})
        self.shared = ElementDraws(self, 0)

    def inside(self, number: int) -> PassDraws:
        """The draws of a pass over the data set that is made of an element."""
        return PassDraws((*self._path, number))

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
            key = mixed(seed)
            for number in self._path:
                key = int(rng.bits(key, number, 1)[0])
            keys[seed] = key
        return keys[seed]


class ElementDraws:
    """The draws for one element: each call with a seed has numbers of its own.

    Args:
        draws: of the pass.
        number: of the element, from 1.
    """

    def __init__(self, draws: PassDraws, number: int) -> None:
        self._draws, self._number = draws, number
        self._calls: dict[int, int] = {}

    def of(self, seed: int) -> SeedDraws:
        """What draws for calls with `seed`."""
        return SeedDraws(seed)

    def state(self, seed: int) -> Any:
        """The words of a generator for the next call with `seed`."""
        call = self._calls[seed] = self._calls.get(seed, 0) + 1
        words = [call * _BLOCKS_OF_CALL & _WORD, self._number & _WORD, self._draws.key(seed)]
        return np.array(words, np.uint64)


class SeedDraws(DrawSource):
    """Draws where this thread is when they are made, in a graph when it runs.

    Args:
        seed: an int.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def draw(self, primitive: Any, shape: Any, **settings: Any) -> Any:
        """What a primitive of `ops.sampling.philox` gives."""
        if REPLICAS:
            primitive = by_rows(primitive, shape)
        dims, sizes = sizes_of(shape, "random")
        traced = trace_state.THREAD.traces
        state = taken_later(self._state, _STATE) if traced else self._state()
        values, _ = primitive(state, *sizes, shape=dims, **settings)
        return values

    def _state(self) -> Any:
        draws = DRAWS.draws
        words = process_state(self.seed) if draws is None else draws.state(self.seed)
        return convert_to_tensor(words)
