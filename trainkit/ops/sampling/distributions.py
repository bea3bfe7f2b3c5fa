"""Discrete and skewed distributions: gamma, beta, Poisson, binomial, categorical; permutations.

Where a method rejects draws, only the elements rejected are drawn again, from the bits that follow,
until none is left; so the numbers depend on nothing but state and parameters.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from trainkit.core import dtypes, nest
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import RANDOM, Direct, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.kernels.cuda.constants import on_device
from trainkit.kernels.softmax.softmax_reference import shifted_powers
from trainkit.ops.arrays.concat_and_split import concatenate
from trainkit.ops.arrays.shaping import filled, sizes_to_fill
from trainkit.ops.collective.global_rows import global_batch, rows_of_others
from trainkit.ops.sampling import philox
from trainkit.ops.sampling.batch_rows import RowDraws, rows_for
from trainkit.ops.sampling.philox import unit_floats, whole

rejection_gpu = DeferredModule("trainkit.kernels.random.rejection_gpu")
sort_gpu = DeferredModule("trainkit.kernels.sorting.sort_gpu")

_F64 = np.float64


def _drawn(state: Spec, *inputs: Any, shape: Any, dtype: str, count: int, rows: Any = None) -> Any:
    """Shape rule: values, and the next state; the first `count` inputs are parameters."""
    return Spec(shape, dtype), Spec(state.shape, state.dtype)


def _spread(xp: ArrayModule, dims: tuple[int, ...], *parameters: Array) -> list[Array]:
    """Parameters as flat float64 arrays, one element for each draw."""
    _check_spread(dims, parameters)
    return [xp.asarray(xp.broadcast_to(p, dims), _F64).reshape(-1) for p in parameters]


def _check_spread(dims: tuple[int, ...], parameters: tuple[Array, ...]) -> None:
    shapes = [tuple(p.shape) for p in parameters]
    try:
        fit = np.broadcast_shapes(dims, *shapes) == tuple(dims)
    except ValueError:
        fit = False
    if not fit:
        texts = ", ".join(map(str, shapes))
        raise ShapeError(f"random: parameters of shape {texts} do not broadcast to {dims}")


def _on_gpu(distribution: str) -> Tuned:
    """The draws by kernels of a GPU."""

    def run_tuned(
        xp: ArrayModule, state: Array, *inputs: Array, shape: Any, dtype: str, count: int
    ) -> Any:
        parameters, dims = inputs[:count], filled(shape, inputs[count:])
        _check_spread(dims, parameters)
        draws = rejection_gpu.drawn(xp, distribution, state, parameters, dims, np.dtype(_F64))
        kind = dtypes.as_dtype(dtype).dtype
        return None if draws is None else (_as_counts(xp, draws[0], kind), draws[1])

    return Tuned(on_gpu=(_cut_for_rows(run_tuned),))


def _until_accepted(xp: ArrayModule, state: Array, count: int, propose: Any) -> tuple[Array, Array]:
    """`count` values of a rejection method, and the next state.

    Args:
        xp: the array module.
        state: of the generator.
        count: how many.
        propose: function of the state and the positions still open, to values, acceptance, and
            state.
    """
    out = xp.zeros(count, _F64)
    open_places = xp.arange(count)
    while open_places.size:
        values, accepted, state = propose(state, open_places)
        out[open_places[accepted]] = values[accepted]
        open_places = open_places[~accepted]
    return out, state


def _two_uniforms(xp: ArrayModule, state: Array, count: int) -> tuple[Array, Array, Array]:
    flat, state = unit_floats(xp, state, whole(2 * count), _F64)
    return flat[:count], 1.0 - flat[count:], state  # the second in (0, 1], so its log is finite


def with_parameters(
    primitive_op: Any, source: Any, shape: Any, parameters: tuple[Any, ...], dtype: str
) -> Tensor:
    """What `source` draws by a primitive that takes parameters after the state."""
    count = len(parameters)
    rows = None if isinstance(source, RowDraws) else rows_for(shape)
    further: dict[str, Any] = {"count": count}
    if rows is not None:
        dims, _ = sizes_to_fill(shape, "random")
        parameters = tuple(_of_all_rows(p, dims) for p in parameters)
        further["rows"] = rows

    def with_them(state: Any, *sizes: Any, **settings: Any) -> Any:
        return primitive_op(state, *parameters, *sizes, **settings, **further)

    result: Tensor = source.draw(with_them, shape, dtype=dtype)
    return result


def _of_all_rows(parameter: Tensor, dims: tuple[Any, ...]) -> Tensor:
    """A parameter for the rows of all replicas; itself where it is one for all rows."""
    size = parameter.shape[0] if len(parameter.shape) == len(dims) and dims else 1
    if size == 1 and dims[0] != 1:
        return parameter
    rows = rows_of_others()
    assert rows is not None
    own, subject = max(rows.size, 1), "random numbers with a parameter for each row"
    if not isinstance(size, int) or size % own or len(parameter.shape) < len(dims):
        return parameter
    if size == own:
        gathered: Tensor = global_batch(parameter, subject)
        return gathered
    blocks = [parameter[i : i + own] for i in range(0, size, own)]
    joined: Tensor = concatenate([global_batch(block, subject) for block in blocks])
    return joined


def _cut_for_rows(kernel: Any) -> Any:
    """A kernel that draws for the global batch where it is given `rows`, and gives these.

    Which draws are rejected depends on all of them, so the rows are cut out of the whole.
    """

    @functools.wraps(kernel)
    def of_rows(xp: ArrayModule, state: Array, *inputs: Array, **settings: Any) -> Any:
        rows = settings.pop("rows", None)
        if rows is None:
            return kernel(xp, state, *inputs, **settings)
        count = settings["count"]
        dims = filled(settings["shape"], inputs[count:])
        part = philox.part_of(dims, rows)
        each = math.prod(dims[1:])
        settings["shape"] = (part.total // each, *dims[1:]) if each else dims
        draws = kernel(xp, state, *inputs[:count], **settings)
        if draws is None:
            return None
        first = part if part.blocks > 1 else part._replace(first=min(part.first, part.total))
        if first.first + first.size > first.total:  # a row that stands in for none is any row
            first = first._replace(first=first.total - first.size)
        return philox.cut(draws[0].reshape(-1), first).reshape(dims), draws[1]

    return of_rows


# ------------------------------------------------------------------ gamma and beta


@primitive(
    _drawn,
    semantics=RANDOM,
    tuned=_on_gpu("gamma"),
    direct=Direct("gamma", (np.log, np.cos, np.sin, np.power)),
)
@_cut_for_rows
def philox_gamma(
    xp: ArrayModule, state: Array, alpha: Array, *sizes: Array, shape: Any, dtype: str, count: int
) -> Any:
    """Draws of the gamma distribution of rate 1, and the next state; NaN for an impossible alpha.

    Source: Marsaglia and Tsang 2000, "A simple method for generating gamma variables".
    """
    dims = filled(shape, sizes)
    (alphas,) = _spread(xp, dims, alpha)
    possible = (alphas > 0) & (alphas < math.inf)
    a = xp.where(possible, alphas, 1.0)
    raised = xp.where(a < 1, a + 1, a)
    d = raised - 1 / 3
    c = 1 / xp.sqrt(9 * d)

    def propose(state: Array, at: Array) -> Any:
        x, state = philox.normal_floats(xp, state, whole(at.size), _F64)
        _, u, state = _two_uniforms(xp, state, at.size)
        v = (1 + c[at] * x) ** 3
        safe = xp.where(v > 0, v, 1)
        accepted = xp.log(u) < 0.5 * x * x + d[at] * (1 - safe + xp.log(safe))
        return d[at] * safe, (v > 0) & accepted, state

    values, state = _until_accepted(xp, state, a.size, propose)
    _, u, state = _two_uniforms(xp, state, a.size)
    small = xp.where(a < 1, u ** (1 / xp.maximum(a, 1e-300)), 1)
    values = xp.where(possible, values * small, math.nan)
    return values.reshape(dims).astype(dtypes.as_dtype(dtype).dtype), state


# ------------------------------------------------------------------ counts

_LOG_FACTORIALS = np.array([math.lgamma(k + 1) for k in range(20)])


def _log_factorial(xp: ArrayModule, k: Array) -> Array:
    """log(k!), by a table below 20 and by Stirling's series from there (error below 1e-10)."""
    table = on_device(xp, "log factorials", lambda: _LOG_FACTORIALS)
    large = xp.maximum(k, 19.0)
    series = (large + 0.5) * xp.log(large) - large + 0.5 * math.log(2 * math.pi)
    series = series + 1 / (12 * large) - 1 / (360 * large**3)
    return xp.where(k < 20, table[xp.clip(k, 0, 19).astype(np.int64)], series)


