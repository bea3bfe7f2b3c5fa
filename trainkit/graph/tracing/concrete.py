"""`ConcreteFunction`: one graph of a traced function, and how it is called."""

from __future__ import annotations

import inspect
import re
import threading
from typing import Any

from trainkit.core import dtypes, nest
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import TensorShape
from trainkit.core.string_tensor import string_results
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor, wrap
from trainkit.core.tensor_spec import TensorSpec
from trainkit.core.user_frames import Line
from trainkit.core.values.python_values import short_text
from trainkit.core.variable import Variable
from trainkit.graph.ir.graph import Graph, GraphTensor, replay
from trainkit.graph.ir.watched_tensors import constants_of_parts, smooth_constants
from trainkit.graph.tracing.signature import ById, Place, convert_argument, is_spec, is_tensor_like

_TAPES = trace_state.TAPES
_THREAD = trace_state.THREAD


class ConcreteFunction:
    """One graph of a traced function, for one signature.

    Attributes:
        graph: the graph.
        arguments: positional and named ones, with a symbolic tensor for each tensor.
        structured_outputs: the nest of results, a symbolic tensor for each tensor.
        name: that of the Python function.
    """

    def __init__(
        self, name: str, graph: Graph, arguments: Any, outputs: Any, labels: list[str]
    ) -> None:
        self.name = name
        self.graph = graph
        self.arguments = arguments
        self.structured_outputs = outputs
        self._labels = labels
        leaves = nest.flatten(outputs)
        self._places = [i for i, y in enumerate(leaves) if isinstance(y, GraphTensor)]
        self._leaves = leaves
        self._single = isinstance(outputs, GraphTensor)
        # gives results the structure of the outputs, where nothing else is among these
        self._pack = nest.packer(outputs) if len(self._places) == len(leaves) else None
        self._texts = any(y.dtype is dtypes.string for y in graph.outputs)
        # tensors of the function around that a nested function refers to, given to each run
        self.closed = list(graph.captures)
        # the constants that may have gradients, and those of branches and bodies
        self._constants: list[Tensor] | None = None
        self._constants_of_parts: list[Tensor] | None = None
        # the user's line whose call made the graph
        self.called_at: Line | None = None

    @property
    def structured_input_signature(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and named arguments: a `TensorSpec` for each tensor, Python values as are."""
        args, kwargs = self.arguments
        specs = [
            _named_specs(label, x)
            for label, x in zip(self._labels, [*args, *kwargs.values()], strict=True)
        ]
        return tuple(specs[: len(args)]), dict(zip(kwargs, specs[len(args) :], strict=True))

    @property
    def inputs(self) -> list[GraphTensor]:
        """The symbolic tensors that a call gives values to."""
        return list(self.graph.inputs)

    @property
    def outputs(self) -> list[GraphTensor]:
        """The symbolic tensors that a call gives, flattened."""
        return list(self.graph.outputs)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables that the graph reads or assigns."""
        return tuple(slot.variable for slot in self.graph.slots.values())

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        """Those of them that are trainable."""
        return tuple(v for v in self.variables if v.trainable)

    @property
    def captured_inputs(self) -> list[Any]:
        """What the graph takes besides its arguments: variables, then tensors of a graph around.

        Values of other tensors that the Python function refers to stand in the graph as constants.
        """
        return [*self.variables, *self.closed]

    @property
    def output_dtypes(self) -> Any:
        """The dtypes of the results, nested like them."""
        return nest.map_structure(lambda y: getattr(y, "dtype", None), self.structured_outputs)

    @property
    def output_shapes(self) -> Any:
        """The shapes of the results, nested like them."""
        return nest.map_structure(lambda y: getattr(y, "shape", None), self.structured_outputs)

    @property
    def function_type(self) -> inspect.Signature:
        """The arguments and results: a `TensorSpec` for each tensor, Python values as they are."""
        args, kwargs = self.arguments
        by_name = inspect.Parameter.KEYWORD_ONLY
        kinds = [inspect.Parameter.POSITIONAL_OR_KEYWORD] * len(args) + [by_name] * len(kwargs)
        parameters = [
            inspect.Parameter(re.sub(r"\W+", "_", label).strip("_"), kind, annotation=_specs(x))
            for label, kind, x in zip(self._labels, kinds, [*args, *kwargs.values()], strict=True)
        ]
        return inspect.Signature(parameters, return_annotation=_specs(self.structured_outputs))

    @property
    def inference_fn(self) -> ConcreteFunction:
        """What runs the graph on its tensors, one after the other: this function."""
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph, for the arguments that it was traced for.

        Args:
            *args: the arguments of the Python function, in their structure; or all tensors of the
                graph, one after the other. Python values are part of the graph: they may be left
                out.
            **kwargs: the same by name.

        Raises:
            TypeError: an argument is missing, unknown or nested otherwise, or it is another Python
                value or object than the graph was made for.
            InvalidArgumentError: a tensor has another shape or dtype.
        """
        try:
            flat = self._list_inputs(args, kwargs)
        except TypeError:
            flat = self._one_after_another(args, kwargs)
            if len(flat) != self._count() or not all(map(_fills_a_place, flat)):
                raise
        symbols = self.graph.inputs
        return self.run([_fit(x, symbol, self) for x, symbol in zip(flat, symbols, strict=False)])

    def _count(self) -> int:
        """How many tensors a call gives."""
        return len(self.graph.inputs) - len(self.closed)

    def _one_after_another(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments as tensors for the graph's inputs, by position, then by their names."""
        names = [x.node.name for x in self.graph.inputs[len(args) : self._count()]]
        return [*args, *(kwargs[name] for name in names)] if set(names) == set(kwargs) else []

    def _list_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The tensors for the graph's inputs, in their order, from a call of the function.

        Raises:
            TypeError: the call does not fit the one that was traced.
        """
        return tensors_of_call(self.name, self.arguments, self._labels, args, kwargs)

    def run(self, tensors: list[Any]) -> Any:
        """The results for one tensor per input."""
        if self.closed:
            tensors = tensors + self.closed
        if _THREAD.traces or (_TAPES and self._is_watched(tensors)):
            return self._run_within(tensors)
        return self.run_arrays([t._array for t in tensors])

    def _run_within(self, tensors: list[Any]) -> Any:
        """The same within another trace, or seen by a tape."""
        around: Any = _THREAD.traces[-1] if _THREAD.traces else None
        # a replica of this process gives variables its own values, and runs the program as it is
        if hasattr(type(around), "run_graph") and not (_TAPES and self._is_watched(tensors)):
            return around.run_graph(self, tensors)
        return self._packed(replay(self.graph, tensors))

    def run_arrays(self, arrays: list[Any]) -> Any:
        """The results for one array per input, unseen by tapes."""
        program = self.graph._program or self.graph.program()
        results = program(arrays)
        if self._texts:
            return self._packed([string_results(y) for y in results])
        if self._single:
            return wrap(results[0])
        return self._packed([wrap(y) for y in results])

    def _packed(self, results: list[Any]) -> Any:
        """The graph's outputs replaced by `results`, nested as the function returned them."""
        if self._single:
            return results[0]
        if self._pack is not None:
            return self._pack(results)
        leaves = list(self._leaves)
        for index, y in zip(self._places, results, strict=True):
            leaves[index] = y
        return nest.pack(self.structured_outputs, leaves)

    def reachable(self) -> bool:
        """Whether the tensors around that the graph refers to have a meaning where it is called."""
        trace = _THREAD.traces[-1] if _THREAD.traces else None
        return isinstance(trace, Graph) and all(map(trace.encloses, self.closed))

    def _is_watched(self, tensors: list[Any]) -> bool:
        """Whether a tape of this thread has to see what happens inside."""
        thread = threading.get_ident()
        tapes = [tape for tape in _TAPES if tape.thread == thread]
        if not tapes:
            return False
        if any(slot.variable.trainable for slot in self.graph.slots.values()):
            return True
        if self._constants is None:
            self._constants = smooth_constants(self.graph)
        # Tensors around the function that it refers to have gradients, too.
        return any(t in tape.tracked for tape in tapes for t in (*tensors, *self._constants))

    def has_watched_parts(self) -> bool:
        """Whether a tape of this thread tracks a tensor that a branch or a body refers to."""
        if self._constants_of_parts is None:
            self._constants_of_parts = constants_of_parts(self.graph)
        return any(map(trace_state.follows, self._constants_of_parts))

    def pretty_printed_signature(self, verbose: bool = True) -> str:
        """The arguments and results, a line each."""
        lines = [f"{self.name}({', '.join(self._labels)})"]
        args, kwargs = self.arguments
        rows = list(zip(self._labels, [*args, *kwargs.values()], strict=False))
        lines.append("  Args:" if rows else "  Args: none")
        lines += [f"    {label}: {_describe(value)}" for label, value in rows]
        lines.append("  Returns:")
        returned = nest.map_structure(_describe, self.structured_outputs)
        lines.append(f"    {returned if isinstance(returned, str) else str(returned)}")
        return "\n".join(lines)

    def __reduce__(self) -> Any:
        raise TypeError(
            f"the graph of {self.name!r} can't be copied or pickled; do that with the tk.function "
            "it belongs to, which traces anew"
        )

    def __repr__(self) -> str:
        return f"<ConcreteFunction {self.pretty_printed_signature().splitlines()[0]}>"

    def __str__(self) -> str:
        return f"ConcreteFunction {self.pretty_printed_signature()}"


def _specs(x: Any) -> Any:
    """A nest with a spec in place of each tensor."""
    return nest.map_structure(
        lambda y: TensorSpec.from_tensor(y) if isinstance(y, GraphTensor) else y, x
    )


def _named_specs(label: str, x: Any) -> Any:
    """An argument with a spec in place of each tensor, called after the way to it: `x_s_0`."""
    leaves = [
        TensorSpec.from_tensor(
            y, re.sub(r"\W+", "_", "_".join(map(str, (label, *path)))).strip("_")
        )
        if isinstance(y, GraphTensor)
        else y
        for path, y in nest.flatten_with_path(x)
    ]
    return nest.pack(x, leaves)


def _fills_a_place(x: Any) -> bool:
    return is_tensor_like(x) or isinstance(x, Variable)


def tensors_of_call(
    name: str, signature: Any, labels: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Any]:
    """The tensors that a call gives, in the order of those in the signature.

    Args:
        name: of the function.
        signature: its positional and named arguments, with a symbolic tensor or a spec for each
            tensor.
        labels: what the arguments are called.
        args: given by position.
        kwargs: given by name.

    Raises:
        TypeError: an argument is missing, unknown, nested otherwise, or another Python value.
    """
    positional, by_name = signature
    traced = dict(zip(labels, [*positional, *by_name.values()], strict=True))
    count = sum(map(_is_place, nest.flatten(list(traced.values()))))
    arguments = _by_label(name, labels, args, kwargs, len(positional), count)
    flat: list[Any] = []
    for label, value in traced.items():
        if label in arguments:
            flat += _match(arguments[label], value, f"{name}: {label!r}")
        elif any(map(_is_place, nest.flatten(value))):
            raise TypeError(
                f"{name}: this graph takes {count} tensors ({', '.join(labels)}), {label!r} is "
                "missing"
            )
    return flat


def _by_label(
    name: str, labels: list[str], args: Any, kwargs: Any, positional: int, count: int
) -> dict[str, Any]:
    """The arguments of a call by their labels."""
    if len(args) > positional:
        raise TypeError(
            f"{name}: this graph takes {count} tensors, and by position the arguments "
            f"{', '.join(labels[:positional]) or 'none'}; {len(args)} were given"
        )
    arguments = dict(zip(labels, args, strict=False))
    for key, x in kwargs.items():
        if key not in labels:
            raise TypeError(
                f"{name}: the graph has no argument {key!r}, it has {', '.join(labels) or 'none'}"
            )
        if key in arguments:
            raise TypeError(f"{name}: {key!r} is given twice, by position and by name")
        arguments[key] = x
    return arguments


def _is_place(leaf: Any) -> bool:
    return isinstance(leaf, GraphTensor) or is_spec(leaf)


def _match(x: Any, traced: Any, label: str) -> list[Any]:
    """The tensors in an argument, in the order of those in the traced one.

    Raises:
        TypeError: it is nested otherwise, or holds another Python value or object.
    """
    try:
        parts = nest.flatten_up_to(traced, x)
    except ValueError:
        raise TypeError(
            f"{label}: the graph was made for {_outline(traced)}, given is {_outline(x)}"
        ) from None
    tensors = []
    for part, leaf in zip(parts, nest.flatten(traced), strict=True):
        if _is_place(leaf):
            tensors.append(part)
        elif not _same_value(leaf, part):
            traced_value = leaf.value() if isinstance(leaf, ById) else leaf
            raise TypeError(
                f"{label}: the graph was made for {traced_value!r}, given is {short_text(part)}; "
                "call the tk.function itself, or get_concrete_function for that value"
            )
    return tensors


def _same_value(traced_value: Any, x: Any) -> bool:
    if isinstance(traced_value, ById):
        return traced_value.value() is x
    if is_tensor(x):
        x = x.numpy().item() if x.shape.num_elements() == 1 else x
    return traced_value is x or (
        not is_tensor(x) and (bool(traced_value == x) or (traced_value != traced_value and x != x))
    )


def _outline(x: Any) -> str:
    def word(leaf: Any) -> str:
        return "a tensor" if is_tensor(leaf) else repr(leaf)

    return str(nest.map_structure(word, x)).replace("'", "")


def _fit(x: Any, symbol: GraphTensor, owner: ConcreteFunction) -> Any:
    tensor = x if isinstance(x, Tensor) else convert_argument(x, symbol.dtype)
    if tensor.dtype != symbol.dtype or not symbol.shape.is_compatible_with(tensor.shape):
        raise InvalidArgumentError(
            f"{owner.name}: the graph was made for {symbol.node.name!r} of shape "
            f"{tuple(symbol.shape)} and dtype "
            f"{symbol.dtype.name}, given is shape {tuple(tensor.shape)} and dtype "
            f"{tensor.dtype.name}"
        )
    return tensor


def _describe(value: Any) -> str:
    if isinstance(value, Place | GraphTensor) or is_spec(value):
        return f"{value.dtype.name} Tensor, shape={_dims(value.shape)}"
    return repr(value)


def _dims(shape: Any) -> str:
    return str(tuple(shape))


class AnyRankFunction:
    """What `get_concrete_function` gives for a `TensorSpec` of unknown rank.

    A graph is made for one rank at a time; this chooses, or makes, that for the tensors given.

    Attributes:
        structured_input_signature: positional and named arguments, with their specs.
        name: that of the Python function.
    """

    def __init__(self, function: Any, signature: Any, labels: list[str]) -> None:
        self._function = function
        self._labels = labels
        self.structured_input_signature = signature
        self.name = function._name

    def of(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The graph for the ranks of these tensors."""
        flat = [
            x if isinstance(x, Tensor) else convert_to_tensor(x)
            for x in tensors_of_call(
                self.name, self.structured_input_signature, self._labels, args, kwargs
            )
        ]
        tensors = iter(flat)

        def known(leaf: Any) -> Any:
            if not is_spec(leaf):
                return leaf
            shape, x = TensorShape(leaf.shape), next(tensors)
            return TensorSpec(
                [None] * len(x.shape) if shape.rank is None else shape,
                leaf.dtype,
                getattr(leaf, "name", None),
            )

        positional, by_name = nest.map_structure(known, self.structured_input_signature)
        concrete: ConcreteFunction = self._function.get_concrete_function(*positional, **by_name)
        return concrete

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph for the ranks of these tensors."""
        return self.of(*args, **kwargs)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<AnyRankFunction {self.name}({', '.join(self._labels)})>"
