"""Names made of content."""

from __future__ import annotations


def digest_of(*texts: str | bytes) -> str:
    """SHA-256 of texts, each with its length, as 64 hexadecimal digits."""
    import hashlib

    found = hashlib.sha256()
    for text in texts:
        data = text.encode() if isinstance(text, str) else text
        found.update(f"{len(data)}\n".encode() + data)
    return found.hexdigest()
