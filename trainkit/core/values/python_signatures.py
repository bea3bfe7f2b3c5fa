"""Signatures of what users write, whose annotations need not be readable while a program runs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

# From 3.14 on annotations are computed when they are asked for, and those of names that only type
# checkers import, or that are defined later, raise NameError.
_FORMAT: dict[str, Any] = {}
if sys.version_info >= (3, 14):
    import annotationlib

    _FORMAT["annotation_format"] = annotationlib.Format.FORWARDREF


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """`inspect.signature`, in which an annotation that can't be computed is no error.

    Raises:
        TypeError: `function` can't be called.
        ValueError: it is written in C and does not tell.
    """
    return inspect.signature(function, **_FORMAT)
