"""Elements that are chosen by their values, tables of whole numbers, and tests of numbers."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np

from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import UnimplementedError
from trainkit.ops.arrays.ordering import unique, unique_with_counts
from trainkit.ops.indexing.integer_tables import number_tokens, tokens_of_numbers
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value
from trainkit.saved_graph.onnx.rules.further_forms import scatter_rows
from trainkit.saved_graph.onnx.rules.onnx_form import CALL_FORMS, call_form, onnx_form
from trainkit.saved_graph.onnx.rules.reductions_forms import reduce
from trainkit.saved_graph.onnx.rules.shapes_forms import spec_shape

LATER = (
    "what it computes depends on sizes or values that are known when it runs; give it known sizes, "
    "by the input_signature"
)


@onnx_form("with_values")
def _with_values(to: GraphBuilder, *inputs: Any, call: Any) -> Any:
    """A call that has a form of its own, or is an operation once the layer's table is known."""
    arguments = call.bound(inputs)
    if arguments is not None and call.origin in CALL_FORMS:
        return CALL_FORMS[call.origin](to, **arguments)
    data = call.as_data()
    if data is None:
        raise UnimplementedError(LATER)
    operation, settings = data
    rule = operation.primitive.facets.onnx
    if not rule:
        raise UnimplementedError(f"{call.name}: {rule.reason}")
    return rule(to, *inputs, **settings)


# ---------------------------------------------------------------------- tables of whole numbers


@onnx_form(number_tokens.primitive.name)
def _number_tokens(
    to: GraphBuilder, x: Value, tokens: Any, numbers: Any, first: int, count: int, hashed: bool,
    salt: Any,
) -> Value:  # fmt: skip
    """The tokens rise, so that the number of lesser ones is the position of one."""
    if count > 1 and hashed:
        raise UnimplementedError("unknown integers share numbers by a hash of their digits")
    x = to.cast(x, "int64")
    if not count:
        # an unknown integer raises: the table is read behind its end, where runtimes raise
        first = 0
    unknown: Any = to.known(np.int64(first))
    if count > 1:
        remainder = to.each("Mod", x, to.known(np.int64(count)))  # of the sign of the divisor
        unknown = to.each("Add", remainder, unknown)
    if not tokens:
        return to.op("Expand", unknown, to.shape_of(x), shape=x.shape)
    table = to.known(np.array(tokens, np.int64))
    spread = to.unsqueeze(x, [x.rank])
    is_lesser = to.each("Less", table, spread, dtype="bool")
    position = reduce(to, "ReduceSum", to.cast(is_lesser, "int64"), -1, False)
    position = to.each("Min", position, to.known(np.int64(len(tokens) - 1)))
    is_token = to.each("Equal", _row(to, table, position), x, dtype="bool")
    if not count:
        beyond = to.each("Where", is_token, position, to.known(np.int64(len(tokens))))
        return _row(to, to.known(np.array(numbers, np.int64)), beyond)
    return to.each("Where", is_token, _row(to, to.known(np.array(numbers, np.int64)), position),
                   unknown)  # fmt: skip


def _row(to: GraphBuilder, table: Value, positions: Value) -> Value:
    return to.op("Gather", table, positions, axis=0, shape=positions.shape)


@onnx_form(tokens_of_numbers.primitive.name)
def _tokens_of_numbers(to: GraphBuilder, x: Value, tokens: Any, other: int, dtype: str) -> Value:
    table = to.known(np.array([*tokens, other], np.int64))
    numbers = to.cast(x, "int64")
    last = to.known(np.int64(len(tokens)))
    is_outside = to.each(
        "Or",
        to.each("Less", numbers, to.known(np.int64(0)), dtype="bool"),
        to.each("Greater", numbers, last, dtype="bool"),
    )
    return to.cast(_row(to, table, to.each("Where", is_outside, last, numbers)), dtype)


# ---------------------------------------------------------------------- chosen by their values


@onnx_form("nonzero")
def _nonzero(to: GraphBuilder, x: Value, dtype: str) -> tuple[Value, ...]:
    positions = to.op("NonZero", x, shape=(x.rank, None), dtype="int64")
    rows = [
        to.op("Gather", positions, to.known(np.int64(axis)), axis=0, shape=(None,))
        for axis in range(x.rank)
    ]
    return tuple(to.cast(row, dtype) for row in rows)


