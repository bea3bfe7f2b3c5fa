"""Tables that functions fill, change and read while they run: `tk.lookup.experimental`."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import devices
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.facets import MESSAGE, Absent, Effect, one_by_one
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import DType, as_dtype
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.string_tensor import string_results
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.trackable import Trackable
from trainkit.core.values.text_arrays import OBJECTS

# ------------------------------------------------------------------ calls as operations


class _TableRequest:
    """One method of a table, as a setting of the operation."""

    def __init__(self, table: _MutableTable, method: str, specs: tuple[Spec, ...]) -> None:
        self.table = table
        self.method = method
        self.specs = specs

    def __repr__(self) -> str:
        return f"{self.table.name}.{self.method}"


@primitive(
    lambda *inputs, request: request.specs,
    effect=Effect("it reads or changes a table", runs_python=True),
    semantics=MESSAGE,
    text="beside numbers",
    no_gradient=Absent("keys and values are no functions of one another"),
)
def table_request(xp: Any, *arrays: Any, request: _TableRequest) -> tuple[Any, ...]:
    """Look up, insert, remove or export keys of a table, in the order of the program."""
    method = getattr(request.table, request.method)
    results = method(*(devices.to_numpy(a) for a in arrays))
    return tuple(y if y.dtype == OBJECTS else xp.asarray(y) for y in results)


table_request.declare(batch=one_by_one("the table changes from item to item"))


def _run(request: _TableRequest, *inputs: Tensor) -> tuple[Any, ...]:
    graph = trace_state.current_graph()
    if graph is not None:
        results = graph.apply(table_request.primitive, inputs, {"request": request})
        return tuple(results)
    arrays = table_request.primitive.run(tuple(x._array for x in inputs), {"request": request})
    return tuple(string_results(array) for array in arrays)


# ------------------------------------------------------------------ tables


def _pack(array: Any, name: str) -> dict[str, Any]:
    """An array for a checkpoint; texts as their bytes and how many each has."""
    if array.dtype != OBJECTS:
        return {name: array}
    texts = array.ravel().tolist()
    return {
        name: np.frombuffer(b"".join(texts), np.uint8),
        f"{name}_sizes": np.array([len(text) for text in texts], np.int64),
    }


def _unpack(arrays: dict[str, Any], name: str, dtype: DType, shape: tuple[int, ...]) -> Any:
    """What `_pack` made an array of, (size, *shape).

    Raises:
        ValueError: the arrays do not fit.
    """
    if dtype.name != "string":
        array = arrays[name]
        if array.dtype != dtype.dtype or array.shape[1:] != shape:
            raise ValueError(f"{name} of {array.dtype} {array.shape} are not {dtype.name} {shape}")
        return array
    data, sizes = arrays[name].tobytes(), arrays[f"{name}_sizes"].tolist()
    if min(sizes, default=0) < 0 or sum(sizes) != len(data):
        raise ValueError(f"{name} of {len(data)} bytes do not have the sizes that are stored")
    texts, start = np.empty(len(sizes), object), 0
    for i, size in enumerate(sizes):
        texts[i] = data[start : start + size]
        start += size
    return texts.reshape((-1, *shape)) if shape else texts


class _MutableTable(Trackable):
    """What both tables are; see `MutableHashTable`."""

    _untracked = frozenset({"_value_of_key"})

    def __init__(
        self, key_dtype: Any, value_dtype: Any, default_value: Any, name: str, checkpoint: bool
    ) -> None:
        self.key_dtype, self.value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)
        if not (self.key_dtype.is_integer or self.key_dtype.name == "string"):
            raise InvalidArgumentError(
                f"{name}: keys are text or integers, got key_dtype {self.key_dtype.name}"
            )
        self.name = name
        self._default = convert_to_tensor(default_value, dtype=self.value_dtype)
        self._value_shape = tuple(self._default.shape)
        self._checkpoint = checkpoint
        self._value_of_key: dict[Any, Any] = {}

    # -------------------------------------------------------------- for users

    def size(self, name: str | None = None) -> Tensor:
        """How many keys there are, a scalar of int64."""
        return self._one("_size", Spec((), as_dtype("int64")))

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """All keys (size,) and their values (size, ...), in the order of their insertion."""
        specs = (Spec((None,), self.key_dtype), Spec((None, *self._value_shape), self.value_dtype))
        keys, values = _run(_TableRequest(self, "_export", specs))
        return keys, values

    def insert(self, keys: Any, values: Any, name: str | None = None) -> None:
        """Give keys their values, in place of those that they have.

        Args:
            keys: any shape; of a key that is twice in it the last value counts.
            values: that of each key.
            name: not used.

        Raises:
            TypeError: keys or values are of another dtype than those of the table.
            InvalidArgumentError: there is not one value for each key.
        """
        key_tensor, value_tensor = self._keys(keys), self._values(values, "values")
        shape = (*key_tensor.shape, *self._value_shape)
        if not value_tensor.shape.is_compatible_with(shape):
            raise InvalidArgumentError(
                f"{self.name}: values for keys of shape {tuple(key_tensor.shape)} must have shape "
                f"{shape}, got {tuple(value_tensor.shape)}"
            )
        _run(_TableRequest(self, "_insert", ()), key_tensor, value_tensor)

    def remove(self, keys: Any, name: str | None = None) -> None:
        """Take keys and their values out; those that are not in it do not matter.

        Args:
            keys: any shape.
            name: not used.

        Raises:
            TypeError: they are of another dtype than those of the table.
        """
        _run(_TableRequest(self, "_remove", ()), self._keys(keys))

    def __getitem__(self, keys: Any) -> Tensor:
        return self._look_up(keys, self._default)

    def state_arrays(self) -> dict[str, Any]:
        """Keys and values, unless checkpoints are to leave them out."""
        if not self._checkpoint:
            return {}
        keys, values = self._export()
        return {**_pack(keys, "keys"), **_pack(values, "values")}

    def load_state_arrays(self, arrays: dict[str, Any]) -> None:
        """Take back the keys and values that `state_arrays` gave.

        Raises:
            ValueError: they are of other dtypes or shapes; nothing is changed then.
        """
        expected = set(self.state_arrays())
        if set(arrays) != expected:
            raise ValueError(
                f"{self.name} stores {sorted(expected)}, the file has {sorted(arrays)}"
            )
        if arrays:
            keys = _unpack(arrays, "keys", self.key_dtype, ())
            values = _unpack(arrays, "values", self.value_dtype, self._value_shape)
            if len(keys) != len(values):
                raise ValueError(f"{self.name}: {len(keys)} keys have {len(values)} values")
            self._value_of_key = dict(zip(keys.tolist(), list(values), strict=True))

    # -------------------------------------------------------------- tensors

    def _one(self, method: str, spec: Spec, *inputs: Tensor) -> Tensor:
        (result,) = _run(_TableRequest(self, method, (spec,)), *inputs)
        tensor: Tensor = result
        return tensor

    def _keys(self, keys: Any) -> Tensor:
        return self._of_dtype(keys, self.key_dtype, "keys")

    def _values(self, values: Any, argument: str) -> Tensor:
        return self._of_dtype(values, self.value_dtype, argument)

    def _of_dtype(self, x: Any, dtype: DType, argument: str) -> Tensor:
        tensor = x if is_tensor(x) else convert_to_tensor(x, dtype=dtype)
        if tensor.dtype != dtype:
            raise TypeError(
                f"{self.name}: {argument} must be {dtype.name}, got {tensor.dtype.name}"
            )
        return convert_to_tensor(tensor)

    def _look_up(self, keys: Any, default: Tensor) -> Tensor:
        key_tensor = self._keys(keys)
        shape = (*key_tensor.shape, *self._value_shape)
        if tuple(default.shape) not in (self._value_shape, shape):
            raise InvalidArgumentError(
                f"{self.name}: default values must have shape {self._value_shape} or {shape}, got "
                f"{tuple(default.shape)}"
            )
        return self._one("_find", Spec(shape, self.value_dtype), key_tensor, default)

    # -------------------------------------------------------------- arrays

    def _check_keys(self, keys: list[Any]) -> None:
        """Refuse keys that the table can't have."""

    def _size(self) -> tuple[Any, ...]:
        return (np.array(len(self._value_of_key), np.int64),)

    def _export(self) -> tuple[Any, Any]:
        pairs = self._value_of_key
        keys = np.empty(len(pairs), self.key_dtype.dtype)
        values = np.empty((len(pairs), *self._value_shape), self.value_dtype.dtype)
        for i, (key, value) in enumerate(pairs.items()):
            keys[i], values[i] = key, value
        return keys, values

    def _find(self, keys: Any, default: Any) -> tuple[Any, ...]:
        texts = keys.ravel().tolist()
        self._check_keys(texts)
        shape = (*keys.shape, *self._value_shape)
        out = np.empty(shape, self.value_dtype.dtype)
        out[...] = default
        rows = out.reshape((len(texts), *self._value_shape))
        for i, key in enumerate(texts):
            if key in self._value_of_key:
                rows[i] = self._value_of_key[key]
        return (rows.reshape(shape),)

    def _insert(self, keys: Any, values: Any) -> tuple[Any, ...]:
        texts = keys.ravel().tolist()
        self._check_keys(texts)
        rows = np.array(values).reshape((len(texts), *self._value_shape))
        self._value_of_key.update(zip(texts, list(rows), strict=True))
        return ()

    def _remove(self, keys: Any) -> tuple[Any, ...]:
        texts = keys.ravel().tolist()
        self._check_keys(texts)
        for key in texts:
            self._value_of_key.pop(key, None)
        return ()


