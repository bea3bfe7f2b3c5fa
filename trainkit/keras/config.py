"""`keras.config`: default dtypes, the place of channels, and other defaults of the process."""

from trainkit.core.config_values import (
    enable_unsafe_deserialization as enable_unsafe_deserialization,
)
from trainkit.core.dtypes import floatx as floatx
from trainkit.core.dtypes import set_floatx as set_floatx
from trainkit.core.errors import InvalidArgumentError as _InvalidArgumentError
from trainkit.core.process.console import disable_interactive_logging as disable_interactive_logging
from trainkit.core.process.console import enable_interactive_logging as enable_interactive_logging
from trainkit.core.process.console import (
    is_interactive_logging_enabled as is_interactive_logging_enabled,
)
from trainkit.core.process.traceback_filter import (
    disable_traceback_filtering as disable_traceback_filtering,
)
from trainkit.core.process.traceback_filter import (
    enable_traceback_filtering as enable_traceback_filtering,
)
from trainkit.core.process.traceback_filter import (
    is_traceback_filtering_enabled as is_traceback_filtering_enabled,
)
from trainkit.layers.base.dtype_policy import dtype_policy as dtype_policy
from trainkit.layers.base.dtype_policy import set_dtype_policy as set_dtype_policy
from trainkit.models.training.limits import max_epochs as max_epochs
from trainkit.models.training.limits import max_steps_per_epoch as max_steps_per_epoch
from trainkit.models.training.limits import set_max_epochs as set_max_epochs
from trainkit.models.training.limits import set_max_steps_per_epoch as set_max_steps_per_epoch
from trainkit.ops.convolutional.window_arguments import image_data_format as image_data_format
from trainkit.ops.convolutional.window_arguments import (
    set_image_data_format as set_image_data_format,
)
from trainkit.ops.neural.attention import disable_flash_attention as disable_flash_attention
from trainkit.ops.neural.attention import enable_flash_attention as enable_flash_attention
from trainkit.ops.neural.attention import flash_attention_enabled as is_flash_attention_enabled
from trainkit.ops.neural.normalization import EPSILON as _EPSILON


def backend() -> str:
    """The name of what computes: always `"trainkit"`.

    Example:
        >>> tk.keras.config.backend()
        'trainkit'
    """
    return "trainkit"


def set_backend(backend: str) -> None:
    """Choose what computes.

    Args:
        backend: only `"trainkit"`, which it is already.

    Raises:
        ValueError: another name.
    """
    if backend != "trainkit":
        raise _InvalidArgumentError(
            f"set_backend: 'trainkit' is the only backend, got {backend!r}; it computes on the CPU "
            "with NumPy and on GPUs with CuPy, see tk.device"
        )


def is_nnx_enabled() -> bool:
    """Whether layers are modules of Flax's NNX: never, for there is no JAX.

    Example:
        >>> tk.keras.config.is_nnx_enabled()
        False
    """
    return False


def epsilon() -> float:
    """The number that keeps losses and norms from dividing by 0: 1e-7.

    Example:
        >>> tk.keras.config.epsilon()
        1e-07
    """
    return _EPSILON


def set_epsilon(value: float) -> None:
    """Set the number that keeps losses and norms from dividing by 0.

    Args:
        value: only 1e-7, which it is already.

    Raises:
        ValueError: another number.
    """
    if float(value) != _EPSILON:
        raise ValueError(
            f"set_epsilon: it is fixed at {_EPSILON}, got {value!r}; give `epsilon` to the layer "
            "or optimizer that needs another"
        )