@onnx_form("isin")
def _isin(to: GraphBuilder, x: Value, members: Value) -> Value:
    flat = to.reshape(members, [-1], (None,))
    is_equal = to.each("Equal", to.unsqueeze(x, [x.rank]), flat, dtype="bool")
    return to.cast(reduce(to, "ReduceMax", to.cast(is_equal, "int32"), -1, False), "bool")


def _segments(
    to: GraphBuilder, data: Value, ids: Value, num_segments: int | None, reduction: str
) -> Value:
    """Rows written over the number that changes none; those of no segment go to the end."""
    if num_segments is None or ids.rank != 1 or None in data.shape[1:]:
        raise UnimplementedError("segments of an unknown number, or of unknown sizes")
    limits = (ml_dtypes.finfo if data.dtype.startswith(("float", "bfloat")) else np.iinfo)(
        as_dtype(data.dtype).dtype
    )
    count = int(num_segments)
    is_outside = to.each(
        "Or",
        to.each("Less", ids, 0, dtype="bool"),
        to.each("GreaterOrEqual", ids, count, dtype="bool"),
    )
    positions = to.each("Where", is_outside, to.known(count, ids.dtype), ids)
    empty = {"max": limits.min, "min": limits.max, "mul": 1}.get(reduction, 0)  # sums begin at 0
    start = to.known(np.full((count + 1, *map(int, data.shape[1:])), empty), data.dtype)
    total = scatter_rows(to, start, to.unsqueeze(positions, [1]), data, how=reduction)
    return to.slice_axis(total, 0, 0, count)


onnx_form("segment_max")(functools.partial(_segments, reduction="max"))
onnx_form("segment_min")(functools.partial(_segments, reduction="min"))
onnx_form("segment_prod")(functools.partial(_segments, reduction="mul"))
onnx_form("segment_sum")(functools.partial(_segments, reduction="add"))


@onnx_form("bincount")
def _bincount(
    to: GraphBuilder, x: Value, *weights: Value, minlength: int, maxlength: int | None = None
) -> Value:
    """Ones, or weights, added up at the positions that the numbers are."""
    if x.rank != 1:
        raise UnimplementedError("bincount of several rows")
    positions = to.cast(x, "int64")
    last = reduce(to, "ReduceMax", _with_minus_one(to, positions), None, False)
    size = to.each("Max", to.each("Add", last, 1), to.known(np.int64(minlength)))
    if maxlength is not None:
        size = to.each("Min", size, to.known(np.int64(maxlength)))
    dtype = weights[0].dtype if weights else "int64"
    # numbers beyond the end are counted in one more place, which is cut off
    bins = to.each("Min", positions, size)
    parts: Value = weights[0] if weights else to.op(
        "Expand", to.known(np.int64(1)), to.shape_of(x), shape=x.shape
    )  # fmt: skip
    length = to.vector([to.each("Add", size, 1)])
    start = to.op("Expand", to.known(0, dtype), length, shape=(None,))
    counts = scatter_rows(to, start, to.unsqueeze(bins, [1]), parts, how="add")
    return to.slice_axis(counts, 0, 0, -1)


def _with_minus_one(to: GraphBuilder, x: Value) -> Value:
    """A vector with one element more, so that it has a greatest one."""
    return to.op("Concat", x, to.known(np.array([-1])), axis=0, shape=(None,))


@onnx_form("histogram")
def _histogram(to: GraphBuilder, x: Value, bins: int, range: Any) -> tuple[Value, Value]:
    if range is None:
        raise UnimplementedError("a histogram whose range follows from the values; give range=")
    dtype = to.call.specs[0].dtype.name
    edges = np.linspace(float(range[0]), float(range[1]), bins + 1).astype(as_dtype(dtype).dtype)
    column = to.unsqueeze(to.reshape(to.cast(x, dtype), [-1], (None,)), [1])
    is_above = to.each("GreaterOrEqual", column, to.known(edges[:-1]), dtype="bool")
    upper = to.known(edges[1:])
    is_below = to.each("Less", column, upper, dtype="bool")
    at_the_end = to.each("Equal", column, to.known(edges[-1:]), dtype="bool")
    is_last = to.known(np.arange(bins) == bins - 1)
    is_below = to.each("Or", is_below, to.each("And", at_the_end, is_last))
    is_inside = to.cast(to.each("And", is_above, is_below), dtype)
    return reduce(to, "ReduceSum", is_inside, 0, False), to.known(edges)


