"""`LoadReport`: which array of a file went where, and what was done with it."""

from __future__ import annotations

from dataclasses import dataclass

from trainkit.core.files.printable import printable_line

MOST_LINES = 400


@dataclass(frozen=True)
class Transfer:
    """One variable and what it is made of.

    Attributes:
        path: of the variable in the model.
        sources: names of arrays in the file.
        shape: of the variable.
        text: what was done with the arrays.
        reason: why these.
    """

    path: str
    sources: tuple[str, ...]
    shape: tuple[int, ...]
    text: str
    reason: str


class LoadReport:
    """What `load_into` did, or would have to be said for it to do so. `print(report)` shows it.

    Attributes:
        name: the file.
        transfers: variables that were set, in the order of the model.
        unused: names of arrays that no variable takes, with their shapes.
        missing: paths of variables that nothing was there for, with their shapes.
        ignored: names that have no meaning here, such as `num_batches_tracked`, or were left out.
        problems: sentences on what does not fit.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.transfers: list[Transfer] = []
        self.unused: dict[str, tuple[int, ...]] = {}
        self.missing: dict[str, tuple[int, ...]] = {}
        self.ignored: list[str] = []
        self.problems: list[str] = []

    def __len__(self) -> int:
        return len(self.transfers)

    def __str__(self) -> str:
        counts = f"{len(self.transfers)} variables set"
        for count, text in (
            (len(self.missing), "missing"),
            (len(self.unused), "arrays unused"),
            (len(self.ignored), "left out"),
        ):
            counts += f", {count} {text}" if count else ""
        lines = [f"{self.name}: {counts}", *(f"  ! {problem}" for problem in self.problems)]
        size = max((len(", ".join(t.sources)) for t in self.transfers), default=0)
        lines += [
            f"  {', '.join(t.sources):<{min(size, 60)}} -> {t.path} {t.shape}: {t.text}; {t.reason}"
            for t in self.transfers
        ]
        lines += [f"  missing: {path} {shape}" for path, shape in self.missing.items()]
        lines += [f"  unused: {name} {shape}" for name, shape in self.unused.items()]
        lines += [f"  left out: {name}" for name in self.ignored]
        lines = [printable_line(line) for line in lines]  # names in a file may hold anything
        more = len(lines) - MOST_LINES
        return "\n".join([*lines[:MOST_LINES], *([f"  and {more} more lines"] if more > 0 else [])])

    __repr__ = __str__
