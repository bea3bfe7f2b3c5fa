"""What made a function trace again, in words."""

from __future__ import annotations

from typing import Any

from trainkit.graph.signature import Arguments, ById, Place


def _parts(key: Any, arguments: Arguments) -> dict[str, Any]:
    """The top-level items of a key by the name of their argument."""
    parts: dict[str, Any] = {}
    for i, item in enumerate(key):
        if (
            isinstance(item, tuple)
            and item
            and all(isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) for p in item)
        ):
            parts.update(item)
        else:
            name = arguments.names[i] if i < len(arguments.names) else f"arg_{i}"
            parts[name] = item
    return parts


def _text(item: Any) -> str:
    if isinstance(item, Place):
        return repr(item)
    if isinstance(item, tuple):
        if len(item) == 2 and isinstance(item[0], type):
            return repr(item[1])
        kind = item[0].__name__ if item and isinstance(item[0], type) else "nest"
        return f"{kind} of {', '.join(_text(x) for x in item[1:])}"
    return repr(item)


def _advice(old: Any, new: Any) -> str:
    if isinstance(old, Place) and isinstance(new, Place):
        if old.dtype != new.dtype:
            return "cast it to one dtype"
        return "pass reduce_retracing=True, or an input_signature with None for the size"
    if isinstance(new, ById) or isinstance(old, ById):
        return "pass the same object each time, or a tensor"
    return "pass a tensor instead of a Python value: tk.constant(...)"


def _changes(arguments: Arguments, earlier: list[Any], key: Any) -> list[tuple[str, str, str, str]]:
    """`(argument, before, now, advice)` against the earlier call that is most like this one."""
    now = _parts(key, arguments)
    best: list[tuple[str, str, str, str]] | None = None
    for other in earlier:
        before = _parts(other, arguments)
        rows = [
            (name, _text(before[name]), _text(now[name]), _advice(before[name], now[name]))
            for name in now
            if name in before and before[name] != now[name]
        ]
        rows += [(name, "absent", _text(now[name]), "") for name in now if name not in before]
        if best is None or len(rows) <= len(best):
            best = rows
    return best or []


def difference(arguments: Arguments, earlier: list[Any], key: Any) -> str:
    """One sentence on what is new about a call."""
    rows = _changes(arguments, earlier, key)
    if not rows:
        return "its structure is new."
    return " ".join(
        f"{name!r} changed from {before} to {now}" + (f"; {advice}." if advice else ".")
        for name, before, now, advice in rows
    )


def table(name: str, arguments: Arguments, keys: list[Any]) -> str:
    """A line or more for each trace: the first in full, the others by what changed."""
    lines = [f"{name}: {len(keys)} trace{'s' * (len(keys) != 1)}"]
    for i, key in enumerate(keys):
        if i == 0:
            given = ", ".join(f"{k}: {_text(v)}" for k, v in _parts(key, arguments).items())
            lines.append(f"  1  first call: {given or 'no arguments'}")
            continue
        rows = _changes(arguments, keys[:i], key)
        for j, (argument, before, now, advice) in enumerate(rows):
            number = f"{i + 1}" if j == 0 else ""
            lines.append(f"  {number:<2} {argument}: {before} -> {now}")
            if advice:
                lines.append(f"     {advice}")
    return "\n".join(lines)
