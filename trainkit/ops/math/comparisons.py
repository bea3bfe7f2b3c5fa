"""Comparisons and logic, element by element: operations that give bools and have no gradient.

Two inputs broadcast against each other by NumPy's rule.
"""

from __future__ import annotations

import numpy as np

from trainkit.core import shapes
from trainkit.core.dispatch.facets import INVOLUTION
from trainkit.core.dispatch.primitive import ufunc

equal = ufunc(
    "equal",
    np.equal,
    shapes.broadcast_bool,
    "Whether x1 == x2.",
    example=("tk.math.equal([1, 2], [1, 3]).numpy()", "array([ True, False])"),
    recompute="cheap",
    text="alone",
)
not_equal = ufunc(
    "not_equal",
    np.not_equal,
    shapes.broadcast_bool,
    "Whether x1 != x2.",
    example=("tk.math.not_equal([1, 2], [1, 3]).numpy()", "array([False,  True])"),
    recompute="cheap",
    text="alone",
)
less = ufunc(
    "less",
    np.less,
    shapes.broadcast_bool,
    "Whether x1 < x2.",
    example=("tk.math.less([1, 2], [2, 2]).numpy()", "array([ True, False])"),
    recompute="cheap",
)
less_equal = ufunc(
    "less_equal",
    np.less_equal,
    shapes.broadcast_bool,
    "Whether x1 <= x2.",
    example=("tk.math.less_equal([1, 3], [1, 2]).numpy()", "array([ True, False])"),
    recompute="cheap",
)
greater = ufunc(
    "greater",
    np.greater,
    shapes.broadcast_bool,
    "Whether x1 > x2.",
    example=("tk.math.greater([1, 2], [1, 1]).numpy()", "array([False,  True])"),
    recompute="cheap",
)
greater_equal = ufunc(
    "greater_equal",
    np.greater_equal,
    shapes.broadcast_bool,
    "Whether x1 >= x2.",
    example=("tk.math.greater_equal([1, 0], [1, 1]).numpy()", "array([ True, False])"),
    recompute="cheap",
)
logical_and = ufunc(
    "logical_and",
    np.logical_and,
    shapes.broadcast_bool,
    "Whether both are true.",
    example=("tk.math.logical_and([True, True], [True, False]).numpy()", "array([ True, False])"),
)
logical_or = ufunc(
    "logical_or",
    np.logical_or,
    shapes.broadcast_bool,
    "Whether one is true.",
    example=("tk.math.logical_or([True, False], [False, False]).numpy()", "array([ True, False])"),
)
logical_xor = ufunc(
    "logical_xor",
    np.logical_xor,
    shapes.broadcast_bool,
    "Whether exactly one is true.",
    example=("tk.math.logical_xor([True, True], [True, False]).numpy()", "array([False,  True])"),
)
logical_not = ufunc(
    "logical_not",
    np.logical_not,
    shapes.unchanged_bool,
    "Whether x is false.",
    example=("tk.math.logical_not([True, False]).numpy()", "array([False,  True])"),
    recompute="cheap",
    simplify=INVOLUTION,
)
isfinite = ufunc(
    "isfinite",
    np.isfinite,
    shapes.unchanged_bool,
    "Whether x is a finite number.",
    example=('tk.math.is_finite([1.0, float("inf")]).numpy()', "array([ True, False])"),
)
isinf = ufunc(
    "isinf",
    np.isinf,
    shapes.unchanged_bool,
    "Whether x is infinite.",
    example=('tk.math.is_inf([1.0, float("inf")]).numpy()', "array([False,  True])"),
)
isnan = ufunc(
    "isnan",
    np.isnan,
    shapes.unchanged_bool,
    "Whether x is not a number.",
    example=('tk.math.is_nan([1.0, float("nan")]).numpy()', "array([False,  True])"),
)
