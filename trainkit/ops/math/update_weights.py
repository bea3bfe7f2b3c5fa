"""`update_weights`: an optimizer's step of many weights as one node of a graph."""

from __future__ import annotations

from typing import Any, Protocol

from trainkit.core.dispatch.facets import CONTROL, Absent, one_by_one
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.shapes import Spec


class Rule(Protocol):
    """What is done to each weight, for arrays, for variables, and as operations of a graph.

    Attributes:
        n_numbers: how many numbers, the same for all weights, an update is called with first.
        n_buffers: how many arrays follow for each weight: weight, gradient and slots.
    """

    n_numbers: int
    n_buffers: int

    def results(self, xp: Any, arrays: Any) -> tuple[Any, ...]:
        """The new weight and slots of each member, as arrays of their own."""

    def bound(self, buffers: list[Any]) -> Any:
        """What writes to variables; see `WeightUpdate.bound`."""

    def as_operations(self, inputs: Any) -> list[Any]:
        """The results by an operation for each step; see `WeightUpdate.as_operations`."""


def _results_like(*inputs: Any, rule: Rule) -> tuple[Spec, ...]:
    """Shape and dtype of each weight and slot, which they keep."""
    arrays = inputs[rule.n_numbers :]
    return tuple(Spec(x.shape, x.dtype) for i, x in enumerate(arrays) if i % rule.n_buffers != 1)


@primitive(
    _results_like,
    name="update_weights",
    semantics=CONTROL,
    lowering=Absent("it is one loop over all weights already"),
    batch=one_by_one("an optimizer steps once"),
    no_gradient=Absent("it is a step of optimizers"),
    export=Absent("saved graphs hold the operations of its rule"),
)
def update_weights(xp: Any, *arrays: Any, rule: Rule) -> tuple[Any, ...]:
    """New values of weights and their slots.

    The arrays are the numbers of the rule, such as the learning rate; then for each weight its
    value, its gradient, and its slots. The results are for each weight its value and its slots. A
    program writes them over the old ones where nobody else holds these.
    """
    return rule.results(xp, arrays)
