"""Calling the user's functions on elements, and finding out what they give."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from threading import get_ident
from typing import Any

from trainkit.core import devices, nest
from trainkit.core.dispatch import eval_shape, trace_state
from trainkit.core.shapes import Spec
from trainkit.core.tensor import convert_to_tensor, is_tensor
from trainkit.core.tensor_spec import TensorSpec
from trainkit.data import structure
from trainkit.data.node import DatasetOp, Leaves, Piped, Stage
from trainkit.data.pass_draws import PassDraws
from trainkit.ops.sampling.generators import DRAWS, DrawsOfThread

_ON_CPU = devices.device(devices.CPU)


def _heard() -> bool:
    """Whether a tape or a trace of this thread would notice operations."""
    if trace_state.THREAD.traces:
        return True
    thread = get_ident()
    return any(tape.thread == thread for tape in trace_state.TAPES)


PASS = DrawsOfThread()
"""The draws of the pass that this thread is making elements for."""


def in_pass(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, to be called in another thread, for the pass that this thread is at."""
    draws = PASS.draws

    def call(*args: Any) -> Any:
        before, PASS.draws = PASS.draws, draws
        try:
            return function(*args)
        finally:
            PASS.draws = before

    return call


class InnerStage(Piped):
    """A pass over a data set that an element made, whose functions have draws of their own."""

    def __init__(self, source: Stage, number: int) -> None:
        super().__init__(source)
        self.number = number
        self._draws: tuple[Any, Any] = (None, None)  # of the pass around it, of this one

    def next(self) -> Leaves:
        outer = PASS.draws
        if self._draws[0] is not outer:
            self._draws = (outer, outer and outer.inside(self.number))
        PASS.draws = self._draws[1]
        try:
            return self.source.next()
        finally:
            PASS.draws = outer


class Caller:
    """A user's function with the structure of what it takes and gives.

    It runs on the CPU, and neither tapes nor graphs being traced see it.

    Args:
        function: called with the components of a tuple, or with the element itself.
        source: gives the elements.
        extra: template of an argument that comes before the element.
    """

    def __init__(self, function: Callable[..., Any], source: DatasetOp, extra: Any = None) -> None:
        if not callable(function):
            raise TypeError(f"a function of an element is needed, got {function!r}")
        self.function, self.source, self.extra = function, source, extra
        self._pack: Callable[[Leaves], Any] | None = None
        self._given: Any = None
        self._size = 0

    def arguments(self, element: Any) -> tuple[Any, ...]:
        """The positional arguments for one element."""
        if self.extra is not None:
            return tuple(element)
        return element if type(element) is tuple else (element,)

    def __call__(self, leaves: Leaves, number: int | None = None) -> Any:
        """The function's result for one element."""
        if self._pack is None:
            inner = self.source.template()
            self._pack = structure.packer(inner if self.extra is None else (self.extra, inner))
        arguments = self.arguments(self._pack(structure.tensors(leaves)))
        draws = PASS.draws or PassDraws()
        before = DRAWS.draws
        DRAWS.draws = draws.shared if number is None else draws.of_element(number)
        try:
            if _heard():
                with ExitStack() as stack:
                    stack.enter_context(trace_state.silence())
                    stack.enter_context(eval_shape.eagerly())
                    stack.enter_context(trace_state.acting_for_graph())
                    stack.enter_context(_ON_CPU)
                    return self.function(*arguments)
            with _ON_CPU, trace_state.acting_for_graph():
                return self.function(*arguments)
        finally:
            DRAWS.draws = before

    def flat(self, leaves: Leaves, number: int | None = None) -> Leaves:
        """The leaves of the function's result; it must have the same structure each time."""
        result = as_element(self(leaves, number))
        leaves_out = structure.flat(result)
        if self._given is None:
            self._given, self._size = structure.template_of(result), len(leaves_out)
        elif len(leaves_out) != self._size:
            raise ValueError(
                f"the function gave an element of {len(leaves_out)} components, "
                f"{structure.template_of(result)}, "
                f"after elements of {self._size}, {self._given}"
            )
        return leaves_out

    def template(self, spec: Callable[[], Any] | None = None) -> Any:
        """The structure of what the function gives.

        Args:
            spec: gives its spec, where the function takes more than an element of the source.
        """
        if self._given is None:
            self._given = structure.template_of((spec or self.spec)())
            self._size = len(nest.flatten(self._given))
        return self._given

    def spec(self) -> Any:
        """The spec of what the function gives for an element of the source."""
        return self.spec_after(self.source.spec())

    def spec_after(self, *specs: Any) -> Any:
        """The spec of what the function gives for such arguments.

        Found by running it on symbols. A function that needs values runs on one element instead; of
        its results only rank and dtype are taken to hold for all.
        """
        element = specs if self.extra is not None else specs[0]
        try:
            return self._symbolic(element)
        except Exception:  # whatever it is, the real call below shows the real error
            return self._try(element)

    def _symbolic(self, element: Any) -> Any:
        templates: list[Any] = []

        def run(*arguments: Any) -> tuple[Any, ...]:
            result = as_element(self.function(*arguments))
            templates.append(structure.template_of(result))
            return tuple(_leaves(result))

        symbols = nest.map_structure(_core_spec, element)
        # what is traced now serves the passes, too
        before, DRAWS.draws = DRAWS.draws, PassDraws().shared
        try:
            with _ON_CPU:
                specs = eval_shape.result_specs(run, *self.arguments(symbols))
        finally:
            DRAWS.draws = before
        return nest.pack(templates[0], [_public_spec(s) for s in specs])

    def _try(self, element: Any) -> Any:
        result = as_element(self(self.example(element)))
        specs = [structure.spec_of_leaf(leaf) for leaf in structure.flat(result)]
        spec = nest.pack(structure.template_of(result), specs)
        input_specs = nest.flatten(element)
        open_ranks = any(isinstance(s, TensorSpec) and s.rank is None for s in input_specs)
        return structure.loose(spec, known_ranks=not open_ranks)

    def example(self, element: Any) -> Leaves:
        """Leaves that fit the spec `element`: those of a first row, or made up."""
        rows = self.source.rows() if self.extra is None else None
        if rows is not None and rows.count:
            return rows.row(0)
        return [structure.example_leaf(s) for s in nest.flatten(element)]


def as_element(result: Any) -> Any:
    """What a function gave as an element: a list of several components is a tuple of them."""
    return tuple(result) if type(result) is list else result


def _leaves(result: Any) -> list[Any]:
    """Components of a result with symbols in it."""
    return [
        leaf
        if leaf is None or is_tensor(leaf) or hasattr(leaf, "node")
        else convert_to_tensor(leaf)
        for leaf in nest.flatten(result, _above_components)
    ]


def _above_components(x: Any) -> nest.Container | None:
    """How a result is taken apart: a list is one tensor."""
    return nest.container(x) if isinstance(x, dict | tuple) else None


def _core_spec(spec: Any) -> Any:
    if isinstance(spec, structure.NoneTensorSpec):
        return None
    if not isinstance(spec, TensorSpec) or spec.rank is None:
        raise TypeError("a data set has no symbol, nor has a tensor of unknown rank")
    return Spec(spec.shape, spec.dtype)


def _public_spec(spec: Any) -> Any:
    if isinstance(spec, Spec):
        return TensorSpec(spec.shape, spec.dtype)
    return structure.spec_of_leaf(spec)
