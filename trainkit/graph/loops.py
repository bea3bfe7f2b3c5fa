"""`while_loop` and `for_each` as primitives over graphs, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trainkit.core import nest, recorder
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.primitive import primitive
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor, wrap
from trainkit.graph.graph import Graph, replay
from trainkit.graph.subgraphs import vjp


def _while_rule(*inputs: Any, cond: Graph, body: Graph, count: int, split: int, limit: Any) -> Any:
    return tuple(Spec(x.shape, x.dtype) for x in body.inputs[:count])


@primitive(_while_rule, name="while_loop")
def while_primitive(
    xp: Any, *arrays: Any, cond: Graph, body: Graph, count: int, split: int, limit: int | None
) -> Any:
    """Run the graph `body` on `count` loop variables while the graph `cond` gives True.

    The next `split` arrays are captures of `cond`, the rest those of `body`.
    """
    state = list(arrays[:count])
    for_cond, for_body = list(arrays[count : count + split]), list(arrays[count + split :])
    test, step = cond.program(), body.program()
    done = 0
    while (limit is None or done < limit) and bool(test(state + for_cond)[0]):
        state = step(state + for_body)
        done += 1
    return tuple(state)


@while_primitive.joint_gradient
def _while_gradient_rule(g: Any, y: Any, *inputs: Any, **settings: Any) -> Any:
    results = deferred_vjp(
        *inputs, *g, function=Replayed("while_loop", **settings), count=len(inputs)
    )
    return spread(results, inputs)


def spread(results: Any, inputs: Sequence[Any]) -> list[Any]:
    """Gradients of the differentiable inputs in their places, `None` in the others."""
    found = iter(results if isinstance(results, tuple) else (results,))
    return [next(found) if x.dtype.is_differentiable else None for x in inputs]


class Replayed:
    """A primitive with subgraphs as a function of tensors that runs every node as an operation."""

    def __init__(self, name: str, **settings: Any) -> None:
        self.name = name
        self.settings = settings

    def __call__(self, *inputs: Any) -> list[Any]:
        """The results for eager tensors; tapes that record see each operation inside."""
        settings = self.settings
        count, split = settings["count"], settings["split"]
        state = list(inputs[:count])
        for_cond = list(inputs[count : count + split])
        for_body = list(inputs[count + split :])
        done, limit = 0, settings["limit"]
        while (limit is None or done < limit) and bool(
            replay(settings["cond"], state + for_cond)[0]
        ):
            state = replay(settings["body"], state + for_body)
            done += 1
        return state


class _Vjp:
    """The function of `deferred_vjp` as something that can be differentiated once more."""

    def __init__(self, function: Callable[..., Any], count: int) -> None:
        self.function = function
        self.count = count

    def __call__(self, *inputs: Any) -> list[Any]:
        """The gradients by the differentiable ones of the first `count` inputs."""
        xs, gs = inputs[: self.count], inputs[self.count :]
        return [gx for gx in vjp(self.function, xs, tuple(gs)) if gx is not None]


def _vjp_rule(*inputs: Any, function: Any, count: int) -> Any:
    return tuple(Spec(x.shape, x.dtype) for x in inputs[:count] if x.dtype.is_differentiable)


@primitive(_vjp_rule, name="deferred_vjp")
def deferred_vjp(xp: Any, *arrays: Any, function: Callable[..., Any], count: int) -> Any:
    """Gradients of a Python function of tensors, computed with a tape when the values are there.

    The first `count` arrays are the function's inputs, the others weigh its results.
    """
    with recorder.silence():
        grads = _Vjp(function, count)(*[wrap(a) for a in arrays])
    return tuple(gx._array for gx in grads)


@deferred_vjp.joint_gradient
def _vjp_gradient(g: Any, y: Any, *inputs: Any, function: Any, count: int) -> Any:
    gs = g if isinstance(g, tuple) else (g,)
    results = deferred_vjp(*inputs, *gs, function=_Vjp(function, count), count=len(inputs))
    return spread(results, inputs)


def _for_rule(
    *inputs: Any, body: Graph, count: int, source: Any, fed: int, stops: bool = False
) -> Any:
    return tuple(Spec(x.shape, x.dtype) for x in body.inputs[:count])


@primitive(_for_rule, name="for_each", effect=True)
def for_primitive(
    xp: Any, *arrays: Any, body: Graph, count: int, source: Any, fed: int, stops: bool = False
) -> Any:
    """Run the graph `body` on the loop variables and each element of the dataset `source`.

    With `stops` the last result of the body says whether to go on; no element is read after it
    says no.
    """
    state, captured = list(arrays[:count]), list(arrays[count:])
    step = body.program()
    for element in source:
        leaves = [_array_of(x) for x in nest.flatten(element)]
        state = step(state + leaves + captured)
        if stops and not bool(state.pop()):
            break
    return tuple(state)


def _array_of(x: Any) -> Any:
    return x._array if isinstance(x, Tensor) else convert_to_tensor(x)._array


@for_primitive.joint_gradient
def _for_gradient(g: Any, y: Any, *inputs: Any, **settings: Any) -> Any:
    raise InvalidArgumentError(
        "for_each: no gradient goes back through a loop over a dataset inside a function; "
        "put the tape inside the loop's body"
    )
