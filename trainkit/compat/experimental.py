"""`tk.experimental`: values that may be there or not."""

from __future__ import annotations

from typing import Any

from trainkit.data.optional import Optional as Optional
from trainkit.tf.left_out import not_here as _not_here


def __getattr__(name: str) -> Any:
    raise _not_here("experimental", name, globals())