@primitive(_drawn, semantics=RANDOM, tuned=_on_gpu("poisson"), direct=Direct("poisson", (np.exp,)))
@_cut_for_rows
def philox_poisson(
    xp: ArrayModule, state: Array, lam: Array, *sizes: Array, shape: Any, dtype: str, count: int
) -> Any:
    """Draws of the Poisson distribution, and the next state.

    As in TensorFlow negative means give 0 and infinite ones infinity, which integers have as 0; NaN
    gives NaN. Draws beyond an integer dtype are its greatest number.

    By inversion for means below 10, else by transformed rejection.
    Source: Hoermann 1993, "The transformed rejection method for generating Poisson random
    variables".
    """
    dims = filled(shape, sizes)
    (mean,) = _spread(xp, dims, lam)
    u, _, state = _two_uniforms(xp, state, mean.size)
    first = xp.clip(mean, 0.0, 10.0)
    out = _invert(xp, u, xp.exp(-first), lambda k, term: term * first / k)
    large = xp.nonzero((mean >= 10) & (mean < math.inf))[0]
    if large.size:
        out[large], state = _poisson_by_rejection(xp, state, mean[large])
    out = xp.where(mean < math.inf, out, mean)  # NaN and infinity give themselves
    return _as_counts(xp, out, dtypes.as_dtype(dtype).dtype).reshape(dims), state


