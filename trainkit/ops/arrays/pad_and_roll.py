"""Operations that mirror, shift or surround the elements of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule, filled_on
from trainkit.core.dispatch.facets import ARRANGEMENT, AXIS, OVER_AXES, Absent, Direct, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, is_tensor
from trainkit.core.values.text_arrays import OBJECTS, as_bytes
from trainkit.core.values.type_aliases import Axis, TensorLike
from trainkit.kernels.convolution import pixel_copies_tuned
from trainkit.kernels.cuda.constants import on_device
from trainkit.kernels.embedding.scatter_reference import scatter_at
from trainkit.kernels.threads.thread_pool import FEWEST_COPIED
from trainkit.ops.arrays.axes import transpose
from trainkit.ops.arrays.shaping import as_tensor, known_sizes
from trainkit.ops.core.axis_numbers import whole_number
from trainkit.ops.core.dynamic_shapes import Bound, is_later, like, needs_values

# ------------------------------------------------------------------ mirror and shift


def _mirror_rule(x: Spec, *, axis: Any) -> Spec:
    shapes.canonical_axes(axis, len(x.shape), "flip")
    return Spec(x.shape, x.dtype)


@primitive(_mirror_rule, name="flip", semantics=AXIS, text="beside numbers", direct=Direct("flip"))
def _flip(xp: ArrayModule, x: Array, *, axis: Any) -> Array:
    """The elements in reverse order along axes."""
    return xp.flip(x, axis)


_flip.gradients(lambda g, y, x, *, axis: _flip(g, axis=axis))
_flip.declare(batch=OVER_AXES, stackable=True)


def flip(x: TensorLike, axis: Axis | None = None) -> Tensor:
    """`x` with the elements in reverse order along `axis`.

    Args:
        x: tensor of any shape.
        axis: an axis or a sequence of axes; by default all.

    Raises:
        ShapeError: an axis is out of range.

    Example:
        >>> tk.ops.flip([1, 2, 3]).numpy()
        array([3, 2, 1], dtype=int32)
    """
    result: Tensor = _flip(x, axis=tuple(axis) if isinstance(axis, list) else axis)
    return result


def fliplr(x: TensorLike) -> Tensor:
    """`x`, of rank 2 at least, in reverse order along axis 1.

    Raises:
        ShapeError: `x` has fewer than two axes.

    Example:
        >>> tk.ops.fliplr([[1, 2], [3, 4]]).numpy()
        array([[2, 1],
               [4, 3]], dtype=int32)
    """
    return flip(x, axis=1)


def flipud(x: TensorLike) -> Tensor:
    """`x`, of rank 1 at least, in reverse order along axis 0.

    Raises:
        ShapeError: `x` is a scalar.

    Example:
        >>> tk.ops.flipud([[1, 2], [3, 4]]).numpy()
        array([[3, 4],
               [1, 2]], dtype=int32)
    """
    return flip(x, axis=0)


def _roll_rule(x: Spec, *, shift: Any, axis: Any) -> Spec:
    if axis is not None:
        for a in axis if isinstance(axis, tuple) else (axis,):
            shapes.canonical_axis(a, len(x.shape), "roll")
    return Spec(x.shape, x.dtype)


@primitive(
    _roll_rule, name="roll", semantics=ARRANGEMENT, text="beside numbers", direct=Direct("roll")
)
def _roll(xp: ArrayModule, x: Array, *, shift: Any, axis: Any) -> Array:
    """The elements moved along axes; those that leave come back at the other end."""
    if xp is np and type(shift) is int and x.size:
        if type(axis) is int:
            return _roll_along(x, shift, axis)
        if axis is None:
            return _roll_along(x.reshape(-1), shift, 0).reshape(x.shape)
    return xp.roll(x, shift, axis)


def _roll_along(x: Array, shift: int, axis: int) -> Array:
    """What `np.roll` gives along one axis, in two copies and without its loops in Python."""
    axis = shapes.canonical_axis(axis, x.ndim, "roll")
    moved, before = np.empty_like(x), (slice(None),) * axis
    cut = x.shape[axis] - shift % x.shape[axis]
    moved[(*before, slice(x.shape[axis] - cut, None))] = x[(*before, slice(None, cut))]
    moved[(*before, slice(None, x.shape[axis] - cut))] = x[(*before, slice(cut, None))]
    return moved


def _roll_gradient(g: Tensor, y: Tensor, x: Tensor, *, shift: Any, axis: Any) -> Tensor:
    back = tuple(-s for s in shift) if isinstance(shift, tuple) else -shift
    result: Tensor = _roll(g, shift=back, axis=axis)
    return result


_roll.gradients(_roll_gradient)


@needs_values("shift", "axis", gives=lambda a: like(a["x"]))
def roll(x: TensorLike, shift: TensorLike, axis: Axis | None = None) -> Tensor:
    """`x` with its elements moved `shift` places; those that leave come back at the other end.

    Args:
        x: tensor of any shape.
        shift: places to move towards higher indices; an int, or one for each of `axis`.
        axis: an axis or a sequence of axes; by default `x` is moved as if flattened.

    Raises:
        ShapeError: an axis is out of range.
        InvalidArgumentError: the numbers of shifts and axes differ.

    Example:
        >>> tk.ops.roll([1, 2, 3], 1).numpy()
        array([3, 1, 2], dtype=int32)
    """
    if type(shift) is int and type(axis) is int:
        moved: Tensor = _roll(x, shift=shift, axis=axis)
        return moved
    moves = known_sizes(shift, "roll", "shift")
    axes = None if axis is None else known_sizes(axis, "roll", "the axes")
    if axes is not None and 1 not in (len(moves), len(axes)) and len(moves) != len(axes):
        raise InvalidArgumentError(
            f"roll: {len(moves)} shifts for {len(axes)} axes; give one for each, or one for all"
        )
    one = len(moves) == 1 and (axes is None or len(axes) == 1)
    result: Tensor = _roll(
        x, shift=moves[0] if one else moves, axis=axes[0] if one and axes else axes
    )
    return result


def rot90(array: Any, k: int = 1, axes: Any = (0, 1)) -> Tensor:
    """`array` turned `k` times by 90 degrees, from the first of two axes towards the second.

    Args:
        array: tensor of rank 2 at least.
        k: how many times.
        axes: the two axes.

    Raises:
        ShapeError: the axes are not two different ones that the tensor has.

    Example:
        >>> tk.ops.rot90([[1, 2], [3, 4]]).numpy()
        array([[2, 4],
               [1, 3]], dtype=int32)
    """
    x = as_tensor(array)
    rank = len(x.shape)
    if len(axes) != 2:
        raise ShapeError(f"rot90: needs two axes, got {tuple(axes)}")
    one, two = shapes.canonical_axes(tuple(axes), rank, "rot90")
    order = list(range(rank))
    order[one], order[two] = two, one
    turns = whole_number(k, "rot90", "k") % 4
    if turns == 1:
        return transpose(flip(x, two), order)
    if turns == 2:
        return flip(x, (one, two))
    return flip(transpose(x, order), two) if turns == 3 else x


# ------------------------------------------------------------------ pad

_MODES = ("constant", "reflect", "symmetric", "edge", "wrap")


def _pad_rule(x: Spec, *, pad_width: Any, mode: str, value: Any) -> Spec:
    if len(pad_width) != len(x.shape):
        raise ShapeError(
            f"pad: shape {x.shape} has {len(x.shape)} axes, pad_width {pad_width} has not"
        )
    for (low, high), n in zip(pad_width, x.shape, strict=True):
        limit = None if n is None else {"reflect": n - 1, "symmetric": n}.get(mode)
        if min(low, high) < 0 or (limit is not None and max(low, high) > limit):
            raise ShapeError(
                f"pad: shape {x.shape} can't be padded by {pad_width} in mode {mode!r}: "
                "'reflect' allows "
                "size - 1 at each end, 'symmetric' the size; none may be negative"
            )
    total = (None if n is None else n + a + b for n, (a, b) in zip(x.shape, pad_width, strict=True))
    return Spec(total, x.dtype)


def _pad_on_pool(x: Array, *, pad_width: Any, mode: str, value: Any) -> Array | None:
    """Images with zeros around them, by several threads, or `None`."""
    is_usual = mode == "constant" and not value and len(pad_width) == 4 == x.ndim
    if not is_usual or any(map(any, (pad_width[0], pad_width[3]))):
        return None
    (top, bottom), (left, right) = pad_width[1:3]
    if min(top, bottom, left, right) < 0:  # the plain version says what is wrong
        return None
    sizes = top + x.shape[1] + bottom, left + x.shape[2] + right
    shapes.bounded("pad", *sizes)
    return pixel_copies_tuned.spread_pixels(x, sizes, (top, left), (1, 1))


@primitive(
    _pad_rule,
    name="pad",
    semantics=ARRANGEMENT,
    text="beside numbers",
    tuned=Tuned(_pad_on_pool, exact=True, fewest=FEWEST_COPIED),
    direct=Direct("pad"),
)
def _pad(xp: ArrayModule, x: Array, *, pad_width: Any, mode: str, value: Any) -> Array:
    """More elements at the ends of the axes."""
    if mode != "constant" or len(pad_width) != x.ndim or min(map(min, pad_width), default=0) < 0:
        _pad_rule(x, pad_width=pad_width, mode=mode, value=value)
    dims = [n + a + b for n, (a, b) in zip(x.shape, pad_width, strict=True)]
    shapes.bounded("pad", *dims)
    if mode == "wrap" or not x.size:
        return xp.pad(x, pad_width, mode)
    if mode != "constant":
        return _mirror_ends(xp, x, pad_width, mode)
    if x.dtype == OBJECTS:
        out = xp.full(dims, as_bytes(value or b""), x.dtype)
    else:
        out = filled_on(xp, dims, value, x.dtype) if value else xp.zeros(dims, x.dtype)
    out[_inside(x.shape, pad_width)] = x
    return out


def _mirror_ends(xp: ArrayModule, x: Array, pad_width: Any, mode: str) -> Array:
    """More elements at the ends, which come from beside the ends: some copies of slices."""
    out = xp.empty([n + a + b for n, (a, b) in zip(x.shape, pad_width, strict=True)], x.dtype)
    out[_inside(x.shape, pad_width)] = x
    skipped = 1 if mode == "reflect" else 0  # an edge is no mirror of itself
    for axis, (n, (low, high)) in enumerate(zip(x.shape, pad_width, strict=True)):
        lead, end = (slice(None),) * axis, low + n
        first, last = low + skipped, end - skipped
        if low:
            source = slice(low, low + 1) if mode == "edge" else slice(first, first + low)
            out[(*lead, slice(low - 1, None, -1))] = out[(*lead, source)]
        if high:
            source = slice(end - 1, end) if mode == "edge" else slice(last - high, last)
            out[(*lead, slice(end + high - 1, end - 1, -1))] = out[(*lead, source)]
    return out


def _inside(dims: Any, pad_width: Any) -> Any:
    return tuple(slice(a, a + n) for n, (a, _) in zip(dims, pad_width, strict=True))


def _source_on(xp: ArrayModule, n: int, width: tuple[int, int], mode: str) -> Array:
    """Where each element of a padded axis came from."""

    def make() -> Any:
        return np.pad(np.arange(n), width, mode)  # type: ignore[call-overload]

    return on_device(xp, ("pad source", n, tuple(width), mode), make)


def _unpad_rule(g: Spec, *, pad_width: Any, mode: str) -> Spec:
    left = (None if n is None else n - a - b for n, (a, b) in zip(g.shape, pad_width, strict=True))
    return Spec(left, g.dtype)


@primitive(_unpad_rule, semantics=ARRANGEMENT)
def pad_sum(xp: ArrayModule, g: Array, *, pad_width: Any, mode: str) -> Array:
    """What `pad` put at the ends added to where it came from; constants are dropped."""
    dims = [n - a - b for n, (a, b) in zip(g.shape, pad_width, strict=True)]
    if mode == "constant":
        return g[_inside(dims, pad_width)]
    for axis, (n, width) in enumerate(zip(dims, pad_width, strict=True)):
        if width == (0, 0):
            continue
        source = _source_on(xp, n, width, mode)
        out = xp.zeros((*g.shape[:axis], n, *g.shape[axis + 1 :]), g.dtype)
        scatter_at(xp, "add", out, (slice(None),) * axis + (source,), g)
        g = out
    return g


_pad.gradients(
    lambda g, y, x, *, pad_width, mode, value: pad_sum(g, pad_width=pad_width, mode=mode)
)
_pad.declare(residuals=frozenset())
pad_sum.gradients(
    lambda g, y, x, *, pad_width, mode: _pad(g, pad_width=pad_width, mode=mode, value=0)
)
pad_sum.declare(stackable=Absent("it adds up numbers"))


def _padded_spec(a: Bound) -> Spec:
    """The spec of what is padded by widths of which some are known only when the graph runs."""
    x = as_tensor(a["x"])
    widths = a["pad_width"]
    if not isinstance(widths, list | tuple) or len(widths) != len(x.shape):
        return Spec((None,) * len(x.shape), x.dtype)
    dims = [
        None if n is None or is_later(pair) else n + int(np.sum(np.broadcast_to(pair, 2)))
        for n, pair in zip(x.shape, widths, strict=True)
    ]
    return Spec(dims, x.dtype)


@needs_values("pad_width", gives=_padded_spec)
def pad(
    x: TensorLike, pad_width: Any, mode: str = "constant", constant_values: Any = None
) -> Tensor:
    """`x` with more elements at the ends of its axes.

    Args:
        x: tensor of any shape.
        pad_width: `((before, after), ...)` for each axis; `(before, after)` or an int for all axes.
        mode: `"constant"`, `"reflect"` (mirrored without the edge), `"symmetric"` (with the edge),
            `"edge"` (the edge repeated) or `"wrap"` (from the other end).
        constant_values: the number to fill with in mode `"constant"`, 0 by default.

    Returns:
        A tensor of the dtype of `x`.

    Raises:
        ValueError: the mode is another one, or `constant_values` is given in another mode.
        ShapeError: widths are negative, more than the mode allows, or not one pair for each axis.

    >>> pad([1.0, 2.0], 1).numpy().tolist()
    [0.0, 1.0, 2.0, 0.0]
    """
    if mode not in _MODES:
        raise ValueError(f"pad: mode {mode!r} is none of {', '.join(_MODES)}")
    if constant_values is not None and mode != "constant":
        raise ValueError(f"pad: constant_values goes with mode 'constant', the mode is {mode!r}")
    x = as_tensor(x)
    widths = _widths(pad_width, len(x.shape))
    value = 0 if constant_values is None else _plain(constant_values)
    result: Tensor = _pad(x, pad_width=widths, mode=mode, value=value)
    return result


def _is_pair(width: Any) -> bool:
    """Whether it is two Python ints, as most callers give them."""
    return type(width) is tuple and len(width) == 2 and type(width[0]) is type(width[1]) is int


def _plain(value: Any) -> Any:
    return np.asarray(value).item() if is_tensor(value) or hasattr(value, "dtype") else value


def _widths(pad_width: Any, rank: int) -> tuple[tuple[int, int], ...]:
    if type(pad_width) is tuple and len(pad_width) == rank and all(map(_is_pair, pad_width)):
        return pad_width
    widths = np.asarray(pad_width)
    if widths.dtype.kind not in "iu" and widths.size:
        raise ShapeError(f"pad: widths are whole numbers, got {pad_width!r}")
    try:
        pairs = np.broadcast_to(widths, (rank, 2))
    except ValueError:
        raise ShapeError(
            f"pad: pad_width {widths.tolist()} has no pair for each of the {rank} axes"
        ) from None
    return tuple((int(a), int(b)) for a, b in pairs)
