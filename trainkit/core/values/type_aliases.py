"""What arguments may be, by a name each: `tk.types` shows them to users, for annotations.

Nothing of trainkit is imported for them at run time, so every file may name them. Those whose names
are public, as `tk.initializers`, do so under `if TYPE_CHECKING:`, or the aliases would be listed
among them. Each accepts what the functions accept at run time. `Padding` and `DataFormat` are for
the signatures of users: those of trainkit take any `str`, as a word that a variable holds is no
error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, TypeAlias, Union

import numpy as np

if TYPE_CHECKING:
    from trainkit.core.dtypes import DType
    from trainkit.core.tensor import Tensor
    from trainkit.core.variable import Variable
    from trainkit.ops.sampling.generators import Generator
    from trainkit.ops.sampling.source_draws import DrawSource


class SupportsArray(Protocol):
    """What gives a NumPy array of itself: arrays, tensors, variables, tables of pandas."""

    def __array__(self) -> Any:
        """The values."""


class SupportsTensor(Protocol):
    """What gives a tensor of itself, as `IndexedSlices` do."""

    def __tensor__(self) -> Any:
        """The values."""


TensorLike: TypeAlias = Union[
    "Tensor",
    "Variable",
    SupportsArray,
    SupportsTensor,
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    Sequence["TensorLike"],
]
"""A tensor, or what becomes one: numbers, text, arrays, variables, and lists of these."""

Leaf: TypeAlias = Union["Tensor", "Variable", SupportsArray, bool, int, float, complex]
"""One value of a nest, which becomes one tensor."""

DTypeLike: TypeAlias = Union["DType", "np.dtype[Any]", str, type[Any]]
"""An element type, or what names one: `tk.float32`, `"float32"`, `np.float32`, `float`.

The numbers of TensorFlow's list of types are none of these, though they work: `tk.zeros(2, 3)` is a
slip of the hand, in place of `tk.zeros((2, 3))`, and so an error in editors.
"""

Shape: TypeAlias = Union["Tensor", "Variable", SupportsArray, SupportsIndex, Sequence[Any]]
"""Sizes of axes: a sequence of ints, `None` for sizes that are not known, or a tensor of ints."""

Axis: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
"""One axis or several; those from the end are negative."""

Seed: TypeAlias = Union[SupportsIndex, SupportsArray, Sequence[Any], "Generator", "DrawSource"]
"""What makes draws repeatable: a number or two, or a generator that goes on at each call."""

Padding: TypeAlias = Literal["valid", "same", "VALID", "SAME"]
"""How the borders of windows are treated."""

WindowPadding: TypeAlias = str | tuple[Any, ...] | list[Any]
"""Such a word, or a pair (before, after) for each axis."""

DataFormat: TypeAlias = Literal["channels_last", "channels_first"]
"""Where Keras's layers have the channels."""

ActivationLike: TypeAlias = str | Callable[..., Any] | Mapping[str, Any]
InitializerLike: TypeAlias = str | Callable[..., Any] | Mapping[str, Any]
RegularizerLike: TypeAlias = str | Callable[..., Any] | Mapping[str, Any]
ConstraintLike: TypeAlias = str | Callable[..., Any] | Mapping[str, Any]
"""A function or an object that is called, its name, or its config."""
