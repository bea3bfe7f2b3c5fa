"""AutoGraph: what `if` means when a tensor decides, and what all statements share."""

from __future__ import annotations

from collections.abc import Callable
from itertools import starmap, zip_longest
from typing import Any

from trainkit import ops
from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.eval_shape import eagerly
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import is_tensor
from trainkit.graph.autograph.unset_names import RETURNED, flag_of, label, put_flag, undefined_kinds
from trainkit.graph.control_flow.effects import raise_when_run
from trainkit.graph.control_flow.tensor_array import TensorArray
from trainkit.graph.control_flow.trace_cond import traced_cond
from trainkit.graph.ir.graph import Graph
from trainkit.graph.ir.user_lines import RAISED_BY_USER, at_user_line


def is_symbolic(x: Any) -> bool:
    """Whether `x` is a tensor of a graph, without a value."""
    return isinstance(x, SymbolicTensor)


def undefined(x: Any) -> bool:
    """Whether a name that holds `x` has no value yet."""
    return isinstance(x, undefined_kinds()) or is_empty_array(x)


class State:
    """The names that a statement changes: `get` and `put` their values, `names` for texts."""

    def __init__(self, get: Callable[[], Any], put: Callable[[Any], None], names: Any) -> None:
        self.get = reader(get, names)
        self.put = put
        self.names = names


def reader(get: Callable[[], Any], names: tuple[str, ...]) -> Callable[[], Any]:
    """`get` that gives `Undefined` for names without a value.

    The rewriting says beforehand which names have none yet, but for those that are arguments of the
    function and are assigned anew in a branch: inside they are the branch's own.
    """

    def values() -> Any:
        try:
            return get()
        except NameError:
            return _from_cells(get, names)

    return values


