"""Functions whose result depends on values that a graph being traced does not have yet.

How many different numbers a tensor holds, or a piece whose size is itself a tensor: such a call
becomes one node, which runs the function on the values each time the graph runs. Gradients go
through it: the node of the gradient runs the function again, under a tape.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.eval_shape import eagerly
from trainkit.core.dispatch.facets import CONTROL, one_by_one
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec, TensorShape
from trainkit.core.string_tensor import string_results
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.python_signatures import signature_of

P = ParamSpec("P")
R = TypeVar("R")
Bound = dict[str, Any]
AsData = tuple[Any, dict[str, Any]] | None


class Call:
    """A function as a setting of `with_values`.

    Args:
        name: what listings and errors call it.
        function: takes the tensors, and gives a nest of tensors.
        specs: of these, flat.
        data: gives an operation and its settings that do the same, or `None`; a file of graphs
            holds these in place of the call, as they are when it is saved.
        arguments: all arguments by name, where tensors stand as the numbers of inputs.
        origin: module and name of the function that was called.
        constants: numbers of the inputs that the function reads as values, where a tape ends.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        specs: Sequence[Spec],
        data: Callable[[], AsData] | None = None,
        arguments: Bound | None = None,
        origin: tuple[str, str] | None = None,
        constants: Collection[int] = (),
    ) -> None:
        self.origin = origin
        self.constants = frozenset(constants)
        self._arguments = arguments
        self.name = name
        self.function = function
        self.specs = tuple(specs)
        self._data = data

    def __repr__(self) -> str:
        return self.name

    def as_data(self) -> AsData:
        """An operation and its settings that do the same, `None` where there is none."""
        return None if self._data is None else self._data()

    def bound(self, inputs: Sequence[Any]) -> Bound | None:
        """The arguments by name, these in the place of tensors; `None` if they are not known."""
        return None if self._arguments is None else _fill_templates(self._arguments, inputs)

    def results(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The results, flat."""
        return [convert_to_tensor(y) for y in nest.flatten(self.function(*tensors))]


def _rule(*inputs: Any, call: Call) -> tuple[Spec, ...]:
    return call.specs


@primitive(_rule, name="with_values", semantics=CONTROL, text="beside numbers")
def with_values(xp: Any, *arrays: Any, call: Call) -> tuple[Any, ...]:
    """Run a function of tensors whose result has a shape that no rule knows before."""
    with eagerly(), trace_state.silence():
        results = call.results([string_results(a) for a in arrays])
    for y, spec in zip(results, call.specs, strict=True):
        if y.dtype != spec.dtype or not TensorShape(spec.shape).is_compatible_with(y.shape):
            raise InvalidArgumentError(
                f"{call.name}: gave {tuple(y.shape)} {y.dtype.name}, the graph was made for "
                f"{tuple(spec.shape)} {spec.dtype.name}"
            )
    return tuple(y._array for y in results)


with_values.primitive.passes_errors = True
with_values.declare(batch=one_by_one("sizes of its results depend on values"))


@with_values.joint_gradient
def _gradient(g: Any, y: Any, *inputs: Any, call: Call) -> list[Any]:
    return gradient_of_call(g, inputs, call)


def gradient_of_call(g: Any, inputs: Sequence[Any], call: Call) -> list[Any]:
    """The gradients of the inputs of a call, `None` where there is none: it runs under a tape."""
    backward = BackwardCall(call, inputs)
    if not backward:
        return [None] * len(inputs)
    gradients: Any = with_values(*backward.upstream(g), *inputs, call=backward)
    return backward.by_input(gradients)


def is_smooth(dtype: Any) -> bool:
    """Whether values of this dtype have gradients."""
    return bool(dtype.is_floating or dtype.is_complex)


class BackwardCall(Call):
    """The gradients of a call's inputs, as a call on those of its results and the inputs.

    False where no result, or no input, has gradients.

    Attributes:
        smooth: which results have gradients.
        positions: of the inputs that have gradients.
    """

    def __init__(self, call: Call, inputs: Sequence[Any]) -> None:
        self._call = call
        self._input_count = len(inputs)
        self.smooth = [is_smooth(spec.dtype) for spec in call.specs]
        self.positions = [
            i for i, x in enumerate(inputs) if is_smooth(x.dtype) and i not in call.constants
        ]
        specs = [Spec(inputs[i].shape, inputs[i].dtype) for i in self.positions]
        super().__init__(f"{call.name}_gradient", self._run, specs)

    def __bool__(self) -> bool:
        return any(self.smooth) and bool(self.positions)

    def upstream(self, g: Sequence[Any]) -> list[Any]:
        """The gradients of the results that have one, of those of all results."""
        return [gx for gx, has_gradient in zip(g, self.smooth, strict=True) if has_gradient]

    def by_input(self, gradients: Sequence[Any]) -> list[Any]:
        """For each input of the call its gradient, `None` where there is none."""
        by_position = dict(zip(self.positions, gradients, strict=True))
        return [by_position.get(i) for i in range(self._input_count)]

    def _run(self, *tensors: Tensor) -> list[Tensor]:
        count = sum(self.smooth)
        upstream, inputs = tensors[:count], tensors[count:]
        sources = [inputs[i] for i in self.positions]
        tape = trace_state.new_tape()
        with tape:
            for source in sources:
                tape.watch(source)
            results = [y for y in self._call.results(inputs) if is_smooth(y.dtype)]
        grads: list[Tensor] = tape.gradient(
            results, sources, list(upstream), unconnected_gradients="zero"
        )
        return grads


class _Place:
    """Stands for the input of that number in the arguments that a call keeps."""

    def __init__(self, number: int) -> None:
        self.number = number


def _fill_templates(templates: Bound, inputs: Sequence[Any]) -> Bound:
    def value(leaf: Any) -> Any:
        return inputs[leaf.number] if isinstance(leaf, _Place) else leaf

    return {name: nest.map_structure(value, x) for name, x in templates.items()}


def later(
    function: Callable[..., Any],
    bound: Bound,
    specs: Any,
    name: str | None = None,
    data: Callable[[Bound], AsData] | None = None,
    constants: Collection[str] = (),
) -> Any:
    """Call `function` when the graph that is being traced runs.

    Args:
        function: made of operations.
        bound: its arguments by name; tensors anywhere inside become inputs of the node.
        specs: nest of `Spec`s, like the result.
        name: what listings and errors call it; by default the function's own.
        data: from all arguments to an operation and its settings that do the same.
        constants: names of the arguments that the function reads as values: a tape does not follow
            them eagerly, so they have no gradient in a graph either.

    Returns:
        The results, symbolic, nested like `specs`.
    """
    inputs: list[Tensor] = []
    constant_numbers: list[int] = []

    def place(leaf: Any, is_constant: bool) -> Any:
        if hasattr(type(leaf), "_is_variable"):
            leaf = leaf._read()
        if not isinstance(leaf, Tensor):
            return leaf
        inputs.append(leaf)
        number = len(inputs) - 1
        if is_constant:
            constant_numbers.append(number)
        return _Place(number)

    templates = {
        name: nest.map_structure(functools.partial(place, is_constant=name in constants), value)
        for name, value in bound.items()
    }

    def run(*tensors: Tensor) -> Any:
        return function(**_fill_templates(templates, tensors))

    flat = nest.flatten(specs)
    as_data = None if data is None else functools.partial(data, bound)
    origin = (function.__module__, function.__qualname__)
    call = Call(name or function.__name__, run, flat, as_data, templates, origin, constant_numbers)
    results = with_values(*inputs, call=call)
    return nest.pack(specs, list(results))


def needs_values(
    *names: str, gives: Callable[[Bound], Any], data: Callable[[Bound], AsData] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function that has to know the values of the arguments `names`.

    While a graph is traced, a call in which one of them is symbolic becomes a node.

    Args:
        *names: of arguments, which may be nests. No gradient goes through them.
        gives: from all arguments by name to the nest of `Spec`s of the result.
        data: from all arguments to an operation and its settings that do the same for the arrays
            among them, or `None`: what a saved graph has in place of the call.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = signature_of(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if not trace_state.THREAD.traces:
                return function(*args, **kwargs)
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            values = [bound.arguments[name] for name in names]
            if not any(_is_symbolic(x) for x in nest.flatten(values)):
                return function(*args, **kwargs)
            arguments = bound.arguments
            result: R = later(function, arguments, gives(arguments), data=data, constants=names)
            return result

        return call

    return decorate


def is_later(value: Any) -> bool:
    """Whether something in the nest `value` has a value only when the graph being traced runs."""
    return bool(trace_state.THREAD.traces) and any(map(_is_symbolic, nest.flatten(value)))


def _is_symbolic(x: Any) -> bool:
    return isinstance(x, SymbolicTensor) or hasattr(type(x), "_is_variable")


def like(x: Any, dtype: Any = None) -> Spec:
    """The spec of a tensor, or of another element type."""
    x = convert_to_tensor(x)
    return Spec(x.shape, x.dtype if dtype is None else as_dtype(dtype))


def unknown(x: Any, more: int = 0, dtype: Any = None) -> Spec:
    """The spec of a tensor with `more` axes than `x`, all of unknown sizes."""
    x = convert_to_tensor(x)
    return Spec((None,) * (len(x.shape) + more), x.dtype if dtype is None else as_dtype(dtype))


def rows(x: Any, skipped: int = 1) -> Spec:
    """The spec of an unknown number of what is left of `x` without its first axes."""
    x = convert_to_tensor(x)
    return Spec((None, *x.shape[skipped:]), x.dtype)


def concrete(x: Any, op: str) -> Any:
    """The values of a tensor as a NumPy array.

    Raises:
        InvalidArgumentError: it belongs to a graph and has no values yet.
    """
    tensor = convert_to_tensor(x)
    if isinstance(tensor, SymbolicTensor):
        raise InvalidArgumentError(
            f"{op}: works on values, which a graph does not have while it is traced. Call it "
            "outside of tk.function, or through tk.numpy_function."
        )
    return np.asarray(tensor.numpy())
