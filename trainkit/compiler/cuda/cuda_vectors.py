"""Some elements of memory as one word, or two: what a thread moves at a time in large arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from trainkit.compiler.ir import View
from trainkit.kernels.cuda.cuda_functions import type_of
from trainkit.kernels.cuda.raw_kernel import ALIGNMENT

EACH = 4
"""Elements of a vector."""


def name_of(dtype: np.dtype[Any]) -> str:
    """The type of some elements."""
    return f"Vector_{dtype.name}"


def declarations(dtypes: Iterable[np.dtype[Any]], each: int = EACH) -> str:
    """The types of `each` elements of each of these dtypes."""
    dtypes_by_name = {name_of(d): d for d in dtypes}
    return "".join(
        f"struct __align__({min(ALIGNMENT, each * d.itemsize)}) {name} "
        f"{{ {type_of(d)} v[{each}]; }};\n"
        for name, d in sorted(dtypes_by_name.items())
    )


def is_aligned(view: View) -> bool:
    """Whether the elements begin at a multiple of a vector from the start of their buffer."""
    return view.offset % min(ALIGNMENT, EACH * view.dtype.itemsize) == 0
