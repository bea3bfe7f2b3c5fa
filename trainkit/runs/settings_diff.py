"""How the models, optimizers and arguments of two runs differ."""

from __future__ import annotations

import json
import re
from typing import Any

from trainkit.runs.journaled_run import JournaledRun

_NUMBER = re.compile(r"_\d+$")


def settings_differences(first: JournaledRun, second: JournaledRun) -> list[str]:
    """How the models, optimizers and arguments of two runs differ, a line each."""
    pairs: list[tuple[str, Any, Any]] = []
    models = [_stored_model(run) for run in (first, second)]
    if all(models):
        pairs.append(("model", *models))
    for name in ("optimizer", "compile", "fit", "config"):
        one, other = (run.header.get(name) for run in (first, second))
        if name == "compile":  # which holds the optimizer once more
            one, other = (
                {key: x for key, x in value.items() if key != "optimizer"}
                if isinstance(value, dict)
                else None
                for value in (one, other)
            )
        pairs.append((name, one, other))
    lines: list[str] = []
    for name, one, other in pairs:
        lines += [line for line in nested_differences(one, other, name) if line not in lines]
    codes = [(run.header.get("model") or {}).get("code") for run in (first, second)]
    if codes[0] != codes[1]:
        lines.append("the code of the model's own classes differs")
    scripts = [(run.header.get("code") or {}).get("sha256") for run in (first, second)]
    if not lines and scripts[0] != scripts[1]:
        lines.append("the script differs")
    return lines[:50]


def _stored_model(run: JournaledRun) -> Any:
    path = run.folder / "model.json"
    try:
        if path.stat().st_size > 1 << 26:
            return None
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(config, dict):
        return None
    return {key: value for key, value in config.items() if key != "compile_config"}


def nested_differences(one: Any, other: Any, name: str = "") -> list[str]:
    """The leaves in which two nests of plain values differ, a line each.

    >>> nested_differences({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, "x")
    ['x.a[1].b is 2 in the first run, 3 in the other']
    """
    if isinstance(one, dict) and isinstance(other, dict):
        differences: list[str] = []
        for key in dict.fromkeys([*one, *other]):
            path = f"{name}.{key}" if name else str(key)
            differences += nested_differences(one.get(key), other.get(key), path)
        label = _drop_number(one.get("name"))
        same = isinstance(label, str) and label == _drop_number(other.get("name"))
        return [_name_layer(line, label) for line in differences] if same else differences
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            counts = [f"{len(x)}{_classes(x)}" for x in (one, other)]
            return [f"{name} has {counts[0]} in the first run, {counts[1]} in the other"]
        differences = []
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            differences += nested_differences(a, b, f"{name}[{i}]")
        return differences
    if one == other or _drop_number(one) == _drop_number(other):
        return []
    return [f"{name} is {_short(one)} in the first run, {_short(other)} in the other"]


def _drop_number(value: Any) -> Any:
    """A name without the number that tells it from others of one process: no difference."""
    return _NUMBER.sub("", value) if isinstance(value, str) else value


def _classes(items: list[Any]) -> str:
    names = [item.get("class_name") for item in items if isinstance(item, dict)]
    return f" ({', '.join(map(str, names[:20]))})" if names and all(names) else ""


def _name_layer(line: str, label: Any) -> str:
    """A line with the name of the layer that it is about, the innermost one."""
    return (
        line if " of " in line.split(" is ")[0] else line.replace(" is ", f" of {label!r} is ", 1)
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
