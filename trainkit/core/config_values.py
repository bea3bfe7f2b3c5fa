"""Values without a class of their own in configs: bytes, slices, arrays, tensors, lambdas.

Each becomes a dict `{"class_name": "__kind__", "config": {...}}`, as Keras writes it. Lambdas are
code: they are stored, but only read back where the caller has switched the safe mode off. The same
holds for files outside of the one that is read: a config that names one would hand over any file
of whoever loads it.
"""

from __future__ import annotations

import binascii
import marshal
import sys
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import ConfigError
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import convert_to_tensor, is_tensor
from trainkit.core.user_frames import text_of

UNKNOWN = object()
"""What `plain_value` gives for objects that are described by their class."""

DECODERS: dict[str, Callable[[Any, Callable[[Any], Any]], Any]] = {}
"""How a kind of value is read: a function of its config and of the reader of parts."""

_PLAIN = (bool, int, float, str)


class _SafeMode(threading.local):
    def __init__(self) -> None:
        self.chosen: bool | None = None


_MODE = _SafeMode()


class SafeModeScope:
    """Context in which configs with lambdas, or that name files, are refused, or read.

    Args:
        safe_mode: whether they are refused; `None` leaves it as it is.
    """

    def __init__(self, safe_mode: bool | None = True) -> None:
        self.safe_mode = safe_mode

    def __enter__(self) -> SafeModeScope:
        self._before = _MODE.chosen
        if self.safe_mode is not None:
            _MODE.chosen = bool(self.safe_mode)
        return self

    def __exit__(self, *exc: object) -> None:
        _MODE.chosen = self._before


def enable_unsafe_deserialization() -> None:
    """Let this thread read lambdas in configs from now on; only for files that you trust.

    A lambda in a file is code, which runs when the model is called; and a file that a config names,
    such as a vocabulary, may be any file of yours.
    """
    _MODE.chosen = False


def in_safe_mode() -> bool | None:
    """Whether lambdas are refused here; `None` if nobody has said, which is as good as true."""
    return _MODE.chosen


def config_scope() -> SafeModeScope:
    """Context in which an object is made from a config: the safe mode, unless it was left."""
    return SafeModeScope(_MODE.chosen is not False)


def check_outside_file(path: object, owner: str, what: str) -> None:
    """Refuse to open a file that a config names; each argument that is a path asks here first.

    Raises:
        ConfigError: a config is being read, and the safe mode is on.
    """
    if _MODE.chosen:
        raise ConfigError(
            f"{owner}: the config names {what} outside of the file that is read, {path!r}, and "
            "such a path may lead to any file of yours. If you trust where the config is from, "
            "pass safe_mode=False, or call keras.config.enable_unsafe_deserialization()"
        )


# ---------------------------------------------------------------------- writing


def plain_value(x: Any, part: Callable[[Any], Any]) -> Any:
    """`x` as something JSON can hold, `UNKNOWN` if it is an object of some class or a function.

    Args:
        x: any value.
        part: what does the same for what is inside `x`.
    """
    if x is None or isinstance(x, _PLAIN):
        return x
    if isinstance(x, list | tuple):
        items = [part(item) for item in x]
        return tuple(items) if isinstance(x, tuple) else items
    if isinstance(x, dict):
        return {key: part(value) for key, value in x.items()}
    if isinstance(x, bytes):
        return _describe("__bytes__", _text_of_bytes(x))
    if isinstance(x, slice):
        ends = {"start": part(x.start), "stop": part(x.stop), "step": part(x.step)}
        return _describe("__slice__", ends)
    if x is Ellipsis:
        return _describe("__ellipsis__", {})
    if is_tensor(x) and not hasattr(type(x), "_is_variable"):
        return _plain_tensor(x)
    if isinstance(x, np.ndarray | np.generic):
        return _plain_array(x)
    if hasattr(x, "as_numpy_dtype") and hasattr(x, "name"):
        return x.name
    if isinstance(x, types.FunctionType) and x.__name__ == "<lambda>":
        return _warned_lambda(x, part)
    return UNKNOWN


def _describe(kind: str, config: dict[str, Any]) -> dict[str, Any]:
    return {"class_name": kind, "config": config}


def _text_of_bytes(x: bytes) -> dict[str, Any]:
    try:
        return {"value": x.decode("utf-8")}
    except UnicodeDecodeError:
        return {"value": x.decode("latin-1"), "encoding": "latin-1"}


def _plain_tensor(x: Any) -> Any:
    if isinstance(x, SymbolicTensor):
        return UNKNOWN if not hasattr(x, "as_config") else x.as_config()
    return _describe("__tensor__", {"value": x.numpy().tolist(), "dtype": x.dtype.name})


def _plain_array(x: Any) -> Any:
    if x.ndim == 0:
        return x.item()
    return _describe("__numpy__", {"value": x.tolist(), "dtype": x.dtype.name})


