"""Writing TFRecord files."""

from __future__ import annotations

import zlib
from typing import Any

from trainkit.core.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from trainkit.core.files.local_paths import local_path
from trainkit.records.framing import framed
from trainkit.records.streams import compression_of

_STRATEGIES = range(5)  # zlib's, from Z_DEFAULT_STRATEGY to Z_FIXED


class TFRecordOptions:
    """How the records of a file are compressed.

    Args:
        compression_type: `"GZIP"`, `"ZLIB"`, or `""` for not at all.
        flush_mode: zlib's way to flush; 4, to the end, is the only one.
        input_buffer_size: a hint of TensorFlow's that changes no byte.
        output_buffer_size: the same.
        window_bits: base 2 of the size of zlib's window, 9 to 15, 15 by default.
        compression_level: 0 (none) to 9, or -1 for zlib's own choice, the default.
        compression_method: 8, deflate, is the only one.
        mem_level: memory that zlib may use, 1 to 9, 8 by default.
        compression_strategy: zlib's, 0 to 4.

    Raises:
        InvalidArgumentError: a value is none of these.

    Example:
        >>> options = tk.io.TFRecordOptions(compression_type="GZIP")
        >>> with tk.io.TFRecordWriter("data.gz", options) as file:
        ...     file.write(b"record")
        >>> [x.numpy() for x in tk.data.TFRecordDataset("data.gz", compression_type="GZIP")]
        [b'record']
    """

    def __init__(
        self,
        compression_type: Any = None,
        flush_mode: int | None = None,
        input_buffer_size: int | None = None,
        output_buffer_size: int | None = None,
        window_bits: int | None = None,
        compression_level: int | None = None,
        compression_method: int | None = None,
        mem_level: int | None = None,
        compression_strategy: int | None = None,
    ) -> None:
        self.compression_type = compression_of(compression_type)
        self.flush_mode, self.compression_method = flush_mode, compression_method
        self.input_buffer_size, self.output_buffer_size = input_buffer_size, output_buffer_size
        self.window_bits = 15 if window_bits is None else window_bits
        self.compression_level = -1 if compression_level is None else compression_level
        self.mem_level = 8 if mem_level is None else mem_level
        self.compression_strategy = compression_strategy or 0
        allowed = {
            "flush_mode": (None, zlib.Z_FINISH),
            "compression_method": (None, zlib.DEFLATED),
            "window_bits": range(9, 16),
            "compression_level": range(-1, 10),
            "mem_level": range(1, 10),
            "compression_strategy": _STRATEGIES,
        }
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise InvalidArgumentError(
                    f"TFRecordOptions: {name}={getattr(self, name)}; it may be {values}"
                )

    def compressor(self) -> Any:
        """What turns bytes into a compressed stream, `None` where nothing is compressed."""
        if not self.compression_type:
            return None
        header_bits = 16 if self.compression_type == "GZIP" else 0
        return zlib.compressobj(
            self.compression_level,
            zlib.DEFLATED,
            self.window_bits + header_bits,
            self.mem_level,
            self.compression_strategy,
        )


class TFRecordWriter:
    """Writes records to a file, which `tk.data.TFRecordDataset` and TensorFlow read.

    Args:
        path: of the file; what was there is replaced.
        options: `TFRecordOptions`, or `"GZIP"` or `"ZLIB"`.

    Raises:
        NotFoundError: the folder does not exist.

    Example:
        >>> with tk.io.TFRecordWriter("data.tfrecord") as file:
        ...     file.write(b"record")
        >>> [x.numpy() for x in tk.data.TFRecordDataset("data.tfrecord")]
        [b'record']
    """

    def __init__(self, path: Any, options: Any = None) -> None:
        if not isinstance(options, TFRecordOptions):
            options = TFRecordOptions(options)
        self._path = local_path(path).rstrip("/")  # TensorFlow lets a file end in a slash
        self._compressor = options.compressor()
        try:
            self._file: Any = open(self._path, "wb")
        except FileNotFoundError:
            raise NotFoundError(f"there is no folder for {self._path}") from None

    def write(self, record: Any) -> None:
        """Write one record: bytes, or a string tensor.

        Raises:
            TypeError: it is no bytes.
            FailedPreconditionError: the writer is closed.
        """
        record = record.numpy() if hasattr(record, "numpy") else record
        if isinstance(record, str):
            record = record.encode()
        if not isinstance(record, bytes):
            raise TypeError(f"TFRecordWriter.write takes bytes, got {type(record).__name__}")
        self._put(framed([record]))

    def _put(self, data: bytes) -> None:
        if self._file is None:
            raise FailedPreconditionError(f"the writer of {self._path} is closed")
        self._file.write(self._compressor.compress(data) if self._compressor else data)

    def flush(self) -> None:
        """Hand all that was written to the operating system."""
        if self._file is None:
            raise FailedPreconditionError(f"the writer of {self._path} is closed")
        if self._compressor:
            self._file.write(self._compressor.flush(zlib.Z_SYNC_FLUSH))
        self._file.flush()

    def close(self) -> None:
        """Write out the rest and close the file; a second call does nothing."""
        file, self._file = self._file, None
        if file is not None:
            with file:
                if self._compressor:
                    file.write(self._compressor.flush())

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
