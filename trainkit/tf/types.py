"""`tk.types`: types for annotations, and how objects say what they are traced as."""

from __future__ import annotations

import abc
from types import SimpleNamespace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from trainkit.core.tensor import Tensor
from trainkit.core.variable import Variable
from trainkit.graph.concrete import ConcreteFunction
from trainkit.graph.function import Function


class TraceType(abc.ABC):
    """What an object counts as in the signature of a call of a traced function.

    An object gives its own by `__tf_tracing_type__`; calls with objects of equal types share a
    graph, for which the first of them was used.
    """

    @abc.abstractmethod
    def is_subtype_of(self, other: Any) -> bool:
        """Whether a graph made for `other` serves this, too."""

    @abc.abstractmethod
    def most_specific_common_supertype(self, others: Any) -> Any:
        """The narrowest type that serves this and `others`, or `None`."""

    @abc.abstractmethod
    def placeholder_value(self, placeholder_context: Any) -> Any:
        """What stands for the object while a graph is made."""

    @abc.abstractmethod
    def __hash__(self) -> int: ...

    @abc.abstractmethod
    def __eq__(self, other: object) -> bool: ...


@runtime_checkable
class SupportsTracingProtocol(Protocol):
    """An object that says what it counts as."""

    def __tf_tracing_type__(self, context: Any) -> TraceType:
        """Its type in the signature of a call."""


TensorLike = (
    Tensor | Variable | bool | int | float | complex | str | bytes | tuple | list | np.ndarray
)

experimental = SimpleNamespace(
    TraceType=TraceType,
    SupportsTracingProtocol=SupportsTracingProtocol,
    TensorLike=TensorLike,
    ConcreteFunction=ConcreteFunction,
    PolymorphicFunction=Function,
    GenericFunction=Function,
)
