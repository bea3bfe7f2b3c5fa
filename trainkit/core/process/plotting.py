"""matplotlib, for what draws plots."""

from __future__ import annotations

import importlib
from typing import Any

from trainkit.core.process.requirements import install_command


def matplotlib(part: str, op: str) -> Any:
    """A module of matplotlib, such as `"pyplot"`.

    Raises:
        ImportError: matplotlib is not installed; the extra `plots` brings it.
    """
    try:
        importlib.import_module("matplotlib")
        return importlib.import_module(f"matplotlib.{part}")
    except ImportError as error:
        raise ImportError(
            f"{op} draws with matplotlib, which is not installed; run: {install_command('plots')}"
        ) from error
