"""Integers numbered by a table or a hash: what lookup layers are written as in saved graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.core.devices import Array, ArrayModule, to_numpy
from trainkit.core.dispatch.facets import INDEXING, INTEGERS, one_by_one
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.fingerprints import crossed, fingerprint64, siphash
from trainkit.core.shapes import Spec

_BY_ELEMENT = one_by_one("it runs on the host, element by element")


def _hash_of(salt: tuple[int, int] | None) -> Callable[[bytes], int]:
    return fingerprint64 if salt is None else functools.partial(siphash, key=salt)


def _hashes(values: Array, buckets: int, salt: tuple[int, int] | None) -> Array:
    """The hashes of the decimal texts of integers, modulo `buckets`; each integer once."""
    function = _hash_of(salt)
    items = values.astype(np.int64, copy=False).ravel().tolist()
    buckets_by_item = {item: function(b"%d" % item) % buckets for item in set(items)}
    return np.array([buckets_by_item[item] for item in items], np.int64).reshape(values.shape)


@primitive(
    lambda x, **settings: Spec(x.shape, dtypes.int64), semantics=INDEXING, no_gradient=INTEGERS
)
def number_tokens(
    xp: ArrayModule,
    x: Array,
    *,
    tokens: tuple[int, ...],
    numbers: tuple[int, ...],
    first: int,
    count: int,
    hashed: bool,
    salt: tuple[int, int] | None,
) -> Array:
    """The numbers of integers by a table; those that are not in it share `count` from `first` on.

    `tokens` rise, `numbers` are theirs. Unknown integers share by the remainder of a division, or
    if `hashed` by a hash of their digits.
    """
    values = to_numpy(x)
    table = np.asarray(tokens, np.int64)
    positions = np.minimum(np.searchsorted(table, values), max(len(table) - 1, 0))
    is_token = table[positions] == values if len(table) else np.zeros(values.shape, bool)
    if not count and not is_token.all():
        raise InvalidArgumentError(
            f"number_tokens: {values[~is_token].ravel()[0]} is not in the vocabulary, and there "
            "are no numbers for unknown tokens"
        )
    other = np.int64(first)
    if count > 1 and hashed:
        other = first + _hashes(values, count, salt)
    elif count > 1:
        other = first + values.astype(np.int64) % count
    token_numbers = np.asarray(numbers, np.int64)[positions] if len(table) else other
    return xp.asarray(np.where(is_token, token_numbers, other))


number_tokens.declare(batch=_BY_ELEMENT, stackable=True)


def _token_rule(x: Spec, *, dtype: str, **settings: Any) -> Spec:
    return Spec(x.shape, dtype)


@primitive(_token_rule, semantics=INDEXING, no_gradient=INTEGERS)
def tokens_of_numbers(
    xp: ArrayModule, x: Array, *, tokens: tuple[int, ...], other: int, dtype: str
) -> Array:
    """The integers with these numbers, `other` for a number that no token has."""
    kind = dtypes.as_dtype(dtype).dtype
    table = xp.asarray(np.asarray((*tokens, other), kind))
    inside = (x >= 0) & (x < len(tokens))
    return table[xp.where(inside, x, len(tokens)).astype(np.int64)]


tokens_of_numbers.declare(batch=_BY_ELEMENT, stackable=True)


@primitive(_token_rule, semantics=INDEXING, no_gradient=INTEGERS)
def hash_buckets(
    xp: ArrayModule,
    x: Array,
    *,
    buckets: int,
    salt: tuple[int, int] | None,
    mask: int | None,
    dtype: str,
) -> Array:
    """Integers as one of so many numbers, by a hash of their digits; `mask` alone has number 0."""
    values = to_numpy(x)
    masked = mask is not None and buckets > 1
    hashes = _hashes(values, buckets - masked, salt)
    if masked:
        hashes = np.where(values == mask, 0, hashes + 1)
    return xp.asarray(hashes.astype(dtypes.as_dtype(dtype).dtype))


hash_buckets.declare(batch=_BY_ELEMENT, stackable=True)


@primitive(
    lambda *xs, buckets, dtype: Spec(xs[0].shape, dtype), semantics=INDEXING, no_gradient=INTEGERS
)
def crossed_buckets(xp: ArrayModule, *xs: Array, buckets: int, dtype: str) -> Array:
    """Integers of several features as one of so many numbers, by a joint hash."""
    columns = [to_numpy(x).ravel().tolist() for x in xs]
    hashes = [crossed(list(row)) % buckets for row in zip(*columns, strict=True)]
    return xp.asarray(np.array(hashes, dtypes.as_dtype(dtype).dtype).reshape(xs[0].shape))


crossed_buckets.declare(batch=_BY_ELEMENT, stackable=True)
