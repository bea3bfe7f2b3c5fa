"""`tk.config`: devices, threads and switches."""

from __future__ import annotations

from typing import NamedTuple

from trainkit.core import devices
from trainkit.graph.function import functions_run_eagerly as functions_run_eagerly
from trainkit.graph.function import run_functions_eagerly as run_functions_eagerly


class PhysicalDevice(NamedTuple):
    """A device of this machine.

    Attributes:
        name: such as `"/physical_device:CPU:0"`.
        device_type: `"CPU"` or `"GPU"`.
    """

    name: str
    device_type: str


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices of this machine.

    Args:
        device_type: `"CPU"` or `"GPU"`; both by default.
    """
    return [
        PhysicalDevice(f"/physical_device:{d.kind}:{d.index}", d.kind)
        for d in devices.all_devices()
        if device_type is None or d.kind == device_type.upper()
    ]
