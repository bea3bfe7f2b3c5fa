"""`tk.fingerprint`: the same 8 bytes for the same data, on every machine and in every run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core import devices
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.fingerprints import fingerprint64
from trainkit.core.shapes import Spec
from trainkit.core.string_tensor import string_results
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.text_arrays import OBJECTS
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.core.dynamic_shapes import Bound, needs_values

_METHOD = "farmhash64"
_BYTES = 8


def _bytes_of(row: Any) -> bytes:
    """What of a row is fingerprinted: its bytes, a text, or the fingerprints of more texts."""
    if row.dtype != OBJECTS:
        return np.ascontiguousarray(row).tobytes()
    texts = row.tolist()
    if len(texts) == 1:
        return bytes(texts[0])
    return b"".join(fingerprint64(text).to_bytes(_BYTES, "little") for text in texts)


def _spec(a: Bound) -> Spec:
    return Spec((_checked_data(a["data"]).shape[0], _BYTES), "uint8")


def _checked_data(data: Any) -> Tensor:
    x = convert_to_tensor(data)
    if len(x.shape) == 0:
        raise InvalidArgumentError("fingerprint: data must have one axis at least, got a scalar")
    return x


@needs_values("data", gives=_spec)
def fingerprint(data: TensorLike, method: str = _METHOD, name: str | None = None) -> Tensor:
    """A fingerprint of each slice along the first axis, by FarmHash's Fingerprint64.

    The bytes of numbers count, not their dtype or shape. A single text counts by its bytes, more of
    them by the fingerprints of each.

    Args:
        data: numbers or texts (batch, ...).
        method: only `"farmhash64"`.
        name: not kept.

    Returns:
        uint8 (batch, 8), the lowest byte first.

    Raises:
        InvalidArgumentError: `data` is a scalar, or the method is another.

    Example:
        >>> tk.fingerprint(["a"]).numpy()
        array([[227, 117, 223, 182, 101,  66,  69, 179]], dtype=uint8)
    """
    if method not in (_METHOD, _METHOD.encode()):
        raise InvalidArgumentError(f"fingerprint: method must be {_METHOD!r}, got {method!r}")
    array = devices.to_numpy(_checked_data(data)._array)
    rows = array.reshape(array.shape[0], math.prod(array.shape[1:]))
    words = [fingerprint64(_bytes_of(row)) for row in rows]
    numbers = np.array(words, "<u8").view(np.uint8).reshape(len(words), _BYTES)
    result: Tensor = string_results(numbers)
    return result