def _from_cells(get: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    """The values of what the function `get` reads, `Undefined` for empty cells.

    Raises:
        NameError: there are more than plain names.
    """
    from malt.operators.variables import Undefined

    cells = dict(zip(get.__code__.co_freevars, get.__closure__ or (), strict=True))
    if not all(name in cells for name in names):
        return tuple(get())
    values = []
    for name in names:
        try:
            values.append(cells[name].cell_contents)
        except ValueError:
            values.append(Undefined(name))
    return tuple(values)


def at_line(trace: Callable[..., Any], *args: Any) -> Any:
    """`trace(*args)`; what the statement itself does wrong is reported with its line."""
    try:
        return trace(*args)
    except InvalidArgumentError as error:
        raise at_user_line(error) from None


def is_empty_array(x: Any) -> bool:
    """Whether `x` is a `TensorArray` whose elements have no shape yet."""
    return isinstance(x, TensorArray) and not x


def if_stmt(
    cond: Any,
    body: Callable[[], Any],
    orelse: Callable[[], Any],
    get_state: Callable[[], Any],
    set_state: Callable[[Any], None],
    symbol_names: tuple[str, ...],
    nouts: int,
) -> None:
    """An `if` statement; `get_state` and `set_state` read and write the names that it changes."""
    if not is_symbolic(cond):
        (body if cond else orelse)()
        return
    staged_if(cond, body, orelse, State(get_state, set_state, symbol_names), nouts, False)


def staged_if(
    cond: Any,
    body: Callable[[], Any],
    orelse: Callable[[], Any],
    state: State,
    nouts: int,
    fills: bool,
) -> None:
    """Both branches of an `if` in the graph; with `fills` one may leave names undefined."""
    get_state, set_state, names = state.get, state.put, state.names
    before = tuple(get_state())

    def branch(run: Callable[[], Any]) -> Callable[[], Any]:
        def trace() -> Any:
            set_state(before)
            try:
                run()
            except Exception as error:
                if RAISED_BY_USER not in error.__dict__:
                    raise
                raise_when_run(error)
                return _RAISES, ()
            values = tuple(get_state())[:nouts]
            return values, tuple(map(flag_of, values))

        return trace

    outer = trace_state.current_trace()
    try:
        after, flags = at_line(
            traced_cond,
            outer,
            cond,
            branch(body),
            branch(orelse),
            _merge(names, fills, before[:nouts]),
        )
    finally:
        set_state(before)
    for x, flag, name in zip(after, flags, names, strict=False):
        put_flag(x, flag, name)
    set_state(tuple(after) + before[nouts:])


_RAISES = "raises"


def _merge(
    names: tuple[str, ...], fills: bool, before: tuple[Any, ...]
) -> Callable[[Graph, Any, Graph, Any], Any]:
    """Brings what two branches leave in the names, and the flags of these, to one structure.

    What a branch leaves undefined can be filled where nothing reads it: the value of a `return`
    that is not reached, any name after a `raise`, and with `fills` any name.
    """

    def merge(true: Graph, left: Any, false: Graph, right: Any) -> Any:
        (one, one_flags), (two, two_flags) = left, right
        if one is _RAISES:
            one = tuple(map(_anything_like, before if two is _RAISES else two))
        if two is _RAISES:
            two = tuple(map(_anything_like, one))
        ones, twos = [], []
        for name, a, b in zip(names, one, two, strict=False):
            if fills or label(name) == RETURNED or is_empty_array(a) or is_empty_array(b):
                a, b = filled(true, a, b), filled(false, b, a)
            if not nest.same_structure(a, b):
                raise InvalidArgumentError(_find_difference(name, a, b))
            for x, y in zip(nest.flatten(a), nest.flatten(b), strict=True):
                _check_leaves(name, x, y)
            ones.append(a)
            twos.append(b)
        flags = list(starmap(_both_flags, zip_longest(one_flags, two_flags)))
        return (tuple(ones), [a for a, _ in flags]), (tuple(twos), [b for _, b in flags])

    return merge


def _both_flags(a: Any, b: Any) -> tuple[Any, Any]:
    """The flags that two branches leave for a name; both if one has one."""
    if a is None and b is None:
        return None, None
    return True if a is None else a, True if b is None else b


def filled(graph: Graph, mine: Any, other: Any) -> Any:
    """Zeros like `other` for a name that this branch leaves undefined, and nothing may use."""
    if not undefined(mine) or undefined(other):
        return mine
    if isinstance(mine, TensorArray):
        return mine.filled(other.element_shape)
    values = bool | int | float | str | bytes
    if not all(is_tensor(x) or isinstance(x, values) for x in nest.flatten(other)):
        return mine
    return nest.map_structure(lambda x: _zeros(x) if is_tensor(x) else type(x)(), other)


def _zeros(x: Any) -> Any:
    with eagerly():
        return ops.zeros([1 if n is None else n for n in x.shape], x.dtype)


def _anything_like(x: Any) -> Any:
    """A value for a name that is never read, because an error is raised before."""
    if undefined(x):
        return x
    # what says whether the function has returned: nothing comes after the error
    return nest.map_structure(
        lambda v: True if is_tensor(v) and v.dtype.is_bool else _zeros(v) if is_tensor(v) else v, x
    )


def _check_leaves(name: str, x: Any, y: Any) -> None:
    if is_tensor(x) and is_tensor(y):
        if x.dtype != y.dtype:
            raise InvalidArgumentError(
                f"{label(name)} has dtype {x.dtype.name} if the condition holds and "
                f"{y.dtype.name} if not; both "
                "branches must give one dtype, cast one of them"
            )
        if len(x.shape) != len(y.shape):
            raise InvalidArgumentError(
                f"{label(name)} has shape {tuple(x.shape)} if the condition holds and "
                f"{tuple(y.shape)} if not; both "
                "branches must give one rank"
            )
    elif (undefined(x) or undefined(y)) and not (undefined(x) and undefined(y)):
        raise InvalidArgumentError(_find_difference(name, x, y))
    elif (x is None) != (y is None):
        raise InvalidArgumentError(_find_difference(name, x, y))


def _find_difference(name: str, x: Any, y: Any) -> str:
    def word(v: Any) -> str:
        return "undefined" if undefined(v) else repr(v)

    return (
        f"{label(name)} is {word(x)} if the condition holds and {word(y)} if not. The condition "
        "is a tensor, so "
        "both branches are in the graph, and both must give a value of the same kind: set it "
        "before the `if`, "
        "or in both branches."
    )
