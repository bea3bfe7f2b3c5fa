"""Kernels run on arrays that note what would be computed, instead of computing it.

A `TracedArray` behaves like NumPy's arrays: it goes through ufuncs, methods and views, and NumPy
itself says which dtype, shape and memory layout each result has. What would be computed is noted as
steps. A kernel that does anything else raises `Unsupported`, and its node stays as it is.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from trainkit.compiler.ir import (
    CASTS,
    Buffer,
    Elementwise,
    LabelCheck,
    Number,
    NumpyLoop,
    Operand,
    Product,
    Reduction,
    Step,
    Unsupported,
    View,
    is_known,
    kind_of,
)
from trainkit.kernels.jit.numpy_inner_loops import has_loop


class KernelTracer:
    """The steps that kernels have asked for so far; whoever writes code says what it can write.

    Attributes:
        embeds: arrays that are the same in all calls are part of the code; else they are inputs.
        tuned: kernels for large arrays may have versions that are better left to them.
        calls_kernels: the code may call compiled kernels of the CPU.
    """

    embeds = True
    tuned = True
    calls_kernels = False

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.inputs: list[Buffer] = []
        self.specs: list[tuple[tuple[int, ...], np.dtype[Any]]] = []
        self._constants: dict[int, TracedArray] = {}

    def note(self, step: Step) -> None:
        """Take a step in."""
        self.steps.append(step)

    def is_known(self, dtype: np.dtype[Any]) -> bool:
        """Whether the code can work on elements of this dtype."""
        return is_known(dtype)

    def is_expression(self, name: str, operands: tuple[Operand, ...]) -> bool:
        """Whether the code has an expression for the ufunc `name` of these operands."""
        raise NotImplementedError(f"{type(self).__name__}.is_expression")

    def input(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> TracedArray:
        """An array that a call gives, in row-major order."""
        traced = self.whole(np.empty(shape, dtype), "input")
        traced.buffer.index = len(self.inputs)
        self.inputs.append(traced.buffer)
        self.specs.append((shape, dtype))
        return traced

    def constant(self, array: Any) -> TracedArray:
        """An array that is the same in all calls."""
        # By identity: to compare contents, each array would have to be read.
        traced = self._constants.get(id(array))
        if traced is None:
            value = np.ascontiguousarray(array).reshape(np.shape(array))
            traced = self._constants[id(array)] = self.whole(value, "constant")
            traced.buffer.value = (value, array)  # both stay alive, so the identity stays taken
        return traced

    def whole(self, array: Any, kind: str = "temporary") -> TracedArray:
        """`array`, which only lends its layout, as a new buffer."""
        if not self.is_known(array.dtype):
            raise Unsupported(f"dtype {array.dtype}")
        array = np.ndarray(array.shape, array.dtype, _pages(array.nbytes), 0, array.strides)
        return TracedArray(self, array, Buffer(kind, array.nbytes, array.shape), _address(array))

    def result(self, layout: Any) -> TracedArray:
        """A new temporary."""
        return self.whole(layout)


_PAGES: list[Any] = [b""]
_PRIVATE: dict[str, int] = (
    # Windows has no flags, and all such memory is private
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
)


def _pages(nbytes: int) -> Any:
    """Memory of at least so many bytes, the same for all stand-ins, as nothing is written to it.

    The system gives no pages for it. A graph has a stand-in for each of its values, and is often
    traced beside a step that runs: in memory of their own they would lie between its arrays, which
    then find less room where the step before had them, and take more of the system.
    """
    if len(_PAGES[0]) < nbytes:
        _PAGES[0] = mmap.mmap(-1, nbytes, **_PRIVATE)
    return _PAGES[0]


def _address(array: Any) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


class TracedArray(NDArrayOperatorsMixin):
    """An array in a trace.

    Attributes:
        array: a NumPy array of the same dtype, shape and layout; its values mean nothing.
        buffer: the memory that it stands for.
    """

    __slots__ = ("_base", "array", "buffer", "trace")
    __array_priority__ = 100

    def __init__(self, trace: KernelTracer, array: Any, buffer: Buffer, base: int) -> None:
        self.trace = trace
        self.array = array
        self.buffer = buffer
        self._base = base

    # ------------------------------------------------------------------ what it is

    @property
    def view(self) -> View:
        """The elements as a step refers to them."""
        a = self.array
        # NumPy knows where each of its views starts, so offsets are read off and not worked out.
        return View(self.buffer, _address(a) - self._base, a.shape, a.strides, a.dtype)

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "dtype", "ndim", "size", "itemsize", "nbytes", "strides", "flags"):
            return getattr(self.array, name)
        raise Unsupported(f"ndarray.{name}")

    def __len__(self) -> int:
        return len(self.array)

    def __bool__(self) -> bool:
        raise Unsupported("a decision on a value")

    def __iter__(self) -> Any:
        raise Unsupported("iteration")

    # ------------------------------------------------------------------ views

    def _make_view(self, array: Any) -> TracedArray:
        """`array`, a view of this one's stand-in, as an array of the same buffer."""
        # NumPy copies where a stride can't express it. A copy would be work that no step says.
        if not np.may_share_memory(array, self.array) and array.size:
            raise Unsupported("a view that is a copy")
        self.buffer.views += 1
        return TracedArray(self.trace, array, self.buffer, self._base)

    def reshape(self, *shape: Any, **options: Any) -> TracedArray:
        """The same elements in another shape, copied first where they are not in order."""
        if options:
            raise Unsupported("reshape with options")
        array = self.array.reshape(*shape)
        if not np.may_share_memory(array, self.array) and array.size:
            return self.copied().reshape(*shape)
        return self._make_view(array)

    def ravel(self) -> TracedArray:
        """The elements as a vector."""
        return self.reshape(-1)

    def transpose(self, *axes: Any) -> TracedArray:
        """The axes in another order."""
        return self._make_view(self.array.transpose(*axes))

    def swapaxes(self, a: int, b: int) -> TracedArray:
        """Two axes exchanged."""
        return self._make_view(self.array.swapaxes(a, b))

    @property
    def T(self) -> TracedArray:
        """The axes backwards."""
        return self._make_view(self.array.T)

    @property
    def real(self) -> TracedArray:
        """Itself: there are no complex numbers here."""
        return self

    def conj(self) -> TracedArray:
        """Itself: there are no complex numbers here."""
        return self

    def __getitem__(self, key: Any) -> TracedArray:
        parts = key if isinstance(key, tuple) else (key,)
        # An index that is itself an array gives a copy, element by element; True is one such.
        basic = all(k is None or k is Ellipsis or isinstance(k, int | slice) for k in parts)
        if not basic or any(isinstance(k, bool) for k in parts):
            raise Unsupported("fancy indexing")
        array = self.array[key]
        if not isinstance(array, np.ndarray):  # one element
            # With an ellipsis it is a view of no axes, which has an address.
            array = self.array[(*parts, Ellipsis)]
        return self._make_view(array)

    # ------------------------------------------------------------------ steps

    def copied(self) -> TracedArray:
        """The elements in row-major order in memory of their own."""
        row_major = self.trace.result(np.empty(self.array.shape, self.array.dtype))
        self.trace.note(Elementwise("copy", (self.view,), row_major.view))
        return row_major

    def astype(self, dtype: Any, copy: bool = True) -> TracedArray:
        """The elements converted to `dtype`."""
        target_dtype = np.dtype(dtype)
        if target_dtype == self.array.dtype and not copy:
            return self
        if target_dtype == self.array.dtype:
            name = "copy"
        elif self.trace.is_known(target_dtype) and (
            kind_of(self.array.dtype) + kind_of(target_dtype) in CASTS
        ):
            name = "cast"
        else:
            raise Unsupported(f"cast from {self.array.dtype} to {target_dtype}")
        converted = self.trace.result(np.empty_like(self.array, target_dtype))
        self.trace.note(Elementwise(name, (self.view,), converted.view))
        return converted

    def sum(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> TracedArray:
        """Sums along axes."""
        return _reduce(self.trace, np.add, self, axis, dtype, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> TracedArray:
        """The largest along axes."""
        return _reduce(self.trace, np.maximum, self, axis, None, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> TracedArray:
        """The smallest along axes."""
        return _reduce(self.trace, np.minimum, self, axis, None, keepdims)

    def _become(self, other: TracedArray) -> TracedArray:
        """Have the value `other` from now on, as after a call with `out=`."""
        mine = self.view
        fits = other.array.shape == self.array.shape and other.array.dtype == self.array.dtype
        # Steps so far may refer to the old buffer, which stays as it is: it is this array that goes
        # over to the new one. So no view of the old one may be about, which would miss the change.
        alone = self.buffer.kind == "temporary" and mine.whole and not self.buffer.views
        if not (fits and alone):
            raise Unsupported("writing into an array that others may see")
        self.array, self.buffer, self._base = other.array, other.buffer, other._base
        return self

    # ------------------------------------------------------------------ NumPy's protocols

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.pop("out", None)
        if method == "__call__" and not options:
            result = _call_ufunc(self.trace, ufunc, inputs)
        elif method == "reduce":
            result = _reduce(self.trace, ufunc, *_reduce_arguments(*inputs, **options))
        else:
            raise Unsupported(f"{ufunc.__name__}.{method} with {sorted(options)}")
        if out is None or out[0] is None:
            return result
        target = out[0]
        if not isinstance(target, TracedArray):
            raise Unsupported("writing into an array from outside")
        return target._become(result)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        handler = _FUNCTIONS.get(func.__name__)
        if handler is None:
            raise Unsupported(f"np.{func.__name__}")
        return handler(self.trace, *args, **kwargs)


class Namespace:
    """NumPy under another name, so that kernels don't take paths that are for arrays alone."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def as_traced(trace: KernelTracer, x: Any) -> TracedArray:
    """`x` as an array of the trace, a constant if it is none yet."""
    return x if isinstance(x, TracedArray) else trace.constant(x)


def _operand(trace: KernelTracer, x: Any, dtype: np.dtype[Any]) -> Operand:
    """An input of a step, of the dtype `dtype`."""
    if type(x) in (bool, int, float):
        # A Python number takes the dtype of the arrays beside it, as NumPy has it.
        return Number(np.array(x).astype(dtype)[()], dtype)
    return as_traced(trace, x).astype(dtype, copy=False).view


def _stand_in(x: Any) -> Any:
    return x.array if isinstance(x, TracedArray) else x


def _kind_of(x: Any) -> Any:
    """What NumPy resolves a loop by: a dtype, or the type of a Python number."""
    return type(x) if type(x) in (bool, int, float) else _stand_in(x).dtype


def _layout(inputs: Any, dtype: Any) -> Any:
    """An array as NumPy would make it for an element-wise result."""
    arrays = [np.asarray(_stand_in(x)) for x in inputs]
    flags: Any = [["readonly"]] * len(arrays) + [["writeonly", "allocate", "no_subtype"]]
    # The layout of a result follows its operands' by rules of NumPy's, which differ with order,
    # broadcasting and size. Its iterator allocates by the same rules.
    stepping = np.nditer(
        [*arrays, None],
        ["zerosize_ok", "refs_ok"],
        flags,
        op_dtypes=[None] * len(arrays) + [dtype],
        order="K",
    )
    return stepping.operands[-1]


def _call_ufunc(trace: KernelTracer, ufunc: Any, inputs: Any) -> TracedArray:
    """One call of a ufunc of one result."""
    if ufunc is np.matmul:
        return _product(trace, *inputs)
    if ufunc.nout != 1 or ufunc.nin > 3 or ufunc.signature is not None:
        raise Unsupported(ufunc.__name__)
    types = ufunc.resolve_dtypes((*map(_kind_of, inputs), None))
    if not all(map(trace.is_known, types)):
        raise Unsupported(f"{ufunc.__name__} of {types}")
    # `types` has one more, that of the result.
    operands = tuple(_operand(trace, x, t) for x, t in zip(inputs, types, strict=False))
    result = trace.result(_layout(inputs, types[-1]))
    if trace.is_expression(ufunc.__name__, operands):
        trace.note(Elementwise(ufunc.__name__, operands, result.view))
    else:
        # NumPy cuts other layouts into several runs. Then a function's vectors begin elsewhere, and
        # its last bits may differ.
        _require_alike(ufunc, operands, result.view)
        if not has_loop(ufunc, types):
            raise Unsupported(f"no loop of {ufunc.__name__} for {types}")
        trace.note(NumpyLoop(ufunc, operands, result.view))
    return result


def _require_alike(ufunc: Any, operands: tuple[Operand, ...], out: View) -> None:
    """Refuse arrays over which NumPy would not go in one run of its loop."""
    if out.size * out.dtype.itemsize != out.buffer.size:
        raise Unsupported("a result with gaps")
    for x in operands:
        if isinstance(x, View) and x.shape != ():
            same = [s // x.dtype.itemsize for s in x.strides]
            out_strides = [s // out.dtype.itemsize for s in out.strides]
            if x.shape != out.shape or same != out_strides:
                raise Unsupported(f"{ufunc.__name__} over arrays of different layouts")


def _reduce_arguments(
    x: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    if out is not None or initial is not None or where is not True:
        raise Unsupported("a reduction with initial values or a mask")
    return x, axis, dtype, keepdims


def _reduce(
    trace: KernelTracer, ufunc: Any, x: TracedArray, axis: Any, dtype: Any, keepdims: bool
) -> TracedArray:
    if ufunc not in (np.add, np.maximum, np.minimum):
        raise Unsupported(f"{ufunc.__name__}.reduce")
    # Which dtype a sum of small integers has is asked of NumPy, by a sum of one element.
    plain = np.empty((), x.array.dtype)[None]
    result_dtype = np.dtype(dtype) if dtype is not None else ufunc.reduce(plain).dtype
    if result_dtype != x.array.dtype:
        if result_dtype.kind == "f":  # NumPy converts and sums piece by piece
            raise Unsupported("a sum in another type of float")
        x = x.astype(result_dtype)
    rank = x.array.ndim
    axes = range(rank) if axis is None else (axis if isinstance(axis, tuple) else (axis,))
    reduced = tuple(sorted(np.lib.array_utils.normalize_axis_tuple(tuple(axes), rank)))
    view = x.view
    # NumPy adds in the order of the memory, so in another layout sums have other bits.
    if not view.contiguous or not view.size:
        raise Unsupported("a reduction of elements out of order")
    # The code reduces runs by NumPy's loop, and adds whole rows by itself; it has no maximum of
    # rows.
    if ufunc is not np.add and not _last_axes(view.shape, reduced):
        raise Unsupported("an extreme along leading axes")
    # Reduced axes stay with size 1 in the step, so that the result's strides pair with the
    # source's.
    shape = tuple(1 if i in reduced else n for i, n in enumerate(view.shape))
    result = trace.result(np.empty(shape, result_dtype))
    trace.note(Reduction(ufunc, view, reduced, result.view))
    if keepdims:
        return result
    final = tuple(n for i, n in enumerate(view.shape) if i not in reduced)
    result.array = result.array.reshape(final)  # no view: the array itself
    return result


def _last_axes(shape: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    """Whether the axes that are reduced come after all that are kept, and not all have size 1."""
    # False sorts before True: in order means that no axis stays behind one that is reduced.
    kinds = [i in axes for i, n in enumerate(shape) if n != 1]
    return kinds == sorted(kinds) and any(kinds)


def _product(trace: KernelTracer, a: Any, b: Any) -> TracedArray:
    a, b = as_traced(trace, a), as_traced(trace, b)
    if a.array.dtype != b.array.dtype or a.array.ndim < 2 or b.array.ndim < 2:
        raise Unsupported("a product of vectors or of two dtypes")
    if a.array.dtype.kind not in "fiu" or a.array.shape[-1] != b.array.shape[-2]:
        raise Unsupported("a product of these")
    if a.array.dtype.kind == "f" and not has_loop(np.matmul, (a.array.dtype,) * 3):
        raise Unsupported("no product of this dtype")
    # Broadcasting is a matter of strides, 0 along what is repeated, so no operand is copied.
    batch = np.broadcast_shapes(a.array.shape[:-2], b.array.shape[:-2])
    left = np.broadcast_to(a.array, (*batch, *a.array.shape[-2:]))
    right = np.broadcast_to(b.array, (*batch, *b.array.shape[-2:]))
    if 0 in left.shape or 0 in right.shape:
        raise Unsupported("a product of nothing")
    out = np.empty((*batch, left.shape[-2], right.shape[-1]), a.array.dtype)
    product = trace.result(out)
    one, two = (TracedArray(trace, x, t.buffer, t._base).view for x, t in ((left, a), (right, b)))
    trace.note(Product(one, two, product.view))
    return product


def check_labels(trace: KernelTracer, labels: TracedArray, limit: int) -> None:
    """Note that the code is left when a label is not in [0, limit).

    Raises:
        Unsupported: the labels are computed inside, so the code could not be left at its start.
    """
    # The check comes before all steps, when nothing is computed yet.
    if labels.buffer.kind not in ("input", "constant"):
        raise Unsupported("labels that are computed")
    trace.note(LabelCheck(labels.view, limit))


# ------------------------------------------------------------------ functions of NumPy


def _where(trace: KernelTracer, condition: Any, x: Any, y: Any) -> TracedArray:
    dtype = np.result_type(
        *(v if type(v) in (bool, int, float) else _stand_in(v).dtype for v in (x, y))
    )
    mask = as_traced(trace, condition)
    if mask.array.dtype != np.bool_:
        raise Unsupported("a condition that is no bool")
    operands = (mask.view, _operand(trace, x, dtype), _operand(trace, y, dtype))
    selected = trace.result(_layout((condition, x, y), dtype))
    trace.note(Elementwise("where", operands, selected.view))
    return selected


def _of_view(name: str) -> Callable[..., TracedArray]:
    """A function that gives a view of its first argument."""

    def handler(trace: KernelTracer, x: Any, *args: Any, **kwargs: Any) -> TracedArray:
        traced: TracedArray = as_traced(trace, x)
        return traced._make_view(getattr(np, name)(traced.array, *args, **kwargs))

    return handler


def _constant_like(name: str) -> Callable[..., Any]:
    def handler(trace: KernelTracer, x: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(np, name)(_stand_in(x), *args, **kwargs)

    return handler


def _reshape(trace: KernelTracer, x: Any, shape: Any) -> TracedArray:
    return as_traced(trace, x).reshape(shape)


def _total(
    trace: KernelTracer, x: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False
) -> Any:
    return as_traced(trace, x).sum(axis, dtype, keepdims)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "where": _where,
    "reshape": _reshape,
    "sum": _total,
    **{
        name: _of_view(name)
        for name in ("expand_dims", "broadcast_to", "transpose", "swapaxes", "moveaxis", "squeeze")
    },
    **{name: _constant_like(name) for name in ("ones_like", "zeros_like")},
}
