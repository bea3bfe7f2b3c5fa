"""Branches, loops, scans and maps over tensors.

Eagerly they are Python's: the branch or the iterations run, and tapes see every operation. While a
graph is traced, a loop is a node with its body, traced once, and so is a branch on which a symbolic
tensor decides; the graph being traced does that.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from trainkit.core import nest
from trainkit.core.dispatch import eval_shape, trace_state
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor, wrap_on_device
from trainkit.core.values.python_values import short_text
from trainkit.ops.arrays.axes import expand_dims, moveaxis
from trainkit.ops.arrays.concat_and_split import concatenate, stack
from trainkit.ops.arrays.ranges import arange
from trainkit.ops.arrays.shaping import reshape, shape_tensor
from trainkit.ops.arrays.shaping import shape as shape_of
from trainkit.ops.core.axis_numbers import whole_number
from trainkit.ops.core.one_node import one_node
from trainkit.ops.math.elementwise import identity as as_it_is

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import Leaf, TensorLike

    pass

T = TypeVar("T")
LeafT = TypeVar("LeafT", bound="Leaf")


def _symbolic(x: Any) -> bool:
    return isinstance(x, SymbolicTensor)


def _value(x: Any) -> Any:
    return x._read() if hasattr(type(x), "_is_variable") else x


def _graph() -> Any:
    """The graph being traced, if it can hold loops as nodes."""
    trace = trace_state.current_trace()
    return trace if hasattr(trace, "scan") else None


def _check_branches(pred: Any, true_fn: Any, false_fn: Any) -> None:
    """Branches of a model's condition give tensors of the same shapes, as Keras asks for."""
    one, two = (eval_shape.result_specs(branch) for branch in (true_fn, false_fn))
    if one != two:
        raise InvalidArgumentError(
            f"cond: the branches give other shapes or dtypes\n  true_fn   {one}\n  false_fn  {two}"
        )


@overload
def cond(
    pred: TensorLike, true_fn: Callable[[], Tensor], false_fn: Callable[[], Leaf]
) -> Tensor: ...
@overload
def cond(
    pred: TensorLike, true_fn: Callable[[], Leaf], false_fn: Callable[[], Tensor]
) -> Tensor: ...
@overload
def cond(pred: TensorLike, true_fn: Callable[[], T], false_fn: Callable[[], T]) -> T: ...
@one_node("cond", check=_check_branches)
def cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
    """The result of `true_fn` if `pred` holds, else that of `false_fn`.

    Args:
        pred: bool scalar, tensor or Python's.
        true_fn: function without arguments.
        false_fn: function without arguments; both give the same structure and dtypes in a graph.

    Returns:
        What the function called gives.

    Raises:
        TypeError: a branch can't be called.
        InvalidArgumentError: `pred` is no scalar, or the branches don't agree in a graph.

    Example:
        >>> float(tk.ops.cond(tk.constant(True), lambda: tk.ones(()), lambda: tk.zeros(())))
        1.0
    """
    for branch, name in ((true_fn, "true_fn"), (false_fn, "false_fn")):
        if not callable(branch):
            raise TypeError(f"cond: {name} must be a function without arguments, it is {branch!r}")
    pred = _value(pred)
    if _symbolic(pred):
        return trace_state.current_trace().cond(pred, true_fn, false_fn)
    if isinstance(pred, list | tuple | np.ndarray):  # of which Python asks whether it is empty
        pred = convert_to_tensor(pred)
    if is_tensor(pred) and pred.size != 1:
        raise InvalidArgumentError(
            f"cond: pred must be a scalar, it has shape {pred.shape}; use all or any"
        )
    return true_fn() if bool(pred) else false_fn()


