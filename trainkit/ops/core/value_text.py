"""Values as TensorFlow's `print` shows them."""

from __future__ import annotations

from typing import Any

import numpy as np


def formatted(x: Any, summarize: int = 3) -> str:
    """A value as TensorFlow's `print` shows it: no fraction in whole floats, rows in brackets."""
    if isinstance(x, np.ndarray | np.generic):
        return _array_text(_quoted_texts(np.asarray(x)), summarize)
    if isinstance(x, list | tuple):
        inner = ", ".join(_quote(item, summarize) for item in x)
        return f"[{inner}]" if isinstance(x, list) else f"({inner})"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k!r}: {_quote(v, summarize)}" for k, v in x.items()) + "}"
    return str(x)


def _quote(x: Any, summarize: int) -> str:
    return repr(x) if isinstance(x, str) else formatted(x, summarize)


def _quoted_texts(x: Any) -> Any:
    """The texts of an array in quotation marks; a single text, and numbers, as they are."""
    if x.ndim == 0 or x.dtype.kind not in "OS":
        return x
    quoted = np.empty(x.shape, object)
    for index, item in np.ndenumerate(x):
        quoted[index] = b'"' + item + b'"'
    return quoted


def _number_text(x: Any) -> str:
    if isinstance(x, bytes):
        return x.decode(errors="replace")
    if isinstance(x, bool | np.bool_):
        return "1" if x else "0"
    if isinstance(x, int | np.integer):
        return str(int(x))
    if isinstance(x, complex | np.complexfloating):
        return f"({_number_text(x.real)},{_number_text(x.imag)})"
    text = f"{float(x):.9g}" if x.dtype == np.float32 else f"{float(x):.17g}"
    short = np.format_float_positional(x, trim="-") if 1e-5 <= abs(x) < 1e16 or x == 0 else text
    return short


def _array_text(x: Any, summarize: int) -> str:
    if x.ndim == 0:
        return _number_text(x[()])
    count = len(x)
    if summarize < 0 or count <= 2 * summarize:
        items = [_array_text(np.asarray(row), summarize) for row in x]
    else:
        first = [_array_text(np.asarray(row), summarize) for row in x[:summarize]]
        last = [_array_text(np.asarray(row), summarize) for row in x[-summarize:]]
        items = [*first, "...", *last]
    joint = " " if x.ndim == 1 else "\n" * (x.ndim - 1) + " "
    return "[" + joint.join(items) + "]"
