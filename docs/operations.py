"""Writes operations.md, the table of all operations and their facets: python docs/operations.py.

Names of columns are those of facets in trainkit/core/dispatch/facets.py, which describes them.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path
from typing import Any

import trainkit
from trainkit.core.dispatch.facets import Absent, Batch
from trainkit.core.tensor import PRIMITIVES

PAGE = Path(__file__).with_suffix(".md")
WITH_OPERATIONS = ("ops", "graph", "metrics", "summary")
ONNX_FORMS = "trainkit.saved_graph.onnx.rules"  # gives operations their facet

HEAD = """# Operations and their facets

Written by `python docs/operations.py` from the declarations; do not edit it. Every operation has
a record, `op.primitive.facets`, of all that is known of it. What the columns mean, where `-` has
its reason at the end:

- **gradient**: `rules`, one per input, or `joint`, one for all.
- **batch**: how `vectorized_map` and jacobians run it on a stack of values.
- **datasets**: whether elements of a dataset may be mapped as a stack, with the same bits.
- **compiled**: `body` where its body is traced into fused kernels, `rule` where a rule is.
- **again**: what it takes to compute a result again for a gradient: free, cheap or costly.
- **memory**: `fresh` where results have memory of their own, `view` where it may be an input's.
- **reader**: whether `saved_graph/standalone.py`, which needs only NumPy, computes it too.
- **ONNX**: whether `model.export("model.onnx")` and `tk.saved_graph.export_onnx` write it.
- **more**: tuned kernels, inputs read by their shape alone, effects, text, what changes nothing.
"""


def declared() -> list[Any]:
    """All primitives of the package."""
    importlib.import_module(ONNX_FORMS)
    for module in pkgutil.walk_packages(trainkit.__path__, "trainkit."):
        if module.name.split(".")[1] in WITH_OPERATIONS:
            importlib.import_module(module.name)
    return [
        p
        for p in PRIMITIVES.values()
        if p.is_ufunc or (p.body.__module__ or "").startswith("trainkit.")
    ]


class Reasons:
    """Numbers the reasons why facets are absent, so that a cell needs only a number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def mark(self, absent: Absent) -> str:
        """The cell of a facet that is absent."""
        return f"-[^{self.numbers.setdefault(absent.reason, len(self.numbers) + 1)}]"

    def text(self) -> str:
        """The reasons as footnotes."""
        return "\n".join(f"[^{number}]: {reason}." for reason, number in self.numbers.items())


def cells(facets: Any, reasons: Reasons) -> list[str]:
    """The row of an operation."""
    primitive = facets.primitive

    def cell(value: Any, words: Any) -> str:
        return reasons.mark(value) if isinstance(value, Absent) else words(value)

    return [
        f"`{primitive.name}`",
        cell(facets.vjp, lambda value: "rules" if isinstance(value, tuple) else "joint"),
        cell(facets.batch, lambda value: repr(value) if isinstance(value, Batch) else "rule"),
        cell(facets.stackable, lambda value: "as it is" if value is True else "rule"),
        cell(facets.lowering, lambda value: "rule" if callable(value) else "body"),
        facets.recompute,
        facets.memory,
        cell(facets.export, lambda value: "yes"),
        cell(facets.onnx, lambda value: "yes"),
        "; ".join(more(facets)),
    ]


def more(facets: Any) -> list[str]:
    """What only few operations have."""
    found = [] if facets.tuned is None else [repr(facets.tuned)]
    found += [f"{what} of input {place}" for place, what in facets.reads.items()]
    if facets.effect:
        found.append(f"effect: {facets.effect!r}")
    if facets.simplify:
        found.append(f"{facets.simplify}".strip("'"))
    if facets.text:
        found.append(f"text {facets.text}")
    return found


def page() -> str:
    """The page as it should be."""
    families: dict[str, list[Any]] = {}
    for primitive in sorted(declared(), key=lambda p: p.name):
        families.setdefault(repr(primitive.facets.semantics), []).append(primitive.facets)
    reasons, parts = Reasons(), [HEAD]
    titles = ["operation", "gradient", "batch", "datasets", "compiled", "again", "memory"]
    titles += ["reader", "ONNX", "more"]
    for family in sorted(families):
        rows = [" | ".join(cells(facets, reasons)) for facets in families[family]]
        rule = " | ".join("---" for _ in titles)
        table = "\n".join(f"| {row} |" for row in [" | ".join(titles), rule, *rows])
        parts.append(f"## {family[0].upper()}{family[1:]} ({len(rows)})\n\n{table}\n")
    return "\n".join([*parts, reasons.text(), ""])


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(f"operations.py takes no arguments, got {sys.argv[1:]}")
    PAGE.write_text(page(), encoding="utf-8")
