"""Comparisons and logic, element by element: operations that give bools and have no gradient.

Two inputs broadcast against each other by NumPy's rule.
"""

from __future__ import annotations

import numpy as np

from trainkit.core import shapes
from trainkit.core.dispatch.facets import INVOLUTION
from trainkit.core.dispatch.primitive import ufunc

equal = ufunc(
    np.equal,
    shapes.broadcast_bool,
    "Whether x1 == x2.",
    ("tk.math.equal([1, 2], [1, 3]).numpy()", "array([ True, False])"),
    recompute="cheap",
    text="alone",
)
not_equal = ufunc(
    np.not_equal,
    shapes.broadcast_bool,
    "Whether x1 != x2.",
    ("tk.math.not_equal([1, 2], [1, 3]).numpy()", "array([False,  True])"),
    recompute="cheap",
    text="alone",
)
less = ufunc(
    np.less,
    shapes.broadcast_bool,
    "Whether x1 < x2.",
    ("tk.math.less([1, 2], [2, 2]).numpy()", "array([ True, False])"),
    recompute="cheap",
)
less_equal = ufunc(
    np.less_equal,
    shapes.broadcast_bool,
    "Whether x1 <= x2.",
    ("tk.math.less_equal([1, 3], [1, 2]).numpy()", "array([ True, False])"),
    recompute="cheap",
)
greater = ufunc(
    np.greater,
    shapes.broadcast_bool,
    "Whether x1 > x2.",
    ("tk.math.greater([1, 2], [1, 1]).numpy()", "array([False,  True])"),
    recompute="cheap",
)
greater_equal = ufunc(
    np.greater_equal,
    shapes.broadcast_bool,
    "Whether x1 >= x2.",
    ("tk.math.greater_equal([1, 0], [1, 1]).numpy()", "array([ True, False])"),
    recompute="cheap",
)
logical_and = ufunc(
    np.logical_and,
    shapes.broadcast_bool,
    "Whether both are true.",
    ("tk.math.logical_and([True, True], [True, False]).numpy()", "array([ True, False])"),
)
logical_or = ufunc(
    np.logical_or,
    shapes.broadcast_bool,
    "Whether one is true.",
    ("tk.math.logical_or([True, False], [False, False]).numpy()", "array([ True, False])"),
)
logical_xor = ufunc(
    np.logical_xor,
    shapes.broadcast_bool,
    "Whether exactly one is true.",
    ("tk.math.logical_xor([True, True], [True, False]).numpy()", "array([False,  True])"),
)
logical_not = ufunc(
    np.logical_not,
    shapes.unchanged_bool,
    "Whether x is false.",
    ("tk.math.logical_not([True, False]).numpy()", "array([False,  True])"),
    recompute="cheap",
    simplify=INVOLUTION,
)
isfinite = ufunc(
    np.isfinite,
    shapes.unchanged_bool,
    "Whether x is a finite number.",
    ('tk.math.is_finite([1.0, float("inf")]).numpy()', "array([ True, False])"),
)
isinf = ufunc(
    np.isinf,
    shapes.unchanged_bool,
    "Whether x is infinite.",
    ('tk.math.is_inf([1.0, float("inf")]).numpy()', "array([False,  True])"),
)
isnan = ufunc(
    np.isnan,
    shapes.unchanged_bool,
    "Whether x is not a number.",
    ('tk.math.is_nan([1.0, float("nan")]).numpy()', "array([False,  True])"),
)
