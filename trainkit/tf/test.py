"""`tk.test`: what the machine that runs a test can do."""

from __future__ import annotations

from typing import Any

from trainkit.core import devices


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: Any = None) -> bool:
    """Whether a GPU answers.

    Args:
        cuda_only: all GPUs here are CUDA's, so it makes no difference.
        min_cuda_compute_capability: pair such as `(7, 0)` that the first GPU must have.
    """
    if not devices.gpu_count():
        return False
    if min_cuda_compute_capability is None:
        return True
    found = str(devices.parse("/gpu:0").xp.cuda.Device(0).compute_capability)
    return (int(found[:-1]), int(found[-1])) >= tuple(min_cuda_compute_capability)


def gpu_device_name() -> str:
    """The name of the first GPU, empty when there is none."""
    return devices.parse("/gpu:0").name if devices.gpu_count() else ""


def is_built_with_cuda() -> bool:
    """Whether GPUs can be used: whether CuPy is there and one answers."""
    return devices.gpu_count() > 0
