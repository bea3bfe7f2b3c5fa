"""Gradients of gradients of fused operations: replay the formula in plain operations under a tape.

A fused operation has a hand-written gradient, itself an operation. Its own gradient is rarely
asked for; where it is, the same formula written in plain operations is run under a tape
and differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trainkit.core.dispatch import trace_state
from trainkit.core.tensor import Tensor

Formula = Callable[..., Any]


def replayed_gradient(formula: Formula, inputs: Sequence[Any], g: Any) -> tuple[Any, ...]:
    """What `formula(*inputs)` sends back to each of its inputs.

    Args:
        formula: made of operations with gradients; gives a tensor or a tuple of tensors.
        inputs: tensors, or `None`; those without gradients, such as integers, are left alone.
        g: gradient by the result, nested as the result is; `None` in it stands for zeros.

    Returns:
        One gradient for each input, `None` where there is none.
    """
    positions = [
        i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.dtype.is_differentiable
    ]
    sources = [inputs[i] for i in positions]
    with trace_state.new_tape() as tape:
        tape.watch(sources)
        y = formula(*inputs)
    results, seeds = (y, g) if isinstance(y, tuple) else ((y,), (g,))
    used = [(a, b) for a, b in zip(results, seeds, strict=True) if a is not None and b is not None]
    gradients = tape.gradient([a for a, _ in used], sources, output_gradients=[b for _, b in used])
    by_input: list[Any] = [None] * len(inputs)
    for i, gradient in zip(positions, gradients, strict=True):
        by_input[i] = gradient
    return tuple(by_input)


def replayed_second_gradient(formula: Formula, g: Any, inputs: Sequence[Any], gg: Any) -> Any:
    """What the gradient of `formula` sends back to `g` and to each input.

    Args:
        formula: as for `replayed_gradient`.
        inputs: as for `replayed_gradient`.
        g: gradient by the result of `formula`, a tensor or a tuple of tensors.
        gg: gradient by each gradient that the formula sends back, `None` for zeros.

    Returns:
        (gradient by `g`, nested as `g` is; gradients by the inputs).
    """
    several = isinstance(g, tuple)
    count = len(g) if several else 1

    def first(*args: Any) -> Any:
        seed = args[:count] if several else args[0]
        return replayed_gradient(formula, args[count:], seed)

    gradients = replayed_gradient(first, (*(g if several else (g,)), *inputs), tuple(gg))
    return (gradients[:count] if several else gradients[0]), gradients[count:]
