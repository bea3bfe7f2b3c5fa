"""`tk.config`: devices, threads and switches."""

from __future__ import annotations

from typing import Any

from trainkit.core import devices
from trainkit.core.device_lists import LogicalDevice as LogicalDevice
from trainkit.core.device_lists import PhysicalDevice as PhysicalDevice
from trainkit.core.device_lists import get_visible_devices as get_visible_devices
from trainkit.core.device_lists import list_logical_devices as list_logical_devices
from trainkit.core.device_lists import list_physical_devices as list_physical_devices
from trainkit.core.devices import get_soft_device_placement as get_soft_device_placement
from trainkit.core.devices import set_soft_device_placement as set_soft_device_placement
from trainkit.graph.tracing.python_calls import functions_run_eagerly as functions_run_eagerly
from trainkit.graph.tracing.python_calls import run_functions_eagerly as run_functions_eagerly
from trainkit.kernels.matmul import matmul_gpu as _products
from trainkit.kernels.threads import pools
from trainkit.models.training.first_batch import (
    enable_first_batch_checks as enable_first_batch_checks,
)
from trainkit.models.training.first_batch import (
    first_batch_checks_enabled as first_batch_checks_enabled,
)
from trainkit.tf import parallelism as threading
from trainkit.tf.left_out import explain_unknown_names as _explain_unknown_names
from trainkit.tf.left_out import namespace as _namespace


def _set_memory_growth(device: Any, enable: bool) -> None:
    """Let the memory that is taken of a GPU grow as it is needed.

    Args:
        device: one of `list_physical_devices("GPU")`.
        enable: only True, which is how it is.

    Raises:
        ValueError: `enable` is False.
    """
    if not enable:
        raise ValueError(
            "set_memory_growth: memory of a GPU is taken as it is needed, only True is supported"
        )


def _get_memory_growth(device: Any) -> bool:
    """Whether the memory that is taken of a device grows as it is needed: always."""
    return True


def _enable_op_determinism() -> None:
    """Have operations give the same bits in each run, on any number of threads.

    Without it one program gives the same bits again on the same machine with as many threads; with
    another number the last digits of products and of gradients of convolutions may differ. With it
    sums are split in the same way everywhere, and products of matrices run on one thread, since
    BLAS splits them by the number of its threads. That is its price: a large product takes as
    many times longer as there are cores (docs/determinism.md has numbers). Compiled kernels
    keep all threads.

    On a GPU the rows that gradients of `Embedding`, `take`, `gather_nd`, indexing and segment sums
    add up come in a fixed order: that of the CPU, with its bits. Without it more than 1,024 rows
    are added atomically, in whatever order the threads come. The price is a sort of the positions.

    Set a seed too, by `tk.random.set_seed`. Another processor, or another version of NumPy, may
    still give other bits. It can't be undone.

    Raises:
        UnimplementedError: NumPy brings a BLAS whose threads can't be set. Operations on a GPU
            raise it later, where no kernel can be compiled that adds in order.
    """
    pools.determine()


experimental = _namespace(
    "config.experimental",
    enable_op_determinism=_enable_op_determinism,
    enable_tensor_float_32_execution=_products.enable_tf32,
    tensor_float_32_execution_enabled=_products.tf32_is_enabled,
    list_physical_devices=list_physical_devices,
    list_logical_devices=list_logical_devices,
    get_visible_devices=get_visible_devices,
    get_memory_growth=_get_memory_growth,
    set_memory_growth=_set_memory_growth,
)

experimental_functions_run_eagerly = functions_run_eagerly
experimental_run_functions_eagerly = run_functions_eagerly


_explain_unknown_names("config", globals())
