"""Spectra: `DFT`, `STFT` and `MelWeightMatrix`; complex numbers lie on a last axis of two."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.onnx.imported_values import axis_of, dims, live_sizes, numbers, rank, tensor
from trainkit.onnx.operator_rules import NodeCall, check_count, onnx_rule
from trainkit.onnx.tensor_reading import dtype_name
from trainkit.ops.core.dynamic_shapes import needs_values
from trainkit.ops.signal.fourier import complex_fft, complex_ifft, complex_irfft, fitted


@onnx_rule("DFT")
def _dft(call: NodeCall, x: Any, length: Any = None, axis: Any = None) -> Tensor:
    """The Fourier transform along one axis; the inverse one is divided by its length."""
    count = rank(x)
    if call.version < 20:
        position = call.int("axis", 1)
    else:
        position = -2 if axis is None else numbers(axis, "the axis")[0]
    position = axis_of(position, count)
    if position == count - 1:
        raise InvalidArgumentError(
            f"axis {position} has the parts of complex numbers; the transform goes along another"
        )
    size = None if length is None else numbers(length, "the length of the transform")[0]
    if size is not None and size < 1:
        raise InvalidArgumentError(f"a transform of length {size} has no elements")
    if size is not None:
        check_count([size if i == position else n for i, n in enumerate(dims(x)) if n is not None])
    is_half, is_inverse = call.flag("onesided"), call.flag("inverse")
    signal = ops.moveaxis(_complex(x), position, -1)
    if is_inverse and is_half:
        result = complex_irfft(signal, size)[..., None]
        return ops.cast(ops.moveaxis(result, -2, position), tensor(x).dtype)
    signal = signal if size is None else fitted(signal, size)
    result = complex_ifft(signal) if is_inverse else complex_fft(signal)
    if is_half:
        result = result[..., : ops.shape(result)[-1] // 2 + 1]
    return _parts(ops.moveaxis(result, -1, position), x)


def _complex(x: Any) -> Tensor:
    """Values (..., 1) or (..., 2) as complex numbers (...).

    Raises:
        InvalidArgumentError: the last axis has another size.
        UnimplementedError: its size is not known.
    """
    y = tensor(x)
    size = y.shape[-1] if len(y.shape) >= 2 else 0
    if size is None:
        raise UnimplementedError(
            f"x has the shape {dims(x)}; whether its last axis has real numbers or the two parts "
            "of complex ones has to be known: say its size by input_shapes="
        )
    if size not in (1, 2):
        raise InvalidArgumentError(
            f"x has the shape {dims(x)}; its last axis has to be 1, of real numbers, or 2, of "
            "their two parts"
        )
    y = y if y.dtype.name == "float64" else ops.cast(y, "float32")
    return ops.complex_from(y[..., 0], y[..., 1] if size == 2 else ops.zeros_like(y[..., 0]))


def _parts(y: Tensor, like: Any) -> Tensor:
    return ops.cast(ops.stack([ops.real(y), ops.imag(y)], axis=-1), tensor(like).dtype)


@onnx_rule("STFT")
def _stft(call: NodeCall, x: Any, step: Any, window: Any = None, length: Any = None) -> Tensor:
    """Transforms (batch, frames, bins, 2) of pieces of a signal, each times a window."""
    (stride,) = numbers(step, "the step between frames")
    width = None if window is None else dims(window)[0]
    if length is not None:
        (size,) = numbers(length, "the length of a frame")
        if width is not None and width != size:
            raise InvalidArgumentError(
                f"a window of {width} elements does not fit frames of {size}"
            )
    else:
        size = live_sizes(x)[1] if width is None else width
    if isinstance(size, Tensor):
        raise UnimplementedError("the length of a frame has to be known before the graph runs")
    if stride < 1 or size < 1:
        raise InvalidArgumentError(f"frames of {size} elements every {stride} are none")
    signal = _complex(x)
    if signal.shape[-1] is not None:
        if signal.shape[-1] < size:
            raise InvalidArgumentError(
                f"a signal of {signal.shape[-1]} elements has no frame of {size}"
            )
        frames = (signal.shape[-1] - size) // stride + 1
        check_count([n for n in (signal.shape[0], frames, size) if n is not None])
    parts = [
        ops.extract_sequences(part, size, stride) for part in (ops.real(signal), ops.imag(signal))
    ]
    if window is not None:
        shape = ops.cast(tensor(window), parts[0].dtype)
        parts = [part * shape for part in parts]
    result = complex_fft(ops.complex_from(*parts))
    return _parts(result[..., : size // 2 + 1] if call.flag("onesided", True) else result, x)


@onnx_rule("MelWeightMatrix")
def _mel_weights(call: NodeCall, bins: Any, length: Any, rate: Any, low: Any, high: Any) -> Tensor:
    dtype = dtype_name(call.int("output_datatype", 1), "the result")
    return _triangles(tensor(bins), tensor(length), tensor(rate), tensor(low), tensor(high), dtype)


@needs_values(
    "bins", "length", "rate", "low", "high",
    gives=lambda a: Spec((None, None), as_dtype(a["dtype"])),
)  # fmt: skip
def _triangles(bins: Any, length: Any, rate: Any, low: Any, high: Any, dtype: str) -> Tensor:
    """Triangles (frequencies, bins) whose corners lie evenly on the mel scale.

    mel(f) = 2595 log10(1 + f / 700)
    """
    bin_count, dft_length, sample_rate = (int(_number(x)) for x in (bins, length, rate))
    edges = [float(_number(x)) for x in (low, high)]
    if min(bin_count, dft_length, sample_rate) < 1:
        raise InvalidArgumentError(
            f"{bin_count} bins of a transform of length {dft_length} at {sample_rate} samples a "
            "second are none"
        )
    frequency_count = dft_length // 2 + 1
    check_count([frequency_count, bin_count])
    ends = [2595 * np.log10(1 + max(edge, -699) / 700) for edge in edges]
    # as in ONNX, a step is the range over the number of corners
    mels = ends[0] + np.arange(bin_count + 2) * (ends[1] - ends[0]) / (bin_count + 2)
    corners = np.floor((dft_length + 1) * 700 * (10 ** (mels / 2595) - 1) / sample_rate)
    if not (np.isfinite(corners).all() and 0 <= corners.min() <= corners.max() < frequency_count):
        raise InvalidArgumentError(
            f"bins from {edges[0]} to {edges[1]} Hz lie outside of the "
            f"{frequency_count} frequencies up to {sample_rate / 2} Hz"
        )
    left, middle, right = corners[:-2], corners[1:-1], corners[2:]
    at = np.arange(frequency_count)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        rising = (at - left) / (middle - left)
        falling = (right - at) / (right - middle)
    weights = np.where((at >= left) & (at <= middle) & (left < middle), rising, 0.0)
    weights = np.where((at >= middle) & (at < right), falling, weights)
    weights = np.where((at == middle) & (left == middle) & (right == middle), 1.0, weights)
    return ops.cast(weights, dtype)


def _number(value: Any) -> Any:
    return np.ravel(np.asarray(value))[0]
