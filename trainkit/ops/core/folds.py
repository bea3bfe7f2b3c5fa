"""Folds over the first axis, and branches chosen by conditions or a number.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

from typing import Any

from trainkit.core import nest
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import convert_to_tensor
from trainkit.ops.arrays.axes import expand_dims
from trainkit.ops.arrays.concat_and_split import concatenate
from trainkit.ops.core.control_flow import cond
from trainkit.ops.core.control_flow import scan as scan_


def scan(
    fn: Any,
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
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

    Example:
        >>> tk.scan(lambda total, x: total + x, tk.constant([1, 2, 3])).numpy()
        array([1, 3, 6], dtype=int32)
    """
    elems = nest.map_structure(convert_to_tensor, elems)
    if initializer is not None:

        def step(carry: Any, x: Any) -> Any:
            new = nest.map_structure(convert_to_tensor, fn(carry, x))
            return new, new

        return scan_(step, initializer, elems, reverse=reverse)[1]
    item_slice = slice(None, -1) if reverse else slice(1, None)
    first = nest.map_structure(lambda t: t[-1] if reverse else t[0], elems)
    states = scan(fn, nest.map_structure(lambda t: t[item_slice], elems), first, reverse=reverse)

    def join(one: Any, others: Any) -> Any:
        parts = [expand_dims(one, 0), others]
        return concatenate(parts[::-1] if reverse else parts, axis=0)

    return nest.map_structure(join, first, states)


def foldl(fn: Any, elems: Any, initializer: Any = None, **hints: Any) -> Any:
    """The last state of a fold from the first item to the last.

    Args:
        fn: of the state and an item to the next state.
        elems: tensor or nest of tensors (n, ...).
        initializer: the first state; by default the first item.
        **hints: TensorFlow's hints about the loop, which change no result.

    Example:
        >>> int(tk.foldl(lambda total, x: total + x, tk.constant([1, 2, 3])))
        6
    """
    return _fold(fn, elems, initializer, reverse=False)


def foldr(fn: Any, elems: Any, initializer: Any = None, **hints: Any) -> Any:
    """The last state of a fold from the last item to the first.

    Args:
        fn: of the state and an item to the next state.
        elems: tensor or nest of tensors (n, ...).
        initializer: the first state; by default the first item.
        **hints: TensorFlow's hints about the loop, which change no result.

    Example:
        >>> int(tk.foldr(lambda total, x: total * 10 + x, tk.constant([1, 2, 3])))
        321
    """
    return _fold(fn, elems, initializer, reverse=True)


def _fold(fn: Any, elems: Any, initializer: Any, reverse: bool) -> Any:
    """The last state of a fold; the first one where there are no items."""
    elems = nest.map_structure(convert_to_tensor, elems)
    if initializer is None:
        item_slice = slice(None, -1) if reverse else slice(1, None)
        initializer = nest.map_structure(lambda t: t[-1] if reverse else t[0], elems)
        elems = nest.map_structure(lambda t: t[item_slice], elems)

    def step(state: Any, x: Any) -> Any:
        return nest.map_structure(convert_to_tensor, fn(state, x)), None

    last = scan_(step, initializer, elems, reverse=reverse)[0]
    return nest.map_structure(convert_to_tensor, last)


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

    Raises:
        InvalidArgumentError: no condition holds and there is no default, or two hold and
            `exclusive` is set.

    Example:
        >>> x = tk.constant(3)
        >>> int(tk.case([(x < 1, lambda: tk.constant(10))], default=lambda: tk.constant(20)))
        20
    """
    pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, dict) else list(pred_fn_pairs)
    if exclusive and not any(isinstance(p, SymbolicTensor) for p, _ in pairs):
        if sum(bool(p) for p, _ in pairs) > 1:
            raise InvalidArgumentError("case: exclusive=True, and more than one condition holds")
    if not pairs:
        if default is None:
            raise InvalidArgumentError("case: no condition holds, and there is no default")
        return default()
    (pred, fn), *other_pairs = pairs
    if len(pairs) == 1 and default is None and isinstance(pred, SymbolicTensor):
        return fn()
    return cond(pred, fn, lambda: case(other_pairs, default))


def switch_case(
    branch_index: Any, branch_fns: Any, default: Any = None, name: str = "switch_case"
) -> Any:
    """The result of the function number `branch_index`.

    Outside of the range that is `default`, or the last function when there is none.

    Args:
        branch_index: int scalar.
        branch_fns: list of functions without arguments, or a dict or pairs by number.
        default: function without arguments.

    Example:
        >>> int(tk.switch_case(tk.constant(1), [lambda: tk.constant(10), lambda: tk.constant(20)]))
        20
    """
    pairs = branch_fns.items() if isinstance(branch_fns, dict) else enumerate(branch_fns)
    table = dict(pairs)
    index = convert_to_tensor(branch_index)
    fallback = default or table[max(table)]
    return case([(index == i, fn) for i, fn in table.items()], fallback)
