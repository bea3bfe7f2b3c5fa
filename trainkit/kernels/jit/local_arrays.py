"""Arrays that compiled bodies make for themselves and work on by address.

Numba frees an array after the last line that names it. A body that reads the address and names the
array no more works on freed memory from there on: other threads may get it meanwhile, or it is no
longer mapped. So such a body ends with `keep_alive`.
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import intrinsic


@intrinsic
def keep_alive(typing: Any, array: Any) -> Any:
    """Let the memory of `array` be there until this line; it does nothing else."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.get_dummy_value()

    return types.void(array), codegen
