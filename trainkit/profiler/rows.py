"""`Row`: a profile summed up, by operation or by part of the library; as tables of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainkit.core.errors import InvalidArgumentError
from trainkit.profiler.session import Session, ThreadRecord

REST = "Python and the rest"
"""What is in no span: the user's own code, and what of the library has none."""

_ORDERS = ("self", "total", "count", "mean", "name")


@dataclass(frozen=True)
class Row:
    """All spans of one kind, name and shapes.

    Attributes:
        kind: part of the library.
        name: what ran.
        shapes: of its inputs, such as `"(32, 784) (784, 128)"`.
        count: how often.
        total_seconds: from beginning to end, all together.
        self_seconds: the same without spans inside.
        thread: the name of the thread.
    """

    kind: str
    name: str
    shapes: str
    count: int
    total_seconds: float
    self_seconds: float
    thread: str

    @property
    def mean_seconds(self) -> float:
        """From beginning to end, on average."""
        return self.total_seconds / self.count


def rows_of(session: Session) -> list[Row]:
    """A row per kind, name, shapes and thread; those with most time in themselves first."""
    sums: dict[tuple[str, str, str, str], list[int]] = {}
    for record in session.threads:
        for label, numbers in record.totals.items():
            key = (label.kind, label.name, shapes_text(label.shapes), record.name)
            have = sums.setdefault(key, [0, 0, 0])
            sums[key] = [a + b for a, b in zip(have, numbers, strict=True)]
    rows = [
        Row(kind, name, shapes, count, total / 1e9, own / 1e9, thread)
        for (kind, name, shapes, thread), (count, total, own) in sums.items()
    ]
    return sorted(rows, key=lambda row: -row.self_seconds)


def shapes_text(shapes: Any) -> str:
    """Shapes as text, unknown sizes as `?`."""
    if not shapes:
        return ""
    return " ".join("-" if shape is None else _shape_text(shape) for shape in shapes)


def _shape_text(shape: Sequence[Any]) -> str:
    inside = ", ".join("?" if n is None else str(n) for n in shape)
    return f"({inside},)" if len(shape) == 1 else f"({inside})"


def parts_of(session: Session, record: ThreadRecord) -> dict[str, float]:
    """Seconds that a thread spent in each kind of span itself, and in none, largest first."""
    seconds_of: dict[str, float] = {}
    for label, (_, _, own) in record.totals.items():
        seconds_of[label.kind] = seconds_of.get(label.kind, 0.0) + own / 1e9
    if record is session.owner:
        seconds_of[REST] = max(0.0, session.seconds - record.outer / 1e9)
    return dict(sorted(seconds_of.items(), key=lambda item: -item[1]))


def ordered(rows: list[Row], order: str) -> list[Row]:
    """Rows in an order: `"self"`, `"total"`, `"count"`, `"mean"` or `"name"`.

    Raises:
        InvalidArgumentError: it is none of these.
    """
    if order not in _ORDERS:
        raise InvalidArgumentError(f"profile: rows are sorted by one of {_ORDERS}, not {order!r}")
    if order == "name":
        return sorted(rows, key=lambda row: (row.kind, row.name, row.shapes))
    attribute = order if order == "count" else f"{order}_seconds"
    return sorted(rows, key=lambda row: -float(getattr(row, attribute)))


# ------------------------------------------------------------------ as text


def parts_cells(parts: dict[str, float]) -> list[list[str]]:
    """A table of the parts: a head, then a line each."""
    total = sum(parts.values()) or 1.0
    lines = [[name, f"{1e3 * s:.3f}", f"{s / total:.1%}"] for name, s in parts.items()]
    return [["where", "self ms", "share"], *lines]


def row_cells(rows: list[Row], session: Session) -> list[list[str]]:
    """A table of rows: a head, then a line each; the thread is named where it is another one."""
    head = ["kind", "name", "shapes", "count", "total ms", "self ms", "mean us", "self share"]
    own, session_seconds = session.owner.name, session.seconds
    lines = [
        [
            row.kind,
            row.name if row.thread == own else f"{row.name} [{row.thread}]",
            row.shapes,
            f"{row.count:,}",
            f"{1e3 * row.total_seconds:.3f}",
            f"{1e3 * row.self_seconds:.3f}",
            f"{1e6 * row.mean_seconds:.1f}",
            f"{row.self_seconds / session_seconds:.1%}",
        ]
        for row in rows
    ]
    return [head, *lines]


def cut(text: str, width: int) -> str:
    """A text that is longer than `width` without its end."""
    return text if len(text) <= width else f"{text[: width - 3]}..."


def as_text(cells: list[list[str]], texts: int) -> str:
    """Cells in columns; the first `texts` of them are texts, the others numbers."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for line in cells:
        aligned = [
            cell.ljust(width) if i < texts else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def as_markdown(cells: list[list[str]], texts: int) -> str:
    """Cells as a table of Markdown."""
    head, *lines = cells
    rule = ["---" if i < texts else "---:" for i in range(len(head))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *lines])
