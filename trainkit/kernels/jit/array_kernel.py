"""Kernels over arrays of a common layout, declared by a line: what they take, give and cost.

A declaration that takes "rows" stands for: the array is float32, its last axis is a row; where the
plain version has taken long enough, the compiled one takes a matrix in row-major order, fills
another, and is shared out by the bytes of both. The function that does so is written at the first
call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS
from trainkit.core.dispatch.facets import Tuned
from trainkit.kernels.jit.kernel_family import (
    BYTE_SECONDS,
    FUNCTION_SECONDS,
    STEP_SECONDS,
    Family,
    owned,
)
from trainkit.kernels.jit.kernel_library import lies_here
from trainkit.kernels.threads.thread_pool import shared

_LIKE = "{x}.dtype is kind and {x}.shape == shape"
_NUMBERS = "owned({x}).reshape(-1)"
_OR_NONE = "{x} is None or {x}.dtype is kind"
_TAKEN = {
    "flat": (_LIKE + " and {x}.flags.carray", "{x}.reshape(-1)"),
    "gathered": (_LIKE, "owned({x}).reshape(-1)"),
    "mask": ("{x}.dtype is bools and {x}.shape == shape and {x}.flags.carray", "{x}.reshape(-1)"),
    "rows": (_LIKE, "owned({x}).reshape(-1, width)"),
    "each": ("{x}.dtype is kind", _NUMBERS),
    "ones": (_OR_NONE, "ones(width, kind) if {x} is None else " + _NUMBERS),
    "zeros": (_OR_NONE, "zeros(width, kind) if {x} is None else " + _NUMBERS),
    "ids": ("True", "owned({x}.reshape(-1).astype(i64, copy=False))"),
    "number": ("True", "{x}"),
}
"""For each layout of an input when the kernel may take it, and how it does."""
_GIVEN = {
    "flat": ("empty(shape, kind)", "{y}.reshape(-1)", "{y}"),
    "rows": ("empty(shape, kind)", "{y}.reshape(-1, width)", "{y}"),
    "each": ("empty(shape[:-1], kind)", "{y}.reshape(-1)", "{y}"),
    "shares": ("empty((shares, width), kind)", "{y}", "add({y}, 0)"),
}
"""For each layout of a result how it is made, how the kernel takes it, and what is given back."""

_CALL = """\
def call({inputs}{width}):
    if type({main}) is not ndarray or {main}.size < fewest or not {main}.ndim:
        return None
    size, shape = {main}.size, {main}.shape
    if not ({fits}):
        {turned}
    run = find((), plain * size)
    if run is None:
        return None
    {default}
    {rooms}
    pool, parts = shared(nanoseconds * size)
    run(pool, {parts}, {taken}, {filled})
    return {results}
