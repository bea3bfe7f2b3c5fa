"""`while_loop`, `scan` and `for_each` as primitives over graphs.

A body is a graph of its own. Its first results are the next loop variables; what it gives beyond
them is stacked, a row for each round. Gradients are in `loop_vjp`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainkit.core import devices, nest
from trainkit.core.dispatch import late_ops
from trainkit.core.dispatch.facets import (
    CONTROL,
    INDEXING,
    LEADING_AXES,
    NUMBER,
    SHAPE,
    Effect,
    one_by_one,
)
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.graph.ir.graph import Graph

# ---------------------------------------------------------------------- rows


class StackedRows:
    """Results of rounds, stacked as they come.

    Args:
        xp: array module, for the case that there is no row.
        like: symbolic tensor of a row, for the case that there is none.
        size: how many there will be, `None` if that is not known.
        padded: rows of different sizes are filled up with zeros.

    Attributes:
        buffer: the array that holds them, once there is one.
    """

    def __init__(self, xp: Any, like: Any, size: int | None, padded: bool) -> None:
        self._xp = xp
        self._like = like
        self._size = size
        self._pad = padded
        self.buffer: Any = None

    @property
    def is_fixed(self) -> bool:
        """Whether all rows are known to have one shape, for which there is room already."""
        return self._size is not None and None not in tuple(self._like.shape)

    def put(self, i: int, row: Any) -> None:
        """Store `row` as number `i`.

        Raises:
            InvalidArgumentError: it has another shape than those before.
        """
        buffer = self.buffer
        if buffer is None:
            # Doubled when it is full, it copies each row less than twice on the average.
            room = (16 if self._size is None else self._size, *row.shape)
            # The module of the row: sizes lie on the CPU, whatever device the loop runs on.
            self._xp = devices.XP_OF[type(row)]
            buffer = self.buffer = self._xp.empty(room, row.dtype)
        elif type(row) is not type(buffer):  # sizes are made on the CPU
            row = devices.to_device(row, devices.device_of(buffer))
        if buffer.shape[1:] != row.shape:
            self._put_other(i, row)
            return
        elif i >= len(buffer):
            buffer = self._enlarge(buffer.shape[1:])
        buffer[i] = row

    def _put_other(self, i: int, row: Any) -> None:
        if not self._pad:
            raise InvalidArgumentError(
                f"a loop gives results of shapes {self.buffer.shape[1:]} and {row.shape}; they "
                "are stacked, so all rounds must give one shape"
            )
        dims = tuple(map(max, self.buffer.shape[1:], row.shape))
        buffer = self.buffer
        if dims != buffer.shape[1:] or i >= len(buffer):
            buffer = self._enlarge(dims)
        # The first buffer is uninitialised memory, and this row does not fill its place.
        buffer[i] = 0
        buffer[(i, *map(slice, row.shape))] = row

    def _enlarge(self, dims: tuple[int, ...]) -> Any:
        old = self.buffer
        room = 2 * len(old) if self._size is None else self._size
        # Zeros, as rows before this one may be smaller than their new room.
        self.buffer = self._xp.zeros((room, *dims), old.dtype)
        self.buffer[(slice(len(old)), *map(slice, old.shape[1:]))] = old
        return self.buffer

    def stacked(self, count: int) -> Any:
        """The first `count` rows as one array."""
        if self.buffer is None:
            dims = (0 if n is None else n for n in self._like.shape)
            return self._xp.zeros((count, *dims), self._like.dtype.dtype)
        return self.buffer if len(self.buffer) == count else self.buffer[:count]


def _all_rows(xp: Any, body: Graph, count: int, size: int | None, padded: Any) -> list[StackedRows]:
    """A `StackedRows` for each result of `body` beyond the first `count`."""
    return [StackedRows(xp, like, size, k in padded) for k, like in enumerate(body.outputs[count:])]


# ---------------------------------------------------------------------- while


def _while_rule(
    *inputs: Any,
    cond: Graph,
    body: Graph,
    count: int,
    split: int,
    limit: Any,
    stacked: int | None = None,
    padded: tuple[int, ...] = (),
) -> Any:
    state = tuple(Spec(x.shape, x.dtype) for x in body.inputs[:count])
    if stacked is None:
        return state
    rows = tuple(Spec((None, *y.shape), y.dtype) for y in body.outputs[count:])
    return (*state, *rows, Spec((), as_dtype("int32")))


@primitive(
    _while_rule,
    name="while_loop",
    semantics=CONTROL,
    graph_name="While",
    bodies=("body",),
    export=True,
)
def while_primitive(
    xp: Any,
    *arrays: Any,
    cond: Graph,
    body: Graph,
    count: int,
    split: int,
    limit: int | None,
    stacked: int | None = None,
    padded: tuple[int, ...] = (),
) -> Any:
    """Run the graph `body` on `count` loop variables while the graph `cond` gives True.

    The next `split` arrays are captures of `cond`, the rest those of `body`. With `stacked` the
    body gives so many results more, which are stacked: they follow the loop variables, and after
    them the number of rounds. Those whose numbers are in `padded` may differ in size.
    """
    state = list(arrays[:count])
    for_cond, for_body = list(arrays[count : count + split]), list(arrays[count + split :])
    test, step = cond.program(), body.program()
    rows = _all_rows(xp, body, count, None, padded)
    round_count = 0
    # Each round waits for the condition's value, on a GPU as well; a scan has none to wait for.
    while (limit is None or round_count < limit) and bool(test(state + for_cond)[0]):
        state = step(state + for_body)
        if rows:
            for row, y in zip(rows, state[count:], strict=True):
                row.put(round_count, y)
            # The next round takes the loop variables alone.
            del state[count:]
        round_count += 1
    if stacked is None:
        return tuple(state)
    return (*state, *[row.stacked(round_count) for row in rows], xp.asarray(round_count, "int32"))


# ---------------------------------------------------------------------- scan


def _scan_rule(
    steps: Any,
    *inputs: Any,
    body: Graph,
    count: int,
    fed: int,
    reverse: bool = False,
    length: int | None = None,
    padded: tuple[int, ...] = (),
) -> Any:
    state = tuple(Spec(x.shape, x.dtype) for x in body.inputs[:count])
    return state + tuple(Spec((length, *y.shape), y.dtype) for y in body.outputs[count:])


@primitive(
    _scan_rule, name="scan", semantics=CONTROL, reads={0: NUMBER}, bodies=("body",), export=True
)
def scan_primitive(
    xp: Any,
    steps: Any,
    *arrays: Any,
    body: Graph,
    count: int,
    fed: int,
    reverse: bool = False,
    length: int | None = None,
    padded: tuple[int, ...] = (),
) -> Any:
    """Run the graph `body` for each of `steps` rows, from the last to the first if `reverse`.

    It is given `count` loop variables, a row of each of the next `fed` arrays, and the other arrays
    as they are. It gives the next loop variables and results that are stacked. `length` is the
    number of steps where it was known while tracing.
    """
    n = int(steps)
    state, stacks = list(arrays[:count]), arrays[count : count + fed]
    captured = list(arrays[count + fed :])
    step = body.program()
    rows = _all_rows(xp, body, count, n, padded)
    order = range(n - 1, -1, -1) if reverse else range(n)
    buffers: list[Any] = []
    for i in order:
        state = step([*state, *[x[i] for x in stacks], *captured])
        if buffers:
            for buffer, y in zip(buffers, state[count:], strict=True):
                buffer[i] = y
            del state[count:]
        elif rows:
            for row, y in zip(rows, state[count:], strict=True):
                row.put(i, y)
            del state[count:]
            # All rows have one shape, which the first one has shown: the rounds left store without
            # a check, a call or a look at the class.
            if all(row.is_fixed for row in rows):
                buffers = [row.buffer for row in rows]
    return (*state, *[row.stacked(n) for row in rows])


# ---------------------------------------------------------------------- sizes of padded rows


@primitive(lambda x, sizes, *, dims: Spec(dims, x.dtype), name="cut_to_sizes", semantics=INDEXING)
def cut_to_sizes(xp: Any, x: Any, sizes: Any, *, dims: tuple[int | None, ...]) -> Any:
    """The first elements of `x` along each axis, as many as `sizes` (rank,) says."""
    return x[tuple(slice(int(n)) for n in sizes)]


@primitive(
    lambda x, like: Spec(like.shape, x.dtype),
    name="padded_like",
    semantics=INDEXING,
    reads={1: SHAPE},
)
def padded_like(xp: Any, x: Any, like: Any) -> Any:
    """`x` filled up with zeros behind its end along each axis, to the shape of `like`."""
    out = xp.zeros(like.shape, x.dtype)
    out[tuple(map(slice, x.shape))] = x
    return out


cut_to_sizes.gradients(lambda g, y, x, sizes, *, dims: padded_like(g, x), None)
padded_like.gradients(lambda g, y, x, like: cut_like(g, x), None)
padded_like.declare(batch=LEADING_AXES)


def cut_like(x: Any, like: Any) -> Any:
    """The first elements of `x` along each axis, as many as `like` has."""
    return cut_to_sizes(x, late_ops.shape(like), dims=tuple(like.shape))


# ---------------------------------------------------------------------- loops over datasets


@primitive(
    lambda *inputs, body, count, source, fed, stops=False, checked=False: tuple(
        Spec(x.shape, x.dtype) for x in body.inputs[:count]
    ),
    name="for_each",
    effect=Effect("it takes elements of a dataset", runs_python=True),
    semantics=CONTROL,
)
def for_primitive(
    xp: Any,
    *arrays: Any,
    body: Graph,
    count: int,
    source: Any,
    fed: int,
    stops: bool = False,
    checked: bool = False,
) -> Any:
    """Run the graph `body` on the loop variables and each element of the dataset `source`.

    With `stops` the last result of the body says whether to go on; no element is read after it
    says no. With `checked` the elements must have the ranks for which the body was traced.
    """
    state, captured = list(arrays[:count]), list(arrays[count:])
    step = body.program()
    for element in source:
        leaves = [_array_of(x) for x in nest.flatten(element) if x is not None]
        if checked:
            _check_ranks(leaves, body.inputs[count : count + fed])
        state = step(state + leaves + captured)
        # Before the next element is asked for: reading one too many would take it from an iterator.
        if stops and not bool(state.pop()):
            break
    return tuple(state)


def element_specs(source: Any) -> tuple[list[Spec], bool]:
    """Shape and dtype of what the elements of a dataset hold, and whether ranks were found out.

    Ranks that a dataset does not say are those of its first element, which is read for it. Where
    elements hold `None`, nothing is said.

    Raises:
        InvalidArgumentError: elements hold datasets.
        ValueError: a rank is not said and can't be found out, since there is no element, or since
            `source` is an iterator, from which a read element would be missing.
    """
    specs = [s for s in nest.flatten(source.element_spec) if _is_of_tensor(s)]
    if all(s.shape.rank is not None for s in specs):
        return [Spec(s.shape, s.dtype) for s in specs], False
    # A graph has to know ranks, and these datasets say none. `take(1)` makes a pass of its own, so
    # the loop still begins with the first element.
    first = None if hasattr(source, "__next__") else next(iter(source.take(1)), None)
    if first is None:
        raise ValueError(
            "the dataset of a loop inside a function does not say the ranks of its elements: "
            f"{source.element_spec}; give them, as in from_generator(..., output_signature=)"
        )
    ranks = [len(x.shape) for x in nest.flatten(first) if x is not None]
    shapes = [
        (None,) * r if s.shape.rank is None else s.shape for r, s in zip(ranks, specs, strict=True)
    ]
    return [Spec(shape, s.dtype) for shape, s in zip(shapes, specs, strict=True)], True


def element_of(element_spec: Any, tensors: Iterable[Any]) -> Any:
    """An element that holds `tensors`, and `None` where its spec says so."""
    leaves = iter(tensors)
    return nest.map_structure(lambda s: next(leaves) if _is_of_tensor(s) else None, element_spec)


def _is_of_tensor(spec: Any) -> bool:
    if hasattr(spec, "element_spec"):
        raise InvalidArgumentError(
            "a loop inside a function can't take datasets as elements, as `window` gives: "
            f"{spec!r}. Make tensors of them first, as by flat_map(lambda w: w.batch(n)), or loop "
            "over them outside of the function"
        )
    return hasattr(spec, "shape")  # that of `None` has none


def _check_ranks(leaves: list[Any], traced: Any) -> None:
    """Compare elements of a dataset that does not say its ranks with the first one."""
    for array, spec in zip(leaves, traced, strict=True):
        # A program is compiled for a rank, and would fail somewhere inside on another one.
        if array.ndim != len(spec.shape):
            raise InvalidArgumentError(
                f"the loop over a dataset inside a function was traced for elements of rank "
                f"{len(spec.shape)}, as the first one was; one of shape {array.shape} came. Give "
                "the dataset its shapes, as in from_generator(..., output_signature=), or loop "
                "over it outside of the function"
            )


def _array_of(x: Any) -> Any:
    return x._array if isinstance(x, Tensor) else convert_to_tensor(x)._array


for_primitive.declare(batch=one_by_one("a dataset is read anew for each item"))


@for_primitive.joint_gradient
def _for_gradient(g: Any, y: Any, *inputs: Any, **settings: Any) -> Any:
    raise InvalidArgumentError(
        "for_each: no gradient goes back through a loop over a dataset inside a function; "
        "put the tape inside the loop's body"
    )
