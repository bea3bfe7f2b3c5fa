"""What operations name as their kernel of cuDNN: nothing is imported before a GPU's array comes.

`TRAINKIT_CUDNN` decides how cuDNN is used: "0" not at all, "heuristic" takes the plan that cuDNN
recommends, "measure" times the first few that it recommends, for each shape once. Where there are
kernels of trainkit's own besides, a rule chooses between them and cuDNN, "measure" times both, and
"force" takes cuDNN wherever it can.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.process.later_imports import DeferredModule

MODES = ("heuristic", "measure", "force", "off")
_OFF = ("0", "off", "false", "no")


def _mode_of(text: str) -> str:
    text = text.strip().lower()
    if text in _OFF:
        return "off"
    return text if text in ("measure", "force") else "heuristic"


class _CudnnMode:
    mode = _mode_of(os.environ.get("TRAINKIT_CUDNN", ""))


def mode() -> str:
    """How cuDNN is used: one of `MODES`; at first what `TRAINKIT_CUDNN` says."""
    return _CudnnMode.mode


def plan_mode() -> str:
    """How a plan is chosen among cuDNN's own: "heuristic" or "measure"."""
    return "measure" if _CudnnMode.mode == "measure" else "heuristic"


def set_mode(name: str) -> None:
    """Choose how cuDNN is used; plans that are there already stay as they are.

    Args:
        name: "heuristic", "measure", "force" or "off".

    Raises:
        InvalidArgumentError: it is none of these.
    """
    if name not in MODES:
        raise InvalidArgumentError(f"cuDNN: mode must be one of {', '.join(MODES)}, got {name!r}")
    _CudnnMode.mode = name


class CudnnModule:
    """Stands for a module of this folder: its functions give `None` where cuDNN is not used."""

    def __init__(self, name: str) -> None:
        self._module = DeferredModule(name)

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._module, name)

        def run(*arguments: Any) -> Any:
            return None if _CudnnMode.mode == "off" else function(*arguments)

        self.__dict__[name] = run
        return run


_FRONTEND = CudnnModule("trainkit.kernels.cudnn.frontend")
is_there = _FRONTEND.is_there
"""`()`: whether cuDNN can be used; false or `None` where it can't."""


def prepare(xp: Any) -> None:
    """Make what a capture of a CUDA graph may not make, in programs that use cuDNN."""
    if "trainkit.kernels.cudnn.frontend" in sys.modules:
        _FRONTEND.prepare(xp)
