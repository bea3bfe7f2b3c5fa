"""TensorFlow's top-level functions that call functions: maps, scans, branches and loops.

Each takes TensorFlow's argument names, and `name`, which is not kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from trainkit import ops
from trainkit.autodiff import graph_gradients
from trainkit.autodiff.tape import UnconnectedGradients
from trainkit.core import nest
from trainkit.core.dispatch import eval_shape, trace_state
from trainkit.core.names import control_dependencies
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.values.docstrings import describe_arguments as _describe_arguments
from trainkit.graph.ir.session_operation import SessionOperation, group_of
from trainkit.ops.core.folds import case as case
from trainkit.ops.core.folds import foldl as foldl
from trainkit.ops.core.folds import foldr as foldr
from trainkit.ops.core.folds import scan as scan
from trainkit.ops.core.folds import switch_case as switch_case
from trainkit.ops.core.loop_shapes import check_invariants
from trainkit.ops.math.elementwise import identity as _identity

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from trainkit.core.values.type_aliases import DTypeLike, Leaf, TensorLike

T = TypeVar("T")
LeafT = TypeVar("LeafT", bound="Leaf")


@overload
def map_fn(
    fn: Callable[[Tensor], Leaf],
    elems: Leaf,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Tensor: ...
@overload
def map_fn(
    fn: Callable[..., Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any: ...
def map_fn(
    fn: Callable[..., Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """`fn` applied to each item of the first axis, results stacked.

    TensorFlow's hints about how to run the loop change nothing.

    Args:
        fn: of one item (a tensor, or a nest like `elems`) to a tensor or a nest.
        elems: tensor or nest of tensors (n, ...).
        dtype: not needed: results tell it.
        parallel_iterations: a hint that changes no result.
        back_prop: a hint that changes no result.
        swap_memory: a hint that changes no result.
        infer_shape: a hint that changes no result.
        fn_output_signature: not needed: results tell it.

    Example:
        >>> tk.map_fn(lambda x: x * x, tk.constant([1, 2, 3])).numpy()
        array([1, 4, 9], dtype=int32)
    """
    return ops.map(fn, elems)


@overload
def vectorized_map(
    fn: Callable[[Tensor], Leaf],
    elems: Leaf,
    fallback_to_while_loop: bool = True,
    warn: bool = True,
) -> Tensor: ...
@overload
def vectorized_map(
    fn: Callable[..., Any], elems: Any, fallback_to_while_loop: bool = True, warn: bool = True
) -> Any: ...
def vectorized_map(
    fn: Callable[..., Any], elems: Any, fallback_to_while_loop: bool = True, warn: bool = True
) -> Any:
    """`fn` applied to all items of the first axis at once, results stacked.

    Args:
        fn: of one item (a tensor, or a nest like `elems`) to a tensor or a nest.
        elems: tensor or nest of tensors (n, ...).
        fallback_to_while_loop: call `fn` once per item where once for all can't be.
        warn: a hint of TensorFlow's; there is no warning.

    Raises:
        ValueError: `fn` can't run once for all, and `fallback_to_while_loop` is False.

    Example:
        >>> x = tk.constant([[1.0, 2.0], [3.0, 4.0]])
        >>> tk.vectorized_map(lambda row: tk.reduce_sum(row * row), x).numpy()
        array([ 5., 25.], dtype=float32)
    """
    return ops.vectorized_map(fn, elems, fallback_to_while_loop)


@overload
def cond(
    pred: TensorLike,
    true_fn: Callable[[], Tensor],
    false_fn: Callable[[], Leaf],
    name: str | None = None,
) -> Tensor: ...
@overload
def cond(
    pred: TensorLike,
    true_fn: Callable[[], Leaf],
    false_fn: Callable[[], Tensor],
    name: str | None = None,
) -> Tensor: ...
@overload
def cond(
    pred: TensorLike, true_fn: Callable[[], T], false_fn: Callable[[], T], name: str | None = None
) -> T: ...
def cond(pred: Any, true_fn: Any = None, false_fn: Any = None, name: str | None = None) -> Any:
    """The result of `true_fn` if `pred` holds, else that of `false_fn`.

    Args:
        pred: bool scalar.
        true_fn: function without arguments.
        false_fn: function without arguments, whose result has the same structure.

    Example:
        >>> float(tk.cond(tk.constant(True), lambda: tk.constant(1.0), lambda: tk.constant(2.0)))
        1.0
    """
    return ops.cond(pred, true_fn, false_fn)


@overload
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: tuple[Leaf, ...],
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: TensorLike | None = None,
    name: str | None = None,
) -> tuple[Tensor, ...]: ...
@overload
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: list[LeafT],
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: TensorLike | None = None,
    name: str | None = None,
) -> list[Tensor]: ...
@overload
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: T,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: TensorLike | None = None,
    name: str | None = None,
) -> T: ...
def while_loop(
    cond: Any,
    body: Any,
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: str | None = None,
) -> Any:
    """Run `body` while `cond` holds.

    Args:
        cond: of the loop variables to a bool scalar.
        body: of the loop variables to their next values.
        loop_vars: list or nest of tensors.
        shape_invariants: shapes in the structure of `loop_vars`, with `None` for sizes that change
            in the loop; by default all stay as they are. Asked for in graphs alone.
        parallel_iterations: a hint that changes no result.
        back_prop: a hint that changes no result.
        swap_memory: a hint that changes no result.
        maximum_iterations: how often at most; no limit by default.

    Raises:
        ShapeError: in a graph, a shape changes otherwise than `shape_invariants` says.

    Example:
        >>> begin = (tk.constant(0), tk.constant(0))
        >>> n, total = tk.while_loop(lambda n, t: n < 4, lambda n, t: (n + 1, t + n), begin)
        >>> int(total)
        6
    """
    results = ops.while_loop(cond, body, loop_vars, maximum_iterations)
    check_invariants(loop_vars, results, shape_invariants)
    return results


def group(*inputs: Any, **kwargs: Any) -> SessionOperation | None:
    """Nothing: everything that has an effect has been run, or is part of the graph, by now.

    Args:
        inputs: what has been run.
        **kwargs: not kept.

    Returns:
        `None`; for operations of a graph of version 1, one that runs them all.

    Example:
        >>> tk.group(tk.Variable(1.0).assign(2.0))
    """
    leaves = nest.flatten(inputs)
    by_hand = trace_state.current_graph()
    if getattr(by_hand, "is_built_by_hand", False):
        return group_of(leaves, kwargs.get("name") or "group_deps")
    return None


def no_op(name: str | None = None) -> SessionOperation | None:
    """Nothing; in a graph of version 1 an operation that runs what it depends on.

    Args:
        name: of the operation.

    Example:
        >>> tk.no_op()
    """
    if getattr(trace_state.current_graph(), "is_built_by_hand", False):
        return group_of([], name or "NoOp")
    return None


def init_scope() -> AbstractContextManager[None]:
    """Make a context in which operations run at once, even while a function is being traced.

    Example:
        >>> with tk.init_scope():
        ...     print(tk.executing_eagerly())
        True
    """
    return eval_shape.eagerly()


def inside_function() -> bool:
    """Whether a function is being traced.

    Example:
        >>> tk.inside_function()
        False
    """
    return trace_state.current_graph() is not None


def is_symbolic_tensor(tensor: TensorLike) -> bool:
    """Whether `tensor` stands for a value that is computed later.

    Args:
        tensor: a tensor.

    Raises:
        TypeError: it is no tensor.

    Example:
        >>> tk.is_symbolic_tensor(tk.constant(1.0))
        False
    """
    if not is_tensor(tensor):
        raise TypeError(f"is_symbolic_tensor: {tensor!r} is no tensor")
    return isinstance(tensor, SymbolicTensor)


def get_static_value(tensor: Any, partial: bool = False) -> Any:
    """The value as a NumPy array, `None` if it is not known yet.

    Args:
        tensor: a tensor or variable.
        partial: only False; a value is known as a whole or not at all.

    Raises:
        ValueError: `partial` is True.

    Example:
        >>> tk.get_static_value(tk.constant([1, 2]))
        array([1, 2], dtype=int32)
    """
    if partial:
        raise ValueError("get_static_value: only partial=False is supported")
    value = tensor if isinstance(tensor, Tensor) else tensor.value()
    return None if isinstance(value, SymbolicTensor) else value.numpy()


def identity_n(input: TensorLike, name: str | None = None) -> list[Tensor]:
    """A list of the tensors.

    Args:
        input: nest of tensors.

    Example:
        >>> [x.numpy() for x in tk.identity_n([[1], [2]])]
        [np.int32(1), np.int32(2)]
    """
    return [convert_to_tensor(x) for x in nest.flatten(input)]


def tuple_(tensors: Any, control_inputs: Any = None, name: str | None = None) -> list[Any]:
    """A list of the tensors, all of them computed; `None`s stay.

    Args:
        tensors: what to list.
        control_inputs: computed already, since operations run in order; in a graph of version 1
            they are run before.

    Example:
        >>> [x.numpy() for x in tk.tuple([[1], [2]])]
        [array([1], dtype=int32), array([2], dtype=int32)]
    """
    with control_dependencies(control_inputs):
        results = [x if x is None else convert_to_tensor(x) for x in tensors]
        if not getattr(trace_state.current_graph(), "is_built_by_hand", False):
            return results
        return [x if x is None else _identity(x) for x in results]


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    gate_gradients: bool = False,
    aggregation_method: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: str = UnconnectedGradients.NONE,
) -> list[Any]:
    """The derivatives of the sum of `ys` by each of `xs`, in a graph: in a function, or by hand.

    Where operations run at once `tk.GradientTape` records them.

    Args:
        ys: tensor of the graph being traced, or list of them.
        xs: tensor of it or variable, or list of them.
        grad_ys: gradients by `ys`, of their shapes, or `None` for ones.
        gate_gradients: operations run in order, whatever this is.
        aggregation_method: gradients are added up, whatever this is.
        stop_gradients: tensors that count as constants, though `xs` may be among them.
        unconnected_gradients: `"none"` or `"zero"`, for those of `xs` that `ys` do not depend on.

    Returns:
        A list with a tensor of the shape of each of `xs`, or `None` where there is no gradient.

    Raises:
        RuntimeError: operations run at once here.
        UnimplementedError: it is called in the body of a branch or loop.

    Example:
        >>> cube_slope = tk.function(lambda x: tk.gradients(x**3, x)[0])
        >>> float(cube_slope(tk.constant(2.0)))
        12.0
    """
    return graph_gradients.gradients(ys, xs, grad_ys, stop_gradients, unconnected_gradients)


def hessians(
    ys: Any,
    xs: Any,
    gate_gradients: bool = False,
    aggregation_method: Any = None,
    name: str = "hessians",
) -> list[Any]:
    """The second derivatives of the sum of `ys` by each of `xs`, in a graph.

    Args:
        ys: as for `gradients`.
        xs: the same.
        gate_gradients: operations run in order, whatever this is.
        aggregation_method: gradients are added up, whatever this is.

    Returns:
        A list with a tensor (shape of x..., shape of x...) for each x of `xs`.

    Raises:
        RuntimeError: operations run at once here.
        UnimplementedError: it is called in the body of a branch or loop.

    Example:
        >>> bend = tk.function(lambda x: tk.hessians(tk.reduce_sum(x**3), x)[0])
        >>> bend(tk.constant([1.0, 2.0])).numpy()
        array([[ 6.,  0.],
               [ 0., 12.]], dtype=float32)
    """
    return graph_gradients.hessians(ys, xs)


_describe_arguments(globals(), "name: not kept.", package="trainkit")
