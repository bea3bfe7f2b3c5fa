"""Products of integers of 8 bits: what quantized layers sum."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import INTEGERS, PRODUCT, Absent, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.kernels.matmul import int8_tuned
from trainkit.kernels.matmul.product_tuned import FEWEST_WEIGHTS
from trainkit.ops.linear_algebra.matmul import int8_sums, matmul
from trainkit.ops.vmap_rules.shared_rules import by_formula

_INT8 = np.dtype(np.int8)


def _rule(a: Spec, b: Spec) -> Spec:
    if a.dtype != "int8" or b.dtype != "int8":
        raise InvalidArgumentError(
            f"int8_product: both inputs must be int8, got {a.dtype.name} and {b.dtype.name}"
        )
    return Spec(shapes.matmul_dims(a.shape, b.shape, "int8_product"), dtypes.int32)


@primitive(
    _rule,
    semantics=PRODUCT,
    no_gradient=INTEGERS,
    lowering=Absent("BLAS or a tuned kernel computes it"),
    tuned=Tuned(int8_tuned.int8_product, exact=True, fewest=FEWEST_WEIGHTS, of=1),
)
def int8_product(xp: ArrayModule, x1: Array, x2: Array) -> Array:
    """`matmul` of int8, whose sums are int32."""
    if x1.dtype != _INT8 or x2.dtype != _INT8:
        raise ValueError("both inputs must be int8")
    return int8_sums(xp, x1, x2)


@int8_product.batch_by
@by_formula
def _by_matmul(x1: Any, x2: Any) -> Any:
    return matmul(x1, x2)
