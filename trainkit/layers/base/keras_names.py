"""How Keras calls operations in the configs of functional models: class, settings, arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

_NUMPY, _NN, _MATH = "keras.src.ops.numpy", "keras.src.ops.nn", "keras.src.ops.math"
_PLAIN = {
    _NUMPY: (
        "add subtract multiply divide power maximum minimum matmul equal not_equal greater less "
        "greater_equal less_equal logical_and logical_or logical_not mod floor_divide negative "
        "absolute exp log log1p expm1 sqrt square sin cos tan tanh sign floor ceil reciprocal "
        "isnan arctan where sum mean max min prod var any all flip clip repeat tile transpose "
        "argmax argmin get_item concatenate stack reshape expand_dims"
    ),
    _NN: "relu sigmoid softplus silu elu selu relu6 leaky_relu softmax log_softmax",
    _MATH: "rsqrt erf",
}
_MODULES = {name: module for module, names in _PLAIN.items() for name in names.split()}
_RENAMED = {"reshape": {"shape": "newshape"}}
_SILENT = {"argmax": {"dtype": "int32"}, "argmin": {"dtype": "int32"}}


class Written(NamedTuple):
    """An operation as Keras writes it.

    Attributes:
        module, kind: where its class is, and its name.
        settings: what its class is made with.
        arguments: makes the arguments of a call of it.
    """

    module: str
    kind: str
    settings: dict[str, Any]
    arguments: Callable[[tuple[Any, ...]], tuple[Any, ...]]


def as_keras(primitive: str, settings: dict[str, Any]) -> Written | None:
    """How Keras calls an operation; `None` for one that it calls otherwise, or has not."""
    module = _MODULES.get(primitive)
    if module is None:
        return None
    kind = "".join(part.capitalize() for part in primitive.split("_"))
    if primitive == "get_item":
        key = _key(settings["key"])
        return None if key is None else Written(module, kind, {}, lambda args: (*args, key))
    silent = _SILENT.get(primitive, {})
    if any(settings.get(name, value) != value for name, value in silent.items()):
        return None
    renamed = _RENAMED.get(primitive, {})
    kept = {renamed.get(n, n): _listed(v) for n, v in settings.items() if n not in silent}
    if not all(_is_plain(value) for value in kept.values()):
        return None
    listed = primitive in ("concatenate", "stack")
    return Written(module, kind, kept, (lambda args: (list(args),)) if listed else _same)


def _same(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return args


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str)


def _key(key: Any) -> list[Any] | None:
    """The positions of `get_item` as Keras has them; `None` if some are of another kind."""
    found: list[Any] = []
    for item in key if isinstance(key, tuple) else (key,):
        if isinstance(item, tuple) and len(item) == 3 and _is_plain(list(item)):
            found.append(slice(*item))
        elif item in (None, Ellipsis) or (isinstance(item, int) and not isinstance(item, bool)):
            found.append(item)
        elif item == "...":
            found.append(Ellipsis)
        else:
            return None
    return found
