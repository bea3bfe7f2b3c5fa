"""Tables of pandas: columns that hold neither numbers nor texts alone, by their names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from trainkit.core.errors import InvalidArgumentError

_MOST_COLUMNS = 6
_MISSING = ("NAType", "NaTType")


def is_of_pandas(value: Any) -> bool:
    """Whether `value` is a table, a column or an index of pandas, which need not be installed."""
    return type(value).__module__.partition(".")[0] == "pandas"


def require_numbers(value: Any) -> None:
    """Refuse a table or column of pandas that is no array of numbers, nor one of texts.

    Raises:
        InvalidArgumentError: a column holds categories, dates, texts beside numbers, or NA.
    """
    if not is_of_pandas(value) or not hasattr(value, "to_numpy"):
        return
    if not hasattr(value, "dtype") and not hasattr(value, "columns"):
        return  # a single date, or the like
    columns = list(_columns(value))
    if all(_is_plain(column) for _, column in columns) or value.to_numpy().dtype.kind in "biufc":
        return
    texts = [_are_texts(column) for _, column in columns]
    if all(texts):
        return  # an array of texts
    lines = []
    for (name, column), is_text in zip(columns, texts, strict=True):
        fault = _fault_of_texts(column) if is_text else _fault_of(column)
        if fault:
            of = "df" if name is None else f"df[{name!r}]"
            label = "it" if name is None else repr(name)
            lines.append(f"  {label} holds {fault[0]}: {fault[1].format(column=of)}")
    if not lines:
        return
    if len(lines) > _MOST_COLUMNS:
        lines[_MOST_COLUMNS:] = [f"  and {len(lines) - _MOST_COLUMNS} columns more"]
    raise InvalidArgumentError("the table has columns that are no numbers:\n" + "\n".join(lines))


def _columns(value: Any) -> Iterator[tuple[Any, Any]]:
    if not hasattr(value, "columns"):
        yield getattr(value, "name", None), value
        return
    for i, name in enumerate(value.columns):
        yield name, value.iloc[:, i]


def _is_plain(column: Any) -> bool:
    """Whether its dtype is one of NumPy's, and no object."""
    return isinstance(column.dtype, np.dtype) and column.dtype.kind in "biufc"


def _are_texts(column: Any) -> bool:
    return all(isinstance(item, str | bytes) for item in column.to_numpy())


def _is_categorical(column: Any) -> bool:
    return type(column.dtype).__name__ == "CategoricalDtype"


def _fault_of_texts(column: Any) -> tuple[str, str]:
    """What to do about texts in a table that has numbers as well."""
    if _is_categorical(column):
        return "categories", "give their numbers, {column}.cat.codes, or pandas.get_dummies(df)"
    return "texts", "number them, as with {column}.astype('category').cat.codes, or drop it"


def _fault_of(column: Any) -> tuple[str, str] | None:
    """What a column holds that is no number, and what to do; `None` for numbers."""
    kind = getattr(column.dtype, "kind", "")
    if kind == "M":
        return "dates", "give what matters of them, such as {column}.dt.dayofyear, or seconds"
    if kind == "m":
        return "times", "give their seconds, {column}.dt.total_seconds()"
    objects = column.to_numpy(dtype=object)
    missing = sum(x is None or type(x).__name__ in _MISSING for x in objects)
    if missing:
        return f"no value in {missing} of {len(column)} rows", (
            "fill them, as with {column}.fillna(0), or drop these rows, {column}.dropna()"
        )
    other = next((x for x in objects if not _is_number(x)), None)
    if other is None:
        return None
    if isinstance(other, str | bytes):
        return _fault_of_texts(column)
    return f"objects, such as {other!r}", "make numbers of them, or drop it"


def _is_number(x: Any) -> bool:
    try:
        float(x)
    except (TypeError, ValueError):
        return False
    return not isinstance(x, str | bytes)
