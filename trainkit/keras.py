"""Keras's names, for unmodified Keras imports: `tk.keras.layers.Dense`."""

from __future__ import annotations

import importlib
from typing import Any

_FAMILIES = frozenset(
    "activations callbacks constraints datasets initializers layers losses metrics models ops "
    "optimizers regularizers".split()
)
_MEMBERS = frozenset({"Input", "Model", "Sequential"})


def __getattr__(name: str) -> Any:
    if name in _FAMILIES:
        return importlib.import_module(f"trainkit.{name}")
    if name in _MEMBERS:
        return getattr(importlib.import_module("trainkit.models"), name)
    raise AttributeError(f"module 'trainkit.keras' has no attribute {name!r}")
