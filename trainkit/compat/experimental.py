"""`tk.experimental`: values that may be there or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainkit.data.optional import Optional as Optional
from trainkit.tf.left_out import not_here as _not_here

if not TYPE_CHECKING:  # names that are not there are errors in editors

    def __getattr__(name: str) -> Any:
        raise _not_here("experimental", name, globals())
