"""Order statistics, weighted means, counts and histograms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import (
    INDEXING,
    INTEGERS,
    REDUCTION,
    Absent,
    Direct,
    Tuned,
    one_by_one,
)
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.docstrings import describe_arguments
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.threads import pools
from trainkit.ops.arrays.shaping import as_tensor, reshape
from trainkit.ops.core.axis_numbers import whole_number
from trainkit.ops.core.dynamic_shapes import Bound, needs_values
from trainkit.ops.core.one_node import sizes_later
from trainkit.ops.math.comparisons import not_equal
from trainkit.ops.math.elementwise import cast, divide, multiply, promoted, subtract
from trainkit.ops.math.max_and_argmax import max as greatest
from trainkit.ops.math.max_and_argmax import min as least
from trainkit.ops.math.reductions import Axis, axis_setting, check_axes, mean
from trainkit.ops.math.reductions import sum as total

bins_cuda = DeferredModule("trainkit.kernels.indexing.bins_cuda")
rows_gpu = DeferredModule("trainkit.kernels.indexing.rows_gpu")
sort_gpu = DeferredModule("trainkit.kernels.sorting.sort_gpu")

# ------------------------------------------------------------------ quantiles

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def _ranks(xp: ArrayModule, q: float, n: Array, method: str) -> tuple[Array, Array, Array]:
    """The two ranks among `n` elements next to the quantile, and the share of the upper one."""
    position = q * xp.maximum(n - 1, 0)
    low, high = xp.floor(position), xp.ceil(position)
    if method == "linear":
        weight = position - low
    elif method == "midpoint":
        weight = (high - low) / 2
    else:
        rank = {"lower": low, "higher": high, "nearest": xp.rint(position)}[method]
        low, high, weight = rank, rank, 0 * position
    return low.astype(np.int64)[..., None], high.astype(np.int64)[..., None], weight[..., None]


def _between_ranks(xp: ArrayModule, ordered: Array, q: float, method: str) -> Array:
    """What lies at the quantile of rows of one length, all of which have the same ranks."""
    low, high, weight = (x[0] for x in _ranks(np, q, np.array(ordered.shape[-1]), method))
    if not weight:
        return ordered[..., low] + 0.0
    return _weigh(xp, ordered[..., low], ordered[..., high], weight)


def _weigh(xp: ArrayModule, lower: Array, upper: Array, weight: Any) -> Array:
    """(1 - weight) * lower + weight * upper."""
    step = xp.where(weight > 0, upper - lower, 0)  # of two infinities where nothing is added
    between = lower + step * weight
    beside_infinity = lower * (1 - weight) + upper * weight  # where the step is none
    return xp.where(xp.isfinite(step), between, beside_infinity)


def _quantile_rule(
    x: Spec, *, q: Any, axis: Axis, method: str, keepdims: bool, skip_nan: bool
) -> Spec:
    dims = shapes.reduced_dims(x.shape, axis, keepdims)
    return Spec(((len(q),) if type(q) is tuple else ()) + dims, shapes.float_dtype(x.dtype))


def _rows(x: Array, axis: Axis) -> tuple[Array, tuple[int, ...], list[int]]:
    """`x` with the reduced axes as one last axis, these axes, and the order of all axes."""
    axes = shapes.canonical_axes(axis, x.ndim, "quantile")
    other_axes = [i for i in range(x.ndim) if i not in axes]
    dims = [x.shape[i] for i in other_axes]
    size = 1
    for i in axes:
        size *= x.shape[i]
    if not size:
        raise InvalidArgumentError("quantile: there are no elements along the axis")
    return x.transpose(*other_axes, *axes).reshape(*dims, size), axes, [*other_axes, *axes]


def _row_lengths(xp: ArrayModule, rows: Array, skip_nan: bool) -> Array:
    if skip_nan:
        return xp.sum(~xp.isnan(rows), axis=-1)
    return xp.full(rows.shape[:-1], rows.shape[-1])


def _join(xp: ArrayModule, results: list[Array], q: Any, dims: Any, dtype: Any) -> Array:
    """The result for one share, or those for several on a new first axis."""
    if type(q) is not tuple:
        return results[0].astype(dtype, copy=False)
    return xp.stack(results).astype(dtype, copy=False) if q else xp.empty((0, *dims), dtype)


@primitive(
    _quantile_rule,
    name="quantile",
    semantics=REDUCTION,
    lowering=Absent("it sorts"),
    direct=Direct("quantile"),
)
def _quantile(
    xp: ArrayModule, x: Array, *, q: Any, axis: Axis, method: str, keepdims: bool, skip_nan: bool
) -> Array:
    """Values below which the share q of the elements along axes lies."""
    check_axes(x, axis, "quantile")
    quantile_dtype = shapes.float_dtype(dtypes.as_dtype(x.dtype)).dtype
    rows, axes, _ = _rows(x.astype(quantile_dtype, copy=False), axis)
    ordered = sort_gpu.sorted_last(xp, rows)  # NaN comes last
    last = ordered[..., -1]
    n = _row_lengths(xp, rows, skip_nan) if skip_nan else None
    has_nan = last != last if n is None else n == 0
    results = []
    for share in q if type(q) is tuple else (q,):
        if n is None:
            between = _between_ranks(xp, ordered, share, method)
        else:
            low, high, weight = _ranks(xp, share, n, method)
            lower = xp.take_along_axis(ordered, low, axis=-1)
            upper = xp.take_along_axis(ordered, high, axis=-1)
            between = _weigh(xp, lower, upper, weight)[..., 0]
        value = xp.where(has_nan, np.nan, between)
        results.append(xp.expand_dims(value, axes) if keepdims else value)
    return _join(xp, results, q, shapes.reduced_dims(x.shape, axis, keepdims), quantile_dtype)


def _index_of_rank(rows: Array, ordered: Array, rank: int) -> Any:
    """Which of the numbers of one row has a rank: of equal ones the first has the lowest."""
    numbers, sorted_numbers = rows.reshape(-1), ordered.reshape(-1)
    number = sorted_numbers[rank]
    if number != number:  # NaN comes last
        alike, sorted_alike = numbers != numbers, sorted_numbers != sorted_numbers
    else:
        alike, sorted_alike = numbers == number, sorted_numbers == number
    return np.flatnonzero(alike)[rank - np.argmax(sorted_alike)]


@primitive(
    lambda g, x, **settings: Spec(x.shape, g.dtype),
    semantics=REDUCTION,
    lowering=Absent("it sorts"),
)
def quantile_spread(
    xp: ArrayModule,
    g: Array,
    x: Array,
    *,
    q: Any,
    axis: Axis,
    method: str,
    keepdims: bool,
    skip_nan: bool,
) -> Array:
    """Gradient of `quantile`: `g` at the elements next to each quantile, by their weights."""
    rows, _, order = _rows(x, axis)
    n = _row_lengths(xp, rows, skip_nan)
    # Ordering positions takes NumPy ten times as long as ordering numbers.
    ordered = sort_gpu.sorted_last(xp, rows) if xp is np and rows.size == rows.shape[-1] else None
    ranking = sort_gpu.stable_order(xp, rows) if ordered is None else None
    result = xp.zeros(rows.shape, g.dtype)
    for i, share in enumerate(q if type(q) is tuple else (q,)):
        part = (g[i] if type(q) is tuple else g).reshape(rows.shape[:-1])[..., None]
        low, high, weight = _ranks(xp, share, n, method)
        for rank, factor in ((low, 1 - weight), (high, weight)):
            if ordered is None:
                index = xp.take_along_axis(ranking, rank, axis=-1)
            else:
                index = np.reshape(_index_of_rank(rows, ordered, rank.item()), rank.shape)
            current = xp.take_along_axis(result, index, axis=-1)
            xp.put_along_axis(result, index, current + (part * factor).astype(g.dtype), axis=-1)
    moved = result.reshape([x.shape[i] for i in order])
    return moved.transpose(*np.argsort(order).tolist())


@primitive(
    lambda g, x, **settings: Spec(_quantile_rule(x, **settings).shape, g.dtype),
    semantics=REDUCTION,
    lowering=Absent("it sorts"),
)
def quantile_gather(
    xp: ArrayModule,
    g: Array,
    x: Array,
    *,
    q: Any,
    axis: Axis,
    method: str,
    keepdims: bool,
    skip_nan: bool,
) -> Array:
    """The adjoint of `quantile_spread`: elements of `g` where the quantiles of `x` are."""
    rows, axes, _ = _rows(x, axis)
    n = _row_lengths(xp, rows, skip_nan)
    ranked = xp.take_along_axis(_rows(g, axis)[0], sort_gpu.stable_order(xp, rows), axis=-1)
    results = []
    for share in q if type(q) is tuple else (q,):
        low, high, weight = _ranks(xp, share, n, method)
        value = xp.take_along_axis(ranked, low, axis=-1) * (1 - weight)
        value = (value + xp.take_along_axis(ranked, high, axis=-1) * weight)[..., 0]
        results.append(xp.expand_dims(value, axes) if keepdims else value)
    return _join(xp, results, q, shapes.reduced_dims(x.shape, axis, keepdims), g.dtype)


def _quantile_gradient(g: Tensor, y: Tensor, x: Tensor, **settings: Any) -> Tensor | None:
    if not x.dtype.is_floating:
        return None
    return quantile_spread(g, x, **settings)


_quantile.gradients(_quantile_gradient)
quantile_spread.gradients(
    lambda g, y, short, x, **settings: quantile_gather(g, x, **settings), None
)
quantile_gather.gradients(lambda g, y, long, x, **settings: quantile_spread(g, x, **settings), None)


def _share_setting(q: Any, op: str) -> float | tuple[float, ...]:
    if type(q) is float and 0 <= q <= 1:
        return q
    values = np.asarray(q.numpy() if hasattr(q, "numpy") else q, np.float64)
    if values.ndim > 1:
        raise ShapeError(f"{op}: q must be a number or a vector, it has shape {values.shape}")
    if values.size and not (values.min() >= 0 and values.max() <= 1):
        raise InvalidArgumentError(f"{op}: q must be in the range of shares, got {q!r}")
    return tuple(values.tolist()) if values.ndim else float(values)


def quantile_of(x: Any, q: Any, axis: Axis, method: str, keepdims: bool, skip_nan: bool) -> Tensor:
    """`quantile`, or `nanquantile` with `skip_nan`."""
    if method not in _METHODS:
        raise InvalidArgumentError(f"quantile: method={method!r}; there are {_METHODS}")
    return _quantile(
        x,
        q=_share_setting(q, "quantile"),
        axis=axis_setting(axis),
        method=method,
        keepdims=bool(keepdims),
        skip_nan=skip_nan,
    )


def percents(q: Any) -> Any:
    """Percentages as shares."""
    return np.asarray(q.numpy() if hasattr(q, "numpy") else q, np.float64) / 100


def shares_later(arguments: dict[str, Any]) -> Any:
    """The spec of quantiles whose shares are known only later; `None` if they are known."""
    q = arguments["q"]
    if not isinstance(q, SymbolicTensor):
        return None
    x = arguments["x"] if isinstance(arguments["x"], Tensor) else convert_to_tensor(arguments["x"])
    dims = shapes.reduced_dims(x.shape, axis_setting(arguments["axis"]), arguments["keepdims"])
    return Spec((*q.shape, *dims), shapes.float_dtype(x.dtype))


@sizes_later("quantile", shares_later, constants=("q",))
def quantile(
    x: TensorLike, q: TensorLike, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """Values below which the share `q` of the elements along `axis` lies.

    Args:
        q: a share in [0, 1], or a vector of shares.
        method: what to do between two elements: `"linear"`, `"lower"`, `"higher"`, `"midpoint"` or
            `"nearest"`.

    Returns:
        A float tensor; a vector `q` gives a new first axis of its length. NaN where an element is
        NaN.

    Raises:
        InvalidArgumentError: `q` is out of range, `method` unknown, or there are no elements.

    Example:
        >>> float(tk.ops.quantile([1.0, 2.0, 3.0], 0.5))
        2.0
    """
    return quantile_of(x, q, axis, method, keepdims, skip_nan=False)


@sizes_later("percentile", shares_later, constants=("q",))
def percentile(
    x: TensorLike, q: TensorLike, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """Values below which `q` percent of the elements along `axis` lie.

    Args:
        q: a number in [0, 100], or a vector of such.
        method: as for `quantile`.

    Returns:
        A float tensor; a vector `q` gives a new first axis of its length.

    Raises:
        InvalidArgumentError: `q` is out of range, `method` unknown, or there are no elements.

    Example:
        >>> float(tk.ops.percentile([1.0, 2.0, 3.0], 50))
        2.0
    """
    return quantile_of(x, percents(q), axis, method, keepdims, skip_nan=False)


def median(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The middle element along `axis`, the mean of the middle two where their number is even.

    Returns:
        A float tensor. NaN where an element is NaN.

    Example:
        >>> float(tk.ops.median([3.0, 1.0, 2.0]))
        2.0
    """
    return quantile(x, 0.5, axis, "linear", keepdims)


