"""Spectra, and complex numbers, which are real tensors with the two parts on a last axis here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core.errors import UnimplementedError
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value
from trainkit.saved_graph.onnx.rules.indexing_forms import get_item
from trainkit.saved_graph.onnx.rules.onnx_form import complex_form, onnx_form
from trainkit.saved_graph.onnx.rules.shapes_forms import FAR, spec_shape

AXIS_AS_INPUT = 20  # the version from which on DFT takes its axis as an input
_REAL = {"complex64": "float32", "complex128": "float64"}
_COMPLEX = {real: name for name, real in _REAL.items()}


def parts_of(to: GraphBuilder, x: Any) -> Value:
    """Real and imaginary parts (..., 2) of a value, or number, that may be real."""
    if not isinstance(x, Value):
        x = to.known(np.asarray(x, to.call.specs[0].dtype.dtype))
    if x.parts is not None:
        return x.parts
    if x.is_known:
        pair = np.stack([np.real(x.array), np.imag(x.array)], axis=-1)
        return to.known(pair, label=x.label)
    return stack_parts(to, x, to.each("Mul", x, 0.0))


def stack_parts(to: GraphBuilder, re: Value, im: Value) -> Value:
    """Both parts in one tensor, on a new last axis.

    Raises:
        UnimplementedError: they have several shapes.
    """
    if re.rank != im.rank or re.shape != im.shape:
        raise UnimplementedError(
            f"complex numbers of parts of shapes {re.shape} and {im.shape}; bring both to one shape"
        )
    pair = [to.unsqueeze(part, [part.rank]) for part in (re, im)]
    return to.op("Concat", *pair, axis=re.rank, shape=(*re.shape, 2))


def make_complex(to: GraphBuilder, parts: Value) -> Value:
    """The complex numbers that have these parts."""
    return Value(to, parts.shape[:-1], _COMPLEX[parts.dtype], parts=parts)


def part_of(to: GraphBuilder, x: Any, index: int) -> Value:
    """The real parts, or the imaginary ones."""
    parts = parts_of(to, x)
    position = to.known(np.int64(index))
    return to.op("Gather", parts, position, axis=parts.rank - 1, shape=parts.shape[:-1])


# ---------------------------------------------------------------------- from and to real numbers


@onnx_form("complex")
def _complex(to: GraphBuilder, re: Any, im: Any) -> Value:
    like = re if isinstance(re, Value) else im
    return make_complex(to, stack_parts(to, to.as_value(re, like), to.as_value(im, like)))


onnx_form("view_as_complex")(lambda to, x: make_complex(to, x))


@onnx_form("view_as_real")
@complex_form("view_as_real")
def _view_as_real(to: GraphBuilder, x: Value) -> Value:
    return parts_of(to, x)


@onnx_form("real")
@complex_form("real")
def _real(to: GraphBuilder, x: Value) -> Value:
    return part_of(to, x, 0) if x.dtype in _REAL else x


@onnx_form("imag")
@complex_form("imag")
def _imag(to: GraphBuilder, x: Value) -> Value:
    return part_of(to, x, 1) if x.dtype in _REAL else to.each("Mul", x, 0.0)


@complex_form("cast")
def _cast(to: GraphBuilder, x: Value, **settings: Any) -> Value:
    dtype = to.call.specs[0].dtype.name
    if dtype not in _REAL:
        return to.cast(part_of(to, x, 0), dtype)
    return make_complex(to, to.cast(parts_of(to, x), _REAL[dtype]))


@complex_form("absolute")
def _absolute(to: GraphBuilder, x: Value) -> Value:
    return to.op("ReduceL2", parts_of(to, x), [-1], keepdims=0, shape=x.shape)


@onnx_form("conj")
@complex_form("conj")
def _conj(to: GraphBuilder, x: Value) -> Value:
    if x.dtype not in _REAL:
        return x
    return make_complex(to, _mirror(to, parts_of(to, x)))


def _mirror(to: GraphBuilder, parts: Value) -> Value:
    return to.each("Mul", parts, to.known(np.array([1, -1]), parts.dtype))


# ---------------------------------------------------------------------- arithmetic


complex_form("add")(lambda to, a, b: make_complex(to, _combine(to, "Add", a, b)))
complex_form("subtract")(lambda to, a, b: make_complex(to, _combine(to, "Sub", a, b)))


def _combine(to: GraphBuilder, kind: str, a: Any, b: Any) -> Value:
    return to.each(kind, parts_of(to, a), parts_of(to, b))


complex_form("negative")(lambda to, x: make_complex(to, to.each("Neg", parts_of(to, x))))


# ---------------------------------------------------------------------- arrangement


@complex_form("transpose")
def _transpose(to: GraphBuilder, x: Value, axes: Sequence[int] | None = None) -> Value:
    order = range(x.rank)[::-1] if axes is None else [a % x.rank for a in axes]
    return make_complex(to, to.transpose(parts_of(to, x), (*order, x.rank)))


@complex_form("get_item", "get_item_at")
def _get_item(to: GraphBuilder, x: Value, *parts: Value, key: Sequence[Any]) -> Value:
    pair_axis = [(None, None, None)] if "..." in key else []  # the axis of the two parts
    return make_complex(to, get_item(to, parts_of(to, x), *parts, key=[*key, *pair_axis]))


@complex_form("expand_dims")
def _expand_dims(to: GraphBuilder, x: Value, axis: Any) -> Value:
    axes = axis if isinstance(axis, tuple | list) else [axis]
    rank = x.rank + len(axes)
    return make_complex(to, to.unsqueeze(parts_of(to, x), [a % rank for a in axes]))


@complex_form("pad")
def _pad(to: GraphBuilder, x: Value, pad_width: Any, mode: str, value: Any) -> Value:
    if value or mode != "constant":
        raise UnimplementedError("complex numbers are filled up with other values than 0")
    ends = [n for side in range(2) for n in (*(pair[side] for pair in pad_width), 0)]
    parts = parts_of(to, x)
    shape = (*to.call.specs[0].shape, 2)
    return make_complex(
        to, to.op("Pad", parts, to.known(ends, "int64"), mode="constant", shape=shape)
    )


@complex_form("identity", "stop_gradient", "copy", "copy_to_device", "ensure_shape")
def _identity(to: GraphBuilder, x: Value, **settings: Any) -> Value:
    return x


# ---------------------------------------------------------------------- transforms


def _transform(to: GraphBuilder, x: Value, axis: int, **settings: Any) -> Value:
    """DFT of parts (..., 1 or 2) along one axis; ONNX asks for an axis in front of it."""
    is_vector = x.rank == 2
    x = to.unsqueeze(x, [0]) if is_vector else x
    axis += is_vector
    shape = (*x.shape[:-1], 2)
    if settings.get("onesided"):
        size = shape[axis]
        half = None if size is None else size // 2 + 1
        shape = (*shape[:axis], half, *shape[axis + 1 :])
    if to.root.opset_version >= AXIS_AS_INPUT:
        y = to.op("DFT", x, None, to.known(np.int64(axis)), shape=shape, **settings)
    else:
        y = to.op("DFT", x, axis=axis, shape=shape, **settings)
    return to.squeeze(y, [0]) if is_vector else y


def _transforms(to: GraphBuilder, x: Value, rank: int, inverse: int) -> Value:
    parts = parts_of(to, x)
    for axis in range(x.rank - rank, x.rank):
        parts = _transform(to, parts, axis, inverse=inverse)
    return make_complex(to, parts)


@onnx_form("fft")
@complex_form("fft")
def _fft(to: GraphBuilder, x: Value, rank: int) -> Value:
    return _transforms(to, x, rank, 0)


@onnx_form("ifft")
@complex_form("ifft")
def _ifft(to: GraphBuilder, x: Value, rank: int) -> Value:
    return _transforms(to, x, rank, 1)


@onnx_form("rfft")
def _rfft(to: GraphBuilder, x: Value) -> Value:
    parts = to.unsqueeze(x, [x.rank])
    return make_complex(to, _transform(to, parts, x.rank - 1, onesided=1))


@onnx_form("irfft")
@complex_form("irfft")
def _irfft(to: GraphBuilder, x: Value, n: int | None) -> Value:
    """The inverse transform of the whole spectrum, whose other half is the mirrored one."""
    parts, axis = parts_of(to, x), x.rank - 1
    end = FAR if n is not None and n % 2 else -1  # the middle of an even one stands once
    shared = to.slice_axis(parts, axis, 1, end)
    reverse = to.slice_axis(shared, axis, -1, -FAR, -1)
    spectrum = to.op(
        "Concat", parts, _mirror(to, reverse), axis=axis, shape=(*x.shape[:-1], None, 2)
    )
    y = part_of(to, make_complex(to, _transform(to, spectrum, axis, inverse=1)), 0)
    y.shape = spec_shape(to)
    return y


@onnx_form("overlap_add")
def _overlap_add(to: GraphBuilder, x: Value, stride: int) -> Value:
    """Windows (..., count, length) as rows of `stride` elements, shifted and added up."""
    length = x.shape[-1]
    if length is None:
        raise UnimplementedError("windows of an unknown length are added up")
    pieces = -(-length // stride)
    padded = _pad_axis(to, x, -1, 0, pieces * stride - length)
    total: Value | None = None
    for i in range(pieces):
        piece = to.slice_axis(padded, x.rank - 1, i * stride, (i + 1) * stride)
        shifted = _pad_axis(to, piece, -2, i, pieces - 1 - i)
        total = shifted if total is None else to.each("Add", total, shifted)
    assert total is not None
    lead = [to.size_of(x, axis) for axis in range(x.rank - 2)]
    flat = to.reshape(total, [*lead, -1], (*x.shape[:-2], None))
    surplus = pieces * stride - length
    return to.slice_axis(flat, flat.rank - 1, 0, -surplus) if surplus else flat


def _pad_axis(to: GraphBuilder, x: Value, axis: int, before: int, after: int) -> Value:
    if not before and not after:
        return x
    ends = np.zeros((2, x.rank), np.int64)
    ends[:, axis] = before, after
    shape = list(x.shape)
    size = shape[axis]
    shape[axis] = None if size is None else size + before + after
    return to.op("Pad", x, to.known(ends.ravel()), mode="constant", shape=tuple(shape))
