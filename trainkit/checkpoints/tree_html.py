"""A checkpoint as HTML: the tree of its parts, those with parts of their own folded away."""

from __future__ import annotations

from typing import Any

from trainkit.core.trackable import Trackable
from trainkit.core.values.html_text import Html, joined, tag
from trainkit.core.variable import Variable


def tree_html(title: str, root: Trackable) -> Html:
    """The parts of `root`, each where it stands first; variables with shape and dtype."""
    return tag("div", tag("b", title), _parts(root, {id(root)}))


def _parts(owner: Any, visited: set[int]) -> Html:
    items = []
    for name, part in owner.parts().items():
        line = joined([tag("b", name), f" {type(part).__name__}", _facts(part)])
        if id(part) in visited:  # in a circle, or under another name before
            items.append(tag("li", line, " (above)"))
            continue
        visited.add(id(part))
        inside = _parts(part, visited) if part.parts() else None
        items.append(tag("li", line if inside is None else _fold(line, inside)))
    return tag("ul", *items)


def _fold(line: Html, inside: Html) -> Html:
    return tag("details", tag("summary", line), inside)


def _facts(part: Any) -> str:
    return f" {tuple(part.shape)} {part.dtype.name}" if isinstance(part, Variable) else ""