# ------------------------------------------------------------------ means and ranges


def average(x: TensorLike, axis: Axis = None, weights: Any = None) -> Tensor:
    """Mean along `axis`, weighted by `weights`.

    Args:
        weights: tensor of the shape of `x`, or a vector as long as the one axis `axis`.

    Returns:
        A float tensor.

    Raises:
        ShapeError: the shape of `weights` fits neither way.

    Example:
        >>> float(tk.ops.average([1.0, 5.0], weights=[3.0, 1.0]))
        2.0
    """
    if weights is None:
        return mean(x, axis)
    x, weights = promoted(x, weights)
    mean_dtype = shapes.float_dtype(x.dtype)
    x, weights = cast(x, mean_dtype), cast(weights, mean_dtype)
    if tuple(weights.shape) == tuple(x.shape):
        return divide(total(multiply(x, weights), axis), total(weights, axis))
    weights = _weights_along(x, weights, axis)
    return divide(total(multiply(x, weights), axis), total(weights))


def _weights_along(x: Tensor, weights: Tensor, axis: Axis) -> Tensor:
    rank = len(x.shape)
    axes = shapes.canonical_axes(axis, rank, "average")
    if axis is None or len(axes) != 1 or len(weights.shape) != 1:
        raise ShapeError(
            f"average: weights of shape {weights.shape} fit neither x of shape {x.shape} nor its "
            f"axis {axis}; a vector of weights needs one axis"
        )
    if x.shape[axes[0]] != weights.shape[0]:
        raise ShapeError(
            f"average: {weights.shape[0]} weights for axis {axes[0]} of x, whose shape is {x.shape}"
        )
    return reshape(weights, tuple(-1 if i == axes[0] else 1 for i in range(rank)))


