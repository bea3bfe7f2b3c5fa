"""`RestoredFunction`: several graphs of one function, and which of them serves a call."""

from __future__ import annotations

import inspect
from typing import Any

from trainkit.core import nest
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.variable import Variable
from trainkit.graph.tracing.concrete import ConcreteFunction
from trainkit.graph.tracing.signature import is_tensor_like


class RestoredFunction:
    """A traced function without its Python source: it runs the graphs that there are.

    Args:
        name: of the function.
        signature: the parameters of the Python function, `None` where they are not known.
        graphs: each with whether it takes its tensors one after the other, because it was traced
            for an object that no file holds.
    """

    def __init__(
        self,
        name: str,
        signature: inspect.Signature | None,
        graphs: list[tuple[ConcreteFunction, bool]],
    ) -> None:
        self.name = name
        self.function_signature = signature
        self._graphs = graphs

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables that the graphs read or assign, each once."""
        variables_by_id = {id(v): v for graph, _ in self._graphs for v in graph.variables}
        return tuple(variables_by_id.values())

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        """Those of them that are trainable."""
        return tuple(v for v in self.variables if v.trainable)

    def concrete_functions(self) -> list[ConcreteFunction]:
        """All graphs, in the order in which they were traced."""
        return [graph for graph, _ in self._graphs]

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The graph that a call with these arguments runs.

        Args:
            *args: tensors and Python values; by default there is but one graph.
            **kwargs: the same by name.

        Raises:
            ValueError: no graph takes them.
        """
        if not args and not kwargs and len(self._graphs) == 1:
            return self._graphs[0][0]
        return self._matching_graph(args, kwargs)[0]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph that was traced for arguments of this kind.

        Args:
            *args: tensors, what converts to them, and Python values.
            **kwargs: the same by name.

        Raises:
            ValueError: no graph takes them; the text lists those there are.
        """
        graph, tensors = self._matching_graph(args, kwargs)
        return graph.run(tensors)

    def _matching_graph(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[ConcreteFunction, list[Any]]:
        """The graph for a call, and its tensors."""
        filled: tuple[Any, dict[str, Any]] | None = (args, kwargs)
        if self.function_signature is not None:
            try:
                bound = self.function_signature.bind(*args, **kwargs)
                bound.apply_defaults()
                filled = bound.args, bound.kwargs
            except TypeError:
                filled = None
        if filled is not None:
            for converts in (
                False,
                True,
            ):  # Python numbers are tensors only where nothing else fits
                for graph, one_by_one in self._graphs:
                    tensors = _tensors(graph, one_by_one, filled, converts)
                    if tensors is not None:
                        return graph, tensors
        raise ValueError(self._no_match(args, kwargs))

    def _no_match(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        arguments = [_shown(x) for x in args] + [f"{k}={_shown(x)}" for k, x in kwargs.items()]
        lines = [f"{self.name!r} was saved with no graph for ({', '.join(arguments)})."]
        if not self._graphs:
            lines.append(
                "It has none at all: call it, or give it an input signature, before saving."
            )
        for graph, _ in self._graphs:
            signature, by_name = graph.arguments
            labels = list(graph._labels)
            options = [
                f"{label}={_shown(x)}"
                for label, x in zip(labels, [*signature, *by_name.values()], strict=True)
            ]
            lines.append(f"There is one for ({', '.join(options)})")
        return "\n  ".join(lines)

    def __repr__(self) -> str:
        return f"<RestoredFunction {self.name!r}, {len(self._graphs)} graphs>"


def _shown(x: Any) -> str:
    def word(leaf: Any) -> Any:
        if is_tensor_like(leaf) or hasattr(leaf, "shape"):
            return _Word(f"{getattr(leaf.dtype, 'name', leaf.dtype)}{list(leaf.shape)}")
        return leaf

    return repr(nest.map_structure(word, x))


class _Word(str):
    """A text that is shown without quotes."""

    def __repr__(self) -> str:
        return str(self)


def _tensors(
    graph: ConcreteFunction, one_by_one: bool, call: Any, converts: bool
) -> list[Any] | None:
    """The tensors that a call gives a graph, `None` if it was traced for other arguments."""
    args, kwargs = call
    if one_by_one:
        values = [x for x in nest.flatten((args, kwargs)) if is_tensor_like(x)]
    else:
        try:
            values = graph._list_inputs(args, kwargs)
        except TypeError:
            return None
    inputs = graph.graph.inputs
    if len(values) != len(inputs):
        return None
    tensors = []
    for x, input_tensor in zip(values, inputs, strict=True):
        if not isinstance(x, Tensor):
            if not (converts or is_tensor_like(x)):
                return None
            try:
                x = convert_to_tensor(x, dtype_hint=input_tensor.dtype)
            except (TypeError, ValueError):
                return None
        if x.dtype != input_tensor.dtype or not input_tensor.shape.is_compatible_with(x.shape):
            return None
        tensors.append(x)
    return tensors
