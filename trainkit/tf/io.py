"""`tk.io`: TensorFlow's functions for files, records, and bytes as tensors."""

from __future__ import annotations

from typing import Any

from trainkit.core import dtypes
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.docstrings import describe_arguments as _describe_arguments
from trainkit.data.readers.file_names import matching
from trainkit.ops.images.image_codecs import decode_and_crop_jpeg as decode_and_crop_jpeg
from trainkit.ops.images.image_codecs import decode_bmp as decode_bmp
from trainkit.ops.images.image_codecs import decode_gif as decode_gif
from trainkit.ops.images.image_codecs import decode_image as decode_image
from trainkit.ops.images.image_codecs import decode_jpeg as decode_jpeg
from trainkit.ops.images.image_codecs import decode_png as decode_png
from trainkit.ops.images.image_codecs import decode_webp as decode_webp
from trainkit.ops.images.image_codecs import encode_jpeg as encode_jpeg
from trainkit.ops.images.image_codecs import extract_jpeg_shape as extract_jpeg_shape
from trainkit.ops.images.image_codecs import is_jpeg as is_jpeg
from trainkit.ops.images.png import encode_png as encode_png
from trainkit.records import gfile as gfile
from trainkit.records.decoding import decode_base64 as decode_base64
from trainkit.records.decoding import decode_csv as decode_csv
from trainkit.records.decoding import decode_raw as decode_raw
from trainkit.records.decoding import encode_base64 as encode_base64
from trainkit.records.decoding import parse_example as parse_example
from trainkit.records.decoding import parse_single_example as parse_single_example
from trainkit.records.decoding import parse_tensor as parse_tensor
from trainkit.records.decoding import read_file as read_file
from trainkit.records.decoding import serialize_tensor as serialize_tensor
from trainkit.records.decoding import write_file as write_file
from trainkit.records.features import FixedLenFeature as FixedLenFeature
from trainkit.records.features import FixedLenSequenceFeature as FixedLenSequenceFeature
from trainkit.records.features import RaggedFeature as RaggedFeature
from trainkit.records.features import SparseFeature as SparseFeature
from trainkit.records.features import VarLenFeature as VarLenFeature
from trainkit.records.writer import TFRecordOptions as TFRecordOptions
from trainkit.records.writer import TFRecordWriter as TFRecordWriter
from trainkit.tf.left_out import explain_unknown_names as _explain_unknown_names


def matching_files(pattern: Any, name: str | None = None) -> Tensor:
    """The names of files that match a shell pattern, or any of several, sorted.

    Args:
        pattern: text or texts.

    Example:
        >>> tk.io.write_file("a.txt", "text")
        >>> tk.io.matching_files("*.txt").numpy()
        array([b'a.txt'], dtype=object)
    """
    return convert_to_tensor(matching(pattern), dtype=dtypes.string)


def match_filenames_once(pattern: Any, name: str | None = None) -> Tensor:
    """`matching_files(pattern)`.

    Args:
        pattern: text or texts.

    Example:
        >>> tk.io.match_filenames_once("*.csv").shape
        TensorShape([0])
    """
    return matching_files(pattern)


_describe_arguments(globals(), "name: not kept.", package="trainkit")

_explain_unknown_names("io", globals())
