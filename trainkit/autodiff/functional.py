"""Gradients of functions, as functions: the style of the first eager API."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from trainkit.autodiff.tape import GradientTape, UnconnectedGradients
from trainkit.core import nest
from trainkit.core.dispatch import late_ops
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.python_signatures import signature_of
from trainkit.core.variable import Variable


def _positions(f: Callable[..., Any], params: Any, count: int) -> list[int]:
    """The positions of the arguments that `params` (positions, names, or `None` for all) means."""
    if params is None:
        return list(range(count))
    names = list(signature_of(f).parameters)
    positions = []
    for p in params:
        if isinstance(p, str):
            if p not in names:
                raise ValueError(f"params: {f!r} has no parameter {p!r}, only {names}")
            p = names.index(p)
        if not 0 <= p < count:
            raise ValueError(f"params: position {p}, but {count} arguments were given")
        positions.append(p)
    return positions


def _watch(arg: Any, ids: set[int]) -> Any:
    """An argument with its numbers and arrays as tensors; variables as what they hold.

    One tensor given twice becomes two, so that each argument has a gradient of its own; `ids` are
    those of the tensors given so far.
    """
    if isinstance(arg, list | tuple) and not any(map(_is_leaf_by_itself, nest.flatten(arg))):
        arg = convert_to_tensor(arg)

    def leaf(x: Any) -> Any:
        tensor = convert_to_tensor(_held(x))
        if id(tensor) in ids:
            # An operation, not a bare new tensor: a tape around this call still sees where it comes
            # from.
            return late_ops.identity(tensor)
        ids.add(id(tensor))
        return tensor

    return nest.map_structure(leaf, arg)


def _held(x: Any) -> Any:
    return x.value() if isinstance(x, Variable) else x


def _is_leaf_by_itself(x: Any) -> bool:
    """Whether a list with `x` in it holds several values, rather than being one."""
    return hasattr(x, "shape") or not isinstance(x, int | float | complex)


def value_and_gradients_function(f: Callable[..., Any], params: Any = None) -> Callable[..., Any]:
    """A function that gives the value of `f` and its gradients by the arguments.

    Args:
        f: function of tensors (or numbers) to a tensor; the gradient is that of the sum of its
            elements.
        params: positions or names of the arguments to differentiate by; all by default.

    Returns:
        A function with the arguments of `f` that returns `(value, [gradients])`. What does not
        depend on an argument has a gradient of zeros. A keyword argument `dy` weighs the elements
        of the value.

    Raises:
        ValueError: `f` returns `None`, or `params` names no parameter.
    """

    @functools.wraps(f)
    def run(*args: Any, dy: Any = None, **kwargs: Any) -> Any:
        positions = _positions(f, params, len(args))
        others = [a for i, a in enumerate(args) if i not in positions]
        # Also a tensor that is a fixed argument elsewhere gets a twin: else the gradient would
        # count both uses.
        ids = {id(_held(x)) for x in nest.flatten(others)}
        ready = [_watch(a, ids) if i in positions else a for i, a in enumerate(args)]
        sources = [ready[i] for i in positions]
        # The twins are made before the tape begins, so that they are its leaves.
        with GradientTape() as tape:
            tape.watch([x for x in nest.flatten(sources) if x.dtype.is_differentiable])
            value = f(*ready, **kwargs)
        if value is None:
            raise ValueError(f"{getattr(f, '__name__', f)!r} returns None, so it has no gradient")
        target = nest.map_structure(_as_tensor, value)
        if dy is not None and isinstance(target, Tensor):
            dy = convert_to_tensor(dy, dtype_hint=target.dtype)
        grads = tape.gradient(target, sources, dy, UnconnectedGradients.ZERO)
        return target, grads

    return run


def _as_tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else convert_to_tensor(x)


def gradients_function(f: Callable[..., Any], params: Any = None) -> Callable[..., Any]:
    """A function that gives the gradients of `f` by its arguments, of any order by nesting.

    Args:
        f: function of tensors (or numbers) to a tensor.
        params: positions or names of the arguments to differentiate by; all by default.

    Returns:
        A function with the arguments of `f` that returns a list of gradients.

    >>> square = lambda x: x * x
    >>> float(gradients_function(square)(3.0)[0])
    6.0
    """
    both = value_and_gradients_function(f, params)

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        return both(*args, **kwargs)[1]

    return run


def implicit_value_and_gradients(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives the value of `f` and `(gradient, variable)` pairs for all it uses.

    Args:
        f: function of anything to a tensor that reads trainable variables.

    Returns:
        A function with the arguments of `f` that returns `(value, pairs)`; the pairs are what an
        optimizer's `apply_gradients` takes.

    Raises:
        ValueError: `f` returns `None`, or reads no trainable variable.
    """

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        with GradientTape() as tape:
            value = f(*args, **kwargs)
        name = getattr(f, "__name__", repr(f))
        if value is None:
            raise ValueError(f"{name!r} returns None, so it has no gradient")
        variables = list(tape.watched_variables())
        if not variables:
            raise ValueError(
                f"{name!r} reads no trainable variable, so there is nothing to differentiate by"
            )
        return value, list(zip(tape.gradient(value, variables), variables, strict=True))

    return run


def implicit_gradients(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives `(gradient, variable)` pairs for the trainable variables that `f` uses.

    Args:
        f: function of anything to a tensor.

    Returns:
        A function with the arguments of `f` that returns the pairs.

    Raises:
        ValueError: `f` returns `None`, or reads no trainable variable.
    """
    both = implicit_value_and_gradients(f)

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        return both(*args, **kwargs)[1]

    return run
