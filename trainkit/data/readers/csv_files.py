"""Data sets of CSV files: rows as tuples of scalars, and batches of named columns."""

from __future__ import annotations

import functools
import itertools
import os
from typing import Any

from trainkit.core.dtypes import string
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor_spec import TensorSpec
from trainkit.data import structure
from trainkit.data.dataset import Dataset
from trainkit.data.node import DatasetOp, Leaves
from trainkit.data.readers.file_names import matching
from trainkit.data.readers.files import FilesNode, names_node
from trainkit.data.sources import GeneratorNode, SlicesNode
from trainkit.data.transformations.prefetch import AUTOTUNE
from trainkit.records import csv_rows, streams


class CsvNode(FilesNode):
    """The parsed rows of CSV files."""

    def __init__(
        self, names: DatasetOp, reader: Any, columns: list[csv_rows.Column], cycle: int
    ) -> None:
        super().__init__(names, reader, cycle, "Csv")
        self.signature = tuple(TensorSpec((), column.dtype) for column in columns)

    def open(self, leaves: Leaves) -> DatasetOp:
        path = os.fsdecode(leaves[0][()])
        return GeneratorNode(functools.partial(self.reader, path), (), self.signature)

    def spec(self) -> Any:
        return self.signature

    def template(self) -> Any:
        return (0,) * len(self.signature)


class CsvDataset(Dataset):
    """The rows of CSV files, as tuples of scalars.

    Args:
        filenames: a name, a list or tensor of names, or a data set of them.
        record_defaults: for each column that is read a dtype, if no field may be empty, or the
            value for empty fields.
        compression_type: `"GZIP"`, `"ZLIB"`, or `""`.
        buffer_size: bytes that are read ahead.
        header: whether the first row is passed over.
        field_delim: between fields.
        use_quote_delim: whether quotation marks hold a field together.
        na_value: a text that counts as an empty field.
        select_cols: growing list of the places of the columns that are read; all by default.
        exclude_cols: places of columns that are not read, in place of `select_cols`.

    Raises:
        InvalidArgumentError: an argument is none of these; when iterated, a row does not fit.
        NotFoundError: when iterated, a file does not exist.

    Example:
        >>> tk.io.write_file("data.csv", chr(10).join(["1,a", "2,b"]))
        >>> [(int(n), w.numpy()) for n, w in tk.data.experimental.CsvDataset("data.csv", [0, ""])]
        [(1, b'a'), (2, b'b')]
    """

    def __init__(
        self,
        filenames: Any,
        record_defaults: Any,
        compression_type: Any = None,
        buffer_size: int | None = None,
        header: bool = False,
        field_delim: str = ",",
        use_quote_delim: bool = True,
        na_value: str = "",
        select_cols: Any = None,
        exclude_cols: Any = None,
    ) -> None:
        columns = [csv_rows.Column(default) for default in record_defaults]
        column_indices = _places(columns, select_cols, exclude_cols)
        reader = functools.partial(
            csv_rows.rows_of,
            columns=columns,
            places=column_indices,
            header=bool(header),
            delim=field_delim,
            quotes=bool(use_quote_delim),
            na_value=na_value,
            compression=streams.compression_of(compression_type),
            buffer_size=None if buffer_size is None else int(buffer_size),
        )
        super().__init__(CsvNode(names_node(filenames, "CsvDataset"), reader, columns, 1))


def _places(columns: list[Any], select: Any, exclude: Any) -> list[int] | None:
    """The places of the columns that are read; `None` for all."""
    if select is not None and exclude is not None:
        raise InvalidArgumentError("CsvDataset: give select_cols or exclude_cols, not both")
    if exclude is not None:
        left = set(map(int, exclude))
        return list(itertools.islice((i for i in itertools.count() if i not in left), len(columns)))
    if select is None:
        return None
    indices = [int(index) for index in select]
    is_rising = indices == sorted(set(indices)) and all(index >= 0 for index in indices)
    if not indices or len(indices) != len(columns) or not is_rising:
        raise InvalidArgumentError(
            f"CsvDataset: select_cols {indices} must grow, one place for each of {len(columns)} "
            "record_defaults"
        )
    return indices


