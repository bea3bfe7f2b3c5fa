"""Docstrings of layers that differ from their base in the number of axes alone."""

from __future__ import annotations

import inspect


def extended(base: type, text: str) -> str:
    """The docstring of `base` and, after it, `text`, each without its indentation.

    The compiler removes the indentation of docstrings from Python 3.13 on, that of `text` never.
    """
    return f"{inspect.cleandoc(base.__doc__ or '')}\n\n{inspect.cleandoc(text)}\n"
