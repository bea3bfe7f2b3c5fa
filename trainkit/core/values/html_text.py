"""Objects as HTML, which notebooks show: whatever is no `Html` is escaped when it goes in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

_ENTITIES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}
)  # those of html.escape, whose module takes as long to import as all of this folder
_MOST_PIXELS = 32
_PIXEL_SIDE = 8
_WIDTH, _HEIGHT, _EDGE = 260, 130, 6
_COLOURS = ("#1f6fb2", "#d9730d")
_NO_NUMBER = "#d03030"
_LIGHT, _DARK = (247, 251, 255), (8, 48, 107)
_FEW_VALUES = 1_000_000


class Html(str):
    """Text that is HTML already, and is not escaped."""

    __slots__ = ()


def tag(name: str, *parts: Any, **attributes: Any) -> Html:
    """An element of HTML or SVG.

    Args:
        name: such as `"td"`.
        *parts: what it holds, `Html` or anything that has a text.
        **attributes: by name; a `_` stands for a `-`, and one at the end is left out.

    >>> tag("b", "1 < 2", class_="x")
    '<b class="x">1 &lt; 2</b>'
    """
    attribute_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escape(value)}"'
        for key, value in attributes.items()
    )
    return Html(f"<{name}{attribute_text}>{joined(parts)}</{name}>")


def joined(parts: Iterable[Any]) -> Html:
    """Parts one after the other."""
    return Html("".join(part if isinstance(part, Html) else _escape(part) for part in parts))


def _escape(value: Any) -> str:
    return str(value).translate(_ENTITIES)


def table(head: Sequence[Any], rows: Iterable[Sequence[Any]]) -> Html:
    """A table with a line of heads."""
    lines = [tag("tr", *(tag("th", cell, style="text-align:left") for cell in head))]
    lines += [tag("tr", *(tag("td", cell, style="text-align:left") for cell in r)) for r in rows]
    return tag("table", *lines)


# ------------------------------------------------------------------ tensors


def tensor_html(array: Any, device: str) -> Html:
    """Shape, dtype and device of an array of NumPy, a picture of its values, and these."""
    dtype = "string" if array.dtype == object else array.dtype.name
    facts = [("shape", array.shape), ("dtype", dtype), ("device", device), *_range_of(array)]
    line = joined(tag("span", f"{name} ", tag("b", value), "  ") for name, value in facts)
    return tag("div", tag("div", line), _picture(array), tag("pre", str(array)))


def _range_of(array: Any) -> list[tuple[str, str]]:
    if array.dtype.kind not in "biuf" or not 1 < array.size <= _FEW_VALUES:
        return []
    values = array.astype(np.float64)
    bad = int(array.size - np.isfinite(values).sum())
    finite = values[np.isfinite(values)]
    entries = [("not finite", str(bad))] if bad else []
    if finite.size:
        shares = (("min", finite.min()), ("mean", finite.mean()), ("max", finite.max()))
        entries += [(name, f"{value:.4g}") for name, value in shares]
    return entries


def _picture(array: Any) -> Html:
    """A heat map of a matrix or vector, or the image that an array is; else nothing."""
    is_image = array.ndim == 3 and array.shape[-1] in (1, 3)
    if array.dtype.kind not in "biuf" or not 1 < array.size or not (is_image or array.ndim <= 2):
        return Html("")
    values = np.atleast_2d(array)
    steps = [max(1, -(-n // _MOST_PIXELS)) for n in values.shape[:2]]
    values = values[:: steps[0], :: steps[1]].astype(np.float64)
    return _pixels(_image_colours(values) if is_image else _heat_colours(values))


def _heat_colours(values: Any) -> list[list[str]]:
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    shares = (values - low) / (high - low) if high > low else np.zeros_like(values)

    def colour(value: float, share: float) -> str:
        if not np.isfinite(value):
            return _NO_NUMBER
        return _rgb([a + (b - a) * share for a, b in zip(_LIGHT, _DARK, strict=True)])

    return [
        [colour(v, s) for v, s in zip(*row, strict=True)]
        for row in zip(values, shares, strict=True)
    ]


def _image_colours(values: Any) -> list[list[str]]:
    scaled = np.nan_to_num(values) * (255.0 if np.nanmax(values, initial=0.0) <= 1 else 1.0)
    levels = np.broadcast_to(scaled, (*scaled.shape[:2], 3)).clip(0, 255)
    return [[_rgb(pixel) for pixel in row] for row in levels]


def _rgb(levels: Iterable[float]) -> str:
    return "#" + "".join(f"{int(level):02x}" for level in levels)


def _pixels(colours: list[list[str]]) -> Html:
    height, width = len(colours), len(colours[0])
    squares = [
        tag("rect", x=x, y=y, width=1, height=1, fill=colour)
        for y, row in enumerate(colours)
        for x, colour in enumerate(row)
    ]
    return tag(
        "svg",
        *squares,
        width=width * _PIXEL_SIDE,
        height=height * _PIXEL_SIDE,
        viewBox=f"0 0 {width} {height}",
        shape_rendering="crispEdges",
    )


# ------------------------------------------------------------------ curves


def curves(title: str, lines: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> Html:
    """A chart of lines over one axis, with the range of its values.

    Args:
        title: stands above it.
        lines: x and y by the name of the line; points that are not finite are left out.
    """
    points = {
        name: [(x, y) for x, y in zip(*line, strict=True) if np.isfinite(y)]
        for name, line in lines.items()
    }
    every = [point for line in points.values() for point in line]
    if not every:
        return tag("figure", tag("figcaption", title, ": no numbers"))
    low_x, high_x = _bounds([x for x, _ in every])
    low_y, high_y = _bounds([y for _, y in every])

    def place_point(x: float, y: float) -> str:
        across = _EDGE + (x - low_x) / (high_x - low_x) * (_WIDTH - 2 * _EDGE)
        down = _HEIGHT - _EDGE - (y - low_y) / (high_y - low_y) * (_HEIGHT - 2 * _EDGE)
        return f"{across:.1f},{down:.1f}"

    drawn, legend = [], []
    for i, (name, line) in enumerate(points.items()):
        colour = _COLOURS[i % len(_COLOURS)]
        path = " ".join(place_point(x, y) for x, y in line)
        style = {"fill": "none", "stroke": colour, "stroke_width": 2}
        if len(line) == 1:
            centre = path.split(",")
            drawn.append(tag("circle", cx=centre[0], cy=centre[1], r=3, fill=colour))
        elif line:
            drawn.append(tag("polyline", points=path, **style))
        if line:
            legend.append(tag("span", f" {name} {line[-1][1]:.4g} ", style=f"color:{colour}"))
    chart = tag("svg", *drawn, width=_WIDTH, height=_HEIGHT, style="border:1px solid #ccc")
    words = f" {min(y for _, y in every):.4g} to {max(y for _, y in every):.4g}"
    return tag(
        "figure",
        tag("figcaption", tag("b", title), words),
        chart,
        tag("div", *legend),
        style="display:inline-block;margin:4px",
    )


def _bounds(values: list[float]) -> tuple[float, float]:
    low, high = float(min(values)), float(max(values))
    return (low, high) if high > low else (low - 0.5, high + 0.5)