def make_csv_dataset(
    file_pattern: Any,
    batch_size: int,
    column_names: Any = None,
    column_defaults: Any = None,
    label_name: str | None = None,
    select_columns: Any = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
    compression_type: Any = None,
    ignore_errors: bool = False,
    encoding: str = "utf-8",
) -> Dataset:
    """Batches of the columns of CSV files, by name.

    Args:
        file_pattern: a name or shell pattern, or several.
        batch_size: rows of a batch.
        column_names: of all columns; those of the first row by default.
        column_defaults: dtypes, or values for empty fields, of the columns that are read; by
            default they follow from the first rows, and 0 or an empty text stands for empty fields.
        label_name: a column that is given on its own, as labels.
        select_columns: names or places of the columns that are read; all by default.
        field_delim: between fields.
        use_quote_delim: whether quotation marks hold a field together.
        na_value: a text that counts as an empty field.
        header: whether the first row holds the names.
        num_epochs: how often the rows come; without end by default, in full batches.
        shuffle: whether rows and files come in random order.
        shuffle_buffer_size: how many rows are drawn from.
        shuffle_seed: of the order.
        prefetch_buffer_size: how many batches are made ahead; a few by default.
        num_parallel_reads: how many files take turns, 1 by default.
        sloppy: the order never depends on speed; True allows what is not done.
        num_rows_for_inference: how many rows types follow from; all for `None`.
        compression_type: `"GZIP"`, `"ZLIB"`, or `""`.
        ignore_errors: leave out rows that do not fit.
        encoding: of the names in the first row.

    Returns:
        A data set of dicts of columns, or of (dict, labels).

    Raises:
        ValueError: names are missing, double or unknown.
        InvalidArgumentError: no file matches.

    Example:
        >>> tk.io.write_file("data.csv", chr(10).join(["n,w", "1,a", "2,b"]))
        >>> make = tk.data.experimental.make_csv_dataset
        >>> batches = make("data.csv", 2, shuffle=False, num_epochs=1)
        >>> [batch["n"].numpy() for batch in batches]
        [array([1, 2], dtype=int32)]
    """
    names = [os.fsdecode(path) for path in matching(file_pattern)]
    if not names:
        raise InvalidArgumentError(f"make_csv_dataset: no file matches {file_pattern!r}")
    compression = streams.compression_of(compression_type)
    if column_names is None:
        if not header:
            raise ValueError("make_csv_dataset: give column_names where files have no header")
        head: list[str] = next(
            iter(_fields(names[0], compression, field_delim, use_quote_delim)), []
        )
        column_names = [_decode(name, encoding) for name in head]
    column_names = list(column_names)
    if len(set(column_names)) != len(column_names):
        raise ValueError(f"make_csv_dataset: column names come twice in {column_names}")
    column_indices = _selected_indices(select_columns, column_names)
    selection = [column_names[index] for index in column_indices]
    if label_name is not None and label_name not in selection:
        raise ValueError(f"make_csv_dataset: label_name {label_name!r} is none of {selection}")
    if column_defaults is None:
        rows = _fields(names[0], compression, field_delim, use_quote_delim)
        sample = list(itertools.islice(rows, int(header), _stop(num_rows_for_inference, header)))
        types = [
            csv_rows.inferred((row[p] for row in sample if p < len(row)), na_value)
            for p in column_indices
        ]
        column_defaults = [[""] if t is string else [t.as_numpy_dtype(0)] for t in types]
    columns = [csv_rows.Column(default) for default in column_defaults]
    if len(columns) != len(selection):
        raise ValueError(
            f"make_csv_dataset: {len(columns)} column_defaults for {len(selection)} columns, "
            f"{selection}"
        )
    reader = functools.partial(
        csv_rows.rows_of,
        columns=columns,
        places=None if len(column_indices) == len(column_names) else column_indices,
        header=bool(header),
        delim=field_delim,
        quotes=bool(use_quote_delim),
        na_value=na_value,
        compression=compression,
    )
    files = Dataset(SlicesNode(structure.leaf_array([os.fsencode(name) for name in names])))
    if shuffle:
        files = files.shuffle(len(names), shuffle_seed)
    rows_set = Dataset(CsvNode(files.node, reader, columns, int(num_parallel_reads or 1)))
    if ignore_errors:
        rows_set = rows_set.ignore_errors()
    if shuffle:
        rows_set = rows_set.shuffle(shuffle_buffer_size, shuffle_seed)
    if num_epochs != 1:
        rows_set = rows_set.repeat(num_epochs)

    def name_columns(*values: Any) -> Any:
        features = dict(zip(selection, values, strict=True))
        return features if label_name is None else (features, features.pop(label_name))

    batches = rows_set.batch(batch_size, drop_remainder=num_epochs is None).map(name_columns)
    return batches.prefetch(AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)


def _fields(path: str, compression: str, delim: str, quotes: bool) -> Any:
    return csv_rows.fields_of(csv_rows.text_lines(path, compression), delim, quotes, path)


def _decode(name: str, encoding: str) -> str:
    try:
        return name.encode(errors="surrogateescape").decode(encoding)
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"make_csv_dataset: the name of a column is not written in {encoding}: {error}"
        ) from None


def _stop(rows: int | None, header: bool) -> int | None:
    return None if rows is None else rows + bool(header)


def _selected_indices(select: Any, names: list[str]) -> list[int]:
    """The places of the chosen columns, in the order of the file."""
    if select is None:
        return list(range(len(names)))
    indices = []
    for column in select:
        if isinstance(column, str) and column not in names:
            raise ValueError(f"make_csv_dataset: there is no column {column!r} in {names}")
        index = names.index(column) if isinstance(column, str) else int(column)
        if not 0 <= index < len(names):
            raise ValueError(
                f"make_csv_dataset: there is no column {index}, there are {len(names)}"
            )
        indices.append(index)
    if len(set(indices)) != len(indices):
        raise ValueError(f"make_csv_dataset: select_columns name a column twice, {select}")
    return sorted(indices)
