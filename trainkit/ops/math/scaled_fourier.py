"""Fourier transforms over any axes, with a choice of where the scale goes.

The arguments are those of the Array API standard.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import devices, dtypes, shapes
from trainkit.core.dtypes import as_dtype
from trainkit.core.tensor import Tensor, wrap_on_device
from trainkit.ops.arrays.axes import moveaxis
from trainkit.ops.arrays.pad_and_roll import roll
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.math.elementwise import conjugated, multiply
from trainkit.ops.signal.fourier import (
    as_complex,
    complex_fft,
    complex_ifft,
    complex_irfft,
    complex_rfft,
    fitted,
)

_NORMS = ("backward", "ortho", "forward")


def _rescale(y: Tensor, n: int, norm: str, inverse: bool) -> Tensor:
    """A transform of `n` numbers in the scale of `norm`, from `y` in that of `"backward"`."""
    if norm not in _NORMS:
        raise ValueError(f"fft: norm {norm!r} is none of {', '.join(_NORMS)}")
    power = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}[norm]
    factor = float(n) ** (power if inverse else -power)
    return y if factor == 1.0 else multiply(y, factor)


def _transform_along(
    op: Any, x: Tensor, n: int | None, axis: int, norm: str, inverse: bool
) -> Tensor:
    """A transform of the last axis run along another one."""
    last = moveaxis(x, axis, -1)
    length = last.shape[-1] if n is None else int(n)
    y = op(fitted(last, length))
    return moveaxis(_rescale(y, length, norm, inverse), -1, axis)


def fft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The Fourier transform along one axis, cut or filled up to `n`."""
    return _transform_along(complex_fft, as_complex(x), n, axis, norm, False)


def ifft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse Fourier transform along one axis, cut or filled up to `n`."""
    return _transform_along(complex_ifft, as_complex(x), n, axis, norm, True)


def _axes(x: Tensor, s: Any, axes: Any) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    rank = len(x.shape)
    if axes is None:
        axes = range(rank) if s is None else range(rank - len(s), rank)
    axis_indices = shapes.canonical_axes(tuple(axes), rank, "fft")
    sizes = (None,) * len(axis_indices) if s is None else tuple(s)
    if len(sizes) != len(axis_indices):
        raise ValueError(f"fft: {len(sizes)} sizes for {len(axis_indices)} axes")
    return axis_indices, sizes


def fftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
    """The Fourier transform along several axes, by default all."""
    y = as_complex(x)
    for axis, n in zip(*_axes(y, s, axes), strict=True):
        y = fft(y, n=n, axis=axis, norm=norm)
    return y


def ifftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
    """The inverse Fourier transform along several axes, by default all."""
    y = as_complex(x)
    for axis, n in zip(*_axes(y, s, axes), strict=True):
        y = ifft(y, n=n, axis=axis, norm=norm)
    return y


def rfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The Fourier transform of real `x` along one axis: the first n // 2 + 1 elements."""
    return _transform_along(complex_rfft, as_tensor(x), n, axis, norm, False)


def irfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `rfft`; `n` is the length of the result, 2 (k - 1) by default."""
    last = moveaxis(as_complex(x), axis, -1)
    length = 2 * (last.shape[-1] - 1) if n is None else int(n)
    y = _rescale(complex_irfft(last, length), length, norm, True)
    return moveaxis(y, -1, axis)


def rfftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
    """The Fourier transform of real `x` along several axes; the last one is halved."""
    y = as_tensor(x)
    axis_indices, sizes = _axes(y, s, axes)
    y = rfft(y, n=sizes[-1], axis=axis_indices[-1], norm=norm)
    for axis, n in zip(axis_indices[:-1], sizes[:-1], strict=True):
        y = fft(y, n=n, axis=axis, norm=norm)
    return y


def irfftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
    """The inverse of `rfftn`."""
    y = as_complex(x)
    axis_indices, sizes = _axes(y, s, axes)
    for axis, n in zip(axis_indices[:-1], sizes[:-1], strict=True):
        y = ifft(y, n=n, axis=axis, norm=norm)
    return irfft(y, n=sizes[-1], axis=axis_indices[-1], norm=norm)


_OTHER = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def hfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The Fourier transform, which is real, of the first half of a signal that mirrors itself."""
    _rescale(as_tensor(x), 1, norm, False)
    return irfft(conjugated(as_complex(x)), n=n, axis=axis, norm=_OTHER[norm])


def ihfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `hfft`."""
    _rescale(as_tensor(x), 1, norm, False)
    spectrum: Tensor = conjugated(rfft(x, n=n, axis=axis, norm=_OTHER[norm]))
    return spectrum


def _frequencies(values: Any, dtype: Any, device: Any) -> Tensor:
    frequency_dtype = as_dtype(dtypes.floatx() if dtype is None else dtype)
    with devices.device(devices.current() if device is None else device):
        return wrap_on_device(values.astype(frequency_dtype.dtype))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies that belong to the elements of `fft`, in cycles per unit of `d`."""
    return _frequencies(np.fft.fftfreq(n, d), dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies that belong to the elements of `rfft`, in cycles per unit of `d`."""
    return _frequencies(np.fft.rfftfreq(n, d), dtype, device)


def shifted(x: Any, axes: Any, back: bool) -> Tensor:
    """The elements along `axes` (all for `None`) moved by half of their number, or back."""
    tensor = as_tensor(x)
    axis_indices = shapes.canonical_axes(axes, len(tensor.shape), "fftshift")
    moves = tuple((-1 if back else 1) * (tensor.shape[a] // 2) for a in axis_indices)
    return roll(tensor, moves, axis_indices) if axis_indices else tensor


def fftshift(x: Any, /, *, axes: Any = None) -> Tensor:
    """The elements with frequency 0 in the middle."""
    return shifted(x, axes, False)


def ifftshift(x: Any, /, *, axes: Any = None) -> Tensor:
    """The inverse of `fftshift`."""
    return shifted(x, axes, True)
