"""Numbers, texts and lists that an object holds in attributes, for checkpoints.

A callback that counts does so in an attribute: `self.wait += 1`. What can be written down as JSON
is stored, arrays and generators of NumPy included. Everything else, as an open file, is not state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

_NUMBERS = "biufc"


class _NoStateError(Exception):
    """A value is nothing that can be written down."""


class SettingChanges:
    """How often parts of models were given other values, in the whole process.

    What was made from settings, as a compiled step, looks at them again where a number is another.

    Attributes:
        attributes: how often an attribute of a layer, model, optimizer, loss or metric, or an item
            of a list or dict that one holds, was set to a value that can be written down or called.
        trainable: how often something was frozen, or the other way round.
        parts: how often an attribute of something trackable was set or deleted, or a list or dict
            that is a part was changed: lists gathered from a tree hold until this number is
            another. It is raised after the change, so that no list made meanwhile holds.
    """

    attributes = trainable = parts = 0

    def note(self, value: Any) -> None:
        """Count an attribute that is set, where its value can be a setting."""
        if isinstance(value, _SETTING_TYPES) or callable(value):
            self.attributes += 1

    def note_items(self, values: Iterable[Any]) -> None:
        """Count a list or dict that takes or loses items, where one can be a setting."""
        if any(isinstance(value, _SETTING_TYPES) or callable(value) for value in values):
            self.attributes += 1


_SETTING_TYPES = (int, float, str, list, tuple, dict, np.generic, np.ndarray, type(None))

CHANGES = SettingChanges()


def texts_of(owner: Any, without: Iterable[str] = ()) -> dict[str, str]:
    """The attributes of an object that can be written down, as texts by name."""
    texts: dict[str, str] = {}
    for name, value in vars(owner).items():
        if name in without:
            continue
        text = text_of(value)
        if text is not None:
            texts[name] = text
    return texts


def text_of(value: Any) -> str | None:
    """A value written down as `texts_of` does; `None` where that can't be."""
    try:
        return json.dumps(_encode(value))
    except _NoStateError:
        return None


def value_of(text: str, now: Any = None) -> Any:
    """The value that `text_of` wrote down.

    Args:
        text: what it gave.
        now: the value there is; a generator goes on from the state that is read.
    """
    return _decode(json.loads(text), now)


def packed(changes: dict[str, tuple[str | None, str]]) -> Any:
    """Attributes as one array of bytes.

    Args:
        changes: by name the text that training began with, `None` without one, and the text now.
    """
    return np.frombuffer(json.dumps(changes).encode(), np.uint8).copy()


def load(owner: Any, array: Any, first: dict[str, str]) -> None:
    """Set the attributes that `packed` wrote, as far as they began as they do here.

    Args:
        owner: whose they are.
        array: of bytes.
        first: the texts that training begins with.

    Raises:
        ValueError: the array is nothing that `packed` wrote; no attribute is set then.
    """
    values: dict[str, Any] = {}
    try:
        changes = json.loads(np.asarray(array, np.uint8).tobytes())
        for name, (before, text) in changes.items():
            _check_name(owner, name)
            if before == first.get(name):
                values[name] = value_of(text, vars(owner).get(name))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"attributes of {type(owner).__name__} can't be read: {error}") from error
    for name, value in values.items():
        setattr(owner, name, value)


def _check_name(owner: Any, name: str) -> None:
    """Refuse a name that stands for something else in the class than a value.

    Raises:
        ValueError: it does, as that of a method does.
    """
    member = getattr(type(owner), name, None)
    if name.startswith("__") or callable(member) or isinstance(member, property):
        raise ValueError(f"{name!r} is no attribute that holds a value")


def _encode(value: Any) -> Any:
    """A value as JSON; what JSON does not know stands in a dict of one key."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if isinstance(value, list) or kind is tuple:
        items = [_encode(item) for item in value]
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, dict):
        return {"dict": [[_encode(key), _encode(item)] for key, item in value.items()]}
    if isinstance(value, np.random.Generator):
        return {"generator": _encode(value.bit_generator.state)}
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in _NUMBERS:
        flat = np.ascontiguousarray(value)
        scalar = isinstance(value, np.generic)
        return {"array": [value.dtype.str, list(value.shape), flat.tobytes().hex(), scalar]}
    raise _NoStateError


def _decode(value: Any, now: Any) -> Any:
    """What `_encode` was given.

    Args:
        value: what it gave.
        now: what the attribute holds; a generator goes on from the state that is read.
    """
    if isinstance(value, list):
        return [_decode(item, None) for item in value]
    if not isinstance(value, dict):
        return value
    ((form, content),) = value.items()
    if form == "tuple":
        return tuple(_decode(item, None) for item in content)
    if form == "dict":
        return {_decode(key, None): _decode(item, None) for key, item in content}
    if form == "generator":
        return _generator(_decode(content, None), now)
    name, shape, digits, scalar = content
    dtype = np.dtype(name)
    if form != "array" or dtype.kind not in _NUMBERS:
        raise ValueError(f"{form} of {dtype}")
    array = np.frombuffer(bytes.fromhex(digits), dtype).reshape(shape).copy()
    return array[()] if scalar else array


def _generator(state: dict[str, Any], now: Any) -> Any:
    """A generator of NumPy in a state: the one that is there, if it is of that kind."""
    kind = state["bit_generator"]
    if not isinstance(now, np.random.Generator):
        if kind not in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"):
            raise ValueError(f"there is no generator {kind!r}")
        now = np.random.Generator(getattr(np.random, kind)())
    now.bit_generator.state = state
    return now
