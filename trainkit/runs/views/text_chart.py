"""A curve drawn of characters: Braille, whose cells have two by four dots, or ASCII."""

from __future__ import annotations

import numpy as np

from trainkit.runs.views.curves import Curve, CurvePair, Scale, binned, first_bad_step
from trainkit.runs.views.terminal import Terminal
from trainkit.runs.views.text_cells import number

_LABEL = 8
_BRAILLE = 0x2800
_DOT_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""The bit of each dot of a Braille cell, by row and column; Unicode, chapter 21.1."""
_ASCII_DOTS = " '.:"
"""No dot, the upper, the lower, both."""


def chart(
    pair: CurvePair,
    scale: Scale | None,
    last_step: int,
    terminal: Terminal,
    width: int,
    height: int,
    color: str = "36",
) -> list[str]:
    """The lines of a chart, each `width` columns wide: a title, the plot, the steps.

    Args:
        pair: what is drawn: the training as a line, the validation as marks.
        scale: of the vertical axis, `None` where there are no numbers.
        last_step: at the right edge.
        terminal: what can be shown.
        width: columns, 20 at least.
        height: lines of the plot.
        color: of the line, by the number of its escape sequence.
    """
    plot_width = max(width - _LABEL - 1, 4)
    lines = [terminal.color(terminal.pad(f"{pair.name}  {title_values(pair, scale)}", width), "1")]
    if scale is None:
        blank = " " * width
        return [*lines, *[blank] * height, blank]
    rows = _plot(pair, scale, last_step, terminal, plot_width, height, color)
    bar, corner = ("|", "+") if terminal.is_ascii else ("│", "└")
    for i, row in enumerate(rows):
        shows = i in (0, height - 1) or (height > 4 and i == height // 2)
        label = number(scale.value(1 - i / max(height - 1, 1))) if shows else ""
        edge = corner if i == height - 1 else bar
        lines.append(f"{label:>{_LABEL}}{edge}{row}")
    steps = f"1{terminal.pad(f'step {last_step}', plot_width - 1, right=True)}"
    lines.append(" " * (width - plot_width) + steps)
    return lines


def title_values(pair: CurvePair, scale: Scale | None) -> str:
    """The last values of a chart, and from where on they are not finite."""
    parts: list[str] = []
    for prefix, curve in (("", pair.training), ("val ", pair.validation)):
        if curve is None or not len(curve.values):
            continue
        parts.append(f"{prefix}{number(float(curve.values[-1]))}")
        bad = first_bad_step(curve)
        if bad is not None:
            parts[-1] += f" (not finite from step {bad})"
    kind = "log scale, " if scale is not None and scale.logarithmic else ""
    return f"{kind}{', '.join(parts)}"


def _plot(
    pair: CurvePair,
    scale: Scale,
    last_step: int,
    terminal: Terminal,
    width: int,
    height: int,
    color: str,
) -> list[str]:
    across, up = (1, 2) if terminal.is_ascii else (2, 4)
    dots = np.zeros((height * up, width * across), bool)
    if pair.training is not None:
        _draw_line(dots, pair.training, scale, last_step)
    marks = _marks(pair.validation, scale, last_step, width, height)
    mark = "o" if terminal.is_ascii else "●"
    rows: list[str] = []
    for i in range(height):
        cells = dots[i * up : (i + 1) * up].reshape(up, width, across)
        letters = _letters(cells, terminal.is_ascii)
        row, start = "", 0
        for j in [*np.flatnonzero(marks[i]).tolist(), width]:
            row += terminal.color(letters[start:j], color if letters[start:j].strip() else "")
            row += terminal.color(mark, "1") if j < width else ""
            start = j + 1
        rows.append(row)
    return rows


def _letters(cells: np.ndarray, is_ascii: bool) -> str:
    """The characters of cells, whose dots are of shape (rows, cells, columns)."""
    if is_ascii:
        codes = cells[0, :, 0] + 2 * cells[1, :, 0]
        return "".join(_ASCII_DOTS[code] for code in codes.tolist())
    codes = np.einsum("rwc,rc->w", cells.astype(np.int64), _DOT_BITS)
    return "".join(chr(_BRAILLE + code) if code else " " for code in codes.tolist())


def _heights(curve: Curve, scale: Scale, last_step: int, columns: int, rows: int) -> np.ndarray:
    """The row of the mean in each column, counted from the top; -1 in columns without values."""
    means = binned(curve, 1, max(last_step, 2), columns)[1]
    shares = scale.share(means)
    heights = np.full(columns, -1, np.int64)
    has_value = np.isfinite(shares)
    tops = np.round((1 - np.clip(shares[has_value], 0, 1)) * (rows - 1))
    heights[has_value] = tops.astype(np.int64)
    return heights


def _draw_line(dots: np.ndarray, curve: Curve, scale: Scale, last_step: int) -> None:
    rows, columns = dots.shape
    heights = _heights(curve, scale, last_step, columns, rows)
    columns_with_values = np.flatnonzero(heights >= 0)
    if not len(columns_with_values):
        return
    between = np.arange(columns_with_values[0], columns_with_values[-1] + 1)
    path = (
        np.interp(between, columns_with_values, heights[columns_with_values])
        .round()
        .astype(np.int64)
    )
    dots[path, between] = True
    for column, before, height in zip(between[1:], path, path[1:], strict=False):
        top, bottom = sorted((int(before), int(height)))
        dots[top : bottom + 1, column] = True


def _marks(
    curve: Curve | None, scale: Scale, last_step: int, width: int, height: int
) -> np.ndarray:
    marks = np.zeros((height, width), bool)
    if curve is not None:
        heights = _heights(curve, scale, last_step, width, height)
        columns_with_values = np.flatnonzero(heights >= 0)
        marks[heights[columns_with_values], columns_with_values] = True
    return marks
