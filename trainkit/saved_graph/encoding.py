"""Settings and nests of results as plain JSON, and back.

Numbers, texts, booleans and `None` stand for themselves; everything else is an object with one key
that says what it
is: `{"tuple": [...]}`, `{"list": [...]}`, `{"dict": [[key, value], ...]}`,
`{"record": [name, [[field, value], ...]]}`, `{"float": "inf"}`, `{"complex": [re, im]}`,
`{"graph": number}`, `{"tensor": number}`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.errors import CheckpointError, UnimplementedError
from trainkit.saved_graph.standalone import GraphError, decode, record_type

Special = Callable[[Any], Any]


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
        return {"record": [record_type(type(value).__name__, fields).__name__, pairs]}
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


def decoded(value: Any, special: dict[str, Special]) -> Any:
    """What `value` was encoded from.

    Args:
        value: JSON.
        special: for each further kind of object a function of its content.

    Raises:
        CheckpointError: it holds an object of an unknown kind.
    """
    try:
        return decode(value, special)
    except GraphError as error:
        raise CheckpointError(f"the saved graph is refused: {error}") from None
