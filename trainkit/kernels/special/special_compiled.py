"""Special functions of flat arrays of float32 or float64, computed in float64."""

from __future__ import annotations

from typing import Any

from numba import float64

from trainkit.kernels.elementwise.formula_text import number_function
from trainkit.kernels.jit.builders import FLAT, Body, Builder, by_parts
from trainkit.kernels.jit.builders import _function as function_of
from trainkit.kernels.jit.options import inlined
from trainkit.kernels.special import bessel_reference, modified_bessel_reference, special_reference
from trainkit.kernels.special.double_math import (
    cosine,
    exponential,
    log_one_plus,
    logarithm,
    sine,
    wide_cosine,
    wide_sine,
)
from trainkit.kernels.threads.parallel_for import chunk_range

DOUBLES = float64[::1]
_FUNCTIONS: dict[str, Any] = {
    "exp": exponential, "log": logarithm, "log1p": log_one_plus, "sin": sine, "cos": cosine,
}  # fmt: skip
_WIDE_FUNCTIONS = {**_FUNCTIONS, "sin": wide_sine, "cos": wide_cosine}


_LOOP = """\
def {name}(part, parts, {names}, result):
    first, last = chunk_range(part, parts, result.size, 16)
    for i in range(first, last):
        result[i] = formula({items})
"""


def _pair(
    body: Body, names: str = "x", functions: dict[str, Any] = _FUNCTIONS
) -> tuple[Builder, Builder]:
    """The builders of a formula's kernels for float32 and for float64."""
    arrays = names.split()
    formula = number_function(body, ["float64"] * len(arrays), functions)
    # A float32 becomes a float64 before anything is computed with it.
    items = ", ".join(f"double({name}[i])" for name in arrays)
    text = _LOOP.format(name=body.__name__, names=", ".join(arrays), items=items)
    scope = {"formula": inlined(formula), "double": float64, "chunk_range": chunk_range}
    loop = function_of(text, body, **scope)
    count = len(arrays) + 1
    return by_parts(*[FLAT] * count, ordered=True)(loop), by_parts(
        *[DOUBLES] * count, ordered=True
    )(loop)


erfc, erfc_float64 = _pair(special_reference.erfc, "x")
erfinv, erfinv_float64 = _pair(special_reference.erfinv, "x")
erfcinv, erfcinv_float64 = _pair(special_reference.erfcinv, "x")
ndtri, ndtri_float64 = _pair(special_reference.ndtri, "x")
lgamma, lgamma_float64 = _pair(special_reference.lgamma, "x")
digamma, digamma_float64 = _pair(special_reference.digamma, "x")
trigamma, trigamma_float64 = _pair(special_reference.trigamma, "x")
logaddexp, logaddexp_float64 = _pair(special_reference.logaddexp, "a b")

bessel_j0, bessel_j0_float64 = _pair(bessel_reference.bessel_j0, functions=_WIDE_FUNCTIONS)
bessel_j1, bessel_j1_float64 = _pair(bessel_reference.bessel_j1, functions=_WIDE_FUNCTIONS)
bessel_y0, bessel_y0_float64 = _pair(bessel_reference.bessel_y0, functions=_WIDE_FUNCTIONS)
bessel_y1, bessel_y1_float64 = _pair(bessel_reference.bessel_y1, functions=_WIDE_FUNCTIONS)
bessel_i0, bessel_i0_float64 = _pair(modified_bessel_reference.bessel_i0)
bessel_i1, bessel_i1_float64 = _pair(modified_bessel_reference.bessel_i1)
bessel_i0e, bessel_i0e_float64 = _pair(modified_bessel_reference.bessel_i0e)
bessel_i1e, bessel_i1e_float64 = _pair(modified_bessel_reference.bessel_i1e)
bessel_k0, bessel_k0_float64 = _pair(modified_bessel_reference.bessel_k0)
bessel_k1, bessel_k1_float64 = _pair(modified_bessel_reference.bessel_k1)
bessel_k0e, bessel_k0e_float64 = _pair(modified_bessel_reference.bessel_k0e)
bessel_k1e, bessel_k1e_float64 = _pair(modified_bessel_reference.bessel_k1e)