@one_node("switch")
def switch(index: TensorLike, branches: Sequence[Callable[..., T]], *operands: Any) -> T:
    """The result of the branch number `index`, called with `operands`.

    Args:
        index: int scalar; one outside of [0, len(branches)) counts as the nearest end.
        branches: functions of `operands`, at least one.
        *operands: anything.

    Raises:
        ValueError: there is no branch.

    Example:
        >>> float(tk.ops.switch(1, [tk.sin, tk.square], tk.constant(3.0)))
        9.0
    """
    if not branches:
        raise ValueError("switch: there is no branch to choose")
    number = _value(index)
    if not _symbolic(number):
        return branches[min(max(int(number), 0), len(branches) - 1)](*operands)
    if len(branches) == 1:
        return branches[0](*operands)
    return cond(
        number <= 0,
        lambda: branches[0](*operands),
        lambda: switch(number - 1, branches[1:], *operands),
    )


@overload
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: tuple[Leaf, ...],
    maximum_iterations: TensorLike | None = None,
) -> tuple[Tensor, ...]: ...
@overload
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: list[LeafT],
    maximum_iterations: TensorLike | None = None,
) -> list[Tensor]: ...
@overload
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: T,
    maximum_iterations: TensorLike | None = None,
) -> T: ...
@one_node("while_loop")
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    maximum_iterations: Any = None,
) -> Any:
    """Run `body` while `cond` holds.

    Args:
        cond: function of the loop variables to a bool scalar.
        body: function of the loop variables to their next values, in the same structure.
        loop_vars: list or tuple of tensors (or nests), which are spread over the
            arguments; or one tensor.
        maximum_iterations: the loop ends after so many at the latest.

    Returns:
        The loop variables at the end, in the structure of `loop_vars`.

    Raises:
        InvalidArgumentError: the body gives another structure.

    Example:
        >>> int(tk.ops.while_loop(lambda n: n < 4, lambda n: (n + 1,), (tk.constant(0),))[0])
        4
    """
    graph = _graph()
    if graph is not None:
        return graph.while_loop(cond, body, loop_vars, maximum_iterations)
    spreads = _spreads(loop_vars)
    state = nest.map_structure(lambda x: x if is_tensor(x) else convert_to_tensor(x), loop_vars)
    state = nest.map_structure(_value, state)
    trace = trace_state.current_trace()
    iterations = 0
    while True:
        decision = _value(cond(*state) if spreads else cond(state))
        if maximum_iterations is not None and iterations >= int(maximum_iterations):
            break  # behind the condition, which may do something, as in TensorFlow
        if _symbolic(decision):
            left = None if maximum_iterations is None else int(maximum_iterations) - iterations
            return trace.while_loop(cond, body, state, left)
        if not bool(decision):
            break
        result = body(*state) if spreads else body(state)
        state = _same_structure(loop_vars, result, spreads)
        iterations += 1
    return state


def _spreads(loop_vars: Any) -> bool:
    """Whether loop variables are several; a `TensorArray` is one."""
    return isinstance(loop_vars, list | tuple) and nest.above_arrays(loop_vars) is not None


def _same_structure(loop_vars: Any, result: Any, spreads: bool) -> Any:
    if spreads and len(loop_vars) == 1 and not _spreads(result):
        result = [result]
    leaves = nest.flatten(result, nest.above_arrays)
    count = len(nest.flatten(loop_vars, nest.above_arrays))
    if len(leaves) != count:
        raise InvalidArgumentError(
            f"while_loop: the body gives {len(leaves)} values for {count} "
            "loop variables; it must give the next value of each"
        )
    if not nest.same_variables(loop_vars, result):
        raise InvalidArgumentError(
            f"while_loop: the body gives {short_text(result)}, which is nested otherwise than the "
            f"loop variables {short_text(loop_vars)}"
        )
    ready = [_next_value(x) for x in leaves]
    return nest.pack(loop_vars, ready, nest.above_arrays)


def _next_value(x: Any) -> Any:
    if nest.is_nested(x):
        return x  # an array with its elements
    return _value(x) if is_tensor(x) else convert_to_tensor(x)