"""


class ArrayKernel(Family):
    """A kernel `run(pool, parts, *inputs, *results)`, called on arrays of any number of axes.

    Its call gives an array, or a tuple where there are more results, or `None` where the plain
    version is to do it: for other dtypes, no elements, fewer than `fewest`, or while compiling does
    not pay.

    Args:
        name: what it is called on disk and in warnings.
        file: the module below `kernels` that holds `builder`.
        builder: the name of the function that compiles it.
        takes: the layout of each input, in a text. The first of "flat" and "rows" is the one after
            which sizes are reckoned.

            - "flat": float32 of one shape; a vector to the kernel. Where the plain version has the
              same bits, other arrays than contiguous and writeable ones are left to it; else they
              are copied, as the layout of an array, which graphs change, is to change no bit.
            - "mask": the same of bools.
            - "rows": float32 of one shape; to the kernel a matrix of the last axis, or of `width`.
            - "each": float32, a number for each row or each column; a vector.
            - "ones", "zeros": the same, or `None` for so many ones or zeros.
            - "ids": integers, a number for each row; a vector of int64.
            - "number": as it is.
            - "width": the last of them: elements of a row, where these are not the last axis.
        gives: the layout of each result: "flat" and "rows" like the inputs, "each" a number for
            each row, "shares" sums over rows, which the kernel makes in `shares` parts.
        fewest: arrays of fewer elements are left to the plain version, which is as fast there:
            measured by one thread.
        asked: elements from which on an operation asks, if that is more. Where no kernels came
            compiled, it does not ask for those on which the plain version spends less than
            `STEP_SECONDS` either.
        exact: it gives the bits of the plain version.
        functions: how many special functions of an element it computes.
        shares: how many parts sums over rows are made in; a fixed number, so that any machine gives
            the same.
        dtype: of the arrays, where that is not float32.
    """

    def __init__(
        self,
        name: str,
        file: str,
        builder: str,
        takes: str,
        gives: str = "",
        *,
        fewest: int = 1,
        asked: int = 1,
        exact: bool = False,
        functions: int = 0,
        shares: int = 16,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__(name, file, builder, exact)
        self._layouts, self._dtype = (takes, gives), np.dtype(dtype)
        moved = _element_bytes(takes, gives, self._dtype.itemsize)
        # Plain versions have eight passes or so over all of them.
        plain = 8 * BYTE_SECONDS * moved + FUNCTION_SECONDS * functions
        # Fewer elements don't count where nothing is compiled: asking would be in vain.
        counted = 1 if lies_here() else math.ceil(STEP_SECONDS / plain)
        self.fewest = max(fewest, asked, counted)
        self._facts = {
            "plain": plain,
            "nanoseconds": BYTE_NANOSECONDS * moved,
            "fewest": fewest,
            "shares": shares,
        }
        self._call: Callable[..., Any] = self._first_call

    def __call__(self, *inputs: Any) -> Any:
        """The result on arrays as `takes` says, or `None`."""
        return self._call(*inputs)

    @property
    def takes(self) -> list[str]:
        """The layouts of the inputs."""
        return self._layouts[0].split()

    @property
    def nanoseconds(self) -> float:
        """What one core takes for an element."""
        return float(self._facts["nanoseconds"])

    def facet(
        self,
        run: Callable[..., Any] | None = None,
        of: int = 0,
        on_gpu: Sequence[Callable[..., Any]] = (),
        on_bfloat16: Callable[..., Any] | None = None,
    ) -> Tuned:
        """This kernel as what an operation declares of itself.

        Args:
            run: what is called where the operation has other inputs or settings than the kernel.
            of: the place of the input whose size counts.
            on_gpu: what is asked for arrays of a GPU, see `Tuned`.
            on_bfloat16: what is asked for arrays of bfloat16.
        """
        return Tuned(
            run or self, on_gpu=on_gpu, exact=self.exact, fewest=self.fewest, of=of,
            on_bfloat16=on_bfloat16,
        )  # fmt: skip

    def _first_call(self, *inputs: Any) -> Any:
        scope: dict[str, Any] = {
            **self._facts,
            # where NumPy says that something is not finite, which this package keeps to itself
            "__name__": __name__,
            "find": self.find,
            "owned": owned,
            "shared": shared,
            "ndarray": np.ndarray,
            "empty": np.empty,
            "add": np.add.reduce,
            "ones": np.ones,
            "zeros": np.zeros,
            "kind": self._dtype,
            "i64": np.dtype(np.int64),
            "bools": np.dtype(np.bool_),
        }
        # Written out for its layouts, a call has no loop over them; even small arrays ask each
        # time.
        exec(compile(_text_of(*self._layouts, self.exact), f"<call of {self.name}>", "exec"), scope)
        self._call = scope["call"]
        return self._call(*inputs)


def _element_bytes(takes: str, gives: str, itemsize: int) -> int:
    """What a kernel reads and writes for each element of its first input."""
    layouts = takes.split()
    sizes = {"flat": itemsize, "rows": itemsize, "mask": 1}
    main = next(layout for layout in layouts if layout in ("flat", "rows"))
    return sum(sizes.get(layout, 0) for layout in (*layouts, *(gives or main).split()))


def write_transposed_call(
    names: Sequence[str], layouts: Sequence[str], result_layouts: Sequence[str]
) -> str:
    """What a call does with arrays that all are in column-major order, as transposes are.

    To a kernel without rows they are as good in their own order, which is that of NumPy's result.
    """
    is_flat = [layout in ("flat", "mask") for layout in layouts]
    if result_layouts != ["flat"] or not all(
        flat or layout == "number" for flat, layout in zip(is_flat, layouts, strict=True)
    ):
        return "return None"
    of_columns = " and ".join(
        f"{x}.flags.fnc" for x, flat in zip(names, is_flat, strict=True) if flat
    )
    arrays = ", ".join(f"{x}.T" if flat else x for x, flat in zip(names, is_flat, strict=True))
    # Transposed they are in row-major order alone, so this call comes here once.
    return (
        f"y = call({arrays}) if {of_columns} else None\n        return None if y is None else y.T"
    )


def _text_of(takes: str, gives: str, exact: bool) -> str:
    """The function that calls a kernel of such layouts."""
    layouts = takes.split()
    has_width = layouts[-1] == "width"
    layouts = layouts[: len(layouts) - has_width]
    names = [f"x{i}" for i in range(len(layouts))]
    # The first of full size says how large the others have to be.
    main = next(i for i, layout in enumerate(layouts) if layout in ("flat", "rows"))
    # With the same bits either version may take an array that is not contiguous, and NumPy needs
    # no copy of it. With others, the layout would decide on the bits, so it is copied.
    flat = "flat" if exact else "gathered"
    inputs = [
        (x, *_TAKEN[flat if layout == "flat" else layout])
        for x, layout in zip(names, layouts, strict=True)
    ]
    result_layouts = (gives or layouts[main]).split()
    results = [(f"y{i}", *_GIVEN[layout]) for i, layout in enumerate(result_layouts)]
    return _CALL.format(
        inputs=", ".join(names),
        width=", width" if has_width else "",
        main=names[main],
        fits=" and ".join(f"({fits.format(x=x)})" for x, fits, _ in inputs),
        turned=write_transposed_call(names, layouts, result_layouts) if exact else "return None",
        default="" if has_width else "width = shape[-1]",
        rooms="; ".join(f"{y} = {make}" for y, make, _, _ in results),
        # No more parts than shares of the sums, each of which one part makes.
        parts="min(parts, shares)" if "shares" in result_layouts else "parts",
        taken=", ".join(lay.format(x=x) for x, _, lay in inputs),
        filled=", ".join(lay.format(y=y) for y, _, lay, _ in results),
        results=", ".join(result.format(y=y) for y, _, _, result in results),
    )
