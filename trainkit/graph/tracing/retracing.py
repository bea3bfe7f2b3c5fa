"""What made a function trace again, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainkit.collectives.replica import of_replica
from trainkit.core import nest
from trainkit.core.devices import Device
from trainkit.core.user_frames import Line, line_text
from trainkit.graph.tracing.signature import Arguments, ById, Place

Row = tuple[str, str, str, str]
"""An argument or a part of one, what it was, what it is, and how to avoid the trace."""

_DEVICE = "tk.device"


def _parts(key: Any, arguments: Arguments) -> dict[str, Any]:
    """The top-level items of a key by the name of their argument."""
    parts: dict[str, Any] = {}
    for i, item in enumerate(key):
        if _is_by_name(item):
            parts.update(item)
        elif isinstance(item, Device):
            parts[_DEVICE] = item
        else:
            parts[arguments.name_of(i)] = item
    return parts


def _is_by_name(item: Any) -> bool:
    """Whether `item` holds the arguments that were given by name."""
    return (
        isinstance(item, tuple)
        and bool(item)
        and all(isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) for p in item)
    )


def _kind(item: Any) -> Any:
    """The type of a container in a key, else `None`."""
    typed = isinstance(item, tuple) and bool(item) and isinstance(item[0], type)
    return item[0] if typed and nest.is_nested_type(item[0]) else None


def _name_items(item: Any) -> dict[Any, Any] | None:
    """The items of a container by their names, in its order; `None` where it has no names."""
    kind, names, *items = item
    if names is None:
        return None
    in_order = nest.sorted_keys(dict.fromkeys(names)) if issubclass(kind, Mapping) else names
    by_name = dict(zip(in_order, items, strict=True))
    return {name: by_name[name] for name in names}


def _text(item: Any) -> str:
    if isinstance(item, tuple):
        kind = _kind(item)
        if kind is None:
            return repr(item[1])
        named = _name_items(item)
        if named is not None:
            return "{" + ", ".join(f"{k!r}: {_text(v)}" for k, v in named.items()) + "}"
        inner = ", ".join(map(_text, item[2:]))
        return f"[{inner}]" if issubclass(kind, list) else f"({inner})"
    return item.name if isinstance(item, Device) else repr(item)


def _advice(old: Any, new: Any, relaxed: bool | str = False) -> str:
    if isinstance(old, Device) or isinstance(new, Device):
        return "each device has a trace of its own, as it should be"
    if isinstance(old, Place) and isinstance(new, Place):
        if old.dtype != new.dtype:
            return "cast it to one dtype"
        if len(old.shape) != len(new.shape):
            return "reshape it to one rank"
        if relaxed == "rows" and old.shape[1:] != new.shape[1:]:
            return (
                "each length has a graph of its own, only numbers of rows share one: pad batches "
                "to a few lengths, such as multiples of 16, and mask what is padding"
            )
        if relaxed:
            return "the function needs to know the size: pass batches of one size"
        return "pass reduce_retracing=True, or an input_signature with None for the size"
    if _kind(old) is not None or _kind(new) is not None:
        return "pass the same structure each time"
    if isinstance(new, ById) or isinstance(old, ById):
        if any(isinstance(x, ById) and callable(x.value()) for x in (old, new)):
            return "make the function once, outside, and pass that; each new one is another"
        return "pass the same object each time, or a tensor"
    return _advice_on_value(old, new)


def _advice_on_value(old: Any, new: Any) -> str:
    values = [x[1] if isinstance(x, tuple) else x for x in (old, new)]
    if all(isinstance(v, bool) for v in values):
        return "a bool makes two traces at most, which is as it should be"
    if any(v is None for v in values):
        return "pass a value of one kind each time"
    if any(isinstance(v, str | bytes) for v in values):
        return "each text has a trace of its own; pass few different ones"
    return "pass a tensor instead of a Python value: tk.constant(...)"


def _compare(name: str, old: Any, new: Any, relaxed: bool | str) -> list[Row]:
    """What differs, as deep inside of nests as it can be found."""
    if old == new:
        return []
    kind = _kind(new)
    if kind is not None and kind is _kind(old) and len(old) == len(new):
        before, now = _name_items(old), _name_items(new)
        if before is None or now is None:
            pairs = zip(range(len(new)), old[2:], new[2:], strict=False)
            return [row for i, a, b in pairs for row in _compare(f"{name}[{i}]", a, b, relaxed)]
        if list(before) == list(now):
            names = {k: f"{name}[{k!r}]" for k in now}
            return [row for k in now for row in _compare(names[k], before[k], now[k], relaxed)]
    return [(name, _text(old), _text(new), _advice(old, new, relaxed))]


def _changes(
    arguments: Arguments, earlier: list[Any], key: Any, relaxed: bool | str = False
) -> list[Row]:
    """What is new against the earlier call that is most like this one."""
    now = _parts(key, arguments)
    best: list[Row] | None = None
    for other in earlier:
        before = _parts(other, arguments)
        rows = [
            row
            for name in now
            if name in before
            for row in _compare(name, before[name], now[name], relaxed)
        ]
        rows += [_one_sided(name, None, now[name]) for name in now if name not in before]
        rows += [_one_sided(name, before[name], None) for name in before if name not in now]
        if best is None or len(rows) <= len(best):
            best = rows
    return best or []


def _one_sided(name: str, old: Any, new: Any) -> Row:
    """A part that one of two calls lacks, which is `None`."""
    is_device = name == _DEVICE
    before, now = (
        ("the default" if is_device else "absent") if item is None else _text(item)
        for item in (old, new)
    )
    more = "pass the same number of arguments each time"
    return name, before, now, _advice(old, new) if is_device else more


def difference(
    arguments: Arguments, earlier: list[Any], key: Any, relaxed: bool | str = False
) -> str:
    """One sentence on what is new about a call.

    Args:
        arguments: the function's parameters.
        earlier: keys of the calls before.
        key: that of the call.
        relaxed: whether the function has been asked to make a differing size unknown; `"rows"` for
            the number of rows alone.
    """
    rows = _changes(arguments, earlier, key, relaxed)
    if not rows:
        return "its structure is new."
    return " ".join(
        f"{name!r} changed from {before} to {now}; {advice}." for name, before, now, advice in rows
    )


def table(
    name: str,
    arguments: Arguments,
    keys: list[Any],
    places: Sequence[Line | None] = (),
    on_gpu: Sequence[str | None] = (),
    relaxed: bool | str = False,
) -> str:
    """Some lines for each trace: the call, then what was new about it and how to avoid that.

    Args:
        name: of the function.
        arguments: its parameters.
        keys: of the calls that were traced, in order.
        places: the user's lines that made these calls.
        on_gpu: how each trace runs on a GPU, `None` where it has not.
        relaxed: whether the function has been asked to make a differing size unknown; `"rows"` for
            the number of rows alone.
    """
    lines = [f"{name}: {len(keys)} trace{'s' * (len(keys) != 1)}"]
    for i, key in enumerate(keys):
        call_line = places[i] if i < len(places) else None
        whose, own = of_replica(key)
        lines.append(f"  {i + 1:<2} called at {line_text(call_line)}")
        if whose is not None:
            lines.append(f"     in replica {whose[0]} of {whose[1]}")
        earlier = [args for other, args in map(of_replica, keys[:i]) if other == whose]
        if not earlier:
            first_call = ", ".join(f"{k}: {_text(v)}" for k, v in _parts(own, arguments).items())
            lines.append(f"     first call: {first_call or 'no arguments'}")
        for argument, before, now, advice in _changes(arguments, earlier, own, relaxed):
            lines += [f"     {argument}: {before} -> {now}", f"       {advice}"]
        if i < len(on_gpu) and on_gpu[i]:
            lines.append(f"     on the GPU: {on_gpu[i]}")
    return "\n".join(lines)
