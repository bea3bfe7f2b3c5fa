"""Settings of a model's layers, metrics, losses and optimizer, which callbacks change in training.

`Dropout.rate`, `optimizer.clipnorm` and `layer.trainable` are Python values, so no Variable has
them. A compiled step looks whether they are still those that it was traced with, and a run stores
those that have changed since it began: what a program begins with is the program's.
"""

from __future__ import annotations

import dis
import functools
import json
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.trackable import Trackable, traverse
from trainkit.core.values.attribute_state import text_of, value_of
from trainkit.core.values.python_signatures import signature_of
from trainkit.core.variable import Variable
from trainkit.losses.loss import Loss
from trainkit.optimizers.base.options import DEFAULTS

Settings = dict[str, dict[str, Any]]
"""By path and name: a text that can be stored, or a function in a tuple, which can't."""

_PACKAGE = __name__.split(".")[0] + "."
_WORDS = {None: "null", False: "false", True: "true"}  # as `text_of` writes them, in less time
_STORE, _DIGITS = dis.opmap["STORE_ATTR"], dis.opmap["EXTENDED_ARG"]
_NEVER = frozenset({"self", "name", "dtype", "args", "kwargs", "seed", "built"})


def settings_of(model: Any) -> Settings:
    """The settings of a model and of all of its parts that have some."""
    settings: Settings = {}
    for path, part in _parts_of(model):
        texts = {name: _noted(value) for name, value in _values_of(part)}
        texts = {name: text for name, text in texts.items() if text is not None}
        if texts:
            settings[path] = texts
    return settings


def _parts_of(model: Any) -> Iterator[tuple[str, Any]]:
    """What has settings, by path: layers, metrics, the optimizer, and losses given to `compile`.

    Those losses are no parts of the model, as they have no variables.
    """
    for path, part in traverse(model):
        if not isinstance(part, Variable | list | tuple | dict):
            yield "/".join(path), part
    for number, loss in enumerate(nest.flatten(getattr(model, "loss", None))):
        if isinstance(loss, Loss):
            yield f"compile/loss/{number}", loss


def _values_of(part: Any) -> Iterator[tuple[str, Any]]:
    """Arguments of constructors, and what classes of the user's, or others, have set."""
    kind: Any = type(part)
    arguments, of_package = _names_of(kind)
    for name, value in vars(part).items():
        if name in arguments or not (name in of_package or name.startswith("_")):
            yield name, value
    if "_trainable" in vars(part):
        yield "trainable", part.trainable


def _noted(value: Any) -> Any:
    kind = type(value)
    if kind is bool or value is None:
        return _WORDS[value]
    if kind is int:
        return str(value)
    if isinstance(value, Trackable) and not isinstance(value, list | tuple | dict):
        return None  # a part of its own, or a variable, which a checkpoint has
    text = text_of(value)
    is_function = text is None and callable(value) and not isinstance(value, type)
    return (value,) if is_function else text


@functools.lru_cache(maxsize=1024)
def _names_of(kind: Any) -> tuple[frozenset[str], frozenset[str]]:
    """Names of the arguments of a class, and those that the package's code gives attributes."""
    arguments = {*DEFAULTS, *getattr(kind, "settings", ())}
    assigned: set[str] = set()
    for base in kind.__mro__:
        if "__init__" in vars(base) and base is not object:
            arguments |= set(signature_of(vars(base)["__init__"]).parameters)
        if is_of_package(base):
            assigned |= set(vars(base).get("__annotations__", ()))
            for function in vars(base).values():
                assigned |= _assigned_by(getattr(function, "__code__", None))
    return frozenset(arguments - _NEVER), frozenset(assigned | _NEVER)


def _assigned_by(code: Any) -> set[str]:
    """The attributes that a function gives values, from the two bytes of each instruction.

    `dis.get_instructions` says the same in twenty times the time, with texts that nobody reads.
    """
    if code is None:
        return set()
    codes, numbers = code.co_code[::2], code.co_code[1::2]
    names, at = set(), codes.find(_STORE)
    while at >= 0:
        number, first = numbers[at], at  # more digits of the number stand before it
        while first and codes[first - 1] == _DIGITS:
            first -= 1
            number += numbers[first] << 8 * (at - first)
        names.add(code.co_names[number])
        at = codes.find(_STORE, at + 1)
    return names


