"""The devices of this machine as TensorFlow lists them: physical and logical ones."""

from __future__ import annotations

from typing import NamedTuple

from trainkit.core import devices


class PhysicalDevice(NamedTuple):
    """A device of this machine.

    Attributes:
        name: such as `"/physical_device:CPU:0"`.
        device_type: `"CPU"` or `"GPU"`.
    """

    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """A device as operations see it.

    Attributes:
        name: such as `"/device:CPU:0"`, as `tk.device` takes it.
        device_type: `"CPU"` or `"GPU"`.
    """

    name: str
    device_type: str


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices of this machine.

    Args:
        device_type: `"CPU"` or `"GPU"`; both by default.

    Example:
        >>> [device.device_type for device in tk.config.list_physical_devices("CPU")]
        ['CPU']
    """
    return [
        PhysicalDevice(f"/physical_device:{d.kind}:{d.index}", d.kind)
        for d in devices.all_devices()
        if device_type is None or d.kind == device_type.upper()
    ]


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """The devices that `tk.device` can name.

    Args:
        device_type: `"CPU"` or `"GPU"`; both by default.

    Example:
        >>> [device.device_type for device in tk.config.list_logical_devices("CPU")]
        ['CPU']
    """
    return [
        LogicalDevice(d.name, d.kind)
        for d in devices.all_devices()
        if device_type is None or d.kind == device_type.upper()
    ]


def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """All devices of this machine; `CUDA_VISIBLE_DEVICES` hides GPUs.

    Args:
        device_type: `"CPU"` or `"GPU"`; both by default.

    Example:
        >>> [device.device_type for device in tk.config.get_visible_devices("CPU")]
        ['CPU']
    """
    return list_physical_devices(device_type)
