"""Files with faults, for the readers of files that strangers made."""

from __future__ import annotations

import random


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The bytes of a file with one fault or two."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 3)):
        at = rng.randrange(len(out))
        kind = rng.randrange(6)
        if kind <= 1:
            out[at] = rng.randrange(256)
        elif kind == 2:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 3:
            del out[at : at + rng.randrange(1, 16)]
        elif kind == 4:
            out[at:at] = out[at : at + rng.randrange(1, 64)]
        else:
            out[at : at + 5] = bytes([0xFF, 0xFF, 0xFF, 0xFF, 0x0F])
        if not out:
            return bytes(out)
    if rng.randrange(5) == 0:
        del out[rng.randrange(len(out)) :]
    return bytes(out)
