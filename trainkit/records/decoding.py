"""Bytes as tensors, and back: raw numbers, base64, CSV, serialized tensors and examples."""

from __future__ import annotations

import base64
import os
from typing import Any

import numpy as np

from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import InvalidArgumentError, NotFoundError, OpError
from trainkit.core.files.local_paths import local_path
from trainkit.core.files.readable_files import open_regular
from trainkit.core.shapes import Spec
from trainkit.core.string_tensor import string_results
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import DTypeLike
from trainkit.ops.core.dynamic_shapes import Bound, needs_values
from trainkit.ops.core.strings import each, one_text, texts_of
from trainkit.records import csv_rows, tensor_messages
from trainkit.records import features as _features
from trainkit.records.features import FixedLenSequenceFeature

_TEXT = Spec((), "string")


# ------------------------------------------------------------------ files


@needs_values("filename", gives=lambda a: _TEXT)
def read_file(filename: Any, name: str | None = None) -> Tensor:
    """The content of a file, as a string scalar.

    Args:
        filename: path, or string scalar.

    Raises:
        NotFoundError: there is no such file.
        InvalidArgumentError: it can't be read, or is a pipe, a device or a folder.
        UnimplementedError: it is an address of another system, such as `s3://bucket/name`.

    Example:
        >>> tk.io.write_file("a.txt", "text")
        >>> tk.io.read_file("a.txt").numpy()
        b'text'
    """
    path = _path(filename, "read_file")
    try:
        with open_regular(path) as file:
            return convert_to_tensor(file.read())
    except NotFoundError as error:
        raise NotFoundError(f"read_file: {error}") from None
    except OpError:
        raise
    except OSError as error:
        raise InvalidArgumentError(f"read_file: {path!r} can't be read: {error}") from None


def _path(filename: Any, caller: str) -> str:
    return (
        local_path(filename)
        if isinstance(filename, os.PathLike)
        else local_path(one_text(filename, caller))
    )


def write_file(filename: Any, contents: Any, name: str | None = None) -> None:
    """Write bytes to a file; folders that are missing are made.

    Args:
        filename: path, or string scalar.
        contents: string scalar, or bytes.

    Raises:
        UnimplementedError: it is an address of another system, such as `s3://bucket/name`.

    Example:
        >>> tk.io.write_file("a.txt", "text")
        >>> tk.io.read_file("a.txt").numpy()
        b'text'
    """
    path = _path(filename, "write_file")
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)
    with open(path, "wb") as file:
        file.write(one_text(contents, "write_file"))


# ------------------------------------------------------------------ bytes as tensors


def _raw_spec(a: Bound) -> Spec:
    x = convert_to_tensor(a["input_bytes"])
    return Spec((*x.shape, None), as_dtype(a["out_type"]))


@needs_values("input_bytes", "fixed_length", gives=_raw_spec)
def decode_raw(
    input_bytes: Any,
    out_type: DTypeLike,
    little_endian: bool = True,
    fixed_length: int | None = None,
    name: str | None = None,
) -> Tensor:
    """The numbers that bytes stand for, along a new last axis.

    Args:
        input_bytes: texts of one length.
        out_type: element type.
        little_endian: the order of the bytes of a number.
        fixed_length: bytes to which texts are cut, or filled up with zeros; needed where their
            lengths differ.

    Raises:
        InvalidArgumentError: the lengths differ, or are no whole number of elements.

    Example:
        >>> tk.io.decode_raw(np.array([1, 2], "<i4").tobytes(), tk.int32).numpy()
        array([1, 2], dtype=int32)
    """
    array, dtype = texts_of(input_bytes, "decode_raw"), as_dtype(out_type)
    items = array.ravel().tolist()
    if fixed_length is not None:
        length = int(fixed_length)
        if length < 1 or length % dtype.size:
            raise InvalidArgumentError(
                f"decode_raw: fixed_length {length} is no whole number of {dtype.name}"
            )
        items = [item[:length].ljust(length, b"\0") for item in items]
    lengths = {len(item) for item in items}
    if len(lengths) > 1 or any(n % dtype.size for n in lengths):
        raise InvalidArgumentError(
            f"decode_raw: texts have {sorted(lengths)} bytes; one length, a multiple of "
            f"{dtype.size}, is needed. See fixed_length."
        )
    order = dtype.dtype if little_endian else dtype.dtype.newbyteorder(">")
    count = (lengths.pop() if lengths else 0) // dtype.size
    values = np.frombuffer(b"".join(items), order).astype(dtype.dtype)
    return convert_to_tensor(values.reshape(*array.shape, count))


