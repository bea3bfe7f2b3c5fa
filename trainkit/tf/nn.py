"""Interim."""
from typing import Any
from trainkit import ops
def __getattr__(name: str) -> Any:
    return getattr(ops, name)
