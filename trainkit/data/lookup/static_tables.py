"""Tables from texts or numbers to values, which graphs read: `tk.lookup`."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import devices
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.files.local_paths import local_path
from trainkit.core.files.readable_files import read_text
from trainkit.core.fingerprints import fingerprint64
from trainkit.core.string_tensor import string_results
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.number_texts import read_number
from trainkit.core.values.text_arrays import OBJECTS
from trainkit.ops.core.dynamic_shapes import like, needs_values
from trainkit.ops.sampling.draw_devices import beside


class TextFileIndex:
    """What of a line of a file is a key or a value, besides the number of a column."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class KeyValueTensorInitializer:
    """Keys and values given in full.

    Args:
        keys: (size,), texts or integers, each once.
        values: (size,), the value of each.
        key_dtype: of the keys; that of the tensor they make by default.
        value_dtype: of the values, likewise.
        name: not used.

    Raises:
        InvalidArgumentError: there is not one value for each key.
    """

    def __init__(
        self,
        keys: Any,
        values: Any,
        key_dtype: Any = None,
        value_dtype: Any = None,
        name: str | None = None,
    ) -> None:
        keys, values = (list(x) if isinstance(x, range) else x for x in (keys, values))
        self.keys = convert_to_tensor(keys, dtype=key_dtype)
        self.values = convert_to_tensor(values, dtype=value_dtype)
        if len(self.keys.shape) != 1 or tuple(self.keys.shape) != tuple(self.values.shape):
            raise InvalidArgumentError(
                f"KeyValueTensorInitializer: keys of shape {tuple(self.keys.shape)} and values of "
                f"shape {tuple(self.values.shape)} must be vectors of one length"
            )
        self.key_dtype, self.value_dtype = self.keys.dtype, self.values.dtype


class TextFileInitializer(KeyValueTensorInitializer):
    """Keys and values from the lines of a text file.

    Args:
        filename: its path.
        key_dtype: `string`, or an integer type.
        key_index: the column with the key, counted from 0, or one of `TextFileIndex`.
        value_dtype: of the values.
        value_index: the column with the value, or one of `TextFileIndex`.
        vocab_size: how many lines to read; all by default.
        delimiter: between columns.
        name: not used.
        value_index_offset: added to line numbers as values.

    Raises:
        InvalidArgumentError: the file has fewer lines or columns than asked for, a number is none,
            or it can't be read as text.
        NotFoundError: there is no such file.
    """

    def __init__(
        self,
        filename: Any,
        key_dtype: Any,
        key_index: int,
        value_dtype: Any,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = None,
        value_index_offset: int = 0,
    ) -> None:
        path = local_path(filename)
        text = read_text(path, "vocabulary", newline="\n")
        lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
        lines = lines if text else []
        if vocab_size is not None and len(lines) < vocab_size:
            raise InvalidArgumentError(
                f"TextFileInitializer: {path} has {len(lines)} lines, vocab_size is {vocab_size}"
            )
        lines = lines[:vocab_size]
        super().__init__(
            _column(lines, key_index, key_dtype, delimiter, 0),
            _column(lines, value_index, value_dtype, delimiter, value_index_offset),
            key_dtype,
            value_dtype,
        )


def _column(lines: list[str], index: int, dtype: Any, delimiter: str, offset: int) -> list[Any]:
    """What stands at `index` of each line, as `dtype`; line numbers begin at `offset`.

    Raises:
        InvalidArgumentError: a line has too few columns, or what stands there is no number.
    """
    if index == TextFileIndex.LINE_NUMBER:
        return list(range(offset, offset + len(lines)))
    if index == TextFileIndex.WHOLE_LINE:
        texts = lines
    else:
        rows = [line.split(delimiter) for line in lines]
        short = next((i for i, row in enumerate(rows) if index >= len(row)), None)
        if short is not None:
            raise InvalidArgumentError(
                f"TextFileInitializer: line {short + 1} has {len(rows[short])} columns, there is "
                f"no column {index}"
            )
        texts = [row[index] for row in rows]
    kind = as_dtype(dtype)
    if kind.name == "string":
        return texts
    try:
        return [read_number(t, not kind.is_floating) for t in texts]
    except ValueError as error:
        raise InvalidArgumentError(f"TextFileInitializer: {error}") from None


def _items(x: Any, table: Any) -> Any:
    """The keys in a tensor as an array.

    Raises:
        InvalidArgumentError: their element type is not that of the table.
    """
    tensor = convert_to_tensor(x)
    if tensor.dtype != table.key_dtype:
        raise InvalidArgumentError(
            f"{table.name}: takes keys of {table.key_dtype.name}, got {tensor.dtype.name}"
        )
    return devices.to_numpy(tensor._array)


@needs_values("keys", gives=lambda a: like(a["keys"], a["table"].value_dtype))
def _look_up(keys: Any, table: Any) -> Any:
    """The values of keys."""
    with beside(keys):  # text is in the host's memory; its numbers go to the current device
        return table._values_of(_items(keys, table))


