"""Which operations have a version for large arrays whose bits differ from the plain formula's.

A graph that compiles plain formulas leaves these alone, so that it gives the bits of eager calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainkit.kernels.elementwise import elementwise_tuned
from trainkit.kernels.reductions import reductions_tuned
from trainkit.kernels.softmax import softmax_tuned

_FEWEST = {
    **dict.fromkeys(elementwise_tuned.ROUNDED, elementwise_tuned.FEWEST),
    **dict.fromkeys(
        (
            "softmax",
            "softmax_gradient",
            "softmax_cross_entropy_with_logits",
            "softmax_cross_entropy_and_slopes",
        ),
        softmax_tuned.FEWEST,
    ),
    **dict.fromkeys(
        ("max", "min", "sum", "sum_to_like", "mean", "var", "dense_gradient"),
        reductions_tuned.FEWEST,
    ),
}


def may_be_tuned(name: str, arrays: Sequence[Any], settings: Mapping[str, Any]) -> bool:
    """Whether the operation `name` may run another kernel than the plain one on `arrays`."""
    fewest = _FEWEST.get(name)
    if fewest is None:
        return False
    if name in ("sum", "mean") and not reductions_tuned.may_use_blas(
        arrays[0].ndim, settings["axis"]
    ):
        return False
    sizes = [getattr(x, "size", 0) for x in arrays]
    # a dense layer's kernel may be large: what is summed is the gradient of its result, the first
    return (sizes[0] if name == "dense_gradient" else max(sizes)) >= fewest
