"""Texts as bytes or as characters, and sizes as numbers, as `tf.compat` has them."""

from __future__ import annotations

from typing import Any


def as_bytes(bytes_or_text: bytes | bytearray | str, encoding: str = "utf-8") -> bytes:
    """A text as bytes.

    Args:
        bytes_or_text: the text; bytes are given back.
        encoding: how characters become bytes.

    Raises:
        TypeError: it is neither.

    Example:
        >>> tk.compat.as_bytes("ok")
        b'ok'
    """
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    if isinstance(bytes_or_text, bytes | bytearray):
        return bytes(bytes_or_text)
    raise TypeError(f"as_bytes takes bytes or a str, got {bytes_or_text!r}")


def as_text(bytes_or_text: bytes | str, encoding: str = "utf-8") -> str:
    """A text as a `str`; `as_str` is another name.

    Args:
        bytes_or_text: the text; a `str` is given back.
        encoding: how bytes become characters.

    Raises:
        TypeError: it is neither.

    Example:
        >>> tk.compat.as_text(b"ok")
        'ok'
    """
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    raise TypeError(f"as_text takes bytes or a str, got {bytes_or_text!r}")


as_str = as_text


def dimension_value(dimension: Any) -> int | None:
    """The size of an axis as an int, `None` if it is not known; shapes hold just these.

    Args:
        dimension: an element of a shape.

    Example:
        >>> tk.compat.dimension_value(tk.ones((2, 3)).shape[1])
        3
    """
    return None if dimension is None else int(dimension)
