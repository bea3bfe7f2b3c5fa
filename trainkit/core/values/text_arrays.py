"""Text in arrays: NumPy arrays of `bytes` objects, any length each, as TensorFlow gives them."""

from __future__ import annotations

from typing import Any

import numpy as np

OBJECTS = np.dtype(object)
_MAYBE_TEXT = "USTO"  # NumPy's own types of text, all of which become bytes, and objects


def may_be_text(array: Any) -> bool:
    """Whether an array, by its dtype, holds text, or objects that could be text."""
    return array.dtype.kind in _MAYBE_TEXT


def text_array(value: Any) -> Any:
    """The texts of a nested list, a single text or an array, as an array of bytes objects.

    Python's `str` is stored as UTF-8; `bytes` stay as they are.

    Returns:
        The array, or `None` where there is anything but text in `value`.
    """
    source = value if isinstance(value, np.ndarray) else np.array(value, dtype=object)
    items = source.ravel().tolist()
    if not all(isinstance(item, str | bytes) for item in items):
        return None
    texts = np.empty(len(items), object)
    for i, item in enumerate(items):
        texts[i] = as_bytes(item)
    return texts.reshape(source.shape)


def as_bytes(text: Any) -> bytes:
    """A text as Python's bytes, which NumPy's kinds of them are, too."""
    return text.encode() if isinstance(text, str) else bytes(text)


def as_text(value: Any) -> Any:
    """What a kernel made of texts: a single bytes object as an array, all else as it is."""
    if not isinstance(value, bytes):
        return value
    array = np.empty((), object)
    array[()] = value
    return array
