"""Folders of the Hugging Face Hub, which its own package brings to this machine."""

from __future__ import annotations

import os
import re
from typing import Any

from trainkit.core.errors import InvalidArgumentError

SCHEME = "hf://"
_ADDRESS = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
_PATTERNS = ("*.json", "*.safetensors", "*.bin", "*.h5", "*.md", "assets/*")


def is_hub_address(path: Any) -> bool:
    """Whether a path is the address of a folder on the Hub."""
    return isinstance(path, str) and path.startswith(SCHEME)


def local_folder(address: str | os.PathLike[str]) -> str:
    """The copy on this machine of a folder of the Hub, which is downloaded once.

    Args:
        address: `hf://owner/name`, or `hf://owner/name@revision` for a branch, tag or commit.

    Raises:
        InvalidArgumentError: it is no such address.
        ImportError: huggingface_hub is missing.
    """
    match = _ADDRESS.fullmatch(str(address))
    if match is None:
        raise InvalidArgumentError(
            f"hub: an address is hf://owner/name or hf://owner/name@revision, got {address!r}"
        )
    try:
        import huggingface_hub  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise ImportError(
            f"hub: {address} is read by the package huggingface_hub: pip install huggingface_hub; "
            "or download the folder yourself and name it"
        ) from None
    folder: str = huggingface_hub.snapshot_download(
        match[1], revision=match[2], allow_patterns=list(_PATTERNS)
    )
    return folder