class _StaticTable:
    """What both tables are; see `StaticHashTable`."""

    def __init__(self, initializer: Any, name: str) -> None:
        keys, values = (devices.to_numpy(x._array) for x in (initializer.keys, initializer.values))
        pairs = list(zip(keys.tolist(), values.tolist(), strict=True))
        self._known = dict(pairs)
        twice = next((key for key, value in pairs if self._known[key] != value), None)
        if twice is not None:
            raise InvalidArgumentError(f"{name}: the key {twice!r} has two values")
        self.key_dtype, self.value_dtype = initializer.key_dtype, initializer.value_dtype
        self.name = name

    def lookup(self, keys: Any, name: str | None = None) -> Tensor:
        """The values of keys.

        Args:
            keys: any shape, of the element type of the keys.
            name: not used.

        Returns:
            A tensor of that shape.

        Raises:
            InvalidArgumentError: `keys` are of another type.
        """
        values: Tensor = _look_up(keys, self)
        return values

    def __getitem__(self, keys: Any) -> Tensor:
        return self.lookup(keys)

    def _fill_missing(self, values: list[Any], shape: Any) -> Tensor:
        out = np.empty(len(values), self.value_dtype.dtype)
        if out.dtype != OBJECTS:
            out[:] = values
            return convert_to_tensor(out.reshape(shape))
        for i, value in enumerate(values):
            out[i] = value
        result: Tensor = string_results(out.reshape(shape))
        return result


class StaticHashTable(_StaticTable):
    """A table that never changes, with a value for keys that it has not.

    Args:
        initializer: the keys and values.
        default_value: of unknown keys.
        name: in errors.
        experimental_is_anonymous: must be false: tables belong to nobody but who holds them.

    Raises:
        InvalidArgumentError: a key has two values.

    >>> init = KeyValueTensorInitializer(["a", "b"], [1, 2])
    >>> StaticHashTable(init, -1).lookup(tk.constant(["b", "z"])).numpy().tolist()
    [2, -1]
    """

    def __init__(
        self,
        initializer: Any,
        default_value: Any,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        if experimental_is_anonymous:
            raise InvalidArgumentError("StaticHashTable: experimental_is_anonymous must be False")
        super().__init__(initializer, name or "StaticHashTable")
        self.default_value = convert_to_tensor(default_value, dtype=self.value_dtype)
        self._default = devices.to_numpy(self.default_value._array).item()

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """All keys (size,) and their values (size,), in the order of the initializer."""
        keys = np.empty(len(self._known), self.key_dtype.dtype)
        for i, key in enumerate(self._known):
            keys[i] = key
        of_text = keys.dtype == OBJECTS
        known_keys = string_results(keys) if of_text else convert_to_tensor(keys)
        return known_keys, self._fill_missing(list(self._known.values()), keys.shape)

    def size(self, name: str | None = None) -> Tensor:
        """How many keys there are, a scalar of int64."""
        return convert_to_tensor(len(self._known), dtype="int64")

    def _values_of(self, keys: Any) -> Tensor:
        value_of_key, default = self._known, self._default
        return self._fill_missing(
            [value_of_key.get(key, default) for key in keys.ravel().tolist()], keys.shape
        )


class StaticVocabularyTable(_StaticTable):
    """Numbers of texts or integers; those it does not know share some more by their hash.

    Args:
        initializer: keys and their numbers, int64; `None` to number all by hash.
        num_oov_buckets: how many numbers, behind those of the keys, unknown ones have: 1 or more.
        lookup_key_dtype: of the keys that are looked up; that of the initializer, or string.
        name: in errors.
        experimental_is_anonymous: must be false.

    Raises:
        InvalidArgumentError: keys or numbers are of another type, or there is no bucket.
    """

    def __init__(
        self,
        initializer: Any,
        num_oov_buckets: int,
        lookup_key_dtype: Any = None,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        name = name or "StaticVocabularyTable"
        if experimental_is_anonymous:
            raise InvalidArgumentError(f"{name}: experimental_is_anonymous must be False")
        if num_oov_buckets < 1:
            raise InvalidArgumentError(f"{name}: num_oov_buckets must be 1 or more")
        if initializer is None:
            initializer = KeyValueTensorInitializer(
                np.zeros(0, object) if lookup_key_dtype is None else [], np.zeros(0, np.int64),
                lookup_key_dtype or "string",
            )  # fmt: skip
        super().__init__(initializer, name)
        integers = self.key_dtype.is_integer
        if self.value_dtype.name != "int64" or not (integers or self.key_dtype.name == "string"):
            raise InvalidArgumentError(
                f"{name}: keys are text or integers and values int64, got "
                f"{self.key_dtype.name} and {self.value_dtype.name}"
            )
        key_dtype = self.key_dtype if lookup_key_dtype is None else as_dtype(lookup_key_dtype)
        if key_dtype.is_integer != integers:
            raise InvalidArgumentError(
                f"{name}: lookup_key_dtype {key_dtype.name}, the keys are {self.key_dtype.name}"
            )
        self.key_dtype, self._buckets = key_dtype, num_oov_buckets

    def size(self, name: str | None = None) -> Tensor:
        """How many numbers there are, those of unknown keys included, a scalar of int64."""
        return convert_to_tensor(len(self._known) + self._buckets, dtype="int64")

    def _values_of(self, keys: Any) -> Tensor:
        value_of_key = self._known
        values = [
            self._bucket(key) if (value := value_of_key.get(key)) is None else value
            for key in keys.ravel().tolist()
        ]
        return self._fill_missing(values, keys.shape)

    def _bucket(self, key: Any) -> int:
        text = key if isinstance(key, bytes) else str(key).encode()
        return len(self._known) + fingerprint64(text) % self._buckets
