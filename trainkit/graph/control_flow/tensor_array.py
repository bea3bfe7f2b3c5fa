"""`TensorArray`: values collected at positions, in eager code and in loops of a graph.

It is one tensor with the positions as its first axis, and a tuple to everything that traverses
nests, so it can be a loop variable, an argument and a result. It never changes: `write` gives a new
one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from trainkit.core import dtypes, nest
from trainkit.core.dispatch import late_ops, trace_state
from trainkit.core.dtypes import DType
from trainkit.core.errors import FailedPreconditionError, InvalidArgumentError
from trainkit.core.shapes import TensorShape
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor, wrap_on_device
from trainkit.graph.control_flow.tensor_array_elements import blanks, element_at, written
from trainkit.ops.arrays.broadcasting import broadcast_to


class TensorArray(tuple[Any, ...]):
    """A list of tensors of one dtype and shape, for loops in which a Python list can't grow.

    Args:
        dtype: of the elements.
        size: how many positions there are, an int or a scalar tensor; 0 by default.
        dynamic_size: writing behind the end makes the array longer.
        clear_after_read: `True` lets eager code read each element once only; reading or stacking
            it again raises. By default, and in graphs, elements stay until the array is gone.
        tensor_array_name, colocate_with_first_write_call, name: names and a hint of TensorFlow's
            that change no result.
        handle, flow: must be `None`.
        infer_shape: elements must have one shape, with `False` as well.
        element_shape: sizes of an element, when they are to be checked before the first write.

    Positions that were never written hold zeros, or empty texts.

    >>> ta = TensorArray("float32", size=2)
    >>> ta = ta.write(0, 1.0).write(1, 2.0)
    >>> ta.stack().numpy()
    array([1., 2.], dtype=float32)
    """

    __slots__ = ()
    _is_element_array = True
    _fields = ("buffer",)
    _dtype: DType
    _size: Any
    _dynamic: bool
    _element: TensorShape | None
    _clears: bool = False

    def __new__(
        cls,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Any = None,
        flow: Any = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> TensorArray:
        if handle is not None or flow is not None:
            raise InvalidArgumentError(
                "TensorArray: handle and flow are not supported; leave them out"
            )
        element = None if element_shape is None else TensorShape(element_shape)
        kind = _kind(dtypes.as_dtype(dtype), bool(dynamic_size), element, bool(clear_after_read))
        if not is_tensor(size):
            size = int(size or 0)
        empty: TensorArray = tuple.__new__(_with_size(kind, size))
        # An element of known sizes needs no first write, so `read` and `stack` work at once.
        return empty.filled(element) if element is not None and None not in element else empty

    # ------------------------------------------------------------------ what it is

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self._dtype

    @property
    def dynamic_size(self) -> bool:
        """Whether it grows when written behind its end."""
        return self._dynamic

    @property
    def element_shape(self) -> TensorShape:
        """Sizes of an element, as far as known.

        Raises:
            FailedPreconditionError: nothing has been written, and no `element_shape` was given.
        """
        if self:
            return TensorShape(tuple(self[0].shape)[1:])
        if self._element is None:
            raise FailedPreconditionError("TensorArray: the shape of an element is not known yet")
        return self._element

    def size(self, name: str | None = None) -> Tensor:
        """How many positions there are, an int32 scalar."""
        if not self:
            return convert_to_tensor(self._size)
        n = self[0].shape[0]
        return late_ops.shape(self[0])[0] if n is None else convert_to_tensor(n)

    # ------------------------------------------------------------------ elements

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """This array with `value` at the position `index`; the array itself stays as it is.

        Raises:
            OutOfRangeError: there is no such position, and the size is not dynamic.
            InvalidArgumentError: dtype or shape of the value differ from those of the others.
        """
        value = self._element_of(value)
        # The first value shows the shape of an element. A size that is not known yet is 0 here, and
        # `written` takes it from the value when the graph runs.
        ready = self if self else self.filled(value.shape)
        index = index if is_tensor(index) else convert_to_tensor(int(index))
        grows = self._dynamic
        array = type(self)._of(written(ready[0], _value(index), value, grows=grows))
        if self._clears and not trace_state.THREAD.traces:
            # An element that is written again may be read again.
            self._read_before.discard(int(index))
            array.__dict__["_read_before"] = self._read_before
        return array

    def _element_of(self, value: Any) -> Tensor:
        tensor = self._to_tensor(value)
        if tensor.dtype != self._dtype:
            raise InvalidArgumentError(
                f"TensorArray.write: the array holds {self._dtype.name}, the value is "
                f"{tensor.dtype.name}; use tk.cast"
            )
        if self._element is not None and not self._element.is_compatible_with(tensor.shape):
            raise InvalidArgumentError(
                f"TensorArray.write: elements have shape {tuple(self._element)}, the value has "
                f"{tuple(tensor.shape)}"
            )
        return tensor

    def _to_tensor(self, value: Any) -> Tensor:
        """`value` as a tensor; numbers and arrays, which are no tensors, in the array's dtype."""
        # NumPy makes float64 of Python's numbers unasked, so its dtype is no wish of the user's, as
        # that of a tensor is.
        if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufc":
            try:
                return convert_to_tensor(value, self._dtype)
            except (TypeError, InvalidArgumentError):  # such as numbers for an array of texts
                return convert_to_tensor(value)
        hint = None if is_tensor(value) else self._dtype
        return _value(convert_to_tensor(value, dtype_hint=hint))

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """The element at the position `index`.

        Raises:
            OutOfRangeError: there is no such position.
            InvalidArgumentError: it has been read, and the array was made with
                `clear_after_read=True`.
        """
        index = index if is_tensor(index) else convert_to_tensor(int(index))
        self._check_kept("read", index)
        result: Tensor = element_at(self._buffer("read"), _value(index))
        if self._clears and not trace_state.THREAD.traces:
            self._read_before.add(int(index))
        return result

    @functools.cached_property
    def _read_before(self) -> set[int]:
        """Positions of elements that are gone; arrays that come of each other by writing share it.

        Only arrays that were made with `clear_after_read=True` have room for it.
        """
        return set()

    def _check_kept(self, method: str, indices: Any = None) -> None:
        """Refuse to use elements that were to be read once only, at `indices` or anywhere."""
        # A graph would have to know while it is traced which elements are read, and in a loop it
        # does not; TensorFlow's graphs keep elements, too.
        if not self._clears or trace_state.THREAD.traces:
            return
        gone = self._read_before
        if indices is not None:
            gone = gone & set(np.asarray(_value(indices)).ravel().tolist())
        if gone:
            raise InvalidArgumentError(
                f"TensorArray.{method}: the element at {min(gone)} has been read before, and with "
                "clear_after_read=True each is read once only; make the array with "
                "clear_after_read=False"
            )

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """The elements at `indices` (k,), stacked to (k, ...)."""
        indices = convert_to_tensor(indices)
        self._check_kept("gather", indices)
        result: Tensor = late_ops.take(self._buffer("gather"), indices, axis=0)
        return result

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """This array with the rows of `value` (k, ...) written at `indices` (k,).

        Raises:
            InvalidArgumentError: the number of indices is not known while tracing.
        """
        indices, value = convert_to_tensor(indices), self._to_tensor(value)
        if indices.shape[0] is None:
            raise InvalidArgumentError(
                "TensorArray.scatter: the number of indices must be known while tracing; write "
                "in a loop"
            )
        array = self
        for i in range(indices.shape[0]):
            array = array.write(indices[i], value[i])
        return array

    # ------------------------------------------------------------------ the whole

    def stack(self, name: str | None = None) -> Tensor:
        """All elements as one tensor (size, ...).

        Raises:
            FailedPreconditionError: nothing has been written, so the shape is not known.
        """
        self._check_kept("stack")
        return self._buffer("stack")

    def concat(self, name: str | None = None) -> Tensor:
        """All elements joined along their first axis, (size * n, ...)."""
        self._check_kept("concat")
        buffer = self._buffer("concat")
        if len(buffer.shape) < 2:
            raise InvalidArgumentError("TensorArray.concat: scalars can't be joined; use stack")
        element_dims = tuple(buffer.shape)[2:]
        joined: Tensor = late_ops.reshape(buffer, shape=(-1, *element_dims))
        return joined

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """An array whose elements are the rows of `value` (n, ...)."""
        tensor = self._to_tensor(value)
        if tensor.dtype != self._dtype or len(tensor.shape) == 0:
            raise InvalidArgumentError(
                f"TensorArray.unstack: needs rows of {self._dtype.name}, given is {tensor!r}"
            )
        return type(self)._of(tensor)

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """An array whose elements are parts of `value` (n, ...) along its first axis.

        Args:
            value: what is split.
            lengths: rows of each part, known numbers that add up to n; all the same.
            name: not kept.

        Raises:
            InvalidArgumentError: the lengths differ, have no values while tracing, don't add up, or
                are more or fewer than the positions of an array whose size is not dynamic.
        """
        tensor = self._to_tensor(value)
        counts = _value(convert_to_tensor(lengths))
        if tensor.dtype != self._dtype or len(tensor.shape) == 0:
            raise InvalidArgumentError(
                f"TensorArray.split: needs rows of {self._dtype.name}, given is {tensor!r}"
            )
        if isinstance(counts, SymbolicTensor) or len(counts.shape) != 1:
            raise InvalidArgumentError(
                f"TensorArray.split: the lengths must be a list of known numbers, given is "
                f"{lengths!r}; write the parts in a loop"
            )
        sizes = [int(n) for n in np.asarray(counts)]
        self._check_split(sizes, tensor.shape[0])
        if tensor.shape[0] is None:
            # The lengths were compared with a size that was not known; this compares when it is.
            full_shape = (sum(sizes), *tuple(tensor.shape)[1:])
            tensor = late_ops.ensure_shape(tensor, shape=full_shape)
        each = sizes[0] if sizes else 0
        # A matrix of indices makes parts and stack in one operation, which has a gradient.
        rows = convert_to_tensor(np.arange(len(sizes) * each).reshape(len(sizes), each))
        return type(self)._of(late_ops.take(tensor, rows, axis=0))

    def _check_split(self, lengths: list[int], rows: int | None) -> None:
        if len(set(lengths)) > 1 or min(lengths, default=0) < 0:
            raise InvalidArgumentError(
                f"TensorArray.split: the lengths are {lengths}, and all elements of an array have "
                "one shape; tk.split gives parts of different lengths as a list"
            )
        if rows is not None and sum(lengths) != rows:
            raise InvalidArgumentError(
                f"TensorArray.split: the lengths {lengths} add up to {sum(lengths)}, the value has "
                f"{rows} rows"
            )
        size = self.size()
        if not (self._dynamic or isinstance(size, SymbolicTensor) or int(size) == len(lengths)):
            raise InvalidArgumentError(
                f"TensorArray.split: {len(lengths)} lengths are given for {int(size)} positions; "
                "make the array of that size, or with dynamic_size=True"
            )

    def identity(self) -> TensorArray:
        """This array."""
        return self

    def close(self, name: str | None = None) -> None:
        """Nothing; memory is freed when the array is gone."""

    def _buffer(self, method: str) -> Tensor:
        if not self:
            raise FailedPreconditionError(
                f"TensorArray.{method}: nothing has been written; give element_shape to have zeros"
            )
        buffer: Tensor = self[0]
        return buffer

    # ------------------------------------------------------------------ making

    @classmethod
    def _of(cls, buffer: Any) -> TensorArray:
        return tuple.__new__(cls, (buffer,))

    def filled(self, element_shape: Iterable[int | None]) -> TensorArray:
        """An array of the same size whose elements are zeros of a shape.

        A size of it that is not known yet is 0: the first value that is written brings its own.
        """
        size, dims = self._size, tuple(0 if n is None else n for n in element_shape)
        if not isinstance(size, SymbolicTensor):
            zeros = blanks(np, (int(size), *dims), self._dtype.dtype)
            return type(self)._of(wrap_on_device(zeros))
        # The size is known when the graph runs, so one zero is stretched to it there.
        zero = wrap_on_device(blanks(np, (), self._dtype.dtype))
        return type(self)._of(broadcast_to(zero, (size, *dims)))

    def __repr__(self) -> str:
        size = self[0].shape[0] if self else self._size
        return f"<TensorArray of {self._dtype.name}, size {size}>"


