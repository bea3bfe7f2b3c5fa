"""How replicas join what they have computed: sizes of messages, their dtype, the order of sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

FIRST_BYTES = 1 << 20
"""The first bucket is small: it is on its way while most of the backward pass is still to come."""

BUCKET_BYTES = 8 << 20


class Communication(NamedTuple):
    """Settings of a strategy.

    Attributes:
        bucket_bytes: gradients travel in messages of about this size; the first one is smaller.
        gradient_dtype: `"float16"` or `"bfloat16"`, in which wider gradients travel, or `None`.
        in_order: sums are added up in an order that follows from the number of replicas alone.
        packs: how many messages the gradients of a dtype are divided into, whatever their sizes; 0
            for one for each gradient; `None` for messages of `bucket_bytes`.
    """

    bucket_bytes: int = BUCKET_BYTES
    gradient_dtype: str | None = None
    in_order: bool = False
    packs: int | None = None


def split_messages(sizes: Sequence[int], settings: Communication) -> list[list[int]]:
    """Divide arrays, in the order in which they are there, into messages.

    Args:
        sizes: bytes of each array.
        settings: say how.

    Returns:
        The positions of the arrays of each message.
    """
    if settings.packs is None:
        return buckets(sizes, settings.bucket_bytes)
    if not settings.packs:
        return [[i] for i in range(len(sizes))]
    messages: dict[int, list[int]] = {}
    at, total = 0, max(1, sum(sizes))
    for i, size in enumerate(sizes):
        messages.setdefault(min(settings.packs * at // total, settings.packs - 1), []).append(i)
        at += size
    return list(messages.values())


def buckets(sizes: Sequence[int], limit: int) -> list[list[int]]:
    """Divide arrays, in the order in which they are there, into buckets.

    Args:
        sizes: bytes of each array.
        limit: bytes of a bucket; an array that is larger has one of its own. The first bucket has
            an eighth of it, and no more than 1 MiB.

    Returns:
        The positions of the arrays of each bucket.
    """
    bucket_indices: list[list[int]] = []
    room = 0
    for i, size in enumerate(sizes):
        if not bucket_indices or size > room:
            room = min(FIRST_BYTES, limit // 8) if not bucket_indices else limit
            bucket_indices.append([])
        bucket_indices[-1].append(i)
        room -= size
    return bucket_indices