def _as_counts(xp: ArrayModule, counts: Array, kind: Any) -> Array:
    """Counts in the dtype of the result; integers end at their greatest number."""
    if kind.kind not in "iu":
        return counts.astype(kind)
    greatest = np.iinfo(kind).max
    limit = float(greatest)
    limit = limit if limit <= greatest else math.nextafter(limit, 0)  # int64's is no float64
    return xp.where(xp.isfinite(counts), xp.minimum(counts, limit), 0).astype(kind)


def _invert(xp: ArrayModule, u: Array, first: Array, following: Any, limit: int = 200) -> Array:
    """The least k whose cumulated probability is above u; terms follow from one another."""
    k = xp.zeros(u.shape, _F64)
    term, total = first, first
    for i in range(1, limit):
        beyond = u >= total
        if not bool(beyond.any()):
            break
        term = following(i, term)
        total = total + term
        k = k + beyond
    return k


def _poisson_by_rejection(xp: ArrayModule, state: Array, mean: Array) -> tuple[Array, Array]:
    b = 0.931 + 2.53 * xp.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def propose(state: Array, at: Array) -> Any:
        u, v, state = _two_uniforms(xp, state, at.size)
        u = u - 0.5
        us = 0.5 - xp.abs(u)
        safe = xp.maximum(us, 1e-12)
        k = xp.floor((2 * a[at] / safe + b[at]) * u + mean[at] + 0.43)
        quick = (us >= 0.07) & (v <= v_r[at])
        left = xp.log(v * inverse_alpha[at] / (a[at] / (safe * safe) + b[at]))
        clipped = xp.maximum(k, 0.0)
        right = -mean[at] + clipped * xp.log(mean[at]) - _log_factorial(xp, clipped)
        fits = (k >= 0) & ((us >= 0.013) | (v <= us)) & (left <= right)
        return k, quick | fits, state

    return _until_accepted(xp, state, mean.size, propose)


@primitive(
    _drawn,
    semantics=RANDOM,
    tuned=_on_gpu("binomial"),
    direct=Direct("binomial", (np.exp, np.log1p)),
)
@_cut_for_rows
def philox_binomial(
    xp: ArrayModule,
    state: Array,
    counts: Array,
    probabilities: Array,
    *sizes: Array,
    shape: Any,
    dtype: str,
    count: int,
) -> Any:
    """Draws of the binomial distribution, and the next state.

    By inversion for expected counts below 10, else by transformed rejection.
    Source: Hoermann 1993, "The generation of binomial random variates", algorithm BTRS.
    """
    dims = filled(shape, sizes)
    n, p = _spread(xp, dims, counts, probabilities)
    flipped = p > 0.5
    p = xp.where(flipped, 1 - p, p)
    u, _, state = _two_uniforms(xp, state, n.size)
    big = (n * p >= 10) & (n < math.inf)
    low_n, low_p = xp.where(big, 0.0, n), xp.where(big, 0.0, p)
    ratio = low_p / (1 - low_p)
    start = xp.exp(low_n * xp.log1p(-low_p))
    out = _invert(xp, u, start, lambda k, term: term * ratio * xp.maximum(low_n - k + 1, 0) / k)
    large = xp.nonzero(big)[0]
    if large.size:
        out[large], state = _binomial_by_rejection(xp, state, n[large], p[large])
    out = xp.minimum(out, n)
    out = xp.where(flipped, n - out, out)
    return _as_counts(xp, out, dtypes.as_dtype(dtype).dtype).reshape(dims), state