def _no_spec(a: Bound) -> Spec:
    raise InvalidArgumentError(
        "parse_tensor: the shape is known only with the bytes; in a traced function take "
        "tk.py_function, which says what comes out"
    )


@needs_values("serialized", gives=_no_spec)
def parse_tensor(serialized: Any, out_type: DTypeLike, name: str | None = None) -> Tensor:
    """The tensor that `serialize_tensor` made a text of.

    Args:
        serialized: string scalar.
        out_type: dtype that the tensor has.

    Raises:
        DataLossError: the text holds no tensor.
        InvalidArgumentError: the tensor has another dtype.

    Example:
        >>> tk.io.parse_tensor(tk.io.serialize_tensor([1.0, 2.0]), tk.float32).numpy()
        array([1., 2.], dtype=float32)
    """
    array = tensor_messages.unpacked(one_text(serialized, "parse_tensor"))
    return string_results(tensor_messages.checked(array, out_type))


@needs_values("tensor", gives=lambda a: _TEXT)
def serialize_tensor(tensor: Any, name: str | None = None) -> Tensor:
    """A tensor as a string scalar, TensorFlow's `TensorProto`.

    Args:
        tensor: of any shape.

    Example:
        >>> tk.io.parse_tensor(tk.io.serialize_tensor([1, 2]), tk.int32).numpy()
        array([1, 2], dtype=int32)
    """
    value = convert_to_tensor(tensor).numpy()
    array = np.asarray(value, object if isinstance(value, bytes) else None)
    return convert_to_tensor(tensor_messages.packed(array))


def _base64_spec(a: Bound) -> Spec:
    return Spec(convert_to_tensor(a["input"]).shape, "string")


@needs_values("input", gives=_base64_spec)
def encode_base64(input: Any, pad: bool = False, name: str | None = None) -> Tensor:
    """Texts in the letters of web-safe base64; `pad` for `=` at their ends.

    Args:
        input: tensor of text.
        pad: fill up with `=`.

    Example:
        >>> tk.io.encode_base64("cat").numpy()
        b'Y2F0'
    """

    def encode(text: bytes) -> bytes:
        letters = base64.urlsafe_b64encode(text)
        return letters if pad else letters.rstrip(b"=")

    return each(encode, "string", texts_of(input, "encode_base64"))


@needs_values("input", gives=_base64_spec)
def decode_base64(input: Any, name: str | None = None) -> Tensor:
    """What `encode_base64` made other texts of.

    Args:
        input: tensor of text.

    Raises:
        InvalidArgumentError: a text has other letters.

    Example:
        >>> tk.io.decode_base64(tk.io.encode_base64("cat")).numpy()
        b'cat'
    """

    def decode(text: bytes) -> bytes:
        bare = text.rstrip(b"=")
        try:
            return base64.b64decode(bare + b"=" * (-len(bare) % 4), b"-_", validate=True)
        except ValueError as error:
            raise InvalidArgumentError(f"decode_base64: {text!r}: {error}") from None

    return each(decode, "string", texts_of(input, "decode_base64"))


# ------------------------------------------------------------------ CSV


def _csv_specs(a: Bound) -> list[Spec]:
    shape = convert_to_tensor(a["records"]).shape
    return [Spec(shape, csv_rows.Column(default).dtype) for default in a["record_defaults"]]


@needs_values("records", gives=_csv_specs)
def decode_csv(
    records: Any,
    record_defaults: Any,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Any = None,
    name: str | None = None,
) -> list[Tensor]:
    """The columns of texts that are rows of CSV.

    Args:
        records: tensor of text, a row each.
        record_defaults: for each column a dtype, if no field may be empty, or the value for empty
            fields.
        field_delim: between fields.
        use_quote_delim: whether quotation marks hold a field together.
        na_value: a text that counts as an empty field.
        select_cols: places of the columns that are read; all by default.

    Returns:
        A tensor for each column, of the shape of `records`.

    Raises:
        InvalidArgumentError: a row does not fit.

    Example:
        >>> number, word = tk.io.decode_csv(["1,a", "2,b"], [[0], [""]])
        >>> number.numpy(), word.numpy()
        (array([1, 2], dtype=int32), array([b'a', b'b'], dtype=object))
    """
    lines, columns = texts_of(records, "decode_csv"), [csv_rows.Column(d) for d in record_defaults]
    column_indices = list(range(len(columns)) if select_cols is None else map(int, select_cols))
    if not columns:
        raise InvalidArgumentError("decode_csv: give record_defaults, one for each column")
    if len(column_indices) != len(columns):
        raise InvalidArgumentError(
            f"decode_csv: {len(column_indices)} select_cols for {len(columns)} record_defaults"
        )
    outs = [np.empty(lines.shape, column.dtype.dtype) for column in columns]
    for index in np.ndindex(lines.shape):
        text = lines[index].decode(errors="surrogateescape")
        rows = csv_rows.fields_of([text], field_delim, use_quote_delim, "decode_csv")
        fields = next(iter(rows), [""]) or [""]
        field_count = len(columns) if select_cols is None else None
        if (field_count is not None and len(fields) != field_count) or len(fields) <= max(
            column_indices
        ):
            expected_count = field_count or max(column_indices) + 1
            raise InvalidArgumentError(
                f"decode_csv: {text!r} has {len(fields)} fields, expected {expected_count}"
            )
        for out, column, at in zip(outs, columns, column_indices, strict=True):
            value = column.parsed(fields[at], na_value, f"field {at} of {text!r}")
            out[index] = value[()] if isinstance(value, np.ndarray) else value
    return [string_results(out) for out in outs]


