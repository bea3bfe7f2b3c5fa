"""Cosine transforms, weights of the mel scale, and cepstral coefficients made of both.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import DTypeLike, TensorLike
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.linear_algebra.matmul import matmul
from trainkit.ops.math.elementwise import cast, multiply
from trainkit.ops.signal.fourier import fitted

# ---------------------------------------------------------------------- cosine transforms


def _cosines(n: int, type: int) -> Any:
    """The matrix (inputs, outputs) of a cosine transform without norm, in float64.

    Source: Ahmed, Natarajan and Rao 1974, "Discrete cosine transform", and its variants.
    """
    i, k = np.arange(n)[:, None], np.arange(n)[None, :]
    if type == 1:
        weights = np.where((i == 0) | (i == n - 1), 1.0, 2.0)
        return weights * np.cos(np.pi * i * k / (n - 1))
    if type == 2:
        return 2 * np.cos(np.pi * (2 * i + 1) * k / (2 * n))
    if type == 3:
        return np.where(i == 0, 1.0, 2.0) * np.cos(np.pi * i * (2 * k + 1) / (2 * n))
    return 2 * np.cos(np.pi * (2 * i + 1) * (2 * k + 1) / (4 * n))


def _normalize_rows(matrix: Any, type: int) -> Any:
    """With orthonormal rows; types 2, 3 and 4."""
    n = len(matrix)
    scaled = matrix * np.sqrt(1 / (2 * n))
    if type == 2:
        scaled[:, 0] *= np.sqrt(0.5)
    if type == 3:
        scaled[0] *= np.sqrt(2)
    return scaled


def _check_dct(op: str, type: int, axis: int, norm: str | None, n: int | None) -> None:
    if type not in (1, 2, 3, 4) or axis != -1 or norm not in (None, "ortho"):
        raise ValueError(
            f"{op}: type {type} must be 1 to 4, axis {axis} must be -1, norm {norm!r} None or "
            "'ortho'"
        )
    if type == 1 and norm is not None:
        raise ValueError(f"{op}: there is no orthonormal transform of type 1")
    if n is not None and n < 1:
        raise InvalidArgumentError(f"{op}: n must be above 0, got {n}")


def dct(
    input: TensorLike,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """The discrete cosine transform over the last axis, as a product with a matrix.

    Args:
        input: real (..., length).
        type: 1 to 4.
        n: length to which the input is cut or filled up with zeros first.
        axis: only -1.
        norm: `None`, or `"ortho"` for an orthonormal transform.

    Raises:
        ValueError: a setting is none of those above.

    Example:
        >>> tk.signal.dct([1.0, 1.0]).numpy().round(4)
        array([4., 0.], dtype=float32)
    """
    _check_dct("dct", type, axis, norm, n)
    x = convert_to_tensor(input)
    x = x if n is None else fitted(x, n)
    matrix = _cosines(x.shape[-1], type)
    matrix = _normalize_rows(matrix, type) if norm else matrix
    return matmul(x, convert_to_tensor(matrix.astype(x.dtype.as_numpy_dtype)))


def idct(
    input: TensorLike,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """The transform of the inverse type: `idct(dct(x))` is x times 2 n without `norm`.

    The inverse of type 2 is 3, that of 3 is 2; 1 and 4 are their own (2 (n - 1) times for 1).
    Arguments are those of `dct`; `n` is only `None`.

    Args:
        input: real (..., length).
        type: 1 to 4, that of the transform to undo.
        n: only `None`.
        axis: only -1.
        norm: `None`, or `"ortho"` for the exact inverse.

    Raises:
        ValueError: a setting is none of those above.

    Example:
        >>> tk.signal.idct(tk.signal.dct([1.0, 3.0], norm="ortho"), norm="ortho").numpy().round(4)
        array([1., 3.], dtype=float32)
    """
    if n is not None:
        raise ValueError("idct: n is not supported; cut or pad the input")
    return dct(input, {1: 1, 2: 3, 3: 2, 4: 4}.get(type, type), None, axis, norm)


# ---------------------------------------------------------------------- mel


def linear_to_mel_weight_matrix(
    num_mel_bins: int = 20,
    num_spectrogram_bins: int = 129,
    sample_rate: float = 8000,
    lower_edge_hertz: float = 125.0,
    upper_edge_hertz: float = 3800.0,
    dtype: DTypeLike = "float32",
    name: str | None = None,
) -> Tensor:
    """Triangles over frequencies, equally wide in mel: (num_spectrogram_bins, num_mel_bins).

    mel = 1127 log(1 + hertz / 700). Source: the HTK book (Young et al.), section 5.4.

    Args:
        num_mel_bins: how many triangles.
        num_spectrogram_bins: how many frequencies, from 0 to half the sample rate.
        sample_rate: samples per second.
        lower_edge_hertz: where the first triangle begins, in hertz.
        upper_edge_hertz: where the last one ends, in hertz.
        dtype: of the result.

    Raises:
        ValueError: not 0 <= lower < upper <= sample_rate / 2, or a count is not above 0.

    Example:
        >>> tk.signal.linear_to_mel_weight_matrix(20, 129, 8000).shape
        TensorShape([129, 20])
    """
    rate = float(plain(sample_rate))
    if min(num_mel_bins, num_spectrogram_bins) < 1:
        raise ValueError("linear_to_mel_weight_matrix: counts of bins must be above 0")
    if not 0 <= lower_edge_hertz < upper_edge_hertz <= rate / 2:
        raise ValueError(
            f"linear_to_mel_weight_matrix: needs 0 <= {lower_edge_hertz} < {upper_edge_hertz} <= "
            f"sample_rate / 2 = {rate / 2}"
        )

    def mel(hertz: Any) -> Any:
        return 1127.0 * np.log1p(np.asarray(hertz) / 700.0)

    mels = mel(np.linspace(0.0, rate / 2, num_spectrogram_bins)[1:])[:, None]
    edges = np.linspace(mel(lower_edge_hertz), mel(upper_edge_hertz), num_mel_bins + 2)
    left, middle, right = edges[:-2], edges[1:-1], edges[2:]
    rising = (mels - left) / (middle - left)
    falling = (right - mels) / (right - middle)
    weights = np.maximum(0.0, np.minimum(rising, falling))
    return cast(convert_to_tensor(np.pad(weights, ((1, 0), (0, 0)))), dtype)


def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: Any, name: str | None = None) -> Tensor:
    """The cosine transform of type 2 of the last axis, divided by sqrt(2 n).

    Args:
        log_mel_spectrograms: floats (..., n).

    Example:
        >>> tk.signal.mfccs_from_log_mel_spectrograms(tk.ones((5, 20))).shape
        TensorShape([5, 20])
    """
    x = convert_to_tensor(log_mel_spectrograms)
    return multiply(dct(x), float((2 * x.shape[-1]) ** -0.5))