@onnx_form("unique")
def _unique(to: GraphBuilder, x: Value, sorted: bool, axis: int, size: int | None) -> Any:
    if size is not None:
        raise UnimplementedError("unique with size=, which cuts off or fills up")
    return _find_unique(to, x, sorted, axis)


@call_form(unique)
def _unique_in_order(to: GraphBuilder, x: Value, out_idx: Any, **settings: Any) -> Any:
    values, _, inverse, _ = _find_unique(to, to.as_value(x), False, 0)
    return values, inverse


@call_form(unique_with_counts)
def _unique_with_counts(to: GraphBuilder, x: Value, out_idx: Any, **settings: Any) -> Any:
    values, _, inverse, counts = _find_unique(to, to.as_value(x), False, 0)
    return values, inverse, counts


def _find_unique(to: GraphBuilder, x: Value, sorted: bool, axis: int) -> Any:
    """Different slices, their first positions, which each one is, and counts.

    Each NaN is one of its own in trainkit, and all are one in ONNX.
    """
    shape = tuple(None if i == axis % x.rank else n for i, n in enumerate(x.shape))
    count = (None,)
    results = to.ops(
        "Unique", x, count=4, shapes=[shape, count, (x.shape[axis],), count],
        dtypes=[x.dtype, "int64", "int64", "int64"], sorted=int(sorted), axis=axis,
    )  # fmt: skip
    return tuple(results)


@onnx_form("unravel_index")
def _unravel_index(to: GraphBuilder, indices: Value, shape: Any) -> Any:
    quotient, positions = to.cast(indices, "int64"), []
    for size in reversed([int(n) for n in shape]):
        positions.append(to.each("Mod", quotient, to.known(np.int64(size))))
        quotient = to.each("Div", to.each("Sub", quotient, positions[-1]), to.known(np.int64(size)))
    return tuple(reversed(positions))


# ---------------------------------------------------------------------- tests of numbers


@onnx_form("all_finite")
def _all_finite(to: GraphBuilder, *values: Value) -> Value:
    flags = []
    for x in values:
        is_bad = to.each("Or", to.each("IsNaN", x, dtype="bool"), to.each("IsInf", x, dtype="bool"))
        flags.append(reduce(to, "ReduceMax", to.cast(is_bad, "int32"), None, False))
    is_any = functools.reduce(lambda a, b: to.each("Max", a, b), flags)
    return to.each("Equal", is_any, 0, dtype="bool")


@onnx_form("signbit")
def _signbit(to: GraphBuilder, x: Value) -> Value:
    """Below 0, or the zero whose reciprocal is."""
    is_less = to.each("Less", x, 0, dtype="bool")
    if not x.dtype.startswith(("float", "bfloat")):
        return is_less
    is_zero = to.each("Equal", x, 0.0, dtype="bool")
    is_under = to.each("Less", to.each("Reciprocal", x), 0.0, dtype="bool")
    return to.each("Or", is_less, to.each("And", is_zero, is_under))


@onnx_form("angle")
def _angle(to: GraphBuilder, x: Value) -> Value:
    """0 or pi of a real number."""
    dtype = to.call.specs[0].dtype.name
    turned = to.each("Where", to.each("Less", x, 0, dtype="bool"), to.known(np.pi, dtype),
                     to.known(0, dtype))  # fmt: skip
    if not x.dtype.startswith(("float", "bfloat")):
        return turned
    return to.each("Where", to.each("IsNaN", x, dtype="bool"), to.cast(x, dtype), turned)


@onnx_form("saturate_cast")
def _saturate_cast(to: GraphBuilder, x: Value, dtype: str) -> Value:
    if not dtype.startswith(("int", "uint")) or x.dtype == "bool":
        raise UnimplementedError(f"saturate_cast from {x.dtype} to {dtype}")
    wide_dtype = "float64" if x.dtype.startswith(("float", "bfloat")) else "int64"
    if x.dtype == "uint64" or (wide_dtype == "float64" and dtype.endswith("64")):
        raise UnimplementedError(f"saturate_cast from {x.dtype} to {dtype}")
    limits = np.iinfo(np.dtype(dtype))
    lowest = max(limits.min, np.iinfo(np.int64).min)
    highest = min(limits.max, np.iinfo(np.int64).max)
    y = to.cast(x, wide_dtype)
    y = to.op("Clip", y, to.known(lowest, wide_dtype), to.known(highest, wide_dtype), shape=x.shape)
    return to.cast(y, dtype)


