"""`function`: a Python function traced into a graph once per signature, and replayed."""

from __future__ import annotations

import copy
import copyreg
import functools
import sys
import warnings
import weakref
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload

from trainkit.collectives import replica as replicas
from trainkit.collectives.replica import REPLICAS
from trainkit.core import devices, nest
from trainkit.core.devices import ELSEWHERE
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.slow_work import slow_work
from trainkit.core.errors import FailedPreconditionError, InvalidArgumentError
from trainkit.core.process import forks
from trainkit.core.process.garbage import no_collections
from trainkit.core.user_frames import user_line
from trainkit.core.values.html_text import tag
from trainkit.core.values.python_signatures import signature_of
from trainkit.graph.autograph.convert import converted, with_reason
from trainkit.graph.autograph.source_map import in_user_terms, placed
from trainkit.graph.control_flow.host_calls import (
    UNSEEN,
    guess_count,
    run_and_learn_ranks,
    run_first,
)
from trainkit.graph.ir.crossed_batches import warn_of_crossed_batches
from trainkit.graph.ir.graph import Graph, GraphTensor
from trainkit.graph.tracing.concrete import AnyRankFunction, ConcreteFunction
from trainkit.graph.tracing.python_calls import SWITCH, CallsReplicas, run_around_replicas, tracing
from trainkit.graph.tracing.signature import (
    Arguments,
    device_in,
    is_tensor_like,
    key_of,
    places_in,
    relax,
    relax_rows,
    takes,
    with_signature,
)
from trainkit.graph.tracing.traced_arguments import (
    BESIDE_TENSORS,
    as_result,
    contents,
    fits,
    has_no_rank,
    short_key,
    shown_argument,
    signed,
    tensors_in,
)
from trainkit.graph.tracing.variable_creation import hearing_of_variables

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")


_TAPES = trace_state.TAPES
_THREAD = trace_state.THREAD
_FUNCTIONS: weakref.WeakSet[Function] = weakref.WeakSet()


def calls_are_observed() -> bool:
    """Whether a tape, a trace, replicas or a device see what a call is made of, in any thread."""
    return bool(_TAPES or _THREAD.traces or SWITCH.eagerly or REPLICAS or ELSEWHERE)


