"""Signatures: functions of named tensors that give a dict of tensors, whoever wrote them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from trainkit.core import nest
from trainkit.core.errors import OpError
from trainkit.core.shapes import TensorShape
from trainkit.core.tensor_spec import TensorSpec
from trainkit.graph.ir.graph import GraphTensor
from trainkit.graph.tracing.concrete import AnyRankFunction, ConcreteFunction
from trainkit.graph.tracing.traced_arguments import has_no_rank
from trainkit.saved_graph.restored_function import RestoredFunction

DEFAULT = "serving_default"
RANKS = range(7)
Outputs = list[tuple[str, int]]


class Signature:
    """Graphs of one function, with a name for each tensor that goes in and comes out.

    Called with tensors by name (or one after the other), it gives a dict of tensors.

    Args:
        name: of the signature.
        graphs: one, or one for each rank that its arguments may have; named tensors go in, a list
            of tensors comes out.
        outputs: the names of results, and their places in that list.

    Attributes:
        name: of the signature.
        structured_input_signature: an empty tuple, and a `TensorSpec` for each named argument.
        structured_outputs: a `TensorSpec` for each named result.
    """

    def __init__(self, name: str, graphs: list[ConcreteFunction], outputs: Outputs) -> None:
        self.name = name
        self.graphs = graphs
        self.named_outputs = outputs
        takes: dict[str, list[Any]] = {}
        for graph in graphs:
            for label, x in graph.arguments[1].items():
                takes.setdefault(label, []).append(x)
        self.structured_input_signature = ((), {k: _joint_spec(k, v) for k, v in takes.items()})
        self.structured_outputs = {
            label: _joint_spec(label, [graph.outputs[i] for graph in graphs])
            for label, i in outputs
        }
        self._choice = RestoredFunction(name, None, [(graph, False) for graph in graphs])

    @property
    def variables(self) -> tuple[Any, ...]:
        """The variables that the graphs read or assign."""
        return self._choice.variables

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        """Those of them that are trainable."""
        return tuple(v for v in self.variables if v.trainable)

    @property
    def inputs(self) -> list[GraphTensor]:
        """The symbolic tensors that a call gives values to; of the first graph."""
        return self.graphs[0].inputs

    @property
    def outputs(self) -> list[GraphTensor]:
        """The symbolic tensors that a call gives; of the first graph."""
        return self.graphs[0].outputs

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the graph.

        Args:
            *args: tensors, in the order of `structured_input_signature`.
            **kwargs: tensors by name.

        Raises:
            TypeError: an argument is missing or unknown.
            ValueError: a tensor has another shape or dtype.
        """
        names = list(self.structured_input_signature[1])
        unknown = [key for key in kwargs if key not in names[len(args) :]]
        if unknown or len(args) + len(kwargs) != len(names):
            raise TypeError(
                f"signature {self.name!r} takes {', '.join(names) or 'nothing'}; given are "
                f"{len(args)} arguments by position and {', '.join(kwargs) or 'none'} by name"
            )
        results = self._choice(**dict(zip(names, args, strict=False)), **kwargs)
        return {label: results[position] for label, position in self.named_outputs}

    def __repr__(self) -> str:
        return f"<Signature {self.name}({', '.join(self.structured_input_signature[1])})>"


class SignatureMap(Mapping[str, Signature]):
    """The signatures of a saved model by name; nothing can be assigned to it."""

    def __init__(self, signatures: dict[str, Signature]) -> None:
        self._signatures = signatures

    def __getitem__(self, name: str) -> Signature:
        return self._signatures[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._signatures)

    def __len__(self) -> int:
        return len(self._signatures)

    def __repr__(self) -> str:
        return f"SignatureMap({self._signatures!r})"


def _joint_spec(name: str, tensors: list[Any]) -> TensorSpec:
    """What is known of a tensor in all graphs of a signature."""
    shapes = [TensorShape(x.shape) for x in tensors]
    if len({len(shape) for shape in shapes}) > 1:
        return TensorSpec(None, tensors[0].dtype, name)
    sizes = [ns[0] if len(set(ns)) == 1 else None for ns in zip(*shapes, strict=True)]
    return TensorSpec(sizes, tensors[0].dtype, name)


def signatures_of(root: Any, functions: Any) -> dict[str, Signature]:
    """The signatures to save.

    Args:
        root: the object that is saved; used if none are given.
        functions: `None`, a function or concrete function, or a dict of these by name.

    Raises:
        ValueError: one is no traced function, or gives something else than tensors.
    """
    if functions is None:
        return _default(root)
    if not isinstance(functions, Mapping):
        functions = {DEFAULT: functions}
    signatures = {}
    for name, function in functions.items():
        if not isinstance(name, str):
            raise ValueError(f"saved_model.save: {name!r} is no name of a signature; give a text")
        signatures[name] = _signature(name, function)
    return signatures


def _default(root: Any) -> dict[str, Signature]:
    """What an object is served by if nothing is said.

    A model says it itself; of other objects it is the one function with an input signature.
    """
    own = getattr(root, "_default_signatures", None)
    if own is not None:
        return signatures_of(root, own())
    possible = []
    for function in functions_in(root).values():
        if getattr(function, "input_signature", None) is None and not isinstance(
            function, ConcreteFunction
        ):
            continue
        try:
            signature = _signature(DEFAULT, function)
        except ValueError:  # its results are no signature's: it can be called, not served
            continue
        if signature.named_outputs:
            possible.append(signature)
    return {DEFAULT: possible[0]} if len(possible) == 1 else {}


