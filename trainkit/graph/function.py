"""`function`: a Python function traced into a graph once per signature, and replayed."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import nest, recorder
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import TensorShape
from trainkit.core.source_lines import Line, user_line
from trainkit.core.tensor import (
    SymbolicTensor,
    Tensor,
    convert_to_tensor,
    is_tensor,
    short_text,
    wrap,
)
from trainkit.core.variable import Variable
from trainkit.graph.autograph import converted, with_reason
from trainkit.graph.graph import Graph, GraphTensor, replay
from trainkit.graph.origins import in_user_terms, placed
from trainkit.graph.signature import Arguments, ById, Place, is_spec, is_tensor_like, key_of

_TAPES = recorder.TAPES
_THREAD = recorder.THREAD


class _Switch:
    eagerly = False


_SWITCH = _Switch()


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Let all traced functions run as plain Python (True) or as graphs (False), to debug them."""
    _SWITCH.eagerly = bool(run_eagerly)


def functions_run_eagerly() -> bool:
    """Whether traced functions run as plain Python at present."""
    return _SWITCH.eagerly


class ConcreteFunction:
    """One graph of a traced function, for one signature.

    Attributes:
        graph: the graph.
        structured_outputs: the nest of results, a symbolic tensor for each tensor.
        name: that of the Python function.
    """

    def __init__(
        self, name: str, graph: Graph, arguments: Any, outputs: Any, labels: list[str]
    ) -> None:
        self.name = name
        self.graph = graph
        self.structured_input_signature = arguments
        self.structured_outputs = outputs
        self._labels = labels
        leaves = nest.flatten(outputs)
        self._places = [i for i, y in enumerate(leaves) if isinstance(y, GraphTensor)]
        self._leaves = leaves
        self._single = isinstance(outputs, GraphTensor)
        plain = type(outputs) in (list, tuple) and len(self._places) == len(outputs) == len(leaves)
        self._flat: Any = type(outputs) if plain else None
        # tensors of the function around that a nested function refers to, given to each run
        self.closed = list(graph.captures)
        # the user's line whose call made the graph
        self.called_at: Line | None = None

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
    def output_dtypes(self) -> Any:
        """The dtypes of the results, nested like them."""
        return nest.map_structure(lambda y: getattr(y, "dtype", None), self.structured_outputs)

    @property
    def output_shapes(self) -> Any:
        """The shapes of the results, nested like them."""
        return nest.map_structure(lambda y: getattr(y, "shape", None), self.structured_outputs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph on tensors, by position or by name; Python values are part of the graph."""
        given = list(args) + [kwargs[name] for name in self._labels[len(args) :] if name in kwargs]
        flat = [x for x in nest.flatten(given) if _fills_a_place(x)]
        places = self.graph.inputs[: len(self.graph.inputs) - len(self.closed)]
        if len(flat) != len(places):
            raise TypeError(
                f"{self.name}: this graph takes {len(places)} tensors ({', '.join(self._labels)}), "
                f"{len(flat)} were given"
            )
        return self.run([_fitting(x, place, self) for x, place in zip(flat, places, strict=True)])

    def run(self, tensors: list[Any]) -> Any:
        """The results for one tensor per input."""
        if self.closed:
            tensors = tensors + self.closed
        if _THREAD.traces or (_TAPES and self._is_watched(tensors)):
            results = replay(self.graph, tensors)
        else:
            return self.run_arrays([t._array for t in tensors])
        return self._packed(results)

    def run_arrays(self, arrays: list[Any]) -> Any:
        """The results for one array per input, unseen by tapes."""
        program = self.graph._program or self.graph.program()
        results = program(arrays)
        if self._single:
            return wrap(results[0])
        return self._packed([wrap(y) for y in results])

    def _packed(self, results: list[Any]) -> Any:
        """The graph's outputs replaced by `results`, nested as the function returned them."""
        if self._single:
            return results[0]
        if self._flat is not None:
            return self._flat(results)
        leaves = list(self._leaves)
        for place, y in zip(self._places, results, strict=True):
            leaves[place] = y
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
        return any(t in tape.tracked for tape in tapes for t in tensors)

    def pretty_printed_signature(self, verbose: bool = True) -> str:
        """The arguments and results, a line each."""
        lines = [f"{self.name}({', '.join(self._labels)})"]
        args, kwargs = self.structured_input_signature
        rows = list(zip(self._labels, [*args, *kwargs.values()], strict=False))
        lines.append("  Args:" if rows else "  Args: none")
        lines += [f"    {label}: {_described(value)}" for label, value in rows]
        lines.append("  Returns:")
        returned = nest.map_structure(_described, self.structured_outputs)
        lines.append(f"    {returned if isinstance(returned, str) else str(returned)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<ConcreteFunction {self.pretty_printed_signature().splitlines()[0]}>"

    def __str__(self) -> str:
        return f"ConcreteFunction {self.pretty_printed_signature()}"


def _fills_a_place(x: Any) -> bool:
    return is_tensor_like(x) or isinstance(x, Variable)


def _fitting(x: Any, place: GraphTensor, owner: ConcreteFunction) -> Any:
    tensor = x if isinstance(x, Tensor) else convert_to_tensor(x)
    if tensor.dtype != place.dtype or not place.shape.is_compatible_with(tensor.shape):
        raise InvalidArgumentError(
            f"{owner.name}: the graph was made for {place.node.name!r} of shape "
            f"{tuple(place.shape)} and dtype "
            f"{place.dtype.name}, given is shape {tuple(tensor.shape)} and dtype "
            f"{tensor.dtype.name}"
        )
    return tensor


def _described(value: Any) -> str:
    if isinstance(value, Place | GraphTensor) or is_spec(value):
        return f"{value.dtype.name} Tensor, shape={_dims(value.shape)}"
    return repr(value)


def _dims(shape: Any) -> str:
    return str(tuple(shape))


class Function:
    """What `tk.function` makes of a Python function.

    Attributes:
        python_function: the Python function itself.
        input_signature: the nest of `TensorSpec`s it was made with, or `None`.
    """

    def __init__(
        self,
        python_function: Callable[..., Any],
        input_signature: Any = None,
        autograph: bool = True,
        jit_compile: bool | None = None,
        reduce_retracing: bool = False,
        verify: int = 0,
        name: str | None = None,
    ) -> None:
        self.python_function = python_function
        self.input_signature = None if input_signature is None else tuple(input_signature)
        self._autograph = autograph
        self._jit_compile = jit_compile
        self._reduce_retracing = reduce_retracing
        self._verify = verify
        self._arguments = Arguments(python_function)
        self._concrete: dict[Any, ConcreteFunction] = {}
        self._history: list[tuple[Any, Any]] = []
        self._lock = threading.RLock()
        self._traces = 0
        self._instance: Callable[[], Any] | None = None
        # graphs for calls with tensors alone, by their shapes and NumPy's numbers of their dtypes
        self._ready: dict[Any, ConcreteFunction] = {}
        self._tracing: list[Any] = []
        self._bound: weakref.WeakKeyDictionary[Any, Function] = weakref.WeakKeyDictionary()
        self._name: str = name or str(getattr(python_function, "__name__", "function"))
        functools.update_wrapper(self, python_function)

    # ------------------------------------------------------------------ methods

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A method: each instance has graphs of its own."""
        if instance is None:
            return self
        try:
            bound = self._bound.get(instance)
            if bound is None:
                bound = self._bound[instance] = self._for_instance(weakref.ref(instance))
        except TypeError:  # the instance can't be referred to weakly, or not be hashed
            bound = self._for_instance(lambda: instance)
        return BoundFunction(bound, instance)

    def _for_instance(self, reference: Callable[[], Any]) -> Function:
        function = self.python_function
        signature = inspect.signature(function)
        rest = list(signature.parameters.values())[1:]

        @functools.wraps(function)
        def method(*args: Any, **kwargs: Any) -> Any:
            called = converted(function) if _THREAD.traces and self._autograph else function
            return called(reference(), *args, **kwargs)

        method.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        method._do_not_convert = True  # type: ignore[attr-defined]
        bound = Function(
            method,
            self.input_signature,
            self._autograph,
            self._jit_compile,
            self._reduce_retracing,
            self._verify,
            self._name,
        )
        bound._instance = reference
        return bound

    def bound_to(self) -> tuple[Any, ...]:
        """The object whose method this is, or nothing."""
        return () if self._instance is None else (self._instance(),)

    # ------------------------------------------------------------------ calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph for these arguments; make it first if there is none."""
        if self._ready and not (kwargs or _TAPES or _THREAD.traces or _SWITCH.eagerly):
            try:  # tensors alone, of shapes and dtypes seen before
                arrays = [x._array for x in args]
                known = self._ready.get(tuple([(a.shape, a.dtype.num) for a in arrays]))
            except AttributeError:
                known = None
            if known is not None:
                return known.run_arrays(arrays)
        if _SWITCH.eagerly:
            return self.python_function(*args, **kwargs)
        args, kwargs = self._arguments.canonical(args, kwargs)
        if self.input_signature is not None:
            args, kwargs = self._signed(args, kwargs)
        key = self._key(args, kwargs)
        concrete = self._concrete.get(key)
        if concrete is None or (concrete.closed and not concrete.reachable()):
            concrete = self._concrete_for(key, args, kwargs)
        if self._verify:
            return self._verified(concrete, args, kwargs)
        if not (kwargs or concrete.closed) and all(type(x) is Tensor for x in args):
            self._ready[tuple([(x._array.shape, x._array.dtype.num) for x in args])] = concrete
        return concrete.run(_tensors_in(args, kwargs))

    @staticmethod
    def _key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        key = tuple([key_of(x) for x in args])
        if kwargs:
            key = (*key, tuple((k, key_of(v)) for k, v in sorted(kwargs.items())))
        return key

    def _signed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Arguments converted to the input signature.

        Raises:
            TypeError: they don't fit it.
        """
        assert self.input_signature is not None
        specs = self.input_signature
        given = [*args, *kwargs.values()]
        if len(given) < len(specs):
            raise TypeError(
                f"{self._name}: the input signature has {len(specs)} arguments, {len(given)} "
                "were given"
            )
        names = self._arguments.names
        ready = [
            self._fitted(x, spec, names[min(i, len(names) - 1)])
            for i, (x, spec) in enumerate(zip(given, specs, strict=False))
        ]
        return (*ready, *given[len(specs) :]), {}

    def _fitted(self, x: Any, spec: Any, name: str) -> Any:
        """One argument as its part of the input signature asks for it, nested like that."""
        if nest.is_nested(spec):
            try:
                # the leaves of the signature may stand for lists
                return nest.map_structure(lambda s, v: self._fitted(v, s, name), spec, x)
            except ValueError:
                raise TypeError(
                    f"{self._name}: the input signature asks for {name!r} nested as {spec!r}, "
                    f"given is {short_text(x)}"
                ) from None
        try:
            known = is_spec(x) or isinstance(x, Tensor)
            tensor = x if known else convert_to_tensor(x, dtype_hint=spec.dtype)
        except ValueError as error:
            raise TypeError(f"{self._name}: {name!r}: {error}") from None
        fits = TensorShape(spec.shape).is_compatible_with(tensor.shape)
        if tensor.dtype != spec.dtype or not fits:
            raise TypeError(
                f"{self._name}: the input signature asks for {name!r} of shape "
                f"{tuple(spec.shape)} and dtype "
                f"{spec.dtype.name}, given is shape {tuple(tensor.shape)} and dtype "
                f"{tensor.dtype.name}; convert it, "
                "or widen the signature with None"
            )
        return tensor

    # ------------------------------------------------------------------ tracing

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The graph for arguments of this kind, traced if there is none; nothing is run.

        Args:
            *args: tensors, `TensorSpec`s in their place, and Python values.
            **kwargs: the same by name.
        """
        if self.input_signature is not None and not args and not kwargs:
            args = self.input_signature
        args, kwargs = self._arguments.canonical(args, kwargs)
        if self.input_signature is not None:
            args, kwargs = self._signed(args, kwargs)
        key = self._key(args, kwargs)
        with self._lock:
            return self._concrete.get(key) or self._trace(key, args, kwargs)

    def _concrete_for(self, key: Any, args: Any, kwargs: Any) -> ConcreteFunction:
        with self._lock:
            found = self._concrete.get(key) or self._wider(key)
            if found is None or (found.closed and not found.reachable()):
                found = self._trace(key, args, kwargs)
            return found

    def _wider(self, key: Any) -> ConcreteFunction | None:
        """A graph made for shapes with unknown sizes that takes these arguments too."""
        for other, concrete in self._concrete.items():
            if _takes(other, key):
                self._concrete[key] = concrete
                return concrete
        return None

    def _trace(self, key: Any, args: Any, kwargs: Any) -> ConcreteFunction:
        traced_key = key
        if self.input_signature is not None:
            traced_key = _with_signature(key, self.input_signature)
        elif self._reduce_retracing:
            traced_key = self._relaxed(key)
        if key in self._tracing:
            raise InvalidArgumentError(
                f"{self._name!r} calls itself with arguments of the same signature, so its graph "
                "would never end; use "
                "a while loop over tensors, or recur over a Python value"
            )
        self._warn_of_many(key)
        self._tracing.append(key)
        try:
            return self._traced(key, traced_key, args, kwargs)
        finally:
            self._tracing.remove(key)

    def _traced(self, key: Any, traced_key: Any, args: Any, kwargs: Any) -> ConcreteFunction:
        called_at = user_line()
        graph = Graph(self._name)
        graph.may_create_variables = self._traces == 0
        graph.jit_compile = self._jit_compile
        symbols = self._placeholders(graph, traced_key, args, kwargs)
        function = converted(self.python_function) if self._autograph else self.python_function
        graph.caller = _THREAD.traces[-1] if _THREAD.traces else None
        try:
            with graph, recorder.silence():
                result = function(*symbols[0], **symbols[1])
                result = nest.map_structure(lambda y: _as_result(graph, y), result)
        except Exception as error:
            raise in_user_terms(with_reason(placed(error))) from error.__cause__
        graph.caller = None
        self._traces += 1
        graph.outputs = [y for y in nest.flatten(result) if isinstance(y, GraphTensor)]
        labels = list(self._arguments.named(args, kwargs))
        shown = nest.map_structure(_shown_argument, (tuple(symbols[0]), symbols[1]))
        concrete = ConcreteFunction(self._name, graph, shown, result, labels)
        self._concrete[traced_key] = concrete
        self._concrete[key] = concrete
        concrete.called_at = called_at
        self._history.append((key, concrete))
        return concrete

    def _placeholders(self, graph: Graph, key: Any, args: Any, kwargs: Any) -> Any:
        """Arguments with a symbolic tensor in place of each tensor."""
        places = iter(_places_in(key))
        names = self._arguments.names

        def symbol(name: str) -> Callable[[Any], Any]:
            def make(x: Any) -> Any:
                if not is_tensor_like(x):
                    return x
                place = next(places)
                return graph.add_input(place.spec, place.name or name)

            return make

        positional = []
        for i, x in enumerate(args):
            name = names[i] if i < len(names) and self._arguments.simple else f"arg_{i}"
            positional.append(nest.map_structure(symbol(name), x))
        # In the order of keys, in which the places are.
        by_name = {k: nest.map_structure(symbol(k), kwargs[k]) for k in sorted(kwargs)}
        return positional, by_name

    def _relaxed(self, key: Any) -> Any:
        """`key` with unknown sizes where an earlier call of the same structure had other ones."""
        for earlier, _ in self._history:
            with contextlib.suppress(_Differs):
                key = _joined(earlier, key)
        return key

    # ------------------------------------------------------------------ looking

    def concrete_functions(self) -> list[ConcreteFunction]:
        """All graphs, in the order in which they were made."""
        seen: list[ConcreteFunction] = []
        for _, concrete in self._history:
            if concrete not in seen:
                seen.append(concrete)
        return seen

    def experimental_get_tracing_count(self) -> int:
        """How many graphs have been traced."""
        return self._traces

    def pretty_printed_concrete_signatures(self, verbose: bool = True) -> str:
        """The signatures of all graphs, an empty line between them."""
        parts = [c.pretty_printed_signature(verbose) for c in self.concrete_functions()]
        return "\n\n".join(parts)

    def explain(self) -> str:
        """A table of the traces: what was new about each call, and how to avoid the trace."""
        from trainkit.graph.explain import table

        keys = [key for key, _ in self._history]
        places = [concrete.called_at for _, concrete in self._history]
        return table(self._name, self._arguments, keys, places)

    def _warn_of_many(self, key: Any) -> None:
        if len(self._history) == 4:
            from trainkit.graph.explain import difference

            reason = difference(self._arguments, [k for k, _ in self._history], key)
            file, line, _ = user_line() or ("<unknown>", 0, "")
            warnings.warn_explicit(
                f"{self._name!r} is being traced for the 5th time: {reason} Call .explain() on "
                "it for all traces.",
                UserWarning,
                file,
                line,
            )

    def _verified(self, concrete: ConcreteFunction, args: Any, kwargs: Any) -> Any:
        from trainkit.graph.verify import compare

        self._verify -= 1
        return compare(self, concrete, args, kwargs, _tensors_in(args, kwargs))

    def __repr__(self) -> str:
        return f"<tk.function {self._name!r}, {self._traces} traces>"


class BoundFunction:
    """A traced method with its object, which it keeps alive; all else is that of the `Function`."""

    __slots__ = ("__wrapped__", "_instance")

    def __init__(self, function: Function, instance: Any) -> None:
        self.__wrapped__ = function
        self._instance = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph for these arguments; make it first if there is none."""
        return self.__wrapped__(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)


def _tensors_in(args: Any, kwargs: dict[str, Any]) -> list[Any]:
    """The tensors among the arguments, in the order of the graph's inputs."""
    found = []
    for x in args:
        if type(x) is Tensor:
            found.append(x)
        elif isinstance(x, list | tuple | dict | np.ndarray | np.generic | SymbolicTensor):
            found += [_tensor(leaf) for leaf in nest.flatten(x) if is_tensor_like(leaf)]
    for name in sorted(kwargs):
        found += [_tensor(leaf) for leaf in nest.flatten(kwargs[name]) if is_tensor_like(leaf)]
    return found


def _tensor(x: Any) -> Any:
    return x if isinstance(x, Tensor) else convert_to_tensor(x)


def _as_result(graph: Graph, y: Any) -> Any:
    """A leaf of the result: what holds numbers as a symbolic tensor, the rest as it is."""
    if is_tensor(y):
        return graph.lift(y)
    if isinstance(y, bool | int | float | complex | np.ndarray | np.generic):
        return graph.lift(y)
    return y


def _shown_argument(x: Any) -> Any:
    """An argument as a signature keeps it: objects without keeping them alive."""
    kept = is_tensor(x) or isinstance(x, bool | int | float | complex | str | bytes | type(None))
    return x if kept else ById(x)


def _places_in(key: Any) -> list[Place]:
    if isinstance(key, Place):
        return [key]
    if isinstance(key, tuple):
        return [place for item in key for place in _places_in(item)]
    return []


def _takes(wide: Any, key: Any) -> bool:
    """Whether a graph with key `wide` serves calls with `key`."""
    if isinstance(wide, Place) and isinstance(key, Place):
        return wide.takes(key)
    if isinstance(wide, tuple) and isinstance(key, tuple):
        return len(wide) == len(key) and all(_takes(a, b) for a, b in zip(wide, key, strict=True))
    return bool(wide == key)


class _Differs(Exception):
    """Two keys differ in more than sizes."""


def _joined(a: Any, b: Any) -> Any:
    """A key that takes both, with unknown sizes where theirs differ.

    Raises:
        _Differs: they differ in more than sizes.
    """
    if isinstance(a, Place) and isinstance(b, Place):
        if a.dtype != b.dtype or len(a.shape) != len(b.shape):
            raise _Differs
        dims = [m if m == n else None for m, n in zip(a.shape, b.shape, strict=True)]
        return Place(dims, a.dtype, a.name)
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(_joined(x, y) for x, y in zip(a, b, strict=True))
    if a == b:
        return a
    raise _Differs


def _with_signature(key: Any, signature: Any) -> Any:
    """`key` with the places of the input signature."""
    specs = iter(nest.flatten(list(signature)))

    def replace(item: Any) -> Any:
        if isinstance(item, Place):
            spec = next(specs, None)
            if spec is None:
                return item
            return Place(spec.shape, item.dtype, getattr(spec, "name", None))
        if isinstance(item, tuple):
            return tuple(replace(x) for x in item)
        return item

    return replace(key)


def function(
    func: Callable[..., Any] | None = None,
    input_signature: Any = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    verify: bool | int = False,
    experimental_relax_shapes: bool | None = None,
) -> Any:
    """Make a graph of a Python function, once for each kind of arguments; also a decorator.

    Tensors count by dtype and shape, Python values by value, other objects by identity. `if`,
    `while` and `for`
    over tensors become part of the graph. Variables may be created on the first call only.

    Args:
        func: the function.
        input_signature: nest of `TensorSpec`s; one graph serves all calls, sizes may be `None`.
        autograph: rewrite the control flow.
        jit_compile: `True` fuses all that can be fused, `False` nothing; by default what is worth
            it.
        reduce_retracing: a size that differs between calls becomes unknown instead of tracing anew.
        verify: run the first calls (`True`: three) also as plain Python, compare, and report lost
            side effects.
        experimental_relax_shapes: the older name of `reduce_retracing`.

    Returns:
        A `Function`, or a decorator that makes one.

    Raises:
        TypeError: `func` is not callable, or `input_signature` has more entries than it has
            parameters.

    >>> @tk.function
    ... def double(x):
    ...     return x + x
    >>> int(double(tk.constant(3)))
    6
    """
    if experimental_relax_shapes is not None:
        reduce_retracing = experimental_relax_shapes
    rounds = 3 if verify is True else int(verify)

    def make(python_function: Callable[..., Any]) -> Function:
        if not callable(python_function):
            raise TypeError(f"tk.function: {python_function!r} is not callable")
        made = Function(
            python_function, input_signature, autograph, jit_compile, reduce_retracing, rounds
        )
        if input_signature is not None and len(made.input_signature or ()) > made._arguments.count:
            if not made._arguments.variable:
                raise TypeError(
                    f"tk.function: the input signature has {len(input_signature)} entries, "
                    f"{made._name!r} has {made._arguments.count} parameters"
                )
        return made

    return make if func is None else make(func)
