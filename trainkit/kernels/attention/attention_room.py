"""The room that compiled attention needs, and how many queries it takes at a time."""

from __future__ import annotations

from trainkit.kernels.jit.register_tiles import product_columns

MOST_SCORES = 1 << 25
"""How many scores a block of a GPU has, if those of a single target are no more."""


def block_size() -> int:
    """How many queries a block has."""
    return product_columns()


def room_shape(parts: int, sources: int, size: int) -> tuple[tuple[int, int, int], int]:
    """The shape of the room for `parts`, and how many of its last rows are zeros.

    Args:
        parts: how many.
        sources: how many keys.
        size: the larger one of those of keys and values.
    """
    block = block_size()
    zeros = -(-size // block)
    return (parts, 2 * sources + size + zeros, block), zeros