class Function:
    """What `tk.function` makes of a Python function.

    Attributes:
        python_function: the Python function itself.
        input_signature: the nest of `TensorSpec`s it was made with, or `None`.
    """

    __name__: str

    def __init__(
        self,
        python_function: Callable[..., Any],
        input_signature: Any = None,
        autograph: bool = True,
        jit_compile: bool | None = None,
        reduce_retracing: bool | Literal["rows"] = False,
        verify: int = 0,
        name: str | None = None,
    ) -> None:
        self.python_function = python_function
        self.input_signature = None if input_signature is None else tuple(input_signature)
        self._autograph = autograph
        self._jit_compile = jit_compile
        self._reduce_retracing = reduce_retracing
        self._needs_sizes = False  # a trace with an unknown size has failed
        self._verify = verify
        self._arguments = Arguments(python_function)
        self._concrete: dict[Any, ConcreteFunction] = {}
        self._history: list[tuple[Any, Any]] = []
        self._lock = forks.make_rlock()
        self._traces = 0
        self._instance: Callable[[], Any] | None = None
        # graphs for calls with tensors and arrays alone, or tuples of them, by their short keys
        self._ready: dict[Any, ConcreteFunction] = {}
        self._ready_elsewhere: dict[devices.Device, dict[Any, ConcreteFunction]] = {}
        self._takes_others = False
        self._tracing: list[Any] = []
        self._calls_replicas = False
        self._bound: weakref.WeakKeyDictionary[Any, Function] = weakref.WeakKeyDictionary()
        self._name: str = name or str(getattr(python_function, "__name__", "function"))
        functools.update_wrapper(self, python_function)
        _FUNCTIONS.add(self)

    # ------------------------------------------------------------------ copies

    def __reduce__(self) -> Any:
        """A copy traces anew; what a module calls by its name, as after a decorator, stays that."""
        name = str(getattr(self, "__qualname__", ""))
        module = sys.modules.get(str(self.__module__))
        try:
            if attrgetter(name)(module) is self:
                return name
        except AttributeError:  # defined in a function, or of a callable object
            pass
        settings = (
            self.python_function,
            self.input_signature,
            self._autograph,
            self._jit_compile,
            self._reduce_retracing,
            self._verify,
            self._name,
        )
        return copyreg.__newobj__, (type(self),), settings  # type: ignore[attr-defined]

    def __setstate__(self, settings: tuple[Any, ...]) -> None:
        type(self).__init__(self, *settings)

    # ------------------------------------------------------------------ methods

    @property
    def name(self) -> str:
        """What it is called in listings of graphs, by default as the Python function."""
        return self._name

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
        signature = signature_of(function)
        parameters = list(signature.parameters.values())[1:]

        @functools.wraps(function)
        def method(*args: Any, **kwargs: Any) -> Any:
            called = converted(function) if _THREAD.traces and self._autograph else function
            return called(reference(), *args, **kwargs)

        method.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
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
        # 1. A signature seen before, found by shapes and dtypes alone: most calls end here. Tapes,
        # traces and replicas have to see the call, so they take the long way.
        ready = self._ready if not ELSEWHERE else self._ready_here()
        if ready and not (kwargs or _TAPES or _THREAD.traces or SWITCH.eagerly or REPLICAS):
            try:  # tensors alone, of shapes and dtypes seen before
                arrays = [x._array for x in args]
                prepared = ready.get(tuple([(a.shape, a.dtype.num) for a in arrays]))
            except AttributeError:
                prepared = None
                if self._takes_others:
                    arrays = []
                    prepared = ready.get(short_key(args, arrays))
            if prepared is not None:
                return prepared.run_arrays(arrays)
        if SWITCH.eagerly:
            return self.python_function(*args, **kwargs)
        if self._calls_replicas:
            return run_around_replicas(self.python_function, args, kwargs)
        self._takes_others = self._takes_others or any(type(x) in BESIDE_TENSORS for x in args)
        # 2. The graph of the complete key, traced now if there is none, or if it refers to tensors
        # of a trace that does not enclose this call.
        args, kwargs = self._arguments.canonical(args, kwargs)
        if self.input_signature is not None:
            args, kwargs = self._convert_to_signature(args, kwargs)
        key = self._key(args, kwargs)
        concrete = self._concrete.get(key)
        if concrete is None or (concrete.closed and not concrete.reachable()):
            guesses = guess_count()
            try:
                concrete = self._concrete_for(key, args, kwargs)
            except CallsReplicas:
                self._calls_replicas = True
                if _THREAD.traces:  # that of a function around, which does the same
                    raise
                return run_around_replicas(self.python_function, args, kwargs)
            except Exception:
                # The trace took results of Python functions for scalars, as it knew no better, and
                # ended at code that scalars do not fit: run as Python, the call shows their ranks.
                # Where nothing was guessed the error is the function's own.
                if _THREAD.traces or guess_count() == guesses:
                    raise
                return run_and_learn_ranks(functools.partial(self.python_function, *args, **kwargs))
        # A tape outside that tracks a tensor which a branch or a body refers to has to see what is
        # done to it, and no gradient of such a node tells it: the Python function is run instead.
        if _TAPES and concrete.has_watched_parts():
            inlined = _THREAD.traces and self._autograph
            function = converted(self.python_function) if inlined else self.python_function
            return function(*args, **kwargs)
        if self._verify:
            return self._verify_call(concrete, args, kwargs)
        # 3. The short key of step 1 for the next call, and the run.
        if not (kwargs or concrete.closed or REPLICAS):
            short = short_key(args, [])
            if short is not None:
                self._ready_here()[short] = concrete
        if UNSEEN and concrete.graph.has_effects and not _THREAD.traces:
            run = functools.partial(concrete.run, tensors_in(args, kwargs))
            again = functools.partial(self._again, args, kwargs)
            return run_first(run, again, concrete.variables)
        return concrete.run(tensors_in(args, kwargs))

    def _again(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call for which graphs that call Python are made anew, those of inner functions too."""
        for function in list(_FUNCTIONS):
            function._forget_effects()
        return self(*args, **kwargs)

    def _forget_effects(self) -> None:
        with self._lock:
            self._concrete = {k: c for k, c in self._concrete.items() if not c.graph.has_effects}
            self._history = [(k, c) for k, c in self._history if not c.graph.has_effects]
            self._ready.clear()
            self._ready_elsewhere.clear()

    def _ready_here(self) -> dict[Any, ConcreteFunction]:
        """The graphs of calls like those before, for the device of this thread's context."""
        where = devices.elsewhere()
        return self._ready if where is None else self._ready_elsewhere.setdefault(where, {})

    @staticmethod
    def _key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        key = tuple([key_of(x) for x in args])
        if kwargs:
            key = (*key, tuple((k, key_of(v)) for k, v in kwargs.items()))
        where, replica = devices.elsewhere(), replicas.among_others()
        key = key if where is None else (*key, where)
        return key if replica is None else (*key, replica.key)

    def _convert_to_signature(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Arguments converted to the input signature."""
        assert self.input_signature is not None
        names, required = self._arguments.names, self._arguments.required
        return signed(self._name, names, required, self.input_signature, args, kwargs)

    # ------------------------------------------------------------------ tracing

    def get_concrete_function(
        self, *args: Any, **kwargs: Any
    ) -> ConcreteFunction | AnyRankFunction:
        """The graph for arguments of this kind, traced if there is none; nothing is run.

        For a `TensorSpec` of unknown rank it is made when the rank is known.

        Args:
            *args: tensors, `TensorSpec`s in their place, and Python values.
            **kwargs: the same by name.
        """
        if self.input_signature is not None and not args and not kwargs:
            by_position = len(self.input_signature) - len(self._arguments.required)
            args = self.input_signature[: max(by_position, 0)]
            keyword_specs = self.input_signature[len(args) :]
            kwargs = dict(zip(self._arguments.required, keyword_specs, strict=False))
        args, kwargs = self._arguments.canonical(args, kwargs)
        if self.input_signature is not None:
            args, kwargs = self._convert_to_signature(args, kwargs)
        if any(map(has_no_rank, nest.flatten((args, kwargs)))):
            labels = self._arguments.labels(args, kwargs)
            return AnyRankFunction(self, (tuple(args), dict(kwargs)), labels)
        key = self._key(args, kwargs)
        try:
            with self._lock:
                return self._concrete.get(key) or self._trace(key, args, kwargs)
        except CallsReplicas:
            if _THREAD.traces:
                raise
            raise FailedPreconditionError(
                f"{self._name!r} has no graph of its own, as it calls run of a MirroredStrategy, "
                "which has a thread for each replica: ask the function that run is given"
            ) from None

    def _concrete_for(self, key: Any, args: Any, kwargs: Any) -> ConcreteFunction:
        with self._lock:
            concrete = self._concrete.get(key) or self._wider(key)
            if concrete is None or (concrete.closed and not concrete.reachable()):
                concrete = self._trace(key, args, kwargs)
            return concrete

    def _wider(self, key: Any) -> ConcreteFunction | None:
        """A graph made for shapes with unknown sizes that takes these arguments too."""
        for other, concrete in self._concrete.items():
            if takes(other, key):
                self._concrete[key] = concrete
                return concrete
        return None

    def _trace(self, key: Any, args: Any, kwargs: Any) -> ConcreteFunction:
        traced_key = key
        if self.input_signature is not None:
            traced_key = with_signature(key, self.input_signature)
            # a call whose sizes are not known, as in another function, fits the same graph
            concrete = self._concrete.get(traced_key)
            if concrete is not None and (not concrete.closed or concrete.reachable()):
                self._concrete[key] = concrete
                return concrete
        elif self._reduce_retracing and not self._needs_sizes:
            traced_key = self._relax(key)
        if key in self._tracing:
            raise InvalidArgumentError(
                f"{self._name!r} calls itself with arguments of the same signature, so its graph "
                "would never end; use "
                "a while loop over tensors, or recur over a Python value"
            )
        self._warn_of_many(key)
        self._tracing.append(key)
        try:
            with slow_work(f"tracing {self._name!r}"):
                if traced_key != key and self.input_signature is None:
                    relaxed = self._trace_or_none(key, traced_key, args, kwargs)
                    if relaxed is not None:
                        return relaxed
                    traced_key = key
                return self._traced(key, traced_key, args, kwargs)
        finally:
            self._tracing.remove(key)

    def _trace_or_none(
        self, key: Any, traced_key: Any, args: Any, kwargs: Any
    ) -> ConcreteFunction | None:
        """The graph of unknown sizes, `None` where the function needs to know them."""
        try:
            return self._traced(key, traced_key, args, kwargs)
        except CallsReplicas:
            raise
        except Exception:  # the trace for the sizes at hand raises what is wrong besides
            self._needs_sizes = True
            return None

    def _traced(self, key: Any, traced_key: Any, args: Any, kwargs: Any) -> ConcreteFunction:
        called_at = user_line()
        graph, symbols, result, has_new_variables = self._graph_of(
            traced_key, args, kwargs, again=False
        )
        if has_new_variables:
            graph, symbols, result, _ = self._graph_of(traced_key, args, kwargs, again=True)
        if not str(getattr(self.python_function, "__module__", "")).startswith("trainkit."):
            warn_of_crossed_batches(graph)
        for hear in trace_state.GRAPH_LISTENERS:
            hear(graph)
        self._traces += 1
        graph.outputs = [y for y in nest.flatten(result) if isinstance(y, GraphTensor)]
        labels = self._arguments.labels(args, kwargs)
        arguments = nest.map_structure(shown_argument, (tuple(symbols[0]), symbols[1]))
        concrete = ConcreteFunction(self._name, graph, arguments, result, labels)
        self._concrete[traced_key] = concrete
        self._concrete[key] = concrete
        concrete.called_at = called_at
        self._history.append((key, concrete))
        return concrete

    def _graph_of(self, key: Any, args: Any, kwargs: Any, again: bool) -> Any:
        """The graph, its symbolic arguments and results, and whether variables were made."""
        graph = Graph(self._name)
        graph.may_create_variables = self._traces == 0
        graph.jit_compile = self._jit_compile
        symbols = self._placeholders(graph, key, args, kwargs)
        function = converted(self.python_function) if self._autograph else self.python_function
        graph.caller = _THREAD.traces[-1] if _THREAD.traces else None
        try:
            hearing = hearing_of_variables(self._name, again)
            with tracing(), hearing as making, graph, trace_state.silence(), no_collections():
                before = contents(symbols)
                result = function(*symbols[0], **symbols[1])
                self._check_unchanged(before, symbols)
                result = nest.map_structure(lambda y: as_result(graph, y), result)
        except BaseException as error:  # an interruption is shown in the user's lines, too
            explained = in_user_terms(with_reason(placed(error)))
            if explained is error:
                raise explained  # noqa: B904 - what it came from stays as the user's code has set it
            raise explained from error.__cause__
        graph.caller = None
        return graph, symbols, result, making.made

    def _placeholders(self, graph: Graph, key: Any, args: Any, kwargs: Any) -> Any:
        """Arguments with a symbolic tensor in place of each tensor."""
        tensor_places = iter(places_in(key))
        names = self._arguments.names

        def symbol(name: str) -> Callable[[Any], Any]:
            def make(x: Any) -> Any:
                if not is_tensor_like(x):
                    return x
                tensor_place = next(tensor_places)
                return graph.add_input(tensor_place.spec, tensor_place.name or name)

            return make

        positional = []
        for i, x in enumerate(args):
            name = names[i] if i < len(names) and self._arguments.simple else f"arg_{i}"
            positional.append(nest.map_structure(symbol(name), x))
        by_name = {k: nest.map_structure(symbol(k), v) for k, v in kwargs.items()}
        return positional, by_name

    def _check_unchanged(self, before: Any, symbols: Any) -> None:
        """Refuse that a function adds to its arguments, which are copies of the caller's.

        Raises:
            ValueError: one of them holds other items than before.
        """
        labels = self._arguments.labels(*symbols)
        after = contents(symbols)
        changed = [
            label
            for label, (key, tensors), (was, earlier_tensors) in zip(
                labels, after, before, strict=True
            )
            if not fits(was, key) or [id(x) for x in tensors] != [id(x) for x in earlier_tensors]
        ]
        if changed:
            raise ValueError(
                f"{self._name!r} changes its argument {', '.join(map(repr, changed))}. A traced "
                "function is given copies of lists and dicts, so its caller would not see that: "
                "change a copy, and return it"
            )

    def _relax(self, key: Any) -> Any:
        """`key` with unknown sizes where earlier calls of the same structure had other ones."""
        earlier_keys = [earlier for earlier, _ in self._history]
        if self._reduce_retracing != "rows":
            return relax(key, earlier_keys)
        # a replica draws for its rows of the global batch, which its graphs have as numbers
        return key if REPLICAS else relax_rows(key, earlier_keys)

    # ------------------------------------------------------------------ looking

    def concrete_functions(self) -> list[ConcreteFunction]:
        """All graphs, in the order in which they were made."""
        functions: list[ConcreteFunction] = []
        for _, concrete in self._history:
            if concrete not in functions:
                functions.append(concrete)
        return functions

    def experimental_get_tracing_count(self) -> int:
        """How many graphs have been traced."""
        return self._traces

    def pretty_printed_concrete_signatures(self, verbose: bool = True) -> str:
        """The signatures of all graphs, an empty line between them."""
        parts = [c.pretty_printed_signature(verbose) for c in self.concrete_functions()]
        return "\n\n".join(parts)

    def explain(self) -> str:
        """A table of the traces: what was new about each call, and how to avoid the trace.

        After calls on a GPU also how each graph runs there: as a CUDA graph, or why not.
        """
        from trainkit.graph.tracing.retracing import table

        if self._calls_replicas:
            return f"{self._name}: runs as Python, as it calls run of a MirroredStrategy"
        keys = [key for key, _ in self._history]
        call_lines = [concrete.called_at for _, concrete in self._history]
        on_gpu = [concrete.graph.gpu_status() for _, concrete in self._history]
        return table(self._name, self._arguments, keys, call_lines, on_gpu, self._reduce_retracing)

    def _warn_of_many(self, key: Any) -> None:
        keys, key = replicas.own_keys([k for k, _ in self._history], key)
        keys = [k for k in keys if device_in(k) is device_in(key)]  # each has its own traces
        if len(keys) == 4:
            from trainkit.graph.tracing.retracing import difference

            reason = difference(self._arguments, keys, key, self._reduce_retracing)
            # a model's step is nothing that its user could ask
            if self._reduce_retracing != "rows":
                reason += " Call .explain() on it for all traces."
            file, line, _ = user_line() or ("<unknown>", 0, "")
            warnings.warn_explicit(
                f"{self._name!r} is being traced for the 5th time: {reason}",
                UserWarning,
                file,
                line,
            )

    def _verify_call(self, concrete: ConcreteFunction, args: Any, kwargs: Any) -> Any:
        from trainkit.graph.tracing.verify import compare

        self._verify -= 1
        return compare(self, concrete, args, kwargs, tensors_in(args, kwargs))

    def __repr__(self) -> str:
        return f"<tk.function {self._name!r}, {self._traces} traces>"

    def _repr_html_(self) -> str:
        """What notebooks show: the traces, and what was new about each."""
        return tag("div", tag("b", repr(self)), tag("pre", self.explain()))


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

    def __copy__(self) -> BoundFunction:
        return BoundFunction(self.__wrapped__, self._instance)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return getattr(copy.deepcopy(self._instance, memo), self.__wrapped__.__name__)

    def __reduce__(self) -> Any:
        return getattr, (self._instance, self.__wrapped__.__name__)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def _repr_html_(self) -> str:
        return self.__wrapped__._repr_html_()


if TYPE_CHECKING:

    class TracedFunction(Function, Generic[P, R]):
        """A `Function` that is called as the Python function is of which it was made."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
        def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction: ...
        @overload
        def __get__(self, instance: None, owner: Any = None) -> TracedFunction[P, R]: ...
        @overload
        def __get__(
            self: TracedFunction[Concatenate[S, Q], R], instance: S, owner: Any = None
        ) -> TracedFunction[Q, R]: ...
        def __get__(self, instance: Any, owner: Any = None) -> Any: ...


@overload
def function(
    func: Callable[P, R],
    input_signature: Any = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_autograph_options: Any = None,
    experimental_attributes: dict[str, Any] | None = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
    verify: bool | int = False,
) -> TracedFunction[P, R]: ...
@overload
def function(
    func: None = None,
    input_signature: Any = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_autograph_options: Any = None,
    experimental_attributes: dict[str, Any] | None = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
    verify: bool | int = False,
) -> Callable[[Callable[P, R]], TracedFunction[P, R]]: ...
def function(
    func: Callable[..., Any] | None = None,
    input_signature: Any = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_autograph_options: Any = None,
    experimental_attributes: dict[str, Any] | None = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
    verify: bool | int = False,
) -> Any:
    """Make a graph of a Python function, once for each kind of arguments; also a decorator.

    Tensors count by dtype and shape, Python values by value, other objects by identity. `if`,
    `while` and `for`
    over tensors become part of the graph. Variables may be created on the first call only, and only
    once: where a trace has made some, a second one follows in which it may not.

    Args:
        func: the function.
        input_signature: nest of `TensorSpec`s; one graph serves all calls, sizes may be `None`.
        autograph: rewrite the control flow.
        jit_compile: `True` fuses all that can be fused, `False` nothing; by default what is worth
            it.
        reduce_retracing: a size that differs between calls becomes unknown instead of tracing anew.
        experimental_implements: a name for the function that other compilers look for; there are
            none here.
        experimental_autograph_options: features of `autograph.experimental.Feature`, all of which
            every conversion has.
        experimental_attributes: attributes that other compilers look for; there are none here.
        experimental_relax_shapes: the older name of `reduce_retracing`.
        experimental_compile: the older name of `jit_compile`.
        experimental_follow_type_hints: not used by TensorFlow any more.
        verify: run the first calls (`True`: three) also as plain Python, compare, and report lost
            side effects.

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
    if experimental_compile is not None:
        jit_compile = experimental_compile
    rounds = 3 if verify is True else int(verify)

    def make(python_function: Callable[..., Any]) -> Function:
        if not callable(python_function):
            raise TypeError(f"tk.function: {python_function!r} is not callable")
        traced_function = Function(
            python_function, input_signature, autograph, jit_compile, reduce_retracing, rounds
        )
        if (
            input_signature is not None
            and len(traced_function.input_signature or ()) > traced_function._arguments.count
        ):
            if not traced_function._arguments.variable:
                raise TypeError(
                    f"tk.function: the input signature has {len(input_signature)} entries, "
                    f"{traced_function._name!r} has {traced_function._arguments.count} parameters"
                )
        return traced_function

    return make if func is None else make(func)
