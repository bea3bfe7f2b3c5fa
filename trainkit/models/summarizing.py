"""The text of `Model.summary`: a table of the layers, in Keras's columns."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from typing import Any, NamedTuple

from trainkit.core import nest
from trainkit.layers.base import tracking
from trainkit.layers.base.error_context import shown_kind
from trainkit.layers.base.layer import Layer

_LINE = 88
_LINE_WITH_CONNECTIONS = 108
_TRAINABLE_COLUMNS = 12
_MARGIN = 4
_NARROWEST = 4
_NARROWEST_NAMES = 10
_LEAST_OF_A_COLUMN = 12


_BREAKS = re.compile(r"(?<=_)(?=[^_])|(?<=[a-z])(?=[A-Z])")


class _TableColumn(NamedTuple):
    """A column of the table: its head, where it ends as a share of the line, and its alignment."""

    head: str
    end: float
    align: str = "<"


_COLUMNS = [
    _TableColumn("Layer (type)", 0.45),
    _TableColumn("Output Shape", 0.80),
    _TableColumn("Param #", 1.0, ">"),
]
_COLUMNS_WITH_CONNECTIONS = [
    _TableColumn("Layer (type)", 0.3),
    _TableColumn("Output Shape", 0.56),
    _TableColumn("Param #", 0.74, ">"),
    _TableColumn("Connected to", 1.0),
]


class _Border(NamedTuple):
    """The characters of the table's lines: left, horizontal, between, right; then the vertical."""

    top: str
    below_head: str
    between: str
    bottom: str
    head_bar: str
    bar: str


_DRAWN = _Border("┏━┳┓", "┡━╇┩", "├─┼┤", "└─┴┘", "┃", "│")
_ASCII = _Border("+-++", "+=++", "+-++", "+-++", "|", "|")


def summary_text(
    model: Any,
    line_length: int | None = None,
    positions: list[float] | None = None,
    expand_nested: bool = False,
    show_trainable: bool = False,
    layer_range: Any = None,
) -> str:
    """A table of the layers, then the numbers of weights; see `Model.summary`."""
    branched = _is_branched(model)
    length = line_length or _line_length(branched, show_trainable)
    columns = _columns(branched, positions, show_trainable, length)
    widths = _widths(columns, length)
    layers = _shown(model)
    first, end = _range(layers, layer_range)
    rows = _rows(layers[first:end], model, branched, expand_nested, show_trainable, 0)
    if line_length is None and positions is None:
        widths = _widths_for_words(widths, [[column.head for column in columns], *rows])
    table = _table(columns, widths, rows, _frame())
    return "\n".join([f'Model: "{model.name}"', *table, *total_lines(model)])


def _frame() -> _Border:
    try:
        "".join(_DRAWN).encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (LookupError, UnicodeEncodeError):
        return _ASCII
    return _DRAWN


# ------------------------------------------------------------------ columns


def _columns(
    branched: bool, positions: Any, show_trainable: bool, length: int
) -> list[_TableColumn]:
    columns = _COLUMNS_WITH_CONNECTIONS if branched else _COLUMNS
    if positions is not None:
        if len(positions) != len(columns):
            raise ValueError(
                f"summary: positions has {len(positions)} numbers, the table has {len(columns)} "
                f"columns: {', '.join(column.head for column in columns)}"
            )
        columns = [c._replace(end=float(p)) for c, p in zip(columns, positions, strict=True)]
    if show_trainable:
        left = 1 - _TRAINABLE_COLUMNS / length
        columns = [column._replace(end=column.end * left) for column in columns]
        columns.append(_TableColumn("Trainable", columns[-1].end / left, "^"))
    return columns


def _line_length(branched: bool, show_trainable: bool) -> int:
    length = _LINE_WITH_CONNECTIONS if branched else _LINE
    length += _TRAINABLE_COLUMNS * show_trainable
    narrowest = _LEAST_OF_A_COLUMN * (3 + branched + show_trainable)
    return max(min(length, shutil.get_terminal_size().columns - _MARGIN), narrowest)