@overload
def fori_loop(
    lower: TensorLike, upper: TensorLike, body_fun: Callable[[Any, Any], Any], init_val: Leaf
) -> Tensor: ...
@overload
def fori_loop(
    lower: TensorLike, upper: TensorLike, body_fun: Callable[[Any, Any], Any], init_val: T
) -> T: ...
@one_node("fori_loop")
def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any) -> Any:
    """Fold `body_fun(i, value)` over the integers from `lower` up to, not including, `upper`.

    Args:
        lower: int scalar.
        upper: int scalar.
        body_fun: function of the number and the value to the next value.
        init_val: the first value, a tensor or a nest.

    Returns:
        The last value, with tensors in the place of numbers and arrays.

    Example:
        >>> int(tk.ops.fori_loop(0, 4, lambda i, total: total + i, tk.constant(0)))
        6
    """
    lower, upper = (
        n if _symbolic(n) else whole_number(n, "fori_loop", name)
        for name, n in (("lower", _value(lower)), ("upper", _value(upper)))
    )
    graph = _graph()
    if graph is not None:
        numbers = arange(lower, upper)
        steps = _steps(numbers)
        return graph.scan(lambda v, i: (body_fun(i, v), None), init_val, numbers, steps)[0]
    if _symbolic(lower) or _symbolic(upper):
        result = while_loop(
            lambda i, value: i < upper,
            lambda i, value: (i + 1, body_fun(i, value)),
            (convert_to_tensor(lower), init_val),
        )
        return result[1]
    value = init_val
    for i in builtins.range(lower, upper):
        value = body_fun(i, value)
    return nest.map_structure(_next_value, value)


def _steps(x: Any) -> Any:
    """The size of the first axis: an int, or a symbolic scalar if that is not known yet."""
    n = x.shape[0]
    return shape_tensor(x)[0] if n is None else n


def _length(xs: Any, length: Any, op: str) -> Any:
    """The size that the first axes share; a symbolic scalar in a graph where none is known."""
    leaves = nest.flatten(xs)
    sizes = {x.shape[0] for x in leaves if is_tensor(x)}
    if length is not None:
        sizes.add(int(length))
    if _graph() is not None:
        static_sizes = sizes - {None}
        if leaves and not static_sizes:
            return _steps(leaves[0])
        sizes = static_sizes
    if len(sizes) != 1:
        raise InvalidArgumentError(
            f"{op}: the first axes of all inputs must have one size, they have "
            f"{sorted(map(str, sizes))}"
        )
    size = sizes.pop()
    if size is None:
        raise InvalidArgumentError(
            f"{op}: the size of the first axis is not known while tracing; use tk.while_loop"
        )
    return int(size)


def _tensors(xs: Any) -> Any:
    return nest.map_structure(lambda x: _value(x) if is_tensor(x) else convert_to_tensor(x), xs)


def _stack(items: list[Any]) -> Any:
    """Results of rounds, stacked; `None` stays."""

    def join(*leaves: Any) -> Any:
        return None if leaves[0] is None else stack([_tensors(x) for x in leaves], axis=0)

    return nest.map_structure(join, items[0], *items[1:])


def _stack_nothing(f: Callable[[Any], Any], xs: Any) -> Any:
    """What `_stack` would give of no items: `f` is traced, since no result shows its shape."""
    item = nest.map_structure(lambda x: Spec(x.shape[1:], x.dtype), xs)

    def empty(y: Any) -> Any:
        if y is None:
            return None
        spec = y if isinstance(y, Spec) else convert_to_tensor(y)
        sizes = [n or 0 for n in spec.shape]
        return wrap_on_device(np.zeros((0, *sizes), spec.dtype.dtype))

    return nest.map_structure(empty, eval_shape.result_specs(f, item))


