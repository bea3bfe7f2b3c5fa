"""The numbers of texts by a hash, those of TensorFlow."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from trainkit.core import devices
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.fingerprints import fingerprint64, murmur64, siphash
from trainkit.core.shapes import Spec
from trainkit.core.string_tensor import string_results
from trainkit.core.tensor import convert_to_tensor
from trainkit.core.values.docstrings import describe_arguments
from trainkit.ops.core.dynamic_shapes import Bound, like, needs_values
from trainkit.ops.indexing.fingerprint_arrays import text_buckets

if TYPE_CHECKING:
    from trainkit.core.tensor import Tensor
    from trainkit.core.values.type_aliases import TensorLike


def _spec(a: Bound) -> Spec:
    return like(a["input"], "int64")


def _buckets(input: Any, num_buckets: int, function: Any, op: str) -> Any:
    texts = devices.to_numpy(convert_to_tensor(input)._array)
    if texts.dtype != object:
        raise InvalidArgumentError(f"{op}: takes text, got {texts.dtype}; see tk.as_string")
    if num_buckets < 1:
        raise InvalidArgumentError(f"{op}: num_buckets must be 1 or more, got {num_buckets}")
    return string_results(text_buckets(texts, int(num_buckets), function))


@needs_values("input", gives=_spec)
def to_hash_bucket_fast(input: TensorLike, num_buckets: int, name: str | None = None) -> Tensor:
    """A number in [0, num_buckets) for each text, by FarmHash's Fingerprint64.

    Anybody can make texts of one number; see `to_hash_bucket_strong`.

    Returns:
        int64, of that shape.

    Raises:
        InvalidArgumentError: `input` is no text, or `num_buckets` is below 1.

    Example:
        >>> bool(tk.strings.to_hash_bucket_fast("cat", 10) < 10)
        True
    """
    numbers: Tensor = _buckets(input, num_buckets, fingerprint64, "to_hash_bucket_fast")
    return numbers


@needs_values("input", gives=_spec)
def to_hash_bucket_strong(
    input: Any, num_buckets: int, key: Any, name: str | None = None
) -> Tensor:
    """A number in [0, num_buckets) for each text, by SipHash-2-4.

    Args:
        key: two ints; who does not know them can't make texts of one number.

    Returns:
        int64, of that shape.

    Raises:
        InvalidArgumentError: `input` is no text, `num_buckets` is below 1, or `key` is not two
            ints.

    Example:
        >>> bool(tk.strings.to_hash_bucket_strong("cat", 10, key=[1, 2]) < 10)
        True
    """
    words = list(key)
    if len(words) != 2:
        raise InvalidArgumentError(f"to_hash_bucket_strong: key must be two ints, got {key!r}")
    function = functools.partial(siphash, key=(int(words[0]), int(words[1])))
    numbers: Tensor = _buckets(input, num_buckets, function, "to_hash_bucket_strong")
    return numbers


@needs_values("input", gives=_spec)
def to_hash_bucket(input: TensorLike, num_buckets: int, name: str | None = None) -> Tensor:
    """A number in [0, num_buckets) for each text, by MurmurHash64A; prefer the fast one.

    Returns:
        int64, of that shape.

    Raises:
        InvalidArgumentError: `input` is no text, or `num_buckets` is below 1.

    Example:
        >>> bool(tk.strings.to_hash_bucket("cat", 10) < 10)
        True
    """
    numbers: Tensor = _buckets(input, num_buckets, murmur64, "to_hash_bucket")
    return numbers


describe_arguments(
    globals(),
    """
    input: any shape of text.
    num_buckets: 1 or more.
    name: not used.
    """,
)
