"""The door to the compiled half of the eager path, which may not be there.

`_native.pyx` is compiled when the package is installed where there is a C compiler. Without it, or
with `TRAINKIT_NATIVE=0` in the environment, the Python functions that it stands before do all the
work, with the same results.
"""

from __future__ import annotations

import importlib
import os
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core.process.requirements import REINSTALL

VERSION = 22
"""That of `_native` which this trainkit was written for."""

FAILURE: str | None = None
"""Why the compiled half is not in use; `None` where it is."""


_LEFT_OUT = (
    "trainkit goes on without its compiled half, so small eager steps take longer: {}. To compile "
    f"it anew: {REINSTALL} in a copy of the repository; `python -m trainkit doctor` tells more"
)

G, Y, A, B = range(4)
"""What calls of a gradient rule on arrays take: the gradient, the result, and the inputs."""


def _load() -> Any:
    global FAILURE
    if os.environ.get("TRAINKIT_NATIVE", "1") == "0":
        FAILURE = "TRAINKIT_NATIVE=0 is set"
        return None
    try:
        _native: Any = importlib.import_module("trainkit.core.dispatch._native")
    except ModuleNotFoundError as error:  # not built: there was no C compiler
        FAILURE = str(error)
        return None
    except Exception as error:  # built for another NumPy or Python, or by another Cython
        _tell(error)
        return None
    # A file that another version left would be called with other arguments.
    if _native.VERSION != VERSION:
        FAILURE = f"it was compiled for another trainkit ({_native.VERSION}, not {VERSION})"
        return None
    return _native


def _tell(error: Exception) -> None:
    global FAILURE
    FAILURE = f"{type(error).__name__}: {error}"
    warnings.warn(_LEFT_OUT.format(FAILURE), UserWarning, stacklevel=2)


NATIVE: Any = _load()
"""The compiled module, or `None`."""


def call_if_built(name: str, *arguments: Any) -> Any:
    """Call a function of the compiled half, if there is one, while trainkit is being imported.

    Returns:
        Its result, `None` without a compiled half. When it raises, or has no such function, a
        warning says so once, and from then on there is none: the Python functions take over.
    """
    global NATIVE
    if NATIVE is None:
        return None
    try:
        return getattr(NATIVE, name)(*arguments)
    except Exception as error:
        _tell(error)
        NATIVE.switch(False)  # what is compiled already calls the Python functions
        NATIVE = None
        return None


# NumPy asks for huge pages for its own arrays, unless this variable of it says otherwise.
call_if_built("use_huge_pages", os.environ.get("NUMPY_MADVISE_HUGEPAGE", "1") != "0")


def cubes(x: Any) -> Any:
    """x * x * x of an array of floats, in one pass; `None` where the compiled half can't do it."""
    return NATIVE.cubes(x) if is_on() else None


def series(coefficients: tuple[float, ...], t: Any) -> Any:
    """A Chebyshev series at each element of an array of floats; `None` as for `cubes`."""
    return NATIVE.series(coefficients, t) if is_on() else None


def elements_chosen(mask: Any, x: Any, y: Any) -> Any:
    """Elements of `x` where a mask is true, else of `y`, in one pass; `None` as for `cubes`."""
    return NATIVE.elements_chosen(mask, x, y) if is_on() else None


def squared_distances(x: Any, centre: float) -> Any:
    """(x - centre)**2 of an array of floats, in one pass; `None` as for `cubes`."""
    return NATIVE.squared_distances(x, centre) if is_on() else None


def _are_sizes(shape: Any) -> bool:
    return type(shape) is tuple and all(type(n) is int and n >= 0 for n in shape)


are_sizes: Callable[[Any], bool] = getattr(NATIVE, "are_sizes", _are_sizes)
"""Whether a shape is a tuple of plain ints, none of them negative."""


new_array: Callable[[tuple[int, ...], np.dtype[Any]], Any] = getattr(NATIVE, "new_array", np.empty)
"""An array of the sizes and dtype that another one may have, whose numbers are not set."""


