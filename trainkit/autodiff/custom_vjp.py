"""`custom_gradient`: rules written by the user."""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import get_ident
from typing import Any, ParamSpec, overload

from trainkit.autodiff.vjps_on_arrays import NoVjps
from trainkit.core import nest
from trainkit.core.dispatch import late_ops, trace_state
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor, wrap
from trainkit.core.values.python_signatures import signature_of
from trainkit.core.variable import Variable

P = ParamSpec("P")


class CustomGradient:
    """What stands in a tape's entry, in place of a primitive, for a call of a user's function."""

    # What the backward pass asks of a primitive, so that it need not tell the two apart. There are
    # no vjps on arrays: the user's function takes tensors.
    name = "custom_gradient"
    rules = None
    array_vjps = NoVjps()
    given_rules = given_joint = None
    broadcasts = False
    joint_asks = False
    joint_adds = False
    joint_sparse = False

    def __init__(
        self, function: Any, backward: Callable[..., Any], variables: list[Variable]
    ) -> None:
        self._label = getattr(function, "__name__", "function")
        self._backward = backward
        self._variables = variables

    def joint(self, g: Any, y: Any, *inputs: Any) -> list[Any]:
        """Gradients by the tensor inputs, then by the snapshots of the variables used inside."""
        gs = g if isinstance(g, tuple) else (g,)
        # The snapshots of variables stand behind the arguments.
        count = len(inputs) - len(self._variables)
        if self._variables:
            gradients = self._backward(*gs, variables=list(self._variables))
            if not (isinstance(gradients, tuple | list) and len(gradients) == 2):
                raise TypeError(
                    f"custom_gradient of {self._label!r}: the function uses variables, so its "
                    "gradient function must take `variables` and return (input_gradients, "
                    "variable_gradients)"
                )
            by_input, by_variable = nest.flatten([gradients[0]]), list(gradients[1])
        else:
            by_input, by_variable = nest.flatten([self._backward(*gs)]), []
        if len(by_input) != count or len(by_variable) != len(self._variables):
            raise ValueError(
                f"custom_gradient of {self._label!r}: the gradient function gave {len(by_input)} "
                f"input and {len(by_variable)} variable gradients, needed are {count} and "
                f"{len(self._variables)}"
            )
        pairs = zip(by_input + by_variable, inputs, strict=True)
        return [self._validate(gx, x, i) for i, (gx, x) in enumerate(pairs)]

    def _validate(self, gx: Any, x: Tensor, i: int) -> Any:
        if gx is None:
            return None
        gx = convert_to_tensor(gx, dtype_hint=x.dtype)
        if not gx.shape.is_compatible_with(x.shape):
            raise ValueError(
                f"custom_gradient of {self._label!r}: gradient {i} has shape {gx.shape}, its input "
                f"{x.shape}"
            )
        return gx


@overload
def custom_gradient(f: Callable[P, Any], *, check: bool = False) -> Callable[P, Any]: ...
@overload
def custom_gradient(
    f: None = None, *, check: bool = False
) -> Callable[[Callable[P, Any]], Callable[P, Any]]: ...
def custom_gradient(f: Callable[..., Any] | None = None, *, check: bool = False) -> Any:
    """Decorator that gives a function a gradient of its own.

    The function returns `(result, grad_fn)`. `grad_fn` takes one upstream gradient per result and
    returns one gradient per tensor argument, `None` where there is none. If the function reads
    trainable variables, `grad_fn` must accept `variables=` and return `(argument_gradients,
    variable_gradients)`.

    Args:
        f: the function; called with tensors, and keyword arguments as they are.
        check: on the first call with each signature of arguments compare `grad_fn` with central
            differences, and raise where they disagree. It costs two calls per checked direction.

    Returns:
        A function that gives the result alone.

    Raises:
        TypeError: `f` does not return `(result, grad_fn)`.
        GradientMismatchError: with `check`, the rule is wrong; both gradients are shown.

    >>> @tk.custom_gradient
    ... def twice(x):
    ...     return x * 2.0, lambda dy: dy * 2.0
    >>> float(twice(tk.constant(3.0)))
    6.0
    """
    if f is None:
        return functools.partial(custom_gradient, check=check)
    checked: set[Any] = set()

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        args = nest.map_structure(_as_tensor, args)
        if check:
            _check_once(f, args, kwargs, checked)
        return _call(f, args, kwargs)

    return call


def _as_tensor(x: Any) -> Any:
    if isinstance(x, Variable):
        return x.value()
    if isinstance(x, Tensor) or x is None or isinstance(x, str | bytes) or callable(x):
        return x
    return convert_to_tensor(x)


def _inputs_of(args: Any) -> list[Any]:
    return [x for x in nest.flatten(args) if isinstance(x, Tensor)]


