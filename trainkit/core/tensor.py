"""`Tensor`: an immutable handle on one array; `convert_to_tensor`.

Operators are not defined here: the operations that `ops` puts into `PRIMITIVES` install themselves.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from trainkit.core import devices, dtypes, masks, nest
from trainkit.core.cpu.cost_model import SECOND_CACHE
from trainkit.core.devices import Array
from trainkit.core.dispatch import late_ops, trace_state
from trainkit.core.dtypes import DType
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.names import explain_attribute
from trainkit.core.shapes import TensorShape
from trainkit.core.values import torch_names
from trainkit.core.values.batch_size import COUNTED, marked
from trainkit.core.values.html_text import tensor_html
from trainkit.core.values.python_values import array_of, has_dtype, require_integers_fit
from trainkit.core.values.text_arrays import OBJECTS

if TYPE_CHECKING:
    from trainkit.core.dispatch.operator_types import Operators
    from trainkit.core.values.type_aliases import DTypeLike
else:
    Operators = object

PRIMITIVES: dict[str, Any] = {}
"""All primitives by name, filled by the `@primitive` decorator."""
STRING_TENSORS: list[Callable[[Any], Tensor]] = []
"""Makes a tensor of an array of texts; `string_tensor` puts it here."""


_ON_CPU = (np.ndarray, np.generic)


class Tensor(Operators):
    """An array that never changes, on the CPU or on a GPU.

    Made by `tk.constant`, `tk.convert_to_tensor` and by every operation. Python operators,
    indexing, iteration, `len`, `bool`, `float` and `int` work as TensorFlow's do; NumPy functions
    take tensors. Hashing goes by identity, comparison by value.

    Example:
        >>> x = tk.constant([[1.0, 2.0], [3.0, 4.0]])
        >>> x.shape, x.dtype.name
        (TensorShape([2, 2]), 'float32')
        >>> (x @ x + 1.0)[0].numpy()
        array([ 8., 11.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_activation", "_array", "_origin")
    __array_priority__ = 100  # an ndarray on the left leaves its operators to the tensor
    _array: Array
    _activation: Any  # (primitive, input, settings) of the sigmoid or softmax that gave it
    _origin: Any  # for `v[key].assign(x)`: where elements of a variable came from
    _own_mask = None  # a tensor with values has its mask in a table: see `masks`

    # ------------------------------------------------------------------ what it is

    @property
    def shape(self) -> TensorShape:
        """Sizes of the axes."""
        sizes = tuple.__new__(TensorShape, self._array.shape)  # they are ints already
        return marked(sizes) if COUNTED else sizes

    @property
    def dtype(self) -> DType:
        """The element type."""
        return dtypes.BY_NUMPY[self._array.dtype]

    @property
    def device(self) -> str:
        """Name of the device that holds the values, such as `"/device:CPU:0"`."""
        return devices.device_of(self._array).name

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        return self.shape.num_elements()

    @property
    def nbytes(self) -> int:
        """Bytes that the values take."""
        return int(self._array.nbytes)

    if not TYPE_CHECKING:  # names that are not there are errors in editors

        def __getattr__(self, name: str) -> Any:
            return explain_attribute(self, name, torch_names.TENSOR)

        def __setitem__(self, key: Any, value: Any) -> None:
            raise TypeError(
                f"{type(self).__name__!r} object does not support item assignment: tensors never "
                "change; v[key].assign(value) writes to a tk.Variable, and "
                "tk.tensor_scatter_nd_update makes a new tensor"
            )

    def get_shape(self) -> TensorShape:
        """Sizes of the axes."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Say what is known of the shape; inside of a function it is compared when that runs.

        Args:
            shape: sizes, `None` where they are not known.

        Raises:
            ShapeError: the shape is another.
        """
        if not TensorShape(shape).is_compatible_with(self.shape):
            raise ShapeError(
                f"set_shape: shape {TensorShape(shape)} does not fit the tensor's, {self.shape}"
            )

    def settle(self, shape: Any) -> bool:
        """Whether the shape of a result of Python was taken from `shape`, where none was known."""
        return False

    def ref(self) -> Reference:
        """A hashable stand-in that equals another tensor's only for the same tensor."""
        return Reference(self)

    @property
    def _keras_mask(self) -> Any:
        """The mask that travels with this tensor; without one it has no such attribute."""
        mask = masks.mask_of(self)
        if mask is None:
            raise AttributeError("this tensor has no mask")
        return mask

    @_keras_mask.setter
    def _keras_mask(self, mask: Any) -> None:
        masks.set_mask(self, mask)

    @_keras_mask.deleter
    def _keras_mask(self) -> None:
        masks.set_mask(self, None)

    def _hold_mask(self, mask: Any) -> None:
        masks.hold(self, mask)

    # ------------------------------------------------------------------ reading

    def numpy(self) -> Any:
        """The values as a NumPy array of the caller's own, which may be written to.

        A scalar comes as a NumPy scalar. `np.asarray(tensor)` is read-only and, on the CPU, makes
        no copy.
        """
        self._leaving()
        array = self._array
        if array.ndim == 0:
            return devices.to_numpy(array)[()]
        return array.copy() if isinstance(array, np.ndarray) else devices.to_numpy(array)

    def _leaving(self) -> None:
        if trace_state.TAPES:
            trace_state.note_exit("numpy()", self)

    def _host_view(self) -> Any:
        """The values as a NumPy array that can't be written to, without a copy on the CPU."""
        self._leaving()
        view = np.asarray(devices.to_numpy(self._array)).view()  # graphs give NumPy scalars
        view.flags.writeable = False
        return view

    def item(self, *args: Any) -> Any:
        """The one element as a Python number."""
        return devices.to_numpy(self._array).item(*args)

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers."""
        return devices.to_numpy(self._array).tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self._host_view()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"an array of {dtype} can't be had without a copy")
            return array.astype(dtype)
        return np.array(array) if copy else array

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    def __bool__(self) -> bool:
        try:
            return bool(self._array)
        except ValueError:
            raise InvalidArgumentError(
                f"the truth value of a tensor of shape {self.shape} is ambiguous; "
                "use tk.reduce_all or tk.reduce_any"
            ) from None

    def __float__(self) -> float:
        array = self._array
        if isinstance(array, _ON_CPU) and array.size == 1:
            return float(array.item())
        return float(self._one("float()"))

    def __int__(self) -> int:
        return int(self._one("int()"))

    def __complex__(self) -> complex:
        return complex(self._one("complex()"))

    def _one(self, conversion: str) -> Any:
        if self._array.size != 1:
            raise InvalidArgumentError(
                f"{conversion} needs a tensor of one element, this one has shape {self.shape}"
            )
        return devices.to_numpy(self._array).reshape(())[()]

    def __index__(self) -> int:
        if self._array.dtype.kind not in "iu" or self._array.ndim:
            raise TypeError(
                "only a scalar tensor of integers can be an index, this one has "
                f"shape {self.shape} and dtype {self.dtype.name}"
            )
        return int(self._array)

    def __len__(self) -> int:
        if not self._array.shape:
            raise TypeError("a scalar tensor has no length")
        return int(self._array.shape[0])

    def __iter__(self) -> Iterator[Any]:
        if not self._array.shape:
            raise TypeError("a scalar tensor can't be iterated")
        return (self[i] for i in range(self._array.shape[0]))

    def __contains__(self, item: Any) -> bool:
        return bool(np.isin(item, self._host_view()))

    def __format__(self, spec: str) -> str:
        return format(self.numpy(), spec)

    def __str__(self) -> str:
        text = str(self._host_view())
        if "\n" in text:
            text = "\n" + text
        return f"tf.Tensor({text}, shape={tuple(self.shape)}, dtype={self.dtype.name})"

    def __repr__(self) -> str:
        return (
            f"<tf.Tensor: shape={tuple(self.shape)}, dtype={self.dtype.name}, "
            f"numpy={value_text(self._host_view())}>"
        )

    def _repr_html_(self) -> str | None:
        """What notebooks show: shape, dtype and device, a picture of the values, and these."""
        return tensor_html(self._host_view(), self.device)

    # ------------------------------------------------------------------ copies

    def cpu(self) -> Tensor:
        """This tensor on the CPU; itself when it is there."""
        return self._on(devices.CPU)

    def gpu(self, gpu_index: int = 0) -> Tensor:
        """This tensor on a GPU; itself when it is there.

        Raises:
            DeviceError: the machine has no such GPU.
        """
        return self._on(devices.parse(f"/gpu:{gpu_index}"))

    def _on(self, where: devices.Device) -> Tensor:
        if devices.device_of(self._array) is where:
            return self
        copied: Tensor = late_ops.copy_to_device(self, device=where.name)
        return copied

    def __copy__(self) -> Tensor:
        return self

    def __jax_array__(self) -> Any:
        """For `jax.numpy`: an array of JAX's with these values."""
        return importlib.import_module("jax.numpy").asarray(np.asarray(self))

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self

    def __reduce__(self) -> Any:
        return constant_from, (devices.to_numpy(self._array),)

    __hash__ = object.__hash__


class Reference:
    """What `Tensor.ref` and `Variable.ref` give: hashable, equal by identity."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def deref(self) -> Any:
        """The tensor or variable itself."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._value!r}>"


def wrap(array: Array) -> Tensor:
    """A tensor on `array` itself, which must never be written to again."""
    tensor = Tensor()
    tensor._array = array
    return tensor


_activation_slot = Tensor.__dict__["_activation"].__get__


def activation_of(x: Tensor) -> Any:
    """(primitive, input, settings) of the sigmoid or softmax that gave `x`, `None` elsewhere."""
    try:  # by the slot: `x._activation` would look for words about a name that is not there
        return _activation_slot(x)
    except AttributeError:
        return None


def keep_input(y: Tensor, x: Tensor, primitive: Any, settings: dict[str, Any]) -> None:
    """Let `y`, what `primitive` makes of `x`, refer to that; not where `x` does the same.

    So activations of activations, a thousand in a row, keep no more than one input alive.
    """
    if activation_of(x) is None:
        y._activation = primitive, x, settings


def constant_from(array: Any) -> Tensor:
    """A tensor on a copy of `array`, on the current device."""
    if array.dtype == OBJECTS:  # a pickled one is equal, and another object
        return STRING_TENSORS[0](np.array(array, OBJECTS))
    return wrap_on_device(np.array(array))


def value_text(value: Any) -> str:
    """A value as it stands after `numpy=` in TensorFlow's texts."""
    if isinstance(value, bytes) or value.ndim == 0:
        return str(value)
    text = repr(value)
    return "\n" + text if "\n" in text else text


def is_tensor(x: Any) -> bool:
    """Whether `x` is a tensor or a variable.

    Args:
        x: anything.

    Example:
        >>> tk.is_tensor(tk.ones(2)), tk.is_tensor([1.0])
        (True, False)
    """
    return isinstance(x, Tensor) or hasattr(type(x), "_is_variable")


def _has_tensor(x: Any) -> bool:
    return any(is_tensor(leaf) for leaf in nest.flatten(x))


def convert_to_tensor(
    value: Any, dtype: DTypeLike | None = None, dtype_hint: Any = None, name: str | None = None
) -> Tensor:
    """Turn a Python number, nested list, NumPy array, variable or tensor into a tensor.

    A list may hold tensors; they are stacked, and gradients flow through.

    Args:
        value: what to convert. Arrays are copied, tensors are not.
        dtype: element type; by default float32 for Python floats, int32 for ints, that of an array.
        dtype_hint: used for Python numbers when `dtype` is not given and the values fit.
        name: not kept; tensors have no names outside graphs.

    Returns:
        A tensor on the current device, or `value` itself if it is a tensor of this dtype.

    Raises:
        InvalidArgumentError: the list is ragged, or a tensor has another dtype than `dtype`.
        TypeError: `value` has no numbers, or they don't fit `dtype`.

    Example:
        >>> tk.convert_to_tensor(np.array([1.0, 2.0], "float32")).dtype.name
        'float32'
    """
    element_type = None if dtype is None else dtypes.as_dtype(dtype)
    if is_tensor(value):
        tensor: Tensor = value if isinstance(value, Tensor) else value.value()
        if element_type is not None and tensor.dtype != element_type:
            raise InvalidArgumentError(
                f"convert_to_tensor: the tensor has dtype {tensor.dtype.name}, {element_type.name} "
                "was asked for; use tk.cast"
            )
        return tensor
    if isinstance(value, list | tuple) and _has_tensor(value):
        return _stack(value, element_type)
    if hasattr(value, "__tensor__"):
        converted: Tensor = value.__tensor__(dtype)
        return converted
    if type(value) in devices.XP_OF and devices.XP_OF[type(value)] is not np:
        return wrap(value.astype(element_type.dtype) if element_type else value.copy())
    if element_type is None and dtype_hint is not None and not has_dtype(value):
        try:
            return wrap_on_device(array_of(value, dtypes.as_dtype(dtype_hint)))
        except (TypeError, ValueError):
            return wrap_on_device(array_of(value))
    return wrap_on_device(array_of(value, element_type))


def tensor_beside(value: Any, dtype: dtypes.DType) -> Tensor:
    """Turn a list into a tensor of `dtype`, that of a tensor beside it, or of a dtype of its own.

    Raises:
        InvalidArgumentError: `dtype` is one of integers that does not hold those of the list.
    """
    try:
        tensor = convert_to_tensor(value, dtype_hint=dtype)
    except (TypeError, ValueError):
        require_integers_fit(value, dtype)  # which has better words for integers of many bits
        raise
    if tensor.dtype != dtype:
        require_integers_fit(value, dtype)
    return tensor


LARGE = SECOND_CACHE // 4
"""Elements from which single operations pay on several cores: this cache can't hold more."""
ON_LARGE: list[Callable[[], object]] = []
"""What is called, once, when the first tensor of so many elements is made."""


def notice(size: int) -> None:
    """Take note of a tensor of `size` elements."""
    if ON_LARGE and size >= LARGE:
        ON_LARGE.pop()()


def wrap_on_device(array: Any) -> Tensor:
    """A tensor on the NumPy `array` itself, or on its copy on the current device."""
    where = devices.current()
    notice(array.size)
    if array.dtype is OBJECTS:
        return STRING_TENSORS[0](array)
    return wrap(array if where is devices.CPU else devices.to_device(array, where))


def _stack(value: Any, dtype: DType | None) -> Tensor:
    """Items of nested lists, some of them tensors, stacked to one tensor."""
    leaf = next(x for x in nest.flatten(value) if is_tensor(x))
    element_type = dtype or leaf.dtype
    items = [x if is_tensor(x) else convert_to_tensor(x, dtype_hint=element_type) for x in value]
    stacked: Tensor = late_ops.stack(*items, axis=0)
    if dtype is not None and stacked.dtype != dtype:
        stacked = late_ops.cast(stacked, dtype=dtype.name)
    return stacked


nest.KINDS[Tensor] = None