def _refuse_anonymous(name: str, anonymous: bool) -> None:
    if anonymous:
        raise InvalidArgumentError(f"{name}: experimental_is_anonymous must be False")


class MutableHashTable(_MutableTable):
    """A table that changes, with a value for keys that it has not.

    In a function it changes each time that the function runs, in the order of the program.

    Args:
        key_dtype: `string`, or an integer type.
        value_dtype: of the values.
        default_value: of keys that it has not; its shape is that of each value.
        name: in errors.
        checkpoint: whether checkpoints store what is in it.
        experimental_is_anonymous: must be false: tables belong to nobody but who holds them.

    Raises:
        InvalidArgumentError: keys are of another type.

    >>> table = MutableHashTable("string", "int64", default_value=-1)
    >>> table.insert(["a", "b"], [1, 2])
    >>> table.remove(["b"])
    >>> table.lookup(["a", "b"]).numpy().tolist()
    [1, -1]
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        _refuse_anonymous(name, experimental_is_anonymous)
        super().__init__(key_dtype, value_dtype, default_value, name, checkpoint)

    def lookup(
        self, keys: Any, dynamic_default_values: Any = None, name: str | None = None
    ) -> Tensor:
        """The values of keys.

        Args:
            keys: any shape.
            dynamic_default_values: in place of `default_value`, for all keys or for each.
            name: not used.

        Returns:
            A tensor of the shape of `keys` and, behind it, of a value.

        Raises:
            TypeError: keys or default values are of another dtype than those of the table.
            InvalidArgumentError: the default values have another shape.
        """
        if dynamic_default_values is None:
            return self._look_up(keys, self._default)
        return self._look_up(keys, self._values(dynamic_default_values, "dynamic_default_values"))


class DenseHashTable(_MutableTable):
    """A `MutableHashTable` with two keys that it never has.

    TensorFlow marks free places in memory by these keys, and exports them; here no place is free,
    so `export` gives the keys that were inserted.

    Args:
        key_dtype: `string`, or an integer type.
        value_dtype: of the values.
        default_value: of keys that it has not; its shape is that of each value.
        empty_key: a key that is refused.
        deleted_key: another one.
        initial_num_buckets: 4 or more and a power of 2; the table grows as it is filled.
        name: in errors.
        checkpoint: whether checkpoints store what is in it.
        experimental_is_anonymous: must be false: tables belong to nobody but who holds them.

    Raises:
        InvalidArgumentError: keys are of another type, the two keys are equal, or the number of
            buckets is none of those above.

    >>> table = DenseHashTable("int64", "float32", -1.0, empty_key=-1, deleted_key=-2)
    >>> table.insert([1, 2], [0.5, 1.5])
    >>> table.lookup([2, 3]).numpy().tolist()
    [1.5, -1.0]
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        empty_key: Any,
        deleted_key: Any,
        initial_num_buckets: int | None = None,
        name: str = "MutableDenseHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        _refuse_anonymous(name, experimental_is_anonymous)
        super().__init__(key_dtype, value_dtype, default_value, name, checkpoint)
        buckets = initial_num_buckets
        if buckets is not None and (buckets < 4 or buckets & (buckets - 1)):
            raise InvalidArgumentError(
                f"{name}: initial_num_buckets must be 4 or more and a power of 2, got {buckets}"
            )
        empty, deleted = (
            devices.to_numpy(self._keys(key)._array).item() for key in (empty_key, deleted_key)
        )
        if empty == deleted:
            raise InvalidArgumentError(f"{name}: empty_key and deleted_key are both {empty!r}")
        self._refused = ((empty, "empty_key"), (deleted, "deleted_key"))

    def _check_keys(self, keys: list[Any]) -> None:
        for key, argument in self._refused:
            if key in keys:
                raise InvalidArgumentError(f"{self.name}: the {argument} {key!r} is no key")

    def lookup(self, keys: Any, name: str | None = None) -> Tensor:
        """The values of keys.

        Args:
            keys: any shape.
            name: not used.

        Returns:
            A tensor of the shape of `keys` and, behind it, of a value.

        Raises:
            TypeError: they are of another dtype than those of the table.
            InvalidArgumentError: the empty or the deleted key is among them.
        """
        return self._look_up(keys, self._default)

    def insert_or_assign(self, keys: Any, values: Any, name: str | None = None) -> None:
        """`insert` under TensorFlow's second name."""
        self.insert(keys, values)

    def erase(self, keys: Any, name: str | None = None) -> None:
        """`remove` under TensorFlow's second name."""
        self.remove(keys)
