"""What ways of making a convolution take beside direct sums; shapes alone decide between them."""

from __future__ import annotations

from typing import NamedTuple

_COSTS = {
    "tiles": (1.2, 1, 300, 300, 300, 0),
    "gradients of tiles": (1.2, 1, 2000, 300, 300, 0),
    "phases": (1.1, 1.5, 850, 500, 60, 1_500_000),
    "phases back": (1.1, 1.3, 850, 500, 60, 1_500_000),
    "gradients of phases": (1.1, 0.9, 2000, 500, 60, 1_500_000),
    "blocks": (1.4, 1, 0, 0, 0, 0),
}
"""The rows of `Costs`. Sums for gradients of many weights leave the cache; numbers of phases are
those of the image, which are copied too; results of blocks have to be brought into order."""


class Costs(NamedTuple):
    """What is measured in multiplications of direct sums.

    Attributes:
        gain: by how much all of it has to be less than direct sums.
        product: of transformed numbers.
        weight: transformed, or the gradient by one.
        result: a filter of a tile.
        number: a channel of what is transformed.
        call: the calls together.
    """

    gain: float
    product: float
    weight: int
    result: int
    number: int
    call: int

    def pay(
        self, direct: float, products: float, weights: int = 0, results: int = 0, numbers: int = 0
    ) -> bool:
        """Whether so many of each take less than `direct` multiplications."""
        work = self.product * products + self.weight * weights + self.result * results
        return self.gain * (work + self.number * numbers + self.call) < direct


TILES, TILE_GRADIENTS, PHASES, PHASES_BACK, PHASE_GRADIENTS, BLOCKS = (
    Costs(*row) for row in _COSTS.values()
)
