"""The text of `Model.summary`."""

from __future__ import annotations

from typing import Any

from trainkit.core import nest
from trainkit.layers.base import tracking
from trainkit.layers.base.error_context import shown_kind
from trainkit.layers.base.layer import Layer


def summary_text(model: Any, line_length: int, expand_nested: bool, show_trainable: bool) -> str:
    """A table of the layers, then the numbers of weights."""
    heads = ["Layer (type)", "Output shape", "Weights"] + (["Trained"] if show_trainable else [])
    rows = _rows(model, expand_nested, "")
    rows = [row if show_trainable else row[:-1] for row in rows]
    widths = _widths(line_length, show_trainable)
    rule = "-" * sum(widths)
    lines = [f"Model: {model.name!r}", rule, _line(heads, widths), rule]
    lines += [_line(row, widths) for row in rows]
    return "\n".join([*lines, rule, *_totals(model)])


def _widths(total: int, show_trainable: bool) -> list[int]:
    shares = (0.42, 0.3, 0.14, 0.14) if show_trainable else (0.45, 0.37, 0.18)
    return [int(total * share) for share in shares]


def _line(cells: list[str], widths: list[int]) -> str:
    fitted = [
        (cell if len(cell) < width else cell[: width - 3] + "..").ljust(width)
        for cell, width in zip(cells, widths, strict=True)
    ]
    return "".join(fitted).rstrip()


def _rows(model: Any, expand_nested: bool, indent: str) -> list[list[str]]:
    rows = []
    for layer in model.layers:
        trained = "yes" if layer.trainable else "no"
        name = f"{indent}{layer.name} ({shown_kind(layer)})"
        rows.append([name, _shape_text(layer), f"{count(layer.weights):,}", trained])
        if expand_nested and hasattr(layer, "layers"):
            rows += _rows(layer, expand_nested, indent + "  ")
    return rows


def _shape_text(layer: Layer) -> str:
    """The output shape of the layer's first call while a model was drawn up."""
    if layer.__dict__["_symbolic_call"] is None:
        return "?"
    outputs = nest.flatten(layer.__dict__["_symbolic_call"][1])
    return ", ".join(str(tuple(y.shape)) for y in outputs)


def count(variables: list[Any]) -> int:
    """The number of scalars in all variables."""
    return sum(int(v.size) for v in tracking.once(variables))


def _totals(model: Any) -> list[str]:
    trained, others = model.trainable_weights, model.non_trainable_weights
    size = sum(int(w.size) * w.dtype.size for w in model.weights)
    lines = [
        f"Total weights: {count(model.weights):,} ({size_text(size)})",
        f"Trained: {count(trained):,}",
        f"Not trained: {count(others):,}",
    ]
    if not model.built:
        lines.append("The model is not built yet: call it on data, or build(input_shape).")
    return lines


def size_text(size: float) -> str:
    """A number of bytes with its unit.

    >>> size_text(2048)
    '2.00 KB'
    """
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            break
        size /= 1024
    return f"{size:.2f} {unit}"