# ------------------------------------------------------------------ examples


def _parsed_spec(spec: Any, batch: tuple[Any, ...]) -> Spec:
    rows = (None,) if isinstance(spec, FixedLenSequenceFeature) else ()
    return Spec((*batch, *rows, *spec.shape), spec.dtype)


def _single_specs(a: Bound) -> dict[str, Spec]:
    return {key: _parsed_spec(spec, ()) for key, spec in sorted(a["features"].items())}


def _batch_specs(a: Bound) -> dict[str, Spec]:
    batch = tuple(convert_to_tensor(a["serialized"]).shape)
    return {key: _parsed_spec(spec, batch) for key, spec in sorted(a["features"].items())}


def _check(described: Any, caller: str) -> None:
    if not isinstance(described, dict) or not described:
        raise InvalidArgumentError(f"{caller}: features must be a dict that is not empty")


@needs_values("serialized", gives=_single_specs)
def parse_single_example(
    serialized: Any, features: dict[str, Any], example_names: Any = None, name: str | None = None
) -> dict[str, Tensor]:
    """The features of one serialized `Example`.

    Args:
        serialized: string scalar.
        features: `FixedLenFeature` or `FixedLenSequenceFeature` by name.
        example_names: a text for errors.

    Raises:
        InvalidArgumentError: the bytes are no Example, a feature is missing and has no default, or
            its values do not fit.

    Example:
        >>> feature = tk.train.Feature(float_list=tk.train.FloatList(value=[0.5]))
        >>> example = tk.train.Example(features=tk.train.Features(feature={"x": feature}))
        >>> wanted = {"x": tk.io.FixedLenFeature([], tk.float32)}
        >>> tk.io.parse_single_example(example.SerializeToString(), wanted)["x"].numpy()
        np.float32(0.5)
    """
    _check(features, "parse_single_example")
    label = "" if example_names is None else one_text(example_names, "example_names").decode()
    arrays = _features.parsed(one_text(serialized, "parse_single_example"), features, label)
    return {key: string_results(np.array(array)) for key, array in arrays.items()}


@needs_values("serialized", gives=_batch_specs)
def parse_example(
    serialized: Any, features: dict[str, Any], example_names: Any = None, name: str | None = None
) -> dict[str, Tensor]:
    """The features of serialized `Example`s, stacked.

    Args:
        serialized: strings (batch,), or a scalar.
        features: `FixedLenFeature` or `FixedLenSequenceFeature` by name; rows of the second are
            filled up to the longest of the batch.
        example_names: texts (batch,) for errors.

    Raises:
        InvalidArgumentError: as those of `parse_single_example`.

    Example:
        >>> feature = tk.train.Feature(int64_list=tk.train.Int64List(value=[7]))
        >>> example = tk.train.Example(features=tk.train.Features(feature={"age": feature}))
        >>> wanted = {"age": tk.io.FixedLenFeature([], tk.int64)}
        >>> tk.io.parse_example([example.SerializeToString()], wanted)["age"].numpy()
        array([7])
    """
    texts = texts_of(serialized, "parse_example")
    if texts.ndim == 0:
        return parse_single_example(serialized, features, example_names)
    _check(features, "parse_example")
    labels = [str(i) for i in range(len(texts))]
    if example_names is not None:
        labels = [label.decode() for label in texts_of(example_names, "example_names").tolist()]
    rows = [
        _features.parsed(t, features, label)
        for t, label in zip(texts.tolist(), labels, strict=True)
    ]
    return {key: string_results(array) for key, array in _features.stacked(rows, features).items()}