@one_node("scan")
def scan(
    f: Callable[[Any, Any], Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: bool | int = 1,
) -> tuple[Any, Any]:
    """Carry a state along the first axis of `xs` and collect an output at each step.

    Args:
        f: function of `(carry, x)` to `(carry, y)`.
        init: the first carry, a tensor or a nest.
        xs: tensor or nest of tensors (n, ...), or `None`.
        length: n, needed when `xs` is `None`.
        reverse: go from the last to the first; outputs keep their places.
        unroll: a hint of JAX's that changes no result.

    Returns:
        The last carry and the outputs stacked along a new first axis, `None` where `f` gives
        `None`.

    Raises:
        TypeError: `f` is not callable.
        InvalidArgumentError: sizes of first axes differ.

    Example:
        >>> add = lambda total, x: (total + x, total + x)
        >>> total, sums = tk.ops.scan(add, tk.constant(0), tk.constant([1, 2, 3]))
        >>> sums.numpy()
        array([1, 3, 6], dtype=int32)
    """
    if not callable(f):
        raise TypeError(f"scan: f must be a function of (carry, x), it is {f!r}")
    if not isinstance(unroll, bool) and not (isinstance(unroll, int) and unroll > 0):
        raise ValueError(f"scan: unroll must be a bool or an int above 0, got {unroll!r}")
    if xs is None and length is None:
        raise ValueError("scan: give xs, or length when there are none")
    xs = None if xs is None else _tensors(xs)
    n = _length(xs, length, "scan") if xs is not None else int(length or 0)
    graph = _graph()
    if graph is not None:
        carry_and_outputs: tuple[Any, Any] = graph.scan(f, init, xs, n, reverse)
        return carry_and_outputs
    carry = _tensors(init)
    if not n:
        return carry, _stack_nothing(lambda x: f(carry, x)[1], xs)
    outputs: list[Any] = [None] * n
    order = builtins.range(n - 1, -1, -1) if reverse else builtins.range(n)
    for i in order:
        x = None if xs is None else nest.map_structure(lambda t, i=i: t[i], xs)
        carry, output = f(carry, x)
        outputs[i] = _output_beside(carry, output) if trace_state.TAPES else output
    if all(leaf is None for leaf in nest.flatten(outputs[0])):
        return carry, outputs[0]
    return carry, _stack(outputs)


def _output_beside(carry: Any, output: Any) -> Any:
    """A step's output, where it is a state carried on a tensor of its own.

    Gradients of later steps then come together before that of the output is added, as they do where
    a loop's body, whose results these are, goes back step by step.
    """
    carried = {id(x) for x in nest.flatten(carry)}
    return nest.map_structure(lambda y: as_it_is(y) if id(y) in carried else y, output)


@overload
def map(f: Callable[[Tensor], Leaf], xs: Leaf) -> Tensor: ...
@overload
def map(f: Callable[[Any], Any], xs: Any) -> Any: ...
@one_node("map")
def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """Apply `f` to each item of the first axis of `xs` and stack the results.

    Args:
        f: function of one item (a tensor, or a nest like `xs`) to a tensor or a nest.
        xs: tensor or nest of tensors (n, ...).

    Returns:
        The results stacked along a new first axis. Of no items (0, ...): then `f` is called once,
        on a symbolic tensor, for the shapes and dtypes of its results.

    Example:
        >>> tk.ops.map(lambda x: x * x, tk.constant([1, 2, 3])).numpy()
        array([1, 4, 9], dtype=int32)
    """
    xs = _tensors(xs)
    n = _length(xs, None, "map")
    graph = _graph()
    if graph is not None:
        return graph.scan(lambda carry, x: (carry, f(x)), (), xs, n)[1]
    if not n:
        return _stack_nothing(f, xs)
    return _stack([f(nest.map_structure(lambda t, i=i: t[i], xs)) for i in builtins.range(n)])


@overload
def associative_scan(
    f: Callable[[Any, Any], Any], elems: Leaf, reverse: bool = False, axis: int = 0
) -> Tensor: ...
@overload
def associative_scan(
    f: Callable[[Any, Any], Any], elems: T, reverse: bool = False, axis: int = 0
) -> T: ...
@one_node("associative_scan")
def associative_scan(
    f: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """All partial results of an associative function along an axis.

    Adjacent pairs are combined first and halves recursively, so `f` is called about 2 log2(n)
    times, on whole slices. Source: Blelloch 1990, "Prefix sums and their applications".

    Args:
        f: associative function of two tensors (or nests) of equal shapes, element by element of
            `axis`.
        elems: tensor or nest of tensors.
        reverse: from the last to the first.
        axis: the axis to go along.

    Returns:
        A nest like `elems`: at i the combination of the items 0 to i.

    Raises:
        TypeError: `f` is not callable.
        InvalidArgumentError: the sizes along the axis differ.

    Example:
        >>> tk.ops.associative_scan(lambda a, b: a + b, tk.constant([1, 2, 3])).numpy()
        array([1, 3, 6], dtype=int32)
    """
    if not callable(f):
        raise TypeError(f"associative_scan: f must be a function of two values, it is {f!r}")
    elems = _tensors(elems)
    leaves = nest.flatten(elems)
    sizes = {x.shape[axis] for x in leaves}
    if len(sizes - {None}) > 1:
        raise InvalidArgumentError(
            f"associative_scan: all inputs must have one size along axis {axis}, their shapes are "
            f"{[tuple(x.shape) for x in leaves]}"
        )
    if _graph() is not None and any(x.shape[axis] is None for x in leaves):
        return _one_after_another(f, elems, reverse, axis)

    def cut(start: Any, stop: Any = None, step: int = 1) -> Callable[[Tensor], Tensor]:
        def one(t: Tensor) -> Tensor:
            index: list[Any] = [slice(None)] * len(t.shape)
            index[axis] = slice(start, stop, step)
            return t[tuple(index)]

        return one

    def combine(a: list[Any], b: list[Any]) -> list[Any]:
        return nest.flatten(f(nest.pack(elems, a), nest.pack(elems, b)))

    def run(xs: list[Any]) -> list[Any]:
        n = xs[0].shape[axis]
        if n < 2:
            return xs
        pairs = combine([cut(0, n - 1, 2)(x) for x in xs], [cut(1, None, 2)(x) for x in xs])
        odd = run(pairs)
        if n % 2 == 0:
            later = combine([cut(0, -1)(o) for o in odd], [cut(2, None, 2)(x) for x in xs])
        else:
            later = combine(odd, [cut(2, None, 2)(x) for x in xs])
        even = [concatenate([cut(0, 1)(x), e], axis=axis) for x, e in zip(xs, later, strict=True)]
        return [_interleave(e, o, axis) for e, o in zip(even, odd, strict=True)]

    flipped = [cut(None, None, -1)(x) for x in leaves] if reverse else leaves
    partials = run(flipped)
    return nest.pack(elems, [cut(None, None, -1)(x) for x in partials] if reverse else partials)


def _one_after_another(f: Callable[[Any, Any], Any], elems: Any, reverse: bool, axis: int) -> Any:
    """All partial results in order, where the number of items is not known while tracing."""
    rows = nest.map_structure(lambda x: moveaxis(x, axis, 0), elems)
    first = nest.map_structure(lambda x: x[-1 if reverse else 0], rows)
    later = nest.map_structure(lambda x: x[:-1] if reverse else x[1:], rows)

    def step(total: Any, row: Any) -> tuple[Any, Any]:
        total = f(total, row)
        return total, total

    _, totals = scan(step, first, later, reverse=reverse)

    def join(start: Any, others: Any) -> Any:
        parts = [expand_dims(start, 0), others]
        return moveaxis(concatenate(parts[::-1] if reverse else parts, axis=0), 0, axis)

    return nest.map_structure(join, first, totals)


def _interleave(even: Any, odd: Any, axis: int) -> Any:
    """Items of both in turns, `even` first."""
    n = odd.shape[axis]
    index: list[Any] = [slice(None)] * len(even.shape)
    index[axis] = slice(0, n)
    paired = stack([even[tuple(index)], odd], axis=axis + 1 if axis >= 0 else axis)
    sizes = list(shape_of(odd))
    sizes[axis] = 2 * n

    joined = reshape(paired, tuple(sizes))
    if even.shape[axis] == n:
        return joined
    index[axis] = slice(n, None)
    return concatenate([joined, even[tuple(index)]], axis=axis)