def ptp(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The greatest element along `axis` less the least.

    Returns:
        A tensor of the dtype of `x`.

    Raises:
        InvalidArgumentError: there are no elements along the axis.

    Example:
        >>> float(tk.ops.ptp([1.0, 5.0, 3.0]))
        4.0
    """
    x = as_tensor(x)
    if 0 in (x.shape[i] for i in shapes.canonical_axes(axis, len(x.shape), "ptp")):
        raise InvalidArgumentError(
            f"ptp: there are no elements along axis {axis} of shape {tuple(x.shape)}, so there is "
            "neither a greatest nor a least one"
        )
    return subtract(greatest(x, axis, keepdims), least(x, axis, keepdims))


# ------------------------------------------------------------------ counts


def count_nonzero(x: TensorLike, axis: Axis = None) -> Tensor:
    """How many elements along `axis` are not 0.

    Returns:
        An int32 tensor.

    Example:
        >>> int(tk.ops.count_nonzero([[0, 1], [2, 3]]))
        3
    """
    return total(cast(not_equal(x, 0), "int32"), axis)


def _bincount_rule(x: Spec, *weights: Any, minlength: int, maxlength: int | None = None) -> Spec:
    bins = minlength if minlength == maxlength else None
    return Spec((*x.shape[:-1], bins), weights[0].dtype if weights else "int32")


def _as_rows(x: Array) -> Array:
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _count(xp: ArrayModule, rows: Array, weights: Array | None, bins: int, all_fit: bool) -> Array:
    """How often each number occurs in each row, or the sum of the weights there."""
    rows, cell_count = rows.astype(np.int64, copy=False), len(rows) * bins
    bin_indices = rows
    if len(rows) > 1:  # All rows at once: each has its own range of bins.
        bin_indices = rows + xp.arange(len(rows), dtype=np.int64)[:, None] * bins
    if not all_fit:
        bin_indices = xp.where((rows >= 0) & (rows < bins), bin_indices, cell_count)
    bin_indices, flat_weights = bin_indices.ravel(), None if weights is None else weights.ravel()
    if xp is not np and flat_weights is not None and pools.determined():
        sums = xp.zeros((cell_count, 1), np.float64)
        if rows_gpu.add_rows(
            xp, sums, bin_indices, flat_weights.astype(np.float64)[:, None], wrap=False
        ):
            return sums.reshape(len(rows), bins)
    counts = xp.bincount(bin_indices, weights=flat_weights, minlength=cell_count)
    return counts[:cell_count].reshape(len(rows), bins)


def _bincount_on_gpu(
    xp: ArrayModule, x: Array, *weights: Array, minlength: int, maxlength: int | None = None
) -> Array | None:
    if minlength == maxlength:
        bins = minlength
    else:
        bins = _bins_for(*_limits_of(xp, x), minlength, maxlength)
    rows, row_weights = _as_rows(x), _as_rows(weights[0]) if weights else None
    counts = None
    if row_weights is None or not pools.determined():
        counts = bins_cuda.counted(xp, rows, row_weights, bins)
    if counts is None:
        counts = _count(xp, rows, row_weights, bins, all_fit=False)
    return _as_counts(x, row_weights, counts)


def _limits_of(xp: ArrayModule, x: Array) -> tuple[int, int]:
    """The least and the greatest number, with one wait for both."""
    if not x.size:
        return 0, -1
    if xp is np:
        return int(x.min()), int(x.max())
    lowest, greatest = xp.stack([x.min(), x.max()]).tolist()
    return lowest, greatest


def _bins_for(lowest: int, greatest: int, minlength: int, maxlength: int | None) -> int:
    if lowest < 0:
        raise InvalidArgumentError(f"bincount: x has the negative value {lowest}")
    bins = max(minlength, greatest + 1)
    return bins if maxlength is None else min(bins, maxlength)


def _as_counts(x: Array, weights: Array | None, counts: Array) -> Array:
    count_dtype = np.int32 if weights is None else weights.dtype
    return counts.reshape(*x.shape[:-1], counts.shape[-1]).astype(count_dtype, copy=False)


@primitive(
    _bincount_rule,
    name="bincount",
    semantics=INDEXING,
    no_gradient=INTEGERS,
    tuned=Tuned(on_gpu=(_bincount_on_gpu,)),
    direct=Direct("bincount"),
)
def _bincount(
    xp: ArrayModule, x: Array, *weights: Array, minlength: int, maxlength: int | None = None
) -> Array:
    """How often each whole number occurs in each row, or the sum of the weights there.

    Numbers from `maxlength` on are left out.
    """
    lowest, greatest = _limits_of(xp, x)
    bins = _bins_for(lowest, greatest, minlength, maxlength)
    row_weights = _as_rows(weights[0]) if weights else None
    return _as_counts(x, row_weights, _count(xp, _as_rows(x), row_weights, bins, greatest < bins))


_bincount.declare(batch=one_by_one("the greatest value of an item says how many bins it has"))


def _counts_spec(a: Bound) -> Spec:
    x, weights = as_tensor(a["x"]), a["weights"]
    dtype = dtypes.int32 if weights is None else dtypes.result_type(x, as_tensor(weights))
    return Spec((*x.shape[:-1], None), dtype)


@needs_values("minlength", gives=_counts_spec)
def bincount(
    x: TensorLike, weights: Any = None, minlength: int = 0, sparse: bool = False
) -> Tensor:
    """How often each of the numbers 0, 1, 2, ... occurs.

    Args:
        x: tensor (n,) or (rows, n) of integers that are not negative.
        weights: tensor of the shape of `x`; then its elements are summed instead of counted.
        minlength: the least length of the result. How long it is depends on `x`, whose greatest
            number is waited for on a GPU, so that no CUDA graph holds this; where the length is
            known, `tk.math.bincount` with `minlength` and `maxlength` equal waits for nothing.
        sparse: only `False`; there are no sparse tensors.

    Returns:
        A tensor whose last axis has one place per number up to the greatest one; int32, or, with
        weights, the dtype to which they and `x` promote. It has no gradient.

    Raises:
        InvalidArgumentError: `x` has negative numbers or no integers, or `sparse` is true.
        ShapeError: the shapes of `x` and `weights` differ, or `x` has neither one nor two axes.

    Example:
        >>> tk.ops.bincount([1, 1, 3]).numpy()
        array([0, 2, 0, 1], dtype=int32)
    """
    if sparse:
        raise InvalidArgumentError(
            "bincount: sparse=True is not supported; there are dense tensors only"
        )
    return counts_of(x, weights, whole_number(minlength, "bincount", "minlength"), None)


def counts_of(x: Any, weights: Any, minlength: int, maxlength: int | None) -> Tensor:
    """`bincount`, in which numbers from `maxlength` on are left out.

    With two equal lengths the result has this one whatever `x` holds; a GPU is not waited for then,
    and leaves negative numbers out.
    """
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    if x.dtype.is_bool:
        x = cast(x, "int32")
    if not x.dtype.is_integer:
        raise InvalidArgumentError(f"bincount: x must have integers, it has dtype {x.dtype.name}")
    if len(x.shape) not in (1, 2):
        raise ShapeError(f"bincount: x must have one or two axes, its shape is {x.shape}")
    settings: dict[str, Any] = {"minlength": minlength, "maxlength": maxlength}
    if weights is None:
        return _bincount(x, **settings)
    weights = convert_to_tensor(weights)
    if tuple(weights.shape) != tuple(x.shape):
        raise ShapeError(f"bincount: x has shape {x.shape}, weights have {weights.shape}")
    weights = cast(weights, dtypes.result_type(x.dtype, weights.dtype))
    return _bincount(x, weights, **settings)


def _histogram_rule(x: Spec, *, bins: int, range: Any) -> tuple[Spec, Spec]:
    edge_dtype = shapes.float_dtype(x.dtype)
    return Spec((bins,), edge_dtype), Spec((bins + 1,), edge_dtype)


@primitive(_histogram_rule, name="histogram", semantics=INDEXING, no_gradient=INTEGERS)
def _histogram(xp: ArrayModule, x: Array, *, bins: int, range: Any) -> tuple[Array, Array]:
    """Counts in equal bins and the edges of the bins."""
    edge_dtype = shapes.float_dtype(dtypes.as_dtype(x.dtype)).dtype
    counts, edges = xp.histogram(x.astype(edge_dtype, copy=False).ravel(), bins=bins, range=range)
    return counts.astype(edge_dtype), edges.astype(edge_dtype)


_histogram.declare(batch=one_by_one("each item has bins of its own"))


def histogram(x: TensorLike, bins: int = 10, range: Any = None) -> tuple[Tensor, Tensor]:
    """How many elements fall into each of `bins` equal parts of a range.

    Args:
        x: tensor (n,).
        bins: number of parts.
        range: pair of the least and greatest value that count; by default those of `x`. The last
            part includes its upper edge.

    Returns:
        The counts (bins,) and the edges (bins + 1,), both of the float dtype of `x`.

    Raises:
        InvalidArgumentError: `bins` is no positive int, or `range` no increasing pair.
        ShapeError: `x` has another number of axes than one.

    Example:
        >>> counts, edges = tk.ops.histogram([0.0, 0.5, 2.0], bins=2)
        >>> counts.numpy(), edges.numpy()
        (array([2., 1.], dtype=float32), array([0., 1., 2.], dtype=float32))
    """
    x = as_tensor(x)
    if len(x.shape) != 1:
        raise ShapeError(f"histogram: x must have one axis, got shape {tuple(x.shape)}; flatten it")
    if not isinstance(bins, int) or bins <= 0:
        raise InvalidArgumentError(f"histogram: bins must be a positive int, got {bins!r}")
    if range is not None:
        low, high = (float(v) for v in range)
        if low >= high:
            raise InvalidArgumentError(f"histogram: the range ({low}, {high}) is empty")
        range = (low, high)
    counts, edges = _histogram(x, bins=bins, range=range)
    return counts, edges


describe_arguments(
    globals(),
    """
    x: tensor of any shape.
    axis: int, sequence of ints, or `None` for all axes.
    keepdims: keep the reduced axes with size 1.
    """,
)