def _binomial_by_rejection(
    xp: ArrayModule, state: Array, n: Array, p: Array
) -> tuple[Array, Array]:
    spread = xp.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre = n * p + 0.5
    v_r = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * spread
    log_odds = xp.log(p / (1 - p))
    mode = xp.floor((n + 1) * p)
    at_mode = _log_factorial(xp, mode) + _log_factorial(xp, n - mode)

    def propose(state: Array, at: Array) -> Any:
        u, v, state = _two_uniforms(xp, state, at.size)
        u = u - 0.5
        us = 0.5 - xp.abs(u)
        safe = xp.maximum(us, 1e-12)
        k = xp.floor((2 * a[at] / safe + b[at]) * u + centre[at])
        inside = (k >= 0) & (k <= n[at])
        quick = (us >= 0.07) & (v <= v_r[at])
        left = xp.log(v * alpha[at] / (a[at] / (safe * safe) + b[at]))
        clipped = xp.clip(k, 0, n[at])
        at_clipped = _log_factorial(xp, clipped) + _log_factorial(xp, n[at] - clipped)
        right = at_mode[at] - at_clipped + (clipped - mode[at]) * log_odds[at]
        return k, inside & (quick | (left <= right)), state

    return _until_accepted(xp, state, n.size, propose)


def known_values(values: Any, tensor: Tensor) -> Array | None:
    """The values of an argument that became `tensor`, where the host has them.

    `None` for one that is known later, or lies on a GPU, for which the host would have to wait.
    """
    if is_tensor(values) or any(map(is_tensor, nest.flatten(values))):
        values = tensor._array if type(tensor) is Tensor else None
        return values if isinstance(values, np.ndarray | np.generic) else None
    return np.asarray(values)


def binomial_of(source: Any, shape: Any, counts: Any, probabilities: Any, dtype: Any) -> Tensor:
    """What `source` draws of the binomial distribution; see `random_draws.binomial`."""
    name = dtypes.as_dtype(dtype or dtypes.floatx()).name
    p = convert_to_tensor(probabilities)
    values = known_values(probabilities, p)
    if values is not None and bool((values < 0).any() or (values > 1).any()):
        raise InvalidArgumentError(
            f"random.binomial: probabilities must lie in [0, 1], got {probabilities!r}"
        )
    return with_parameters(philox_binomial, source, shape, (convert_to_tensor(counts), p), name)


# ------------------------------------------------------------------ categories and order


def _categorical_rule(
    state: Spec, logits: Spec, *count: Spec, samples: int | None, dtype: str, rows: Any = None
) -> Any:
    return Spec((logits.shape[0], samples), dtype), Spec(state.shape, state.dtype)


@primitive(_categorical_rule, semantics=RANDOM, direct=Direct("categorical", (np.exp,)))
def philox_categorical(
    xp: ArrayModule,
    state: Array,
    logits: Array,
    *count: Array,
    samples: int | None,
    dtype: str,
    rows: Any = None,
) -> Any:
    """Class indices by inversion of the cumulated softmax, and the next state.

    The number of draws for each row is `samples`, or what `count` holds where that is `None`.
    """
    size, classes = logits.shape
    if samples is None:
        samples = int(count[0])
    dims = (size, samples)
    doubles = logits.astype(_F64)
    cumulated = xp.cumsum(shifted_powers(xp, doubles)[1], axis=1)
    u, state = unit_floats(xp, state, philox.part_of(dims, rows), _F64)
    u = u.reshape(dims) * cumulated[:, -1:]
    if size <= samples:
        row_indices = [xp.searchsorted(cumulated[i], u[i], side="right") for i in range(size)]
        index = xp.stack(row_indices) if row_indices else xp.zeros((0, samples), np.int64)
    else:
        index = (u[:, :, None] >= cumulated[:, None, :]).sum(axis=2)
    index = xp.minimum(index, classes - 1)
    return index.astype(dtypes.as_dtype(dtype).dtype), state


@primitive(
    lambda state, *sizes, shape: (Spec(shape, "int64"), Spec(state.shape, state.dtype)),
    semantics=RANDOM,
    direct=Direct("permutation"),
)
def philox_permutation(xp: ArrayModule, state: Array, *sizes: Array, shape: Any) -> Any:
    """The numbers 0 ... n - 1 in random order, and the next state."""
    (n,) = filled(shape, sizes)
    keys, new = philox.drawn_words(xp, state, n)
    order = sort_gpu.stable_order(xp, keys)
    return order.astype(np.int64), new