onnx_form("det")(lambda to, x: to.op("Det", x, shape=x.shape[:-2]))
onnx_form("copy_to_device_of")(lambda to, x, like: x)


@onnx_form("nan_to_num")
def _nan_to_num(to: GraphBuilder, x: Value, nan: float, posinf: float, neginf: float) -> Value:
    y = x
    for number, settings in ((neginf, {"detect_positive": 0}), (posinf, {"detect_negative": 0})):
        is_infinite = to.each("IsInf", x, dtype="bool", **settings)
        y = to.each("Where", is_infinite, to.known(number, x.dtype), y)
    return to.each("Where", to.each("IsNaN", x, dtype="bool"), to.known(nan, x.dtype), y)


onnx_form("isneginf")(lambda to, x: to.each("IsInf", x, dtype="bool", detect_positive=0))
onnx_form("isposinf")(lambda to, x: to.each("IsInf", x, dtype="bool", detect_negative=0))


@onnx_form("isclose")
def _isclose(to: GraphBuilder, a: Any, b: Any, rtol: float, atol: float, equal_nan: bool) -> Value:
    """|a - b| <= atol + rtol |b|, or equal, which infinities are as well."""
    like = a if isinstance(a, Value) else b
    a, b = to.as_value(a, like), to.as_value(b, like)
    away = to.each("Abs", to.each("Sub", a, b))
    limit = to.each("Add", to.each("Mul", to.each("Abs", b), float(rtol)), float(atol))
    is_near = to.each("LessOrEqual", away, limit, dtype="bool")
    is_infinite = to.each("Or", *(to.each("IsInf", x, dtype="bool") for x in (a, b)))
    is_near = to.each("And", is_near, to.each("Not", is_infinite))
    result = to.each("Or", is_near, to.each("Equal", a, b, dtype="bool"))
    if equal_nan:
        both = to.each("And", *(to.each("IsNaN", x, dtype="bool") for x in (a, b)))
        result = to.each("Or", result, both)
    return result


@onnx_form("heaviside")
def _heaviside(to: GraphBuilder, x: Value, middle: Any) -> Value:
    middle = to.as_value(middle, x)
    is_zero = to.each("Equal", x, 0.0, dtype="bool")
    step = to.cast(to.each("Greater", x, 0.0, dtype="bool"), x.dtype)
    step = to.each("Where", is_zero, middle, step)
    return to.each("Where", to.each("IsNaN", x, dtype="bool"), x, step)


@onnx_form("in_top_k")
def _in_top_k(to: GraphBuilder, targets: Value, predictions: Value, k: int) -> Value:
    """Fewer than k predictions are greater; what is no finite number is in no top."""
    rows = to.unsqueeze(to.cast(targets, "int64"), [1])
    score = to.op("GatherElements", predictions, rows, axis=1, shape=(targets.shape[0], 1))
    is_better = to.cast(to.each("Greater", predictions, score, dtype="bool"), "int32")
    count = reduce(to, "ReduceSum", is_better, -1, False)
    scores = to.squeeze(score, [1])
    is_bad = to.each("Or", to.each("IsNaN", scores, dtype="bool"), to.each("IsInf", scores,
                                                                         dtype="bool"))  # fmt: skip
    return to.each("And", to.each("Less", count, k, dtype="bool"), to.each("Not", is_bad))


@onnx_form("fold")
def _fold(
    to: GraphBuilder, x: Value, output_size: Any, kernel_size: Any, dilation: Any, padding: Any,
    stride: Any,
) -> Value:  # fmt: skip
    image, block = (to.known(np.array(n, np.int64)) for n in (output_size, kernel_size))
    return to.op("Col2Im", x, image, block, shape=spec_shape(to), dilations=list(dilation),
                 pads=[*padding, *padding], strides=list(stride))  # fmt: skip
