"""`next(iterator)` in a function that is traced: an operation that takes an element at each run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.eval_shape import eagerly
from trainkit.core.dispatch.facets import MESSAGE, Effect, one_by_one
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import OutOfRangeError, UnimplementedError
from trainkit.core.shapes import Spec, TensorShape
from trainkit.core.tensor_spec import TensorSpec


class ElementSource:
    """What elements come from, as a setting of the operation.

    Args:
        take: gives the next element, a nest of eager tensors, or raises `StopIteration`.
        element_spec: structure, shapes and dtypes of an element.

    Raises:
        UnimplementedError: elements are not made of tensors alone.
    """

    def __init__(self, take: Callable[[], Any], element_spec: Any) -> None:
        leaves = nest.flatten(element_spec)
        if not all(isinstance(leaf, TensorSpec) for leaf in leaves):
            raise UnimplementedError(
                f"an iterator in a traced function gives tensors, its elements are {element_spec}; "
                "take elements outside of the function, and give them to it"
            )
        self.take = take
        self.specs = tuple(Spec(leaf.shape, leaf.dtype) for leaf in leaves)

    def arrays(self, xp: Any) -> tuple[Any, ...]:
        """The next element as arrays.

        Raises:
            OutOfRangeError: there is none.
            ValueError: it has another shape than the spec says.
        """
        with eagerly(), trace_state.silence():
            try:
                element = self.take()
            except StopIteration:
                raise OutOfRangeError("the data set has no further element") from None
        leaves = [getattr(leaf, "_array", leaf) for leaf in nest.flatten(element)]
        for array, spec in zip(leaves, self.specs, strict=True):
            if not TensorShape(spec.shape).is_compatible_with(array.shape):
                raise ValueError(f"an element has shape {array.shape}, its spec {spec.shape}")
        return tuple(leaves)

    def __repr__(self) -> str:
        return "iterator"


def _specs(*inputs: Any, source: ElementSource) -> tuple[Spec, ...]:
    return source.specs


@primitive(
    _specs, effect=Effect("it takes an element of a data set", runs_python=True), semantics=MESSAGE
)
def iterator_get_next(xp: Any, *, source: ElementSource) -> tuple[Any, ...]:
    """Take the next element of an iterator, as a tuple of its tensors."""
    return source.arrays(xp)


iterator_get_next.declare(batch=one_by_one("each item takes an element"))


class PassStart:
    """What begins a pass, as a setting of the operation."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self.begin = begin

    def __repr__(self) -> str:
        return "iterator"


@primitive(
    lambda *inputs, start: (),
    effect=Effect("it begins a pass over a data set", runs_python=True),
    semantics=MESSAGE,
)
def iterator_begin(xp: Any, *, start: PassStart) -> tuple[Any, ...]:
    """Begin a pass over a data set, from which `iterator_get_next` takes."""
    with eagerly(), trace_state.silence():
        start.begin()
    return ()


iterator_begin.declare(batch=one_by_one("each item begins a pass"))


def begun_later(begin: Callable[[], None]) -> None:
    """Let `begin` be called when the graph that is being traced runs."""
    trace_state.current_trace().apply(iterator_begin.primitive, (), {"start": PassStart(begin)})


def taken_later(take: Callable[[], Any], element_spec: Any) -> Any:
    """The element that `take` gives when the graph that is being traced runs, as symbols."""
    settings = {"source": ElementSource(take, element_spec)}
    symbols = trace_state.current_trace().apply(iterator_get_next.primitive, (), settings)
    return nest.packer(element_spec)(list(symbols))
