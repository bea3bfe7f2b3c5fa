"""`Variable`: a named, assignable value whose reads are tensors that never change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from operator import methodcaller
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from trainkit.core import devices, dtypes, names, nest
from trainkit.core.dispatch import late_ops, trace_state
from trainkit.core.dispatch.ownership import sole_array
from trainkit.core.dtypes import DType
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.process.garbage import count_large
from trainkit.core.row_updates import RowUpdates
from trainkit.core.shapes import TensorShape
from trainkit.core.tensor import (
    Reference,
    Tensor,
    convert_to_tensor,
    tensor_beside,
    value_text,
    wrap,
)
from trainkit.core.trackable import Trackable
from trainkit.core.values.aggregation import aggregation_name
from trainkit.core.values.batch_size import COUNTED, unmarked
from trainkit.core.values.html_text import tag, tensor_html
from trainkit.core.values.python_values import short_text

if TYPE_CHECKING:
    from trainkit.core.dispatch.operator_types import Operators
    from trainkit.core.values.type_aliases import DTypeLike, TensorLike
else:
    Operators = object

OVERWRITTEN: WeakValueDictionary[int, Any] = WeakValueDictionary()
"""Variables, by `id`, that optimizers replace by their gradient instead of stepping along it."""

WATCHERS: list[Callable[[Sequence[Any]], None]] = []
"""Called with variables whose arrays were just written in place: who copies arrays in another
thread may have seen a part of the new value."""

_THREAD = trace_state.THREAD
_CREATIONS = count()
_TAPES = trace_state.TAPES


class Reading(partial[Tensor]):
    """The value now, as a tensor that later assignments leave alone.

    TensorFlow's users call it, `v.value()`, and get the tensor. Keras's users do not, `v.value`; so
    all that can be done with a variable can be done with this as well.
    """

    __slots__ = ()
    _is_variable = True
    __array_priority__ = 100

    def value(self) -> Tensor:
        """The tensor."""
        return self()

    def _read(self) -> Tensor:
        return self()

    def __getattr__(self, name: str) -> Any:
        return getattr(self(), name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self().__array__(dtype, copy)

    def __bool__(self) -> bool:
        return bool(self())

    def __float__(self) -> float:
        return float(self())

    def __int__(self) -> int:
        return int(self())

    def __index__(self) -> int:
        return self().__index__()

    def __len__(self) -> int:
        return len(self())

    def __iter__(self) -> Any:
        return iter(self())

    def __format__(self, spec: str) -> str:
        return format(self(), spec)

    def __repr__(self) -> str:
        return repr(self())

    __str__ = __repr__
    __hash__ = object.__hash__  # equality is that of tensors, element by element


class Variable(RowUpdates, Trackable, Operators):
    """A mutable cell that holds a tensor; what optimizers train and checkpoints store.

    Reading gives a snapshot: what was read before an `assign` keeps its value. The buffer is
    written in place when nothing else holds it, so updates allocate nothing.

    Args:
        initial_value: anything that converts to a tensor, or a function without arguments that
            gives it.
        trainable: whether tapes watch it by themselves.
        name: what it is called in texts; `"Variable"` by default.
        dtype: element type; by default that of the value.
        shape: sizes that `assign` must keep to, `None` for any size; by default those of the value.
        constraint: function of the value that optimizers apply after an update.
        validate_shape: False lets `assign` change all sizes.
        caching_device: must be `None`, as `variable_def` and `import_scope`.
        variable_def: see `caching_device`.
        import_scope: see `caching_device`.
        synchronization: kept as an attribute; there is one replica, so it changes nothing.
        aggregation: how replicas come together after a step of a `tk.distribute.Strategy`: a
            `VariableAggregation`, or its name as Keras has it, such as `"sum"`.
        experimental_enable_variable_lifting: what is made while tracing is always kept outside.

    Raises:
        ValueError: no initial value.
        TypeError, InvalidArgumentError: the value does not convert to `dtype` or `shape`.
        InvalidArgumentError: there is no such `aggregation`.

    >>> v = Variable([1.0, 2.0], name="weight")
    >>> v.assign_add([1.0, 1.0]).numpy()
    array([2., 3.], dtype=float32)
    """

    _is_variable = True
    _numbered = True  # layers, metrics and optimizers name theirs as Keras 3, without a number
    _goes_along = False  # counts of optimizers lie where a graph's values for them do
    _created_trainable: bool  # decides, as in Keras, where it stands among a layer's weights
    _goes_on = False  # whether a graph of version 1 assigns it whenever it computes with it
    _initializer: Any = None
    _frozen_by_layer = False  # whether its layer, once thawed, thaws it
    __array_priority__ = 100
    __setattr__ = object.__setattr__  # type: ignore[assignment]

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool = True,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        shape: Any = None,
        *,
        constraint: Any = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        variable_def: Any = None,
        import_scope: Any = None,
        synchronization: Any = "auto",
        aggregation: Any = "none",
        experimental_enable_variable_lifting: bool | None = None,
    ) -> None:
        if initial_value is None:
            raise ValueError("a Variable needs an initial value")
        if not (caching_device is variable_def is import_scope is None):
            raise ValueError(
                "Variable: caching_device, variable_def and import_scope are not supported; leave "
                "them out"
            )
        if constraint is not None and not callable(constraint):
            raise ValueError(f"Variable: the constraint must be a function, it is {constraint!r}")
        aggregation_name(aggregation)
        if _THREAD.making is not None:
            _THREAD.making(name or "Variable")
        trace = trace_state.current_trace()
        if callable(initial_value) and not hasattr(initial_value, "dtype"):
            with trace_state.silence():
                initial_value = initial_value()
        symbol = initial_value
        if trace is not None:
            initial_value = trace.initial_value(initial_value, name)
        tensor = _convert(initial_value, dtype)
        self._name = name or "Variable"
        self._scope = names.scope_prefix()
        self._creation = next(_CREATIONS)
        count_large(self, getattr(tensor._array, "nbytes", 0))
        self.trainable = self._created_trainable = trainable
        self._value = wrap(laid_out(tensor._array))
        if shape is None and not validate_shape:
            shape = [None] * len(tensor.shape)
        self._shape = None if shape is None else TensorShape(shape)
        if self._shape is not None and not self._shape.is_compatible_with(tensor.shape):
            raise InvalidArgumentError(
                f"variable {self._name!r}: the initial value has shape {tensor.shape}, "
                f"shape={tuple(self._shape)} was asked for"
            )
        self.path = self._name
        self.regularizer: Any = None
        self.constraint = constraint
        self.synchronization = synchronization
        self.aggregation: Any = aggregation
        if getattr(trace, "is_built_by_hand", False):
            trace.by_hand.keep(self, symbol if hasattr(symbol, "node") else self._value)
        if _THREAD.made is not None:
            _THREAD.made(self)

    # ------------------------------------------------------------------ what it is

    @property
    def name(self) -> str:
        """The name; if a program made it, with scopes and TensorFlow's number: `"a/weight:0"`."""
        return f"{self._scope}{self._name}:0" if self._numbered else self._name

    @property
    def shape(self) -> TensorShape:
        """Sizes of the axes; `None` where `assign` may change a size."""
        sizes = self._shape if self._shape is not None else self._value.shape
        return unmarked(sizes) if COUNTED else sizes

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._value.dtype

    @property
    def device(self) -> str:
        """Name of the device that holds the value."""
        return self._value.device

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        return self.shape.num_elements()

    def get_shape(self) -> TensorShape:
        """Sizes of the axes."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Narrow the shape that `assign` keeps to.

        Raises:
            ShapeError: the value has another.
        """
        self._value.set_shape(shape)
        if self._shape is not None:
            self._shape = self._shape.merge_with(shape)

    def ref(self) -> Reference:
        """A hashable stand-in that equals another variable's only for the same variable."""
        return Reference(self)

    # ------------------------------------------------------------------ reading

    def _read(self) -> Tensor:
        if _THREAD.traces:
            read: Tensor = _THREAD.traces[-1].read_variable(self)
            if _TAPES:
                trace_state.note_variable(self, read)
            return read
        if _TAPES:
            trace_state.note_variable(self, self._value)
        return self._value

    if TYPE_CHECKING:

        def value(self) -> Tensor: ...

    else:
        value = property(partial(Reading, methodcaller("_read")), doc=Reading.__doc__)

    @property
    def initializer(self) -> object:
        """In a graph of version 1 the operation that gives the initial value, else `None`."""
        return self._initializer

    def eval(self, session: object = None) -> np.ndarray[Any, Any]:
        """The value as a NumPy array, as of a tensor of version 1.

        Args:
            session: there is one value for all of them, so it is not asked.
        """
        array: np.ndarray[Any, Any] = self.numpy()
        return array

    def load(self, value: TensorLike, session: object = None) -> None:
        """Give it a value at once, also while a graph of version 1 is being built.

        Args:
            value: of its shape and dtype.
            session: there is one value for all of them, so it is not asked.
        """
        traces, _THREAD.traces = _THREAD.traces, []
        try:
            self.assign(value)
        finally:
            _THREAD.traces = traces

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Whether there is a value: a tensor that is always true.

        Args:
            name: not kept.
        """
        return wrap(np.bool_(True))

    def read_value(self) -> Tensor:
        """The value now, as a tensor that later assignments leave alone."""
        return self._read()

    def numpy(self) -> Any:
        """The value as a NumPy array of the caller's own; `np.asarray` makes no copy on the CPU."""
        return self._held().numpy()

    def _host_view(self) -> Any:
        return self._held()._host_view()

    def _held(self) -> Tensor:
        """The value that there is, also while a graph is traced: a scope's own before ours."""
        traces = _THREAD.traces
        scope: Any = traces[-1] if traces else None
        value: Tensor = scope.held(self) if hasattr(scope, "held") else self._value
        return value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self._held().__array__(dtype, copy)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._value.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self._value.__dlpack_device__()

    def __bool__(self) -> bool:
        return bool(self._read())

    def __float__(self) -> float:
        return float(self._read())

    def __int__(self) -> int:
        return int(self._read())

    def __index__(self) -> int:
        return self._read().__index__()

    def __len__(self) -> int:
        return len(self._value)

    def __iter__(self) -> Any:
        return iter(self._read())

    def __format__(self, spec: str) -> str:
        return format(self.numpy(), spec) if spec else str(self)

    def __repr__(self) -> str:
        return (
            f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}, "
            f"numpy={value_text(self._value._host_view())}>"
        )

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """What notebooks show: the name, and what they show of the value."""
        value = tensor_html(self._value._host_view(), self.device)
        return tag("div", tag("b", self.name), value)

    # ------------------------------------------------------------------ assigning

    def assign(
        self,
        value: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Variable:
        """Replace the value.

        Args:
            value: of the same shape and dtype (Python numbers and lists convert).
            use_locking: a hint of TensorFlow's; an assignment is always whole.
            name: not kept.
            read_value: a hint of TensorFlow's; the variable itself is returned either way.

        Returns:
            This variable; in a graph of version 1 an operation that stores the value when a
            session runs it.

        Raises:
            InvalidArgumentError: shape or dtype differ; the value stays.
        """
        if _THREAD.traces:
            # A graph of version 1 gives an operation, which is run by a session.
            operation = _THREAD.traces[-1].assign_variable(self, self._fit_value(value))
            return self if operation is None else operation
        self._store(self._fit_value(value)._array)
        return self

    def assign_add(
        self,
        delta: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Variable:
        """Add `delta`, which has the shape of the value or broadcasts to it."""
        return self._assign_result(late_ops.add, delta)

    def assign_sub(
        self,
        delta: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Variable:
        """Subtract `delta`, which has the shape of the value or broadcasts to it."""
        return self._assign_result(late_ops.subtract, delta)

    def _changed_in_place(self, op: Any, delta: Any) -> bool:
        """Write the sum or difference into the buffer, if that is simple and nobody holds it."""
        mine = sole_array(self)
        if mine is None or mine.dtype.kind not in "fi":
            return False
        kind = type(delta)
        if kind is Tensor:
            delta = delta._array
            fits = delta.dtype is mine.dtype and delta.shape in ((), mine.shape)
        else:
            fits = mine.dtype.kind == "f" and (kind is float or kind is int)
        if not fits:
            return False
        try:
            op.primitive.kernel(mine, delta, out=mine)
        except (ValueError, TypeError):  # they lie on two devices; nothing is written
            return False
        tell_watchers((self,))
        return True

    def _assign_result(self, op: Any, delta: Any) -> Variable:
        if not _THREAD.traces and self._changed_in_place(op, delta):
            return self
        if _THREAD.traces and not self._goes_on and self._is_in_session_graph():
            method = "assign_add" if op is late_ops.add else "assign_sub"
            operation: Variable = _THREAD.traces[-1].by_hand.change(self, method, [delta])
            return operation
        old = _THREAD.traces[-1].read_variable(self) if _THREAD.traces else self._value
        with trace_state.silence() if _TAPES else _NOTHING:
            if isinstance(delta, np.ndarray) and (
                self.dtype.is_floating or delta.dtype.kind in "iu"
            ):
                delta = convert_to_tensor(delta, self.dtype)  # as `assign` takes it
            elif not isinstance(delta, Tensor | int | float):
                delta = tensor_beside(delta, self.dtype)
            return self.assign(op(old, delta))

    @staticmethod
    def _is_in_session_graph() -> bool:
        """Whether a graph of version 1 is being built."""
        return getattr(_THREAD.traces[-1], "is_built_by_hand", False)

    def _fit_value(self, value: Any) -> Tensor:
        """`value` as a tensor that this variable can take."""
        if type(value) is Tensor:
            array, mine = value._array, self._value._array
            # The dtype and the sizes of what is held, so nothing of them needs to be asked.
            if array.dtype is mine.dtype and array.shape == mine.shape:
                return value
        if isinstance(value, Tensor):
            tensor = value
        elif hasattr(type(value), "_is_variable"):
            tensor = value.value()
        else:
            try:
                tensor = convert_to_tensor(value, dtype=self.dtype if _is_weak(value) else None)
            except (TypeError, ValueError) as error:
                raise type(error)(f"variable {self.name!r}: {error}") from None
            if tensor.dtype != self.dtype:
                tensor = late_ops.cast(tensor, dtype=self.dtype.name)
        if tensor.dtype != self.dtype:
            raise InvalidArgumentError(
                f"variable {self.name!r} has dtype {self.dtype.name}, the value to assign has "
                f"{tensor.dtype.name} ({short_text(value)}); use tk.cast"
            )
        if not self.shape.is_compatible_with(tensor.shape):
            raise InvalidArgumentError(
                f"variable {self.name!r} has shape {tuple(self.shape)}, the value to assign has "
                f"shape {tuple(tensor.shape)}"
            )
        # Sizes that a graph does not know yet are compared when it runs.
        if not tensor.shape.is_fully_defined() and not tensor.shape.is_subtype_of(self.shape):
            dims = tuple(self.shape)
            tensor = late_ops.ensure_shape(tensor, shape=dims, variable=self.name)
        return tensor

    def _store(self, array: Any) -> None:
        """Take `array`, which belongs to an immutable tensor, as the new value."""
        mine = sole_array(self)
        if (
            mine is not None
            and mine.shape == array.shape
            and devices.device_of(mine) is devices.device_of(array)
        ):
            mine[...] = array
            tell_watchers((self,))
        else:
            array = devices.to_device(array, devices.device_of(self._value._array))
            self._value = wrap(laid_out(array))

    def _take(self, array: Any) -> None:
        """Hold `array`, which nobody else will write to, without a copy."""
        self._value = wrap(laid_out(array))

    def _writable(self) -> Any:
        """The array to write a new value into: the buffer itself when nothing else holds it."""
        array = sole_array(self)
        if array is None:
            array = self._value._array.copy()
            self._value = wrap(array)
        return array

    def __jax_array__(self) -> Any:
        return self._value.__jax_array__()

    def __deepcopy__(self, memo: Any) -> Variable:
        twin = Variable(self._value, self.trainable, self._name, shape=self._shape)
        twin.path, twin.regularizer, twin.constraint = self.path, self.regularizer, self.constraint
        twin._numbered, twin._scope = self._numbered, self._scope
        twin._created_trainable = self._created_trainable
        twin._frozen_by_layer = self._frozen_by_layer
        memo[id(self)] = twin
        return twin

    def __reduce__(self) -> Any:
        state = (self._value, self.trainable, self._name, self._shape, self.path, self._numbered)
        return _rebuilt, (*state, self._created_trainable, self._frozen_by_layer, self._scope)

    __hash__ = object.__hash__


nest.KINDS[Variable] = None


class _Nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None: ...


_NOTHING = _Nothing()


def _rebuilt(
    value: Any,
    trainable: bool,
    name: str,
    shape: Any,
    path: str,
    numbered: bool = True,
    created_trainable: bool | None = None,
    frozen_by_layer: bool = False,
    scope: str = "",
) -> Any:
    """A variable out of a pickle; those of earlier versions lack what has a default here."""
    variable = Variable(value, trainable, name, shape=shape)
    variable.path, variable._numbered, variable._scope = path, numbered, scope
    variable._created_trainable = trainable if created_trainable is None else created_trainable
    variable._frozen_by_layer = frozen_by_layer
    return variable


def _is_weak(value: Any) -> bool:
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return not hasattr(value, "dtype")


def _convert(value: Any, dtype: Any) -> Tensor:
    tensor = convert_to_tensor(value, dtype=dtype if _is_weak(value) else None)
    if dtype is not None and tensor.dtype != dtypes.as_dtype(dtype):
        tensor = late_ops.cast(tensor, dtype=dtypes.as_dtype(dtype).name)
    return tensor


def writable_arrays(variables: Sequence[Variable]) -> list[Any]:
    """For each variable the array to write a new value into, as `_writable` gives it."""
    arrays = []
    for variable in variables:
        array = sole_array(variable)
        arrays.append(variable._writable() if array is None else array)
    return arrays


def tell_watchers(variables: Sequence[Any]) -> None:
    """Say that the arrays of variables were written in place."""
    for watch in WATCHERS:
        watch(variables)


def laid_out(array: Any) -> Any:
    """`array` as a variable holds it: its rows one after the other, and a scalar in an array.

    BLAS adds up in another order where a matrix lies by columns, as it does where an initializer
    transposes. What was loaded from a file, or written by a graph, lies by rows, and has to give
    the same bits. A scalar's array has no dimension, so that it can be written in place.
    """
    if array.shape and array.flags.c_contiguous:
        return array
    if isinstance(array, np.generic):
        return np.array(array)
    xp = devices.XP_OF[type(array)]
    return xp.array(array) if not array.shape else xp.ascontiguousarray(array)
