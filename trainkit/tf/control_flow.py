"""TensorFlow's top-level functions that call functions: maps, scans, branches and loops.

Each takes TensorFlow's argument names, and `name`, which is not kept.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core import dtypes, nest
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import TensorShape, broadcast_dims
from trainkit.core.tensor import PRIMITIVES, SymbolicTensor, Tensor, convert_to_tensor, is_tensor


def map_fn(
    fn: Any,
    elems: Any,
    dtype: Any = None,
    parallel_iterations: Any = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: Any = None,
    fn_output_signature: Any = None,
) -> Any:
    """`fn` applied to each item of the first axis, results stacked.

    TensorFlow's hints about how to run the loop change nothing.
    """
    return ops.map(fn, elems)


def vectorized_map(
    fn: Any, elems: Any, fallback_to_while_loop: bool = True, warn: bool = True
) -> Any:
    """`fn` applied to all items of the first axis at once, results stacked.

    Args:
        fn: of one item (a tensor, or a nest like `elems`) to a tensor or a nest.
        elems: tensor or nest of tensors (n, ...).
        fallback_to_while_loop: call `fn` once per item where once for all can't be.
        warn: a hint of TensorFlow's; there is no warning.

    Raises:
        ValueError: `fn` can't run once for all, and `fallback_to_while_loop` is False.
    """
    return ops.vectorized_map(fn, elems, fallback_to_while_loop)


def scan(
    fn: Any,
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: Any = None,
) -> Any:
    """All states of a fold: `fn(state, item)` along the first axis of `elems`.

    Args:
        fn: function of the state and one item to the next state.
        elems: tensor or nest of tensors (n, ...).
        initializer: the first state; by default the first item, which is then the first result too.
        parallel_iterations: a hint that changes no result.
        back_prop: likewise.
        swap_memory: likewise.
        infer_shape: likewise.
        reverse: from the last to the first.
        name: not kept.
    """
    elems = nest.map_structure(convert_to_tensor, elems)
    if initializer is not None:

        def step(carry: Any, x: Any) -> Any:
            new = nest.map_structure(convert_to_tensor, fn(carry, x))
            return new, new

        return ops.scan(step, initializer, elems, reverse=reverse)[1]
    cut = (lambda t: t[:-1]) if reverse else (lambda t: t[1:])
    first = nest.map_structure(lambda t: t[-1] if reverse else t[0], elems)
    rest = scan(fn, nest.map_structure(cut, elems), first, reverse=reverse)
    order = (lambda a, b: [b, a]) if reverse else (lambda a, b: [a, b])
    return nest.map_structure(
        lambda a, b: ops.concatenate(order(ops.expand_dims(a, 0), b), axis=0), first, rest
    )


def foldl(fn: Any, elems: Any, initializer: Any = None, **hints: Any) -> Any:
    """The last state of a fold from the first item to the last."""
    return nest.map_structure(lambda t: t[-1], scan(fn, elems, initializer))


def foldr(fn: Any, elems: Any, initializer: Any = None, **hints: Any) -> Any:
    """The last state of a fold from the last item to the first."""
    return nest.map_structure(lambda t: t[0], scan(fn, elems, initializer, reverse=True))


def cond(pred: Any, true_fn: Any = None, false_fn: Any = None, name: Any = None) -> Any:
    """The result of `true_fn` if `pred` holds, else that of `false_fn`."""
    return ops.cond(pred, true_fn, false_fn)


def case(
    pred_fn_pairs: Any,
    default: Any = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """The result of the first function whose condition holds, else that of `default`.

    Args:
        pred_fn_pairs: pairs of a bool scalar and a function without arguments.
        default: function without arguments.
        exclusive: check that one condition at most holds.
        strict: results keep their structure in any case.
        name: not kept.

    Raises:
        InvalidArgumentError: no condition holds and there is no default, or two hold and
            `exclusive` is set.
    """
    pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, dict) else list(pred_fn_pairs)
    if exclusive and not any(isinstance(p, SymbolicTensor) for p, _ in pairs):
        if sum(bool(p) for p, _ in pairs) > 1:
            raise InvalidArgumentError("case: exclusive=True, and more than one condition holds")
    if not pairs:
        if default is None:
            raise InvalidArgumentError("case: no condition holds, and there is no default")
        return default()
    (pred, fn), *rest = pairs
    if len(pairs) == 1 and default is None and isinstance(pred, SymbolicTensor):
        return fn()
    return ops.cond(pred, fn, lambda: case(rest, default))


def switch_case(
    branch_index: Any, branch_fns: Any, default: Any = None, name: str = "switch_case"
) -> Any:
    """The result of the function number `branch_index`.

    Outside of the range that is `default`, or the last function when there is none.
    """
    pairs = branch_fns.items() if isinstance(branch_fns, dict) else enumerate(branch_fns)
    table = dict(pairs)
    index = convert_to_tensor(branch_index)
    fallback = default or table[max(table)]
    return case([(index == i, fn) for i, fn in table.items()], fallback)


def while_loop(
    cond: Any,
    body: Any,
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: Any = None,
) -> Any:
    """Run `body` while `cond` holds; sizes that change in the loop become unknown by themselves."""
    return ops.while_loop(cond, body, loop_vars, maximum_iterations)


def group(*inputs: Any, **kwargs: Any) -> None:
    """Nothing: everything that has an effect has been run, or is part of the graph, by now."""


def no_op(name: Any = None) -> None:
    """Nothing."""
