"""`tk.test`: what the machine that runs a test can do."""

from __future__ import annotations

import importlib
import platform
from typing import TYPE_CHECKING, Any

from trainkit.core import devices
from trainkit.core.names import public_names as _public_names
from trainkit.tf.left_out import not_here as _not_here


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


def is_built_with_rocm() -> bool:
    """Whether AMD's GPUs can be used: never, GPUs are CUDA's."""
    return False


def is_built_with_gpu_support() -> bool:
    """Whether GPUs can be used: whether CuPy is there and one answers."""
    return is_built_with_cuda() or is_built_with_rocm()


def is_built_with_xla() -> bool:
    """Whether XLA compiles functions: never, trainkit has a compiler of its own."""
    return False


# What `platform.machine` says of a machine, by TensorFlow's names of processors.
_MACHINES = {
    "x86": ("x86_64", "amd64", "i386", "i686"),
    "x86_64": ("x86_64", "amd64"),
    "aarch64": ("aarch64", "arm64"),
    "arm64": ("aarch64", "arm64"),
    "arm": ("armv6l", "armv7l", "armv8l"),
    "ppc": ("ppc64", "ppc64le"),
    "s390x": ("s390x",),
}


def is_cpu_target_available(target: str) -> bool:
    """Whether kernels can be compiled for a processor: whether it is this machine's.

    Args:
        target: `"x86"`, `"x86_64"`, `"aarch64"`, `"arm64"`, `"arm"`, `"ppc"` or `"s390x"`.

    Raises:
        ValueError: it is another one.
    """
    if target not in _MACHINES:
        raise ValueError(
            f"is_cpu_target_available: {target!r} is none of {', '.join(map(repr, _MACHINES))}"
        )
    return platform.machine().lower() in _MACHINES[target]


def main(argv: Any = None) -> None:
    """Run the tests of the module that is run as a program, as `unittest.main` does.

    Args:
        argv: arguments in place of those of the command line.
    """
    importlib.import_module("unittest").main(module="__main__", argv=argv)


# By name and when it is asked for: what these import takes its time, unittest above all.
_LATER = {
    "TestCase": "trainkit.autodiff.test_case",
    "compute_gradient": "trainkit.autodiff.jacobian_pairs",
}

if TYPE_CHECKING:
    from trainkit.autodiff.jacobian_pairs import compute_gradient as compute_gradient
    from trainkit.autodiff.test_case import TestCase as TestCase
else:  # names that are not there are errors in editors

    def __getattr__(name: str) -> Any:
        if name in _LATER:
            return getattr(importlib.import_module(_LATER[name]), name)
        raise _not_here("test", name, __dir__())


def __dir__() -> list[str]:
    return sorted({*_public_names(globals()), *_LATER})
