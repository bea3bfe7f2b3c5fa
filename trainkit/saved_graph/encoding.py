"""Settings and nests of results as plain JSON, and back.

Numbers, texts, booleans and `None` stand for themselves; everything else is an object with one key
that says what it
is: `{"tuple": [...]}`, `{"list": [...]}`, `{"dict": [[key, value], ...]}`,
`{"record": [name, [[field, value], ...]]}`, `{"float": "inf"}`, `{"complex": [re, im]}`,
`{"graph": number}`, `{"tensor": number}`.
"""

from __future__ import annotations

import functools
import math
from collections import namedtuple
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.errors import CheckpointError, UnimplementedError

Special = Callable[[Any], Any]

MAX_DEPTH = 50
_KEYS = (str, int, float, tuple, type(None))


def encoded(value: Any, special: Special, what: str) -> Any:
    """`value` as JSON.

    Args:
        value: plain values and nests of them.
        special: gives the JSON object for what else may occur, `None` for what it does not know.
        what: what is being saved, for the error.

    Raises:
        UnimplementedError: something in it is no data.
    """
    special_json = special(value)
    if special_json is not None:
        return special_json
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, complex):
        return {"complex": [encoded(value.real, special, what), encoded(value.imag, special, what)]}
    fields = nest.fields_of(value)
    if fields is not None:
        pairs = [[k, encoded(getattr(value, k), special, what)] for k in fields]
        return {"record": [named(type(value).__name__, fields).__name__, pairs]}
    if isinstance(value, tuple):
        return {"tuple": [encoded(item, special, what) for item in value]}
    if isinstance(value, list):
        return {"list": [encoded(item, special, what) for item in value]}
    if isinstance(value, Mapping):
        return {
            "dict": [
                [encoded(k, special, what), encoded(v, special, what)] for k, v in value.items()
            ]
        }
    raise UnimplementedError(
        f"{what} holds {value!r}, a {type(value).__name__}, which is no data and can't be saved "
        "with a graph"
    )


@functools.lru_cache(maxsize=256)
def named(name: str, fields: tuple[str, ...]) -> type[Any]:
    """The type that named results have after loading: a named tuple.

    Raises:
        ValueError: they are no names.
    """
    return namedtuple(name, fields)


def decoded(value: Any, special: dict[str, Special], depth: int = 0) -> Any:
    """What `value` was encoded from.

    Args:
        value: JSON.
        special: for each further kind of object a function of its content.
        depth: of the nesting so far.

    Raises:
        CheckpointError: it holds an object of an unknown kind.
    """
    if depth > MAX_DEPTH:
        raise CheckpointError("the saved graph is refused: its settings are nested too deep")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if not isinstance(value, dict) or len(value) != 1:
        raise CheckpointError(f"the saved graph is refused: {str(value)[:60]!r} is no setting")
    ((kind, content),) = value.items()
    if kind in special:
        return special[kind](content)
    if kind == "float" and content in ("inf", "-inf", "nan"):
        return float(content)
    if kind == "complex" and isinstance(content, list) and len(content) == 2:
        return complex(*[float(decoded(part, special, depth + 1)) for part in content])
    if kind in ("tuple", "list") and isinstance(content, list):
        items = [decoded(item, special, depth + 1) for item in content]
        return tuple(items) if kind == "tuple" else items
    if kind == "dict" and isinstance(content, list):
        pairs = [decoded({"tuple": pair}, special, depth + 1) for pair in content]
        if all(len(pair) == 2 and isinstance(pair[0], _KEYS) for pair in pairs):
            return dict(pairs)
    if kind == "record" and isinstance(content, list) and len(content) == 2:
        name, pairs = content
        fields = tuple([str(field) for field, _ in pairs])
        return named(str(name), fields)(*[decoded(x, special, depth + 1) for _, x in pairs])
    raise CheckpointError(f"the saved graph is refused: {kind[:40]!r} is no kind of setting")
