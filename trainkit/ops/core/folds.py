"""Folds over the first axis, and branches chosen by conditions or a number.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from trainkit.core import nest
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import convert_to_tensor
from trainkit.ops.arrays.axes import expand_dims
from trainkit.ops.arrays.concat_and_split import concatenate
from trainkit.ops.core.control_flow import cond
from trainkit.ops.core.control_flow import scan as scan_

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trainkit.core.tensor import Tensor
    from trainkit.core.values.type_aliases import Leaf, TensorLike

T = TypeVar("T")


@overload
def scan(
    fn: Callable[..., Leaf],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Tensor: ...
@overload
def scan(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any: ...
def scan(
    fn: Callable[..., Any],
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


@overload
def foldl(fn: Callable[..., Leaf], elems: Any, initializer: Any = None, **hints: Any) -> Tensor: ...
@overload
def foldl(fn: Callable[..., Any], elems: Any, initializer: Any = None, **hints: Any) -> Any: ...
def foldl(fn: Callable[..., Any], elems: Any, initializer: Any = None, **hints: Any) -> Any:
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


@overload
def foldr(fn: Callable[..., Leaf], elems: Any, initializer: Any = None, **hints: Any) -> Tensor: ...
@overload
def foldr(fn: Callable[..., Any], elems: Any, initializer: Any = None, **hints: Any) -> Any: ...
def foldr(fn: Callable[..., Any], elems: Any, initializer: Any = None, **hints: Any) -> Any:
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
    pred_fn_pairs: Sequence[tuple[Any, Callable[[], T]]] | Mapping[Any, Callable[[], T]],
    default: Callable[[], T] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> T:
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
    pairs: list[tuple[Any, Callable[[], T]]] = list(
        pred_fn_pairs.items() if isinstance(pred_fn_pairs, Mapping) else pred_fn_pairs
    )
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


def _branches_by_number(branch_fns: Any) -> dict[int, Callable[[], Any]]:
    if isinstance(branch_fns, Mapping):
        return dict(branch_fns)
    are_pairs = all(isinstance(branch, tuple) for branch in branch_fns)
    return dict(branch_fns if are_pairs else enumerate(branch_fns))


def switch_case(
    branch_index: TensorLike,
    branch_fns: Mapping[int, Callable[[], T]]
    | Sequence[Callable[[], T] | tuple[int, Callable[[], T]]],
    default: Callable[[], T] | None = None,
    name: str = "switch_case",
) -> T:
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
    table: dict[int, Callable[[], T]] = _branches_by_number(branch_fns)
    index = convert_to_tensor(branch_index)
    fallback = default or table[max(table)]
    return case([(index == i, fn) for i, fn in table.items()], fallback)
