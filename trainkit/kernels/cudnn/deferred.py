"""What operations name as their kernel of cuDNN: nothing is imported before a GPU's array comes.

`TRAINKIT_CUDNN` decides how cuDNN is used: "0" not at all, "heuristic" takes the plan that cuDNN
recommends, "measure" times the first few that it recommends, for each shape once. Where there are
kernels of trainkit's own besides, a rule chooses between them and cuDNN, "measure" times both, and
"force" takes cuDNN wherever it can.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from trainkit.core.errors import InvalidArgumentError

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


class Deferred:
    """A function of a file of this folder, imported at the first call.

    It gives `None` where cuDNN is not used, or not there.

    Args:
        file: name of the file, without its ending.
        name: of the function.
    """

    __slots__ = ("_file", "_name", "_run")

    def __init__(self, file: str, name: str) -> None:
        self._file, self._name = file, name
        self._run: Any = None

    def __call__(self, *arguments: Any) -> Any:
        if _CudnnMode.mode == "off":
            return None
        if self._run is None:
            module = importlib.import_module(f"trainkit.kernels.cudnn.{self._file}")
            self._run = getattr(module, self._name)
        return self._run(*arguments)


is_there = Deferred("frontend", "is_there")
"""`()`: whether cuDNN can be used; false or `None` where it can't."""
_prepare = Deferred("frontend", "prepare")


def prepare(xp: Any) -> None:
    """Make what a capture of a CUDA graph may not make, in programs that use cuDNN."""
    if "trainkit.kernels.cudnn.frontend" in sys.modules:
        _prepare(xp)
