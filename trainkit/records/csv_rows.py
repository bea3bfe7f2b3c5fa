"""Rows of CSV files as numbers and texts of given types.

Source: RFC 4180, with TensorFlow's rules for missing fields and for the types of columns.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from trainkit.core.dtypes import DType, as_dtype
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import convert_to_tensor
from trainkit.core.values.number_texts import read_number
from trainkit.core.values.text_arrays import as_text
from trainkit.records.streams import lines_of

TYPES = ("float32", "float64", "int32", "int64", "string")


class Column:
    """The type of a column, and what stands where a field is empty.

    Args:
        default: a dtype, for a column in which no field may be empty, or a value, or a list of one.

    Attributes:
        dtype: element type.
        value: for empty fields, `None` where there is none.

    Raises:
        InvalidArgumentError: the type is none that a column may have.
    """

    def __init__(self, default: Any) -> None:
        self.value: Any = None
        if _is_type(default):
            self.dtype = as_dtype(default)
        else:
            array = convert_to_tensor(default).numpy()
            values = np.asarray(array, object if isinstance(array, bytes) else None).reshape(-1)
            if values.size > 1:
                raise InvalidArgumentError(f"csv: a default of {values.size} values, {default!r}")
            self.dtype = as_dtype(values.dtype)
            self.value = values[0] if values.size else None
        if self.dtype.name not in TYPES:
            raise InvalidArgumentError(
                f"csv: a column can't be {self.dtype.name}; there are {', '.join(TYPES)}"
            )

    def parsed(self, field: str, na_value: str, where: str) -> Any:
        """A field as a scalar of the column's type.

        Raises:
            InvalidArgumentError: it is empty and has no default, or is no such number.
        """
        if not field or field == na_value:
            if self.value is None:
                raise InvalidArgumentError(f"csv: {where} is empty, and the column has no default")
            return as_text(self.value) if self.dtype.name == "string" else self.value
        return scalar(field, self.dtype, where)


def _is_type(x: Any) -> bool:
    return isinstance(x, DType | type | np.dtype) or (isinstance(x, str) and x in TYPES)


def scalar(field: str, dtype: DType, where: str) -> Any:
    """A text as a scalar array of a type.

    Raises:
        InvalidArgumentError: it is no number of that type.
    """
    if dtype.name == "string":
        return as_text(field.encode(errors="surrogateescape"))
    try:
        if not dtype.is_integer:
            return dtype.as_numpy_dtype(read_number(field, False))
        number = read_number(field, True)
    except ValueError:
        raise InvalidArgumentError(f"csv: {where}, {field!r}, is no {dtype.name}") from None
    low, high = dtype.limits
    if not low <= number <= high:
        raise InvalidArgumentError(f"csv: {where}, {field!r}, does not fit {dtype.name}")
    return dtype.as_numpy_dtype(number)


def fields_of(lines: Iterable[str], delim: str, quotes: bool, where: str) -> Iterator[list[str]]:
    """The fields of each row.

    Raises:
        InvalidArgumentError: quotation marks do not match, or a field is longer than 128 KiB.
    """
    style: Any = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    try:
        yield from csv.reader(lines, delimiter=delim, quoting=style, strict=True)
    except csv.Error as error:
        raise InvalidArgumentError(f"csv: {where}: {error}") from None


def rows_of(
    path: str,
    columns: Sequence[Column],
    places: Sequence[int] | None,
    header: bool,
    delim: str,
    quotes: bool,
    na_value: str,
    compression: str = "",
    buffer_size: int | None = None,
) -> Iterator[list[Any]]:
    """The rows of a CSV file, parsed.

    Args:
        path: of the file.
        columns: types of those that are read.
        places: their places among all columns; all columns if `None`.
        header: whether the first row is passed over.
        delim: between fields.
        quotes: whether quotation marks hold a field together.
        na_value: a text that counts as an empty field.
        compression: as in `streams`.
        buffer_size: bytes that are read ahead.
    """
    rows = fields_of(text_lines(path, compression, buffer_size), delim, quotes, path)
    for number, fields in enumerate(rows):
        if not fields or (header and number == 0):
            continue
        indices = range(len(columns)) if places is None else places
        if (len(fields) != len(columns)) if places is None else (len(fields) <= max(indices)):
            raise InvalidArgumentError(
                f"csv: {path}: row {number} has {len(fields)} fields, expected "
                f"{len(columns) if places is None else max(indices) + 1}"
            )
        yield [
            column.parsed(fields[index], na_value, f"row {number}, field {index}")
            for column, index in zip(columns, indices, strict=True)
        ]


def text_lines(path: str, compression: str = "", buffer_size: int | None = None) -> Iterator[str]:
    """The lines of a file, ends included, with bytes that are no UTF-8 kept as surrogates."""
    for line in lines_of(path, compression, buffer_size):
        yield line.decode(errors="surrogateescape") + "\n"


def inferred(fields: Iterable[str], na_value: str) -> DType:
    """The narrowest type that holds the fields: int32, int64, float32, float64 or string."""
    rank = 0
    order = ("int32", "int64", "float32", "float64", "string")
    has_values = False
    for field in fields:
        if field and field != na_value:
            has_values = True
            while not _holds(order[rank], field):
                rank += 1
    return as_dtype(order[rank] if has_values else "string")


def _holds(name: str, field: str) -> bool:
    if name == "string":
        return True
    dtype = as_dtype(name)
    try:
        number: Any = read_number(field, dtype.is_integer)
    except ValueError:
        return False
    low, high = dtype.limits
    return bool(low <= number <= high or number != number or number in (np.inf, -np.inf))