def _warned_lambda(function: types.FunctionType, part: Callable[[Any], Any]) -> dict[str, Any]:
    warnings.warn(
        f"a lambda goes into the config: {text_of(function.__code__)}. It can only be read again "
        "with safe_mode=False, and by the same version of Python; a named function that is "
        "registered with register_keras_serializable() has neither limit",
        stacklevel=6,
    )
    return described_lambda(function, part)


def described_lambda(
    function: types.FunctionType, part: Callable[[Any], Any] = lambda value: value
) -> dict[str, Any]:
    """A lambda as its byte code; reading it again takes `safe_mode=False`.

    Args:
        function: the lambda.
        part: what describes the values that it has from around it, and its defaults.

    Raises:
        ConfigError: one of those is a module.
    """
    # Python has `None` for no cells and for no defaults, and so has the config
    values = [cell.cell_contents for cell in function.__closure__ or ()]
    for name, value in zip(function.__code__.co_freevars, values, strict=True):
        if isinstance(value, types.ModuleType):
            raise ConfigError(
                f"the lambda {text_of(function.__code__)} can't go into a config: {name!r} around "
                f"it is the module {value.__name__!r}; import it at the top of the file, or inside "
                "of a named function"
            )
    config = {
        "code": binascii.b2a_base64(marshal.dumps(function.__code__)).decode("ascii"),
        "defaults": list(map(part, function.__defaults__ or ())) or None,
        "closure": list(map(part, values)) or None,
    }
    return _describe("__lambda__", config)


# ---------------------------------------------------------------------- reading


def is_value(config: dict[str, Any]) -> bool:
    """Whether `config` stands for one of the values of this file."""
    name = config.get("class_name")
    return isinstance(name, str) and name in DECODERS


def value_of(config: dict[str, Any], part: Callable[[Any], Any]) -> Any:
    """The value that `plain_value` described.

    Args:
        config: the description.
        part: what reads descriptions inside of it.

    Raises:
        ConfigError: the description is wrong, or it is a lambda in safe mode.
    """
    kind = config["class_name"]
    try:
        return DECODERS[kind](config.get("config"), part)
    except ConfigError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ConfigError(f"the config of {kind} can't be read: {error}") from error


def _bytes(config: Any, part: Callable[[Any], Any]) -> bytes:
    return bytes(config["value"].encode(config.get("encoding", "utf-8")))


def _slice(config: Any, part: Callable[[Any], Any]) -> slice:
    return slice(part(config["start"]), part(config["stop"]), part(config["step"]))


def _tensor(config: Any, part: Callable[[Any], Any]) -> Any:
    return convert_to_tensor(_array(config, part))


def _array(config: Any, part: Callable[[Any], Any]) -> Any:
    return np.array(config["value"], dtype=as_dtype(config["dtype"]).dtype)


def _typespec(config: Any, part: Callable[[Any], Any]) -> Any:
    if not isinstance(config, list | tuple):
        raise ConfigError(f"the config of __typespec__ must be a list, got {config!r}")
    raise ConfigError("configs of TensorFlow's TypeSpecs are not supported; describe the input")


def _lambda(config: Any, part: Callable[[Any], Any]) -> Any:
    if _MODE.chosen is not False:
        raise ConfigError(
            "the config holds a lambda, which is code, and code in files is not run: arbitrary "
            "code execution is what that could lead to. If you trust the file, pass "
            "safe_mode=False, or call keras.config.enable_unsafe_deserialization()"
        )
    if not isinstance(config, dict):
        raise ConfigError(f"the config of __lambda__ must be a dict, got {config!r}")
    return function_of(config.get("value", config), part=part)


def function_of(
    dumped: Any,
    names: dict[str, Any] | None = None,
    part: Callable[[Any], Any] = lambda value: value,
) -> types.FunctionType:
    """The function of what `described_lambda` or Keras dumped; running it runs code of the file.

    Args:
        dumped: its code, defaults and closure.
        names: its global names; by default those of the running program.
        part: what reads the descriptions of its defaults, and of the values around it.
    """
    if isinstance(dumped, dict):
        dumped = (dumped["code"], dumped.get("defaults"), dumped.get("closure"))
    text, defaults, closure = dumped
    try:
        code = marshal.loads(binascii.a2b_base64(text.encode("ascii")))
        cells = None if closure is None else tuple(types.CellType(part(x)) for x in closure)
        names = vars(sys.modules["__main__"]) if names is None else names
        default_values = None if defaults is None else tuple(map(part, defaults))
        return types.FunctionType(code, names, code.co_name, default_values, cells)
    except (ValueError, TypeError, EOFError, AttributeError, binascii.Error) as error:
        raise ConfigError(
            f"the lambda can't be read, it was written by another version of Python or is "
            f"damaged: {error}"
        ) from error


DECODERS.update(
    __bytes__=_bytes,
    __slice__=_slice,
    __ellipsis__=lambda config, part: Ellipsis,
    __tensor__=_tensor,
    __numpy__=_array,
    __lambda__=_lambda,
    __typespec__=_typespec,
)
