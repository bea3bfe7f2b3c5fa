"""Operations on the bits of integers, element by element; on bools they are the logical ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import shapes
from trainkit.core.primitive import ufunc

bitwise_and = ufunc("bitwise_and", np.bitwise_and, shapes.broadcast, "Bits that are set in both.")
bitwise_or = ufunc("bitwise_or", np.bitwise_or, shapes.broadcast, "Bits that are set in one.")
bitwise_xor = ufunc(
    "bitwise_xor", np.bitwise_xor, shapes.broadcast, "Bits that are set in exactly one."
)
bitwise_not = ufunc("bitwise_not", np.invert, shapes.unchanged, "All bits turned over.")
left_shift = ufunc(
    "left_shift", np.left_shift, shapes.broadcast, "x1 with its bits moved x2 places up."
)
right_shift = ufunc(
    "right_shift", np.right_shift, shapes.broadcast, "x1 with its bits moved x2 places down."
)
