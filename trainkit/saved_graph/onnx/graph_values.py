"""`Value`: a tensor of an ONNX graph while it is written."""

from __future__ import annotations

from typing import Any

Dims = tuple[Any, ...]


class Value:
    """A tensor by its name, or by its values where these are known.

    Attributes:
        owner: the `GraphBuilder` whose nodes make it.
        shape: sizes, `None` where not known.
        dtype: trainkit's name of it.
        name: in the ONNX graph; `None` until it is needed there.
        channels_first: the name of its transposed twin (batch, channels, spatial...), `None` until
            one is needed. What windows give has this name alone, so that two transpositions are
            not written where they undo each other.
        array: the values, where these are known.
        label: what to call it.
        source: the inputs and the activation of the `dense` that it comes from, if any, which
            recurrent layers take over.
        last_step: of the states of a recurrent layer, the value after the last step, where that
            is all that an ONNX node gives.
        parts: of complex numbers, which ONNX does not have, the real value (..., 2) of their real
            and imaginary parts.
    """

    __slots__ = (
        "array",
        "channels_first",
        "dtype",
        "label",
        "last_step",
        "name",
        "owner",
        "parts",
        "shape",
        "source",
    )

    def __init__(
        self,
        owner: Any,
        shape: Dims,
        dtype: str,
        name: str | None = None,
        *,
        channels_first: str | None = None,
        array: Any = None,
        label: str = "",
        parts: Value | None = None,
    ) -> None:
        self.owner = owner
        self.shape = tuple(shape)
        self.dtype = dtype
        self.name = name
        self.channels_first = channels_first
        self.array = array
        self.label = label
        self.source: Any = None
        self.last_step: Value | None = None
        self.parts = parts

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def is_known(self) -> bool:
        """Whether its values are known."""
        return self.array is not None

    @property
    def is_transposed(self) -> bool:
        """Whether only its transposed twin is there."""
        return self.channels_first is not None and self.name is None

    def __repr__(self) -> str:
        return f"<Value {self.name or self.channels_first or 'known'} {self.dtype}{self.shape}>"


def to_first(rank: int) -> list[int]:
    """The axes of (batch, spatial..., channels) in the order (batch, channels, spatial...)."""
    return [0, rank - 1, *range(1, rank - 1)]


def to_last(rank: int) -> list[int]:
    """The axes of (batch, channels, spatial...) in the order (batch, spatial..., channels)."""
    return [0, *range(2, rank), 1]


def axis_in_first(axis: int, rank: int) -> int:
    """Where an axis of (batch, spatial..., channels) stands with channels first."""
    return to_first(rank).index(axis % rank)


def broadcast_dims(*shapes: Dims) -> Dims:
    """The shape to which shapes broadcast, as far as it is known."""
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(_broadcast_size(sizes) for sizes in zip(*padded, strict=True))


def _broadcast_size(sizes: tuple[Any, ...]) -> int | None:
    larger = [n for n in sizes if n is not None and n != 1]
    if larger:
        return int(larger[0])
    return None if None in sizes else 1
