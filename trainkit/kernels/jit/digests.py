"""Names made of content."""

from __future__ import annotations


def digest_of(*texts: str | bytes) -> str:
    """SHA-256 of texts, each with its length, as 64 hexadecimal digits."""
    import hashlib

    digest = hashlib.sha256()
    for text in texts:
        data = text.encode() if isinstance(text, str) else text
        # With the lengths, "ab" and "c" are other texts than "a" and "bc".
        digest.update(f"{len(data)}\n".encode() + data)
    return digest.hexdigest()