def functions_in(owner: Any) -> dict[str, Any]:
    """The traced functions among the attributes of an object, methods first, by name."""
    functions = {}
    for kind in reversed(type(owner).__mro__):
        for name, value in vars(kind).items():
            if is_traced(value):
                functions[name] = getattr(owner, name)
            else:
                functions.pop(name, None)  # a class below has another thing under that name
    for name, value in vars(owner).items():
        if is_traced(value):
            functions[name] = value
        else:
            functions.pop(name, None)
    return functions


def is_traced(x: Any) -> bool:
    """Whether `x` is what `tk.function` makes, one of its graphs, or what was loaded of one."""
    kinds = (ConcreteFunction, AnyRankFunction, RestoredFunction)
    return isinstance(x, kinds) or (
        not isinstance(x, type) and hasattr(x, "get_concrete_function") and hasattr(x, "_arguments")
    )


def graphs_of(function: Any) -> list[ConcreteFunction]:
    """All graphs of a traced function; one with an input signature is traced if it never was."""
    if isinstance(function, ConcreteFunction):
        return [function]
    if isinstance(function, RestoredFunction):
        return function.concrete_functions()
    if isinstance(function, AnyRankFunction):
        return _of_ranks(function)
    if function.input_signature is not None:
        signed = function.get_concrete_function()
        if isinstance(signed, AnyRankFunction):
            return _of_ranks(signed)
    traces: list[ConcreteFunction] = function.concrete_functions()
    return traces


def _of_ranks(function: AnyRankFunction) -> list[ConcreteFunction]:
    """Graphs for the ranks that an argument of unknown rank may have.

    Ranks for which the Python function fails have none.

    Raises:
        ValueError: several arguments have no rank, and nothing was traced yet; or no rank works.
    """
    owner = function._function
    free = [x for x in nest.flatten(function.structured_input_signature) if has_no_rank(x)]
    if len(free) > 1:
        traces: list[ConcreteFunction] = owner.concrete_functions()
        if not traces:
            raise ValueError(
                f"saved_model.save: {len(free)} arguments of {function.name!r} are of unknown "
                "rank; call it once for each kind of arguments first, or give shapes"
            )
        return traces
    graphs, failure = [], None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*is being traced for the 5th time", UserWarning)
        for rank in RANKS:
            args, kwargs = nest.map_structure(
                lambda x, n=rank: TensorSpec([None] * n, x.dtype, x.name) if has_no_rank(x) else x,
                function.structured_input_signature,
            )
            try:
                graphs.append(owner.get_concrete_function(*args, **kwargs))
            except (ValueError, TypeError, OpError) as error:
                failure = failure or error
    if not graphs:
        raise ValueError(
            f"saved_model.save: {function.name!r} has a graph for no rank"
        ) from failure
    return graphs


def _signature(name: str, function: Any) -> Signature:
    if isinstance(function, Signature):
        return Signature(name, function.graphs, function.named_outputs)
    if not is_traced(function):
        raise ValueError(
            f"saved_model.save: the signature {name!r} is {function!r}; give a tk.function or one "
            "of its concrete functions"
        )
    graphs = graphs_of(function)
    signed = isinstance(function, ConcreteFunction | AnyRankFunction)
    if not signed and getattr(function, "input_signature", None) is None and len(graphs) != 1:
        raise ValueError(
            f"saved_model.save: the signature {name!r} has {len(graphs)} graphs; give it an input "
            "signature, or give what get_concrete_function makes of it"
        )
    named = [_named(name, graph) for graph in graphs]
    if any(outputs != named[0][1] for _, outputs in named):
        raise ValueError(f"saved_model.save: results of {name!r} depend on the rank of arguments")
    return Signature(name, [graph for graph, _ in named], named[0][1])


def _named(name: str, concrete: ConcreteFunction) -> tuple[ConcreteFunction, Outputs]:
    """The same graph as a function of named tensors, giving a list; and the names of results."""
    inputs = {
        x.node.name: x for x in concrete.inputs[: len(concrete.inputs) - len(concrete.closed)]
    }
    flat = ConcreteFunction(
        concrete.name, concrete.graph, ((), inputs), list(concrete.graph.outputs), list(inputs)
    )
    return flat, _output_names(name, concrete.structured_outputs)


def _output_names(name: str, results: Any) -> Outputs:
    """Names of results and their places among all: keys of a dict, else `output_0` and so on."""
    if results is None:
        return []
    if isinstance(results, GraphTensor):
        return [("output_0", 0)]
    fields = nest.fields_of(results)
    if fields is not None:
        items = [getattr(results, field) for field in fields]
    else:
        items = list(results.values()) if isinstance(results, Mapping) else results
    flat = isinstance(items, list | tuple) and all(isinstance(y, GraphTensor) for y in items)
    keys = list(results) if isinstance(results, Mapping) else None
    if not flat or not all(isinstance(key, str) for key in keys or ()):
        raise ValueError(
            f"saved_model.save: the signature {name!r} gives {results!r}; it has to be a tensor, "
            "a list of tensors, or a dict of tensors by name"
        )
    positions = nest.pack(results, list(range(len(items))))
    if keys is not None:
        return [(key, positions[key]) for key in keys]
    return [(f"output_{i}", i) for i in range(len(items))]