def draw(
    variable: Any, function: Callable[..., Any], dims: tuple[Any, ...], settings: dict[str, Any]
) -> Any:
    """What a function draws from the state in a variable, which takes the one behind it.

    `None`, with nothing drawn, where that is to be done in Python.

    Args:
        variable: of a generator; draws go where it is.
        function: of the state, the setting `shape` and others; gives values and the next state.
        dims: the sizes of the values, which are known.
        settings: the others.
    """
    return None if NATIVE is None else NATIVE.draw(variable, function, dims, settings)


def small_dense(
    facts: tuple[Any, ...], rectifies: bool, others: Callable[..., Any]
) -> Callable[..., Any]:
    """`others`, a product with a bias, behind what does that of few rows by a small kernel at once.

    Args:
        facts: those of the form "dense".
        rectifies: whether results below 0 become 0.
        others: of arrays: the rows, the kernel, and a bias or nothing.
    """
    return others if NATIVE is None else NATIVE.SmallDense(facts, rectifies, others)


def row_sums(x: Any) -> Any:
    """Sums of the rows of a matrix of floats, as NumPy makes them; `None` as for `cubes`."""
    return NATIVE.row_sums(x) if is_on() else None


def vector_sum(x: Any) -> Any:
    """The sum of a long vector of floats, as NumPy makes it; `None` as for `cubes`."""
    return NATIVE.vector_sum(x) if is_on() else None


def long_sum(x: Any) -> Any:
    """The sum of many float32 in the order of `reductions_tuned`; `None` as for `cubes`."""
    return NATIVE.long_sum(x) if is_on() else None


def row_square_sums(x: Any) -> Any:
    """Sums of the squares of the rows of a matrix of floats, likewise."""
    return NATIVE.row_square_sums(x) if is_on() else None


def row_products(x: Any) -> Any:
    """Products of the rows of a matrix of floats, likewise."""
    return NATIVE.row_products(x) if is_on() else None


def lane_products(x: Any) -> Any:
    """Products of long rows in the order of `reductions_tuned`; `None` as for `cubes`."""
    return NATIVE.lane_products(x) if is_on() else None


def half_sum(x: Any, y: Any) -> Any:
    """The sum of two arrays of 16-bit floats of one shape; `None` as for `cubes`."""
    return NATIVE.half_sum(x, y) if is_on() else None


def has_nan(x: Any) -> bool:
    """Whether a NaN is among the floats of an array that is not empty."""
    answer: bool | None = NATIVE.has_nan(x) if is_on() else None
    if answer is None:
        minimum = np.minimum.reduce(x, None)  # NaN is the least of all, and equals nothing
        return bool(minimum != minimum)
    return answer


def aligned_run(function: Callable[..., Any], comes_back: bool = False) -> Callable[..., Any]:
    """`function`, whose new arrays begin where a line of the cache does.

    Vectors of 64 bytes lie in two lines else, and are read and written as two. Only arrays that
    NumPy makes while it runs, in its thread; not where NumPy has an allocator of somebody else.
    Without the compiled half it is the function itself.

    Args:
        function: of any arguments.
        comes_back: whether arrays that end before the function does lie in the same memory at each
            call, as far as there is room: 32 MB of large pages, which take a while to come.
    """
    return function if NATIVE is None else NATIVE.AlignedRun(function, comes_back)


def python_function(op: Any) -> Any:
    """The Python function behind an operation; itself if it is one."""
    return op if isinstance(op, types.FunctionType) else getattr(op, "__wrapped__", op)


def is_on() -> bool:
    """Whether the compiled half is there, and its ways are taken."""
    return NATIVE is not None and bool(NATIVE.is_on())


def switch(on: bool) -> bool:
    """Take the compiled ways or leave them; gives what was before."""
    return bool(NATIVE.switch(on)) if NATIVE is not None else False