class _VariableWatcher:
    """A tape that records no operation, only which trainable variables are read."""

    def __init__(self) -> None:
        self.thread = get_ident()
        # It stays empty, and an operation is recorded only where one of its inputs is tracked.
        self.tracked: dict[Any, Any] = {}
        self.reads: dict[int, tuple[Variable, Tensor]] = {}

    def note_variable(self, variable: Variable, snapshot: Tensor) -> None:
        """Remember the variable and what the read gave."""
        if variable.trainable:
            self.reads[id(variable)] = (variable, snapshot)

    def note_exit(self, how: str, inputs: tuple[Any, ...]) -> None:
        """Nothing is tracked here, so nothing leaves."""

    def watches(self, x: Any) -> bool:
        """Variables alone are."""
        return False

    def free_unread_values(self) -> None:
        """Nor is there anything to be freed."""

    def __enter__(self) -> _VariableWatcher:
        trace_state.TAPES.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        trace_state.TAPES.remove(self)


def _call(f: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Run `f`, and give tapes one entry for it with its own rule.

    What `f` computes inside is recorded as well, so that a gradient function which uses it can be
    differentiated; only the way through the results is replaced, by giving these new identities.
    """
    trace = trace_state.current_trace()
    in_graph = hasattr(trace, "with_gradient")
    if not trace_state.TAPES and not in_graph:
        # Nobody records: the rule is dropped, the results are as they would be under a tape.
        return nest.map_structure(fresh, _answer(f, f(*args, **kwargs))[0])
    with _VariableWatcher() as watcher:
        result, backward = _answer(f, f(*args, **kwargs))
    variables = [variable for variable, _ in watcher.reads.values()]
    if variables and not _takes_variables(backward):
        raise TypeError(
            f"custom_gradient: {getattr(f, '__name__', 'the function')!r} reads the variables "
            f"{[v.name for v in variables]}, so its gradient function needs a keyword argument "
            "`variables`; pass tensors as arguments to keep variables out of it"
        )
    inputs = tuple(_inputs_of(args)) + tuple(snapshot for _, snapshot in watcher.reads.values())
    if in_graph:
        return trace.with_gradient(f, result, backward, list(inputs), variables)
    result = nest.map_structure(fresh, result)
    outputs = nest.flatten(result)
    output = outputs[0] if len(outputs) == 1 else tuple(outputs)
    trace_state.record(CustomGradient(f, backward, variables), inputs, output, None)
    return result


def _answer(f: Callable[..., Any], answer: Any) -> Any:
    if not (isinstance(answer, tuple | list) and len(answer) == 2 and callable(answer[1])):
        raise TypeError(
            f"custom_gradient: {getattr(f, '__name__', 'the function')!r} must return "
            f"(result, grad_fn), it returned {type(answer).__name__}"
        )
    return answer


def fresh(y: Any) -> Tensor:
    """A tensor of its own for a result, so that one passed through differs from its input."""
    tensor = y if isinstance(y, Tensor) else convert_to_tensor(y)
    if isinstance(tensor, SymbolicTensor):
        with trace_state.silence():
            twin: Tensor = late_ops.identity(tensor)
        return twin
    return wrap(tensor._array)


def _takes_variables(backward: Callable[..., Any]) -> bool:
    parameters = signature_of(backward).parameters.values()
    return any(p.name == "variables" or p.kind is p.VAR_KEYWORD for p in parameters)


def _check_once(
    f: Callable[..., Any], args: Any, kwargs: dict[str, Any], checked: set[Any]
) -> None:
    leaves = _inputs_of(args)
    # In a graph there are no values to compare yet.
    if any(isinstance(x, SymbolicTensor) for x in leaves):
        return
    signature = tuple((tuple(x.shape), x.dtype.name) for x in leaves)
    if signature in checked:
        return
    from trainkit.autodiff.custom_vjp_check import compare_with_differences

    # Up to two calls for each of 64 elements of each argument: no tape is to keep them.
    with trace_state.silence():
        compare_with_differences(f, args, kwargs)
    # Only what has passed is left out next time: a wrong rule raises in each call.
    checked.add(signature)


def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the values of `f` whose gradient is that of the identity.

    Useful for rounding and the like, whose own gradient is 0. Variables that `f` reads have none.

    Args:
        f: function of tensors.

    Example:
        >>> with tk.GradientTape() as tape:
        ...     x = tk.Variable(0.6)
        ...     y = tk.grad_pass_through(tk.round)(x)
        >>> float(y), float(tape.gradient(y, x))
        (1.0, 1.0)
    """

    @custom_gradient
    def passing(*args: Any, **kwargs: Any) -> Any:
        def rule(*gradients: Any, variables: Any = None) -> Any:
            passed = gradients[0] if len(gradients) == 1 else gradients
            return passed if variables is None else (passed, [None] * len(variables))

        return f(*args, **kwargs), rule

    passing_function: Callable[..., Any] = passing
    return passing_function