def is_of_package(kind: type) -> bool:
    """Whether a class is one of this package's, rather than the user's."""
    return kind.__module__.startswith(_PACKAGE)


# ---------------------------------------------------------------------- stored


def changes_since(first: Settings | None, model: Any) -> Any:
    """What has changed since training began, as an array of bytes; `None` if nothing has.

    Args:
        first: the settings at that time; `None` if nobody has noted them.
        model: has those of now.
    """
    if first is None:
        return None
    changes: dict[str, dict[str, Any]] = {}
    for path, texts in settings_of(model).items():
        before = first.get(path, {})
        changed = {
            name: (_store(before.get(name)), _store(text), _shown(text))
            for name, text in texts.items()
            if text != before.get(name)
        }
        if changed:
            changes[path] = changed
    if not changes:
        return None
    return np.frombuffer(json.dumps(changes).encode(), np.uint8).copy()


def _store(text: Any) -> str | None:
    return text if isinstance(text, str) else None


def _shown(text: Any) -> str:
    return text if isinstance(text, str) else repr(*text)


def take_over(model: Any, array: Any, first: Settings | None) -> None:
    """Set what `changes_since` stored, where the program begins with what that run began with.

    Where it does not, its own value stays, and a warning shows both; likewise for functions.

    Args:
        model: of the run that goes on.
        array: of bytes.
        first: what this program begins with.

    Raises:
        ValueError: the array is none that `changes_since` gave; nothing is set then.
    """
    parts = dict(_parts_of(model))
    current_settings = settings_of(model) if first is None else first
    values: list[tuple[Any, str, Any]] = []
    try:
        changes = json.loads(np.asarray(array, np.uint8).tobytes())
        for path, name, before, now, after in _flat(changes):
            mine = current_settings.get(path, {}).get(name)
            if mine is None or mine == now:
                continue
            if now is not None and mine == before:
                values.append((parts[path], name, value_of(now, getattr(parts[path], name))))
            else:
                _warn(parts[path], name, mine, before, after)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"settings of the model can't be read: {error}") from error
    _set_all(model, values)


def _flat(changes: dict[str, Any]) -> Iterator[tuple[str, str, Any, Any, str]]:
    for path, names in changes.items():
        for name, (before, now, after) in names.items():
            yield path, name, before, now, after


def _warn(part: Any, name: str, mine: Any, before: str | None, after: str) -> None:
    whose = f"{type(part).__name__} {getattr(part, 'name', '')!r}"
    if before is not None:
        text = (
            f"the stored run began with {name}={before} and went on with {after}, this program "
            f"begins with {_shown(mine)}, which stays"
        )
    else:
        text = (
            f"{name} was changed to {after} in the stored run, which can't be stored, so training "
            f"goes on with {_shown(mine)}: set it before fit, or in on_train_begin"
        )
    warnings.warn(f"fit: {whose}: {text}", UserWarning, stacklevel=2)


def put_back(model: Any, settings: Settings) -> None:
    """Set what is not as it was any more."""
    now, parts = settings_of(model), dict(_parts_of(model))
    _set_all(
        model,
        [
            (parts[path], name, value_of(text) if isinstance(text, str) else text[0])
            for path, texts in settings.items()
            for name, text in texts.items()
            if path in parts and now.get(path, {}).get(name) != text
        ],
    )


def _set_all(model: Any, values: list[tuple[Any, str, Any]]) -> None:
    """Set attributes, those to `None` first, since of some only one may have another value.

    `trainable` comes last, from the outermost part inwards: it is set in all parts inside as well.
    """
    if not values:
        return
    flags = {id(part): part.trainable for _, part in _parts_of(model) if hasattr(part, "trainable")}
    flags |= {id(part): value for part, name, value in values if name == "trainable"}
    for part, name, value in sorted(values, key=lambda change: change[2] is not None):
        if name != "trainable":
            _set(part, name, value)
    for _, part in _parts_of(model):
        if id(part) in flags and part.trainable != flags[id(part)]:
            _set(part, "trainable", flags[id(part)])


def _set(part: Any, name: str, value: Any) -> None:
    try:
        setattr(part, name, value)
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"{type(part).__name__}: {name} can't be set to {value!r} as in the stored run: {error}"
        ) from error
