"""Data sets of what files hold: lines, records of one length, TFRecords."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from trainkit.core.dtypes import string
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.files.local_paths import local_path
from trainkit.core.tensor_spec import TensorSpec
from trainkit.core.values.docstrings import describe_arguments
from trainkit.data import structure
from trainkit.data.dataset import Dataset
from trainkit.data.node import DatasetOp, Leaves
from trainkit.data.sources import GeneratorNode, SlicesNode
from trainkit.data.transformations.combining import InterleaveNode
from trainkit.records import streams

TEXT = TensorSpec((), string)


class FilesNode(InterleaveNode):
    """What a reader gives of each of some files.

    Args:
        names: gives the names of the files.
        reader: function of a path that gives bytes.
        cycle: how many files are open at a time.
        title: the name in texts.
    """

    def __init__(
        self, names: DatasetOp, reader: Callable[[str], Any], cycle: int, title: str
    ) -> None:
        super().__init__(names, _as_it_is, cycle, 1)
        self.reader, self.title = reader, title

    def open(self, leaves: Leaves) -> DatasetOp:
        return GeneratorNode(functools.partial(self.reader, os.fsdecode(leaves[0][()])), (), TEXT)

    def spec(self) -> Any:
        return TEXT

    def template(self) -> Any:
        return 0


def _as_it_is(x: Any) -> Any:
    return x


def names_node(filenames: Any, what: str) -> DatasetOp:
    """The names of files, one or many or a data set of them, as the step of a pipeline.

    Raises:
        TypeError: they are no texts.
    """
    if isinstance(filenames, Dataset):
        spec = filenames.element_spec
        if not isinstance(spec, TensorSpec) or spec.dtype is not string or spec.rank not in (0, 1):
            raise TypeError(f"{what}: filenames must hold text, the elements are {spec}")
        return filenames.node if spec.rank == 0 else filenames.unbatch().node
    names = filenames.numpy() if hasattr(filenames, "numpy") else filenames
    if isinstance(names, str | bytes | os.PathLike):
        names = [names]
    if hasattr(names, "tolist"):
        names = names.tolist()
    encoded = [os.fsencode(local_path(name)) for name in names]  # a name need not be UTF-8
    return SlicesNode(structure.leaf_array(encoded).reshape(-1))


def _cycle(num_parallel_reads: Any, caller: str) -> int:
    if num_parallel_reads is None:
        return 1
    count = int(num_parallel_reads)
    if count != -1 and count < 1:
        raise InvalidArgumentError(f"{caller}: num_parallel_reads must be at least 1, got {count}")
    return (os.cpu_count() or 1) if count == -1 else count


def _files(
    kind: str,
    read: Callable[..., Any],
    filenames: Any,
    compression_type: Any,
    buffer_size: int | None,
    num_parallel_reads: int | None,
) -> FilesNode:
    """The source of `<kind>Dataset`, which reads one file after the other by `read`."""
    reader = functools.partial(
        read,
        compression=streams.compression_of(compression_type),
        buffer_size=None if buffer_size is None else int(buffer_size),
    )
    owner = f"{kind}Dataset"
    cycle = _cycle(num_parallel_reads, owner)
    return FilesNode(names_node(filenames, owner), reader, cycle, kind)


class TextLineDataset(Dataset):
    """The lines of text files, without their ends, as string scalars.

    Raises:
        InvalidArgumentError: an argument is none of these.
        NotFoundError: when iterated, a file does not exist.

    Example:
        >>> tk.io.write_file("lines.txt", chr(10).join(["one", "two"]))
        >>> [x.numpy() for x in tk.data.TextLineDataset("lines.txt")]
        [b'one', b'two']
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> None:
        options = compression_type, buffer_size, num_parallel_reads
        super().__init__(_files("TextLine", streams.lines_of, filenames, *options))


class TFRecordDataset(Dataset):
    """The records of TFRecord files, as string scalars.

    Raises:
        InvalidArgumentError: an argument is none of these.
        NotFoundError: when iterated, a file does not exist.
        DataLossError: when iterated, a file is damaged.

    Example:
        >>> with tk.io.TFRecordWriter("data.tfrecord") as file:
        ...     file.write(b"record")
        >>> [x.numpy() for x in tk.data.TFRecordDataset("data.tfrecord")]
        [b'record']
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> None:
        options = compression_type, buffer_size, num_parallel_reads
        super().__init__(_files("TFRecord", streams.records_of, filenames, *options))


class FixedLengthRecordDataset(Dataset):
    """The records of files in which all have one length, as string scalars.

    Args:
        record_bytes: of each record.
        header_bytes: that come before the first record, 0 by default.
        footer_bytes: that come behind the last, 0 by default.

    Raises:
        InvalidArgumentError: an argument is none of these; when iterated, a file does not hold a
            whole number of records.
        NotFoundError: when iterated, a file does not exist.

    Example:
        >>> tk.io.write_file("data.bin", "aabbcc")
        >>> [x.numpy() for x in tk.data.FixedLengthRecordDataset("data.bin", 2)]
        [b'aa', b'bb', b'cc']
    """

    def __init__(
        self,
        filenames: Any,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        buffer_size: int | None = None,
        compression_type: Any = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> None:
        size, header, footer = int(record_bytes), int(header_bytes or 0), int(footer_bytes or 0)
        if size < 1 or min(header, footer) < 0:
            raise InvalidArgumentError(
                f"FixedLengthRecordDataset: record_bytes must be at least 1 and the others at "
                f"least 0, got {size}, {header}, {footer}"
            )
        reader = functools.partial(
            streams.pieces_of,
            size=size,
            header=header,
            footer=footer,
            compression=streams.compression_of(compression_type),
            buffer_size=None if buffer_size is None else int(buffer_size),
        )
        cycle = _cycle(num_parallel_reads, "FixedLengthRecordDataset")
        names = names_node(filenames, "FixedLengthRecordDataset")
        super().__init__(FilesNode(names, reader, cycle, "FixedLengthRecord"))


describe_arguments(
    globals(),
    """
    filenames: a name, a list or tensor of names, or a data set of them.
    compression_type: `"GZIP"`, `"ZLIB"`, or `""`.
    buffer_size: bytes that are read ahead.
    num_parallel_reads: how many files take turns; one after the other by default.
    name: not kept.
    """,
)
