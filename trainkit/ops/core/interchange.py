"""What the Array API standard adds to tensors and variables: `x.T`, its namespace, its devices.

Source: the Python Array API standard, https://data-apis.org/array-api/latest. The package imports
this file last: the namespace is made of all operations.
"""

from __future__ import annotations

import importlib
from typing import Any

from trainkit.core import devices
from trainkit.core.shapes import ShapeError
from trainkit.core.tensor import Tensor
from trainkit.core.variable import Variable
from trainkit.ops.arrays.axes import swap_last_axes, transpose
from trainkit.ops.arrays.broadcasting import copy_to_device

_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


def _namespace(self: Any, *, api_version: str | None = None) -> Any:
    """The module with the names of the Array API standard.

    Raises:
        ValueError: that version of the standard is not known.
    """
    if api_version is not None and api_version not in _VERSIONS:
        raise ValueError(
            f"__array_namespace__: version {api_version!r} is none of {', '.join(_VERSIONS)}"
        )
    return importlib.import_module("trainkit.array_api")


def _transpose(self: Any) -> Tensor:
    """The matrix transposed.

    Raises:
        ShapeError: it has not two axes; use `mT` for a stack of matrices.
    """
    if len(self.shape) != 2:
        raise ShapeError(f"x.T needs a matrix, got shape {tuple(self.shape)}; use x.mT for a stack")
    return transpose(self)


def _to_device(self: Any, device: Any, /, *, stream: Any = None) -> Tensor:
    """The tensor on another device; itself if it is there.

    Raises:
        ValueError: `stream` is given, or there is no such device.
    """
    if stream is not None:
        raise ValueError("to_device: streams can't be chosen; leave stream=None")
    tensor = self if isinstance(self, Tensor) else self.value()
    name = devices.parse(str(getattr(device, "name", device))).name
    if tensor.device == name:
        return tensor
    copied: Tensor = copy_to_device(tensor, device=name)
    return copied


def _install() -> None:
    members: dict[str, Any] = {
        "__array_namespace__": _namespace,
        "T": property(_transpose),
        "mT": property(swap_last_axes, doc="The matrices (..., n, m) as (..., m, n)."),
        "to_device": _to_device,
    }
    for kind in (Tensor, Variable):
        for name, member in members.items():
            setattr(kind, name, member)


_install()
