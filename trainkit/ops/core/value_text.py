"""Values as TensorFlow's `print` shows them."""

from __future__ import annotations

from typing import Any

import numpy as np


def formatted(x: Any, summarize: int = 3) -> str:
    """A value as TensorFlow's `print` shows it: texts of tensors in quotes, rows in brackets."""
    if isinstance(x, np.ndarray | np.generic):
        return _array_text(_quoted_texts(np.asarray(x)), summarize)
    if isinstance(x, list | tuple):
        inner = ", ".join(_quote(item, summarize) for item in x)
        return f"[{inner}]" if isinstance(x, list) else f"({inner})"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k!r}: {_quote(v, summarize)}" for k, v in x.items()) + "}"
    return str(x)


def is_single_text(x: Any) -> bool:
    """Whether `x` is the array of a string tensor without axes."""
    return isinstance(x, np.ndarray) and x.ndim == 0 and x.dtype.kind in "OS"


def _quote(x: Any, summarize: int) -> str:
    return repr(x) if isinstance(x, str) else formatted(x, summarize)


def _quoted_texts(x: Any) -> Any:
    """The texts of an array in quotation marks; numbers as they are."""
    if x.dtype.kind not in "OS":
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
    # As many digits as any number of the type has for certain, or all that it takes to read it.
    is_double, value = x.dtype == np.float64, float(x) + 0.0  # -0.0 + 0.0 is 0.0
    short = f"{value:{'.15g' if is_double else '.6g'}}"
    restored = float(short) if is_double else float(np.float32(short))
    return short if restored == value else f"{value:{'.17g' if is_double else '.9g'}}"


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
