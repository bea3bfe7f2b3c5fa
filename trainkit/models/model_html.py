"""A model as HTML: its layers in a table, those of models inside folded away."""

from __future__ import annotations

from typing import Any

from trainkit.core.values.html_text import Html, joined, table, tag
from trainkit.models.summarizing import layer_facts, total_lines

_HEAD = ("Layer (type)", "Output Shape", "Param #", "Trained")


def model_html(model: Any) -> Html:
    """The layers of a model with their shapes and numbers of weights, and the sums."""
    kind = type(model).__name__
    return tag(
        "div",
        tag("b", f'{kind} "{model.name}"'),
        _layers(model),
        tag("pre", "\n".join(line.strip() for line in total_lines(model))),
    )


def _layers(model: Any) -> Html:
    rows = []
    for layer in model.layers:
        name, shape, count = layer_facts(layer)
        trained = "" if not layer.weights else "yes" if layer.trainable else "no"
        inside = getattr(layer, "layers", None)
        cell = tag("details", tag("summary", name), _layers(layer)) if inside else joined([name])
        rows.append((cell, shape, count, trained))
    return table(_HEAD, rows)
