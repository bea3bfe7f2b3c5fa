"""`keras.backend`: what is left of it in Keras 3, and the functions that programs call as `K.mean`.

The latter are those of `trainkit.compat.keras_backend`, which is imported when one is asked for.
"""

import gc as _gc
import importlib as _importlib
from typing import TYPE_CHECKING, Any

from trainkit.core.dtypes import as_dtype as _as_dtype
from trainkit.core.dtypes import floatx as floatx
from trainkit.core.dtypes import result_type as _result_type
from trainkit.core.dtypes import set_floatx as set_floatx
from trainkit.core.names import next_number as _next_number
from trainkit.core.names import reset_names as _reset_names
from trainkit.core.names import unknown_name as _unknown_name
from trainkit.core.tensor import is_tensor as is_tensor
from trainkit.keras.config import backend as backend
from trainkit.keras.config import epsilon as epsilon
from trainkit.keras.config import set_epsilon as set_epsilon
from trainkit.kernels.threads.malloc import release_freed_memory as _release_freed_memory
from trainkit.layers.base.keras_tensor import KerasTensor as _KerasTensor
from trainkit.ops.convolutional.window_arguments import image_data_format as image_data_format
from trainkit.ops.convolutional.window_arguments import (
    set_image_data_format as set_image_data_format,
)

get_uid = _next_number


def standardize_dtype(dtype: Any) -> str:
    """The name of an element type; the default float for `None`.

    Args:
        dtype: a name, a dtype, or None.

    Raises:
        ValueError: it is none.

    Example:
        >>> tk.utils.standardize_dtype("float32")
        'float32'
    """
    if dtype is None:
        return floatx()
    try:
        return _as_dtype(dtype).name
    except TypeError as error:
        raise ValueError(str(error)) from None


def result_type(*dtypes: Any) -> str:
    """The name of the type that operands of these types promote to.

    `None` stands for the default float, which is also the result for no types.

    Raises:
        ValueError: one is no element type.

    Example:
        >>> tk.keras.backend.result_type("int32", "float16")
        'float16'
    """
    named_types = [floatx() if dtype is None else dtype for dtype in dtypes] or [floatx()]
    try:
        return _result_type(*named_types).name
    except TypeError as error:
        raise ValueError(str(error)) from None


def clear_session(free_memory: bool = True) -> None:
    """Count the names of layers from the start again.

    Args:
        free_memory: whether Python's garbage collector runs, too, and memory that is kept for
            later arrays goes back to the system.

    Example:
        >>> tk.utils.clear_session()
    """
    _reset_names()
    if free_memory:
        _gc.collect()
        _release_freed_memory()


def is_keras_tensor(x: Any) -> bool:
    """Whether `x` is a symbolic tensor of a model being drawn up.

    Args:
        x: anything, or the inputs.

    Example:
        >>> tk.utils.is_keras_tensor(tk.Input((4,)))
        True
    """
    return isinstance(x, _KerasTensor)


def is_float_dtype(dtype: Any) -> bool:
    """Whether an element type is floating.

    Example:
        >>> tk.keras.backend.is_float_dtype("float16")
        True
    """
    return _as_dtype(dtype).is_floating


def is_int_dtype(dtype: Any) -> bool:
    """Whether an element type is an integer.

    Example:
        >>> tk.keras.backend.is_int_dtype("uint8")
        True
    """
    return _as_dtype(dtype).is_integer


_OLDER = "trainkit.compat.keras_backend"


if TYPE_CHECKING:
    from trainkit.compat.keras_backend import *
else:  # names that are not there are errors in editors

    def __getattr__(name: str) -> Any:
        if name == "__all__":  # asked for by `from trainkit.keras.backend import *`
            return [n for n in __dir__() if not n.startswith("_")]
        older = _importlib.import_module(_OLDER)
        if name in older.__all__:
            return getattr(older, name)
        raise _unknown_name(__name__, name, __dir__())


def __dir__() -> list[str]:
    return sorted({*globals(), *_importlib.import_module(_OLDER).__all__})