def _value(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else x.value()


@functools.lru_cache(maxsize=256)
def _kind(
    dtype: DType, dynamic: bool, element: TensorShape | None, clears: bool
) -> type[TensorArray]:
    """The class of arrays with these settings; nests keep the class of a tuple."""
    # Settings are kept in a class, since a nest that is packed again knows the class of a tuple and
    # its items, and nothing else of it. Equal settings must give the same class: it is a part of
    # the keys of traces, and with a new one each call would be traced again.
    return type(
        "TensorArray",
        (TensorArray,),
        {
            **({"_clears": True} if clears else {"__slots__": ()}),
            "__new__": lambda cls, *items: tuple.__new__(cls, items),
            "__module__": __name__,
            "_dtype": dtype,
            "_dynamic": dynamic,
            "_element": element,
            "_size": 0,
        },
    )


def _with_size(kind: type[TensorArray], size: Any) -> type[TensorArray]:
    """`kind` for an array that has a size and no elements yet."""
    return kind if isinstance(size, int) and size == 0 else _make_sized(kind, size)


def _make_sized(kind: type[TensorArray], size: Any) -> type[TensorArray]:
    if isinstance(size, int):
        # Sizes that are tensors are not cached, or they and their graphs would stay alive.
        return _fixed(kind, size)
    return type("TensorArray", (kind,), {"__slots__": (), "_size": size, "__module__": __name__})


@functools.lru_cache(maxsize=256)
def _fixed(kind: type[TensorArray], size: int) -> type[TensorArray]:
    return type("TensorArray", (kind,), {"__slots__": (), "_size": size, "__module__": __name__})


def has_empty(x: Any) -> bool:
    """Whether there is an array in the nest `x` whose elements have no shape yet."""
    leaves = nest.flatten(x, nest.above_arrays)
    return any(isinstance(leaf, TensorArray) and not leaf for leaf in leaves)


def with_elements(x: Any, later: Any) -> Any:
    """The nest `x`, with elements in its empty arrays of the shapes that those of `later` have."""
    leaves, others = (nest.flatten(part, nest.above_arrays) for part in (x, later))
    # The loop refuses such a body itself, and says so in its own terms.
    if len(leaves) != len(others):
        return x
    ready = [_with_elements(a, b) for a, b in zip(leaves, others, strict=True)]
    return nest.pack(x, ready, nest.above_arrays)


def _with_elements(array: Any, later: Any) -> Any:
    """`array`; one without elements gets zeros of the shape that those of `later` have."""
    if not (isinstance(array, TensorArray) and isinstance(later, TensorArray)):
        return array
    return array if array or not later else array.filled(later.element_shape)
