"""`tk.strings`: TensorFlow's functions on tensors of text, on the CPU."""

from __future__ import annotations

from trainkit.core.values.docstrings import describe_arguments as _describe_arguments
from trainkit.ops.core.string_hashes import to_hash_bucket as to_hash_bucket
from trainkit.ops.core.string_hashes import to_hash_bucket_fast as to_hash_bucket_fast
from trainkit.ops.core.string_hashes import to_hash_bucket_strong as to_hash_bucket_strong
from trainkit.ops.core.strings import as_string as as_string
from trainkit.ops.core.strings import bytes_split as bytes_split
from trainkit.ops.core.strings import format as format
from trainkit.ops.core.strings import join as join
from trainkit.ops.core.strings import length as length
from trainkit.ops.core.strings import lower as lower
from trainkit.ops.core.strings import reduce_join as reduce_join
from trainkit.ops.core.strings import regex_full_match as regex_full_match
from trainkit.ops.core.strings import regex_replace as regex_replace
from trainkit.ops.core.strings import split as split
from trainkit.ops.core.strings import strip as strip
from trainkit.ops.core.strings import substr as substr
from trainkit.ops.core.strings import to_number as to_number
from trainkit.ops.core.strings import upper as upper
from trainkit.ops.core.unicode_texts import unicode_decode as unicode_decode
from trainkit.ops.core.unicode_texts import unicode_encode as unicode_encode
from trainkit.ops.core.unicode_texts import unicode_script as unicode_script
from trainkit.ops.core.unicode_texts import unicode_split as unicode_split
from trainkit.ops.core.unicode_texts import unicode_transcode as unicode_transcode
from trainkit.tf.left_out import explain_unknown_names as _explain_unknown_names

_describe_arguments(globals(), "name: not kept.", package="trainkit")

_explain_unknown_names("strings", globals())