def _widths(columns: list[_TableColumn], length: int) -> list[int]:
    """Characters of each column, without its two blanks and one bar."""
    relative = max(column.end for column in columns) <= 1
    room = length - 1
    ends = [int(c.end * room) if relative else int(c.end) for c in columns]
    starts = [0, *ends[:-1]]
    widths = [end - start - 3 for start, end in zip(starts, ends, strict=True)]
    if min(widths) < _NARROWEST:
        raise ValueError(
            f"summary: {length} columns are too few for {len(columns)} columns of the table; give "
            "a larger line_length"
        )
    return widths


def _widths_for_words(widths: list[int], rows: list[list[str]]) -> list[int]:
    """Widths that break no word, where the others would; else the names alone are broken."""
    columns = [[row[i] for row in rows] for i in range(len(widths))]
    longest = [max(len(word) for cell in cells for word in cell.split()) for cells in columns]
    if all(word <= width for word, width in zip(longest, widths, strict=True)):
        return widths
    spare = sum(widths) + _MARGIN - sum(longest)  # up to the edge of the terminal
    if spare < 0:
        names = longest[0] + spare
        return widths if names < min(widths[0], _NARROWEST_NAMES) else [names, *longest[1:]]
    needs = [max(map(len, cells)) - word for cells, word in zip(columns, longest, strict=True)]
    shares = [spare * need // max(sum(needs), 1) for need in needs]
    return [
        word + min(share, need) for word, share, need in zip(longest, shares, needs, strict=True)
    ]


# ------------------------------------------------------------------ rows


def _shown(model: Any) -> list[Any]:
    """The layers of a model; of a functional one also the operations between them."""
    graph = model._graph
    return list(model.layers if graph is None or hasattr(model, "pop") else graph.operations)


def _is_branched(model: Any) -> bool:
    """Whether the layers of a functional model are no plain chain."""
    graph = model._graph
    if graph is None or hasattr(model, "pop"):  # Sequential
        return False
    operations = [id(node.operation) for node in graph.nodes]
    if len(set(operations)) < len(operations) or len(graph.flat_inputs) > 1:
        return True
    before: Any = None
    for node in graph.nodes:
        sources = _sources(node)
        if len(sources) > 1 or (sources and before is not None and sources[0].node is not before):
            return True
        before = node
    return False


def _sources(node: Any) -> list[Any]:
    """The symbolic tensors that a call takes."""
    leaves = nest.flatten((node.args, node.kwargs))
    return [x for x in leaves if getattr(x, "node", None) is not None]


def _rows(
    layers: Any, model: Any, branched: bool, expand_nested: bool, show_trainable: bool, depth: int
) -> list[list[str]]:
    rows = []
    mark = "   " * depth + "└ " if depth else ""
    for layer in layers:
        name, shape, weights = layer_facts(layer)
        row = [f"{mark}{name}", shape, weights]
        if branched:
            row.append(_connections(layer, model) if depth == 0 else "-")
        if show_trainable:
            row.append("-" if not layer.weights else "Y" if layer.trainable else "N")
        rows.append(row)
        inside = getattr(layer, "layers", None)
        if expand_nested and inside:
            rows += _rows(inside, layer, branched, expand_nested, show_trainable, depth + 1)
    return rows


def layer_facts(layer: Any) -> tuple[str, str, str]:
    """Name with class, output shape and number of weights of a layer, as texts."""
    return f"{layer.name} ({shown_kind(layer)})", _shape_text(layer), _count_text(layer)


def _count_text(layer: Any) -> str:
    return f"{count(layer.weights):,}" if layer.built else "0 (unbuilt)"


def _connections(layer: Any, model: Any) -> str:
    """Where each input of the layer's calls comes from: name, call and output."""
    connections = []
    for node in model._graph.nodes:
        if node.operation is layer:
            for x in _sources(node):
                history = x._keras_history
                name = history.operation.name
                connections.append(f"{name}[{history.node_index}][{history.tensor_index}]")
    return ", ".join(connections) or "-"


def _shape_text(layer: Layer) -> str:
    """The output shape of the layer's first call in a model, or what follows from its build."""
    if layer.__dict__["_symbolic_call"] is not None:
        return _shapes(nest.flatten(layer.__dict__["_symbolic_call"][1]))
    shapes = layer.__dict__.get("_build_shapes")
    if not shapes:
        return "?"
    try:
        shape = layer.compute_output_shape(**shapes)
    except Exception:  # a layer that can't say before it is called
        return "?"
    return str(shape)


def _shapes(outputs: list[Any]) -> str:
    return ", ".join(str(tuple(y.shape)) for y in outputs)


def _range(layers: Any, layer_range: Any) -> tuple[int, int]:
    """The first layer to show and the one after the last."""
    if layer_range is None:
        return 0, len(layers)
    pair = tuple(layer_range) if isinstance(layer_range, list | tuple) else ()
    if len(pair) != 2 or not all(isinstance(name, str) for name in pair):
        raise ValueError(
            f"summary: layer_range must be two names of layers, or patterns of them, got "
            f"{layer_range!r}"
        )
    matching = [[i for i, x in enumerate(layers) if re.match(name, x.name)] for name in pair]
    for name, indices in zip(pair, matching, strict=True):
        if not indices:
            names = ", ".join(x.name for x in layers)
            raise ValueError(
                f"summary: layer_range names {name!r}, and the layers are called {names}"
            )
    low, high = min(matching[0]), max(matching[1])
    if min(matching[0]) > max(matching[1]):
        low, high = min(matching[1]), max(matching[0])
    return low, high + 1


# ------------------------------------------------------------------ drawing


def _table(
    columns: list[_TableColumn], widths: list[int], rows: list[list[str]], frame: _Border
) -> list[str]:
    def rule(marks: str) -> str:
        left, flat, between, right = tuple(marks)
        return left + between.join(flat * (width + 2) for width in widths) + right

    head = [column.head for column in columns]
    aligned = [column.align for column in columns]
    lines = [rule(frame.top), *_cells(head, widths, aligned, frame.head_bar)]
    lines.append(rule(frame.below_head))
    for i, row in enumerate(rows):
        lines += [rule(frame.between)] * (i > 0) + _cells(row, widths, aligned, frame.bar)
    return [*lines, rule(frame.bottom)]


def _cells(row: list[str], widths: list[int], aligned: list[str], bar: str) -> list[str]:
    """A row of the table; a text that is too wide for its column goes on below."""
    parts = [_wrap(cell, width) for cell, width in zip(row, widths, strict=True)]
    lines = []
    for i in range(max(map(len, parts))):
        texts = [
            f"{(part[i] if i < len(part) else ''):{align}{width}}"
            for part, width, align in zip(parts, widths, aligned, strict=True)
        ]
        lines.append(f"{bar} " + f" {bar} ".join(texts) + f" {bar}")
    return lines


def _broken(word: str, width: int) -> str:
    """A word that is wider than its column, in parts: after a "_" or before a capital at best."""
    parts, left = [], word
    while len(left) > width:
        ends = [m.start() for m in _BREAKS.finditer(left, 2, width + 1)]
        end = ends[-1] if ends else width
        parts.append(left[:end])
        left = left[end:]
    return " ".join([*parts, left])


def _wrap(text: str, width: int) -> list[str]:
    words = [_broken(word, width) if len(word) > width else word for word in text.split(" ")]
    lines = textwrap.wrap(" ".join(words), width, drop_whitespace=True, break_on_hyphens=False)
    # a name as wide as its column pushes the comma after it to the next line
    return [line for line in (line.lstrip(", ") for line in lines) if line] or [""]


# ------------------------------------------------------------------ totals


def count(variables: list[Any]) -> int:
    """The number of scalars in all variables."""
    return sum(int(v.size) for v in tracking.once(variables))


def _sized(words: str, variables: list[Any]) -> str:
    size = sum(int(v.size) * v.dtype.size for v in tracking.once(variables))
    return f" {words} params: {count(variables):,} ({size_text(size)})"


def total_lines(model: Any) -> list[str]:
    """The numbers of weights of a model, by what they are for."""
    optimizer = model.optimizer if model.compiled else None
    slots = list(optimizer.variables) if optimizer is not None and optimizer.built else []
    lines = [
        _sized("Total", [*model.weights, *slots]),
        _sized("Trainable", model.trainable_weights),
        _sized("Non-trainable", model.non_trainable_weights),
    ]
    if slots:
        lines.append(_sized("Optimizer", slots))
    if not model.built:
        lines.append(" The model is not built yet: call it on data, or build(input_shape).")
    return lines


def size_text(size: float) -> str:
    """A number of bytes with its unit.

    >>> size_text(2048)
    '2.00 KB'
    """
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if size < 1024 or unit == "TB":
            break
        size /= 1024
    return f"{size:.2f} {unit}"
