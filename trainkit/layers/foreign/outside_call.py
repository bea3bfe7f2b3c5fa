"""A call of another library as a function with a gradient, at once or as a node of a graph."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from trainkit.autodiff.custom_vjp import custom_gradient
from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import UnimplementedError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.tensor_spec import TensorSpec
from trainkit.graph.control_flow.host_calls import py_function

_SIZES = (2, 3)  # in place of a size that is not known


def call_outside(
    name: str,
    forward: Callable[..., list[Tensor]],
    backward: Callable[..., list[Tensor]],
    inputs: list[Tensor],
    specs: list[Spec],
) -> list[Tensor]:
    """The results of `forward`, which tapes differentiate by `backward`.

    Args:
        name: of the layer, for errors.
        forward: takes tensors with values, gives a list of them.
        backward: takes the results, their gradients and the inputs, in one list; of the results and
            gradients only the smooth ones have values that mean something. It gives the gradients
            of the smooth inputs.
        inputs: tensors.
        specs: of the results, as far as they are known.
    """
    results = [TensorSpec(spec.shape, spec.dtype) for spec in specs]
    smooth = [i for i, x in enumerate(inputs) if x.dtype.is_differentiable]
    used = [i for i, spec in enumerate(specs) if spec.dtype.is_differentiable]

    @custom_gradient
    def call(*tensors: Tensor) -> Any:
        outputs = py_function(forward, list(tensors), results)

        def gradient(*upstream: Any) -> Any:
            like = [TensorSpec(tensors[i].shape, tensors[i].dtype) for i in smooth]
            operands = [*outputs, *[upstream[i] for i in used], *tensors]
            by_smooth = iter(_once(name, backward, operands, like))
            positions = set(smooth)
            gradients = [next(by_smooth) if i in positions else None for i in range(len(tensors))]
            return gradients

        return tuple(outputs), gradient

    return list(call(*inputs))


def _once(
    name: str, backward: Callable[..., list[Tensor]], operands: list[Tensor], like: list[TensorSpec]
) -> list[Tensor]:
    """The gradients, which can't be differentiated again."""

    def refuse(*upstream: Any) -> Any:
        raise UnimplementedError(
            f"layer {name!r}: a second derivative is asked for, and the library behind the layer "
            "gives first ones alone; write the function with trainkit.ops, in the call of a Layer"
        )

    # A graph runs its calls under a tape, so what refuses is the gradient of this one, not a tape
    # that listens to it.
    @custom_gradient
    def run(*tensors: Tensor) -> Any:
        return tuple(backward(*tensors)), refuse

    if trace_state.current_graph() is not None:
        gradients: list[Tensor] = py_function(lambda *tensors: list(run(*tensors)), operands, like)
        return gradients
    return list(run(*operands))


def results_before(tensors: Sequence[Tensor], count: int) -> list[Tensor]:
    """The results in what `backward` gets: `count` tensors are they and the gradients of some."""
    results: list[Tensor] = []
    gradients = 0
    while len(results) + gradients < count:
        results.append(tensors[len(results)])
        gradients += results[-1].dtype.is_differentiable
    return results


def probe_specs(specs: list[Spec], ask: Callable[[list[Spec]], Any]) -> Any:
    """What `ask` says of results, with `None` for the sizes that follow from unknown ones.

    Args:
        specs: of the inputs, whose sizes may be `None`.
        ask: gives a nest of specs for inputs whose sizes are known.
    """
    if all(None not in tuple(spec.shape) for spec in specs):
        return ask(specs)
    try:
        answers = [
            ask([Spec(tuple(size if n is None else n for n in s.shape), s.dtype) for s in specs])
            for size in _SIZES
        ]
    except Exception as error:
        error.add_note(f"sizes that are not known yet were tried as {_SIZES[0]} and {_SIZES[1]}")
        raise
    return nest.map_structure(_common, *answers)


def _common(a: Any, b: Any) -> Any:
    if not isinstance(a, Spec):
        return a
    sizes = itertools.zip_longest(tuple(a.shape), tuple(b.shape))
    return Spec(tuple(m if m == n else None for m, n in sizes), a.dtype)
