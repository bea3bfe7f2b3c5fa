"""Arithmetic of sliding windows: how much is padded, how many windows fit, and views of them.

Arrays here are `(batch, spatial..., channels)`. A padding is `"valid"`, `"same"`, or a pair
`(before, after)` for each spatial axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from trainkit.core.shapes import CALLS

Padding = Any
Pair = tuple[int, int]


def reach(window: int, dilation: int) -> int:
    """How many positions a window of `window` elements, `dilation` apart, spans."""
    return (window - 1) * dilation + 1


def output_size(size: int, window: int, stride: int, pad: Any, dilation: int = 1) -> int:
    """The number of windows along an axis of `size`; `pad` is "valid", "same" or a pair."""
    if pad == "same":
        return -(-size // stride)
    before, after = (0, 0) if pad == "valid" else pad
    return (size + before + after - reach(window, dilation)) // stride + 1


def pad_pair(size: int, window: int, stride: int, pad: Any, dilation: int = 1) -> Pair:
    """Positions added before and after an axis; with "same" the far side gets the extra one."""
    if pad == "valid":
        return (0, 0)
    if pad != "same":
        return (pad[0], pad[1])
    # The window that reaches farthest is the last one, so only its end needs padding.
    count = -(-size // stride)
    total = max((count - 1) * stride + reach(window, dilation) - size, 0)
    return (total // 2, total - total // 2)


def per_axis(padding: Padding, rank: int) -> tuple[Any, ...]:
    """`padding` as one entry for each of `rank` axes."""
    return (padding,) * rank if isinstance(padding, str) else tuple(padding)


class Windows:
    """Where the windows over one array lie.

    Args:
        sizes: spatial sizes of the array.
        window: elements of a window along each axis.
        strides: distance between windows along each axis.
        padding: "valid", "same" or pairs.
        dilation: distance between elements along each axis.

    Attributes:
        out: the number of windows along each axis.
        pads: (before, after) along each axis.
        padded: spatial sizes with padding.
    """

    __slots__ = (
        "_facts", "_fits", "dilation", "out", "padded", "pads", "sizes", "strides", "window",
    )  # fmt: skip

    def __init__(
        self,
        sizes: Sequence[int],
        window: Sequence[int],
        strides: Sequence[int],
        padding: Padding,
        dilation: Sequence[int],
    ) -> None:
        axes = list(
            zip(sizes, window, strides, per_axis(padding, len(window)), dilation, strict=True)
        )
        self.sizes, self.window = tuple(sizes), tuple(window)
        self.strides, self.dilation = tuple(strides), tuple(dilation)
        self.out = tuple(output_size(*axis) for axis in axes)
        self.pads = tuple(pad_pair(*axis) for axis in axes)
        self.padded = tuple(n + a + b for n, (a, b) in zip(self.sizes, self.pads, strict=True))
        self._facts = self.sizes, self.window, self.strides, self.pads, self.dilation, self.out
        self._fits = all(
            min(s, d) > 0 and (n - 1) * s + reach(k, d) <= m
            for n, s, k, d, m in zip(
                self.out, self.strides, self.window, self.dilation, self.padded, strict=True
            )
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Windows) and self._facts == other._facts

    def __hash__(self) -> int:
        return hash(self._facts)

    @property
    def has_padding(self) -> bool:
        """Whether any axis is padded."""
        return self.padded != self.sizes

    def pad(self, xp: Any, x: Any, value: Any = 0) -> Any:
        """`x` with `value` around it; `x` itself where nothing is padded."""
        if not self.has_padding:
            return x
        shape = (x.shape[0], *self.padded, x.shape[-1])
        result = xp.full(shape, value, x.dtype) if value else xp.zeros(shape, x.dtype)
        result[self.interior] = x
        return result

    @property
    def overlap(self) -> bool:
        """Whether an element may lie in several windows."""
        return any(
            reach(n, d) > s
            for n, s, d in zip(self.window, self.strides, self.dilation, strict=True)
        )

    @property
    def tiles(self) -> bool:
        """Whether each element of the padded array lies in exactly one window."""
        sizes = tuple(n * k for n, k in zip(self.out, self.window, strict=True))
        # Dilated windows leave elements out, unless they have a single one.
        dense = all(d == 1 or k == 1 for d, k in zip(self.dilation, self.window, strict=True))
        return dense and self.strides == self.window and self.padded == sizes

    @property
    def pointwise(self) -> bool:
        """Whether each window is one element of the array, so that a convolution is a product."""
        return not self.has_padding and all(n == 1 for n in self.window)

    @property
    def interior(self) -> tuple[Any, ...]:
        """Index of the array inside its padded copy."""
        spatial = tuple(slice(a, a + n) for n, (a, _) in zip(self.sizes, self.pads, strict=True))
        return (slice(None), *spatial)

    def view(self, xp: Any, padded: Any) -> Any:
        """All windows of a padded array as a view (batch, out..., window..., channels)."""
        batch, *space, channel = padded.strides
        moved = [s * n for s, n in zip(space, self.strides, strict=True)]
        inside = [s * n for s, n in zip(space, self.dilation, strict=True)]
        # A view that reaches beyond the array would read whatever lies there.
        if padded.shape[1:-1] != self.padded or not self._fits:
            raise ValueError(
                f"windows {self.window} by {self.strides}, elements {self.dilation} apart, do not "
                f"fit an array of sizes {padded.shape[1:-1]}"
            )
        return xp.lib.stride_tricks.as_strided(
            padded,
            shape=(padded.shape[0], *self.out, *self.window, padded.shape[-1]),
            strides=(batch, *moved, *inside, channel),
        )

    def offset(self, position: Sequence[int]) -> tuple[Any, ...]:
        """Index into a padded array of what the element at `position` of all windows sees."""
        spatial = tuple(
            # The end is right behind the last element: a later one may be outside of the array.
            slice(p * d, p * d + (n - 1) * s + 1, s)
            for p, d, n, s in zip(position, self.dilation, self.out, self.strides, strict=True)
        )
        return (slice(None), *spatial)


placed = lru_cache(maxsize=CALLS)(Windows)
"""`Windows` of the same facts, made once."""
