"""Which layers `quantize(filters=...)` means."""

from __future__ import annotations

import re
from typing import Any


def check_filters(filters: Any) -> None:
    """Raise unless `filters` is a pattern, a list of such, a function of a layer, or `None`.

    Raises:
        ValueError: it is something else.
    """
    if filters is not None and not (callable(filters) or isinstance(filters, str | list | tuple)):
        raise ValueError(
            "The `filters` argument must be a regex string, a list of regex strings, or a "
            f"callable, got {filters!r}"
        )


def should_quantize_layer(layer: Any, filters: Any) -> bool:
    """Whether `layer` is among those that `filters` means.

    Args:
        layer: has a name.
        filters: regular expression that is found in the names, or a list of such, or a function of
            a layer; `None` means all layers.
    """
    if filters is None:
        return True
    if isinstance(filters, str):
        return bool(re.search(filters, layer.name))
    if isinstance(filters, list | tuple):
        return any(re.search(pattern, layer.name) for pattern in filters)
    return bool(filters(layer))
