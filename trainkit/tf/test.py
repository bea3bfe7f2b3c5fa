"""`tk.test`: what the machine that runs a test can do."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from trainkit.core import devices
from trainkit.core.names import public_names as _public_names
from trainkit.core.names import unknown_name as _unknown_name


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
    capability = str(devices.parse("/gpu:0").xp.cuda.Device(0).compute_capability)
    return (int(capability[:-1]), int(capability[-1])) >= tuple(min_cuda_compute_capability)


def gpu_device_name() -> str:
    """The name of the first GPU, empty when there is none."""
    return devices.parse("/gpu:0").name if devices.gpu_count() else ""


def is_built_with_cuda() -> bool:
    """Whether GPUs can be used: whether CuPy is there and one answers."""
    return devices.gpu_count() > 0


def main(argv: Any = None) -> None:
    """Run the tests of the module that is run as a program, as `unittest.main` does.

    Args:
        argv: arguments in place of those of the command line.
    """
    importlib.import_module("unittest").main(module="__main__", argv=argv)


if TYPE_CHECKING:
    from trainkit.autodiff.test_case import TestCase as TestCase
else:  # names that are not there are errors in editors

    def __getattr__(name: str) -> Any:
        if name == "TestCase":  # by name and when it is asked for: unittest takes its time
            return importlib.import_module("trainkit.autodiff.test_case").TestCase
        raise _unknown_name("trainkit.test", name, __dir__())


def __dir__() -> list[str]:
    return sorted({*_public_names(globals()), "TestCase"})
