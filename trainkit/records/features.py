"""Reading features out of serialized `Example`s.

Source: the documented rules of `tf.io.parse_example`: a missing feature takes its default, a
present one has as many values as its shape holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from trainkit.core.dtypes import DType, as_dtype, string
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.tensor import convert_to_tensor
from trainkit.core.values.text_arrays import text_array
from trainkit.core.values.type_aliases import DTypeLike
from trainkit.records import messages

_LISTS = {"int64": "int64_list", "float32": "float_list", "string": "bytes_list"}


class _DescribedFeature:
    def __init__(self, shape: Any, dtype: DTypeLike) -> None:
        dims = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
        self.shape, self.dtype = dims, as_dtype(dtype)
        if self.dtype.name not in _LISTS:
            raise InvalidArgumentError(
                f"{type(self).__name__}: dtype {self.dtype.name}; an Example holds int64, float32 "
                "and string"
            )
        self.default_value: Any = None

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(shape={list(self.shape)}, dtype={self.dtype!r}, "
            f"default_value={self.default_value!r})"
        )

    @property
    def size(self) -> int:
        """How many values the shape holds."""
        return int(np.prod(self.shape, dtype=np.int64))


class FixedLenFeature(_DescribedFeature):
    """A feature with as many values in each example.

    Args:
        shape: of the values.
        dtype: int64, float32 or string.
        default_value: stands for a missing feature; without one it must be there.

    Example:
        >>> feature = tk.train.Feature(int64_list=tk.train.Int64List(value=[7]))
        >>> example = tk.train.Example(features=tk.train.Features(feature={"age": feature}))
        >>> wanted = {"age": tk.io.FixedLenFeature([], tk.int64)}
        >>> tk.io.parse_single_example(example.SerializeToString(), wanted)["age"].numpy()
        np.int64(7)
    """

    def __init__(self, shape: Any, dtype: DTypeLike, default_value: Any = None) -> None:
        super().__init__(shape, dtype)
        self.default_value = default_value

    def default(self) -> Any:
        """The default in the shape of the feature."""
        value = convert_to_tensor(self.default_value).numpy()
        array = np.asarray(value, object if isinstance(value, bytes) else None)
        if self.dtype is not string:
            array = array.astype(self.dtype.dtype)
        return (
            np.broadcast_to(array.reshape(-1), self.size).reshape(self.shape)
            if (array.size == 1)
            else array.reshape(self.shape)
        )


class FixedLenSequenceFeature(_DescribedFeature):
    """A feature with any number of rows of one shape; batches are filled up.

    Args:
        shape: of a row.
        dtype: int64, float32 or string.
        allow_missing: must be True: an example without the feature has no rows.
        default_value: what rows are filled up with, 0 or an empty text by default.

    Raises:
        InvalidArgumentError: `allow_missing` is False.

    Example:
        >>> tk.io.FixedLenSequenceFeature([], tk.int64, allow_missing=True).dtype.name
        'int64'
    """

    def __init__(
        self, shape: Any, dtype: DTypeLike, allow_missing: bool = False, default_value: Any = None
    ) -> None:
        super().__init__(shape, dtype)
        if not allow_missing:
            raise InvalidArgumentError(
                "FixedLenSequenceFeature: only allow_missing=True is supported"
            )
        self.allow_missing, self.default_value = True, default_value

    def filler(self) -> Any:
        """The value to fill up with."""
        if self.default_value is None:
            return b"" if self.dtype is string else 0
        value = convert_to_tensor(self.default_value).numpy()
        return value if isinstance(value, bytes) else np.asarray(value).reshape(())[()]


def _no_sparse(name: str) -> Any:
    def make(*args: Any, **kwargs: Any) -> Any:
        raise UnimplementedError(
            f"{name}: there are no sparse or ragged tensors; use FixedLenSequenceFeature(shape, "
            "dtype, allow_missing=True) for any number of values, FixedLenFeature for a fixed one"
        )

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"TensorFlow's `{name}`, for tensors that are not here: it raises."
    return make


VarLenFeature = _no_sparse("VarLenFeature")
SparseFeature = _no_sparse("SparseFeature")
RaggedFeature = _no_sparse("RaggedFeature")


def example_from(data: bytes) -> Any:
    """The `Example` in some bytes.

    Raises:
        InvalidArgumentError: they are none.
    """
    try:
        return messages.Example.FromString(data)
    except DecodeError as error:
        raise InvalidArgumentError(f"parse_example: the bytes are no Example: {error}") from None


def parsed(data: bytes, features: dict[str, Any], name: str = "") -> dict[str, Any]:
    """The features of one serialized example, as arrays by name.

    Raises:
        InvalidArgumentError: the bytes are no Example, a feature is missing and has no default, or
            its values do not fit.
    """
    stored = example_from(data).features.feature
    where = f" of example {name}" if name else ""
    return {key: _one(stored, key, features[key], where) for key in sorted(features)}


def _one(stored: Any, key: str, spec: Any, where: str) -> Any:
    if not isinstance(spec, _DescribedFeature):
        raise InvalidArgumentError(
            f"parse_example: {key!r} is described by {spec!r}, not a feature"
        )
    kind = stored[key].WhichOneof("kind") if key in stored else None
    if kind is None:
        if isinstance(spec, FixedLenSequenceFeature):
            return _array([], spec.dtype).reshape((0, *spec.shape))
        if not isinstance(spec, FixedLenFeature) or spec.default_value is None:
            raise InvalidArgumentError(
                f"parse_example: feature {key!r}{where} is missing and has no default_value"
            )
        return spec.default()
    if kind != _LISTS[spec.dtype.name]:
        raise InvalidArgumentError(
            f"parse_example: feature {key!r}{where} is a {kind}, {spec.dtype.name} was asked for"
        )
    values = _array(getattr(stored[key], kind).value, spec.dtype)
    sequence = isinstance(spec, FixedLenSequenceFeature)
    if values.size % max(spec.size, 1) if sequence else values.size != spec.size:
        raise InvalidArgumentError(
            f"parse_example: feature {key!r}{where} has {values.size} values, its shape "
            f"{spec.shape} holds {spec.size}"
        )
    rows = (values.size // max(spec.size, 1), *spec.shape) if sequence else spec.shape
    return values.reshape(rows)


def _array(values: Any, dtype: DType) -> Any:
    if dtype is string:
        return text_array(list(values))
    return np.array(values, dtype.dtype)


def stacked(rows: list[dict[str, Any]], features: dict[str, Any]) -> dict[str, Any]:
    """The features of several examples, stacked; sequences are filled up to the longest."""
    arrays = {}
    for key in sorted(features):
        spec = features[key]
        column = [row[key] for row in rows]
        if isinstance(spec, FixedLenSequenceFeature):
            longest = max((len(array) for array in column), default=0)
            out = np.full((len(column), longest, *spec.shape), spec.filler(), spec.dtype.dtype)
            for row, array in zip(out, column, strict=True):
                row[: len(array)] = array
        else:
            out = np.empty((len(column), *spec.shape), spec.dtype.dtype)
            for i, array in enumerate(column):
                out[i] = array if array.ndim else array[()]
        arrays[key] = out
    return arrays
