"""`recompute_grad`: forget what a function computes inside, and compute it again for its gradient.

The second call has to be the first one again. So the variables have the values that they had, the
states of random generators among them, what it assigns is assigned once, and what layers know of
the call around them is put back. In a graph the second call begins at barriers, or the passes,
which compute equal calls once, would merge it into the first.
Source: Chen, Xu, Zhang and Guestrin 2016, "Training deep nets with sublinear memory cost",
arXiv:1604.06174.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from trainkit.autodiff.custom_vjp import CustomGradient, fresh
from trainkit.autodiff.tape import GradientTape
from trainkit.autodiff.variable_scope import VariableScope
from trainkit.core import masks, nest
from trainkit.core.dispatch import trace_state
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor
from trainkit.ops.arrays.conversion import stop_gradient
from trainkit.ops.core.optimization_barrier import optimization_barrier


class CallContext:
    """What a function depends on besides arguments and variables; files above have more of it."""

    def first(self, call: Callable[[], Any]) -> tuple[Any, list[Any]]:
        """The result of `call`, and the tensors that it left elsewhere."""
        return call(), []

    def again(self, call: Callable[[], Any]) -> tuple[Any, list[Any]]:
        """The same in the circumstances of the first call; nothing is left elsewhere."""
        return call(), []

    def replace(self, left: list[Any]) -> None:
        """Put tensors in the place of those that the first call left elsewhere."""


new_context: Callable[[], CallContext] = CallContext
"""Makes the context of a call that begins; layers put theirs here when they are imported."""


def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """Forget what `f` computes inside, and compute it again on the backward pass, to save memory.

    Args:
        f: function of tensors that gives a tensor or a nest of them; called twice per training
            step. The second call sees the variables and random numbers of the first; it must not
            depend on other things that change.

    Returns:
        A function with the same results and gradients, also by variables that `f` reads.

    Source: Chen, Xu, Zhang and Guestrin 2016, arXiv:1604.06174.

    >>> square = recompute_grad(lambda x: x * x)
    >>> with GradientTape() as tape:
    ...     x = tk.constant(3.0)
    ...     tape.watch(x)
    ...     y = square(x)
    >>> float(tape.gradient(y, x))
    6.0
    """

    @functools.wraps(f, updated=())
    def forgetful(*args: Any, **kwargs: Any) -> Any:
        trace = trace_state.current_trace()
        in_graph = hasattr(trace, "with_gradient")
        if isinstance(trace, _FirstCall) or not (trace_state.TAPES or in_graph):
            return f(*args, **kwargs)  # nobody asks for a gradient, or only by the call around it
        call = _RecomputedCall(f, args, kwargs)
        # Where only shapes are computed there is nothing to forget.
        if call.only_shapes() or (hasattr(trace, "apply") and not in_graph):
            return f(*args, **kwargs)
        return call.first(trace if in_graph else None)

    return forgetful


class _FirstCall(VariableScope):
    """Notes what variables were at the beginning, and what was assigned.

    Args:
        unseen: gives the tensor that stands for a value inside.

    Attributes:
        begin: variables and their first values, by `id`.
    """

    def __init__(self, unseen: Callable[[Any], Any]) -> None:
        super().__init__()
        self.begin: dict[int, tuple[Any, Any]] = {}
        self._unseen = unseen
        self._assigned: dict[int, Any] = {}

    def read_variable(self, variable: Any) -> Any:
        """The value inside; that before the call is noted."""
        key = id(variable)
        if key not in self.values:
            value = super().read_variable(variable)
            # The second call begins from this value, whatever is assigned until then.
            self.begin[key] = (variable, value)
            self.put(variable, self._unseen(value))
        return self.values[key]

    def assign_variable(self, variable: Any, value: Any) -> None:
        """Note a new value, for when the call has ended."""
        self.read_variable(variable)
        self.put(variable, value)
        self._assigned[id(variable)] = variable

    def assign_variables(self) -> None:
        """Give the variables themselves the values that the call, now over, assigned to them."""
        for key, variable in self._assigned.items():
            variable.assign(self.values[key])


class _RecomputedCall:
    """One call of a function that is to be computed again."""

    def __init__(self, f: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self._f = f
        self._given = (args, kwargs)
        self._leaves = nest.flatten(self._given)
        # Other values than tensors go into both calls as they are.
        self._places = [i for i, x in enumerate(self._leaves) if isinstance(x, Tensor)]
        self._inputs = [self._leaves[i] for i in self._places]
        self._begin: dict[int, tuple[Any, Any]] = {}
        self._context = new_context()

    def only_shapes(self) -> bool:
        """Whether an input is a symbol of a model that is being put together."""
        return any(hasattr(x, "apply_function") for x in self._inputs)

    def first(self, graph: Any) -> Any:
        """The results, and one entry for the call where gradients are recorded."""
        unseen = _as_it_is
        if graph is not None:
            self._f = graph.convert(self._f)
            unseen = functools.partial(_unseen, graph)
        scope = _FirstCall(unseen)
        # Without silence the tapes around would keep each result inside, which is what this saves.
        with trace_state.silence(), scope:
            outputs = self._context.first(lambda: self._run([unseen(x) for x in self._inputs]))
        # Outside of the scope: now variables get their values for good, and only this once.
        scope.assign_variables()
        self._begin = scope.begin
        # The tapes were silent during the reads, and an entry is recorded only where they track one
        # of its inputs: so they hear of the reads now, before it.
        read = [(v, value) for v, value in scope.begin.values() if v.trainable]
        for variable, value in read:
            trace_state.note_variable(variable, value)
        results = self._record_call(
            graph, [y for y in nest.flatten(outputs) if _is_tensor(y)], read
        )
        remaining = iter(results)
        leaves = [next(remaining) if _is_tensor(y) else y for y in nest.flatten(outputs)]
        result, left = nest.pack(outputs, leaves)
        self._context.replace(left)
        return result

    def _run(self, inputs: list[Any]) -> Any:
        leaves = list(self._leaves)
        for index, old, new in zip(self._places, self._inputs, inputs, strict=True):
            # Masks belong to a tensor's identity, so a stand-in needs its own.
            if new is not old and masks.mask_of(old) is not None:
                masks.set_mask(new, masks.mask_of(old))
            leaves[index] = new
        args, kwargs = nest.pack(self._given, leaves)
        return self._f(*args, **kwargs)

    def _record_call(
        self, graph: Any, results: list[Any], read: list[tuple[Any, Any]]
    ) -> list[Any]:
        """The results under new identities, with this call as what they come from."""
        variables = [variable for variable, _ in read]
        inputs = [*self._inputs, *(value for _, value in read)]
        backward = functools.partial(self._backward, [y.dtype.is_differentiable for y in results])
        if not results:
            return []
        if graph is not None:
            recorded: list[Any] = graph.with_gradient(self._f, results, backward, inputs, variables)
        else:
            # A result may be an input passed on, or one that the silent tapes track already: under
            # a new identity it comes from this call alone.
            recorded = [fresh(y) for y in results]
            output = recorded[0] if len(recorded) == 1 else tuple(recorded)
            rule = CustomGradient(self._f, backward, variables)
            trace_state.record(rule, tuple(inputs), output, None)
        for old, new in zip(results, recorded, strict=True):
            if masks.mask_of(old) is not None:
                masks.set_mask(new, masks.mask_of(old))
        return recorded

    def _backward(self, counts: list[bool], *upstream: Any, variables: Any = ()) -> Any:
        """The gradients by the inputs and the variables, from a second call."""
        inputs, begin = self._inputs, self._begin
        # Results of integers have no gradient, so nothing comes back for them.
        signals = [g for g, counted in zip(upstream, counts, strict=True) if counted]
        if signals and any(isinstance(g, SymbolicTensor) for g in upstream):
            # The barriers also hold the second call back until a gradient is there: started
            # earlier, its results would be in memory as long as those of the first.
            inputs = [optimization_barrier(x, signals[0]) for x in inputs]
            begin = {
                key: (v, optimization_barrier(value, signals[0]))
                for key, (v, value) in begin.items()
            }
        # What the second call assigns goes to this scope and is dropped with it.
        scope = VariableScope()
        for variable, value in begin.values():
            scope.put(variable, value)
        with GradientTape() as tape:
            tape.watch([x for x in inputs if x.dtype.is_differentiable])
            with scope:
                outputs = self._context.again(lambda: self._run(inputs))
        again = [y for y in nest.flatten(outputs) if _is_tensor(y)]
        targets = [y for y, counted in zip(again, counts, strict=True) if counted]
        grads = tape.gradient(targets, [*inputs, *variables], output_gradients=signals)
        by_input, by_variable = grads[: len(inputs)], grads[len(inputs) :]
        return (by_input, by_variable) if variables else by_input


def _unseen(graph: Any, x: Any) -> Any:
    """`x` for steps that no tape is to record, also where it is the graph that runs under one."""
    return graph.apply(stop_gradient.primitive, (x,), {})


def _as_it_is(x: Any) -> Any:
    return x


def _is_tensor(x: Any) -> bool:
    return isinstance(x, Tensor)
