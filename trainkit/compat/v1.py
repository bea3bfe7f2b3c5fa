"""TensorFlow 1's graphs and sessions, on the same graphs that `tk.function` makes.

A graph is built first, inside `Graph().as_default()`; a `Session` then runs the part of it that is
asked for.
Variables are ordinary ones, so a checkpoint moves between this and eager use. Names that are not
here are
those of `trainkit` itself; those that would mean something else there are left out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import trainkit
from trainkit import tf as _tf
from trainkit.compat import v1_gfile as gfile
from trainkit.compat import v1_logging as logging
from trainkit.compat import v1_optimizers as _optimizers
from trainkit.compat import v1_steps as _steps
from trainkit.compat.v1_functions import batch_gather as batch_gather
from trainkit.compat.v1_functions import control_flow_v2_enabled as control_flow_v2_enabled
from trainkit.compat.v1_functions import count_nonzero as count_nonzero
from trainkit.compat.v1_functions import div as div
from trainkit.compat.v1_functions import enable_control_flow_v2 as enable_control_flow_v2
from trainkit.compat.v1_functions import enable_resource_variables as enable_resource_variables
from trainkit.compat.v1_functions import enable_tensor_equality as enable_tensor_equality
from trainkit.compat.v1_functions import enable_v2_behavior as enable_v2_behavior
from trainkit.compat.v1_functions import enable_v2_tensorshape as enable_v2_tensorshape
from trainkit.compat.v1_functions import py_func as py_func
from trainkit.compat.v1_functions import resource_variables_enabled as resource_variables_enabled
from trainkit.compat.v1_functions import set_random_seed as set_random_seed
from trainkit.compat.v1_functions import to_bfloat16 as to_bfloat16
from trainkit.compat.v1_functions import to_complex64 as to_complex64
from trainkit.compat.v1_functions import to_complex128 as to_complex128
from trainkit.compat.v1_functions import to_double as to_double
from trainkit.compat.v1_functions import to_float as to_float
from trainkit.compat.v1_functions import to_int32 as to_int32
from trainkit.compat.v1_functions import to_int64 as to_int64
from trainkit.compat.v1_graphs import AUTO_REUSE as AUTO_REUSE
from trainkit.compat.v1_graphs import GraphKeys as GraphKeys
from trainkit.compat.v1_graphs import add_to_collection as add_to_collection
from trainkit.compat.v1_graphs import get_collection as get_collection
from trainkit.compat.v1_graphs import get_default_graph as get_default_graph
from trainkit.compat.v1_graphs import global_variables as global_variables
from trainkit.compat.v1_graphs import graph_state, operation_of
from trainkit.compat.v1_graphs import is_building_graph as is_building_graph
from trainkit.compat.v1_graphs import trainable_variables as trainable_variables
from trainkit.compat.v1_saver import Saver as _Saver
from trainkit.compat.v1_session import InteractiveSession as InteractiveSession
from trainkit.compat.v1_session import Session as Session
from trainkit.compat.v1_session import get_default_session as get_default_session
from trainkit.core import dtypes, nest
from trainkit.core.dispatch.eval_shape import eagerly
from trainkit.core.dispatch.trace_state import enable_eager_execution as enable_eager_execution
from trainkit.core.errors import FailedPreconditionError, InvalidArgumentError
from trainkit.core.names import name_scope
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values import tf1_names
from trainkit.core.variable import Variable as Variable
from trainkit.graph.ir.graph import Graph as Graph
from trainkit.graph.ir.graph import GraphTensor
from trainkit.graph.ir.session_operation import SessionOperation as Operation
from trainkit.graph.ir.session_operation import group_of
from trainkit.initializers import GlorotUniform, RandomNormal, RandomUniform, TruncatedNormal
from trainkit.ops.math.elementwise import identity
from trainkit.tf.left_out import LEFT_OUT, not_here

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import DTypeLike, Seed, TensorLike


def executing_eagerly_outside_functions() -> bool:
    """Whether operations give values at once, outside of functions that are being traced."""
    return not is_building_graph()


def reset_default_graph() -> None:
    """Nothing: each `Graph().as_default()` begins anew.

    Raises:
        FailedPreconditionError: a graph is being built.
    """
    if is_building_graph():
        raise FailedPreconditionError("reset_default_graph: a graph is being built; make a new one")


def placeholder(dtype: DTypeLike, shape: Any = None, name: str | None = None) -> GraphTensor:
    """A tensor of the graph whose value `Session.run` is fed with.

    Args:
        dtype: element type.
        shape: sizes, `None` for any; an int stands for one axis. The rank must be known.
        name: what it is called.

    Raises:
        ValueError: `shape` is left out.
    """
    if shape is None:
        raise ValueError("placeholder: give a shape; its sizes may be None, its rank must be known")
    dims = (shape,) if isinstance(shape, int) else tuple(shape)
    graph = get_default_graph()
    return graph.add_input(Spec(dims, dtypes.as_dtype(dtype)), name or "Placeholder")


def placeholder_with_default(
    input: TensorLike, shape: Sequence[int | None] | None, name: str | None = None
) -> GraphTensor:
    """A tensor of the graph that `Session.run` may be fed with, and that has a value otherwise.

    Args:
        input: the value; a tensor of the graph, or with values.
        shape: sizes, `None` for any; in place of all, `None` for any sizes of as many axes as the
            value has.
        name: what it is called.
    """
    graph = get_default_graph()
    value = graph.lift(convert_to_tensor(input))
    fed: GraphTensor = graph.apply(identity.primitive, (value,), {})
    dims = (None,) * len(value.shape) if shape is None else tuple(shape)
    fed._spec = Spec(dims, value.dtype)
    fed.node.name = graph.unique_name(name or "PlaceholderWithDefault")
    return fed


class variable_scope:
    """Context that puts `name/` before the names of variables that `get_variable` makes.

    Args:
        name_or_scope: the prefix.
        reuse: `None` or `False` make new variables, `True` finds existing ones, `AUTO_REUSE` does
            either.
    """

    def __init__(self, name_or_scope: Any, reuse: Any = None) -> None:
        self.name = getattr(name_or_scope, "name", name_or_scope)
        self._reuse = reuse

    def __enter__(self) -> variable_scope:
        graph_state(get_default_graph()).scopes.append((self.name, self._reuse))
        return self

    def __exit__(self, *exc: object) -> None:
        graph_state(get_default_graph()).scopes.pop()


def get_variable(
    name: str,
    shape: Any = None,
    dtype: DTypeLike | None = None,
    initializer: Any = None,
    regularizer: Callable[[Any], Any] | None = None,
    trainable: bool = True,
) -> Variable:
    """The variable called `name` in the open scopes; it is made if the scope allows.

    Args:
        name: without the scopes.
        shape: needed unless `initializer` is a value.
        dtype: element type, float32 by default.
        initializer: a value, or a function of `shape` and `dtype`; Glorot's uniform by default.
        regularizer: function of the variable to a loss, kept in `get_regularization_losses`.
        trainable: whether tapes watch it.

    Raises:
        ValueError: the variable exists and may not be reused, or does not exist and may not be
            made.
    """
    state = graph_state(get_default_graph())
    full = "/".join([scope for scope, _ in state.scopes] + [name])
    reuse = next((r for _, r in reversed(state.scopes) if r is not None), None)
    existing = state.by_name.get(full)
    if existing is not None:
        if not reuse:
            raise ValueError(
                f"variable {full!r} exists already; open the scope with reuse=AUTO_REUSE or True"
            )
        return existing
    if reuse is True:
        raise ValueError(
            f"variable {full!r} does not exist, and reuse=True makes none; use AUTO_REUSE"
        )
    value = _initial(full, shape, dtype, initializer)
    with name_scope(""):  # the names of variables are those of variable scopes
        created = Variable(value, trainable=trainable, name=full, dtype=dtype)
    state.by_name[full] = created
    if regularizer is not None:
        add_to_collection(GraphKeys.REGULARIZATION_LOSSES, regularizer(created))
    return created


def _initial(name: str, shape: Any, dtype: Any, initializer: Any) -> Any:
    """What `get_variable` starts a variable from: a value, or what an initializer draws."""
    if initializer is not None and not callable(initializer):
        return initializer
    if shape is None:
        raise ValueError(f"get_variable {name!r}: give a shape, or a value as initializer")
    dims = (shape,) if isinstance(shape, int) else tuple(shape)
    if initializer is None:
        initializer = GlorotUniform()
    with eagerly():
        return initializer(dims, dtype=dtype or "float32")


def get_regularization_losses() -> list[Any]:
    """The losses of the regularizers that `get_variable` was given in the default graph."""
    return get_collection(GraphKeys.REGULARIZATION_LOSSES)


def variables_initializer(var_list: Any, name: str = "init") -> Operation:
    """An operation that gives variables their initial values.

    Args:
        var_list: variables that were made in the default graph.
        name: of the operation.

    Raises:
        InvalidArgumentError: one of them was made elsewhere.
    """
    operations = []
    for variable in var_list:
        if variable.initializer is None:
            raise InvalidArgumentError(
                f"variables_initializer: {variable.name!r} was not made in a graph of version 1, "
                "so no operation gives its initial value; leave it out"
            )
        operations.append(variable.initializer)
    return group_of(operations, name)


def global_variables_initializer() -> Operation:
    """An operation that gives all variables of the default graph their initial values."""
    return variables_initializer(global_variables())


initialize_all_variables = global_variables_initializer


def local_variables_initializer() -> Operation:
    """An operation that does nothing: there are no variables of one session alone."""
    return group_of([], "init")


def tables_initializer() -> Operation:
    """An operation that does nothing: tables have their values once they exist."""
    return group_of([], "init_all_tables")


def _change(method: str, ref: Variable, arguments: tuple[Any, ...], name: str | None) -> Any:
    """A method of a variable: an operation of a graph of version 1, else done at once."""
    if not is_building_graph():
        return getattr(ref, method)(*arguments)
    return operation_of(ref, method, arguments, name)


def assign(
    ref: Variable,
    value: TensorLike,
    validate_shape: bool | None = None,
    use_locking: bool | None = None,
    name: str | None = None,
) -> Variable | Operation:
    """Store `value` in the variable `ref`.

    Args:
        ref: the variable.
        value: a tensor or a number.
        validate_shape: must not be False: variables keep their shapes.
        use_locking: not used.
        name: of the operation.

    Returns:
        The variable; in a graph of version 1 an operation that stores it when it is run.

    Raises:
        ValueError: `validate_shape` is False.

    Example:
        >>> w = tk.Variable(1.0)
        >>> float(tk.compat.v1.assign(w, 3.0))
        3.0
    """
    if validate_shape is False:
        raise ValueError("compat.v1.assign: variables keep their shapes; leave validate_shape out")
    return _change("assign", ref, (value,), name)


def assign_add(
    ref: Variable, value: TensorLike, use_locking: bool | None = None, name: str | None = None
) -> Variable | Operation:
    """Add `value` to the variable `ref`; the result is that of `assign`.

    Args:
        ref: the variable.
        value: a tensor or a number.
        use_locking: not used.
        name: of the operation.
    """
    return _change("assign_add", ref, (value,), name)


def assign_sub(
    ref: Variable, value: TensorLike, use_locking: bool | None = None, name: str | None = None
) -> Variable | Operation:
    """Take `value` from the variable `ref`; the result is that of `assign`.

    Args:
        ref: the variable.
        value: a tensor or a number.
        use_locking: not used.
        name: of the operation.
    """
    return _change("assign_sub", ref, (value,), name)


class _Names:
    """A namespace of version 1: what differs from the one of `tk`, and else the names of that.

    A name that both have with another meaning must not be that of `tk` without a word: such ones
    are written here or left out.
    """

    def __init__(self, space: str, **own: Any) -> None:
        self._space = space
        vars(self).update(own)

    def __getattr__(self, name: str) -> Any:
        space = f"compat.v1.{self._space}"
        if name in LEFT_OUT.get(space, ()):
            raise not_here(space, name, dir(self))
        return getattr(getattr(trainkit, self._space), name)

    def __dir__(self) -> list[str]:
        inherited = set(dir(getattr(trainkit, self._space)))
        inherited -= LEFT_OUT.get(f"compat.v1.{self._space}", {}).keys()
        return sorted({*inherited, *(n for n in vars(self) if n[0] != "_")})


def _output_shapes(dataset_or_iterator: Any) -> Any:
    """The shapes of the elements, nested as they are; `padded_batch` takes them."""
    return nest.map_structure(lambda spec: spec.shape, dataset_or_iterator.element_spec)


def _output_types(dataset_or_iterator: Any) -> Any:
    """The dtypes of the elements, nested as they are."""
    return nest.map_structure(lambda spec: spec.dtype, dataset_or_iterator.element_spec)


def _output_classes(dataset_or_iterator: Any) -> Any:
    """The classes of the elements, nested as they are."""
    return nest.map_structure(lambda spec: Tensor, dataset_or_iterator.element_spec)


def _dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: Any = None,
    name: str | None = None,
    rate: Any = None,
) -> Any:
    """`tk.nn.dropout` by the part of `x` that is kept instead of the part that is dropped.

    Args:
        x: floats.
        keep_prob: the probability that an element is kept; version 2's `rate` is 1 less this.
        noise_shape: as of `tk.nn.dropout`.
        seed: as of `tk.nn.dropout`.
        name: of the operation.
        rate: instead of `keep_prob`.

    Raises:
        ValueError: neither of `keep_prob` and `rate`, or both.
    """
    if (keep_prob is None) == (rate is None):
        raise ValueError(
            f"compat.v1.nn.dropout: give one of keep_prob and rate, not {keep_prob=} and {rate=}"
        )
    dropped = rate if keep_prob is None else 1.0 - keep_prob
    return trainkit.nn.dropout(x, dropped, noise_shape, seed, name)


def _embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: float | None = None,
) -> Any:
    """`tk.nn.embedding_lookup`, with version 1's order of the rows of a list of tables.

    Args:
        params: a table (n, ...), or a list of tables.
        ids: ints of any shape in [0, n).
        partition_strategy: `"mod"` deals the rows out to the tables one by one, `"div"` numbers
            them one table after the other.
        name: of the operation.
        validate_indices: not used.
        max_norm: largest length of a row; not limited by default.

    Raises:
        ValueError: the strategy is another.
    """
    if partition_strategy not in ("mod", "div"):
        raise ValueError(
            f"compat.v1.nn.embedding_lookup: partition_strategy {partition_strategy!r} must be "
            "'mod' or 'div'"
        )
    if isinstance(params, list | tuple) and len(params) > 1 and partition_strategy == "mod":
        count, ids = len(params), convert_to_tensor(ids)
        sizes = [_tf.shape(table, ids.dtype)[0] for table in params]
        starts = _tf.cumsum(_tf.stack(sizes), exclusive=True)
        ids = _tf.gather(starts, ids % count) + ids // count
    return trainkit.nn.embedding_lookup(params, ids, max_norm)


def random_normal_initializer(
    mean: float = 0.0, stddev: float = 1.0, seed: Seed | None = None, dtype: DTypeLike = "float32"
) -> RandomNormal:
    """`tk.initializers.RandomNormal` with version 1's standard deviation of 1.

    Args:
        mean: of the numbers.
        stddev: their standard deviation.
        seed: an integer makes every call give the same numbers.
        dtype: must be float32, which the caller chooses.

    Example:
        >>> tk.compat.v1.random_normal_initializer().stddev
        1.0
    """
    _check_dtype("random_normal_initializer", dtype)
    return RandomNormal(mean, stddev, seed)


def truncated_normal_initializer(
    mean: float = 0.0, stddev: float = 1.0, seed: Seed | None = None, dtype: DTypeLike = "float32"
) -> TruncatedNormal:
    """`tk.initializers.TruncatedNormal` with version 1's standard deviation of 1.

    Args:
        mean: of the numbers.
        stddev: their standard deviation before those beyond two of it are drawn again.
        seed: an integer makes every call give the same numbers.
        dtype: must be float32, which the caller chooses.

    Example:
        >>> tk.compat.v1.truncated_normal_initializer().stddev
        1.0
    """
    _check_dtype("truncated_normal_initializer", dtype)
    return TruncatedNormal(mean, stddev, seed)


def random_uniform_initializer(
    minval: float = 0.0,
    maxval: float | None = None,
    seed: Seed | None = None,
    dtype: DTypeLike = "float32",
) -> RandomUniform:
    """`tk.initializers.RandomUniform` with version 1's range of 0 to 1.

    Args:
        minval: the least number.
        maxval: above all numbers; 1 by default.
        seed: an integer makes every call give the same numbers.
        dtype: must be float32, which the caller chooses.

    Example:
        >>> tk.compat.v1.random_uniform_initializer().maxval
        1.0
    """
    _check_dtype("random_uniform_initializer", dtype)
    return RandomUniform(minval, 1.0 if maxval is None else maxval, seed)


def _check_dtype(name: str, dtype: Any) -> None:
    if dtypes.as_dtype(dtype).name != "float32":
        raise ValueError(
            f"compat.v1.{name}: dtype {dtype!r} is not supported; get_variable takes one"
        )


data = _Names(
    "data",
    get_output_shapes=_output_shapes,
    get_output_types=_output_types,
    get_output_classes=_output_classes,
)
"""`tk.data`, with `get_output_shapes`, `get_output_types` and `get_output_classes`."""
image = _Names("image")
"""`tk.image`, without `resize`."""
math = _Names("math")
"""`tk.math`, without `in_top_k`."""
nn = _Names("nn", dropout=_dropout, embedding_lookup=_embedding_lookup)
"""`tk.nn`, whose `dropout` takes what is kept, and without `in_top_k`."""
train = _Names(
    "train",
    AdadeltaOptimizer=_optimizers.AdadeltaOptimizer,
    AdagradOptimizer=_optimizers.AdagradOptimizer,
    AdamOptimizer=_optimizers.AdamOptimizer,
    GradientDescentOptimizer=_optimizers.GradientDescentOptimizer,
    MomentumOptimizer=_optimizers.MomentumOptimizer,
    Optimizer=_optimizers.Optimizer,
    RMSPropOptimizer=_optimizers.RMSPropOptimizer,
    Saver=_Saver,
    create_global_step=_steps.create_global_step,
    exponential_decay=_steps.exponential_decay,
    get_global_step=_steps.get_global_step,
    get_or_create_global_step=_steps.get_or_create_global_step,
    inverse_time_decay=_steps.inverse_time_decay,
    piecewise_constant=_steps.piecewise_constant,
    polynomial_decay=_steps.polynomial_decay,
)
"""`tk.train`, with version 1's optimizers, count of steps and rates that decay with it."""
random = _Names("random")
"""`tk.random`, without `poisson`."""
initializers = _Names(
    "initializers",
    random_normal=random_normal_initializer,
    random_uniform=random_uniform_initializer,
    truncated_normal=truncated_normal_initializer,
)
"""`tk.initializers`, whose three that draw numbers have version 1's defaults."""


def __getattr__(name: str) -> Any:
    if name in LEFT_OUT["compat.v1"]:
        raise not_here("compat.v1", name, globals())
    path = tf1_names.RENAMED.get(name)
    if path is not None:
        return functools.reduce(getattr, path.split("."), trainkit)
    return getattr(trainkit, name)
